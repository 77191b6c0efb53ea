"""Which frames a file really has, and when each is shown: found by decoding, once, on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from worldloom.dataengine.video.container import one_line

STANDARD_RATES = (10.0, 12.0, 15.0, 24000 / 1001, 24.0, 25.0, 30000 / 1001, 30.0, 35.0, 48.0, 50.0, 60000 / 1001, 60.0)


@dataclass
class Damage:
    """Filled by `good_frames` when a stream ends before its file does."""
    detail: str | None = None


def good_frames(
    container: InputContainer, stream: VideoStream, damage: Damage
) -> Iterator[tuple[float, av.VideoFrame]]:
    """(time in seconds, frame) in display order up to the last good frame; times rise strictly.

    The times are the file's own. A frame without one, or not after its neighbour, is put one nominal interval later.
    Frames the decoder marks as damaged are left out before the first good one and end the stream after it.
    """
    nominal = 1 / float(stream.average_rate or stream.base_rate or 25)
    last = None
    frames = container.decode(stream)
    while True:
        try:
            frame = next(frames)
        except StopIteration:
            return
        except (av.error.FFmpegError, ValueError, OSError) as error:
            damage.detail = one_line(error)
            return
        if frame.is_corrupt:
            damage.detail = "a frame is damaged"
            if last is None:
                continue
            return
        time = frame.time
        if time is None or (last is not None and time <= last):
            time = 0.0 if last is None else last + nominal
        last = time
        yield time, frame


@dataclass(frozen=True)
class Timing:
    """Times of the frames of one file. `times_s` rises strictly; `stop_s` is where the last frame ends."""
    times_s: tuple[float, ...]
    stop_s: float
    fps: float
    is_variable_rate: bool


def timing_of(times_s: list[float], last_duration_s: float | None, nominal_s: float, tick_s: float) -> Timing:
    """Timing from frame times; a last duration beyond twice the longest interval is not believed."""
    gaps = [b - a for a, b in zip(times_s, times_s[1:], strict=False)]
    usual = median(gaps) if gaps else (last_duration_s or nominal_s)
    longest = max(gaps, default=usual)
    last = last_duration_s if last_duration_s and last_duration_s <= 2 * longest else usual
    spread = longest - min(gaps, default=usual)
    is_variable = spread > 0.1 * usual and spread > 1.5 * tick_s
    mean = (times_s[-1] - times_s[0]) / len(gaps) if gaps else usual
    fps = 1 / (usual if is_variable else mean)
    return Timing(tuple(times_s), times_s[-1] + last, _standard(fps), is_variable)


def _standard(fps: float) -> float:
    near = min(STANDARD_RATES, key=lambda rate: abs(rate - fps))
    return near if abs(near - fps) < 5e-4 * near else fps


def count_and_time(
    container: InputContainer, stream: VideoStream, damage: Damage
) -> tuple[Timing | None, av.VideoFrame | None]:
    """Decode a stream to its end: its timing and first frame, or (None, None) when nothing decodes."""
    times: list[float] = []
    first = frame = None
    for time, frame in good_frames(container, stream, damage):
        times.append(time)
        first = first or frame
    if first is None or frame is None:
        return None, None
    base = float(stream.time_base or 0)
    last = frame.duration * base if frame.duration else None
    nominal = 1 / float(stream.average_rate or stream.base_rate or 25)
    return timing_of(times, last, nominal, base), first
