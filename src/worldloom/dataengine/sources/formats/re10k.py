"""RealEstate10K: NAME.txt of an address and `timestamp_us fx fy cx cy 0 0` + 3x4 world-to-camera, beside NAME.mp4.

A video of one frame a line is a cut-out whose own rate means nothing: its frames get the file's times. A longer one is
the whole film, and the times point into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.footage import frame_size
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, matrices, pinhole
from worldloom.schemas import DataError


class RealEstate10KReader(FormatReader):
    kind = "re10k"
    convention: ClassVar[str] = "w2c/opencv/matrix"
    perspective: ClassVar[str] = "fps"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.txt"):
            beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
            video = beside[0] if beside else None
            yield Recording(self.inside(path), (path,), partial(_track, path, video), video,
                            restamped=video is not None and _frames(video) == _lines(path))


def _lines(path: Path) -> int:
    return sum(1 for line in path.read_text(errors="replace").splitlines()[1:] if line.strip())


def _frames(video: Path) -> int:
    """Packets of the picture stream; 0 where it cannot be opened, which the `video` stage will say."""
    import av

    from worldloom.dataengine.video.container import open_video, packet_pts
    from worldloom.schemas import DecodeError
    try:
        with open_video(video) as (container, stream):
            return sum(1 for _ in packet_pts(container, stream))
    except (DecodeError, av.FFmpegError):
        return 0


def _track(path: Path, video: Path | None) -> Track:
    """Poses at their times in seconds; world down is the first camera's, which people hold level."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split() for line in lines if line.strip()]
    wrong = next((i for i, row in enumerate(rows) if len(row) != 19), None)
    if wrong is not None or not rows:
        raise DataError(f"{path.name}: " + (f"line {wrong + 2} has {len(rows[wrong])} values; wanted 19"
                                            if wrong is not None else "no pose line"))
    table = np.asarray(rows, float)
    poses = to_canonical(matrices(table[:, 7:], path), RealEstate10KReader.convention)
    return Track(poses, table[:, 0] / 1e6, _camera(table, video))


def _camera(table: np.ndarray, video: Path | None) -> dict[str, Any]:
    """Normalised focal lengths in pixels of the video beside it, of a 16:9 picture where there is none."""
    width, height = frame_size(video) if video else (1280, 720)
    fx, fy, cx, cy = np.median(table[:, 1:5], axis=0)
    return pinhole(fx * width, fy * height, cx * width, cy * height, width, height)
