"""The turn between two frames, found by trying exact rotation warps: no model, no labels, only pixels.

Axes: H height, W width, C colours. Yaw is the camera's turn from the first frame to the second, right positive.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

LIMIT_DEG = 12.0
STEP_DEG = 0.25
FINE = 4                # fine steps between two coarse ones
ROBUST_LEVEL = 25.0     # grey levels; larger differences (new objects) count no more than this


def yaw_search(first_HWC: np.ndarray, second_HWC: np.ndarray, intrinsics: tuple[float, float, float, float],
               limit_deg: float = LIMIT_DEG) -> float:
    """Yaw in degrees that best turns `first` into `second`: every degree, then every quarter, then a parabola.

    Compares high-passed grey so that light does not count; intrinsics are fx, fy, cx, cy in pixels of these frames.
    """
    first, second = _detail(first_HWC), _detail(second_HWC)
    angles, warps = _warps(first.shape, tuple(float(value) for value in intrinsics), limit_deg)
    costs = np.full(len(angles), np.inf)

    def look(indices: range) -> int:
        for index in indices:
            if not np.isfinite(costs[index]):
                costs[index] = _cost(first, second, warps[index])
        return int(costs.argmin())

    coarse = look(range(0, len(angles), FINE))
    best = look(range(max(0, coarse - FINE), min(len(angles), coarse + FINE + 1)))
    best = look(range(max(0, best - 1), min(len(angles), best + 2)))
    if not 0 < best < len(angles) - 1:
        return float(angles[best])
    left, middle, right = costs[best - 1:best + 2]
    curvature = left - 2 * middle + right
    return float(angles[best] + STEP_DEG * (0.5 * (left - right) / curvature if curvature > 1e-9 else 0.0))


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
def _warps(shape_HW: tuple[int, int], intrinsics: tuple[float, float, float, float],
           limit_deg: float) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Tried angles, and for each the maps of x and y and where they stay inside the picture."""
    height, width = shape_HW
    angles = np.arange(-limit_deg, limit_deg + STEP_DEG / 2, STEP_DEG)
    warps = []
    for angle in angles:
        map_x, map_y = turn_maps(shape_HW, intrinsics, float(angle))
        seen = (map_x >= 0) & (map_x <= width - 1) & (map_y >= 0) & (map_y <= height - 1)
        warps.append((map_x, map_y, seen.astype(np.uint8)))
    return angles, warps


def _cost(first: np.ndarray, second: np.ndarray, warp: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """Mean difference where both pictures are seen, each pixel cut at ROBUST_LEVEL."""
    import cv2

    turned = cv2.remap(first, warp[0], warp[1], cv2.INTER_LINEAR)
    _, difference = cv2.threshold(cv2.absdiff(turned, second), ROBUST_LEVEL, 0, cv2.THRESH_TRUNC)
    return cv2.mean(difference, mask=warp[2])[0]


def _detail(frame_HWC: np.ndarray) -> np.ndarray:
    import cv2

    grey = cv2.cvtColor(frame_HWC, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return grey - cv2.GaussianBlur(grey, (0, 0), 4)
