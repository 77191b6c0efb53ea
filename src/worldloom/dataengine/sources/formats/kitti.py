"""KITTI odometry: poses/00.txt of 12 numbers a row (camera 0 to world), sequences/00 with times, calib and pictures.

A text of such rows alone is a path; NAME_times.txt beside it gives its times, else 10 a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, matrices, number_rows, pinhole
from worldloom.schemas import DataError


class KittiReader(FormatReader):
    kind = "kitti"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 10.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.txt"):
            if path.stem.endswith(("times", "calib")):
                continue
            home = path.parent.parent / "sequences" / path.stem
            pictures = _pictures(home)
            beside = (path.with_name(path.stem + "_times.txt"), home / "times.txt", home / "calib.txt")
            times, calibration = next((p for p in beside[:2] if p.is_file()), None), beside[2]
            yield Recording(self.inside(path), (path, *(p for p in beside if p.is_file())),
                            partial(_track, path, times, calibration, pictures, self.fps), pictures=pictures)


def _pictures(home: Path) -> tuple[Path, ...]:
    for name in ("image_2", "image_0"):
        found = sorted((home / name).glob("*.png"), key=natural)
        if found:
            return tuple(found)
    return ()


def _track(path: Path, times: Path | None, calibration: Path, pictures: tuple[Path, ...], fps: float) -> Track:
    """Poses of the camera whose pictures are there; the car's first camera gives the world its down."""
    offset_44, camera = _camera(calibration, pictures[0]) if calibration.is_file() and pictures else (None, None)
    poses = to_canonical(matrices(number_rows(path, (12,)), path), KittiReader.convention, body_from_cam_44=offset_44)
    stamps = None if times is None else number_rows(times, (1,))[:, 0]
    return Track(poses, stamps, camera, unit_m=1.0, fps=fps)


def _camera(calibration: Path, picture: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """Place of the picture's camera in camera 0, from P2 or P0, and its intrinsics."""
    import cv2

    row = "P2" if picture.parent.name == "image_2" else "P0"
    lines = dict(line.split(":", 1) for line in calibration.read_text().splitlines() if ":" in line)
    p_34 = np.asarray(lines[row].split(), float).reshape(3, 4)
    offset_44 = np.eye(4)
    offset_44[:3, 3] = -np.linalg.solve(p_34[:, :3], p_34[:, 3])
    pixels = cv2.imread(str(picture))
    if pixels is None:
        raise DataError(f"{picture.name} cannot be read as a picture")
    height, width = pixels.shape[:2]
    return offset_44, pinhole(p_34[0, 0], p_34[1, 1], p_34[0, 2], p_34[1, 2], width, height)
