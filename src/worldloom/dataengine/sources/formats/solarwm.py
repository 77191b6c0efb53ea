"""SolarWM: CLIP/ of video.mp4, poses.npy, intrinsics.npy, meta.json and prompt.txt, or tars of such clips.

poses.npy (N, 4, 4) camera-to-world, OpenCV axes, metres; intrinsics.npy (N, 4) fx fy cx cy in pixels; row i is frame i.
A member of a tar is CLIP/NAME or CLIP.NAME; CLIP may have folders. Source: the layout written by solarwm-data.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.objects import safe_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, inside_folder, unreadable
from worldloom.dataengine.sources.formats.track import Track, levelled, matrices, pinhole
from worldloom.schemas import DataError

MEMBERS = ("video.mp4", "poses.npy", "intrinsics.npy", "meta.json", "prompt.txt")
_UNPACKED = ".unpacked"


class SolarWmReader(FormatReader):
    kind = "solarwm"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    default_fps: ClassVar[float] = 24.0

    def prepare(self, corpus: Path) -> None:
        self._unpacked = corpus / "incoming" / self.source_id / _UNPACKED
        super().prepare(corpus)

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("poses.npy"):
            yield self._clip(self.inside(path.parent), path.parent)
        for tar in self.matching("*.tar"):
            name = self.inside(tar)
            try:
                homes = _unpack(tar, self._unpacked / name)
            except (tarfile.TarError, EOFError, DataError, PermissionError) as error:
                yield unreadable(name, tar, error)
                continue
            for home in homes:
                yield self._clip(f"{name}/{home.relative_to(self._unpacked / name).as_posix()}", home)

    def _clip(self, name: str, home: Path) -> Recording:
        files = tuple(p for member in MEMBERS[1:] if (p := home / member).is_file())
        return Recording(name, files, partial(_track, home, self.fps), inside_folder(home, MEMBERS[0]))


def _unpack(tar: Path, folder: Path) -> list[Path]:
    """The clips' folders of a tar, made once for its size and time; nothing is written outside of `folder`."""
    stat = tar.stat()
    done = folder / ".done"
    mark = f"{stat.st_size} {stat.st_mtime_ns}"
    if not done.is_file() or done.read_text() != mark:
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(tar) as archive:
            for member in archive:
                _take(archive, member, folder)
        done.parent.mkdir(parents=True, exist_ok=True)
        done.write_text(mark)
    return sorted(path.parent for path in folder.rglob("poses.npy"))


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    clip, kept = _place(member.name.removeprefix("./"))
    if not member.isreg() or kept is None:
        return
    if not clip or not safe_name(clip):
        raise DataError(f"member {member.name[:100]!r} leads out of the folder")
    target, source = folder / clip / kept, archive.extractfile(member)
    assert source is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while piece := source.read(1 << 20):
            out.write(piece)


def _place(member: str) -> tuple[str, str | None]:
    """(clip, file) of a member's name; no file where it is none of a clip's that is read."""
    for kept in MEMBERS:
        for joint in ("/", "."):
            if member.endswith(joint + kept):
                return member[:-len(joint + kept)], kept
    return member, None


def _track(home: Path, fps: float) -> Track:
    facts = _facts(home / "meta.json")
    poses = to_canonical(matrices(np.load(home / "poses.npy", allow_pickle=False), home / "poses.npy"),
                         SolarWmReader.convention)
    if facts.get("num_frames", len(poses)) != len(poses):
        raise DataError(f"poses.npy has {len(poses)} poses, meta.json counts {facts['num_frames']} frames")
    poses, gravity, trust = levelled(poses, to_axis=False)
    return Track(poses, camera=_camera(home / "intrinsics.npy", facts, len(poses)), unit_m=1.0, gravity=gravity,
                 gravity_confidence=trust, fps=float(facts.get("fps") or fps), labels=_labels(home, facts))


def _facts(path: Path) -> dict[str, Any]:
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not isinstance(facts, dict):
        raise DataError(f"{path.name} holds no object")
    return facts


def _camera(path: Path, facts: dict[str, Any], count: int) -> dict[str, Any] | None:
    """The median lens; the size of the picture is the meta file's, else the principal point in the middle tells it."""
    if not path.is_file():
        return None
    rows = np.asarray(np.load(path, allow_pickle=False), float)
    if rows.shape != (count, 4):
        raise DataError(f"{path.name} has shape {list(rows.shape)}; wanted {count} rows of fx fy cx cy")
    fx, fy, cx, cy = np.median(rows, axis=0)
    return pinhole(fx, fy, cx, cy, facts.get("width") or 2 * round(cx), facts.get("height") or 2 * round(cy))


def _labels(home: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """The caption, the owner, and why the clip was kept or not, as the set says."""
    prompt = home / "prompt.txt"
    told = ("source", "pose_mode", "kept", "kept_tier", "reject_reasons")
    said: dict[str, Any] = {name: facts[name] for name in told if name in facts}
    if prompt.is_file():
        said["caption"] = prompt.read_text(encoding="utf-8").strip()
    return said or None
