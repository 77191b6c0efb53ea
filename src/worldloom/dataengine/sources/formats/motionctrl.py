"""MotionCtrl: a JSON list of 16 camera rows, each 12 numbers, a 3x4 world-to-camera at RealEstate10K's scale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, matrices
from worldloom.schemas import DataError


class MotionCtrlReader(FormatReader):
    kind = "motionctrl"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "w2c/opencv/matrix"
    default_fps: ClassVar[float] = 8.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.json"):
            yield Recording(self.inside(path), (path,), partial(_track, path, self.fps))


def _track(path: Path, fps: float) -> Track:
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list) or not rows or any(not isinstance(r, list) or len(r) != 12 for r in rows):
        raise DataError(f"{path.name}: wanted a list of rows of 12 numbers")
    return Track(to_canonical(matrices(np.asarray(rows, float), path), MotionCtrlReader.convention), fps=fps)
