"""Frames of a video in display order, upright, with the file's own times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.schemas import DecodeError


@dataclass(frozen=True)
class Frame:
    """One picture: `rgb_HWC` is uint8 (H, W, 3), or (H, W) where gray was asked for."""
    index: int
    time_s: float
    rgb_HWC: np.ndarray


def target_size(display: tuple[int, int], width: int | None, height: int | None) -> tuple[int, int]:
    """(width, height) asked for; a side left out keeps the aspect."""
    if width is not None:
        return width, height or max(1, round(display[1] * width / display[0]))
    if height is not None:
        return max(1, round(display[0] * height / display[1])), height
    return display


def iter_frames(
    path: Path | str, *, width: int | None = None, height: int | None = None, gray: bool = False, start: int = 0,
    stop: int | None = None, start_s: float | None = None, stop_s: float | None = None, backend: str = "pyav",
    damaged: str = "raise",
) -> Iterator[Frame]:
    """Frames with index in [start, stop) and time in [start_s, stop_s), decoded in order on one thread.

    Args:
        width, height: size wanted, else as displayed; one alone keeps the aspect.
        backend: pyav, decord or torchcodec: the same frames at the same times; the last two need their own package,
            and take no file that is unusual (`backends.choose` says which).
        damaged: "raise" a DecodeError where the stream breaks, or "stop" after the last good frame.

    Raises:
        DecodeError: the file cannot be opened or, with damaged="raise", breaks off.
        ConfigError: unknown backend, or its package is not installed.
    """
    if backend == "pyav":
        from worldloom.dataengine.video.backends.pyav import pyav_frames
        frames = pyav_frames(Path(path), width, height, gray, start, damaged)
    else:
        frames = _other_frames(backend, Path(path), width, height, gray, start)
    for frame in frames:
        if (stop is not None and frame.index >= stop) or (stop_s is not None and frame.time_s >= stop_s):
            return
        if start_s is None or frame.time_s >= start_s:
            yield frame


def _other_frames(
    backend: str, path: Path, width: int | None, height: int | None, gray: bool, start: int
) -> Iterator[Frame]:
    """As pyav_frames, by another decoder; sizes are the same."""
    from worldloom.dataengine.video.backends import timed_pictures

    size: tuple[int, int] | None = None
    for index, time_s, rgb_HWC in timed_pictures(backend, path, start):
        size = size or target_size((rgb_HWC.shape[1], rgb_HWC.shape[0]), width, height)
        yield Frame(index, time_s, _resized(rgb_HWC, size, gray))


def _resized(rgb_HWC: np.ndarray, size: tuple[int, int], gray: bool) -> np.ndarray:
    import cv2

    if rgb_HWC.shape[1::-1] != size:
        rgb_HWC = cv2.resize(rgb_HWC, size, interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(rgb_HWC, cv2.COLOR_RGB2GRAY) if gray else rgb_HWC


def read_frames(
    path: Path | str, *, width: int | None = None, height: int | None = None, gray: bool = False, start: int = 0,
    stop: int | None = None, **options: Any,
) -> np.ndarray:
    """Frames [start, stop) as one array: uint8 (T, H, W, 3), or (T, H, W) gray. Options as for `iter_frames`.

    Raises:
        DecodeError: as `iter_frames`, and where the range holds no frame or reaches past the end.
    """
    frames = [frame.rgb_HWC for frame in iter_frames(
        path, width=width, height=height, gray=gray, start=start, stop=stop, **options)]
    whole = stop is None or "stop_s" in options or "start_s" in options or len(frames) == stop - start
    if not frames or not whole:
        raise DecodeError(f"{Path(path).name}: frames [{start}, {stop}) asked, {len(frames)} there")
    return np.stack(frames)
