"""What every format reader does: bring its recordings in once, as videos with a pose file beside each.

A format's own class lists `recordings`. `prepare` makes corpus/incoming/<source_id>/NAME.mp4 (a link where there is a
video, encoded where there are pictures) and NAME.poses.json with the poses in canonical axes. So a part's key covers
the poses themselves, and a recording whose files did not change is not converted again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.sources.formats.pictures import encode_pictures, restamp
from worldloom.dataengine.sources.formats.track import Track
from worldloom.dataengine.sources.params import FileEntry, SourceParams
from worldloom.dataengine.stage import encode_name
from worldloom.schemas import ConfigError, DataError, Source, ids

POSES = ".poses.json"
BROKEN = (DataError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError)
"""What a file that is not as its format says raises while it is read; such a file fails one recording."""
_SAVE_EVERY = 20                # recordings brought in that a killed run may have to bring in again
_LAYOUT = 1                     # goes up when every reader would bring the same files in otherwise


@dataclass(frozen=True)
class Recording:
    """One path of a camera, with its video, its pictures in order, or neither."""
    name: str                            # POSIX, without an ending, once in its source
    files: tuple[Path, ...]              # all that the poses are made of; a change makes it new
    read: Callable[[], Track]
    video: Path | None = None
    pictures: tuple[Path, ...] = ()      # one a pose
    restamped: bool = False              # the track's times are the video's, whatever its file says
    perspective: str | None = None       # of this recording, where the set mixes them


class FormatReader:
    """Base of the readers; `convention` says how the format's numbers are read."""
    kind: ClassVar[str] = ""
    version: ClassVar[int] = 1                   # goes up when the same files would give other poses or pictures
    pose_mode: ClassVar[str] = "given"
    scale_status: ClassVar[str] = "unknown"
    convention: ClassVar[str] = ""
    perspective: ClassVar[str] = "uncertain"
    default_fps: ClassVar[float] = 30.0          # of pictures and poses without times, where the plan has no `fps`

    def __init__(self, params: SourceParams) -> None:
        self.params = params
        self.origin = Path(params.path)
        if not self.origin.is_dir():
            raise ConfigError(f"source {params.name}: {params.path} is not a folder")
        self.root = self.origin

    @property
    def source_id(self) -> str:
        return ids.source_id(self.params.kind, self.params.name)

    @property
    def fps(self) -> float:
        return self.params.fps or self.default_fps

    @property
    def seen_as(self) -> str:
        """The perspective declared in the plan, else the format's."""
        return self.perspective if self.params.perspective == "uncertain" else self.params.perspective

    def _seen_as(self, recording: Recording) -> str:
        """What the plan declares goes before what the recording says of itself."""
        declared = self.params.perspective
        return declared if declared != "uncertain" else recording.perspective or self.perspective

    def source_row(self) -> Source:
        return Source(source_id=self.source_id, name=self.params.name, kind=self.params.kind,
                      licence=self.params.licence, url=self.params.url, perspective=self.seen_as,
                      pose_mode=self.pose_mode, convention=self.convention, scale_status=self.scale_status)

    def recordings(self) -> Iterator[Recording]:
        """Every recording of the folder, in an order that is the same everywhere."""
        raise NotImplementedError

    def matching(self, *patterns: str) -> list[Path]:
        """Files under the folder whose name fits a pattern and the plan's `only`, in natural order."""
        found = {path for pattern in patterns for path in self.origin.rglob(pattern) if path.is_file()}
        return sorted((path for path in found if self.wanted(path)), key=natural)

    def wanted(self, path: Path) -> bool:
        inside = path.relative_to(self.origin).as_posix()
        hidden = any(part.startswith(".") for part in Path(inside).parts)
        return not hidden and (self.params.only is None or fnmatch(inside, self.params.only))

    def inside(self, path: Path) -> str:
        """The path inside the source without its ending; the folder itself is named like the source."""
        name = path.relative_to(self.origin)
        return name.with_suffix("").as_posix() if path.is_file() else (name.as_posix().strip(".") or self.origin.name)

    def prepare(self, corpus: Path) -> None:
        """Bring in what is new or has changed; `entries` then lists the folder made."""
        self.root = corpus / "incoming" / self.source_id
        self.root.mkdir(parents=True, exist_ok=True)
        index_path = self.root / ".index.json"
        known = json.loads(index_path.read_text()) if index_path.exists() else {}
        self.index: dict[str, dict[str, Any]] = {}
        fresh = 0
        for recording in self.recordings():
            made_of = self._made_of(recording)
            entry = known.get(recording.name)
            if entry is None or entry["made_of"] != made_of or not self._whole(entry):
                made = bring_in(recording, self.root, self.convention, self._seen_as(recording))
                entry = {"made_of": made_of, **made}
                fresh += 1
            self.index[recording.name] = entry
            if fresh and fresh % _SAVE_EVERY == 0:
                _write_json(index_path, known | self.index)
        for name in known.keys() - self.index.keys():                # of recordings that are gone
            for made in known[name].get("made", []):
                (self.root / made).unlink(missing_ok=True)
        _write_json(index_path, self.index)

    def entries(self) -> Iterator[FileEntry]:
        """The recordings brought in: a video with its pose file, or the pose file alone."""
        for name, entry in self.index.items():
            file = entry.get("video") or name + POSES
            sidecar = None if entry.get("problem") else encode_name(name + POSES)
            yield FileEntry(encode_name(file), str(self.root / file), self.source_id, sidecar,
                            problem=entry.get("problem"))

    def _whole(self, entry: dict[str, Any]) -> bool:
        return all((self.root / file).exists() for file in entry.get("made", []))

    def _made_of(self, recording: Recording) -> list[Any]:
        """Name, size and time of every file that the recording is made of."""
        files = (*recording.files, *recording.pictures, *([recording.video] if recording.video else []))
        stats = [(file.name, os.stat(file)) for file in dict.fromkeys(files)]
        return [_LAYOUT, self.version, self._seen_as(recording), self.fps,
                [[name, s.st_size, s.st_mtime_ns] for name, s in stats]]


