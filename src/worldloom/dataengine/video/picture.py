"""From a decoded frame to an upright picture with square pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

MAX_PIXEL_ASPECT = 4.0
"""A pixel shape beyond 4:1 is taken for a broken header and ignored."""


@dataclass(frozen=True)
class Geometry:
    """How stored pictures become displayed ones; `rotation_deg` is clockwise, a flip comes before it."""
    stored_width: int
    stored_height: int
    sample_aspect_ratio: float
    rotation_deg: int
    is_flipped: bool = False

    @property
    def display_size(self) -> tuple[int, int]:
        """(width, height) upright with square pixels."""
        width = max(1, round(self.stored_width * self.sample_aspect_ratio))
        return (self.stored_height, width) if self.rotation_deg % 180 else (width, self.stored_height)


def pixel_aspect(stream: VideoStream) -> float:
    """Pixel width over height, 1.0 where the file says nothing credible."""
    ratio = stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio
    value = float(ratio) if ratio else 1.0
    return value if 1 / MAX_PIXEL_ASPECT <= value <= MAX_PIXEL_ASPECT else 1.0


def _display(frame: av.VideoFrame) -> tuple[int, bool]:
    """(clockwise turn in degrees, rounded to a quarter; whether the picture is mirrored before it)."""
    matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 0, False
    a, b, _, c, d = np.frombuffer(matrix, dtype=np.int32)[:5].astype(np.float64)
    is_flipped = bool(a * d - b * c < 0)
    turn = math.degrees(math.atan2(-b, -a) if is_flipped else math.atan2(b, a))
    return round(turn / 90) % 4 * 90, is_flipped


def geometry_of(stream: VideoStream, frame: av.VideoFrame) -> Geometry:
    """Geometry by the first frame of a stream."""
    turn, is_flipped = _display(frame)
    return Geometry(frame.width, frame.height, pixel_aspect(stream), turn, is_flipped)


def upright(
    frame: av.VideoFrame, geometry: Geometry, width: int, height: int, *, gray: bool = False
) -> np.ndarray:
    """The picture as displayed, scaled to width x height: uint8 RGB (H, W, 3), or (H, W) gray.

    A frame that changes size inside the stream is scaled to the same picture. More than 8 bits are rounded by the
    converter.
    """
    w, h = (height, width) if geometry.rotation_deg % 180 else (width, height)
    shrinks = w < frame.width or h < frame.height
    how = Interpolation.AREA if shrinks else Interpolation.BICUBIC
    shown = frame.reformat(
        width=w, height=h, format="gray" if gray else "rgb24", threads=1,
        interpolation=how | Interpolation.ACCURATE_RND | Interpolation.BITEXACT,
    )
    return turned(shown.to_ndarray(), geometry)


def turned(picture: np.ndarray, geometry: Geometry) -> np.ndarray:
    """A stored picture (H, W, ...) flipped and turned to how it is displayed, contiguous."""
    if geometry.is_flipped:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(np.rot90(picture, -geometry.rotation_deg // 90))
