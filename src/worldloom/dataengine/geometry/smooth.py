"""Zero-phase filters for tracks and rotations, and their noise floors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from worldloom.dataengine.geometry.poses import so3_exp, so3_log


def hampel(x_T: np.ndarray, *, half: int = 3, n_sigma: float = 3.0, floor: float = 0.0) -> np.ndarray:
    """Outliers replaced by the median of the 2 half + 1 values around them; other values unchanged.

    An outlier is more than n_sigma (1.4826 MAD + floor) away from that median.
    """
    x = np.asarray(x_T, float)
    padded = np.pad(x, half, constant_values=np.nan)
    windows = sliding_window_view(padded, 2 * half + 1)
    middle = np.nanmedian(windows, 1)
    spread = 1.4826 * np.nanmedian(np.abs(windows - middle[:, None]), 1) + floor
    return np.where(np.abs(x - middle) > n_sigma * spread, middle, x)


def window_sum(x_T: np.ndarray, half: int) -> np.ndarray:
    """Sum of the values up to `half` places away, as many as there are values, however few."""
    return np.convolve(np.asarray(x_T, float), np.ones(2 * half + 1))[half:half + len(x_T)]


def savitzky_golay(x_T: np.ndarray, *, fps: float, window_s: float = 0.3, order: int = 2) -> np.ndarray:
    """Least-squares polynomial fit in a centred window: no lag. Near the ends the window is shifted, not cut.

    A polynomial up to `order` passes unchanged. Tracks shorter than the window come back as they are.
    """
    x = np.asarray(x_T, float)
    half = max(1, int(round(window_s * fps / 2)))
    width = 2 * half + 1
    if len(x) < width or width <= order:
        return x.copy()
    basis = np.vander(np.arange(-half, half + 1) / half, order + 1, increasing=True)
    fit = basis @ np.linalg.pinv(basis)                             # row i: weights of the value at window place i
    inner = sliding_window_view(x, width) @ fit[half]
    return np.concatenate([fit[:half] @ x[:width], inner, fit[half + 1:] @ x[-width:]])


def noise_sigma(raw_T: np.ndarray, smoothed_T: np.ndarray) -> float:
    """Noise floor of a track: 1.4826 times the median absolute deviation of raw minus smoothed."""
    rest = np.asarray(raw_T, float) - np.asarray(smoothed_T, float)
    return float(1.4826 * np.median(np.abs(rest - np.median(rest)))) if rest.size else 0.0


FILTER = "so3-savitzky-golay-2/1"
_CUT_DEG, _MOST_CHANGE, _NOISE_TIMES = 25.0, 0.1, 2.2


@dataclass(frozen=True)
class SmoothedRotations:
    """Rotations before and after smoothing; steps are rotation vectors in the axes of the frame before, row 0 zero."""
    rotation_T33: np.ndarray
    raw_deg_T3: np.ndarray
    smoothed_deg_T3: np.ndarray
    sigma_deg_3: np.ndarray        # noise floor of a step about each camera axis
    changed_T: np.ndarray          # frames that were smoothed; the others are as given
    filter_id: str = FILTER


def smooth_rotations(rotation_T33: np.ndarray, *, fps: float, window_s: float = 0.3) -> SmoothedRotations:
    """Zero-phase smoothing on SO(3): a parabola fitted to the logarithms around each frame, of nothing but rotations.

    Turning the world or the camera's axes turns the result with it, reversing time reverses it, and it does not
    drift. A step is changed by at most a tenth of it or by what noise explains (2.2 noise floors of all axes together):
    frames beside a step that would change more, so a true one, keep their rotation. Nothing is smoothed across a cut
    (25 degrees a frame).
    """
    raw = rotation_steps_deg(rotation_T33)
    change_T3 = np.zeros((len(rotation_T33), 3))
    cuts = np.flatnonzero(np.linalg.norm(raw, axis=1) > _CUT_DEG)
    for first, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        change_T3[first:stop] = _parabola_change(rotation_T33[first:stop], fps, window_s)
    wanted = rotation_steps_deg(rotation_T33 @ so3_exp(change_T3))
    sigma = np.array([noise_sigma(raw[1:, i], wanted[1:, i]) for i in range(3)])
    changed = np.linalg.norm(change_T3, axis=1) > 0
    allowed = np.maximum(_MOST_CHANGE * np.linalg.norm(raw, axis=1), _NOISE_TIMES * np.linalg.norm(sigma)) + 1e-9
    while True:
        smoothed = rotation_T33 @ so3_exp(change_T3 * changed[:, None])
        steps = rotation_steps_deg(smoothed)
        broken = np.linalg.norm(steps - raw, axis=1) > allowed
        beside = changed & (broken | np.append(broken[1:], False))
        if not beside.any():
            return SmoothedRotations(smoothed, raw, steps, sigma, changed)
        changed &= ~beside


def rotation_steps_deg(rotation_T33: np.ndarray) -> np.ndarray:
    """Rotation vectors (T, 3) of the steps in degrees, in the axes of the frame before; row 0 is zero."""
    steps = so3_log(np.swapaxes(rotation_T33[:-1], 1, 2) @ rotation_T33[1:])
    return np.degrees(np.concatenate([np.zeros((min(1, len(rotation_T33)), 3)), steps.reshape(-1, 3)]))


def _parabola_change(rotation_T33: np.ndarray, fps: float, window_s: float) -> np.ndarray:
    """Rotation vectors (T, 3) in radians from each frame to the parabola through its neighbours."""
    count, half = len(rotation_T33), max(2, int(round(window_s * fps / 2)))
    width = 2 * half + 1
    if count < width:
        return np.zeros((count, 3))
    basis = np.vander(np.arange(-half, half + 1) / half, 3, increasing=True)
    fit = basis @ np.linalg.pinv(basis)
    start = np.clip(np.arange(count) - half, 0, count - width)
    seen = rotation_T33[start[:, None] + np.arange(width)]                       # (T, window, 3, 3)
    logs = so3_log(np.swapaxes(rotation_T33, 1, 2)[:, None] @ seen)
    return np.einsum("tw,twi->ti", fit[np.arange(count) - start], logs)
