"""How far to trust each step of an adjusted clip: standard errors of its turns and of its direction of travel.

Three things make turns wrong. Noise of the tracks, which the adjustment knows, though neighbouring points err alike and
where many tracks disagree those that agree may be wrong together. Roughness that no camera has, such as engines that
draw whole steps of angle. And other solutions that explain the tracks almost as well. The constants are fitted on 200
recordings of both recorders: there 69 to 77 percent of the yaw errors lie within one error and 90 to 95 within two.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from worldloom.annotators.camera.bundle import Fit, Flow
from worldloom.annotators.camera.starts import MIN_TRACKS
from worldloom.dataengine.geometry.smooth import window_sum

_NOISE, _DISAGREEMENT, _SURE, _MOST_DISAGREEMENT = 0.97, 0.61, 0.864, 1.15
_USUAL_DEG, _SHARED = 0.008, 0.2      # the more noise, the more of it neighbours share
_ALONE = 2.6                          # of steps that only turn: with fewer unknowns what is shared weighs more
_ROUGH, _MOST_ROUGH_DEG, _ROUGH_OVER_NOISE = 0.58, 0.3, 4.2     # a camera that is moved roughly is not measured so
_RIVAL = 0.23
_TRAVEL = 2.6


def turn_error_deg(angle_deg_T: np.ndarray, variance_T: np.ndarray, confidence_T: np.ndarray,
                   rival_deg_T: np.ndarray, only_turns_T: np.ndarray) -> np.ndarray:
    """Standard error (T,) in degrees of the steps of an angle.

    Args:
        variance_T: the adjustment's, in square radians.
        confidence_T: share of the tracks that the fit explains.
        rival_deg_T: how far the steps of nearly as good solutions are off (`starts.repaired`).
        only_turns_T: steps without travel.
    """
    around_T = window_sum(confidence_T, 4) / window_sum(np.ones_like(confidence_T), 4)
    growth_T = np.exp(np.minimum(_DISAGREEMENT * (_SURE - around_T), _MOST_DISAGREEMENT))
    noise_T = np.degrees(np.sqrt(np.maximum(variance_T, 0)))
    own_T = _NOISE * noise_T * (noise_T / _USUAL_DEG) ** _SHARED * growth_T * np.where(only_turns_T, _ALONE, 1.0)
    rough_T = np.minimum(_ROUGH * np.minimum(_roughness(angle_deg_T), _MOST_ROUGH_DEG), _ROUGH_OVER_NOISE * own_T)
    rival_T = _RIVAL * sliding_window_view(np.pad(rival_deg_T, 2), 5).max(1)
    return np.sqrt(own_T**2 + rough_T**2 + rival_T**2)


def unseen_error_deg(flow: Flow, variance_T: np.ndarray) -> np.ndarray:
    """Degrees for steps with hardly a track: at least 2; 180 where nothing is seen before or after them."""
    seen = np.flatnonzero(flow.count >= MIN_TRACKS)
    inside = np.zeros(flow.steps, bool)
    if len(seen):
        inside[seen[0]:seen[-1] + 1] = True
    return np.where(inside, np.maximum(2.0, np.degrees(np.sqrt(np.maximum(variance_T, 0)))), 180.0)


def travel_error_deg(shift_T3: np.ndarray, covariance_T66: np.ndarray, noise_T: np.ndarray) -> np.ndarray:
    """Degrees by which the direction of travel may be off, NaN where there is none; noise over the clip's own."""
    length = np.linalg.norm(shift_T3, axis=1)
    unit = shift_T3 / np.maximum(length, 1e-12)[:, None]
    across = np.eye(3) - unit[:, :, None] * unit[:, None, :]
    variance = np.einsum("tij,tjk,tki->t", across, covariance_T66[:, 3:, 3:], across) / 2
    angle = _TRAVEL * np.sqrt(np.maximum(variance, 0)) * noise_T / np.maximum(length, 1e-12)
    return np.where(length > 1e-9, np.degrees(np.minimum(angle, math.pi / 2)), np.nan)


def noise_of_steps(flow: Flow, fit: Fit, sigma: float) -> np.ndarray:
    """Noise of each step's tracks in pixels, from the inliers of the steps around it; at least half the clip's."""
    square = (fit.error**2).sum(1)
    near = square < (3 * sigma) ** 2
    total, count = (window_sum(np.bincount(flow.step, weight, flow.steps), 2) for weight in (square * near, near))
    return np.maximum(np.sqrt(total / np.maximum(2 * count, 1)), 0.5 * sigma)


def _roughness(angle_deg_T: np.ndarray) -> np.ndarray:
    """Noise (T,) of steps that else follow a parabola, from third differences within 6 steps."""
    if len(angle_deg_T) < 5:
        return np.zeros(len(angle_deg_T))
    third = np.pad(np.abs(np.diff(angle_deg_T, 3)), (1, 2), mode="edge") / math.sqrt(20)
    windows = sliding_window_view(np.pad(third, 6, constant_values=np.nan), 13)
    return 1.4826 * np.nanmedian(windows, axis=1)
