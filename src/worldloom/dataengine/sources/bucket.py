"""Videos in object storage: brought into corpus/incoming once, then read as the folder they are.

Kind `bucket` lists what kind `folder` would. Any other kind whose `path` is a URL is brought in the same way and read
by its own reader, so rows and ids are those of the same files on a disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from worldloom.dataengine.objects import Objects, Stored, safe_name
from worldloom.dataengine.progress import Progress
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.params import FileEntry, SourceParams
from worldloom.dataengine.stage import encode_name
from worldloom.schemas import ConfigError, DataError, Source, ids

AT_ONCE = 8
"""Downloads at the same time: many small files wait on the network, not on this machine."""
SIDE_ENDINGS = (".json", ".parquet", ".csv", ".npy", ".npz", ".txt")
_SAVE_EVERY = 50
_INDEX = ".index.json"


class BucketReader:
    """A source whose path is a URL that fsspec opens; `reader` makes the reader of the folder it is brought into."""
    opens_urls = True
    pose_mode = "none"
    scale_status = "unknown"
    convention = None

    def __init__(self, params: SourceParams, reader: Callable[[SourceParams], Any] | None = None) -> None:
        from worldloom.dataengine.sources.readers import FolderReader

        if "://" not in params.path:
            raise ConfigError(f"source {params.name}: {params.path} is not a URL such as s3://bucket/folder")
        self.params, self.root = params, Path(params.path)
        self.objects = Objects(params.path, params.endpoint_url)
        self.reader = reader or FolderReader
        self.failed: dict[str, str] = {}

    @property
    def source_id(self) -> str:
        return ids.source_id(self.params.kind, self.params.name)

    def source_row(self) -> Source:
        row = self.inside.source_row()
        return replace(row, url=row.url or self.params.path)

    def prepare(self, corpus: Path) -> None:
        """Bring in what is new or has changed, several files at once.

        Raises:
            ConfigError: the store does not answer, or holds nothing there.
        """
        from worldloom.dataengine.sources.readers import FolderReader

        is_folder = isinstance(self.reader, type) and issubclass(self.reader, FolderReader)
        folder = corpus / "incoming" / (self.source_id if is_folder else f"{self.source_id}-objects")
        folder.mkdir(parents=True, exist_ok=True)
        self.inside = self.reader(self.params.model_copy(update={"path": str(folder)}))
        found = {name: stored for name, stored in self.objects.listing().items()
                 if _is_shown(name) and (not is_folder or self._is_wanted(name))}
        if not found:
            raise ConfigError(f"source {self.params.name}: no video under {self.params.path}; nothing was changed")
        self.failed = Incoming(self.objects, folder, self.params.name).bring(found)
        self.inside.prepare(corpus)
        self.root = self.inside.root

    def _is_wanted(self, name: str) -> bool:
        return is_video_name(name.rpartition("/")[2]) or (
            self.inside.wants_sidecars and name.lower().endswith(SIDE_ENDINGS))

    def entries(self) -> Iterator[FileEntry]:
        """The reader's own entries, and one with its problem for each file that could not be brought in."""
        unclaimed = dict(self.failed)
        for entry in self.inside.entries():
            stem = entry.name.rpartition(".")[0]
            missing = next((name for name in self.failed if encode_name(name).startswith(f"{stem}.")), None)
            unclaimed.pop(missing or "", None)
            yield replace(entry, problem=self.failed[missing]) if missing and not entry.problem else entry
        for name, problem in unclaimed.items():
            yield FileEntry(encode_name(name), str(self.root / name.strip("/")), self.source_id, problem=problem)


def _is_shown(name: str) -> bool:
    return not any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


class Incoming:
    """A folder kept equal to a listing: what is there with the same size and tag is not brought again."""

    def __init__(self, objects: Objects, folder: Path, name: str) -> None:
        self.objects, self.folder, self.name = objects, folder, name
        path = folder / _INDEX
        self.known: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {}

    def bring(self, found: Mapping[str, Stored]) -> dict[str, str]:
        """Download what is missing, remove what is gone; the problem of each file that could not be had."""
        for name in self.known.keys() - found.keys():
            self._drop(name)
        missing = {name: stored for name, stored in found.items() if not self._is_here(name, stored)}
        progress = Progress(f"fetch {self.name}", len(missing), unit="files")
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = {pool.submit(self._bring_one, name, stored): name for name, stored in missing.items()}
            try:
                for count, future in enumerate(as_completed(waiting), start=1):
                    name, problem = waiting[future], future.result()
                    if problem is None:
                        self.known[name] = [missing[name].size, missing[name].tag]
                    else:
                        self._drop(name)
                        failed[name] = problem
                    progress.advance(failed=problem is not None)
                    if count % _SAVE_EVERY == 0:
                        self._save()
            finally:
                pool.shutdown(cancel_futures=True)
                self._save()
                progress.finish()
        return dict(sorted(failed.items()))

    def _is_here(self, name: str, stored: Stored) -> bool:
        path = self.folder / name
        return (self.known.get(name) == [stored.size, stored.tag] and path.is_file()
                and path.stat().st_size == stored.size)

    def _bring_one(self, name: str, stored: Stored) -> str | None:
        """Download one file under a hidden name, then give it its own; the problem where it cannot be had."""
        if not safe_name(name):
            return "its name leads out of the folder or cannot be a file's name here"
        path = self.folder / name
        scratch = path.with_name(f".{ids.digest(name)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.objects.get(name, scratch)
            if (size := scratch.stat().st_size) != stored.size:
                return f"{size:,} bytes came, the listing says {stored.size:,}; run again"
            os.replace(scratch, path)
        except DataError as error:
            return str(error)
        except OSError as error:
            return f"{error.strerror or error}"
        finally:
            scratch.unlink(missing_ok=True)
        return None

    def _drop(self, name: str) -> None:
        self.known.pop(name, None)
        path = self.folder / name
        if safe_name(name) and path.is_file():
            path.unlink()

    def _save(self) -> None:
        scratch = self.folder / f"{_INDEX}.tmp"
        scratch.write_text(json.dumps(self.known))
        os.replace(scratch, self.folder / _INDEX)
