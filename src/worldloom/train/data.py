"""A frame bank: every frame of some shards at training size, with its action, read once.

Axes: F frames of all clips one after another, H height, W width, C colours. Windows never cross a clip's border.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.schemas.errors import ConfigError, DataError


@dataclass(frozen=True)
class FrameBank:
    """Frames with the action into each, the clip each belongs to, and each clip's camera at this frame size."""
    frames_FHWC: np.ndarray         # uint8
    actions_F6: np.ndarray          # float32: pitch_deg, yaw_deg, longitudinal, lateral, perspective, jump
    clip_F: np.ndarray              # int64, index into intrinsics
    intrinsics_N4: np.ndarray       # float64 fx, fy, cx, cy in pixels of frames_FHWC

    def __post_init__(self) -> None:
        if not len(self.frames_FHWC) == len(self.actions_F6) == len(self.clip_F):
            raise DataError("a frame bank needs one action and one clip index a frame")

    def starts(self, length: int) -> np.ndarray:
        """First frames of every window of `length` frames inside one clip, the clip's resting frame 0 left out of
        the actions (a window's first action is never used).

        Raises:
            DataError: no clip is that long.
        """
        count = len(self.clip_F) - length + 1
        found = np.flatnonzero(self.clip_F[:max(0, count)] == self.clip_F[length - 1:]) if count > 0 else np.empty(0, int)
        if not len(found):
            raise DataError(f"no clip has {length} consecutive frames; lengthen the clips or shorten the window")
        return found

    def motion(self, starts: np.ndarray, skip: int, length: int, yaw_scale_deg: float) -> np.ndarray:
        """Largest motion of each window's frames [skip, length), in model units; walking counts as one half."""
        size = np.maximum(np.abs(self.actions_F6[:, 1]) / yaw_scale_deg * 2,
                          np.abs(self.actions_F6[:, 2:4]).max(1) / 2)
        return size[starts[:, None] + np.arange(skip, length)].max(1)

    def window(self, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """(B, length, H, W, C) frames and (B, length, 6) actions of the windows at `starts`."""
        index = np.asarray(starts)[:, None] + np.arange(length)
        return self.frames_FHWC[index], self.actions_F6[index]


def fill_bank(samples: Iterable[Mapping[str, Any]], folder: Path, height: int, width: int) -> FrameBank:
    """Resize the frames of loader samples into one memory-mapped file under `folder`, one clip in memory at a time.

    Raises:
        DataError: there is no sample, or one has another number of frames than actions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "frames.u8"
    actions, lengths, intrinsics = [], [], []
    with path.open("wb") as file:
        for sample in samples:
            frames = resize_frames(sample["frames_THWC"], height, width)
            if len(frames) != len(sample["actions_T6"]):
                raise DataError(f"sample {sample['key']}: {len(frames)} frames but {len(sample['actions_T6'])} actions")
            file.write(frames.tobytes())
            actions.append(np.asarray(sample["actions_T6"], np.float32))
            lengths.append(len(frames))
            intrinsics.append(_scaled_intrinsics(sample, height, width))
    if not lengths:
        raise DataError("the shards hold no sample")
    frames_FHWC = np.memmap(path, np.uint8, "r", shape=(sum(lengths), height, width, 3))
    clips = np.repeat(np.arange(len(lengths)), lengths)
    return FrameBank(frames_FHWC, np.concatenate(actions), clips, np.stack(intrinsics))


def resize_frames(frames_THWC: np.ndarray, height: int, width: int) -> np.ndarray:
    """Frames at another size, averaged over the area (no aliasing when shrinking)."""
    import cv2

    cv2.setNumThreads(1)
    if frames_THWC.shape[1:3] == (height, width):
        return np.ascontiguousarray(frames_THWC)
    out = np.empty((len(frames_THWC), height, width, 3), np.uint8)
    for index, frame in enumerate(frames_THWC):
        cv2.resize(frame, (width, height), dst=out[index], interpolation=cv2.INTER_AREA)
    return out


def read_shards(folders: Sequence[Path], cache: Path, height: int, width: int) -> FrameBank:
    """Frame bank of one pass over packed shards, in sample order without shuffling."""
    from worldloom.shards.loader import Loader

    for folder in folders:
        if not Path(folder).is_dir():
            raise ConfigError(f"{folder}: no such shard folder")
    samples = (sample for folder in folders for sample in Loader(Path(folder), shuffle=False))
    return fill_bank(samples, cache, height, width)


def mix_digest(folders: Sequence[Path]) -> str | None:
    """Digest of the mix that shards were packed from: what their index says, else the name of their folder."""
    found = []
    for folder in map(Path, folders):
        index = folder / "index.json"
        named = json.loads(index.read_text()).get("mix_digest") if index.is_file() else None
        found.append(str(named or folder.resolve().name))
    return "+".join(found) or None


def _scaled_intrinsics(sample: Mapping[str, Any], height: int, width: int) -> np.ndarray:
    """fx, fy, cx, cy of the clip (median over frames) in pixels of the resized frames; a pixel centre is at +0.5."""
    source_height, source_width = sample["frames_THWC"].shape[1:3]
    known = sample.get("intrinsics_T4")
    if known is None or not np.isfinite(known).all():
        return np.array([width / 2, width / 2, (width - 1) / 2, (height - 1) / 2])
    fx, fy, cx, cy = np.median(np.asarray(known, np.float64), axis=0)
    across, down = width / source_width, height / source_height
    return np.array([fx * across, fy * down, (cx + 0.5) * across - 0.5, (cy + 0.5) * down - 0.5])
