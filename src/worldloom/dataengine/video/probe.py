"""What a video file holds, by decoding it: the header is only reported, never trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from worldloom.dataengine.video.container import open_video, video_streams
from worldloom.dataengine.video.index import Damage, Timing, count_and_time
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

    @property
    def num_frames(self) -> int:
        return len(self.timing.times_s)

    @property
    def start_s(self) -> float:
        return self.timing.times_s[0]

    @property
    def duration_s(self) -> float:
        return self.timing.stop_s - self.timing.times_s[0]


def probe(path: Path) -> Probe:
    """Decode a whole file once, on one thread, and say what it is.

    Raises:
        DecodeError: the file cannot be opened, has no picture stream, or not one frame can be decoded.
    """
    damage = Damage()
    with open_video(path) as (container, stream):
        header = stream.frames or None
        streams = video_streams(container)
        timing, first = count_and_time(container, stream, damage)
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
            notes=(*notes, "interlaced: not deinterlaced") if interlaced else tuple(notes),
        )


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