def bring_in(recording: Recording, folder: Path, convention: str, perspective: str) -> dict[str, Any]:
    """Make the recording's files in `folder`: what was made, or the problem that stopped it."""
    try:
        track = recording.read()
        poses = folder / (recording.name + POSES)
        poses.parent.mkdir(parents=True, exist_ok=True)
        video = _video(recording, track, folder)
        linked = recording.video is not None and not recording.restamped
        origin_s = 0.0 if linked or track.times_s is None else float(track.times_s[0])
        _write_json(poses, track.document(convention=convention, perspective=perspective, origin_s=origin_s))
    except BROKEN as error:
        return {"problem": _one_line(error)}
    return {"video": video, "made": [recording.name + POSES, *([video] if video else [])]}


def _video(recording: Recording, track: Track, folder: Path) -> str | None:
    if recording.video is None and not recording.pictures:
        return None
    ending = ".mp4" if recording.pictures or recording.restamped else recording.video.suffix    # type: ignore[union-attr]
    target = folder / (recording.name + ending)
    scratch = target.with_name(target.name + ".tmp")
    scratch.unlink(missing_ok=True)
    count = len(track.world_from_cam_N44)
    times = np.arange(count) / (track.fps or 1.0) if track.times_s is None else track.times_s
    if recording.pictures:
        encode_pictures(recording.pictures, times, scratch)
    elif recording.restamped:
        restamp(recording.video, times, scratch)                                     # type: ignore[arg-type]
    else:
        scratch.symlink_to(recording.video.resolve())                                # type: ignore[union-attr]
    scratch.replace(target)
    return target.relative_to(folder).as_posix()


def _write_json(path: Path, document: Any) -> None:
    """The whole file or the one before, whenever this is stopped."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(json.dumps(document))
    scratch.replace(path)


def unreadable(name: str, path: Path, error: Exception) -> Recording:
    """The recording of a file that could not even be listed: reading it says why."""
    def read() -> Track:
        raise DataError(f"{path.name}: {_one_line(error).removeprefix(f'{path.name}: ')}")

    return Recording(name, (path,), read)


def inside_folder(folder: Path, name: str) -> Path | None:
    """A file that a listing names, if it is there and not outside of the folder."""
    path = folder / name
    return path if path.resolve().is_relative_to(folder.resolve()) and path.is_file() else None


def natural(path: Path | str) -> list[tuple[int, int | str]]:
    """Sort key that puts frame 10 after frame 9."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", str(path)) if part]


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, DataError) else f"{type(error).__name__} {text}"
