"""Camera tracks that come with a video: recorder truth (VIDEO.truth.parquet) or a pose file (VIDEO.poses.json).

Rules: poses with times are matched to frames by time, extra ones are left out with a log line, and a clip with a frame
outside of them or in a hole is refused. Poses without times must be exactly one a frame; frame i has pose i.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.annotators.camera.pose_files import PoseTable, read_colmap, read_noted
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.schemas import Clip, DataError

_TRUTH_COLUMNS = ("frame", "world_from_cam", "on_ground", "key_longitudinal", "key_lateral", "key_jump")
_LOG = logging.getLogger(__name__)


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
    gravity_source: str = "assumed"
    gravity_confidence: float = 0.5


def read_sidecar(path: Path) -> Given:
    """The poses of a sidecar file, read once for the clips of its video that follow each other.

    Raises:
        DataError: the file is missing or broken, is of another kind, or does not declare its convention.
    """
    if not path.exists():
        raise DataError(f"pose file {path.name} is missing")
    facts = path.stat()
    return _read(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=2)
def _read(path: Path, _changed_ns: int, _size: int) -> Given:
    try:
        if path.suffix == ".parquet":
            return _read_truth(path)
        return _canonical(path, read_colmap(path)) if path.suffix == ".txt" else _read_poses(path)
    except (pa.ArrowInvalid, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as err:
        raise DataError(f"pose file {path.name} cannot be read: {type(err).__name__} {err}") from err


def holds_poses(path: Path) -> bool:
    """Whether a sidecar file is one of poses: False where it has recorded keys alone.

    A file that cannot be read counts as one of poses, so that whoever reads it says what is wrong.
    """
    if path.suffix != ".json":
        return True
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    return not isinstance(facts, dict) or "keys" not in facts or not facts.keys().isdisjoint(("poses", "pose", "axes"))


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
                 facts.get("scale_status", "unknown"), facts.get("perspective"), keys, "engine", 1.0)


def _read_poses(path: Path) -> Given:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict):
        raise DataError(f"pose file {path.name} holds no list 'poses'")
    if "poses" not in facts:
        return _canonical(path, read_noted(path, facts), facts.get("perspective"))
    if not facts["poses"]:
        raise DataError(f"pose file {path.name} holds no list 'poses' with a pose in it")
    if facts.get("frame", "camera") != "camera":
        raise DataError(f"pose file {path.name} holds the path of a {facts['frame']}; where the camera sits on it is "
                        "wanted (its calibration beside the poses)")
    times = facts.get("times_s")
    table = PoseTable(np.array(facts["poses"], float), facts.get("convention"), facts.get("unit_m"),
                      None if times is None else np.asarray(times, float), facts.get("camera"))
    return _with_facts(_canonical(path, table, facts.get("perspective")), facts)


def _with_facts(given: Given, facts: dict) -> Given:
    """What a pose file may say besides: an engine as the source of the poses, how the world is levelled, keys."""
    is_engine, gravity, keys = facts.get("pose_source") == "engine", facts.get("gravity", {}), facts.get("keys")
    if not isinstance(gravity, dict) or not isinstance(keys, dict | None):
        raise DataError(f"pose file: gravity {gravity!r:.40} and keys {keys!r:.40}; wanted objects: a source and a "
                        "confidence, and a list for each axis")
    if keys is not None:
        count = len(given.world_from_cam_N44)
        unrecorded = {"longitudinal": np.zeros(count), "lateral": np.zeros(count), "jump": np.zeros(count),
                      "on_ground": np.ones(count)}
        keys = unrecorded | {name: np.asarray(track, float) for name, track in keys.items()}
    return replace(given, keys=keys, pose_source="engine" if is_engine else "file",
                   scale_status="exact" if is_engine and given.metres_per_unit else given.scale_status,
                   gravity_source=gravity.get("source", "assumed"),
                   gravity_confidence=float(gravity.get("confidence", 0.5)))


def _canonical(path: Path, table: PoseTable, perspective: str | None = None) -> Given:
    try:
        poses = to_canonical(table.poses, table.convention, table.unit_m)
        if table.times_s is not None:
            P.check_times(table.times_s, len(poses))
    except DataError as err:
        raise DataError(f"pose file {path.name}: {err}") from err
    return Given(poses, table.times_s, table.camera, "file", 1.0 if table.unit_m else None,
                 "metric" if table.unit_m else "unknown", perspective, None)


def poses_of_clip(given: Given, clip: Clip, video_frames: int) -> np.ndarray:
    """Poses (T, 4, 4) at the clip's frames: by time where the file gives times, else by source frame.

    Raises:
        DataError: frames lie outside the times or the clip spans a hole in them; or, without times, the file does
            not hold one pose a frame of the video.
    """
    if given.times_s is not None:
        _log_extra(given.times_s, clip, video_frames)
        return P.interpolate_poses(given.world_from_cam_N44, given.times_s, np.asarray(clip.frame_times_s))
    count = len(given.world_from_cam_N44)
    if count != video_frames:
        raise DataError(f"clip {clip.clip_id}: {count} poses for a video of {video_frames} frames; one a frame "
                        "is wanted, or times_s for the poses")
    return given.world_from_cam_N44[np.asarray(clip.source_frames)]


def _log_extra(times_s: np.ndarray, clip: Clip, video_frames: int) -> None:
    """Says which poses after the video's last frame are left out."""
    if clip.source_frames[-1] == video_frames - 1:
        extra = times_s > clip.frame_times_s[-1] + 0.5 / clip.fps
        if extra.any():
            _LOG.warning("video %s: the pose of row %s is after the last frame and left out", clip.video_id,
                         P.name_rows(extra))
