"""OmniWorld: SCENE/split_info.json, SCENE/camera/split_K.json and SCENE/color/ with a picture a frame.

A split is a run of frames, `split_info["split"][K]` their numbers. Its camera file has quats (w x y z) and trans,
world-to-camera, focals, cx and cy in pixels, one a frame. 24 frames a second; poses are estimated and have no unit.
Source: the data card of InternRobotics/OmniWorld.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import BROKEN, FormatReader, Recording, unreadable
from worldloom.dataengine.sources.formats.track import Track, levelled, pinhole
from worldloom.schemas import DataError

_ENDINGS = (".png", ".jpg", ".jpeg")


class OmniWorldReader(FormatReader):
    kind = "omniworld"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "w2c/opencv/quat_wxyz"
    default_fps: ClassVar[float] = 24.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("split_info.json"):
            try:
                splits = _splits(path)
            except BROKEN as error:
                yield unreadable(self.inside(path.parent), path, error)
                continue
            for number, frames in splits.items():
                camera = path.parent / "camera" / f"split_{number}.json"
                files = (path, *([camera] if camera.is_file() else []))
                pictures = _pictures(path.parent / "color", frames)
                yield Recording(f"{self.inside(path.parent)}/split_{number}", files,
                                partial(_track, camera, len(frames), self.fps), pictures=pictures)


def _splits(path: Path) -> dict[int, list[int]]:
    """Frame numbers of each split, which the file has as a list or by number."""
    held = json.loads(path.read_text(encoding="utf-8"))["split"]
    pairs = held.items() if isinstance(held, dict) else enumerate(held)
    return {int(number): [int(frame) for frame in frames] for number, frames in pairs}


def _pictures(folder: Path, frames: list[int]) -> tuple[Path, ...]:
    """The picture of every frame; none where one is missing, so that the split is a path of its poses."""
    found = [next((p for ending in _ENDINGS if (p := folder / f"{frame:06d}{ending}").is_file()), None)
             for frame in frames]
    return tuple(p for p in found if p is not None) if all(found) else ()


def _track(path: Path, count: int, fps: float) -> Track:
    if not path.is_file():
        raise DataError(f"camera/{path.name} is missing")
    facts = json.loads(path.read_text(encoding="utf-8"))
    rows = np.column_stack([np.asarray(facts["trans"], float), np.asarray(facts["quats"], float)])
    if len(rows) != count:
        raise DataError(f"{path.name}: {len(rows)} poses for {count} frames of the split")
    poses, gravity, trust = levelled(to_canonical(rows, OmniWorldReader.convention), to_axis=False)
    return Track(poses, camera=_camera(facts), gravity=gravity, gravity_confidence=trust, fps=fps)


def _camera(facts: dict[str, Any]) -> dict[str, Any]:
    """The median lens; its principal point is in the middle of the picture."""
    focal, cx, cy = (float(np.median(facts[name])) for name in ("focals", "cx", "cy"))
    return pinhole(focal, focal, cx, cy, 2 * round(cx), 2 * round(cy))
