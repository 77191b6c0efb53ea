"""Frames of a video in display order, upright, with the file's own times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.schemas import ConfigError, DecodeError


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
        backend: pyav, decord or torchcodec: the same frames; the last two need their own package.
        damaged: "raise" a DecodeError where the stream breaks, or "stop" after the last good frame.

    Raises:
        DecodeError: the file cannot be opened or, with damaged="raise", breaks off.
        ConfigError: unknown backend, or its package is not installed.
    """
    if backend == "pyav":
        frames = _pyav_frames(Path(path), width, height, gray, start, damaged)
    elif backend in ("decord", "torchcodec"):
        from worldloom.dataengine.video.backends import backend_frames
        frames = backend_frames(backend, Path(path), width, height, gray, start)
    else:
        raise ConfigError(f"unknown video backend {backend!r}; known: pyav, decord, torchcodec")
    for frame in frames:
        if (stop is not None and frame.index >= stop) or (stop_s is not None and frame.time_s >= stop_s):
            return
        if start_s is None or frame.time_s >= start_s:
            yield frame


def _pyav_frames(
    path: Path, width: int | None, height: int | None, gray: bool, start: int, damaged: str
) -> Iterator[Frame]:
    from worldloom.dataengine.video.container import open_video
    from worldloom.dataengine.video.index import Damage, good_frames
    from worldloom.dataengine.video.picture import geometry_of, upright

    damage, geometry, size = Damage(), None, (0, 0)
    with open_video(path) as (container, stream):
        for index, (time_s, raw) in enumerate(good_frames(container, stream, damage)):
            if geometry is None:
                geometry = geometry_of(stream, raw)
                size = target_size(geometry.display_size, width, height)
            if index >= start:
                yield Frame(index, time_s, upright(raw, geometry, *size, gray=gray))
    if geometry is None or (damage.detail and damaged == "raise"):
        raise DecodeError(f"{path.name}: breaks off ({damage.detail or 'no frame can be decoded'})")


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
