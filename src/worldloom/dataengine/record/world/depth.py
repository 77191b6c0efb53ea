"""Depth files VIDEO.depth.npz: planar depth in millimetres of some frames, sampled at pixel centres."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from worldloom.schemas import DataError

SKY_MM = 65535


def metres_of_depth(stored_HW: np.ndarray, near_m: float, far_m: float) -> np.ndarray:
    """Planar depth from the 0 to 1 of a perspective depth buffer; infinite where nothing was drawn."""
    stored = stored_HW.astype(np.float64)
    depth = 1 / (1 / near_m + stored * (1 / far_m - 1 / near_m))
    return np.where(stored >= 1.0, np.inf, depth)


def depth_path(video: Path) -> Path:
    return video.with_suffix(".depth.npz")


def write_depth(path: Path, frames: Mapping[int, np.ndarray]) -> None:
    """Depths in metres (H, W) by frame; the file appears whole or not at all."""
    stored = [np.where(np.isfinite(depth), np.clip(np.round(depth * 1000), 0, SKY_MM - 1), SKY_MM).astype(np.uint16)
              for depth in frames.values()]
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            np.savez_compressed(file, frame=np.array(list(frames), np.int64), depth_mm=np.stack(stored))
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def read_depth(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Frames (K,) and their planar depths (K, H, W) in metres, infinite in the sky.

    Raises:
        DataError: the file is no depth file.
    """
    try:
        with np.load(path) as file:
            frames, stored = file["frame"], file["depth_mm"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path.name} is no depth file: {error}; record the video again") from error
    return frames, np.where(stored == SKY_MM, np.inf, stored / 1000.0)
