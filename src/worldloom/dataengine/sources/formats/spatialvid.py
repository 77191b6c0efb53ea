"""SpatialVID and SpatialVID-HQ: annotations/GROUP/ID/ of poses.npy, intrinsics.npy, indexes.txt; videos/GROUP/ID.mp4.

poses.npy (N, 7): position and quaternion x y z w, world-to-camera, of every few frames; indexes.txt has their numbers.
intrinsics.npy (N, 4): fx fy cx cy over the picture's width and height. MegaSaM's translations have no unit.
Source: the data cards of SpatialVID/SpatialVID-HQ and readers of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.footage import frame_size, frame_times_s, times_at
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, levelled, pinhole
from worldloom.schemas import DataError


class SpatialVidReader(FormatReader):
    kind = "spatialvid"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "w2c/opencv/quat_xyzw"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("poses.npy"):
            home = path.parent
            beside = [p for name in ("intrinsics.npy", "indexes.txt", "caption.json") if (p := home / name).is_file()]
            yield Recording(self.inside(home), (path, *beside), partial(_track, home, self._video(home), self.fps),
                            self._video(home))

    def _video(self, home: Path) -> Path | None:
        """videos/GROUP/ID.mp4 beside the annotations' GROUP/ID, or a video of that name next to the folder."""
        group = self.origin / "videos" / home.parent.name
        for folder in (group, home.parent):
            found = [p for p in sorted(folder.glob(f"{home.name}.*")) if is_video_name(p.name)]
            if found:
                return found[0]
        return None


def _track(home: Path, video: Path | None, fps: float) -> Track:
    rows = np.asarray(np.load(home / "poses.npy", allow_pickle=False), float)
    poses, gravity, trust = levelled(to_canonical(rows, SpatialVidReader.convention), to_axis=False)
    return Track(poses, times_s=_times(home, video, len(poses), fps), camera=_camera(home / "intrinsics.npy", video),
                 gravity=gravity, gravity_confidence=trust, fps=fps, labels=_labels(home / "caption.json"))


def _times(home: Path, video: Path | None, count: int, fps: float) -> np.ndarray | None:
    """Times of the annotated frames; without their numbers there must be a pose for each frame."""
    listed = home / "indexes.txt"
    if listed.is_file():
        frames = [int(word) for word in re.findall(r"\d+", listed.read_text(encoding="utf-8"))]
        if len(frames) != count:
            raise DataError(f"{listed.name} lists {len(frames)} frames for {count} poses")
        return np.asarray(frames) / fps if video is None else times_at(video, frames, listed.name)
    if video is not None and len(frame_times_s(video)) != count:
        raise DataError(f"poses.npy has {count} poses for {len(frame_times_s(video))} frames; indexes.txt, which says "
                        "to which frames they belong, is wanted")
    return None


def _camera(path: Path, video: Path | None) -> dict[str, Any] | None:
    if not path.is_file() or video is None:
        return None
    width, height = frame_size(video)
    fx, fy, cx, cy = np.median(np.asarray(np.load(path, allow_pickle=False), float).reshape(-1, 4), axis=0)
    if not 0 < fx < 20:
        raise DataError(f"{path.name}: fx {fx:g}; wanted a share of the picture's width")
    return pinhole(fx * width, fy * height, cx * width, cy * height, width, height)


def _labels(path: Path) -> dict[str, Any] | None:
    return {"caption": json.loads(path.read_text(encoding="utf-8"))} if path.is_file() else None
