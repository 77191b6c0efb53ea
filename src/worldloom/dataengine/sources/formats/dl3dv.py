"""DL3DV-10K: HASH/transforms.json as NeRF's, whose pictures may be there in a smaller size alone: images_2, _4, _8.

The file's size and focal length are those of the full pictures; a smaller copy has the same view. Photogrammetry's
translations have no unit. Source: the data cards of DL3DV/DL3DV-ALL-960P and its benchmark (nerfstudio layout).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from worldloom.dataengine.sources.formats.nerf import NerfReader, listed_pictures, poses_of
from worldloom.dataengine.sources.formats.reader import BROKEN, Recording, unreadable

SIZES = ("images", "images_2", "images_4", "images_8")


class Dl3dvReader(NerfReader):
    kind = "dl3dv"
    scale_status: ClassVar[str] = "relative"
    default_fps: ClassVar[float] = 5.0           # stills of a walk, about so many a second

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("transforms.json"):
            try:
                frames, pictures = _largest(path)
            except BROKEN as error:
                yield unreadable(self.inside(path.parent), path, error)
                continue
            yield Recording(self.inside(path.parent), (path,), partial(poses_of, path, frames, self.fps),
                            pictures=tuple(pictures))


def _largest(path: Path) -> tuple[list, list[Path]]:
    """The frames with their pictures in the largest size that is there."""
    for size in SIZES:
        frames, pictures = listed_pictures(path, renamed=("images/", f"{size}/"))
        if pictures:
            break
    return frames, pictures
