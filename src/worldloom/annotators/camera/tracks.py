"""Corners followed from one frame to another, kept where forward and backward agree."""

from __future__ import annotations

import cv2
import numpy as np

_LK = {"winSize": (15, 15), "maxLevel": 4, "criteria": (3, 20, 0.01), "minEigThreshold": 1e-4}
_RETURN_PX = 0.5


def follow(
    a_HW: np.ndarray, b_HW: np.ndarray, mask_HW: np.ndarray, *, most: int = 400,
) -> tuple[np.ndarray, np.ndarray]:
    """Pixel places (N, 2) in two pictures, x right and y down; N may be 0."""
    start = cv2.goodFeaturesToTrack(a_HW, most, 0.004, 6, mask=mask_HW)
    none = np.zeros((0, 2))
    if start is None or len(start) < 8:
        return none, none
    end, found, _ = cv2.calcOpticalFlowPyrLK(a_HW, b_HW, start, None, **_LK)
    back, returned, _ = cv2.calcOpticalFlowPyrLK(b_HW, a_HW, end, None, **_LK)
    p, q, r = (points.reshape(-1, 2) for points in (start, end, back))
    height, width = a_HW.shape
    ok = (found.ravel() > 0) & (returned.ravel() > 0) & (np.abs(p - r).max(1) < _RETURN_PX)
    ok &= (q > 1).all(1) & (q[:, 0] < width - 2) & (q[:, 1] < height - 2)
    p, q = p[ok], q[ok]
    on_scene = mask_HW[q[:, 1].astype(int), q[:, 0].astype(int)] > 0
    return p[on_scene].astype(float), q[on_scene].astype(float)
