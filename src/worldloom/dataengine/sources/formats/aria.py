"""Project Aria MPS: closed_loop_trajectory.csv, device-to-world in metres, quaternion w last, times in us.

The device frame is that of the left SLAM camera, mounted on its side: its x points down and its z ahead, so the track
is that camera's, turned upright. The world's z points against the file's gravity.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track
from worldloom.schemas import DataError

DEVICE_FROM_UPRIGHT = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
_POSE = [f"{axis}_world_device" for axis in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")]


class AriaReader(FormatReader):
    kind = "aria"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/optical/quat_xyzw of the device, with the left SLAM camera turned upright"
    perspective: ClassVar[str] = "fps"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*trajectory*.csv"):
            yield Recording(self.inside(path), (path,), partial(_track, path))


def _track(path: Path) -> Track:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    missing = [name for name in (*_POSE, "tracking_timestamp_us") if not rows or name not in rows[0]]
    if missing:
        raise DataError(f"{path.name}: lacks the columns {', '.join(missing)}" if rows else f"{path.name}: no row")
    gravity_z = float(rows[0].get("gravity_z_world", 0.0))
    if gravity_z and gravity_z > -9.0:
        raise DataError(f"{path.name}: gravity_z_world is {gravity_z}; wanted about -9.81, or 0 where it is not known")
    poses = to_canonical(np.asarray([[row[name] for name in _POSE] for row in rows], float), "c2w/optical/quat_xyzw",
                         body_from_cam_44=DEVICE_FROM_UPRIGHT)
    times_s = np.asarray([row["tracking_timestamp_us"] for row in rows], float) / 1e6
    return Track(poses, times_s, unit_m=1.0, gravity="imu" if gravity_z else "assumed",
                 gravity_confidence=1.0 if gravity_z else 0.0)
