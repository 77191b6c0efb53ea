"""Clips of a camera that turns inside a painted cylinder: exact yaw, no game engine."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from worldloom.shards.sample import npy, sample_key
from worldloom.shards.writer import write_tar
from worldloom.train.config import ModelConfig, TrainConfig
from worldloom.train.data import FrameBank, fill_bank

CAMERA = (32.0, 38.4, 31.5, 23.5)
HEIGHT, WIDTH = 48, 64
DEGREES_A_COLUMN = 0.5


def panorama(rng: np.random.Generator) -> np.ndarray:
    """A cylinder of coloured smooth noise and vertical bars, 720 columns around and 160 rows high."""
    coarse = rng.integers(0, 255, (14, 60, 3)).astype(np.float32)
    wrapped = np.concatenate([coarse, coarse[:, :1]], 1)
    picture = cv2.resize(wrapped, (732, 160), interpolation=cv2.INTER_LINEAR)[:, :720]
    for _ in range(14):
        left = int(rng.integers(0, 700))
        picture[int(rng.integers(20, 60)):int(rng.integers(90, 140)), left:left + int(rng.integers(6, 18))] = (
            rng.integers(0, 255, 3))
    return picture.astype(np.uint8)


def view(picture: np.ndarray, heading_deg: float) -> np.ndarray:
    """Pinhole view of the cylinder at a heading (right positive)."""
    fx, fy, cx, cy = CAMERA
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    ray_x, ray_y = (x - cx) / fx, (y - cy) / fy
    azimuth = np.degrees(np.arctan(ray_x)) + heading_deg
    columns = (azimuth / DEGREES_A_COLUMN) % picture.shape[1]
    rows = ray_y / np.sqrt(1 + ray_x**2) * 60 + picture.shape[0] / 2
    return cv2.remap(picture, columns.astype(np.float32), rows.astype(np.float32), cv2.INTER_LINEAR,
                     borderMode=cv2.BORDER_WRAP)


class PaintedSample(dict):
    """A sample as a loader yields it, its frames already in memory."""

    def decode(self) -> np.ndarray:
        return self["frames_THWC"]


def samples(clips: int, frames: int, seed: int) -> Iterator[PaintedSample]:
    """Loader samples of turning clips; each command is held for a few frames."""
    rng = np.random.default_rng(seed)
    for clip in range(clips):
        picture, heading = panorama(rng), float(rng.uniform(0, 360))
        yaw_T = np.repeat(rng.uniform(-8, 8, frames // 4 + 1) * rng.integers(0, 2, frames // 4 + 1), 4)[:frames]
        yaw_T[0] = 0
        headings = heading + np.cumsum(yaw_T)
        actions = np.zeros((frames, 6), np.float32)
        actions[:, 1], actions[:, 4] = yaw_T, 1
        yield PaintedSample(key=f"{clip:08d}_panorama", frames_THWC=np.stack([view(picture, h) for h in headings]),
                            actions_T6=actions, intrinsics_T4=np.tile(CAMERA, (frames, 1)))


def bank(folder: Path, clips: int, frames: int = 40, seed: int = 0) -> FrameBank:
    return fill_bank(samples(clips, frames, seed), folder, HEIGHT, WIDTH, mix="panorama")


def pack(folder: Path, clips: int, frames: int, seed: int) -> Path:
    """The same clips as real shards: H.264 at twice the size, in one tar."""
    packed = []
    for number, sample in enumerate(samples(clips, frames, seed)):
        name = f"panorama{seed}x{number}"
        meta = {"clip_id": name, "component": "panorama", "fps": 17.5, "width": 2 * WIDTH, "height": 2 * HEIGHT,
                "num_frames": frames, "split": "train"}
        large = sample["frames_THWC"].repeat(2, 1).repeat(2, 2)
        camera = np.tile([64.0, 76.8, 63.5, 47.5], (frames, 1))
        packed.append((sample_key(number, name), {
            "mp4": _encode(large), "actions.npy": npy(sample["actions_T6"]), "intrinsics.npy": npy(camera),
            "certain.npy": npy(np.ones((frames, 6), bool)), "camera.npy": npy(np.tile(np.eye(4).ravel(), (frames, 1))),
            "json": json.dumps(meta).encode()}))
    folder.mkdir(parents=True)
    write_tar(folder / "00000.tar", packed)
    return folder


def _encode(frames_THWC: np.ndarray) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=35, options={"crf": "16", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = frames_THWC.shape[2], frames_THWC.shape[1], "yuv420p"
        for frame in frames_THWC:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def tiny_config(out: Path, **changes: Any) -> TrainConfig:
    values: dict[str, Any] = {"shards": (out,), "out": out, "steps": 4, "batch": 2, "log_every": 1, "precision": "no",
                              "device": "cpu", "model": ModelConfig(dim=32, blocks=2)}
    return TrainConfig(**(values | changes))
