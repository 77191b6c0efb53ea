"""Pictures to a video with their own times, and a video whose times are known better than its file says."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from worldloom.schemas import DataError

_TICKS = 90_000
_CRF = "10"


def encode_pictures(paths: Sequence[Path], times_s: Sequence[float] | np.ndarray, out: Path) -> None:
    """One H.264 video of the pictures at their times (seconds, from any start), near lossless, with even sides.

    Raises:
        DataError: a picture cannot be read, has another size than the first, or times do not go on.
    """
    import av

    ticks = _ticks(times_s, len(paths))
    first = _picture(paths[0])
    height, width = (side - side % 2 for side in first.shape[:2])
    with av.open(str(out), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=_rate(ticks), options={
            "crf": _CRF, "preset": "veryfast", "bf": "0", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt, stream.time_base = width, height, "yuv420p", Fraction(1, _TICKS)
        stream.codec_context.time_base = Fraction(1, _TICKS)
        stream.codec_context.colorspace, stream.codec_context.color_range = 1, 1
        for path, tick in zip(paths, ticks, strict=True):
            rgb = _picture(path)
            if rgb.shape != first.shape:
                raise DataError(f"{path.name} is {rgb.shape[1]}x{rgb.shape[0]} and {paths[0].name} "
                                f"{first.shape[1]}x{first.shape[0]}; one size is wanted")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb[:height, :width]), format="rgb24").reformat(
                format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            frame.pts, frame.time_base = int(tick), Fraction(1, _TICKS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def restamp(video: Path, times_s: Sequence[float] | np.ndarray, out: Path) -> None:
    """The same compressed frames with other times, in order of display; no picture is encoded again.

    Raises:
        DataError: the video has another number of frames than there are times.
    """
    import av

    with av.open(str(video)) as source, av.open(str(out), "w", format="mp4") as container:
        old = source.streams.video[0]
        packets = [packet for packet in source.demux(old) if packet.pts is not None]
        ticks = _ticks(times_s, len(packets), video)
        stream = container.add_stream_from_template(old)
        stream.time_base = Fraction(1, _TICKS)
        shown = {pts: rank for rank, pts in enumerate(sorted(int(p.pts) for p in packets if p.pts is not None))}
        new = [int(ticks[shown[int(packet.pts or 0)]]) for packet in packets]
        late = max(int(tick) - pts for tick, pts in zip(ticks, new, strict=True))
        for packet, pts, tick in zip(packets, new, ticks, strict=True):
            packet.stream, packet.time_base = stream, Fraction(1, _TICKS)
            packet.pts, packet.dts, packet.duration = pts, int(tick) - late, 0
            container.mux(packet)


def _ticks(times_s: Sequence[float] | np.ndarray, count: int, path: Path | None = None) -> np.ndarray:
    times = np.asarray(times_s, float)
    if len(times) != count or not count:
        raise DataError(f"{path.name if path else 'pictures'}: {count} frames for {len(times)} times; they must agree")
    ticks = np.round((times - times[0]) * _TICKS).astype(np.int64)
    if np.any(np.diff(ticks) <= 0):
        row = int(np.argmax(np.diff(ticks) <= 0)) + 1
        raise DataError(f"picture {row} is not later than picture {row - 1}; times must go on")
    return ticks


def _rate(ticks: np.ndarray) -> Fraction:
    step = float(np.median(np.diff(ticks))) if len(ticks) > 1 else _TICKS
    return Fraction(_TICKS / step).limit_denominator(1000)


def _picture(path: Path) -> np.ndarray:
    import cv2

    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        raise DataError(f"{path.name} cannot be read as a picture")
    return bgr[:, :, ::-1]
