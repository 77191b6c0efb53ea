"""What the pixels say of poses that came without it: how much they show of the travel, and whether they agree.

Corners are followed between neighbouring frames. What is left of their motion after the pose's rotation is the
parallax; the share of them near the pose's epipolar lines (or unmoved, where only the rotation acts) is the trust.
"""

from __future__ import annotations

import numpy as np

from worldloom.annotators.camera.tracks import follow
from worldloom.dataengine.geometry import poses as P

_NEAR_PX = 1.0            # of a picture 320 wide
_ENOUGH = 60              # corners that give full trust
_CORNERS = 250


def evidence(gray_THW: np.ndarray, world_from_cam_T44: np.ndarray, intrinsics_T4: np.ndarray,
             mask_HW: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parallax in pixels and trust from 0 to 1 of each step (T,); index 0 is at rest: 0 and 1.

    `mask_HW` is of `overlay.usable_mask`.
    """
    count = len(gray_THW)
    parallax, trust = np.zeros(count), np.ones(count)
    near_px = _NEAR_PX * gray_THW.shape[2] / 320
    relative = P.invert(world_from_cam_T44)[1:] @ world_from_cam_T44[:-1]
    for t in range(1, count):
        p, q = follow(gray_THW[t - 1], gray_THW[t], mask_HW, most=_CORNERS)
        parallax[t], trust[t] = _step(p, q, relative[t - 1], intrinsics_T4[t - 1], intrinsics_T4[t], near_px)
    return parallax, trust


def _step(p_N2: np.ndarray, q_N2: np.ndarray, relative_44: np.ndarray, lens_p: np.ndarray, lens_q: np.ndarray,
          near_px: float) -> tuple[float, float]:
    """Median residual of the rotation alone, and the trust, for corners p to q and the pose's own motion."""
    if not len(p_N2):
        return 0.0, 0.0
    a, b = _rays(p_N2, lens_p), _rays(q_N2, lens_q)
    turned = a @ relative_44[:3, :3].T
    left_N2 = (b[:, :2] - turned[:, :2] / np.maximum(turned[:, 2:], 1e-6)) * lens_q[:2]
    rest_px = float(np.median(np.linalg.norm(left_N2, axis=1)))
    across_px = _across(turned, b, relative_44[:3, 3], lens_q, left_N2)
    return rest_px, float(np.mean(across_px < near_px)) * min(1.0, len(p_N2) / _ENOUGH)


def _across(turned_N3: np.ndarray, b_N3: np.ndarray, shift_3: np.ndarray, lens: np.ndarray,
            left_N2: np.ndarray) -> np.ndarray:
    """Distance in pixels from the half-line along which a point may move as it comes nearer."""
    along_N2 = (shift_3[:2] - shift_3[2] * b_N3[:, :2]) * lens[:2]
    length = np.linalg.norm(along_N2, axis=1)
    away = np.linalg.norm(left_N2, axis=1)
    if float(np.linalg.norm(shift_3)) < 1e-12:
        return away
    unit = along_N2 / np.maximum(length, 1e-12)[:, None]
    reach = np.sum(left_N2 * unit, axis=1)
    across = np.abs(left_N2[:, 0] * unit[:, 1] - left_N2[:, 1] * unit[:, 0])
    return np.where(reach >= 0, across, away)


def _rays(points_N2: np.ndarray, lens: np.ndarray) -> np.ndarray:
    plane = (points_N2 - lens[2:]) / lens[:2]
    return np.concatenate([plane, np.ones((len(plane), 1))], 1)
