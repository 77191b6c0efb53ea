"""What odometry costs beside the optical flow that it contains, at two picture sizes, and with two workers.

    python benchmarks/bench_camera.py [--frames 96]

Everything is measured in one run, one thread a process, on drawn video: a walk with turns in a room.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2  # noqa: E402
import numpy as np  # noqa: E402

from worldloom.annotators.camera import odometry  # noqa: E402
from worldloom.annotators.camera.tracks import follow_all  # noqa: E402
from worldloom.dataengine.geometry import poses as P  # noqa: E402

ROOM = np.array([5.0, 2.0, 7.0])


def film(width: int, height: int, frames: int) -> tuple[np.ndarray, odometry.Lens]:
    """Gray pictures (T, H, W) of a walk in a room whose walls are noise at several sizes, and their lens."""
    rng, size = np.random.default_rng(0), 768
    layers = [cv2.resize(rng.normal(0, 40, (n, n)).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
              for n in (24, 64, 160)]
    wall = np.clip(128 + sum(layers), 0, 255).astype(np.uint8)
    lens = odometry.Lens(width / 2, width / 2, (width - 1) / 2, (height - 1) / 2)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    rays = np.stack([(x - lens.cx) / lens.fx, (y - lens.cy) / lens.fy, np.ones_like(x)], -1)
    heading = 40 * np.sin(np.arange(frames) / 30)
    turned = P.look(heading, np.zeros(frames))
    place = np.cumsum(turned[:, :, 2] * 0.03, 0) - (0, 0, 2)
    return np.stack([_draw(wall, rays @ turn.T, at) for turn, at in zip(turned, place, strict=True)]), lens


def _draw(wall: np.ndarray, rays_HW3: np.ndarray, place: np.ndarray) -> np.ndarray:
    reach = (np.sign(rays_HW3) * ROOM - place) / np.where(np.abs(rays_HW3) < 1e-9, 1e-9, rays_HW3)
    axis, hit = np.argmin(reach, -1), place + rays_HW3 * np.min(reach, -1)[..., None]
    u = np.where(axis == 0, hit[..., 1], hit[..., 0]) / 14 + 0.5
    v = np.where(axis == 2, hit[..., 1], hit[..., 2]) / 14 + 0.5
    return cv2.remap(wall, (u * 767).astype(np.float32), (v * 767).astype(np.float32), cv2.INTER_LINEAR)


def cost_s(width: int, height: int, frames: int) -> tuple[float, float]:
    """(seconds of tracking alone, of the whole estimator), CPU time."""
    cv2.setNumThreads(1)
    gray_THW, lens = film(width, height, frames)
    start = time.process_time()
    follow_all(gray_THW, np.full(gray_THW.shape[1:], 255, np.uint8))
    tracked = time.process_time()
    odometry.estimate(gray_THW, lens, 24.0)
    return tracked - start, time.process_time() - tracked


def _job(frames: int) -> None:
    cost_s(320, 240, frames)


def workers_gain(frames: int) -> float:
    """Clips per second of two workers over those of one."""
    times = []
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_job, [8] * workers))                    # imports are not counted
            start = time.perf_counter()
            list(pool.map(_job, [frames] * 4))
            times.append(time.perf_counter() - start)
    return times[0] / times[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=96)
    frames = parser.parse_args().frames
    cost_s(320, 240, 8)
    (flow_s, whole_s), (_, large_s) = cost_s(320, 240, frames), cost_s(640, 480, frames)
    print(f"tracking {flow_s:.2f} s, whole estimator {whole_s:.2f} s for {frames} frames of 320x240: "
          f"{whole_s / flow_s:.2f} times (wanted <= 3)")
    print(f"per pixel, 640x480 over 320x240: {large_s / 4 / whole_s:.2f} (wanted <= 1.5)")
    print(f"two workers over one: {workers_gain(frames):.2f} (wanted >= 1.8, needs two free cores)")


if __name__ == "__main__":
    main()
