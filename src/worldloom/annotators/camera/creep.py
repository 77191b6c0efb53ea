"""Slow travel beside plain travel: a turn can stand in for it, unless the depths of the tracks are known.

Where a camera comes to rest, or sets off slowly, turning alone explains its tracks nearly as well, and the turn found
is wrong by what the travel would have moved them. Beside steps that travel plainly the depths of the tracks are known,
and with them even slow travel is told from a turn.
"""

from __future__ import annotations

import numpy as np

from worldloom.annotators.camera import bundle
from worldloom.annotators.camera.bundle import Fit, Flow
from worldloom.annotators.camera.tracks import LIFE
from worldloom.dataengine.geometry.smooth import window_sum

_REACH = 8                            # still steps looked at beside moving ones, at a time
_TIMES = 3
_LEAST_PX, _LEAST_ERRORS = 0.12, 5.0  # median image motion of slow travel, and its length over its standard error


def set_off(flow: Flow, fit: Fit, still_T: np.ndarray, sigma_px: float) -> tuple[Fit, np.ndarray, np.ndarray]:
    """The fit with slow travel told from turns, the steps (T,) that still only turn, and travel in pixels (T,).

    The image motion is the median of each step's tracks, 0 where no slow travel was found.
    """
    still_T, slow_px = still_T.copy(), np.zeros(flow.steps)
    for _ in range(_TIMES):
        beside = (window_sum(~still_T, _REACH) > 0.5) & still_T
        if not beside.any():
            break
        tried = _freed(flow, fit, still_T & ~beside, beside, sigma_px)
        moved_px = _image_motion_px(flow, tried)
        found = _joined(beside & (moved_px > _LEAST_PX) & (_errors(flow, tried, still_T & ~beside, sigma_px) >
                                                            _LEAST_ERRORS), ~still_T)
        if not found.any():
            break
        still_T &= ~found
        slow_px[found] = moved_px[found]
        tried.steps.shift[still_T] = 0
        fit = bundle.adjust(flow, tried.steps, still_T, sigma_px, rounds=3, from_px=3 * sigma_px)
    return fit, still_T, slow_px


def _freed(flow: Flow, fit: Fit, still_T: np.ndarray, beside_T: np.ndarray, sigma_px: float) -> Fit:
    held = window_sum(beside_T, LIFE) < 0.5
    return bundle.adjust(flow, fit.steps, still_T, sigma_px, rounds=5, from_px=4 * sigma_px, held_T=held)


def _image_motion_px(flow: Flow, fit: Fit) -> np.ndarray:
    return flow.medians(fit.steps.nearness[flow.track]) * np.linalg.norm(fit.steps.shift, axis=1) * flow.focal[0]


def _errors(flow: Flow, fit: Fit, still_T: np.ndarray, sigma_px: float) -> np.ndarray:
    """Length of each shift in its own standard errors."""
    covariance_T33 = bundle.covariances(flow, fit, still_T, sigma_px)[:, 3:, 3:]
    variance = np.trace(covariance_T33, axis1=1, axis2=2)
    error = np.where(variance > 0, np.sqrt(np.maximum(variance, 1e-24)), np.inf)     # not positive: ill-determined
    return np.linalg.norm(fit.steps.shift, axis=1) / error


def _joined(found_T: np.ndarray, moving_T: np.ndarray) -> np.ndarray:
    """The found steps that join on to moving ones."""
    reached = moving_T.copy()
    for order in (range(1, len(reached)), range(len(reached) - 2, -1, -1)):
        step = order.step
        for t in order:
            reached[t] |= found_T[t] and reached[t - step]
    return reached & found_T
