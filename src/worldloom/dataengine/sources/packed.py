"""What every reader of packed data does: bring its videos out once, as files with what the data says of each.

A kind's own class lists `bundles`: a tar, a table, a shared video. `prepare` has each bundle make its files in
corpus/incoming/<source_id>/ and notes what came out; a bundle whose files did not change is not unpacked again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from worldloom.dataengine.progress import Progress
from worldloom.dataengine.sources.dataset_card import card_licence, spdx
from worldloom.dataengine.sources.params import FileEntry, SourceParams
from worldloom.dataengine.stage import encode_name
from worldloom.schemas import ConfigError, DataError, Source, ids

BROKEN = (DataError, OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, pa.ArrowException)
"""What data that is not as its format says raises while it is read."""
_LAYOUT = 1                     # goes up when every reader would bring the same files out otherwise
MOST_CHARACTERS = 300
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Brought:
    """One video as it lies in the folder, by its POSIX path there, or the problem that stopped it."""
    name: str
    about: str | None = None
    sidecar: str | None = None
    licence: str | None = None                   # its own, where the data states one for each
    problem: str | None = None
    again: bool = False                          # the next run may have more luck with the same files


@dataclass(frozen=True)
class Bundle:
    """What is brought out in one go. Without `files` it costs little, and is made anew by each run."""
    name: str                                    # once in its source
    files: tuple[Path, ...]                      # all it is made of; a change makes it new
    bring: Callable[[Path], Iterable[Brought]]   # given the folder to make its files in
    said: str = ""                               # what else decides what comes out


class PackedReader:
    """Base of the readers of packed data."""
    version: ClassVar[int] = 1                   # goes up when the same files would give other videos or facts
    pose_mode = "none"
    scale_status = "unknown"
    convention: str | None = None
    takes_file: ClassVar[bool] = False           # whether `path` may be one file

    def __init__(self, params: SourceParams) -> None:
        self.params = params
        self.origin = self.root = Path(params.path)
        self.current: list[Path] = []            # the notes of its bundles, once they were brought out
        if not (self.origin.is_dir() or self.takes_file and self.origin.is_file()):
            raise ConfigError(f"source {params.name}: {params.path} is not a folder")

    @property
    def source_id(self) -> str:
        return ids.source_id(self.params.kind, self.params.name)

    def bundles(self) -> Iterator[Bundle]:
        """Every bundle of the folder, in an order that is the same everywhere."""
        raise NotImplementedError

    def source_row(self) -> Source:
        return Source(source_id=self.source_id, name=self.params.name, kind=self.params.kind, licence=self.licence(),
                      url=self.params.url, perspective=self.params.perspective, pose_mode=self.pose_mode,
                      convention=self.convention, scale_status=self.scale_status)

    def licence(self) -> str | None:
        """The plan's; else the one of all videos: each its own, or the one on the card of the folder."""
        if self.params.licence is not None:
            return self.params.licence
        card = card_licence(self.origin)
        each = {spdx(one.licence) if one.licence else card for one in self.brought() if one.problem is None}
        return each.pop() if len(each) == 1 else None

    def wanted(self, path: Path) -> bool:
        """Whether a file of the folder is not left out by the plan's `only`."""
        return self.params.only is None or fnmatch(self.inside(path), self.params.only)

    def inside(self, path: Path) -> str:
        """The path inside the source; the name of a file that is the source."""
        return path.name if path == self.origin else path.relative_to(self.origin).as_posix()

    def is_hidden(self, path: Path) -> bool:
        return any(part.startswith(".") for part in self.inside(path).split("/"))

    def matching(self, *patterns: str) -> list[Path]:
        """Files of the folder that fit a pattern and `only`, hidden ones left out; the file where `path` is one."""
        if self.origin.is_file():
            return [self.origin]
        found = {path for pattern in patterns for path in self.origin.rglob(pattern) if path.is_file()}
        return sorted(path for path in found if self.wanted(path) and not self.is_hidden(path))

    def prepare(self, corpus: Path) -> None:
        """Bring out what is new or has changed; `entries` then lists the folder made."""
        self.root = corpus / "incoming" / self.source_id
        self.notes = self.root / ".notes"
        self.notes.mkdir(parents=True, exist_ok=True)
        bundles = list(self.bundles())
        progress = Progress(f"unpack {self.params.name}", len(bundles), unit="bundles")
        for bundle in bundles:
            self._bring(bundle)
            progress.advance()
        progress.finish()
        self.current = [self._note(bundle.name) for bundle in bundles]
        for gone in set(self.notes.glob("*.json")) - set(self.current):
            self._remove(self._files(_read(gone)) - self._files_of(self.current))
            gone.unlink()

    def _note(self, name: str) -> Path:
        return self.notes / f"{ids.digest(name)}.json"

    def _bring(self, bundle: Bundle) -> None:
        path, made_of = self._note(bundle.name), [_LAYOUT, self.version, bundle.said,
                                                       [_facts(file) for file in bundle.files]]
        before = _read(path)
        if bundle.files and before.get("made_of") == made_of and self._is_whole(before):
            return
        brought = list(_guarded(bundle, self.root))
        again = any(one.again for one in brought)
        note = {"made_of": None if again else made_of, "brought": [asdict(one) for one in brought]}
        self._remove(self._files(before) - self._files(note))
        write_bytes(path, json.dumps(note).encode())

    def _files(self, note: dict[str, Any]) -> set[str]:
        """Names of the files that a note speaks of."""
        return {name for one in note.get("brought", []) if not one["problem"]
                for name in (one["name"], one["sidecar"]) if name}

    def _files_of(self, notes: Iterable[Path]) -> set[str]:
        return {name for note in notes for name in self._files(_read(note))}

    def _is_whole(self, note: dict[str, Any]) -> bool:
        return all((self.root / name).exists() for name in self._files(note))

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def brought(self) -> Iterator[Brought]:
        for note in self.current:
            for one in _read(note)["brought"]:
                yield Brought(**one)

    def entries(self) -> Iterator[FileEntry]:
        """The videos brought out, each with what the data says of it; and one entry for each problem."""
        for one in self.brought():
            problem = one.problem or self._other_licence(one)
            yield FileEntry(encode_name(one.name), str(self.root / one.name), self.source_id,
                            None if problem else one.sidecar and encode_name(one.sidecar), problem=problem,
                            about=None if problem else one.about)

    def _other_licence(self, one: Brought) -> str | None:
        declared = self.params.licence
        if not declared or not one.licence or spdx(one.licence) == spdx(declared):
            return None
        return (f"its licence is {one.licence[:100]}, the plan's for the whole source {declared}; leave licence out "
                "of the plan to keep each its own")


