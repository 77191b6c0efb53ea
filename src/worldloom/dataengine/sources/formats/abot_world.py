"""ABot-World: EPISODE/ of video.mp4 and annotations.tar with action.json, caption.json and a COLMAP text model.

action.json: fps and `frames`, each with frame_id, timestamp and keys by name (W A S D move, I J K L turn). A picture of
sparse/0/images.txt is named after its frame_id; photogrammetry may lack frames and has a unit of its own an episode.
Source: the data cards of acvlab/ABot-World-Explorer-500h and readers of it.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.colmap import read_cameras, read_images
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, inside_folder
from worldloom.dataengine.sources.formats.track import Track, levelled
from worldloom.schemas import DataError

_WANTED = {"action.json": 64 << 20, "caption.json": 16 << 20, "sparse/0/cameras.txt": 1 << 20,
           "sparse/0/images.txt": 1 << 30}
"""Members that are read, with the most bytes of each."""
_AXES = {"longitudinal": ("W", "S"), "lateral": ("D", "A"), "pitch": ("I", "K"), "yaw": ("L", "J")}


class AbotWorldReader(FormatReader):
    kind = "abot-world"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "w2c/opencv/quat_wxyz"
    default_fps: ClassVar[float] = 30.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("annotations.tar"):
            yield Recording(self.inside(path.parent), (path,), partial(_track, path, self.fps),
                            inside_folder(path.parent, "video.mp4"), perspective=_perspective(path))


def _perspective(path: Path) -> str | None:
    try:
        said = str(json.loads(_members(path, ("caption.json",)).get("caption.json", b"{}")).get("perspective", ""))
    except (tarfile.TarError, EOFError, ValueError, AttributeError, DataError):
        return None                                  # reading the track says what is wrong
    return "tps" if "third" in said.lower() else "fps" if "first" in said.lower() else None


def _members(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Those members of a tar; nothing is unpacked.

    Raises:
        DataError: one is larger than such a file is.
    """
    found = {}
    with tarfile.open(path) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if name in names and member.isreg():
                if member.size > _WANTED[name]:
                    raise DataError(f"{path.name}: {name} has {member.size} bytes; at most {_WANTED[name]} are read")
                stream = tar.extractfile(member)
                found[name] = b"" if stream is None else stream.read()
    return found


def _track(path: Path, fps: float) -> Track:
    try:
        held = _members(path, tuple(_WANTED))
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"{path.name} is cut short or damaged: {error}") from error
    missing = [name for name in ("action.json", "sparse/0/images.txt") if name not in held]
    if missing:
        raise DataError(f"{path.name} lacks {', '.join(missing)}")
    action = json.loads(held["action.json"])
    frames = {str(frame["frame_id"]): (i, frame) for i, frame in enumerate(action["frames"])}
    rows, camera = _model(held)
    known = sorted((frames[name][0], name) for name in rows if name in frames)
    if not known:
        raise DataError(f"{path.name}: none of {len(rows)} pictures is named after one of {len(frames)} frames")
    order = [name for _, name in known]
    poses, gravity, trust = levelled(to_canonical(np.asarray([rows[n] for n in order]), AbotWorldReader.convention),
                                     to_axis=False)
    rate = float(action.get("fps") or fps)
    return Track(poses, times_s=np.asarray([number / rate for number, _ in known]), camera=camera, gravity=gravity,
                 gravity_confidence=trust, fps=rate, keys=_keys([frames[name][1] for name in order]),
                 labels=_labels(held))


def _model(held: Mapping[str, bytes]) -> tuple[dict[str, list[float]], dict[str, Any] | None]:
    """Position and quaternion by the picture's name without its ending, and the camera where there is one."""
    with TemporaryDirectory() as scratch:
        images, cameras = Path(scratch) / "images.txt", Path(scratch) / "cameras.txt"
        images.write_bytes(held["sparse/0/images.txt"])
        cameras.write_bytes(held.get("sparse/0/cameras.txt", b""))
        rows = {PurePosixPath(image.name).stem: [*image.pose[4:], *image.pose[:4]] for image in read_images(images)}
        lenses = list(read_cameras(cameras).values())
    return rows, lenses[0] if len(lenses) == 1 else None


def _keys(frames: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What was held during each frame that has a pose."""
    def down(name: str) -> np.ndarray:
        return np.asarray([int(bool(frame.get("keys", {}).get(name))) for frame in frames])

    return {axis: down(plus) - down(minus) for axis, (plus, minus) in _AXES.items()} | {"jump": down("Space")}


def _labels(held: Mapping[str, bytes]) -> dict[str, Any] | None:
    return {"caption": json.loads(held["caption.json"])} if "caption.json" in held else None
