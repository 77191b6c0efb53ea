"""Pose files in a declared convention: .npy matrices, .csv with named columns, COLMAP's images.txt.

A note (JSON beside the file) declares it: {"pose": "c2w"|"w2c", "axes": "opencv"|..., "unit": "m"|"cm"|..., and
optionally "quaternion": "xyzw"|"wxyz", "file", "times_s", "camera"}. What is not declared is asked for, never guessed.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.geometry.conventions import AXES, DIRECTIONS
from worldloom.dataengine.geometry.pose_note import ENDINGS, candidates
from worldloom.schemas import DataError

UNITS_M = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "km": 1000.0, "in": 0.0254, "ft": 0.3048}
_TIME_NAMES = ("t", "time", "time_s", "timestamp")
_POSITION = ("tx", "ty", "tz")
_QUESTIONS = {
    "pose": f"is a pose camera-to-world or world-to-camera? Declare \"pose\" as one of {', '.join(DIRECTIONS)}",
    "axes": f"which way do the camera's axes point? Declare \"axes\" as one of {', '.join(AXES)}",
}


@dataclass(frozen=True)
class PoseTable:
    """Poses as the file holds them, with the convention that reads them."""
    poses: np.ndarray                  # (N, 16) row-major matrices or (N, 7) position and quaternion
    convention: str | None             # direction/axes/form; None is refused when it is read
    unit_m: float | None               # metres in one unit; None when not declared
    times_s: np.ndarray | None
    camera: dict[str, Any] | None


def read_noted(note_path: Path, note: dict[str, Any]) -> PoseTable:
    """The pose file that a note declares: its "file", or the one of the note's name with another ending.

    Raises:
        DataError: the file is missing, or the note leaves a question open.
    """
    path = _file_of(note_path, note)
    if path.suffix == ".txt":
        return read_colmap(path, _unit_m(note, path), note.get("camera"))
    for key, question in _QUESTIONS.items():
        if note.get(key) is None:
            raise DataError(f"pose file {path.name}: {question} in {note_path.name}")
    if path.suffix == ".npy":
        poses, times, form = _matrices(path), note.get("times_s"), "matrix"
    else:
        poses, times = _rows(path, note.get("quaternion"))
        form = "quat_xyzw"
    return PoseTable(poses, f"{note['pose']}/{note['axes']}/{form}", _unit_m(note, path),
                     None if times is None else np.asarray(times, float), note.get("camera"))


def read_colmap(path: Path, unit_m: float | None = None, camera: dict[str, Any] | None = None) -> PoseTable:
    """COLMAP's images.txt (world-to-camera, w first) in the order of the numbers in the image names.

    Raises:
        DataError: no image row, a row that is too short, or numbers that are not consecutive.
    """
    lines = [line for line in path.read_text(encoding="utf-8").lstrip().splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    rows = [line.split(maxsplit=9) for line in lines[::2] if line.strip()]
    short = [i for i, row in enumerate(rows) if len(row) < 10]
    if short or not rows:
        raise DataError(f"{path.name}: " + (f"image row {short[0]} is too short" if short else "no image row"))
    rows.sort(key=lambda row: _number(row[9], path))
    numbers = [_number(row[9], path) for row in rows]
    for before, after in zip(numbers, numbers[1:], strict=False):
        if after != before + 1:
            raise DataError(f"{path.name}: image {after} follows {before}; one image a frame is wanted, each once")
    values = np.array([[float(x) for x in row[1:8]] for row in rows])
    return PoseTable(values[:, [4, 5, 6, 0, 1, 2, 3]], "w2c/opencv/quat_wxyz", unit_m, None,
                     camera or _colmap_camera(path.with_name("cameras.txt")))


def _number(name: str, path: Path) -> int:
    found = re.findall(r"\d+", Path(name.strip()).stem)
    if not found:
        raise DataError(f"{path.name}: image name {name!r} has no number, so its frame is not known")
    return int(found[-1])


def _colmap_camera(path: Path) -> dict[str, Any] | None:
    """The single pinhole camera of a cameras.txt; None where it is absent, several or distorted."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(rows) != 1 or rows[0][1] not in ("PINHOLE", "SIMPLE_PINHOLE"):
        return None
    width, height, *rest = (float(x) for x in rows[0][2:])
    fx, fy, cx, cy = rest if rows[0][1] == "PINHOLE" else [rest[0], *rest]
    return {"model": "pinhole", "fx": fx, "fy": fy, "cx": cx, "cy": cy, "width": width, "height": height}


def _file_of(note_path: Path, note: dict[str, Any]) -> Path:
    found = candidates(note_path, note)
    if len(found) != 1 or found[0].suffix not in ENDINGS:
        raise DataError(f"{note_path.name} has no list 'poses' and {len(found)} pose files beside it; wanted one, "
                        f"named by \"file\" or like the note, ending in {', '.join(ENDINGS)}")
    return found[0]


def _unit_m(note: dict[str, Any], path: Path) -> float | None:
    unit = note.get("unit")
    if unit is not None and unit not in UNITS_M:
        raise DataError(f"pose file {path.name}: which length is unit {unit!r}? Declare one of {', '.join(UNITS_M)}")
    return None if unit is None else UNITS_M[unit]


def _matrices(path: Path) -> np.ndarray:
    """Matrices (N, 16) of an .npy file of (N, 4, 4), (N, 3, 4) or (N, 16)."""
    array = np.asarray(np.load(path, allow_pickle=False), float)
    if array.shape[1:] == (3, 4):
        last = np.tile([[[0.0, 0.0, 0.0, 1.0]]], (len(array), 1, 1))
        array = np.concatenate([array, last], 1)
    if array.shape[1:] not in ((4, 4), (16,)):
        raise DataError(f"pose file {path.name} has shape {list(array.shape)}; wanted N x 4 x 4")
    return array.reshape(len(array), 16)


def _rows(path: Path, order: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions and quaternions (N, 7) in xyzw order and times (N,), by the names of the columns."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[""]]
    names = [name.strip() for name in header]
    missing = [name for name in (*_POSITION, "qx", "qy", "qz", "qw") if name not in names]
    if missing:
        raise DataError(f"pose file {path.name} lacks the columns {', '.join(missing)}; which column is which?")
    written = "".join(name[1] for name in names if name in ("qx", "qy", "qz", "qw"))
    if order is not None and order != written:
        raise DataError(f"pose file {path.name} has its quaternion as {written} and the note says {order}; "
                        "which holds?")
    ragged = [i for i, row in enumerate(rows) if len(row) != len(names)]
    if ragged or not rows:
        raise DataError(f"pose file {path.name}: row {ragged[0]} has {len(rows[ragged[0]])} values for {len(names)} "
                        "columns" if ragged else f"pose file {path.name} has no row")
    table = {name: np.array([float(row[i]) for row in rows]) for i, name in enumerate(names)}
    time = next((table[name] for name in _TIME_NAMES if name in table), None)
    return np.stack([table[name] for name in (*_POSITION, "qx", "qy", "qz", "qw")], 1), time