def _guarded(bundle: Bundle, root: Path) -> Iterator[Brought]:
    """What the bundle brings; an error that is its data's ends it as one problem, and what came before stays."""
    try:
        yield from bundle.bring(root)
    except BROKEN as error:
        yield failed(bundle.name, error)


def failed(name: str, error: Exception, what: str = "") -> Brought:
    """The problem of one video or bundle, from within `except BROKEN`. A full disk is none of the data's: it stops."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error
    return Brought(name, problem=what + one_line(error), again=isinstance(error, OSError))


def one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:MOST_CHARACTERS]
    return text if isinstance(error, DataError) else f"{type(error).__name__} {text}"


def missing(path: Path) -> str | None:
    """Why a file of a dataset cannot be used before it is opened: it is not there, or Git LFS left its pointer."""
    if not path.is_file():
        return "is not there"
    with path.open("rb") as file:
        is_pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
    return "is a Git LFS pointer; fetch the file itself (git lfs pull)" if is_pointer else None


def _facts(path: Path) -> list[Any]:
    """Name, size and time of a file; its name alone where it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return [path.name]
    return [path.name, stat.st_size, stat.st_mtime_ns]


def _read(note: Path) -> dict[str, Any]:
    return json.loads(note.read_text()) if note.exists() else {}


def write_bytes(path: Path, data: bytes) -> None:
    """The whole file or the one before, whenever this is stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.part")
    scratch.write_bytes(data)
    os.replace(scratch, path)


def write_stream(path: Path, stream: Any) -> None:
    """As `write_bytes`, from an open file. Raises what reading raises, and leaves nothing behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.part")
    try:
        with scratch.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def link(target: Path, path: Path) -> None:
    """Make `path` lead to a file that stays where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.part")
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(target.resolve())
    os.replace(scratch, path)
