"""A camera path as every format's reader gives it, and the one document it is written to.

Legend: N poses. World y down (canonical) wherever the format says which way is up or the views show it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.gravity import align, estimate_up
from worldloom.schemas import DataError

_SNAP_DEG = 15.0


@dataclass(frozen=True)
class Track:
    """Camera-to-world poses (N, 4, 4), OpenCV axes, with what the format says beside them."""
    world_from_cam_N44: np.ndarray
    times_s: np.ndarray | None = None            # on the format's own clock; None: one pose a frame
    camera: Mapping[str, Any] | None = None      # model, fx, fy, cx, cy, width, height, distortion
    unit_m: float | None = None                  # metres in a unit of translation; None where scale is not metric
    gravity: str = "assumed"                     # engine, imu, estimated or assumed: how the world got its down
    gravity_confidence: float = 0.5
    pose_source: str = "file"
    frame: str = "camera"                        # body: the camera's place on the body is not declared
    fps: float | None = None                     # rate of poses without times
    keys: Mapping[str, np.ndarray] | None = None         # longitudinal, lateral: -1, 0, +1 held during each frame
    labels: Mapping[str, Any] | None = None      # the source's own words for the whole path

    def at(self, stamps_s: Sequence[float] | np.ndarray) -> Track:
        """The same path with one pose at each stamp of the format's clock.

        Raises:
            DataError: a stamp lies outside of the poses or in a hole of them.
        """
        assert self.times_s is not None
        stamps = np.asarray(stamps_s, float)
        return replace(self, world_from_cam_N44=P.interpolate_poses(self.world_from_cam_N44, self.times_s, stamps),
                       times_s=stamps)

    def document(self, *, convention: str, perspective: str, origin_s: float) -> dict[str, Any]:
        """The pose file of a `posed` source; the format's `origin_s` is time 0 of the video."""
        times = None if self.times_s is None else np.round(self.times_s - origin_s, 6).tolist()
        keys = self.keys and {name: np.asarray(track).astype(int).tolist() for name, track in self.keys.items()}
        found = {
            "convention": "c2w/opencv/matrix", "read_as": convention, "unit_m": self.unit_m, "times_s": times,
            "fps": self.fps, "camera": self.camera, "pose_source": self.pose_source, "frame": self.frame,
            "gravity": {"source": self.gravity, "confidence": round(self.gravity_confidence, 3)},
            "perspective": None if perspective == "uncertain" else perspective, "keys": keys, "labels": self.labels,
            "poses": np.round(self.world_from_cam_N44.reshape(-1, 16), 9).tolist()}
        return {name: value for name, value in found.items() if value is not None}


def pinhole(fx: float, fy: float, cx: float, cy: float, width: float, height: float,
            distortion: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Intrinsics of a picture of the given size; distortion is kept as the format names it, and not applied.

    Raises:
        DataError: a number is not finite, or a focal length or side not positive.
    """
    if not all(map(math.isfinite, (fx, fy, cx, cy))) or min(fx, fy, width, height) <= 0:
        raise DataError(f"intrinsics fx {fx:g}, fy {fy:g}, cx {cx:g}, cy {cy:g} of {width:g}x{height:g}; wanted finite "
                        "numbers, focal lengths above 0")
    camera: dict[str, Any] = {"model": "pinhole", "fx": float(fx), "fy": float(fy), "cx": float(cx), "cy": float(cy),
                              "width": float(width), "height": float(height)}
    bent = {name: float(value) for name, value in (distortion or {}).items() if value}
    return camera | ({"distortion": bent} if bent else {})


def signed_keys(path: Path, entries: Sequence[Mapping[str, Any]], name: str, plus: int, minus: int) -> np.ndarray:
    """-1, 0 or +1 (N,) of an axis that each entry has as 0 for neither key, and 1 or 2 for one; none where it lacks it.

    Raises:
        DataError: another number.
    """
    values = np.asarray([entry.get(name, 0) for entry in entries])
    wrong = values[~np.isin(values, (0, 1, 2))]
    if len(wrong):
        raise DataError(f"{path.name}: {name} {wrong[0]}; wanted 0, 1 or 2")
    return (values == plus).astype(int) - (values == minus).astype(int)


def levelled(pose_N44: np.ndarray, *, to_axis: bool = True) -> tuple[np.ndarray, str, float]:
    """(poses in a world whose y points down, gravity source, confidence), for formats that fix no vertical.

    The views tell the vertical, however little: the world's own axes tell nothing. With `to_axis` a world axis that
    lies near it is taken for it, as engines and motion capture have upright worlds, which a scan's world need not be.
    """
    seen = estimate_up(pose_N44)
    axis = int(np.argmax(np.abs(seen.up_3)))
    snapped = np.sign(seen.up_3[axis]) * np.eye(3)[axis]
    if to_axis and seen.up_3 @ snapped > np.cos(np.radians(_SNAP_DEG)):
        seen = replace(seen, up_3=snapped)
    return align(pose_N44, seen), seen.source, seen.confidence


def matrices(rows: np.ndarray, path: Path) -> np.ndarray:
    """Poses (N, 4, 4) of rows of 12 or 16 numbers, row-major, or of (N, 3, 4) and (N, 4, 4) arrays."""
    flat = np.asarray(rows, float).reshape(len(rows), -1)
    if flat.shape[1] == 12:
        flat = np.concatenate([flat, np.tile([0.0, 0.0, 0.0, 1.0], (len(flat), 1))], 1)
    if flat.shape[1] != 16 or not len(flat):
        raise DataError(f"{path.name}: {flat.shape[1]} numbers a pose in {len(flat)} rows; wanted 12 or 16")
    return flat.reshape(-1, 4, 4)


def number_rows(path: Path, widths: Sequence[int], *, separator: str | None = None) -> np.ndarray:
    """Rows of numbers of a text file; # starts a comment, and columns past the widest wanted are left out.

    Raises:
        DataError: no row, a row of another width, or one that is no number, with the line.
    """
    rows: list[list[float]] = []
    for count, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split(separator)
        if not words:
            continue
        width = rows and len(rows[0]) or max((w for w in widths if w <= len(words)), default=0)
        if not width or len(words) < width:
            raise DataError(f"{path.name}:{count}: {len(words)} values; wanted {' or '.join(map(str, widths))}")
        try:
            rows.append([float(word) for word in words[:width]])
        except ValueError:
            raise DataError(f"{path.name}:{count}: {line[:60]!r} is not numbers") from None
    if not rows:
        raise DataError(f"{path.name}: no row of numbers")
    return np.asarray(rows)
