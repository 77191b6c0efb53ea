"""All steps of a clip at once, from tracks that share one depth each.

A step maps a ray `a` of frame t with inverse depth rho to R a + rho t in frame t + 1. In sheared pictures (yshear) the
horizon of each frame is solved for in place of a turn about x: it also decides how all later frames are read.
Noise of a followed point adds up from frame to frame, so each step of a track is one observation with its own noise,
and what joins the steps of a track is its depth. The depths are eliminated (Schur complement); what is left is coupled
over a track's life only.
Unit of length: the median depth of the scene, held by a weak prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from worldloom.annotators.camera.blocks import Blocks
from worldloom.annotators.camera.tracks import LIFE, Tracks
from worldloom.dataengine.geometry import poses as P

_TURN_CHANGE, _SPEED_CHANGE = math.radians(2.0), 0.02       # from step to step: weak, but bridges what is not seen
_TURN, _ROLL, _SPEED, _NEARNESS = math.radians(20.0), math.radians(0.5), 0.3, 2.0
_HORIZON, _SINK = 0.5, 0.05                                 # of a frame, from frame to frame; in units of fy: weak too
_FIXED = 1e10
_NEAREST = 30.0                                             # largest inverse depth
_MIN_AHEAD = 0.05


class Flow:
    """Observations of tracks sorted by step: image-plane places a (M, 2) and b (M, 2) one frame later.

    `kept_N` leaves only some tracks; the others keep their number and have no observation.
    """

    def __init__(self, tracks: Tracks, lens, kept_N: np.ndarray | None = None) -> None:
        seen_NL = tracks.seen_NL if kept_N is None else tracks.seen_NL & kept_N[:, None]
        track, age = np.nonzero(seen_NL)
        order = np.argsort(tracks.start_N[track] + age, kind="stable")
        self.track, self.age = track[order], age[order]
        self.step = tracks.start_N[self.track] + self.age
        self.tracks, self.steps, self.start_N = len(tracks.start_N), tracks.num_frames - 1, tracks.start_N
        self.is_shear, self.focal = lens.model == "yshear", np.array([lens.fx, lens.fy])
        self.centre = np.array([lens.cx, lens.cy])
        self.a = (tracks.places_NK2[self.track, self.age] - self.centre) / self.focal
        self.b = (tracks.places_NK2[self.track, self.age + 1] - self.centre) / self.focal
        self.edge = np.searchsorted(self.step, np.arange(self.steps + 1))
        self.count = np.diff(self.edge)
        by_age = np.argsort(self.age, kind="stable")
        self.by_age = np.split(by_age, np.searchsorted(self.age[by_age], np.arange(1, LIFE)))

    def medians(self, values_M: np.ndarray) -> np.ndarray:
        """Median of each step's observations (T,); 0 where there is none."""
        return np.array([np.median(values_M[i:j]) if j > i else 0.0
                         for i, j in zip(self.edge[:-1], self.edge[1:], strict=True)])

    def sums(self, values_MK: np.ndarray) -> np.ndarray:
        """Sum over each step's observations."""
        if not len(values_MK):
            return np.zeros((self.steps, *values_MK.shape[1:]))
        total = np.add.reduceat(values_MK, np.minimum(self.edge[:-1], len(values_MK) - 1), axis=0)
        total[self.count == 0] = 0
        return total

    def touched(self, steps_T: np.ndarray) -> np.ndarray:
        """Tracks (N,) observed in any of the chosen steps."""
        hit = np.zeros(self.tracks, bool)
        hit[self.track[steps_T[self.step]]] = True
        return hit


@dataclass
class Steps:
    """What is solved for: turns (T, 3, 3), shifts (T, 3), horizon shifts in fy (T,; yshear), inverse depths (N,)."""
    turn: np.ndarray
    shift: np.ndarray
    sink: np.ndarray
    nearness: np.ndarray

    @classmethod
    def at_rest(cls, flow: Flow) -> Steps:
        return cls(np.tile(np.eye(3), (flow.steps, 1, 1)), np.zeros((flow.steps, 3)), np.zeros(flow.steps),
                   np.ones(flow.tracks))

    def copy(self) -> Steps:
        return Steps(self.turn.copy(), self.shift.copy(), self.sink.copy(), self.nearness.copy())

    def horizon(self) -> np.ndarray:
        """Horizon of each frame (T + 1,) below that of the first, in units of fy."""
        return np.concatenate([[0.0], np.cumsum(self.sink)])

    def rotvec(self, is_shear: bool) -> np.ndarray:
        """(T, 3) radians of X2 = R X1; for yshear x is the horizon's shift."""
        vector = P.so3_log(self.turn)
        return np.column_stack([self.sink, vector[:, 1:]]) if is_shear else vector

    def turned(self, change_T3: np.ndarray, is_shear: bool) -> None:
        """Apply small turns in place."""
        change_T3 = np.clip(change_T3, -0.5, 0.5)
        if is_shear:
            self.sink = self.sink + change_T3[:, 0]
            change_T3 = change_T3 * (0.0, 1.0, 0.0)
        self.turn = P.so3_exp(change_T3) @ self.turn


