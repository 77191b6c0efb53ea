"""Samples of one tar or one folder: videos brought out, the small files beside them read.

A sample is what has one key: `a/b.left.mp4` and `a/b.json` share the key `a/b`. A key with dots in it is found too,
where the files of a sample differ in their last ending only: `v1.2.mp4` and `v1.2.json`.
"""

from __future__ import annotations

import json
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldloom.dataengine.objects import safe_name
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.packed import link, missing, one_line, write_stream
from worldloom.schemas import DataError

READ = ("json", "txt", "text", "caption", "camera.npy", "intrinsics.npy")
"""Endings of files beside a video that are read; the others are named in what is known of it."""
MOST_BYTES = 16 << 20
BROKEN_TAR = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error, lzma.LZMAError)


@dataclass
class Shard:
    """What a tar or folder held, by names inside it."""
    name: str
    videos: dict[str, None] = field(default_factory=dict)        # in order
    beside: dict[str, list[str]] = field(default_factory=dict)   # by key: what stood next to them
    data: dict[str, bytes] = field(default_factory=dict)         # of what was read of that
    problems: dict[str, str] = field(default_factory=dict)       # by member
    cut_short: str | None = None

    def place(self, member: str) -> str:
        """The name inside the source of a member."""
        return f"{self.name}/{member}" if self.name else member

    def stems(self, member: str) -> tuple[str, str]:
        """The two names that files beside a video may begin with: all but its ending, and its key."""
        return member.rpartition(".")[0], key_of(member)

    def key(self, member: str) -> str:
        """The key of a video's sample: all but its ending where a file beside it begins so."""
        stem, short = self.stems(member)
        return stem if any(name.startswith(stem + ".") for name in self.beside.get(short, ())) else short

    def unread(self, key: str) -> list[str]:
        """What stands beside the videos of a key and was not read, without the key."""
        names = self.beside.get(key_of(key), ())
        return sorted(name[len(key) + 1:] for name in names if name.startswith(key + ".") and name not in self.data)

    def read(self, member: str, ending: str) -> bytes | None:
        """What stands beside a video under an ending."""
        names = [f"{stem}.{ending}" for stem in self.stems(member)]
        return next((self.data[name] for name in names if name in self.data), None)

    def facts(self, member: str) -> dict[str, Any]:
        """The sample's JSON object and text; what could not be read is named under `unreadable`."""
        found: dict[str, Any] = {}
        raw = self.read(member, "json")
        if raw is not None:
            try:
                document = json.loads(raw)
                found = document if isinstance(document, dict) else {"json": document}
            except (ValueError, RecursionError) as error:
                found = {"unreadable": f"json: {' '.join(str(error).split())[:200]}"}
        text = next((t for end in ("txt", "text", "caption") if (t := self.read(member, end)) is not None), None)
        found = {str(name): value for name, value in found.items()}
        return found | ({"txt": text.decode("utf-8", "replace").strip()} if text else {})

    def without_video(self) -> Iterator[str]:
        """Keys that have files and no video."""
        yield from sorted(self.beside.keys() - {key_of(member) for member in (*self.videos, *self.problems)})

    def add(self, member: str, size: int, read: Callable[[], bytes]) -> None:
        """Note a file that is no video, and read it where it says something that is understood."""
        self.beside.setdefault(key_of(member), []).append(member)
        if any(member.endswith("." + ending) for ending in READ) and size <= MOST_BYTES:
            self.data[member] = read()

    def leave_out(self, key: str) -> list[str]:
        """Forget a sample; the names of its videos."""
        videos = [member for member in self.videos if key_of(member) == key]
        for member in videos:
            del self.videos[member]
        for member in self.beside.pop(key, ()):
            self.data.pop(member, None)
        return videos


def key_of(member: str) -> str:
    """The name up to the first dot of its last part."""
    folder, slash, base = member.rpartition("/")
    return folder + slash + base.partition(".")[0]


def read_tar(path: Path, name: str, root: Path) -> Shard:
    """Bring the videos of a tar out to root/NAME/MEMBER; of one cut short, those before the cut.

    Nothing is written outside of that folder, and no link is followed.
    """
    shard, member = Shard(name), "its first member"
    try:
        with tarfile.open(path, "r:*") as tar:
            for info in tar:
                member = info.name.removeprefix("./")
                if not info.isdir():
                    _take(tar, info, member, shard, root)
            _check_end(tar)
    except BROKEN_TAR as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise                               # the disk's fault, not the tar's
        shard.cut_short = f"cut short or damaged in or after {member}: {one_line(DataError(error))}"
        for video in shard.leave_out(key_of(member)):       # what the sample lacks cannot be known
            (root / shard.place(video)).unlink(missing_ok=True)
    return shard


def _check_end(tar: tarfile.TarFile) -> None:
    """Raises ReadError where a tar ends in neither nothing nor zeros: tarfile takes half a header for its end."""
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    block = tar.fileobj.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0") or 0 < len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("no header of a member follows it")


def _take(tar: tarfile.TarFile, info: tarfile.TarInfo, member: str, shard: Shard, root: Path) -> None:
    is_video = is_video_name(member.rpartition("/")[2])
    if any(part.startswith(".") for part in member.split("/") if part != ".."):
        return                                                     # hidden, as in any folder
    if not safe_name(member):
        shard.problems[member] = f"member {member[:100]!r} leads out of the folder or cannot be a file's name here"
    elif member in shard.videos or member in shard.data:
        shard.problems[f"{member} (again)"] = f"member {member[:100]!r} is there twice; the first is taken"
    elif is_video and not info.isreg():
        shard.problems[member] = f"member {member[:100]!r} is a link or no plain file; not followed"
    elif is_video:
        write_stream(root / shard.place(member), tar.extractfile(info))
        shard.videos[member] = None
    elif info.isreg():
        shard.add(member, info.size, lambda: tar.extractfile(info).read())       # type: ignore[union-attr]


def read_folder(path: Path, name: str, root: Path) -> Shard:
    """The same of a folder: links to its videos at root/NAME/FILE."""
    shard = Shard(name)
    for file in sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")):
        if not is_video_name(file.name):
            shard.add(file.name, file.stat().st_size, file.read_bytes)
        elif problem := missing(file):
            shard.problems[file.name] = f"{file.name} {problem}"
        else:
            link(file, root / shard.place(file.name))
            shard.videos[file.name] = None
    return shard


def endings(names: Iterable[str]) -> str:
    """The endings of some files, for people."""
    found = sorted({name.rpartition("/")[2].partition(".")[2] or name for name in names})
    return ", ".join(found[:8]) + (" and more" if len(found) > 8 else "")
