"""Recorded movement keys: of a recorder's truth file, or `keys` in a pose file (VIDEO.poses.json), frame by frame.

A pose file's keys are lists, one value a pose, for any of longitudinal, lateral, jump and on_ground; value i is held
from pose i on. They are read also where the poses themselves are not used, because the track was estimated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from worldloom.annotators.camera.given import read_sidecar
from worldloom.schemas import Clip, DataError, Video

AXES = ("longitudinal", "lateral", "jump", "on_ground")
_ROUNDED_S = 2e-6       # pose files hold whole microseconds: a shorter overlap of a key and a step is rounding


@dataclass(frozen=True)
class Keys:
    """Recorded movement keys of each clip frame's step, -1, 0, +1, and whether the body stands on the ground.

    `jump` and `on_ground` are None where they were not recorded.
    """
    longitudinal: np.ndarray
    lateral: np.ndarray
    jump: np.ndarray | None
    on_ground: np.ndarray | None

    def __len__(self) -> int:
        return len(self.longitudinal)


@dataclass(frozen=True)
class Recorded:
    """Keys of a whole video: value i is held from source frame i on, or from times_s[i]."""
    file: str
    tracks: Mapping[str, np.ndarray]
    times_s: np.ndarray | None = None


def recorded_keys(path: Path) -> Recorded | None:
    """The movement keys that a truth or pose file holds; None where it holds none.

    Raises:
        DataError: the file cannot be read, or its keys are no lists of numbers of one length.
    """
    if path.suffix == ".parquet":
        return Recorded(path.name, read_sidecar(path).keys or {})
    if path.suffix != ".json":
        return None
    facts = _facts(path)
    keys = facts.get("keys")
    if keys is None:
        return None
    if not isinstance(keys, dict):
        raise DataError(f"pose file {path.name}: keys {keys!r:.40}; wanted a list for each of {', '.join(AXES)}")
    tracks = {axis: _numbers(path, axis, keys[axis]) for axis in AXES if axis in keys}
    times = None if facts.get("times_s") is None else _numbers(path, "times_s", facts["times_s"])
    wanted = len(times) if times is not None else len(next(iter(tracks.values()), ()))
    wrong = [f"{len(track)} {axis} keys" for axis, track in tracks.items() if len(track) != wanted]
    if wrong:
        raise DataError(f"pose file {path.name}: {', '.join(wrong)} where {wanted} are wanted, one a pose")
    return Recorded(path.name, tracks, times) if {"longitudinal", "lateral"} & tracks.keys() else None


def _facts(path: Path) -> dict:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as err:
        raise DataError(f"pose file {path.name} cannot be read: {type(err).__name__} {err}") from err
    return facts if isinstance(facts, dict) else {}


def _numbers(path: Path, name: str, values: object) -> np.ndarray:
    try:
        track = np.asarray(values, float)
    except (TypeError, ValueError):
        track = np.full(1, np.nan)
    if track.ndim != 1 or not np.isfinite(track).all():
        raise DataError(f"pose file {path.name}: {name} {values!r:.40}; wanted a list of numbers, one a pose")
    return track


def keys_of_clip(recorded: Recorded, clip: Clip, video: Video) -> Keys:
    """Keys of each clip frame: those held over the step into it, in time; none at index 0.

    A longer key wins over a shorter opposite one; an axis that was not recorded was not pressed.

    Raises:
        DataError: the file does not hold one value a source frame, or its times do not cover the clip.
    """
    tracks, count = recorded.tracks, clip.num_frames
    held = {axis: _held(recorded, track, clip, video) for axis, track in tracks.items() if axis != "on_ground"}
    none = np.zeros(count, np.int8)
    longitudinal, lateral = (np.sign(held[axis]).astype(np.int8) if axis in held else none for axis in AXES[:2])
    jump = (held["jump"] > 0).astype(np.int8) if "jump" in held else None
    ground = tracks["on_ground"][_rows_at(recorded, clip)] > 0 if "on_ground" in tracks else None
    return Keys(longitudinal, lateral, jump, ground)


def _held(recorded: Recorded, track: np.ndarray, clip: Clip, video: Video) -> np.ndarray:
    """Sum (T,) of a key over the step into each frame, by frames or by seconds."""
    if recorded.times_s is None:
        if len(track) != video.num_frames:
            raise DataError(f"clip {clip.clip_id}: {len(track)} key rows for a video of {video.num_frames} frames; one "
                            f"a frame is wanted in {recorded.file}")
        at_T, pressed = np.asarray(clip.source_frames), np.cumsum(np.concatenate([[0.0], track]))
        return np.diff(pressed[at_T], prepend=pressed[at_T[:1]])
    times, at_T = recorded.times_s, np.asarray(clip.frame_times_s)
    slack = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    if at_T[0] < times[0] - slack or at_T[-1] > times[-1] + slack or np.any(np.diff(times) <= 0):
        raise DataError(f"clip {clip.clip_id}: keys of {recorded.file} from {times[0]:g} to {times[-1]:g} s for frames "
                        f"from {at_T[0]:g} to {at_T[-1]:g} s; growing times that cover the frames are wanted")
    pressed = np.concatenate([[0.0], np.cumsum(track[:-1] * np.diff(times))])
    sums_T = np.interp(at_T, times, pressed)
    return np.where(np.abs(change := np.diff(sums_T, prepend=sums_T[:1])) > _ROUNDED_S, change, 0.0)


def _rows_at(recorded: Recorded, clip: Clip) -> np.ndarray:
    """The row of the file that holds at each frame."""
    if recorded.times_s is None:
        return np.asarray(clip.source_frames)
    rows = np.searchsorted(recorded.times_s, np.asarray(clip.frame_times_s) + 1e-6, side="right") - 1
    return np.clip(rows, 0, len(recorded.times_s) - 1)