@dataclass
class Fit:
    """Steps with their residuals in pixels (M, 2), and what the places seen change by.

    By turn and shift of the step (M, 2, 6), where the first is the horizon of the frame after it for yshear; by the
    horizon of the frame before (M,; y only); by depth (M, 2).
    """
    steps: Steps
    error: np.ndarray
    by_step: np.ndarray
    by_horizon: np.ndarray | None
    by_nearness: np.ndarray

    @classmethod
    def of(cls, flow: Flow, steps: Steps) -> Fit:
        horizon = steps.horizon()
        a = np.column_stack([flow.a, np.ones(len(flow.a))])
        if flow.is_shear:
            a[:, 1] -= horizon[flow.step]
        ahead = np.einsum("mij,mj->mi", steps.turn[flow.step], a)
        shift = steps.shift[flow.step]
        near, growth = _nearness_along(flow, steps, ahead[:, 2], shift[:, 2])
        point = ahead + near[:, None] * shift
        depth = np.maximum(point[:, 2], _MIN_AHEAD)
        image = point[:, :2] / depth[:, None]
        shown = image + np.column_stack([np.zeros(len(a)), horizon[flow.step + 1]]) if flow.is_shear else image
        by_step, by_near = _derivatives(flow, ahead, image, near, growth, shift, 1 / depth)
        by_horizon = -flow.focal[1] / depth if flow.is_shear else None
        return cls(steps, (flow.b - shown) * flow.focal, by_step, by_horizon, by_near)


