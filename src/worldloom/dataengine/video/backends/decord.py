"""decord: counts from its own index and ignores edit lists; its times are single precision and begin at 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.video.backends import package

PACKAGE = "decord"


def _reader(path: Path) -> Any:
    decord = package(PACKAGE)
    return decord.VideoReader(str(path), ctx=decord.cpu(0), num_threads=1)


def count(path: Path) -> int:
    """Frames that the decoder says a file has."""
    return len(_reader(path))


def pictures(path: Path, start: int) -> Iterator[np.ndarray]:
    """Upright pictures from frame `start` on, uint8 RGB (H, W, 3), on one thread."""
    reader = _reader(path)
    for index in range(start, len(reader)):
        yield reader[index].asnumpy()
