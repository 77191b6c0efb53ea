"""Decoders behind one interface: PyAV, exact for every file it opens, and decord and torchcodec where they agree."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from worldloom.schemas import ConfigError, DataError, DecodeError

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

    from worldloom.dataengine.video.index import Damage
    from worldloom.dataengine.video.probe import Probe

PYAV = "pyav"
OTHERS = ("decord", "torchcodec")
_FIT = ("h264", "yuv420p")


class Backend(Protocol):
    """A module of this package named after the decoder; its package is loaded inside these functions."""
    PACKAGE: str

    def count(self, path: Path) -> int:
        """Frames that the decoder says a file has."""

    def pictures(self, path: Path, start: int) -> Iterator[np.ndarray]:
        """Upright pictures from frame `start` on, uint8 RGB (H, W, 3), on one thread."""


def backend(name: str) -> Backend:
    """The decoder of that name, one of OTHERS.

    Raises:
        ConfigError: no such decoder, or its package cannot be loaded here.
    """
    if name not in OTHERS:
        raise ConfigError(f"unknown video backend {name!r}; known: {PYAV}, {', '.join(OTHERS)}")
    return cast(Backend, importlib.import_module(f"{__name__}.{name}"))


def need(name: str) -> None:
    """Raises ConfigError where a decoder is unknown or cannot be loaded here."""
    if name != PYAV:
        package(backend(name).PACKAGE)


def package(name: str) -> ModuleType:
    """An optional package by its module name. Raises ConfigError where it cannot be loaded."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ConfigError(f"video backend {name.split('.')[0]} cannot be loaded: {reason}; install worldloom[decode] "
                          "(torchcodec also needs the FFmpeg libraries), or use pyav") from error


def choose(wanted: str, path: Path, found: Probe) -> tuple[str, str | None]:
    """(decoder for a probed file, why it is not the wanted one).

    Another decoder than PyAV takes files with nothing unusual about them, in 8-bit H.264 whose packets tell its
    frames, and only where it counts as many frames as we do.

    Raises:
        ConfigError: the wanted one is unknown or cannot be loaded here.
    """
    if wanted == PYAV:
        return PYAV, None
    reason = _unfit(found) or _disagreement(wanted, path, found.num_frames)
    return (PYAV, f"{wanted} not used: {reason}") if reason else (wanted, None)


def _unfit(found: Probe) -> str | None:
    if found.notes:
        return found.notes[0]
    if (found.codec, found.pix_fmt) != _FIT:
        return f"{found.codec} in {found.pix_fmt}"
    return None if found.is_counted_by_packets else "its packets do not tell its frames"


def _disagreement(wanted: str, path: Path, num_frames: int) -> str | None:
    decoder = backend(wanted)
    try:
        counted = decoder.count(path)
    except ConfigError:
        raise
    except Exception as error:   # each decoder has its own error types
        return " ".join(str(error).split())[:120]
    return None if counted == num_frames else f"it counts {counted} frames of {num_frames}"


def timed_pictures(name: str, path: Path, start: int = 0) -> Iterator[tuple[int, float, np.ndarray]]:
    """(index, time by the file, upright RGB picture) from frame `start` on; the times are our own, from the packets.

    Raises:
        DecodeError: the packets do not tell the frames, or the decoder gives up or has another number of them.
        ConfigError: the package is missing or cannot be loaded here.
    """
    from worldloom.dataengine.video.container import open_video
    from worldloom.dataengine.video.index import packet_timing

    decoder = backend(name)
    with open_video(path) as (container, stream):
        timing = packet_timing(container, stream)
    if timing is None:
        raise DecodeError(f"{path.name}: {name}: its packets do not tell its frames; read it with pyav")
    times_s, index = timing.times_s, start
    try:
        for index, rgb_HWC in enumerate(decoder.pictures(path, start), start):
            if index < len(times_s):
                yield index, float(times_s[index]), rgb_HWC
    except (ConfigError, DataError, GeneratorExit):
        raise
    except Exception as error:   # each decoder has its own error types
        raise DecodeError(f"{path.name}: {name}: {' '.join(str(error).split())[:200]}") from error
    if index + 1 != len(times_s):
        raise DecodeError(f"{path.name}: {name} gives {index + 1} frames of {len(times_s)}")


def decoded(
    name: str, path: Path, container: InputContainer, stream: VideoStream, damage: Damage
) -> Iterator[tuple[float, VideoFrame]]:
    """`good_frames` of an opened file by the decoder of that name; others than PyAV give RGB pictures."""
    from av import VideoFrame

    from worldloom.dataengine.video.index import good_frames

    if name == PYAV:
        yield from good_frames(container, stream, damage)
        return
    try:
        for _, time_s, rgb_HWC in timed_pictures(name, path):
            yield time_s, VideoFrame.from_ndarray(np.ascontiguousarray(rgb_HWC), format="rgb24")
    except DecodeError as error:
        damage.detail = str(error)
