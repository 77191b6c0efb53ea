"""TUM RGB-D: groundtruth.txt of `stamp tx ty tz qx qy qz qw` (camera-to-world, z up), rgb.txt naming the pictures.

A text of such rows alone (evo's .tum, ORB-SLAM's output) is a path without pictures.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import BROKEN, FormatReader, Recording, inside_folder, unreadable
from worldloom.dataengine.sources.formats.track import Track, levelled, number_rows
from worldloom.schemas import DataError

_LOG = logging.getLogger(__name__)


class TumReader(FormatReader):
    kind = "tum"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/opencv/quat_xyzw"

    def recordings(self) -> Iterator[Recording]:
        lists = ("rgb.txt", "depth.txt", "accelerometer.txt")
        for path in self.matching("*.txt", "*.tum"):
            if path.name in lists:
                continue
            listing = path.with_name("rgb.txt")
            if listing.is_file() and path.name == "groundtruth.txt":
                try:
                    stamps, pictures = _covered(path, listing)
                except BROKEN as error:
                    yield unreadable(self.inside(path.parent), path, error)
                    continue
                yield Recording(self.inside(path.parent), (path, listing), partial(_track, path, stamps),
                                pictures=pictures)
            else:
                yield Recording(self.inside(path), (path,), partial(_track, path, None))


def _covered(path: Path, listing: Path) -> tuple[np.ndarray, tuple[Path, ...]]:
    """Stamps and pictures that lie between the first and the last pose."""
    times = number_rows(path, (8,))[[0, -1], 0]
    rows = [line.split() for line in listing.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    kept = [(float(stamp), name) for stamp, name, *_ in rows if times[0] <= float(stamp) <= times[1]]
    pictures = [inside_folder(listing.parent, name) for _, name in kept]
    gone = next((name for (_, name), picture in zip(kept, pictures, strict=True) if picture is None), None)
    if gone or not kept:
        raise DataError(f"{listing.name} names {gone}, which is not there" if gone else f"{listing.name} names no "
                        f"picture between the first and the last pose ({times[0]:.3f} to {times[1]:.3f} s)")
    return np.asarray([stamp for stamp, _ in kept]), tuple(picture for picture in pictures if picture)


def _track(path: Path, stamps: np.ndarray | None) -> Track:
    """Poses at the pictures' stamps, else at the file's own; the world's down by the nearest axis."""
    rows = number_rows(path, (8,))
    repeated = np.append(False, np.diff(rows[:, 0]) == 0)
    if repeated.any():
        _LOG.warning("%s: rows %s repeat the stamp before and are left out", path.name, P.name_rows(repeated))
        rows = rows[~repeated]
    poses, gravity, trust = levelled(to_canonical(rows[:, 1:8], TumReader.convention))
    track = Track(poses, rows[:, 0], unit_m=1.0, gravity=gravity, gravity_confidence=trust)
    return track if stamps is None else track.at(stamps)
