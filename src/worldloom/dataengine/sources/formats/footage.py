"""What a reader has to know of the video beside its poses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from worldloom.dataengine.sources.files import is_video_name
from worldloom.schemas import DataError


def frame_size(video: Path) -> tuple[int, int]:
    """Width and height of the stored pictures."""
    from worldloom.dataengine.video.container import open_video

    with open_video(video) as (_, stream):
        return stream.width, stream.height


def frame_times_s(video: Path) -> np.ndarray:
    """Times (N,) of the frames by the file.

    Raises:
        DataError: the packets do not tell them.
    """
    from worldloom.dataengine.video.container import open_video
    from worldloom.dataengine.video.index import packet_timing

    with open_video(video) as (container, stream):
        timing = packet_timing(container, stream)
    if timing is None:
        raise DataError(f"{video.name}: its packets do not tell the times of its frames, which the poses need")
    return np.asarray(timing.times_s, float)


def times_at(video: Path, frames_N: Sequence[int] | np.ndarray, what: str) -> np.ndarray:
    """Times (N,) of the frames with these numbers.

    Raises:
        DataError: a frame is not in the video, or the numbers do not grow.
    """
    times, frames = frame_times_s(video), np.asarray(frames_N)
    if len(frames) and (frames.min() < 0 or frames.max() >= len(times)):
        raise DataError(f"{what}: frame {int(frames.min() if frames.min() < 0 else frames.max())} of a video of "
                        f"{len(times)} frames")
    falls = np.flatnonzero(np.diff(frames) <= 0)
    if len(falls):
        raise DataError(f"{what}: frame {int(frames[falls[0] + 1])} in row {int(falls[0]) + 1} follows frame "
                        f"{int(frames[falls[0]])}; growing numbers are wanted")
    return times[frames]


def video_beside(path: Path) -> Path | None:
    """The video of the same name with another ending."""
    return next((p for p in sorted(path.parent.glob(f"{path.stem}.*")) if is_video_name(p.name)), None)
