"""HY-WorldPlay: a JSON of {"0": {"extrinsic": 4x4, "K": 3x3}, …}, one entry a latent frame, camera-to-world.

Its own code inverts the extrinsic, so it is camera-to-world. A latent stands for four frames at 24 a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, matrices, pinhole
from worldloom.schemas import DataError


class HyWorldPlayReader(FormatReader):
    kind = "hy-worldplay"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    default_fps: ClassVar[float] = 6.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.json"):
            yield Recording(self.inside(path), (path,), partial(_track, path, self.fps))


def _track(path: Path, fps: float) -> Track:
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict) or not entries or not all(name.isdigit() for name in entries):
        raise DataError(f"{path.name}: wanted an object of latents \"0\", \"1\", …, each with \"extrinsic\" and \"K\"")
    rows = [entries[name] for name in sorted(entries, key=natural)]
    poses = to_canonical(matrices(np.asarray([row["extrinsic"] for row in rows], float), path),
                         HyWorldPlayReader.convention)
    k = np.median(np.asarray([row["K"] for row in rows], float), axis=0)
    return Track(poses, camera=pinhole(k[0, 0], k[1, 1], k[0, 2], k[1, 2], 2 * k[0, 2], 2 * k[1, 2]), fps=fps)
