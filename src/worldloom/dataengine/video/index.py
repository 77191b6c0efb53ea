"""Which frames a file has, and when each is shown: from its packets where those can be trusted, else by decoding."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import av
import av.filter
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from worldloom.dataengine.stage import ALIVE, Alive
from worldloom.dataengine.video.container import one_line
from worldloom.dataengine.video.nal import holds_no_picture
from worldloom.schemas import DecodeError

STANDARD_RATES = (10.0, 12.0, 15.0, 24000 / 1001, 24.0, 25.0, 30000 / 1001, 30.0, 35.0, 48.0, 50.0, 60000 / 1001, 60.0)

ALIVE_EVERY_S = 10.0


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
    for frame in _decoded(container, stream, damage):
        if frame.is_corrupt:
            damage.detail = "a frame is damaged"
            if last is None:
                continue
            return
        time_s = frame.time
        if time_s is None or (last is not None and time_s <= last):
            time_s = 0.0 if last is None else last + nominal
        last = time_s
        yield time_s, frame


def _decoded(container: InputContainer, stream: VideoStream, damage: Damage) -> Iterator[av.VideoFrame]:
    """What the decoder gives until it fails on a packet that holds a piece of a picture."""
    packets, codec = container.demux(stream), stream.codec_context
    while True:
        packet = None
        try:
            packet = next(packets)
            frames = packet.decode()
        except StopIteration:
            return
        except (av.error.FFmpegError, ValueError, OSError) as error:
            if packet is not None and holds_no_picture(codec.name, codec.extradata or b"", bytes(packet)):
                continue
            damage.detail = one_line(error)
            return
        yield from frames


def deinterlaced(frames: Iterator[tuple[float, av.VideoFrame]], stream: VideoStream
                 ) -> Iterator[tuple[float, av.VideoFrame]]:
    """The frames with both fields of interlaced ones made one picture (bwdif); as many, at the same times."""
    graph = av.filter.Graph()
    source, sink = graph.add_buffer(template=stream), graph.add("buffersink")
    field_filter = graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced")
    source.link_to(field_filter)
    field_filter.link_to(sink)
    graph.configure()
    times: deque[float] = deque()
    for time_s, frame in frames:
        times.append(time_s)
        graph.push(frame)
        yield from _pulled(graph, times)
    graph.push(None)
    yield from _pulled(graph, times)


def _pulled(graph: av.filter.Graph, times: deque[float]) -> Iterator[tuple[float, av.VideoFrame]]:
    while times:
        try:
            frame = graph.pull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return
        assert isinstance(frame, av.VideoFrame)
        yield times.popleft(), frame


@dataclass(frozen=True)
class Timing:
    """Times of the frames of one file. `times_s` (T,) rises strictly; `stop_s` is where the last frame ends."""
    times_s: np.ndarray
    stop_s: float
    fps: float
    is_variable_rate: bool


def timing_of(times_s: np.ndarray, last_duration_s: float | None, nominal_s: float, tick_s: float) -> Timing:
    """Timing from frame times; a last duration beyond twice the longest interval is not believed."""
    gaps = np.diff(times_s)
    usual = float(np.median(gaps)) if gaps.size else (last_duration_s or nominal_s)
    longest, shortest = (float(gaps.max()), float(gaps.min())) if gaps.size else (usual, usual)
    last = last_duration_s if last_duration_s and last_duration_s <= 2 * longest else usual
    is_variable = longest - shortest > 0.1 * usual and longest - shortest > 1.5 * tick_s
    mean = float(times_s[-1] - times_s[0]) / len(gaps) if gaps.size else usual
    fps = 1 / (usual if is_variable else mean)
    return Timing(times_s, float(times_s[-1]) + last, _standard(fps), is_variable)


def _standard(fps: float) -> float:
    near = min(STANDARD_RATES, key=lambda rate: abs(rate - fps))
    return near if abs(near - fps) < 5e-4 * near else fps


_ONE_PACKET_A_FRAME = {"h264", "hevc", "av1", "vp9"}
_TRUSTED_CONTAINERS = ("mov", "matroska")
_PACKET = np.dtype([("pts", "i8"), ("duration", "i8"), ("is_left_out", "?"), ("is_key", "?")])


def packet_timing(container: InputContainer, stream: VideoStream) -> Timing | None:
    """Timing from the packets alone, without decoding; None where packets do not tell which frames will be shown.

    Trusted: one packet a frame by codec and container, every packet whole and with a time of its own, the first a key
    frame that none is shown before, and as many as the header says where it says.
    """
    codec, kind = stream.codec_context.name, container.format.name
    if codec not in _ONE_PACKET_A_FRAME or not kind.startswith(_TRUSTED_CONTAINERS):
        return None
    try:
        packets = np.fromiter(_packets(container, stream), _PACKET)
    except DecodeError:
        return None
    shown = np.sort(packets[~packets["is_left_out"]], order="pts")
    if not shown.size or (stream.frames and stream.frames != packets.size) or not np.diff(shown["pts"]).all():
        return None
    if not packets["is_key"][0] or shown["pts"][0] < packets["pts"][0]:
        return None
    base = float(stream.time_base or 0)
    nominal = 1 / float(stream.average_rate or stream.base_rate or 25)
    return timing_of(shown["pts"] * base, float(shown["duration"][-1]) * base or None, nominal, base)


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[tuple[int, int, bool, bool]]:
    """(time, duration, left out by an edit list, key frame) of each packet in time base units.

    Raises:
        DecodeError: a packet is damaged or has no time.
    """
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise DecodeError(one_line(error)) from error
        if packet.size:
            if packet.pts is None or packet.is_corrupt:
                raise DecodeError("a packet is damaged or has no time")
            yield packet.pts, packet.duration or 0, packet.is_discard, packet.is_keyframe


def count_and_time(
    container: InputContainer, stream: VideoStream, damage: Damage
) -> Generator[Alive, None, tuple[Timing | None, av.VideoFrame | None]]:
    """Decode a stream to its end: returns its timing and first frame, or (None, None) when nothing decodes.

    Yields ALIVE every ALIVE_EVERY_S while frames come: hours of film are no hang.
    """
    times = array("d")
    first = frame = None
    said_s = time.monotonic()
    for time_s, frame in good_frames(container, stream, damage):
        times.append(time_s)
        first = first or frame
        if time.monotonic() - said_s > ALIVE_EVERY_S:
            said_s = time.monotonic()
            yield ALIVE
    if first is None or frame is None:
        return None, None
    base = float(stream.time_base or 0)
    last = frame.duration * base if frame.duration else None
    nominal = 1 / float(stream.average_rate or stream.base_rate or 25)
    return timing_of(np.array(times), last, nominal, base), first
