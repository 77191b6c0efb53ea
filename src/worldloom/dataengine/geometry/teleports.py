"""Steps that no camera makes: cuts in a path of poses."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from worldloom.dataengine.geometry import poses as P

TURN_DEG, TIMES = 25.0, 8.0


def teleports(pose_T44: np.ndarray, is_estimated: bool) -> np.ndarray:
    """Steps (T,) that no camera makes: a turn above 25 degrees, or (given poses) one far beyond those around it."""
    found = turned_away_deg(pose_T44) > 0
    length = np.linalg.norm(np.diff(pose_T44[:, :3, 3], axis=0, prepend=pose_T44[:1, :3, 3]), axis=1)
    if not is_estimated and np.count_nonzero(length > 1e-9) >= 3:
        found |= length > TIMES * np.maximum(np.median(length[length > 1e-9]), _around(length))
    return found


def _around(x_T: np.ndarray) -> np.ndarray:
    """Median of the three values before and the three after each one; at the ends of those that are there."""
    windows = sliding_window_view(np.pad(x_T[1:], 3, constant_values=np.nan), 7)
    return np.concatenate([[np.inf], np.nanmedian(np.delete(windows, 3, axis=1), axis=1)])


def turned_away_deg(pose_T44: np.ndarray) -> np.ndarray:
    """Degrees (T,) of the steps that are too large for a turn of one camera, so a cut in the path; 0 elsewhere."""
    relative = np.swapaxes(pose_T44[:-1, :3, :3], 1, 2) @ pose_T44[1:, :3, :3]
    angle = np.degrees(np.linalg.norm(P.so3_log(relative), axis=1)) if len(relative) else np.zeros(0)
    return np.concatenate([[0.0], np.where(angle > TURN_DEG, angle, 0.0)])
