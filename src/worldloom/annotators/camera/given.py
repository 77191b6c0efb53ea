"""Camera tracks that come with a video: recorder truth (VIDEO.truth.parquet) or a pose file (VIDEO.poses.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.schemas import Clip, DataError

_TRUTH_COLUMNS = ("frame", "world_from_cam", "on_ground", "key_longitudinal", "key_lateral", "key_jump")


@dataclass(frozen=True)
class Given:
    """Poses of a whole video, row i at source frame i (or at times_s), with what the file says of its camera."""
    world_from_cam_N44: np.ndarray
    times_s: np.ndarray | None
    camera: dict | None                # model, fx, fy, cx, cy, width, height in displayed source pixels
    pose_source: str                   # engine or file
    metres_per_unit: float | None
    scale_status: str
    perspective: str | None
    keys: dict[str, np.ndarray] | None   # longitudinal, lateral, jump, on_ground; one a source frame


def read_sidecar(path: Path) -> Given:
    """The poses of a sidecar file.

    Raises:
        DataError: the file is missing or broken, is of another kind, or does not declare its convention.
    """
    if not path.exists():
        raise DataError(f"pose file {path.name} is missing")
    try:
        return _read_truth(path) if path.suffix == ".parquet" else _read_poses(path)
    except (pa.ArrowInvalid, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as err:
        raise DataError(f"pose file {path.name} cannot be read: {type(err).__name__} {err}") from err


def _read_truth(path: Path) -> Given:
    table = pq.read_table(path)
    missing = [name for name in _TRUTH_COLUMNS if name not in table.column_names]
    if missing or b"worldloom" not in (table.schema.metadata or {}):
        raise DataError(f"truth file {path.name} lacks {', '.join(missing) or 'its worldloom metadata'}")
    facts = json.loads(table.schema.metadata[b"worldloom"])
    poses = np.array(table["world_from_cam"].to_pylist(), float)
    keys = {column.removeprefix("key_"): table[column].to_numpy() for column in _TRUTH_COLUMNS[2:]}
    return Given(to_canonical(poses, facts.get("convention")), None, facts.get("camera"),
                 facts.get("pose_source", "engine"), facts.get("metres_per_unit"),
                 facts.get("scale_status", "unknown"), facts.get("perspective"), keys)


def _read_poses(path: Path) -> Given:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or not facts.get("poses"):
        raise DataError(f"pose file {path.name} holds no list 'poses'")
    unit_m, times = facts.get("unit_m"), facts.get("times_s")
    poses = to_canonical(np.array(facts["poses"], float), facts.get("convention"), unit_m)
    if times is not None and len(times) != len(poses):
        raise DataError(f"pose file {path.name} has {len(times)} times for {len(poses)} poses; they must agree")
    return Given(poses, None if times is None else np.asarray(times, float), facts.get("camera"), "file",
                 1.0 if unit_m else None, "metric" if unit_m else "unknown", facts.get("perspective"), None)


def poses_of_clip(given: Given, clip: Clip, video_frames: int) -> np.ndarray:
    """Poses (T, 4, 4) at the clip's frames: by time where the file gives times, else by source frame.

    Raises:
        DataError: without times, the file does not hold one pose a frame of the video.
    """
    if given.times_s is not None:
        return P.interpolate_poses(given.world_from_cam_N44, given.times_s, np.asarray(clip.frame_times_s))
    count = len(given.world_from_cam_N44)
    if count != video_frames:
        raise DataError(f"clip {clip.clip_id}: {count} poses for a video of {video_frames} frames; one a frame "
                        "is wanted, or times_s for the poses")
    return given.world_from_cam_N44[np.asarray(clip.source_frames)]
