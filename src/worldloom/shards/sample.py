"""A training sample as named members of a tar, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from worldloom.schemas import UNCERTAIN, Action, Camera, DataError

SUFFIXES = ("mp4", "actions.npy", "certain.npy", "camera.npy", "intrinsics.npy", "json")
REQUIRED = ("mp4", "actions.npy", "json")


def sample_key(ordinal: int, clip_id: str) -> str:
    """Key without dots, which would move the border between key and suffix."""
    key = f"{ordinal:08d}_{clip_id}"
    if "." in key or "/" in key:
        raise DataError(f"sample key {key!r} holds a dot or a slash")
    return key


def split_name(name: str) -> tuple[str, str]:
    """(key, suffix) of a member; known suffixes win, so that dots in a key do no harm."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith("." + suffix) and len(name) > len(suffix) + 1:
            return name[:-len(suffix) - 1], suffix
    folder, _, base = name.rpartition("/")
    stem, _, suffix = base.partition(".")
    return (f"{folder}/{stem}" if folder else stem), suffix


UNKNOWN_SE_DEG = 25.0
"""An angle with a larger standard error was not seen at all."""


def action_matrix(action: Action) -> tuple[np.ndarray, np.ndarray]:
    """actions_T6 float32 (pitch_deg, yaw_deg, longitudinal, lateral, perspective tps 0 fps 1, jump), certain_T6 bool.

    What is uncertain is 0 in the first and False in the second.
    """
    t = action.num_frames
    perspective = np.full(t, {"tps": 0, "fps": 1}.get(action.perspective, UNCERTAIN))
    tracks = [action.pitch_deg, action.yaw_deg, action.longitudinal, action.lateral, perspective, action.jump]
    values_T6 = np.stack([np.asarray(track, np.float32) for track in tracks], axis=1)
    certain_T6 = np.isfinite(values_T6)
    certain_T6[:, 2:] &= values_T6[:, 2:] != UNCERTAIN
    certain_T6[:, 0] &= np.asarray(action.pitch_se_deg) <= UNKNOWN_SE_DEG
    certain_T6[:, 1] &= np.asarray(action.yaw_se_deg) <= UNKNOWN_SE_DEG
    return np.where(certain_T6, values_T6, np.float32(0)), certain_T6


def label_members(action: Action, camera: Camera, num_frames: int, meta: Mapping[str, Any]) -> dict[str, bytes]:
    """Members but the video, cut to the first `num_frames` frames."""
    actions_T6, certain_T6 = action_matrix(action)
    poses_T16 = np.asarray(camera.world_from_cam_T44, np.float64).reshape(-1, 16)
    if min(len(actions_T6), len(poses_T16)) < num_frames:
        raise DataError(f"clip {action.clip_id}: {len(actions_T6)} actions, {len(poses_T16)} poses, "
                        f"{num_frames} frames wanted")
    return {
        "actions.npy": npy(actions_T6[:num_frames]), "certain.npy": npy(certain_T6[:num_frames]),
        "camera.npy": npy(poses_T16[:num_frames]), "intrinsics.npy": npy(camera.intrinsics_T4[:num_frames]),
        "json": json.dumps(dict(meta), sort_keys=True, ensure_ascii=False).encode(),
    }


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


class LoadedSample(dict):
    """A sample read from a shard: key, clip_id, component, actions_T6, certain_T6, camera_T44, intrinsics_T4, json."""

    def decode(self, height: int | None = None, width: int | None = None) -> np.ndarray:
        """frames_THWC uint8 RGB, as many as the sample counts, scaled when a size is given.

        Raises:
            DataError: the video holds fewer frames than the sample counts.
        """
        return decode_video(self["mp4"], self["num_frames"], height, width, self["key"])


def decode_video(data: bytes, num_frames: int, height: int | None, width: int | None, key: str) -> np.ndarray:
    import av

    frames = []
    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            for frame in container.decode(stream):
                frames.append(frame.to_ndarray(format="rgb24", height=height, width=width))
                if len(frames) == num_frames:
                    break
    except (av.error.FFmpegError, IndexError) as error:
        raise DataError(f"sample {key}: the video cannot be decoded: {error}") from None
    if len(frames) < num_frames:
        raise DataError(f"sample {key}: {len(frames)} frames decoded, {num_frames} wanted")
    return np.stack(frames)


def read_members(key: str, members: Mapping[str, bytes]) -> LoadedSample:
    """A sample from its members.

    Raises:
        DataError: a member is missing or cannot be read; the message names key and member.
    """
    for suffix in REQUIRED:
        if suffix not in members:
            raise DataError(f"sample {key}: member {key}.{suffix} is missing")
    meta = read_json(key, members["json"])
    arrays = {s: _read_npy(key, s, members[s]) for s in SUFFIXES if s.endswith(".npy") and s in members}
    actions = arrays["actions.npy"]
    count = int(meta.get("num_frames", len(actions)))
    for suffix, array in arrays.items():
        if len(array) != count:
            raise DataError(f"sample {key}: {key}.{suffix} has {len(array)} rows, {count} frames counted")
    camera = arrays.get("camera.npy")
    return LoadedSample(
        key=key, clip_id=meta.get("clip_id", key), component=meta.get("component", ""), num_frames=count,
        actions_T6=actions, certain_T6=arrays.get("certain.npy", np.ones(actions.shape, bool)),
        camera_T44=None if camera is None else camera.reshape(-1, 4, 4), intrinsics_T4=arrays.get("intrinsics.npy"),
        json=meta, mp4=members["mp4"])


def read_json(key: str, data: bytes) -> dict[str, Any]:
    try:
        meta = json.loads(data)
    except ValueError as error:
        raise DataError(f"sample {key}: member {key}.json is not JSON: {error}") from None
    if not isinstance(meta, dict):
        raise DataError(f"sample {key}: member {key}.json is not an object")
    return meta


def _read_npy(key: str, suffix: str, data: bytes) -> np.ndarray:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"sample {key}: member {key}.{suffix} is not an array: {error}") from None
