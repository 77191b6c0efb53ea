"""One focal length for many turns: joint robust least squares with three own numbers a turn.

Legend: K turns, N tracks (padded), M residuals of a turn, 3 own numbers: a rotation vector (pinhole), or yaw, vertical
shift and horizon row over the focal length (yshear, where pitch only moves the picture). Pixels count from the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from worldloom.annotators.camera.turns import Turn
from worldloom.dataengine.geometry import poses as P

MODELS = ("pinhole", "yshear")
NOISE_PX = 0.35                     # of a good track across a turn
_GOOD_PX = 0.7
_GOOD_SHARE = (0.45, 0.75)          # a turn with fewer good tracks says nothing, one with more counts in full
_START_HFOV_DEG = (45.0, 70.0, 105.0)
_ROUNDS = 24
_WIDEST_PX = 12.0                   # residuals that count in the first round
_HORIZON_SHARE = 0.2                # of the focal length: how far off the middle a horizon is expected
_DELTA = 1e-5


@dataclass(frozen=True)
class Fit:
    """A focal length in pixels, and what each turn says about it."""
    model: str
    f_px: float
    spread: float                   # relative standard error from how far the turns disagree; inf when untold
    cost_K: np.ndarray              # mean truncated square of the residuals, square pixels
    weight_K: np.ndarray            # 0 to 1: how far a rotation explains the turn
    own_K3: np.ndarray

    @property
    def support(self) -> float:
        """Number of turns that a rotation explains."""
        return float(self.weight_K.sum())


def fit(turns: Sequence[Turn], width_px: int, model: str, f_px: float | None = None) -> Fit:
    """The best fit over several starts; a given `f_px` is held."""
    tracks = _Tracks(turns, model)
    starts = [width_px / 2 / math.tan(math.radians(hfov_deg) / 2) for hfov_deg in _START_HFOV_DEG]
    fits = [tracks.solve(f_px, is_free=False)] if f_px else [tracks.solve(start, is_free=True) for start in starts]
    return min(fits, key=lambda found: float(np.mean(found.cost_K)))


class _Tracks:
    """Padded tracks of all turns under one model."""

    def __init__(self, turns: Sequence[Turn], model: str) -> None:
        most, count = max(len(turn.p_N2) for turn in turns), len(turns)
        self.model = model
        self.p_KN2, self.q_KN2 = np.zeros((count, most, 2)), np.zeros((count, most, 2))
        self.there_KN = np.zeros((count, most))
        for k, turn in enumerate(turns):
            size = len(turn.p_N2)
            self.p_KN2[k, :size], self.q_KN2[k, :size], self.there_KN[k, :size] = turn.p_N2, turn.q_N2, 1.0

    def solve(self, f_px: float, *, is_free: bool) -> Fit:
        log_f, own_K3, scale = math.log(f_px), self._start(f_px), _WIDEST_PX
        for _ in range(_ROUNDS):
            step_K3, drift_K3, score_K, info_K = self._normal(own_K3, log_f, scale)
            total = float(info_K.sum())
            move = float(np.clip(score_K.sum() / max(total, 1e-9), -0.2, 0.2)) if is_free else 0.0
            own_K3 = own_K3 + np.clip(step_K3 - drift_K3 * move, -0.3, 0.3)
            log_f = float(np.clip(log_f + move, math.log(f_px) - 1.5, math.log(f_px) + 1.5))
            scale = max(NOISE_PX, 0.7 * scale)
        square = np.sum(self._error(own_K3, log_f) ** 2, -1)
        spread = math.sqrt(float(np.sum(score_K**2)) + total * NOISE_PX**2) / total if total > 1e-6 else math.inf
        cost_K = (np.minimum(square, 1.0) * self.there_KN).sum(1) / self.there_KN.sum(1)
        return Fit(self.model, math.exp(log_f), spread, cost_K, self._trust(square, _GOOD_PX), own_K3)

    def _normal(self, own_K3: np.ndarray, log_f: float, scale: float,
                ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Gauss-Newton: own steps, their change for a step in log f, and each turn's score and information on log f."""
        error = self._error(own_K3, log_f)
        square = np.sum(error**2, -1)
        weight = self.there_KN / (1 + square / scale**2) ** 2 * self._trust(square, max(2 * scale, _GOOD_PX))[:, None]
        jac_K4M, weight_KM = self._jacobian(own_K3, log_f), np.repeat(weight, 2, 1)
        error_KM = error.reshape(len(own_K3), -1)
        normal = np.einsum("kim,km,kjm->kij", jac_K4M, weight_KM, jac_K4M)
        right = np.einsum("kim,km,km->ki", jac_K4M, weight_KM, error_KM)
        own = normal[:, :3, :3] + 1e-6 * np.eye(3) * (1 + np.trace(normal[:, :3, :3], axis1=1, axis2=2))[:, None, None]
        if self.model == "yshear":
            pull = (NOISE_PX / _HORIZON_SHARE) ** 2
            own[:, 2, 2] += pull
            right[:, 2] -= pull * own_K3[:, 2]
        solved = np.linalg.solve(own, np.stack([normal[:, :3, 3], right[:, :3]], -1))
        info_K = normal[:, 3, 3] - np.sum(normal[:, 3, :3] * solved[..., 0], 1)
        score_K = right[:, 3] - np.sum(normal[:, 3, :3] * solved[..., 1], 1)
        return solved[..., 1], solved[..., 0], score_K, info_K

    def _jacobian(self, own_K3: np.ndarray, log_f: float) -> np.ndarray:
        here = self._predict(own_K3, log_f)
        moved = [self._predict(own_K3 + _DELTA * np.eye(3)[i], log_f) for i in range(3)]
        moved.append(self._predict(own_K3, log_f + _DELTA))
        return np.stack([(there - here) / _DELTA for there in moved], 1).reshape(len(own_K3), 4, -1)

    def _error(self, own_K3: np.ndarray, log_f: float) -> np.ndarray:
        return self.q_KN2 - self._predict(own_K3, log_f)

    def _predict(self, own_K3: np.ndarray, log_f: float) -> np.ndarray:
        """Where each track of the first picture lies in the second, (K, N, 2) pixels."""
        f_px = math.exp(log_f)
        if self.model == "pinhole":
            rays = np.concatenate([self.p_KN2 / f_px, np.ones_like(self.p_KN2[..., :1])], -1)
            turned = rays @ np.swapaxes(P.so3_exp(own_K3), 1, 2)
            return f_px * turned[..., :2] / np.maximum(turned[..., 2:], 0.05)
        yaw, shift, horizon = (own_K3[:, i, None] for i in range(3))
        x, y = self.p_KN2[..., 0] / f_px, self.p_KN2[..., 1] / f_px - horizon
        depth = np.maximum(np.cos(yaw) - np.sin(yaw) * x, 0.05)
        return f_px * np.stack([(np.cos(yaw) * x + np.sin(yaw)) / depth, y / depth + horizon + shift], -1)

    def _start(self, f_px: float) -> np.ndarray:
        moved = np.where(self.there_KN[..., None] > 0, self.q_KN2 - self.p_KN2, np.nan)
        dx, dy = np.nanmedian(moved, 1).T / f_px
        return np.stack([-dy, dx, 0 * dx] if self.model == "pinhole" else [dx, dy, 0 * dx], 1)

    def _trust(self, square_KN: np.ndarray, near_px: float) -> np.ndarray:
        """0 for turns of which a rotation explains few tracks, 1 where it explains most."""
        good_K = ((square_KN < near_px**2) * self.there_KN).sum(1) / self.there_KN.sum(1)
        low, high = _GOOD_SHARE
        return np.clip((good_K - low) / (high - low), 0.0, 1.0)