def _nearness_along(
    flow: Flow, steps: Steps, ahead_z: np.ndarray, shift_z: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Inverse depth at each observation, carried along the track from its first frame, and its derivative by that."""
    near, growth = np.empty(len(flow.a)), np.empty(len(flow.a))
    now, slope = steps.nearness.copy(), np.ones(flow.tracks)
    for rows in flow.by_age:
        track = flow.track[rows]
        near[rows], growth[rows] = now[track], slope[track]
        depth = np.maximum(ahead_z[rows] + near[rows] * shift_z[rows], _MIN_AHEAD)
        now[track] = near[rows] / depth
        slope[track] = growth[rows] * ahead_z[rows] / depth**2
    return near, growth


def _derivatives(flow: Flow, ahead: np.ndarray, image: np.ndarray, near: np.ndarray, growth: np.ndarray,
                 shift: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (u, v), (x, y, z) = image.T, ahead.T
    zero = np.zeros_like(u)
    by_u = (zero - u * y, z + u * x, -y, near, zero, -u * near)
    by_v = (-z - v * y, v * x, x, zero, near, -v * near)
    by_step = np.stack([np.stack(by_u, 1), np.stack(by_v, 1)], 1) * (scale[:, None] * flow.focal)[:, :, None]
    if flow.is_shear:
        by_step[:, :, (0, 2)] = 0
        by_step[:, 1, 0] = flow.focal[1]
    by_near = (shift[:, :2] - image * shift[:, 2:]) * (scale * growth)[:, None] * flow.focal
    return by_step, by_near


def fit_turns(flow: Flow, rounds: int = 7, floor_px: float = 0.15) -> Fit:
    """Steps of a camera that only turns, robustly: where most of the scene is far, they are near the truth."""
    fit, scale_T = Fit.of(flow, Steps.at_rest(flow)), None
    upper = np.triu_indices(3)
    for _ in range(rounds):
        size = np.hypot(*fit.error.T)
        scale_T = (np.maximum(4 * floor_px, 1.5 * flow.medians(size)) if scale_T is None
                   else np.maximum(floor_px, 0.6 * scale_T))
        jac = fit.by_step[:, :, :3]
        weighted = jac / (1 + (size / scale_T[flow.step])[:, None, None] ** 2) ** 2
        products = [(weighted[:, :, i] * jac[:, :, j]).sum(1) for i, j in zip(*upper, strict=True)]
        total = flow.sums(np.column_stack([*products, *(weighted * fit.error[:, :, None]).sum(1).T]))
        total[flow.count < 6] = 0
        normal = np.zeros((flow.steps, 3, 3))
        normal[:, upper[0], upper[1]] = normal[:, upper[1], upper[0]] = total[:, :6]
        steps = fit.steps.copy()
        steps.turned(np.linalg.solve(normal + 1e-6 * np.eye(3), total[:, 6:, None])[..., 0], flow.is_shear)
        fit = Fit.of(flow, steps)
    return fit


def set_nearness(flow: Flow, steps: Steps, which_N: np.ndarray | None = None) -> None:
    """Inverse depths, in place, that fit the steps best (linear, drawn weakly to 1), of the chosen tracks or all."""
    horizon = steps.horizon() if flow.is_shear else np.zeros(flow.steps + 1)
    a = np.column_stack([flow.a, np.ones(len(flow.a))])
    a[:, 1] -= horizon[flow.step]
    b = flow.b - np.column_stack([np.zeros(len(a)), horizon[flow.step + 1]])
    ahead, shift = np.einsum("mij,mj->mi", steps.turn[flow.step], a), steps.shift[flow.step]
    moves, seen = b * shift[:, 2:] - shift[:, :2], ahead[:, :2] - b * ahead[:, 2:]
    weak = (0.3 / flow.focal[0]) ** 2
    found = ((np.bincount(flow.track, (moves * seen).sum(1), flow.tracks) + weak)
             / (np.bincount(flow.track, (moves * moves).sum(1), flow.tracks) + weak))
    chosen = np.ones(flow.tracks, bool) if which_N is None else which_N
    steps.nearness = np.where(chosen, np.clip(found, 0.02, 10.0), steps.nearness)


def noise_px(error_M2: np.ndarray, least: float = 0.03) -> float:
    """Robust standard deviation of one coordinate."""
    return max(least, 1.4826 * float(np.median(np.abs(error_M2)))) if len(error_M2) else least


def robust_cost(error_M2: np.ndarray, sigma_px: float, scale_px: float | None = None) -> np.ndarray:
    """Cost (M,) of each observation: half its squared residual in sigmas, with a ceiling (Geman-McClure)."""
    scale = 3 * sigma_px if scale_px is None else scale_px
    square = (error_M2**2).sum(1) / scale**2
    return 0.5 * (scale / sigma_px) ** 2 * square / (1 + square)


def adjust(flow: Flow, steps: Steps, still_T: np.ndarray, sigma_px: float, *, rounds: int, from_px: float,
           held_T: np.ndarray | None = None) -> Fit:
    """The steps and depths that fit best, from a start near enough (Levenberg-Marquardt, scale falling to 3 sigma).

    Still steps only turn; held ones stay as they are.
    """
    fit, damping = Fit.of(flow, steps), 1e-2
    for turn in range(rounds):
        scale = max(3 * sigma_px, from_px * 0.7**turn)
        equations = _Equations.of(flow, fit, still_T, sigma_px, scale, held_T)
        before = float(robust_cost(fit.error, sigma_px, scale).sum())
        for _ in range(3):
            tried = Fit.of(flow, equations.stepped(flow, fit.steps, damping))
            after = float(robust_cost(tried.error, sigma_px, scale).sum())
            if after < before * 1.0001 + 1e-9:
                fit, damping = tried, max(damping / 5, 1e-6)
                break
            damping *= 20
        if after >= before * 0.999 and turn > 2:
            break
    return fit


def covariances(flow: Flow, fit: Fit, still_T: np.ndarray, sigma_px: float) -> np.ndarray:
    """(T, 6, 6) of turn (radians; for yshear the horizon's step) and shift of each step, for noise of sigma_px."""
    own_T66, next_T66 = _Equations.of(flow, fit, still_T, sigma_px, 3 * sigma_px, None).blocks.covariances()
    if flow.is_shear:
        horizon = own_T66[:, 0, 0].copy()
        own_T66[:, 0, :] = own_T66[:, :, 0] = 0
        own_T66[:, 0, 0] = horizon
        own_T66[1:, 0, 0] += horizon[:-1] - 2 * next_T66[:, 0, 0]
    return own_T66


@dataclass
class _Equations:
    """Normal equations with the depths eliminated, and what gives the depths back."""
    blocks: Blocks
    coupling_N: np.ndarray            # (N, steps * 6): of the step before a track where horizons matter, and its own
    curvature_N: np.ndarray
    pull_N: np.ndarray
    still_T: np.ndarray

    @classmethod
    def of(cls, flow: Flow, fit: Fit, still_T: np.ndarray, sigma_px: float, scale_px: float,
           held_T: np.ndarray | None) -> _Equations:
        root = 1 / (1 + (fit.error**2).sum(1) / scale_px**2) / sigma_px
        error, jac = fit.error * root[:, None], fit.by_step * root[:, None, None]
        jac_near, weak = fit.by_nearness * root[:, None], _NEARNESS**-2
        curvature = np.bincount(flow.track, (jac_near**2).sum(1), flow.tracks) + weak
        pull = np.bincount(flow.track, (jac_near * error).sum(1), flow.tracks) + weak * (1 - fit.steps.nearness)
        lead = int(flow.is_shear)
        coupling = np.zeros((flow.tracks, lead + LIFE, 6))
        coupling[flow.track, flow.age + lead] = jac[:, 0] * jac_near[:, :1] + jac[:, 1] * jac_near[:, 1:]
        if fit.by_horizon is not None:
            before = np.where(flow.step > 0, fit.by_horizon * root, 0.0)     # the first frame's horizon is given
            coupling[flow.track, flow.age, 0] += before * jac_near[:, 1]
            jac = np.concatenate([np.zeros_like(jac), jac], 2)
            jac[:, 1, 0] = before
        blocks = Blocks(flow.steps, LIFE)
        for t in np.flatnonzero(flow.count):
            rows = slice(flow.edge[t], flow.edge[t + 1])
            own = jac[rows].reshape(-1, jac.shape[2])
            blocks.add(t - lead, own.T @ own, own.T @ error[rows].ravel())
        coupling = coupling.reshape(flow.tracks, 6 * (lead + LIFE))
        _eliminate(flow, lead, blocks, coupling, curvature, pull)
        _add_priors(blocks, fit.steps, still_T, held_T, flow.is_shear)
        return cls(blocks, coupling, curvature, pull, still_T)

    def stepped(self, flow: Flow, steps: Steps, damping: float) -> Steps:
        change_T6 = self.blocks.solve(damping)
        lead = int(flow.is_shear)
        padded = np.concatenate([np.zeros((lead, 6)), change_T6, np.zeros((LIFE, 6))])
        along = padded[flow.start_N[:, None] + np.arange(lead + LIFE)].reshape(flow.tracks, 6 * (lead + LIFE))
        change_N = (self.pull_N - np.einsum("nk,nk->n", self.coupling_N, along)) / self.curvature_N
        new = steps.copy()
        if flow.is_shear:
            change_T6[:, 0] = np.diff(change_T6[:, 0], prepend=0.0)
        new.turned(change_T6[:, :3], flow.is_shear)
        new.shift = np.where(self.still_T[:, None], 0.0, new.shift + change_T6[:, 3:])
        new.nearness = np.clip(new.nearness + change_N, 0.0, _NEAREST)
        return new


def _eliminate(flow: Flow, lead: int, blocks: Blocks, coupling_N: np.ndarray, curvature_N: np.ndarray,
               pull_N: np.ndarray) -> None:
    root = 1 / np.sqrt(curvature_N)
    scaled, pull = coupling_N * root[:, None], pull_N * root
    begin = np.searchsorted(flow.start_N, np.arange(flow.steps + 1))
    for t in np.flatnonzero(np.diff(begin)):
        rows = scaled[begin[t]:begin[t + 1]]
        blocks.add(t - lead, -(rows.T @ rows), -(rows.T @ pull[begin[t]:begin[t + 1]]))


def _add_priors(blocks: Blocks, steps: Steps, still_T: np.ndarray, held_T: np.ndarray | None, is_shear: bool) -> None:
    now = np.concatenate([steps.rotvec(is_shear), steps.shift], 1)
    stiff = np.tile([_TURN**-2, _TURN**-2, _FIXED if is_shear else _ROLL**-2] + [_SPEED**-2] * 3, (len(now), 1))
    smooth = np.tile([_TURN_CHANGE**-2] * 3 + [_SPEED_CHANGE**-2] * 3, (len(now), 1))
    if is_shear:
        now[:, 0], stiff[:, 0], smooth[:, 0] = steps.horizon()[1:], _HORIZON**-2, _SINK**-2
    stiff[still_T, 3:] = _FIXED
    blocks.add_diagonal(stiff, -stiff * now)
    smooth[:-1][still_T[:-1] != still_T[1:], 3:] = 0          # a camera may start and stop at once
    blocks.add_differences(smooth, now)
    if held_T is not None:
        blocks.add_diagonal(np.where(held_T[:, None], _FIXED, 0.0) * np.ones(6), np.zeros_like(now))
