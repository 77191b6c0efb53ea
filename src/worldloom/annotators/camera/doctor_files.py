"""Pose files as bare numbers, in whatever convention: what the doctor reads before any convention is known."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from worldloom.annotators.camera.given import read_sidecar
from worldloom.annotators.camera.pose_files import read_colmap, read_noted
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError


@dataclass(frozen=True)
class PoseFile:
    """Numbers as they stand in the file: (N, 16) or (N, 7), with what the file says of them."""
    rows: np.ndarray
    convention: str | None = None
    camera: dict | None = None
    times_s: np.ndarray | None = None
    names: list[str] | None = None       # picture of each row, without folder and ending


def read_pose_file(path: Path) -> PoseFile:
    """Poses of one of the kinds listed in docs/camera-doctor.md.

    Raises:
        DataError: it is missing, broken, or of another shape.
    """
    if not path.exists():
        raise DataError(f"pose file {path.name} is missing")
    try:
        if path.is_dir():
            files = natural(f for f in path.iterdir() if f.suffix == ".txt")
            return PoseFile(_rows(np.array([np.loadtxt(f).ravel() for f in files]), path))
        if path.suffix == ".json":
            return _read_json(path)
        if path.suffix == ".parquet":
            given = read_sidecar(path)
            return PoseFile(given.world_from_cam_N44.reshape(-1, 16), "c2w/opencv/matrix", given.camera)
        return PoseFile(_rows(np.load(path), path)) if path.suffix == ".npy" else _read_text(path)
    except (ValueError, TypeError, KeyError, OSError, EOFError) as err:
        raise DataError(f"pose file {path.name} cannot be read: {type(err).__name__} {err}") from err


def natural(paths) -> list[Path]:
    """Paths in the order of the numbers in their names."""
    return sorted(paths, key=lambda path: [int(part) if part.isdigit() else part
                                           for part in re.split(r"(\d+)", path.name)])


def _read_json(path: Path) -> PoseFile:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(facts, dict) and facts.get("frames"):
        return _read_nerf(facts, path)
    if isinstance(facts, dict) and "poses" not in facts and facts.keys() & {"file", "pose", "axes"}:
        return _read_note(path, {key: value for key, value in facts.items() if value is not None})
    if not isinstance(facts, dict) or not facts.get("poses"):
        raise DataError(f"pose file {path.name} holds no list 'poses'")
    times = facts.get("times_s")
    return PoseFile(_rows(np.array(facts["poses"], float), path), facts.get("convention"), facts.get("camera"),
                    None if times is None else np.asarray(times, float))


def _read_note(path: Path, note: dict) -> PoseFile:
    """The pose file that a note stands beside; what the note leaves open is what the doctor is asked."""
    table = read_noted(path, {"pose": "c2w", "axes": "opencv"} | note)
    return PoseFile(_rows(table.poses, path), table.convention if note.keys() >= {"pose", "axes"} else None,
                    table.camera, table.times_s)


def _read_nerf(facts: dict, path: Path) -> PoseFile:
    """NeRF's transforms.json: a matrix and the name of its picture in each entry of 'frames'."""
    frames = facts["frames"]
    rows = _rows(np.array([frame["transform_matrix"] for frame in frames], float), path)
    camera = None
    if "fl_x" in facts and "w" in facts:
        camera = {"fx": facts["fl_x"], "fy": facts.get("fl_y", facts["fl_x"]), "cx": facts["cx"] - 0.5,
                  "cy": facts["cy"] - 0.5, "width": facts["w"], "height": facts["h"],
                  "distortion": [facts.get(name, 0.0) for name in ("k1", "k2", "p1", "p2")]}
    return PoseFile(rows, None, camera, None, [Path(frame["file_path"]).stem for frame in frames])


def _read_text(path: Path) -> PoseFile:
    lines = [line.split() for line in path.read_text(encoding="utf-8").replace(",", " ").splitlines()
             if line.strip() and not line.startswith("#")]
    if lines and "://" in lines[0][0]:
        return _read_realestate(np.array(lines[1:], float), path)
    if path.name == "images.txt":
        table = read_colmap(path)
        return PoseFile(table.poses, table.convention, table.camera)
    rows = np.array(lines, float)
    if rows.ndim == 2 and rows.shape[1] == 8:
        return PoseFile(_rows(rows[:, 1:], path), None, None, P.check_times(seconds(rows[:, 0]), len(rows)))
    return PoseFile(_rows(rows, path))


def _read_realestate(rows_N19: np.ndarray, path: Path) -> PoseFile:
    """RealEstate10K: time, fx fy cx cy over width and height, two zeros, 3x4 matrix; one line a frame."""
    if rows_N19.ndim != 2 or rows_N19.shape[1] != 19:
        raise DataError(f"pose file {path.name} has {rows_N19.shape[-1]} numbers a line; RealEstate10K has 19")
    fx, fy, cx, cy = np.median(rows_N19[:, 1:5], 0)
    camera = {"fx": fx, "fy": fy, "cx": cx - 0.5, "cy": cy - 0.5, "width": 1.0, "height": 1.0}
    return PoseFile(_rows(rows_N19[:, 7:], path), None, camera)


def _rows(array: np.ndarray, path: Path) -> np.ndarray:
    array = np.asarray(array, float)
    flat = array.reshape(len(array), -1) if array.ndim > 1 else array
    if flat.ndim != 2 or len(flat) < 2 or flat.shape[1] not in (7, 12, 16):
        raise DataError(f"pose file {path.name} has shape {list(array.shape)}; wanted 12 or 16 numbers a frame (or 7: "
                        "position, quaternion), for 2 frames at least")
    if flat.shape[1] == 12:
        flat = np.concatenate([flat, np.tile([0.0, 0.0, 0.0, 1.0], (len(flat), 1))], 1)
    return flat


def seconds(stamps: np.ndarray) -> np.ndarray:
    """Times in seconds; stamps above 1e15 are nanoseconds since 1970, above 1e12 microseconds."""
    stamps = np.asarray(stamps, float)
    top = float(np.abs(stamps).max(initial=0.0))
    return stamps * (1e-9 if top > 1e17 else 1e-6 if top > 1e14 else 1.0)


def read_frame_times(path: Path) -> np.ndarray:
    """Times of a video's frames in seconds: the first number of each line (name.png or name, data)."""
    found = [re.match(r"\s*(\d+(?:\.\d+)?)", line) for line in path.read_text(encoding="utf-8").splitlines()]
    times = seconds(np.array([float(match[1]) for match in found if match]))
    return P.check_times(times, len(times))


def read_extrinsic(path: Path) -> np.ndarray:
    """The camera's pose in the body (4, 4): T_BS of a Kalibr or EuRoC sensor.yaml, or a text of 16 numbers.

    Raises:
        DataError: the file holds no such matrix.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".yaml", ".yml"):
        found = re.search(r"T_BS:.*?data:\s*\[([^\]]*)\]", text, re.DOTALL)
        text = found[1].replace(",", " ") if found else ""
    numbers = text.split()
    if len(numbers) != 16:
        raise DataError(f"{path.name} holds {len(numbers)} numbers; wanted the camera's pose in the body, 4 x 4 (T_BS)")
    return np.array(numbers, float).reshape(4, 4)
