"""What a video file holds, by its packets or, where those cannot be trusted, by decoding it; never by its header."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import av

from worldloom.dataengine.stage import Alive
from worldloom.dataengine.video.container import open_video, video_streams
from worldloom.dataengine.video.index import Damage, Timing, count_and_time, good_frames, packet_timing
from worldloom.dataengine.video.picture import Geometry, geometry_of
from worldloom.schemas import DecodeError


@dataclass(frozen=True)
class Probe:
    """Facts about one file; width and height are as displayed (upright, square pixels)."""
    container: str
    codec: str
    pix_fmt: str
    stream_index: int
    width: int
    height: int
    geometry: Geometry
    timing: Timing
    header_frames: int | None
    is_interlaced: bool
    notes: tuple[str, ...]
    is_counted_by_packets: bool

    @property
    def num_frames(self) -> int:
        return len(self.timing.times_s)

    @property
    def start_s(self) -> float:
        return float(self.timing.times_s[0])

    @property
    def duration_s(self) -> float:
        return self.timing.stop_s - self.start_s


def probe(path: Path) -> Probe:
    """`probing` in one go.

    Raises:
        DecodeError: the file cannot be opened, has no picture stream, or not one frame can be decoded.
    """
    steps = probing(path)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def probing(path: Path) -> Generator[Alive, None, Probe]:
    """Read a whole file once and say what it is. Only files whose packets are not to be trusted are decoded.

    Yields ALIVE now and then while it decodes. Raises as `probe`.
    """
    damage = Damage()
    timing, first, by_packets = yield from _timing(path, damage)
    with open_video(path) as (container, stream):
        header = stream.frames or None
        streams = video_streams(container)
        if timing is None or first is None:
            raise DecodeError(f"{Path(path).name}: no frame can be decoded ({damage.detail or 'the stream is empty'})")
        geometry = geometry_of(stream, first)
        interlaced = bool(first.interlaced_frame)
        notes = _notes(geometry, timing, header, damage, len(streams), len(container.streams.video) - len(streams))
        width, height = geometry.display_size
        return Probe(
            container=container.format.name, codec=stream.codec_context.name, pix_fmt=first.format.name,
            stream_index=stream.index, width=width, height=height, geometry=geometry, timing=timing,
            header_frames=header, is_interlaced=interlaced,
            notes=(*notes, "interlaced: clips are deinterlaced") if interlaced else tuple(notes),
            is_counted_by_packets=by_packets,
        )


def stored_geometry(path: Path) -> Geometry:
    """How the stored pictures of a file are displayed, by its first frame.

    Raises:
        DecodeError: no frame can be decoded.
    """
    with open_video(path) as (container, stream):
        for _, frame in good_frames(container, stream, Damage()):
            return geometry_of(stream, frame)
    raise DecodeError(f"{Path(path).name}: no frame can be decoded")


def _timing(
    path: Path, damage: Damage
) -> Generator[Alive, None, tuple[Timing | None, av.VideoFrame | None, bool]]:
    """Timing, first frame, and whether the packets alone gave them.

    Interlaced files are decoded: a packet of theirs may hold half a frame.
    """
    with open_video(path) as (container, stream):
        timing = packet_timing(container, stream)
    if timing is not None:
        with open_video(path) as (container, stream):
            first = next(good_frames(container, stream, Damage()), None)
        if first is not None and not first[1].interlaced_frame and abs(first[0] - timing.times_s[0]) < 1e-6:
            return timing, first[1], True
    with open_video(path) as (container, stream):
        return *(yield from count_and_time(container, stream, damage)), False


def _notes(
    geometry: Geometry, timing: Timing, header: int | None, damage: Damage, num_streams: int, num_stills: int
) -> list[str]:
    count = len(timing.times_s)
    notes = []
    if damage.detail:
        of = f" of {header}" if header else ""
        notes.append(f"damaged: {count}{of} frames usable ({damage.detail})")
    elif header and header != count:
        notes.append(f"header claims {header} frames, {count} decode")
    if geometry.rotation_deg:
        notes.append(f"turned {geometry.rotation_deg} deg clockwise")
    if geometry.is_flipped:
        notes.append("mirrored")
    if geometry.sample_aspect_ratio != 1:
        notes.append(f"pixels {geometry.sample_aspect_ratio:.4g} times as wide as high")
    if num_streams > 1:
        notes.append(f"first of {num_streams} video streams")
    if num_stills:
        notes.append(f"{num_stills} cover picture left out")
    if timing.is_variable_rate:
        notes.append("variable frame rate")
    return notes
