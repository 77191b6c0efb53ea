"""Cuts where the camera path that came with a video jumps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.geometry.teleports import teleports
from worldloom.dataengine.video.detect import Look
from worldloom.schemas import DataError


class TeleportDetector:
    """Starts a shot at the first frame that shows the path after a jump; knows at once."""
    name = "teleport"

    def __init__(self, jump_frames: np.ndarray | None = None, jump_times_s: np.ndarray | None = None) -> None:
        self._frames = set() if jump_frames is None else {int(frame) for frame in jump_frames}
        self._times_s = [] if jump_times_s is None else [float(time_s) for time_s in jump_times_s][::-1]
        self._seen = 0

    def see(self, look: Look) -> list[bool]:
        """Whether a shot starts with this picture."""
        is_cut = self._seen in self._frames
        while self._times_s and self._times_s[-1] <= look.time_s + 1e-6:
            self._times_s.pop()
            is_cut = self._seen > 0
        self._seen += 1
        return [is_cut]

    def finish(self) -> list[bool]:
        return []


def teleport_detector(sidecar: Path) -> TeleportDetector | None:
    """The detector of a recorder's truth file, or of a pose file that holds its poses itself.

    None for other files, and for one that cannot be read: the stage that reads the poses says why.
    """
    try:
        poses_T44, times_s = _path(sidecar)
    except (DataError, OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError):
        return None
    jumps = teleports(poses_T44, is_estimated=False)
    if times_s is None:
        return TeleportDetector(jump_frames=np.flatnonzero(jumps))
    return TeleportDetector(jump_times_s=np.sort(times_s[jumps]))


def _path(sidecar: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Poses (N, 4, 4) of a sidecar, and their times where it gives them; else pose i is at frame i."""
    if sidecar.suffix == ".parquet":
        table = pq.read_table(sidecar, columns=["world_from_cam"])
        facts = json.loads((table.schema.metadata or {})[b"worldloom"])
        return to_canonical(np.array(table["world_from_cam"].to_pylist(), float), facts["convention"]), None
    facts = json.loads(sidecar.read_text(encoding="utf-8"))
    times_s = facts.get("times_s")
    poses_T44 = to_canonical(np.array(facts["poses"], float), facts["convention"])
    return poses_T44, None if times_s is None else np.asarray(times_s, float)
