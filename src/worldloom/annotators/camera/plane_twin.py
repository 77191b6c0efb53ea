"""The other motion that shows a plane the same way: a wall that fills the view leaves two turns and travels to choose.

Faugeras and Lustman, Motion and structure from motion in a piecewise planar environment, 1988 (by OpenCV).
"""

from __future__ import annotations

import cv2
import numpy as np

from worldloom.dataengine.geometry import poses as P

_INLIER_PX = 2.0
_LEAST_TRACKS, _LEAST_SHARE = 16, 0.5           # of one plane, of those seen
_BEFORE = 0.9                                   # share of a plane's points that must lie before both cameras
_APART = np.radians(0.3)                        # between turns that count as two


def other_motion(rays_a: np.ndarray, rays_b: np.ndarray, turn_33: np.ndarray,
                 focal_px: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Turn (3, 3) and travel (3,) of X2 = R X1 + t, the farthest from a turn of those that the largest plane allows.

    None where there is no such plane, or no second motion. Rays (N, 3) have z = 1.
    """
    if len(rays_a) < _LEAST_TRACKS:
        return None
    plane, inlier = cv2.findHomography(rays_a[:, :2], rays_b[:, :2], cv2.RANSAC, _INLIER_PX / focal_px, maxIters=300)
    if plane is None or inlier.sum() < max(_LEAST_TRACKS, _LEAST_SHARE * len(rays_a)):
        return None
    on_plane = rays_a[inlier.ravel() > 0]
    found = []
    for turn, travel, normal in zip(*cv2.decomposeHomographyMat(plane, np.eye(3))[1:], strict=True):
        if np.mean(on_plane @ normal.ravel() > 0) > _BEFORE and np.linalg.norm(travel) > 1e-6:
            found.append((float(np.linalg.norm(P.so3_log(turn @ turn_33.T))), turn, travel.ravel()))
    if not found:
        return None
    apart, turn, travel = max(found, key=lambda motion: motion[0])
    return (turn, travel / np.linalg.norm(travel)) if apart > _APART else None
