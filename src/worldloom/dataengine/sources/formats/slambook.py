"""SLAM book RGB-D: color/1.png … with pose.txt of `tx ty tz qx qy qz qw`, camera-to-world in metres."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, number_rows, pinhole

CAMERA = pinhole(518.0, 519.0, 325.5, 253.5, 640, 480)
"""The book's own calibration."""


class SlamBookReader(FormatReader):
    kind = "slambook"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/opencv/quat_xyzw"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 1.0           # stills have no rate

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("pose.txt"):
            pictures = sorted((path.parent / "color").glob("*.png"), key=natural)
            yield Recording(self.inside(path.parent), (path,), partial(_track, path, self.fps),
                            pictures=tuple(pictures))


def _track(path: Path, fps: float) -> Track:
    return Track(to_canonical(number_rows(path, (7,)), SlamBookReader.convention), camera=CAMERA, unit_m=1.0, fps=fps)
