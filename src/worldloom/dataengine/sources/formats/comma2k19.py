"""comma2k19: global_pose/frame_{times,positions,orientations} of a dash camera, ECEF metres, quaternion w first.

The quaternion turns the device (x forward, y right, z down) into ECEF. The world is made level at the first frame:
x east, y down, z north. The files may be named flat, as global_pose__frame_times.npy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import axes_matrices
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, pinhole
from worldloom.schemas import DataError

CAMERA = pinhole(910.0, 910.0, 582.0, 437.0, 1164, 874)
"""The EON's road camera."""
_AXES_RATIO_SQUARED = 1 - 0.00669437999014      # polar over equatorial axis of WGS 84, squared


class Comma2k19Reader(FormatReader):
    kind = "comma2k19"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "device-to-ECEF: c2w/ned/quat_wxyz, levelled at the first frame"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 20.0

    def recordings(self) -> Iterator[Recording]:
        for times in self.matching("frame_times", "*frame_times.npy"):
            files = [times.with_name(times.name.replace("times", name)) for name in ("positions", "orientations")]
            home = times.parent.parent if times.parent.name == "global_pose" else times.parent
            video = home / "video.hevc"
            there = tuple(file for file in (times, *files) if file.exists())
            yield Recording(self.inside(home), there, partial(_track, times, *files),
                            video if video.is_file() else None, restamped=video.is_file())


def _track(times: Path, positions: Path, orientations: Path) -> Track:
    times_s, ecef_N3, quat_N4 = (np.asarray(np.load(path, allow_pickle=False), float)
                                 for path in (times, positions, orientations))
    if not len(times_s) == len(ecef_N3) == len(quat_N4):
        raise DataError(f"{times.name}: {len(times_s)} times, {len(ecef_N3)} positions, {len(quat_N4)} orientations")
    level_33 = east_down_north(ecef_N3[0])
    rotation = level_33 @ P.from_quaternion(quat_N4, order="wxyz") @ axes_matrices("ned")[0].T
    poses = P.compose(rotation, (ecef_N3 - ecef_N3[0]) @ level_33.T)
    return Track(poses, times_s, CAMERA, unit_m=1.0, gravity="imu", gravity_confidence=1.0)


def east_down_north(ecef_3: np.ndarray) -> np.ndarray:
    """Rotation from ECEF to the canonical level world at a place on the ellipsoid."""
    up = ecef_3 * (1.0, 1.0, 1.0 / _AXES_RATIO_SQUARED)
    up /= np.linalg.norm(up)
    east = np.cross([0.0, 0.0, 1.0], up)
    east /= np.linalg.norm(east)
    return np.stack([east, -up, np.cross(up, east)])
