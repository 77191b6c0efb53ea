"""LingBot-World: poses.npy (N, 4, 4) camera-to-world, intrinsics.npy (N, 4), wasd_action.npy and ijkl_action.npy.

Key columns are W A S D and I J K L (up, left, down, right), held during the step into each frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, levelled, matrices, pinhole
from worldloom.schemas import DataError


class LingBotReader(FormatReader):
    kind = "lingbot"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    default_fps: ClassVar[float] = 16.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("poses.npy"):
            beside = (path, *(p for name in ("intrinsics", "wasd_action", "ijkl_action")
                              if (p := path.with_name(name + ".npy")).is_file()))
            videos = [p for p in sorted(path.parent.iterdir()) if is_video_name(p.name)]
            yield Recording(self.inside(path.parent), beside, partial(_track, path, self.fps),
                            videos[0] if len(videos) == 1 else None)


def _track(path: Path, fps: float) -> Track:
    """Items differ in which way their world's down points, so the views tell."""
    poses, gravity, trust = levelled(
        to_canonical(matrices(np.load(path, allow_pickle=False), path), LingBotReader.convention))
    wasd, ijkl = (_keys(path.with_name(f"{name}_action.npy"), len(poses)) for name in ("wasd", "ijkl"))
    keys = {} if wasd is None else {"longitudinal": wasd[:, 0] - wasd[:, 2], "lateral": wasd[:, 3] - wasd[:, 1]}
    keys |= {} if ijkl is None else {"pitch": ijkl[:, 0] - ijkl[:, 2], "yaw": ijkl[:, 3] - ijkl[:, 1]}
    return Track(poses, camera=_camera(path.with_name("intrinsics.npy")), gravity=gravity, gravity_confidence=trust,
                 fps=fps, keys=keys or None)


def _keys(path: Path, num_poses: int) -> np.ndarray | None:
    """0 or 1 of four keys for each pose (N, 4)."""
    if not path.is_file():
        return None
    keys = np.asarray(np.load(path, allow_pickle=False)).astype(int)
    if keys.shape != (num_poses, 4) or not np.isin(keys, (0, 1)).all():
        raise DataError(f"{path.name} has shape {list(keys.shape)} and values {keys.min()} to {keys.max()}; "
                        f"wanted {num_poses} rows of four 0 or 1")
    return keys


def _camera(path: Path) -> dict[str, Any] | None:
    """The median camera; its principal point is in the middle of the picture, whose sides are even."""
    if not path.is_file():
        return None
    fx, fy, cx, cy = np.median(np.asarray(np.load(path, allow_pickle=False), float), axis=0)
    return pinhole(fx, fy, cx, cy, 2 * round(cx), 2 * round(cy))
