"""Camera tables of Unreal Engine: NAME.csv with location in centimetres and rotation in degrees, beside NAME.mp4.

Columns, in any order and case: x y z (or location_x, loc_x, pos_x, "Location X" and so on), pitch yaw roll (or
rotation_pitch, rot_pitch, ...), and where known a time in seconds (time, time_s, timestamp, seconds) and the
horizontal view in degrees (fov, hfov, fov_deg). Left-handed, x ahead, y right, z up; yaw grows to the right.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.footage import frame_size, video_beside
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, pinhole
from worldloom.schemas import DataError

_UNIT_M = 0.01
_PLACE, _TURN = ("", "location", "loc", "pos", "position", "camera", "cam"), ("", "rotation", "rot", "camera", "cam")
_TIMES, _VIEWS = ("time", "times", "timestamp", "timestamps", "seconds", "t"), ("fov", "hfov", "fovdeg")
_COLUMNS = ("x", "y", "z", "pitch", "yaw", "roll")


class UnrealReader(FormatReader):
    kind = "unreal"
    pose_mode: ClassVar[str] = "engine"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/unreal/euler_pyr"
    default_fps: ClassVar[float] = 30.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.csv"):
            video = video_beside(path)
            yield Recording(self.inside(path), (path,), partial(_track, path, video, self.fps), video)


def _track(path: Path, video: Path | None, fps: float) -> Track:
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = [row for row in csv.reader(file) if row]
    if len(table) < 2:
        raise DataError(f"{path.name}: a line of names and a line for each frame are wanted")
    places = _columns(path, table[0])
    rows = np.asarray([[_number(path, number, row, places[name]) for name in places]
                       for number, row in enumerate(table[1:], 2)])
    by_name = dict(zip(places, rows.T, strict=True))
    poses = to_canonical(np.stack([by_name[name] for name in _COLUMNS], 1), UnrealReader.convention, _UNIT_M)
    return Track(poses, times_s=by_name.get("time"), camera=_camera(by_name.get("view"), video), unit_m=1.0,
                 pose_source="engine", fps=fps, gravity="engine", gravity_confidence=1.0)


def _columns(path: Path, names: list[str]) -> dict[str, int]:
    """Where each quantity stands, by the words it goes by.

    Raises:
        DataError: one is missing.
    """
    plain = [re.sub(r"[^a-z]", "", name.lower()) for name in names]
    found: dict[str, int] = {}
    for column in _COLUMNS:
        prefixes = _PLACE if column in "xyz" else _TURN
        found[column] = next((plain.index(p + column) for p in prefixes if p + column in plain), -1)
    missing = [column for column, at in found.items() if at < 0]
    if missing:
        raise DataError(f"{path.name}: no column for {', '.join(missing)} in {', '.join(names)[:120]}; wanted x, y, z "
                        "in centimetres and pitch, yaw, roll in degrees")
    for name, known in (("time", _TIMES), ("view", _VIEWS)):
        at = next((plain.index(word) for word in known if word in plain), None)
        found |= {} if at is None else {name: at}
    return found


def _number(path: Path, line: int, row: list[str], at: int) -> float:
    try:
        value = float(row[at])
    except (IndexError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path.name}: line {line} has {row[at] if at < len(row) else 'nothing'!r} in column {at + 1}; "
                        "wanted a number")
    return value


def _camera(view_deg_N: np.ndarray | None, video: Path | None) -> dict[str, Any] | None:
    """The lens of the stated horizontal view; none where no video tells the picture's shape."""
    if view_deg_N is None or video is None:
        return None
    width, height = frame_size(video)
    focal = width / 2 / math.tan(math.radians(float(np.median(view_deg_N))) / 2)
    return pinhole(focal, focal, (width - 1) / 2, (height - 1) / 2, width, height)
