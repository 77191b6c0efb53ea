"""From a decoded frame to an upright picture with square pixels."""

from __future__ import annotations

from dataclasses import dataclass

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


def pixel_aspect(stream: VideoStream, frame: av.VideoFrame) -> float:
    """Pixel width over height, 1.0 where the file says nothing credible."""
    ratio = stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio
    value = float(ratio) if ratio else 1.0
    return value if 1 / MAX_PIXEL_ASPECT <= value <= MAX_PIXEL_ASPECT else 1.0


def _is_flipped(frame: av.VideoFrame) -> bool:
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return False
    a, b, _, c, d = np.frombuffer(bytes(matrix), dtype="<i4")[:5].astype(np.float64)
    return bool(a * d - b * c < 0)


def geometry_of(stream: VideoStream, frame: av.VideoFrame) -> Geometry:
    """Geometry by the first frame; the display turn is rounded to a quarter."""
    is_flipped = _is_flipped(frame)
    turn = round(-frame.rotation / 90) % 4 * 90
    if is_flipped:
        turn = -turn % 360
    return Geometry(frame.width, frame.height, pixel_aspect(stream, frame), turn, is_flipped)


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
        interpolation=how | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT,
    )
    return turned(shown.to_ndarray(), geometry)


def turned(picture: np.ndarray, geometry: Geometry) -> np.ndarray:
    """A stored picture (H, W, ...) flipped and turned to how it is displayed, contiguous."""
    if geometry.is_flipped:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(np.rot90(picture, -geometry.rotation_deg // 90))
