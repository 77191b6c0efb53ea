"""A corpus in object storage: a working copy on this machine, and the bucket that holds the truth.

A working copy is a corpus folder with a note of its URL. It is pulled before it is read or written. What is written
goes up at once, in an order that leaves nothing to lose: media, then the parts that name them, the manifest last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from worldloom.dataengine.objects import Objects, is_url
from worldloom.dataengine.progress import Progress
from worldloom.dataengine.remote_lock import RemoteLock
from worldloom.dataengine.store import REMOTE_NOTE, InUse, folder_lock, publish, read_manifest, scratch_path
from worldloom.schemas import ConfigError, DataError, ids

AT_ONCE = 8
MANIFEST, LOCK = "manifest.json", "lock.json"


def cache_folder() -> Path:
    """Where working copies lie: $WORLDLOOM_CACHE, else worldloom in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("WORLDLOOM_CACHE") or Path(base) / "worldloom").expanduser()


def working_copy(corpus: str | os.PathLike[str]) -> Path:
    """The folder of a corpus: itself, or the working copy of a URL, made where there is none. Nothing is pulled yet."""
    text = os.fspath(corpus)
    if not is_url(text):
        return Path(text)
    url = text.rstrip("/")
    Objects(url)                                                     # refused here rather than in the middle
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    name = url.rpartition("/")[2]
    folder = cache_folder() / "corpora" / f"{name}-{ids.digest([url, server])}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / REMOTE_NOTE).exists():
        note = scratch_path(folder, "note.json")
        note.write_text(json.dumps({"url": url}))
        publish(note, folder / REMOTE_NOTE)
    return folder


_copies: dict[Path, RemoteCorpus] = {}


def remote_of(folder: Path) -> RemoteCorpus:
    """The bucket behind a working copy; one for each in a process."""
    folder = folder.resolve()
    if folder not in _copies:
        _copies[folder] = RemoteCorpus(folder, json.loads((folder / REMOTE_NOTE).read_text())["url"])
    return _copies[folder]


class RemoteCorpus:
    """One bucket and its working copy. `stored` names the parts that the bucket is known to hold."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.objects = Objects(url)
        self.stored: set[str] = set()
        self.lock: RemoteLock | None = None

    def refresh(self) -> None:
        """Pull what the manifest lists; a run on this machine that holds the folder keeps it fresh itself."""
        try:
            with folder_lock(self.folder):
                if self.lock is None:
                    self._pull(listed_only=True)
        except InUse:
            return

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the bucket for writing, with every finished part here.

        Raises:
            ConfigError: another writer holds it, or it does not answer.
        """
        self.lock = RemoteLock(self.objects, LOCK)
        try:
            with self.lock:
                self._pull(listed_only=False)
                yield
        finally:
            self.lock = None

    def push_part(self, table: str, key: str) -> None:
        """Store a part that the bucket lacks: the media that it names, then the part."""
        name = _part_name(table, key)
        if name in self.stored:
            return
        media = _media(self.folder / name)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda inside: self.objects.put(self.folder / inside, inside), media))
        self.objects.put(self.folder / name, name)
        self._note([name])

    def push_manifest(self) -> None:
        """Make the parts that the manifest lists the current ones, after all of them are there."""
        for table, keys in read_manifest(self.folder).items():
            for key in keys:
                self.push_part(table, key)
        self.push_file(MANIFEST)

    def push_file(self, name: str) -> None:
        if self.lock is None:
            raise ConfigError(f"{self.url}: not held for writing")
        self.lock.check()
        self.objects.put(self.folder / name, name)

    def fetch(self, name: str) -> None:
        """Bring one file here, whole or not at all. Raises DataError where the bucket has none."""
        scratch = scratch_path(self.folder, Path(name).name)
        try:
            self.objects.get(name, scratch)
            publish(scratch, self.folder / name)
        finally:
            scratch.unlink(missing_ok=True)

    def _pull(self, listed_only: bool) -> None:
        data = self.objects.read(MANIFEST)
        if listed_only:
            tables = json.loads(data)["tables"] if data else {}
            names = {_part_name(table, key) for table, keys in tables.items() for key in keys}
        else:
            names = {name for name in self.objects.listing("tables") if name.endswith(".parquet")}
            self.stored = names
            self._forget_unfinished(names)
        known = self._noted()
        missing = sorted(name for name in names if name not in known or not (self.folder / name).exists())
        self._fetch_parts(missing)
        path = self.folder / MANIFEST
        if data is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != data:
            scratch = scratch_path(self.folder, MANIFEST)
            scratch.write_bytes(data)
            publish(scratch, path)

    def _fetch_parts(self, names: list[str]) -> None:
        progress = Progress("pull", len(names), unit="parts")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for _ in pool.map(self._fetch_part, names):
                    progress.advance()
            finally:
                pool.shutdown(cancel_futures=True)
                progress.finish()
        self._note(names)

    def _fetch_part(self, name: str) -> None:
        """Bring a part here; media of the same name that a run left here before, of other bytes, make way for it."""
        was_here = (self.folder / name).exists()
        try:
            self.fetch(name)
        except DataError as error:
            raise ConfigError(f"{error}; the manifest lists it; run the plan again") from None
        if was_here:
            for inside, sha256 in _media(self.folder / name).items():
                path = self.folder / inside
                if path.exists() and ids.file_sha256(path) != sha256:
                    path.unlink()

    def _forget_unfinished(self, names: set[str]) -> None:
        """Remove parts that never went up and whose media are not all here: they are made again."""
        for path in self.folder.glob("tables/*/*.parquet"):
            name = path.relative_to(self.folder).as_posix()
            if name not in names and not all((self.folder / inside).exists() for inside in _media(path)):
                path.unlink()

    def _noted(self) -> set[str]:
        """Parts of this folder that are the bucket's own, and not what a killed run has left here."""
        path = self.folder / ".pulled.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def _note(self, names: Iterable[str]) -> None:
        self.stored |= set(names)
        before = self._noted()
        if not before.issuperset(names):
            scratch = scratch_path(self.folder, "pulled.json")
            scratch.write_text(json.dumps(sorted(before | set(names))))
            publish(scratch, self.folder / ".pulled.json")


def _part_name(table: str, key: str) -> str:
    return f"tables/{table}/{key}.parquet"


def _media(part: Path) -> dict[str, str]:
    """Media files that the rows of a part name, with their SHA-256."""
    schema = pq.read_schema(part)
    if "media" not in schema.names or "media_sha256" not in schema.names:
        return {}
    table = pq.read_table(part, columns=["media", "media_sha256"])
    return dict(zip(table["media"].to_pylist(), table["media_sha256"].to_pylist(), strict=True))
