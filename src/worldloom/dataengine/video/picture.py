"""From a decoded frame to an upright picture with square pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream

from worldloom.dataengine.video.framing import Framing

_UNSPECIFIED = 2
_EXACT = Interpolation.ACCURATE_RND | Interpolation.BITEXACT
_AREA, _BICUBIC = Interpolation.AREA | _EXACT, Interpolation.BICUBIC | _EXACT
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
    shown = frame.reformat(width=w, height=h, format="gray" if gray else "rgb24", threads=1,
                           interpolation=_AREA if shrinks else _BICUBIC)
    return turned(shown.to_ndarray(), geometry)


class Canonical:
    """Turns decoded frames of one video into canonical pictures: upright, scaled, cropped, YUV 4:2:0, BT.709 limited.

    Where nothing turns, the picture never leaves YUV; frames without a stated matrix are taken for BT.601.
    """

    def __init__(self, geometry: Geometry, framing: Framing) -> None:
        self.geometry, self.framing = geometry, framing
        self._scale = VideoReformatter()
        self._thumbs: dict[tuple[int, int], VideoReformatter] = {}

    def picture(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The canonical picture of a frame, `framing.width` x `framing.height`."""
        framing = self.framing
        if self.geometry.rotation_deg or self.geometry.is_flipped:
            rgb_HWC = upright(frame, self.geometry, framing.scaled_width, framing.scaled_height)
            frame = av.VideoFrame.from_ndarray(rgb_HWC, format="rgb24")
        shrinks = framing.scaled_width < frame.width or framing.scaled_height < frame.height
        matrix = Colorspace.ITU601 if frame.colorspace == _UNSPECIFIED else None
        shown = self._scale.reformat(
            frame, framing.scaled_width, framing.scaled_height, "yuv420p", src_colorspace=matrix,
            dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG, threads=1,
            interpolation=_AREA if shrinks else _BICUBIC)
        return shown if framing.is_whole else _cropped(shown, framing)

    def thumb(self, frame: av.VideoFrame, width: int, height: int) -> np.ndarray:
        """The whole picture at a small width x height, upright: uint8 RGB (H, W, 3)."""
        size = (height, width) if self.geometry.rotation_deg % 180 else (width, height)
        scaler = self._thumbs.setdefault(size, VideoReformatter())
        small = scaler.reformat(frame, *size, "rgb24", threads=1, interpolation=_AREA)
        return turned(small.to_ndarray(), self.geometry)


def _cropped(frame: av.VideoFrame, framing: Framing) -> av.VideoFrame:
    """A YUV 4:2:0 frame cut to the framing, whose offsets are even."""
    planes = []
    for number, plane in enumerate(frame.planes):
        half = 2 if number else 1
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        top, left = framing.top // half, framing.left // half
        planes.append(rows[top:top + framing.height // half, left:left + framing.width // half].ravel())
    stacked = np.concatenate(planes).reshape(framing.height * 3 // 2, framing.width)
    return av.VideoFrame.from_ndarray(stacked, format="yuv420p")


def turned(picture: np.ndarray, geometry: Geometry) -> np.ndarray:
    """A stored picture (H, W, ...) flipped and turned to how it is displayed, contiguous."""
    if geometry.is_flipped:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(np.rot90(picture, -geometry.rotation_deg // 90))
