"""HY-WorldPlay's pose files, for inference and for training, and WorldPlay2's inference input.

Inference: {"0": {"extrinsic": 4x4, "K": 3x3}, …}, one entry a latent, which stands for four frames at 24 a second; its
own code inverts the extrinsic, so it is camera-to-world. Training: {"0": {"w2c": 4x4, "intrinsic": 3x3}, …}, one entry
a frame, world-to-camera as it is named. WorldPlay2: a list of {"image_path", "action", "perspective", "prompt…"},
whose action string says what is done in each latent; the first latent stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, matrices, pinhole
from worldloom.schemas import DataError

_LAYOUTS = {"extrinsic": ("K", "c2w/opencv/matrix", 6.0), "w2c": ("intrinsic", "w2c/opencv/matrix", 24.0)}
"""Key of the pose: key of the intrinsics, convention, poses a second."""
_MOVES = {"w": (1, 0), "s": (-1, 0), "a": (0, -1), "d": (0, 1), "wa": (1, -1), "wd": (1, 1), "sa": (-1, -1),
          "sd": (-1, 1)}
_TURNS = {"up": (1, 0), "down": (-1, 0), "left": (0, -1), "right": (0, 1)}
_TURN_DEG = 3.0                 # of one latent, as the model's launchers have it


class HyWorldPlayReader(FormatReader):
    kind = "hy-worldplay"
    version: ClassVar[int] = 2
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    default_fps: ClassVar[float] = 6.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.json"):
            beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
            yield Recording(self.inside(path), (path,), partial(_track, path, self.params.fps),
                            next(iter(beside), None))


def _track(path: Path, fps: float | None) -> Track:
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict) or not entries or not all(name.isdigit() for name in entries):
        raise DataError(f"{path.name}: wanted an object of latents or frames \"0\", \"1\", …, each with \"extrinsic\" "
                        "and \"K\", or \"w2c\" and \"intrinsic\"")
    rows = [entries[name] for name in sorted(entries, key=natural)]
    key = next((name for name in _LAYOUTS if isinstance(rows[0], dict) and name in rows[0]), "extrinsic")
    lens, convention, usual_fps = _LAYOUTS[key]
    poses = to_canonical(matrices(np.asarray([row[key] for row in rows], float), path), convention)
    k = np.median(np.asarray([row[lens] for row in rows], float), axis=0)
    return Track(poses, camera=pinhole(k[0, 0], k[1, 1], k[0, 2], k[1, 2], 2 * k[0, 2], 2 * k[1, 2]),
                 fps=fps or usual_fps)


@dataclass(frozen=True)
class AskedTrack(Track):
    """A path that nobody filmed: what an input asks for, from the front of its first picture."""
    perspective: str = "uncertain"

    def document(self, *, convention: str, perspective: str, origin_s: float) -> dict[str, Any]:
        return super().document(convention=convention, perspective=self.perspective, origin_s=origin_s)


class WorldPlay2Reader(FormatReader):
    """Paths that inputs ask for: three degrees a turning latent, one unit a moving one."""
    kind = "worldplay2"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    default_fps: ClassVar[float] = 4.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.json"):
            items = _items(path)
            for number, _ in enumerate(items):
                yield Recording(f"{self.inside(path)}/{number:04d}", (path,), partial(_asked, path, number, self.fps))


def _items(path: Path) -> list[Any]:
    """The inputs of a file; a single one that is none where it holds no list, so that reading it says why."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return [None]
    return found if isinstance(found, list) and found else [None]


def _asked(path: Path, number: int, fps: float) -> Track:
    """The path of one input.

    Raises:
        DataError: it is no input of WorldPlay2, or its action string has a fault.
    """
    item = _items(path)[number]
    wanted = ("image_path", "action", "prompt_event", "perspective")
    lacking = [name for name in wanted if not isinstance(item, dict) or not isinstance(item.get(name), str)]
    if lacking or item["perspective"] not in ("fps", "tps"):
        raise DataError(f"{path.name}: input {number} lacks {', '.join(lacking) or 'a perspective of fps or tps'}; "
                        f"wanted a list of objects with {', '.join(wanted)} and prompts")
    rows_L5 = _rows(path, item["action"])
    poses = _walked(rows_L5)
    moves = np.asarray(rows_L5, int)
    held = {"longitudinal": moves[:, 2], "lateral": moves[:, 3], "jump": moves[:, 4]}
    keys = {name: np.append(track[1:], 0) for name, track in held.items()}      # held from the latent before on
    prompts = {name: said for name, said in item.items() if name.startswith("prompt") and isinstance(said, str)}
    return AskedTrack(poses, gravity="engine", gravity_confidence=1.0, fps=fps, keys=keys,
                      labels={"action": item["action"], "image": item["image_path"], **prompts},
                      perspective=item["perspective"])


def _rows(path: Path, text: str) -> list[tuple[int, int, int, int, int]]:
    """(look, turn, forward, right, jump) of each latent; the first stands, as the model makes it."""
    rows: list[tuple[int, int, int, int, int]] = []
    for part in filter(str.strip, text.split(",")):
        names, _, duration = part.strip().rpartition("-")
        tokens = [token.strip().lower() for token in names.split("+")]
        kinds = [next((i for i, known in enumerate((_MOVES, ("up", "down"), ("left", "right"), ("space",), ("none",)))
                       if token in known), None) for token in tokens]
        is_count = duration.strip().isascii() and duration.strip().isdigit() and int(duration) > 0
        if None in kinds or len(set(kinds)) < len(kinds) or (4 in kinds and len(kinds) > 1) or not is_count:
            raise DataError(f"{path.name}: action {part.strip()!r}; wanted tokens of {' '.join(_MOVES)} up down left "
                            "right space none, one of a kind, joined by +, then - and a number of latents")
        look, turn = (sum(_TURNS[token][axis] for token in tokens if token in _TURNS) for axis in (0, 1))
        ahead, right = next((_MOVES[token] for token in tokens if token in _MOVES), (0, 0))
        rows += [(look, turn, ahead, right, int("space" in tokens))] * int(duration)
    if not rows:
        raise DataError(f"{path.name}: an action string without a command")
    return [(0, 0, 0, 0, 0), *rows[1:]]


def _walked(rows_L5: list[tuple[int, int, int, int, int]]) -> np.ndarray:
    """Poses (L, 4, 4) of a camera that does so: it goes in its level frame, then turns."""
    poses, yaw, pitch, place = [], 0.0, 0.0, np.zeros(3)
    for look, turn, ahead, right, _ in rows_L5:
        sin, cos = np.sin(yaw), np.cos(yaw)
        place = place + np.array([cos * right + sin * ahead, 0.0, cos * ahead - sin * right]) / max(
            1.0, np.hypot(ahead, right))
        yaw, pitch = yaw + np.radians(_TURN_DEG) * turn, pitch + np.radians(_TURN_DEG) * look
        pose = np.eye(4)
        turned = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
        pose[:3, :3] = turned @ [[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]]
        pose[:3, 3] = place
        poses.append(pose)
    return np.asarray(poses)
