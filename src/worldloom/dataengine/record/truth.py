"""The truth sidecar VIDEO.truth.parquet: one row a video frame, drawn before the frame's action is applied.

Poses are camera-to-world with OpenCV axes in the canonical world (x east, y down, z north), in the engine's units.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.schemas import DataError

EVENT = pa.struct([("kind", pa.string()), ("text", pa.string())])
OBJECT = pa.struct([("name", pa.string()), ("category", pa.string()),
                    *((key, pa.int32()) for key in ("x", "y", "w", "h"))])
SCHEMA = pa.schema([
    ("frame", pa.int64()), ("time_s", pa.float64()), ("world_from_cam", pa.list_(pa.float64())),
    ("on_ground", pa.bool_()), ("key_longitudinal", pa.int8()), ("key_lateral", pa.int8()), ("key_jump", pa.int8()),
    ("key_run", pa.int8()), ("key_attack", pa.int8()), ("key_use", pa.int8()),
    ("turn_deg", pa.float64()), ("look_deg", pa.float64()),
    ("events", pa.list_(EVENT)), ("objects", pa.list_(OBJECT)), ("health", pa.float64()),
])
META_KEY = b"worldloom"


@dataclass(frozen=True, slots=True)
class Truth:
    """A read sidecar; every array has one entry a frame. `action` columns act between frames i and i + 1."""
    meta: dict[str, Any]
    time_s: np.ndarray                  # (T,)
    world_from_cam_T44: np.ndarray      # float64
    on_ground: np.ndarray               # (T,) bool
    keys: dict[str, np.ndarray]         # longitudinal, lateral (right +), jump, run, attack, use: (T,) int8
    turn_deg: np.ndarray                # (T,) right positive
    look_deg: np.ndarray                # (T,) up positive
    events: list[list[dict[str, str]]]
    objects: list[list[dict[str, Any]]]
    health: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)      # further columns of the recorder, (T,)

    def __len__(self) -> int:
        return len(self.time_s)


def sidecar_path(video: Path) -> Path:
    return video.with_suffix(".truth.parquet")


def world_from_cam(x: float, y: float, eye_z: float, angle_deg: float, elevation_deg: float) -> np.ndarray:
    """Canonical pose (4, 4) of an eye in Doom's world (x east, y north, z up; angle counterclockwise from east).

    The canonical world is (x, -z, y): right-handed, and a heading atan2(f_x, f_z) grows when turning right.
    """
    a, e = math.radians(angle_deg), math.radians(elevation_deg)
    forward = np.array([math.cos(e) * math.cos(a), -math.sin(e), math.cos(e) * math.sin(a)])
    right = np.array([math.sin(a), 0.0, -math.cos(a)])
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([right, np.cross(forward, right), forward])
    pose[:3, 3] = x, -eye_z, y
    return pose


def write_truth(path: Path, rows: Sequence[Mapping[str, Any]], meta: Mapping[str, Any],
                extra: pa.Schema | None = None) -> None:
    """Write rows (keys of SCHEMA and `extra`) and JSON metadata; the file appears whole or not at all."""
    note = {META_KEY: json.dumps(dict(meta), sort_keys=True).encode()}
    schema = pa.schema([*SCHEMA, *(extra or ())]).with_metadata(note)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), scratch, compression="zstd")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def read_truth(path: Path) -> Truth:
    """Read a sidecar.

    Raises:
        DataError: the file is no sidecar, lacks a column, or its frames are not 0, 1, 2, ...
    """
    try:
        table = pq.read_table(path)
        meta = read_meta(path)
        column = {name: table.column(name) for name in SCHEMA.names}
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise DataError(f"{path.name} is no truth sidecar: {error}; record the video again") from error
    if column["frame"].to_pylist() != list(range(table.num_rows)):
        raise DataError(f"{path.name}: frames are not numbered 0 to {table.num_rows - 1} in order")
    poses = column["world_from_cam"].to_pylist()
    if any(pose is None or len(pose) != 16 for pose in poses):
        raise DataError(f"{path.name}: world_from_cam must hold 16 numbers in every row")
    return Truth(
        meta=meta, time_s=_array(column["time_s"]), on_ground=_array(column["on_ground"]).astype(bool),
        world_from_cam_T44=np.array(poses, np.float64).reshape(-1, 4, 4),
        keys={key: _array(column[f"key_{key}"]) for key in ("longitudinal", "lateral", "jump", "run", "attack", "use")},
        turn_deg=_array(column["turn_deg"]), look_deg=_array(column["look_deg"]),
        events=column["events"].to_pylist(), objects=column["objects"].to_pylist(), health=_array(column["health"]),
        extra={name: _array(table.column(name)) for name in table.column_names if name not in column})


def read_meta(path: Path) -> dict[str, Any]:
    """The JSON metadata of a sidecar alone.

    Raises:
        DataError: the file is no sidecar.
    """
    try:
        return json.loads((pq.read_schema(path).metadata or {})[META_KEY])
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise DataError(f"{path.name} is no truth sidecar: {error}; record the video again") from error


def _array(column: pa.ChunkedArray) -> np.ndarray:
    return column.to_numpy()
