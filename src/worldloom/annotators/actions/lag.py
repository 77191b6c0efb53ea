"""How many frames labels come early or late, by the turns of the labels and those that the flow shows."""

from __future__ import annotations

import numpy as np

MIN_STEPS = 16
_LAG_S = 1.0
_LAG_R, _LAG_GAIN = 0.75, 0.1


def lag_frames(turn_T2: np.ndarray, seen_T2: np.ndarray, span_T: np.ndarray, fps: float) -> tuple[int, float]:
    """Frames that the labels come late by, and the gain in correlation; (0, 0.0) where none stands out.

    Args:
        turn_T2: labelled turns a frame, both axes weighted alike.
        seen_T2: turns that the flow shows, a frame, over the `span_T` frames up to this one; NaN where none was seen.
    """
    rows = np.flatnonzero(np.isfinite(seen_T2).all(1))
    if len(rows) < MIN_STEPS:
        return 0, 0.0
    sums_T2 = np.cumsum(turn_T2, 0)

    def fit(lag: int) -> float:
        a, b = rows - span_T[rows] + lag, rows + lag
        inside = (a >= 0) & (b < len(sums_T2))
        said_N2 = (sums_T2[b[inside]] - sums_T2[a[inside]]) / span_T[rows[inside], None]
        return _correlation(said_N2, seen_T2[rows[inside]]) if inside.sum() >= MIN_STEPS else 0.0

    reach = min(round(_LAG_S * fps), len(sums_T2) // 4)
    fits = {lag: fit(lag) for lag in range(-reach, reach + 1)}
    best = max(fits, key=lambda lag: (fits[lag], -abs(lag)))
    gain = fits[best] - abs(fits[0])
    stands_out = 1 < abs(best) < reach and fits[best] > _LAG_R and gain > _LAG_GAIN
    return (best, gain) if stands_out else (0, 0.0)


def _correlation(a_N2: np.ndarray, b_N2: np.ndarray) -> float:
    a, b = a_N2 - a_N2.mean(0), np.clip(b_N2, *np.quantile(b_N2, (0.02, 0.98), axis=0))
    b = b - b.mean(0)
    norm = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / norm if norm > 1e-9 else 0.0
