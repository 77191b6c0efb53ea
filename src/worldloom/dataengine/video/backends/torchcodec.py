"""torchcodec: counts by scanning the packets (seek mode exact); needs torch and the FFmpeg libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.video.backends import package

PACKAGE = "torchcodec.decoders"


def _reader(path: Path) -> Any:
    decoders = package(PACKAGE)
    return decoders.VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")


def count(path: Path) -> int:
    """Frames that the decoder says a file has."""
    return len(_reader(path))


def pictures(path: Path, start: int) -> Iterator[np.ndarray]:
    """Upright pictures from frame `start` on, uint8 RGB (H, W, 3), on one thread."""
    reader = _reader(path)
    for index in range(start, len(reader)):
        yield reader.get_frame_at(index).data.numpy()
