"""VPT / MineRL: NAME.mp4 with NAME.jsonl, a line a tick of 50 ms: xpos, ypos, zpos, yaw, pitch, keyboard.keys.

NAME.one_hot_actions.pt (Open-Oasis) holds the keys of each tick alone, beside NAME.mp4 where there is one; nothing
in it is run. Minecraft's yaw grows to the right from south and its pitch is positive downwards; a
block is a metre. Lines beyond the video's last frame are left out.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.owa import KeyLog
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, pinhole
from worldloom.schemas import DataError

_FIELDS = ("xpos", "ypos", "zpos", "yaw", "pitch")
_ONE_HOT = ".one_hot_actions.pt"
_COLUMNS = 25                   # 23 keys and hotbar slots, and at 15 and 16 the camera's turns in [-1, 1]
_FORWARD, _BACK, _LEFT, _RIGHT, _JUMP = 11, 12, 13, 14, 17
_MOST_BYTES = 1 << 28
_FOV_DEG = 70.0                 # vertical, of the contractors' game


class VptReader(FormatReader):
    kind = "vpt"
    pose_mode: ClassVar[str] = "engine"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/minecraft/euler_yp"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 20.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.jsonl"):
            beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
            yield Recording(self.inside(path), (path,), partial(_track, path, self.fps), next(iter(beside), None))
        for path in self.matching(f"*{_ONE_HOT}"):
            video = path.with_name(path.name.removesuffix(_ONE_HOT) + ".mp4")
            yield Recording(self.inside(path), (path,), partial(_key_log, path, self.fps),
                            video if video.is_file() else None)


def _track(path: Path, fps: float) -> Track:
    """The player's eye, its keys, and whether it stands: its height is that of the tick before or after."""
    ticks = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    lacking = next(((i, name) for i, tick in enumerate(ticks) for name in _FIELDS if name not in tick), None)
    if lacking or not ticks:
        raise DataError(f"{path.name}: " + (f"line {lacking[0] + 1} lacks {lacking[1]!r}" if lacking else "no line"))
    poses = to_canonical(np.asarray([[tick[name] for name in _FIELDS] for tick in ticks], float),
                         VptReader.convention)
    height = poses[:, 1, 3]
    fy = 180 / np.tan(np.radians(_FOV_DEG / 2))
    return Track(poses, camera=pinhole(fy, fy, 320.0, 180.0, 640, 360), unit_m=1.0, pose_source="engine", fps=fps,
                 gravity="engine", gravity_confidence=1.0, keys=_keys(ticks) | {"on_ground": _stands(height)})


def _key_log(path: Path, fps: float) -> Track:
    """The keys of each tick, held from its frame on; no path."""
    try:
        actions_N25 = _one_hot(path)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path.name}: no saved tensor: {error}") from error
    ahead, right = (actions_N25[:, plus] - actions_N25[:, minus] for plus, minus in (
        (_FORWARD, _BACK), (_RIGHT, _LEFT)))
    return KeyLog(np.empty((0, 4, 4)), fps=fps, labels={"ticks": len(actions_N25)},
                  keys={"longitudinal": ahead, "lateral": right, "jump": actions_N25[:, _JUMP]})


def _one_hot(path: Path) -> np.ndarray:
    """The float32 tensor (N, 25) of a saved file.

    Raises:
        DataError: the file holds something else.
    """
    with zipfile.ZipFile(path) as archive:
        pickled = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
        if len(pickled) != 1 or sum(info.file_size for info in archive.infolist()) > _MOST_BYTES:
            raise DataError(f"{path.name}: {len(pickled)} saved objects; wanted one of at most {_MOST_BYTES >> 20} MiB")
        try:
            found = _SavedTensor(archive, pickled[0].filename).load()
        except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"{path.name}: no saved tensor: {type(error).__name__} {error}") from error
    shape: tuple[int, ...] = getattr(found, "shape", ())
    if len(shape) != 2 or shape[1] != _COLUMNS or not np.isin(np.delete(found, (15, 16), axis=1), (0, 1)).all():
        raise DataError(f"{path.name}: shape {list(shape)}; wanted rows of {_COLUMNS} one-hot actions, keys 0 or 1")
    return np.asarray(found)


class _SavedTensor(pickle.Unpickler):
    """Reads one saved float tensor; a name other than those that such a file needs is refused, so nothing is run."""

    def __init__(self, archive: zipfile.ZipFile, pickled: str) -> None:
        super().__init__(io.BytesIO(archive.read(pickled)))
        self.archive, self.folder = archive, pickled.rpartition("/")[0]

    def find_class(self, module: str, name: str) -> Any:
        known = {("torch._utils", "_rebuild_tensor_v2"): _view, ("torch", "FloatStorage"): "<f4",
                 ("collections", "OrderedDict"): dict}
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name} is refused")
        return known[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        _, dtype, key, *_ = pid
        return np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), np.dtype(dtype))


def _view(storage: np.ndarray, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> np.ndarray:
    """The tensor (rows one after the other) that begins at `offset` of its storage."""
    count = int(np.prod(shape))
    if len(shape) != 2 or stride != (shape[1], 1) or offset < 0 or offset + count > len(storage):
        raise ValueError(f"shape {shape} with strides {stride} at {offset} of {len(storage)} numbers")
    return storage[offset:offset + count].reshape(shape)


def _stands(height_N: np.ndarray) -> np.ndarray:
    same = np.abs(np.diff(height_N)) < 1e-6
    return (np.append(same, False) | np.append(False, same)).astype(int)


def _keys(ticks: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    def held(name: str) -> np.ndarray:
        return np.asarray([f"key.keyboard.{name}" in tick.get("keyboard", {}).get("keys", []) for tick in ticks], int)

    return {"longitudinal": held("w") - held("s"), "lateral": held("d") - held("a"), "jump": held("space")}
