"""OWAMcap (Open World Agents): NAME.mcap, a log of keys, mouse and screen events, beside the NAME.mkv that it recorded.

A `screen` message names the video, a frame's time in it, and when it was on screen; a `keyboard` message is a press or
release of a Windows virtual key. So W, A, S, D and space become keys held at times of the video. There are no poses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, inside_folder
from worldloom.dataengine.sources.formats.track import Track
from worldloom.schemas import ConfigError, DataError

_W, _A, _S, _D, _SPACE = 0x57, 0x41, 0x53, 0x44, 0x20
_TOPICS = ("screen", "keyboard")


@dataclass(frozen=True)
class KeyLog(Track):
    """A recording of which only the keys are known, one row a change."""

    def document(self, *, convention: str, perspective: str, origin_s: float) -> dict[str, Any]:
        whole = super().document(convention=convention, perspective=perspective, origin_s=origin_s)
        return {name: whole[name] for name in ("times_s", "keys", "labels", "perspective") if name in whole}


class OwaReader(FormatReader):
    kind = "owa-mcap"
    pose_mode: ClassVar[str] = "none"
    convention: ClassVar[str] = "none: keys alone"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.mcap"):
            events = _read(path)
            yield Recording(self.inside(path), (path,), partial(_track, path, events), _video(path, events))


def _read(path: Path) -> list[tuple[str, int, dict[str, Any]]] | Exception:
    """(topic, time in ns, message) of the screen and the keyboard in order of time; what stopped the reading."""
    try:
        from mcap.exceptions import McapError
        from mcap.reader import make_reader
    except ImportError as error:
        raise ConfigError(f"{path.name}: OWAMcap logs need worldloom[owa] ({error})") from error
    try:
        with path.open("rb") as stream:
            return [(channel.topic, message.log_time, json.loads(message.data))
                    for _, channel, message in make_reader(stream).iter_messages(topics=_TOPICS)]
    except (McapError, OSError, ValueError, KeyError, EOFError, RuntimeError) as error:
        return error


def _video(path: Path, events: Any) -> Path | None:
    """The video that the log names, if it is inside the folder, else the one of the log's own name."""
    named = [] if isinstance(events, Exception) else [_named(message) for topic, _, message in events
                                                      if topic == "screen"][:1]
    found = inside_folder(path.parent, named[0]) if named and named[0] else None
    beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
    return found or next(iter(beside), None)


def _named(message: dict[str, Any]) -> str:
    found = message.get("path") or (message.get("media_ref") or {}).get("uri") or ""
    return found if isinstance(found, str) else ""


def _pts_ns(message: dict[str, Any]) -> int | None:
    found = message.get("pts", (message.get("media_ref") or {}).get("pts_ns"))
    return found if isinstance(found, int) else None


def _track(path: Path, events: Any) -> Track:
    """Keys at every frame and every change, at times of the video.

    Raises:
        DataError: the log cannot be read, or has no two screen messages that say where in the video they are.
    """
    if isinstance(events, Exception):
        raise DataError(f"{path.name}: no OWAMcap log: {type(events).__name__} {events}")
    shown = {pts: int(message.get("utc_ns") or at_ns) for topic, at_ns, message in events
             if topic == "screen" and (pts := _pts_ns(message)) is not None}
    if len(shown) < 2:
        raise DataError(f"{path.name}: {len(shown)} screen messages with a time in the video; wanted two or more")
    pts_ns = np.asarray(sorted(shown))
    clock_ns = np.maximum.accumulate([shown[pts] for pts in pts_ns.tolist()])
    pressed = [(at_ns, message) for topic, at_ns, message in events if topic == "keyboard"]
    change_s = _video_s(np.asarray([at_ns for at_ns, _ in pressed], np.int64), clock_ns, pts_ns)
    times_s = np.unique(np.round(np.concatenate([[0.0], pts_ns / 1e9, change_s[change_s > 0]]), 6))
    held = {vk: _held(times_s, change_s, pressed, vk) for vk in (_W, _A, _S, _D, _SPACE)}
    keys = {"longitudinal": held[_W] - held[_S], "lateral": held[_D] - held[_A], "jump": held[_SPACE]}
    return KeyLog(np.empty((0, 4, 4)), times_s=times_s, keys=keys, labels={"key_events": len(pressed)})


def _video_s(at_ns: np.ndarray, clock_ns: np.ndarray, pts_ns: np.ndarray) -> np.ndarray:
    """Times in the video of times of the clock: as the frames around say, at their speed before and after them."""
    origin = int(clock_ns[0])
    clock_s, pts_s, at_s = ((x - o) / 1e9 for x, o in ((clock_ns, origin), (pts_ns, 0), (at_ns, origin)))
    outside = np.minimum(at_s - clock_s[0], 0) + np.maximum(at_s - clock_s[-1], 0)
    return np.interp(at_s, clock_s, pts_s) + outside


def _held(times_s: np.ndarray, change_s: np.ndarray, pressed: list[tuple[int, dict[str, Any]]], vk: int) -> np.ndarray:
    """1 where the key is down from that time on; a press that repeats changes nothing."""
    own = [(at, message.get("event_type") == "press") for at, (_, message) in zip(change_s, pressed, strict=True)
           if message.get("vk") == vk]
    at_s = np.asarray([at for at, _ in own])
    down = np.asarray([False, *(is_down for _, is_down in own)])
    return down[np.searchsorted(at_s, times_s + 1e-6, side="right")].astype(int)
