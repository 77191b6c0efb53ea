"""Constant black bars of a video (letterbox, pillarbox): found in a sample of its frames, cut from each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import av
import av.filter
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from worldloom.dataengine.video.container import open_video
from worldloom.dataengine.video.index import Damage, good_frames
from worldloom.dataengine.video.picture import Geometry

BLACK = 28
"""Bars are darker than this of 255; codecs leave them near 0, and ringing beside the picture a little above."""
LIT_SHARE = 0.01
"""A line with a larger share of brighter pixels is picture."""
FIRST, SPREAD = 8, 12
"""Frames looked at: the first ones, and key frames spread over the whole file."""
LEAST_SHARE = 0.3
"""A picture smaller than this share of a side is a dark film, not a picture between bars."""


@dataclass(frozen=True)
class Bars:
    """Black margins in stored pixels; all even, so that a crop keeps whole chroma samples."""
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0

    def __bool__(self) -> bool:
        return any((self.left, self.top, self.right, self.bottom))

    def inside(self, geometry: Geometry) -> Geometry:
        """The geometry of what is left of a stored picture."""
        return replace(geometry, stored_width=geometry.stored_width - self.left - self.right,
                       stored_height=geometry.stored_height - self.top - self.bottom)

    def origin_px(self, geometry: Geometry) -> tuple[float, float]:
        """Left and top margin as displayed: after the pixel shape, a flip and a turn of `geometry`."""
        aspect = geometry.sample_aspect_ratio
        left, right = (self.right, self.left) if geometry.is_flipped else (self.left, self.right)
        sides = (left * aspect, float(self.top), right * aspect, float(self.bottom))      # clockwise from the left
        quarter = geometry.rotation_deg // 90
        return sides[-quarter % 4], sides[(1 - quarter) % 4]


def find_bars(path: Path) -> Bars:
    """Margins that are black in every sampled frame, alike on opposite sides to a fiftieth of the picture.

    Unlike margins are taken for dark scenery and left.

    Raises:
        DecodeError: the file cannot be opened.
    """
    lit_rows = lit_columns = np.zeros(0, bool)
    for luma_HW in _sample(path):
        lit_HW = luma_HW > BLACK
        rows, columns = lit_HW.mean(1) > LIT_SHARE, lit_HW.mean(0) > LIT_SHARE
        if not lit_rows.size:
            lit_rows, lit_columns = rows, columns
        elif (rows.size, columns.size) == (lit_rows.size, lit_columns.size):
            lit_rows, lit_columns = lit_rows | rows, lit_columns | columns
    (top, bottom), (left, right) = _margins(lit_rows), _margins(lit_columns)
    return Bars(left, top, right, bottom)


def _margins(lit: np.ndarray) -> tuple[int, int]:
    """Dark lines before the first lit one and after the last, as even numbers; (0, 0) where they are no bars."""
    where = np.flatnonzero(lit)
    if not where.size:
        return 0, 0
    before, after = int(where[0]), int(lit.size - 1 - where[-1])
    if abs(before - after) > max(4, lit.size // 50) or lit.size - before - after < LEAST_SHARE * lit.size:
        return 0, 0
    return (before + 1) // 2 * 2, (after + 1) // 2 * 2


def _sample(path: Path) -> Iterator[np.ndarray]:
    """Luma (H, W) of the first frames as stored, then of key frames spread over the file."""
    with open_video(path) as (container, stream):
        for _, frame in islice(good_frames(container, stream, Damage()), FIRST):
            yield _luma(frame)
        duration = container.duration or 0
        for number in range(1, SPREAD):
            key_frame = _key_frame(container, stream, duration * number // SPREAD)
            if key_frame is not None:
                yield _luma(key_frame)


def _key_frame(container: InputContainer, stream: VideoStream, offset_us: int) -> av.VideoFrame | None:
    """The key frame at or before a place in the file; None where it cannot be reached or is damaged."""
    try:
        container.seek((container.start_time or 0) + offset_us)
        frame = next(container.decode(stream), None)
    except (av.error.FFmpegError, ValueError, OSError):
        return None
    return None if frame is None or frame.is_corrupt else frame


def _luma(frame: av.VideoFrame) -> np.ndarray:
    return frame.reformat(format="gray", threads=1).to_ndarray()


def without_bars(frames: Iterator[tuple[float, av.VideoFrame]], stream: VideoStream, bars: Bars
                 ) -> Iterator[tuple[float, av.VideoFrame]]:
    """The frames without their margins, at the same times; no pixel is changed or copied."""
    graph: av.filter.Graph | None = None
    for time_s, frame in frames:
        if graph is None:
            graph = _crop(frame, stream, bars)
        graph.push(frame)
        shown = graph.pull()
        assert isinstance(shown, av.VideoFrame)
        yield time_s, shown


def _crop(first: av.VideoFrame, stream: VideoStream, bars: Bars) -> av.filter.Graph:
    graph = av.filter.Graph()
    source = graph.add_buffer(width=first.width, height=first.height, format=first.format, time_base=stream.time_base)
    sink = graph.add("buffersink")
    width, height = first.width - bars.left - bars.right, first.height - bars.top - bars.bottom
    crop = graph.add("crop", f"w={width}:h={height}:x={bars.left}:y={bars.top}")
    source.link_to(crop)
    crop.link_to(sink)
    graph.configure()
    return graph
