"""The turn between two frames, found by trying exact rotation warps: no model, no labels, only pixels.

Axes: H height, W width, C colours. Yaw is the camera's turn from the first frame to the second, right positive.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

LIMIT_DEG = 12.0
STEP_DEG = 0.25
OUTSIDE = 1e4
ROBUST_LEVEL = 25.0     # grey levels; larger differences (new objects) count no more than this


def yaw_search(first_HWC: np.ndarray, second_HWC: np.ndarray, intrinsics: tuple[float, float, float, float],
               limit_deg: float = LIMIT_DEG, step_deg: float = STEP_DEG) -> float:
    """Yaw in degrees that best turns `first` into `second`, refined between steps by a parabola.

    Compares high-passed grey so that light does not count; intrinsics are fx, fy, cx, cy in pixels of these frames.
    """
    import cv2

    first, second = _detail(first_HWC), _detail(second_HWC)
    angles, maps = _warp_maps(first.shape, tuple(float(value) for value in intrinsics), limit_deg, step_deg)
    costs = np.empty(len(angles))
    for index, (map_x, map_y) in enumerate(maps):
        turned = cv2.remap(first, map_x, map_y, cv2.INTER_LINEAR, borderValue=OUTSIDE)
        seen = turned < OUTSIDE / 10
        costs[index] = np.minimum(np.abs(turned - second), ROBUST_LEVEL)[seen].mean()
    best = int(costs.argmin())
    if not 0 < best < len(costs) - 1:
        return float(angles[best])
    left, middle, right = costs[best - 1:best + 2]
    curvature = left - 2 * middle + right
    return float(angles[best] + step_deg * (0.5 * (left - right) / curvature if curvature > 1e-9 else 0.0))


def yaw_track(frames_THWC: np.ndarray, intrinsics: tuple[float, float, float, float]) -> np.ndarray:
    """(T - 1,) yaw between consecutive frames."""
    return np.array([yaw_search(a, b, intrinsics) for a, b in zip(frames_THWC[:-1], frames_THWC[1:], strict=True)])


def turn_maps(shape_HW: tuple[int, int], intrinsics: tuple[float, float, float, float],
              yaw_deg: float) -> tuple[np.ndarray, np.ndarray]:
    """Where each pixel of the view after a right turn of `yaw_deg` lies in the view before it (x, y in pixels)."""
    fx, fy, cx, cy = intrinsics
    y, x = np.mgrid[:shape_HW[0], :shape_HW[1]].astype(np.float64)
    ray_x, ray_y = (x - cx) / fx, (y - cy) / fy
    cos, sin = np.cos(np.radians(yaw_deg)), np.sin(np.radians(yaw_deg))
    depth = cos - sin * ray_x
    return ((cos * ray_x + sin) / depth * fx + cx).astype(np.float32), (ray_y / depth * fy + cy).astype(np.float32)


@lru_cache(maxsize=8)
def _warp_maps(shape_HW: tuple[int, int], intrinsics: tuple[float, float, float, float], limit_deg: float,
               step_deg: float) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    angles = np.arange(-limit_deg, limit_deg + step_deg / 2, step_deg)
    return angles, [turn_maps(shape_HW, intrinsics, float(angle)) for angle in angles]


def _detail(frame_HWC: np.ndarray) -> np.ndarray:
    import cv2

    grey = cv2.cvtColor(frame_HWC, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return grey - cv2.GaussianBlur(grey, (0, 0), 4)
