"""NeRF: transforms.json, a 4x4 camera-to-world a picture, OpenGL axes in a world with z up, focal in pixels.

Pictures that are listed and not there are left out; unordered stills become a video in the order of their names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import (
    BROKEN,
    FormatReader,
    Recording,
    inside_folder,
    natural,
    unreadable,
)
from worldloom.dataengine.sources.formats.track import Track, levelled, matrices, pinhole
from worldloom.schemas import DataError

_ENDINGS = ("", ".png", ".jpg", ".jpeg")


class NerfReader(FormatReader):
    kind = "nerf"
    convention: ClassVar[str] = "c2w/blender/matrix"
    default_fps: ClassVar[float] = 1.0           # stills have no rate

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("transforms.json", "transforms_train.json"):
            try:
                frames, pictures = listed_pictures(path)
            except BROKEN as error:
                yield unreadable(self.inside(path.parent), path, error)
                continue
            yield Recording(self.inside(path.parent), (path,), partial(poses_of, path, frames, self.fps),
                            pictures=tuple(pictures))


def listed_pictures(path: Path, renamed: tuple[str, str] = ("", "")) -> tuple[list[Mapping[str, Any]], list[Path]]:
    """(frames, picture of each) that are there, in the order of the pictures' names; all frames where none is.

    `renamed` looks for the listed names with another beginning.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    frames = sorted(document.get("frames", []), key=lambda frame: natural(frame["file_path"]))
    found = [(frame, _picture(path.parent, _renamed(frame["file_path"], *renamed))) for frame in frames]
    there = [(frame, picture) for frame, picture in found if picture is not None]
    return ([f for f, _ in there], [p for _, p in there]) if there else (frames, [])


def _renamed(name: str, old: str, new: str) -> str:
    return new + name[len(old):] if old and name.startswith(old) else name


def _picture(folder: Path, name: str) -> Path | None:
    """The picture inside the folder; a name that leads out of it is none."""
    found = [inside_folder(folder, name + ending) for ending in _ENDINGS]
    return next((picture for picture in found if picture is not None), None)


def poses_of(path: Path, frames: list[Mapping[str, Any]], fps: float) -> Track:
    """The path of the listed frames. Raises DataError where there is none."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if not frames:
        raise DataError(f"{path.name}: no list 'frames' with a frame in it")
    poses = matrices(np.asarray([frame["transform_matrix"] for frame in frames], float), path)
    poses, gravity, trust = levelled(to_canonical(poses, NerfReader.convention))
    return Track(poses, camera=_camera({**document, **{k: v for k, v in frames[0].items() if k != "transform_matrix"}}),
                 gravity=gravity, gravity_confidence=trust, fps=fps)


def _camera(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    if "w" not in facts or not ({"fl_x", "camera_angle_x"} & set(facts)):
        return None
    width, height = facts["w"], facts["h"]
    fx = facts.get("fl_x") or width / 2 / math.tan(facts["camera_angle_x"] / 2)
    bent = {name: facts.get(name, 0.0) for name in ("k1", "k2", "p1", "p2")}
    return pinhole(fx, facts.get("fl_y", fx), facts.get("cx", width / 2), facts.get("cy", height / 2), width, height,
                   bent)
