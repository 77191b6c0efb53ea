"""Poses of a file that shake by themselves: found by what only noise does, and smoothed before they become turns.

Errors that are drawn anew for each pose return at once, so differences of high order grow and change sign from frame
to frame; a hand that shakes, a mouse that jerks, do so over several frames. The camera row keeps its poses.
"""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import rotation_steps_deg, smooth_rotations

_LEAST_FRAMES = 32
_LEAST_DEG = 0.15                      # about all axes together; below, smoothing costs more than the noise does
_WHITE = -0.6                          # correlation of third differences a frame apart: -0.75 of nothing but noise
_OUTLIER = 5.0                         # medians, above which a difference is a cut or a jerk


def steadied(pose_T44: np.ndarray, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """Poses with smoothed rotations, and their noise (3,) in degrees about each camera axis; as given, and zeros,
    where the noise is too small to say or what shakes is the camera."""
    noise_3, is_noise = white_noise_deg(pose_T44[:, :3, :3])
    if not is_noise:
        return pose_T44, np.zeros(3)
    return P.compose(smooth_rotations(pose_T44[:, :3, :3], fps=fps).rotation_T33, pose_T44[:, :3, 3]), noise_3


def white_noise_deg(rotation_T33: np.ndarray) -> tuple[np.ndarray, bool]:
    """Standard deviation (3,) of errors drawn anew for each rotation, and whether they are what makes it shake.

    The third difference of independent errors of variance s^2 has the variance 20 s^2, and -15 s^2 with its neighbour.
    """
    rough_T3 = np.diff(rotation_steps_deg(rotation_T33)[1:], 2, axis=0)
    if len(rotation_T33) < _LEAST_FRAMES:
        return np.zeros(3), False
    bound_3 = _OUTLIER * np.median(np.abs(rough_T3), 0)
    rough_T3 = np.clip(rough_T3, -bound_3, bound_3)
    with_next_3, own_3 = (rough_T3[1:] * rough_T3[:-1]).mean(0), (rough_T3**2).mean(0)
    noise_3 = np.sqrt(np.maximum(0.0, -with_next_3 / 15))
    return noise_3, bool(np.linalg.norm(noise_3) > _LEAST_DEG and with_next_3.sum() < _WHITE * own_3.sum())
