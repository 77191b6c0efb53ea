"""A frame bank: every frame of some shards at training size, with its action, read once.

Axes: F frames of all clips one after another, H height, W width, C colours. Windows never cross a clip's border.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from worldloom.schemas.errors import DataError


@dataclass(frozen=True)
class FrameBank:
    """Frames with the action into each, the clip each belongs to, and each clip's camera at this frame size."""
    frames_FHWC: np.ndarray         # uint8
    actions_F6: np.ndarray          # float32: pitch_deg, yaw_deg, longitudinal, lateral, perspective, jump
    clip_F: np.ndarray              # int64, index into intrinsics
    intrinsics_N4: np.ndarray       # float64 fx, fy, cx, cy in pixels of frames_FHWC
    mix: str | None = None          # digest of the mix the frames came from; several joined by +

    def __post_init__(self) -> None:
        if not len(self.frames_FHWC) == len(self.actions_F6) == len(self.clip_F):
            raise DataError("a frame bank needs one action and one clip index a frame")

    def starts(self, length: int) -> np.ndarray:
        """First frames of every window of `length` consecutive frames of one clip.

        Raises:
            DataError: no clip is that long.
        """
        count = max(0, len(self.clip_F) - length + 1)
        found = np.flatnonzero(self.clip_F[:count] == self.clip_F[len(self.clip_F) - count:])
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


class ClipSample(Protocol):
    """What a loader yields: a mapping of labels that decodes its own frames."""

    def __getitem__(self, name: str, /) -> Any: ...

    def decode(self) -> np.ndarray: ...


def fill_bank(samples: Iterable[ClipSample], folder: Path, height: int, width: int,
              mix: str | None = None, stride: int = 1) -> FrameBank:
    """Resize every `stride`-th frame of loader samples into one memory-mapped file under `folder`.

    One clip is in memory at a time. Labels are best measured at the full rate and composed afterwards.

    Raises:
        DataError: there is no sample, or one has another number of frames than actions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "frames.u8"
    actions, lengths, intrinsics = [], [], []
    with path.open("wb") as file:
        for sample in samples:
            decoded = sample.decode()
            if len(decoded) != len(sample["actions_T6"]):
                actions_found = len(sample["actions_T6"])
                raise DataError(f"sample {sample['key']}: {len(decoded)} frames but {actions_found} actions")
            frames = resize_frames(decoded[::stride], height, width)
            file.write(frames.tobytes())
            actions.append(compose_actions(np.asarray(sample["actions_T6"], np.float32), stride))
            lengths.append(len(frames))
            intrinsics.append(_scaled_intrinsics(sample["intrinsics_T4"], decoded.shape[1:3], (height, width)))
    if not lengths:
        raise DataError("the shards hold no sample")
    frames_FHWC = np.memmap(path, np.uint8, "r", shape=(sum(lengths), height, width, 3))
    clips = np.repeat(np.arange(len(lengths)), lengths)
    return FrameBank(frames_FHWC, np.concatenate(actions), clips, np.stack(intrinsics), mix)


def compose_actions(actions_T6: np.ndarray, stride: int) -> np.ndarray:
    """Actions into every `stride`-th frame: angles add up, movement goes by majority, a jump anywhere counts.

    Row 0 is at rest; row k composes rows (k - 1) stride + 1 ... k stride.
    """
    if stride == 1:
        return actions_T6
    kept = (len(actions_T6) - 1) // stride
    groups_KS6 = actions_T6[1:1 + kept * stride].reshape(kept, stride, 6)
    composed = np.zeros((kept + 1, 6), np.float32)
    composed[:, 4] = actions_T6[0, 4]
    composed[1:, :2] = groups_KS6[..., :2].sum(1)
    composed[1:, 2:4] = np.sign(groups_KS6[..., 2:4].sum(1))
    composed[1:, 5] = groups_KS6[..., 5].max(1)
    return composed


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


def read_shards(folders: Sequence[Path], cache: Path, height: int, width: int, stride: int = 1) -> FrameBank:
    """Frame bank of one pass over packed shards, in sample order without shuffling."""
    from worldloom.shards.loader import Loader

    loaders = [Loader(Path(folder), shuffle=False) for folder in folders]
    mix = "+".join(dict.fromkeys(loader.digest for loader in loaders))
    return fill_bank(chain.from_iterable(loaders), cache, height, width, mix, stride)


def _scaled_intrinsics(known_T4: np.ndarray | None, source: tuple[int, int], target: tuple[int, int]) -> np.ndarray:
    """fx, fy, cx, cy of a clip (median over frames) after a resize from (height, width) to another one.

    An unknown camera is taken as 90 degrees wide with square pixels. Pixel centres lie at whole numbers.
    """
    height, width = target
    if known_T4 is None or not np.isfinite(known_T4).all():
        return np.array([width / 2, width / 2, (width - 1) / 2, (height - 1) / 2])
    fx, fy, cx, cy = np.median(np.asarray(known_T4, np.float64), axis=0)
    down, across = height / source[0], width / source[1]
    return np.array([fx * across, fy * down, (cx + 0.5) * across - 0.5, (cy + 0.5) * down - 0.5])
