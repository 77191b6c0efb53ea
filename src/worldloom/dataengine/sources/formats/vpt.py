"""VPT / MineRL: NAME.mp4 with NAME.jsonl, a line a tick of 50 ms: xpos, ypos, zpos, yaw, pitch, keyboard.keys.

Minecraft's yaw grows to the right from south and its pitch is positive downwards; a block is a metre. Lines beyond the
video's last frame are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, pinhole
from worldloom.schemas import DataError

_FIELDS = ("xpos", "ypos", "zpos", "yaw", "pitch")
_FOV_DEG = 70.0                 # vertical, of the contractors' game


class VptReader(FormatReader):
    kind = "vpt"
    pose_mode: ClassVar[str] = "engine"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/minecraft/euler_yp"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 20.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.jsonl"):
            beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
            yield Recording(self.inside(path), (path,), partial(_track, path, self.fps), next(iter(beside), None))


def _track(path: Path, fps: float) -> Track:
    """The player's eye, its keys, and whether it stands: its height is that of the tick before or after."""
    ticks = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    lacking = next(((i, name) for i, tick in enumerate(ticks) for name in _FIELDS if name not in tick), None)
    if lacking or not ticks:
        raise DataError(f"{path.name}: " + (f"line {lacking[0] + 1} lacks {lacking[1]!r}" if lacking else "no line"))
    poses = to_canonical(np.asarray([[tick[name] for name in _FIELDS] for tick in ticks], float),
                         VptReader.convention)
    height = poses[:, 1, 3]
    fy = 180 / np.tan(np.radians(_FOV_DEG / 2))
    return Track(poses, camera=pinhole(fy, fy, 320.0, 180.0, 640, 360), unit_m=1.0, pose_source="engine", fps=fps,
                 gravity="engine", gravity_confidence=1.0, keys=_keys(ticks) | {"on_ground": _stands(height)})


def _stands(height_N: np.ndarray) -> np.ndarray:
    same = np.abs(np.diff(height_N)) < 1e-6
    return (np.append(same, False) | np.append(False, same)).astype(int)


def _keys(ticks: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    def held(name: str) -> np.ndarray:
        return np.asarray([f"key.keyboard.{name}" in tick.get("keyboard", {}).get("keys", []) for tick in ticks], int)

    return {"longitudinal": held("w") - held("s"), "lateral": held("d") - held("a"), "jump": held("space")}
