"""One file over HTTP(S): resumed where it broke off, tried again with patience, never more than it may be."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from worldloom.schemas import DataError

ATTEMPTS = 5                    # in a row without one new byte
FIRST_WAIT_S = 0.5              # doubled by each of them
LONGEST_WAIT_S = 60.0
FILE_S = 6 * 3600.0             # a server that sends a byte now and then does not hold a run for ever
PASSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PIECE = 1 << 20
_BROKEN = (OSError, http.client.HTTPException)


class NotAFile(DataError):
    """The address answers with a page and not with a video file."""


class Hosts:
    """Lets requests to one host begin no more often than so many a second."""

    def __init__(self, requests_per_s: float) -> None:
        self.gap_s, self.lock, self.next_s = 1.0 / requests_per_s, threading.Lock(), dict[str, float]()

    def wait(self, url: str, *, at_least_s: float = 0.0) -> None:
        host = urlsplit(url).netloc
        with self.lock:
            begin = max(self.next_s.get(host, 0.0), time.monotonic() + at_least_s)
            self.next_s[host] = begin + self.gap_s
        time.sleep(max(0.0, begin - time.monotonic()))


class Download:
    """A file on its way to `path`: beside it lie the bytes so far and what the server said of them."""

    def __init__(self, url: str, path: Path, hosts: Hosts, *, max_bytes: int, timeout_s: float) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise DataError(f"{url[:200]!r} is not an address; http:// or https:// is wanted")
        self.url, self.path, self.hosts, self.max_bytes, self.timeout_s = url, path, hosts, max_bytes, timeout_s
        self.part, self.note = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")
        self.total: int | None = None

    def run(self) -> None:
        """Fetch the file.

        Raises:
            NotAFile: a page came.
            DataError: it cannot be had, or is larger than it may be.
        """
        left, deadline, wait_s = ATTEMPTS, time.monotonic() + FILE_S, 0.0
        while True:
            self.hosts.wait(self.url, at_least_s=wait_s)
            before = self._size()
            try:
                if self._attempt(deadline):
                    self._finish()
                    return
                why = f"broke off at {self._size():,} of {self.total or '?'} bytes"
                wait_s = 0.0
            except urllib.error.HTTPError as error:
                why, wait_s = f"HTTP {error.code} {error.reason}", _asked_wait_s(error.headers)
                error.close()
                if error.code not in PASSES:
                    raise DataError(f"{self.url}: {why}") from None
            except _BROKEN as error:
                why, wait_s = _reason(error), 0.0
            left = ATTEMPTS if self._size() > before else left - 1
            if left == 0 or time.monotonic() > deadline:
                raise DataError(f"{self.url}: {why}; given up after {ATTEMPTS} tries without a new byte")
            backoff_s = FIRST_WAIT_S * 2.0 ** (ATTEMPTS - left - 1) if left < ATTEMPTS else 0.0
            wait_s = min(LONGEST_WAIT_S, max(wait_s, backoff_s))

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _attempt(self, deadline: float) -> bool:
        """Ask once for what is missing; whether the file is whole."""
        address = quote(self.url, safe="%/:=&?~#+!$,;'@()*[]")
        request = urllib.request.Request(address, headers={"User-Agent": "worldloom", "Accept-Encoding": "identity"})
        mark = json.loads(self.note.read_text()).get("mark") if self.note.exists() else None
        if (have := self._size()) and mark:
            request.add_header("Range", f"bytes={have}-")
            request.add_header("If-Range", mark)
        try:
            answer = _OPENER.open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            if error.code != 416:
                raise
            error.close()
            self.part.unlink(missing_ok=True)                       # the file is another now
            return False
        with answer:
            begin = _begin(answer.headers) if answer.status == 206 else 0
            self._accept(answer.headers, begin)
            with self.part.open("r+b" if self.part.exists() else "wb") as file:
                file.truncate(begin)
                file.seek(begin)
                while piece := answer.read1(_PIECE):
                    if file.tell() + len(piece) > self.max_bytes:
                        raise DataError(self._too_large())
                    file.write(piece)
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"took longer than {FILE_S:g} s")
        return self.total is None or self._size() == self.total

    def _accept(self, headers: Message, begin: int) -> None:
        """Check what the answer says of itself before its bytes are taken."""
        kind = (headers.get("Content-Type") or "").split(";")[0].strip().lower()
        if kind.startswith("text/") or kind in ("application/json", "application/xhtml+xml", "application/xml"):
            raise NotAFile(f"{self.url}: a page ({kind}) and not a video file")
        if begin > self._size():
            raise OSError(f"asked for bytes from {self._size():,} and got them from {begin:,}")
        length = headers.get("Content-Length")
        self.total = begin + int(length) if length and length.isdigit() else None
        if self.total is not None and self.total > self.max_bytes:
            raise DataError(self._too_large())
        tag = headers.get("ETag") or ""
        mark = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
        self.note.write_text(json.dumps({"mark": mark}))

    def _too_large(self) -> str:
        size = "" if self.total is None else f"{self.total:,} bytes, "
        return f"{self.url}: {size}more than the {self.max_bytes:,} that max_mib allows"

    def _finish(self) -> None:
        if self._size() == 0:
            self.part.unlink(missing_ok=True)
            raise DataError(f"{self.url}: an empty file")
        os.replace(self.part, self.path)
        self.note.unlink(missing_ok=True)


def _begin(headers: Message) -> int:
    """First byte of a part: Content-Range: bytes 100-199/200."""
    text = (headers.get("Content-Range") or "").removeprefix("bytes ").split("-")[0]
    if not text.isdigit():
        raise OSError("an answer in parts that does not say which")
    return int(text)


def _asked_wait_s(headers: Message) -> float:
    text = headers.get("Retry-After") or ""
    return min(float(text), LONGEST_WAIT_S) if text.isdigit() else 0.0


def _reason(error: BaseException) -> str:
    inner: Any = getattr(error, "reason", None) or error
    return " ".join(str(inner).split())[:200] or type(inner).__name__


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS alone: an address that leads on to file:// or ftp:// leads nowhere."""
    opener = urllib.request.OpenerDirector()
    handlers: tuple[Callable[[], Any], ...] = (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler)
    for handler in handlers:
        opener.add_handler(handler())
    return opener


_OPENER = _opener()
