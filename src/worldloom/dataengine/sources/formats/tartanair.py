"""TartanAir: P000/pose_left.txt of `tx ty tz qx qy qz qw`, camera-to-world, NED axes; pictures in image_left/."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, number_rows, pinhole

CAMERA = pinhole(320.0, 320.0, 320.0, 240.0, 640, 480)
"""The same for every sequence of the dataset."""


class TartanAirReader(FormatReader):
    kind = "tartanair"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/ned/quat_xyzw"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 10.0          # not stated by the dataset

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("pose_*.txt"):
            side = path.stem.removeprefix("pose_").split("_")[-1]
            pictures = sorted((path.parent / f"image_{side}").glob("*.png"), key=natural)
            yield Recording(self.inside(path), (path,), partial(_track, path, self.fps), pictures=tuple(pictures))


def _track(path: Path, fps: float) -> Track:
    """NED worlds are level, so their down is canonical. A path named pose_est is somebody's estimate."""
    poses = to_canonical(number_rows(path, (7,)), TartanAirReader.convention)
    return Track(poses, camera=CAMERA, unit_m=1.0, gravity="engine", gravity_confidence=1.0, fps=fps,
                 pose_source="file" if path.stem.endswith("est") else "engine")
