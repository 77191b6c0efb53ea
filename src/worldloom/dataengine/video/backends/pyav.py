"""PyAV: FFmpeg in its own wheel, every frame in display order at the file's own time, errors as errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worldloom.dataengine.video.read import Frame, target_size
from worldloom.schemas import DecodeError


def pyav_frames(
    path: Path, width: int | None, height: int | None, gray: bool, start: int, damaged: str
) -> Iterator[Frame]:
    """Frames from `start` on, as `iter_frames` gives them.

    Raises:
        DecodeError: the file cannot be opened or, with damaged="raise", breaks off.
    """
    from worldloom.dataengine.video.container import open_video
    from worldloom.dataengine.video.index import Damage, good_frames
    from worldloom.dataengine.video.picture import geometry_of, upright

    damage, geometry, size = Damage(), None, (0, 0)
    with open_video(path) as (container, stream):
        for index, (time_s, raw) in enumerate(good_frames(container, stream, damage)):
            if geometry is None:
                geometry = geometry_of(stream, raw)
                size = target_size(geometry.display_size, width, height)
            if index >= start:
                yield Frame(index, time_s, upright(raw, geometry, *size, gray=gray))
    if geometry is None or (damage.detail and damaged == "raise"):
        raise DecodeError(f"{path.name}: breaks off ({damage.detail or 'no frame can be decoded'})")
