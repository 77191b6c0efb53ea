"""The cameras of a sample that `worldloom pack` wrote, as the pose file beside its video.

camera.npy (T, 16) camera-to-world, intrinsics.npy (T, 4) fx fy cx cy, and the facts of the sample's JSON. The video is
the whole clip; a sample of its first frames alone is cut to them.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.track import Track, pinhole
from worldloom.dataengine.sources.packed import write_bytes
from worldloom.dataengine.sources.shards import Shard
from worldloom.schemas import DataError

CONVENTION = "c2w/opencv/matrix"


def attach_poses(shard: Shard, member: str, facts: dict[str, Any], root: Path) -> str | None:
    """Write the pose file of a video that was brought out; its name, None where the sample has no camera.

    Raises:
        DataError: the arrays are not what the shard format says.
    """
    raw = shard.read(member, "camera.npy")
    if raw is None:
        return None
    poses = _array(raw, f"{member}: camera.npy", 16).reshape(-1, 4, 4)
    _check(poses, facts, member)
    lens = shard.read(member, "intrinsics.npy")
    is_metric = facts.get("scale_status") in ("metric", "exact")
    is_engine = facts.get("pose_source") == "engine"
    track = Track(poses, camera=None if lens is None else _camera(lens, facts, len(poses), member),
                  unit_m=facts.get("metres_per_unit") if is_metric else None, fps=facts.get("fps"),
                  pose_source="engine" if is_engine else "file", gravity="engine" if is_engine else "assumed",
                  gravity_confidence=1.0 if is_engine else 0.5)
    _first_frames(root / shard.place(member), len(poses), facts)
    name = shard.place(member).rpartition(".")[0] + ".poses.json"
    document = track.document(convention=CONVENTION, perspective=facts.get("perspective") or "uncertain", origin_s=0.0)
    write_bytes(root / name, json.dumps(document).encode())
    return name


def _array(raw: bytes, what: str, width: int) -> np.ndarray:
    try:
        array = np.asarray(np.load(io.BytesIO(raw), allow_pickle=False), float)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{what} is no array: {' '.join(str(error).split())[:100]}") from None
    if array.ndim < 2 or array.size != len(array) * width or not len(array) or not np.isfinite(array).all():
        raise DataError(f"{what} has shape {list(array.shape)}; wanted rows of {width} finite numbers")
    return array


def _check(poses_N44: np.ndarray, facts: dict[str, Any], member: str) -> None:
    count = facts.get("num_frames", len(poses_N44))
    if count != len(poses_N44):
        raise DataError(f"{member}: camera.npy has {len(poses_N44)} poses, its JSON counts {count} frames")
    try:
        to_canonical(poses_N44, CONVENTION)
    except DataError as error:
        raise DataError(f"{member}: camera.npy: {error}") from None


def _camera(raw: bytes, facts: dict[str, Any], count: int, member: str) -> dict[str, Any] | None:
    """The median lens, in pixels of the clip, whose size the sample's JSON states."""
    lens = _array(raw, f"{member}: intrinsics.npy", 4)
    if len(lens) != count:
        raise DataError(f"{member}: intrinsics.npy has {len(lens)} rows, camera.npy {count}")
    if not facts.get("width") or not facts.get("height"):
        return None
    fx, fy, cx, cy = np.median(lens, axis=0)
    camera = pinhole(fx, fy, cx, cy, facts["width"], facts["height"])
    return camera | {"model": facts.get("camera_model") or "pinhole"}


def _first_frames(video: Path, count: int, facts: dict[str, Any]) -> None:
    """Cut a clip to the frames that the sample uses, where it uses not all."""
    if facts.get("clip_frames", count) > count and facts.get("fps"):
        from worldloom.dataengine.sources.remux import cut_range

        whole = video.with_name(f".{video.name}.whole")
        video.replace(whole)
        try:
            cut_range(whole, video, 0.0, (count - 0.5) / float(facts["fps"]))
        finally:
            whole.unlink(missing_ok=True)
