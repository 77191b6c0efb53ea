"""Which source frame is shown at each tick of a constant rate: the latest one due, and never one twice."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from worldloom.schemas import DecodeError

SLOW_PERCENTILE = 0.95


def exact_rate(fps: float) -> Fraction:
    """The fraction a file stores for a rate: 29.97... becomes 30000/1001."""
    ntsc = Fraction(round(fps * 1001 / 1000) * 1000, 1001)
    if abs(float(ntsc) - fps) < 1e-3 and abs(round(fps) - fps) > 1e-3:
        return ntsc
    return Fraction(fps).limit_denominator(1000)


def sustained_rate(path: Path) -> float:
    """Rate a variable-rate file keeps up for 95 percent of its frames, from the times of its packets."""
    from worldloom.dataengine.video.container import open_video, packet_pts

    with open_video(path) as (container, stream):
        base = stream.time_base
        gaps = np.sort(np.diff(np.unique(np.fromiter(packet_pts(container, stream), np.int64))))
    if not gaps.size or base is None:
        raise DecodeError(f"{path.name}: no frame times to take a rate from")
    return 1 / float(int(gaps[min(gaps.size - 1, int(SLOW_PERCENTILE * gaps.size))]) * base)


class Cadence:
    """Ticks of one clip: tick k is at start + k / fps and shows the latest frame at or before its middle."""

    def __init__(self, start_s: float, fps: float) -> None:
        self.start_s, self.fps, self.ticks = start_s, fps, 0

    def due_s(self) -> float:
        """A frame at or before this time can be shown at the next tick."""
        return self.start_s + (self.ticks + 0.5) / self.fps + 1e-9

    def ticks_before(self, next_time_s: float) -> Iterator[int]:
        """Ticks that must be served before the frame at `next_time_s` comes into question."""
        while self.due_s() < next_time_s:
            yield self.ticks
            self.ticks += 1
