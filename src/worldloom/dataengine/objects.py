"""Files under a URL, through fsspec: s3://, gs:// and whatever else is installed. Errors are one line.

Who is asking is read from the environment and the provider's own files, never from a plan.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldloom.schemas import ConfigError, DataError

PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""Protocols whose puts are whole or not at all, and the package of each."""
CLIENTS = ("botocore", "aiobotocore", "aiohttp", "s3fs", "gcsfs", "google", "adlfs", "azure")
S3_CLIENT = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 4, "mode": "standard"}}
PART = ".part"


@dataclass(frozen=True)
class Stored:
    """What a listing says of one object."""
    size: int
    tag: str          # the server's mark of these bytes, or the time of change; "" where it has neither


def is_url(text: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(text)


def safe_name(name: str) -> bool:
    """Whether a name given from outside stays inside the folder that it is put into."""
    parts = name.split("/")
    return not any(p in ("", ".", "..") or "\0" in p or len(os.fsencode(p)) > 240 for p in parts)


class Objects:
    """The objects below one URL, by their names inside it. Safe to use from several threads."""

    def __init__(self, url: str, endpoint_url: str | None = None) -> None:
        """Raises ConfigError where the protocol or its package is not there; nothing is asked of the network yet."""
        self.url, self.protocol = url.rstrip("/"), url.split("://")[0]
        self.fs = _filesystem(self.protocol, self.url, endpoint_url)
        self.root = self.fs._strip_protocol(self.url).rstrip("/")
        if not self.root or "@" in self.root.split("/")[0]:
            raise ConfigError(f"{self.protocol}://: name a bucket or folder, and no credentials, in the URL")

    def listing(self, under: str = "") -> dict[str, Stored]:
        """Every object below `under`, by name inside the URL; none where nothing is there."""
        with self._told():
            found = self.fs.find(posixpath.join(self.root, under) if under else self.root, detail=True)
        inside = {path[len(self.root) + 1:]: info for path, info in found.items() if not path.endswith(("/", PART))}
        return {name: _stored(info) for name, info in sorted(inside.items())}

    def read(self, name: str) -> bytes | None:
        """The bytes of an object, None where there is none."""
        with self._told():
            try:
                return self.fs.cat_file(self._path(name))
            except FileNotFoundError:
                return None

    def get(self, name: str, path: Path) -> None:
        """Write an object to `path`.

        Raises:
            DataError: this one is gone or not ours to read.
            ConfigError: the store does not answer.
        """
        with self._told():
            try:
                self.fs.get_file(self._path(name), str(path))
            except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
                raise DataError(f"{self.url}/{name}: {_one_line(error)}") from None

    def put(self, path: Path, name: str) -> None:
        """Store a file, whole or not at all."""
        target = self._path(name)
        with self._told():
            if self.protocol in PACKAGES:
                self.fs.put_file(str(path), target)
                return
            self.fs.makedirs(posixpath.dirname(target), exist_ok=True)
            self.fs.put_file(str(path), target + PART)
            self.fs.mv(target + PART, target)

    def write(self, name: str, data: bytes) -> None:
        with self._told():
            self.fs.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Store an object that is not there yet; False where it is."""
        with self._told():
            try:
                if self.protocol not in PACKAGES:
                    self.fs.makedirs(posixpath.dirname(self._path(name)), exist_ok=True)
                self.fs.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
        return True

    def remove(self, name: str) -> None:
        with self._told():
            try:
                self.fs.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Anything the store or the way to it raises, as one line that names the URL."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, OSError) and type(error).__module__.split(".")[0] not in CLIENTS:
                raise
            raise ConfigError(f"{self.url}: {_one_line(error)}; what is finished is kept, run again when that is "
                              "put right") from None


def _filesystem(protocol: str, url: str, endpoint_url: str | None) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ConfigError(f"{url}: object storage needs fsspec; pip install 'worldloom[cloud]'") from None
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if protocol in ("s3", "s3a"):
        options |= {"config_kwargs": S3_CLIENT} | ({"endpoint_url": endpoint_url} if endpoint_url else {})
    elif endpoint_url:
        options |= {"endpoint_url": endpoint_url}
    try:
        found = fsspec.filesystem(protocol, **options)
        if getattr(found, "loop", None) is not None:
            found.loop.set_exception_handler(_left_over)
        return found
    except ImportError:
        package = PACKAGES.get(protocol, "its package")
        raise ConfigError(f"{url}: {protocol}:// needs {package}; pip install {package}") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{url}: {_one_line(error)}") from None


def _left_over(loop: Any, context: dict[str, Any]) -> None:
    """What a broken connection leaves behind in the client's loop; the call that needed it has raised it already."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


def _stored(info: dict[str, Any]) -> Stored:
    tag = info.get("ETag") or info.get("etag") or info.get("LastModified") or info.get("mtime") or ""
    return Stored(int(info.get("size") or 0), str(tag).strip('"'))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
