"""MIND: 1st_data or 3rd_data/.../NAME/ of action.json and video.mp4, from Unreal Engine 5.

`data` has an entry a frame: ws (1 ahead, 2 back), ad (1 left, 2 right), ud (1 up, 2 down), lr (1 left, 2 right), held
from its frame on; actor_pos and actor_rpy, and in third person camera_pos and camera_rpy (x roll, y pitch, z yaw in
degrees). In first person the actor is the camera but for its height. Source: the data card of CSU-JPG/MIND.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, inside_folder
from worldloom.dataengine.sources.formats.track import Track, signed_keys
from worldloom.schemas import DataError

_AXES = {"longitudinal": ("ws", 1, 2), "lateral": ("ad", 2, 1), "pitch": ("ud", 1, 2), "yaw": ("lr", 2, 1)}
_UNIT_M = 0.01


class MindReader(FormatReader):
    kind = "mind"
    pose_mode: ClassVar[str] = "engine"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/unreal/euler_rpy"
    default_fps: ClassVar[float] = 24.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("action.json"):
            video = inside_folder(path.parent, "video.mp4")
            name = self.inside(path.parent)
            yield Recording(name, (path,), partial(_track, path, self.fps), video, perspective=_perspective(path))


def _perspective(path: Path) -> str | None:
    said = {"1st_data": "fps", "3rd_data": "tps"}
    return next((said[part] for part in reversed(path.parts) if part in said), None)


def _track(path: Path, fps: float) -> Track:
    facts = json.loads(path.read_text(encoding="utf-8"))
    entries = facts.get("data") if isinstance(facts, dict) else None
    if not entries:
        raise DataError(f"{path.name}: no list 'data' with an entry in it")
    who = "camera" if "camera_pos" in entries[0] else "actor"
    rows = np.asarray([_row(path, i, entry, who) for i, entry in enumerate(entries)], float)
    keys = {axis: signed_keys(path, entries, *names) for axis, names in _AXES.items()}
    said = {name: facts[name] for name in ("caption", "mark_time") if name in facts}
    return Track(to_canonical(rows, MindReader.convention, _UNIT_M), unit_m=1.0, pose_source="engine", fps=fps,
                 gravity="engine", gravity_confidence=1.0, keys=keys, labels=said or None)


def _row(path: Path, number: int, entry: Mapping[str, Any], who: str) -> list[float]:
    try:
        return [float(entry[f"{who}_{part}"][axis]) for part in ("pos", "rpy") for axis in "xyz"]
    except KeyError as error:
        raise DataError(f"{path.name}: entry {number} lacks {error}") from None
