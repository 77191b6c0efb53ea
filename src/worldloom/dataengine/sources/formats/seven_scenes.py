"""7-Scenes: seq-01/frame-000000.color.png with frame-000000.pose.txt, a 4x4 camera-to-world in metres.

A folder that holds one video and the pose texts of its frames, below `pose/`, is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, levelled, matrices, number_rows, pinhole
from worldloom.schemas import DataError

KINECT = pinhole(525.0, 525.0, 320.0, 240.0, 640, 480)
"""The colour camera. The 585 that the dataset's page and camera-intrinsics.txt give are the depth camera's: with true
poses, corners of the colour pictures lie nearest to their epipolar lines at about 525."""


class SevenScenesReader(FormatReader):
    kind = "7scenes"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    perspective: ClassVar[str] = "fps"

    def recordings(self) -> Iterator[Recording]:
        folders = sorted({path.parent for path in self.matching("frame-*.pose.txt")}, key=natural)
        for poses in folders:
            files = tuple(sorted(poses.glob("frame-*.pose.txt"), key=natural))
            home = poses.parent if poses.name == "pose" else poses
            pictures = tuple(path for file in files for path in _picture(file))
            videos = [path for path in sorted(home.iterdir()) if is_video_name(path.name)]
            yield Recording(self.inside(home), files, partial(_track, files, self.fps),
                            videos[0] if len(videos) == 1 and len(pictures) < len(files) else None,
                            pictures if len(pictures) == len(files) else ())


def _picture(pose: Path) -> Iterator[Path]:
    stem = pose.name.removesuffix(".pose.txt")
    for ending in (".color.png", ".color.jpg"):
        if (pose.parent / (stem + ending)).is_file():
            yield pose.parent / (stem + ending)
            return


def _track(files: tuple[Path, ...], fps: float) -> Track:
    """One pose a file, in order of the frame numbers, which must be consecutive; the views level the scan's world."""
    numbers = [int(file.name.split("-")[1].split(".")[0]) for file in files]
    gaps = np.flatnonzero(np.diff(numbers) != 1)
    if len(gaps):
        raise DataError(f"{files[gaps[0] + 1].name} follows {files[gaps[0]].name}; one pose a frame is wanted")
    rows = [number_rows(file, (4,)) for file in files]
    short = next((file for file, row in zip(files, rows, strict=True) if row.shape != (4, 4)), None)
    if short:
        raise DataError(f"{short.name}: not 4 rows of 4 numbers")
    poses, gravity, trust = levelled(to_canonical(matrices(np.asarray(rows), files[0]), SevenScenesReader.convention),
                                     to_axis=False)
    return Track(poses, camera=KINECT, unit_m=1.0, gravity=gravity, gravity_confidence=trust, fps=fps)
