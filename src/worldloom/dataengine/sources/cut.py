"""A time range of a video as a video of its own: every picture of it, near lossless, at its own time."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

from worldloom.schemas import DataError

_TICKS = 90_000
_CRF = "10"


def cut(whole: Path, path: Path, start_s: float, end_s: float | None) -> None:
    """Write the pictures shown in [start_s, end_s) of `whole` to `path`, once; the first is at 0 s.

    Raises:
        DataError: the file cannot be read, or no picture is in the range.
    """
    note, made_of = path.with_name(f".{path.name}.json"), [whole.name, whole.stat().st_size, start_s, end_s]
    if path.exists() and note.exists() and json.loads(note.read_text()) == made_of:
        return
    scratch = path.with_name(f".{path.name}.part")
    try:
        if _write(whole, scratch, start_s, end_s) == 0:
            raise DataError(f"no picture from {start_s:g} s to {'the end' if end_s is None else f'{end_s:g} s'}")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    note.write_text(json.dumps(made_of))


def _write(whole: Path, out: Path, start_s: float, end_s: float | None) -> int:
    """Encode the range; how many pictures it has."""
    import av

    from worldloom.dataengine.video.read import iter_frames

    count, first_s, last_tick = 0, 0.0, -1
    with av.open(str(out), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=30, options={
            "crf": _CRF, "preset": "veryfast", "bf": "0", "threads": "1"})
        stream.time_base = stream.codec_context.time_base = Fraction(1, _TICKS)
        for shown in iter_frames(whole):
            if end_s is not None and shown.time_s >= end_s - 1e-6:
                break
            if shown.time_s < start_s - 1e-6:
                continue
            height, width = (side - side % 2 for side in shown.rgb_HWC.shape[:2])
            if count == 0:
                first_s, stream.width, stream.height, stream.pix_fmt = shown.time_s, width, height, "yuv420p"
            tick = max(last_tick + 1, round((shown.time_s - first_s) * _TICKS))
            frame = av.VideoFrame.from_ndarray(shown.rgb_HWC[:height, :width].copy(), format="rgb24").reformat(
                format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            frame.pts, frame.time_base = tick, Fraction(1, _TICKS)
            container.mux(stream.encode(frame))
            count, last_tick = count + 1, tick
        if count:
            container.mux(stream.encode(None))
    return count
