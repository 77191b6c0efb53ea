"""COLMAP: images.txt or images.bin (world-to-camera, w first) with cameras beside, pictures below images/.

Pictures follow the numbers in their names. A model of which no picture is there is a path of its poses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import BROKEN, FormatReader, Recording, inside_folder, natural
from worldloom.dataengine.sources.formats.track import Track, levelled, pinhole
from worldloom.schemas import DataError

MODELS = (("SIMPLE_PINHOLE", "f cx cy"), ("PINHOLE", "fx fy cx cy"), ("SIMPLE_RADIAL", "f cx cy k1"),
          ("RADIAL", "f cx cy k1 k2"), ("OPENCV", "fx fy cx cy k1 k2 p1 p2"),
          ("OPENCV_FISHEYE", "fx fy cx cy fisheye_k1 fisheye_k2 fisheye_k3 fisheye_k4"),
          ("FULL_OPENCV", "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6"))
"""Camera models by number, with the names of their parameters."""


class Image(NamedTuple):
    """A registered picture: quaternion w x y z and translation, world-to-camera."""
    name: str
    camera_id: int
    pose: tuple[float, ...]


class ColmapReader(FormatReader):
    kind = "colmap"
    convention: ClassVar[str] = "w2c/opencv/quat_wxyz"
    default_fps: ClassVar[float] = 1.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("images.txt", "images.bin"):
            if path.suffix == ".txt" and path.with_suffix(".bin").exists():
                continue                                # the same model twice
            cameras = path.with_name("cameras" + path.suffix)
            pictures = _pictures(path)
            files = (path, *([cameras] if cameras.exists() else []))
            yield Recording(self.inside(path.parent), files, partial(_track, path, cameras, bool(pictures), self.fps),
                            pictures=pictures)


def _pictures(path: Path) -> tuple[Path, ...]:
    """The picture of every registered image that is there, below images/ of the model's folder or one of two above."""
    try:
        names = [image.name for image in read_images(path)]
    except BROKEN:
        return ()                                       # reading the poses says why
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        home = folder / "images"
        found = [picture for name in names if (picture := inside_folder(home, name)) is not None]
        if names and len(found) == len(names):
            return tuple(found)
    return ()


def _track(path: Path, cameras: Path, is_video: bool, fps: float) -> Track:
    images = read_images(path)
    used = {image.camera_id for image in images}
    if is_video and len(used) > 1:
        raise DataError(f"{path.name}: {len(used)} cameras in one video; one is wanted")
    values = np.asarray([image.pose for image in images])[:, [4, 5, 6, 0, 1, 2, 3]]
    known = read_cameras(cameras) if cameras.exists() else {}
    camera = known.get(next(iter(used))) if len(used) == 1 else None
    poses, gravity, trust = levelled(to_canonical(values, ColmapReader.convention), to_axis=False)
    return Track(poses, camera=camera, gravity=gravity, gravity_confidence=trust, fps=fps)


def read_images(path: Path) -> list[Image]:
    """Registered images in natural order of their names.

    Raises:
        DataError: none, or a row that is too short.
    """
    images = list(_binary_images(path) if path.suffix == ".bin" else _text_images(path))
    if not images:
        raise DataError(f"{path.name}: no registered image")
    return sorted(images, key=lambda image: natural(image.name))


def _text_images(path: Path) -> Iterator[Image]:
    """Every second line that is no comment; the lines between hold points and may be empty."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for line in lines[::2]:
        words = line.split(maxsplit=9)
        if len(words) < 10 and words:
            raise DataError(f"{path.name}: image row {line[:40]!r} is too short")
        if words:
            yield Image(words[9], int(words[8]), tuple(map(float, words[1:8])))


def _binary_images(path: Path) -> Iterator[Image]:
    with path.open("rb") as file:
        for _ in range(_take(file, "<Q")[0]):
            _, *pose, camera_id = _take(file, "<I7dI")
            name = b"".join(iter(lambda: _byte(file), b"\0")).decode()
            file.seek(24 * _take(file, "<Q")[0], 1)     # x, y, point id of every observation
            yield Image(name, camera_id, tuple(pose))


def read_cameras(path: Path) -> dict[int, dict[str, Any]]:
    """Intrinsics by camera id; cameras of a model that is not known here are left out."""
    cameras = {}
    for number, model, width, height, values in _binary_cameras(path) if path.suffix == ".bin" else _text_cameras(path):
        fields = dict(MODELS).get(model)
        if fields is not None:
            named = dict(zip(fields.split(), values, strict=False))
            fx = named.get("fx", named.get("f", 0.0))
            bent = {name: value for name, value in named.items() if name.removeprefix("fisheye_")[0] in "kp"}
            cameras[number] = pinhole(fx, named.get("fy", fx), named["cx"], named["cy"], width, height, bent)
    return cameras


def _text_cameras(path: Path) -> Iterator[tuple[int, str, int, int, tuple[float, ...]]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            number, model, width, height, *values = line.split()
            yield int(number), model, int(width), int(height), tuple(map(float, values))


def _binary_cameras(path: Path) -> Iterator[tuple[int, str, int, int, tuple[float, ...]]]:
    with path.open("rb") as file:
        for _ in range(_take(file, "<Q")[0]):
            number, model, width, height = _take(file, "<IiQQ")
            if not 0 <= model < len(MODELS):
                raise DataError(f"{path.name}: camera model {model} is not known; models 0 to {len(MODELS) - 1} are")
            name, fields = MODELS[model]
            yield number, name, width, height, _take(file, f"<{len(fields.split())}d")


def _take(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    raw = file.read(struct.calcsize(layout))
    if len(raw) < struct.calcsize(layout):
        raise DataError(f"{Path(file.name).name}: ends in the middle of a row")
    return struct.unpack(layout, raw)


def _byte(file: BinaryIO) -> bytes:
    return _take(file, "<c")[0]
