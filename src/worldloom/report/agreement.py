"""How estimated actions agree with true ones: pure functions of arrays, one value a frame."""

from __future__ import annotations

import numpy as np

MOVING_DEG = 0.1
"""A frame moves where its true yaw is at least this large."""
TURNING_DEG = 1.0
"""A frame turns where its true yaw is larger than this."""
TRUSTED_SE_DEG = 1.0
"""A frame is trusted where the standard error that came with its yaw is at most this."""
STATES = (1, 0, -1, 2)
"""Values of a movement action: forward or right, none, backward or left, uncertain."""


def yaw_agreement(est: np.ndarray, true: np.ndarray) -> dict[str, float | int | None]:
    """Figures of estimated against true yaw a frame, in degrees; frames unknown (NaN) in either are left out.

    `correlation` is Pearson's over frames whose true yaw is at least MOVING_DEG, `sign_agreement` the share of
    frames turning faster than TURNING_DEG that have the true sign, `median_error_deg` the median absolute error
    over all `frames`. A figure that its frames cannot give is None.

    Raises:
        ValueError: the two have different lengths.
    """
    est, true = np.asarray(est, float).ravel(), np.asarray(true, float).ravel()
    if len(est) != len(true):
        raise ValueError(f"{len(est)} estimated and {len(true)} true yaws; they must be of the same frames")
    known = np.isfinite(est) & np.isfinite(true)
    est, true = est[known], true[known]
    moving, turning = np.abs(true) >= MOVING_DEG, np.abs(true) > TURNING_DEG
    return {
        "correlation": _correlation(est[moving], true[moving]),
        "sign_agreement": float(np.mean(np.sign(est[turning]) == np.sign(true[turning]))) if turning.any() else None,
        "median_error_deg": float(np.median(np.abs(est - true))) if len(est) else None,
        "frames": int(len(est)),
    }


def _correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def confusion(est: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Counts (4, 4) of frames: true state down, estimated state across, both in the order of STATES."""
    est, true = np.asarray(est), np.asarray(true)
    return np.array([[np.sum((true == t) & (est == e)) for e in STATES] for t in STATES], dtype=int)
