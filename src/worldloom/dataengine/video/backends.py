"""Other decoders behind the interface of `iter_frames`: decord and torchcodec, loaded only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from worldloom.dataengine.video.read import Frame, target_size
from worldloom.schemas import ConfigError, DecodeError

Decoded = Iterator[tuple[float, np.ndarray]]


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        package = name.split(".")[0]
        raise ConfigError(f"video backend {package} cannot be loaded: {reason}; install worldloom[decode] "
                          "(torchcodec also needs the FFmpeg libraries), or use pyav") from error


def _decord(path: Path, start: int) -> Decoded:
    decord = _module("decord")
    reader = decord.VideoReader(str(path), ctx=decord.cpu(0), num_threads=1)
    for index in range(start, len(reader)):
        yield float(reader.get_frame_timestamp(index)[0]), reader[index].asnumpy()


def _torchcodec(path: Path, start: int) -> Decoded:
    decoders = _module("torchcodec.decoders")
    reader = decoders.VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")
    for index in range(start, len(reader)):
        frame = reader.get_frame_at(index)
        yield float(frame.pts_seconds), frame.data.numpy()


BACKENDS: dict[str, Callable[[Path, int], Decoded]] = {"decord": _decord, "torchcodec": _torchcodec}


def backend_frames(
    name: str, path: Path, width: int | None, height: int | None, gray: bool, start: int
) -> Iterator[Frame]:
    """Frames from `start` on. These decoders turn pictures upright themselves; sizes are then as for pyav.

    Raises:
        ConfigError: the package is missing or cannot be loaded here.
        DecodeError: the decoder gives up on the file.
    """
    from worldloom.dataengine.video.probe import stored_geometry

    frames = BACKENDS[name](path, start)
    size = None
    index = start
    while True:
        try:
            time_s, rgb = next(frames)
        except StopIteration:
            return
        except ConfigError:
            raise
        except Exception as error:   # each decoder has its own error types
            raise DecodeError(f"{path.name}: {name}: {' '.join(str(error).split())[:200]}") from error
        size = size or target_size(stored_geometry(path).display_size, width, height)
        yield Frame(index, time_s, _resized(rgb, size, gray))
        index += 1


def _resized(rgb_HWC: np.ndarray, size: tuple[int, int], gray: bool) -> np.ndarray:
    import cv2

    if rgb_HWC.shape[1::-1] != size:
        rgb_HWC = cv2.resize(rgb_HWC, size, interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(rgb_HWC, cv2.COLOR_RGB2GRAY) if gray else rgb_HWC
