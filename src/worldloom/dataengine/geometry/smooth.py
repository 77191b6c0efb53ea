"""Zero-phase filters for tracks, and the noise floor of a track."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


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
