"""A time range of a video as a video of its own, without a second encoding wherever the range can be had so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldloom.dataengine.sources.cut import cut
from worldloom.dataengine.video.container import open_video, packet_pts

_CODECS = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})       # that MP4 holds as they are


@dataclass(frozen=True)
class Kept:
    """The compressed frames of a range, in the order in which they are decoded."""
    packets: list[Any]
    is_complete: bool            # they can be shown by themselves


def cut_range(whole: Path, path: Path, start_s: float, end_s: float) -> int:
    """Write the pictures shown in [start_s, end_s) of `whole` to `path`, the first at 0 s; how many they are.

    Copied as they are where the range begins with a key frame and nothing in it leans on what comes after; else
    encoded near lossless, as `cut` does. Sound is left out.

    Raises:
        DataError: the file cannot be read, or no picture is in the range.
    """
    scratch = path.with_name(f".{path.name}.part")
    try:
        if count := copy_range(whole, scratch, start_s, end_s):
            os.replace(scratch, path)
            return count
    finally:
        scratch.unlink(missing_ok=True)
    cut(whole, path, start_s, end_s)
    with open_video(path) as (container, stream):
        return sum(1 for _ in packet_pts(container, stream))


def copy_range(whole: Path, out: Path, start_s: float, end_s: float) -> int:
    """Copy the compressed frames shown in [start_s, end_s); how many, 0 where they cannot stand by themselves.

    Raises:
        DecodeError: the file is missing or no video.
    """
    import av

    with open_video(whole) as (source, stream):
        if stream.codec_context.codec.canonical_name not in _CODECS:
            return 0
        base = float(stream.time_base or 0)
        try:
            if start_s > 0:
                source.seek(int(start_s / base), stream=stream)
            kept = _range(source.demux(stream), base, start_s - 1e-6, end_s - 1e-6)
            if not kept.is_complete:
                return 0
            with av.open(str(out), "w", format="mp4", options={"movflags": "+faststart"}) as made:
                _write(made, made.add_stream_from_template(stream, opaque=True), kept.packets)
        except av.error.FFmpegError:
            return 0
    return len(kept.packets)


def _range(packets: Iterator[Any], base: float, start_s: float, end_s: float) -> Kept:
    """The packets of a range, and whether they begin with a key frame and are all that their pictures need.

    A packet of before a range that does not begin with the file must come first: seeking may land too far.
    """
    kept: list[Any] = []
    later, is_complete, earlier = False, True, start_s <= 0
    for packet in packets:
        if not packet.size:
            continue
        if packet.pts is None or packet.dts is None or packet.is_corrupt:
            return Kept(kept, False)
        if packet.dts * base >= end_s:
            break
        time_s = packet.pts * base
        if time_s >= end_s:
            later = True
        elif time_s < start_s:
            earlier = True
        else:
            is_complete = is_complete and not later and not packet.is_discard and bool(kept or packet.is_keyframe)
            kept.append(packet)
    first = kept[0].pts if kept else 0
    return Kept(kept, bool(kept) and earlier and is_complete and all(packet.pts >= first for packet in kept))


def _write(made: Any, stream: Any, packets: list[Any]) -> None:
    """Mux the packets with their own intervals, the first shown at 0."""
    first = packets[0].pts
    for packet in packets:
        packet.stream = stream
        packet.pts, packet.dts = packet.pts - first, packet.dts - first
        made.mux(packet)
