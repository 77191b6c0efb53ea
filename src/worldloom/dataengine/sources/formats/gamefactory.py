"""GF-Minecraft of GameFactory: metadata/NAME.json with an entry a frame, beside video/NAME.mp4.

An entry has ws (1 ahead, 2 back), ad (1 left, 2 right), scs (1 jump, 2 sneak, 3 sprint), pos, and yaw and pitch, or
yaw_delta and pitch_delta in turns of 15 degrees; what was pressed led to its own state. Minecraft's yaw grows to the
right and its pitch downwards; a block is a metre. Entry 0 is the state before the first key: with one entry more than
frames the first frame is entry 1. Source: the data card of GameFactory-Dataset and readers of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.footage import frame_times_s
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, signed_keys
from worldloom.schemas import DataError

DEGREES_A_STEP = 15.0
_KEYS = ("ws", "ad", "scs")


class GameFactoryReader(FormatReader):
    kind = "gamefactory"
    pose_mode: ClassVar[str] = "engine"
    scale_status: ClassVar[str] = "exact"
    convention: ClassVar[str] = "c2w/minecraft/euler_yp"
    perspective: ClassVar[str] = "fps"
    default_fps: ClassVar[float] = 16.0

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.json"):
            if path.parent.name.startswith("metadata"):
                video = _video(path)
                yield Recording(self.inside(path), (path,), partial(_track, path, video, self.fps), video)


def _video(path: Path) -> Path | None:
    """The video of the same name in the folder video or videos beside the metadata's, or next to the file."""
    home = path.parent
    for folder in (home.parent / "video", home.parent / "videos", home):
        found = [p for p in sorted(folder.glob(f"{path.stem}.*")) if is_video_name(p.name)]
        if found:
            return found[0]
    return None


def _track(path: Path, video: Path | None, fps: float) -> Track:
    facts = json.loads(path.read_text(encoding="utf-8"))
    entries = _entries(path, facts)
    rows = np.column_stack([np.asarray([entry["pos"] for entry in entries], float), _angles(entries)])
    keys = {"longitudinal": signed_keys(path, entries, "ws", 1, 2), "lateral": signed_keys(path, entries, "ad", 2, 1),
            "jump": np.asarray([int(entry["scs"] == 1) for entry in entries])}
    held = {name: np.append(track[1:], 0) for name, track in keys.items()}    # an entry's led to it
    first = _before_the_first_frame(path, video, len(entries))
    said = {name: facts[name] for name in ("biome", "initial_weather", "start_time") if name in facts}
    return Track(to_canonical(rows, GameFactoryReader.convention)[first:], unit_m=1.0, pose_source="engine", fps=fps,
                 gravity="engine", gravity_confidence=1.0, labels=said or None,
                 keys={name: track[first:] for name, track in held.items()})


def _entries(path: Path, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries in the order of their numbers, each with what is read of it."""
    actions = facts.get("actions") if isinstance(facts, dict) else None
    if not isinstance(actions, dict) or not actions:
        raise DataError(f"{path.name}: no object 'actions' with an entry in it")
    numbers = sorted(actions, key=int)
    if [int(number) for number in numbers] != list(range(len(numbers))):
        raise DataError(f"{path.name}: {len(numbers)} entries from {numbers[0]} to {numbers[-1]}; wanted all from 0")
    entries = [actions[number] for number in numbers]
    for number, entry in enumerate(entries):
        lacking = [name for name in (*_KEYS, "pos") if name not in entry]
        if lacking:
            raise DataError(f"{path.name}: entry {number} lacks {', '.join(lacking)}")
    return entries


def _angles(entries: list[Mapping[str, Any]]) -> np.ndarray:
    """Yaw and pitch (N, 2) in degrees: as stated, or from the turns of each entry."""
    if all("yaw" in entry and "pitch" in entry for entry in entries):
        return np.asarray([[entry["yaw"], entry["pitch"]] for entry in entries], float)
    turns = np.asarray([[entry["yaw_delta"], entry["pitch_delta"]] for entry in entries], float) * DEGREES_A_STEP
    turns[0] = 0
    return np.cumsum(turns, 0)


def _before_the_first_frame(path: Path, video: Path | None, count: int) -> int:
    frames = count if video is None else len(frame_times_s(video))
    if frames not in (count, count - 1):
        raise DataError(f"{path.name}: {count} entries for {frames} frames; wanted as many, or one more before them")
    return count - frames
