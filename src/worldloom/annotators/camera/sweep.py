"""Turn and direction of travel between two frames by trying many turns of a camera that does not roll.

Five tracks settle a relative pose only where nothing else moves and depths differ. A grid over yaw and pitch has no
such needs: for each turn two tracks give the direction of travel, and what all tracks then leave decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from worldloom.dataengine.geometry import poses as P

_COARSE = np.radians(np.linspace(-8.0, 8.0, 17)), np.radians(np.linspace(-4.0, 4.0, 9))      # yaws, pitches
_FINE = [(np.radians(np.linspace(-1, 1, 5)) * share,) * 2 for share in (0.67, 0.22)]
_TRACKS, _PAIRS, _BEST, _REFINED = 64, 12, 12, 4
_CEILING_PX = 1.5                     # a track that leaves more says nothing
_NEAREST = 20.0                       # inverse depth in units of 1 / |t|

Turn = tuple[np.ndarray, float]
"""Rotation (3, 3), and how far the horizon sinks in units of the focal length (yshear; else 0)."""
Pose = tuple[np.ndarray, float, np.ndarray, float]
"""A turn with the unit direction of travel (3,), and its cost."""


def swept_pose(a_N3: np.ndarray, b_N3: np.ndarray, centres: Sequence[Turn], f_px: float, is_shear: bool,
               ) -> Pose:
    """(R, sink, unit t, cost) with b ~ depth R a + t, from rays (N, 3) of two frames, near one of the centres.

    The cost is the mean squared distance of a track from the nearest place that the pose allows it, in square pixels,
    with a ceiling.
    """
    chosen = np.unique(np.linspace(0, len(a_N3) - 1, _TRACKS).astype(int))
    a, b = a_N3[chosen].astype(np.float32), b_N3[chosen].astype(np.float32)
    best = _best(a, b, [turn for centre in centres for turn in _around(centre, *_COARSE, is_shear)], f_px)
    for grid in _FINE:
        finer = [_best(a, b, _around(found[:2], *grid, is_shear), f_px)[0] for found in best[:_REFINED]]
        best = sorted([*finer, *best[:_REFINED]], key=lambda found: found[3])
    return best[0]


def _around(centre: Turn, yaws: np.ndarray, pitches: np.ndarray, is_shear: bool) -> list[Turn]:
    yaw, pitch = (grid.ravel() for grid in np.meshgrid(yaws, pitches))
    zero = np.zeros_like(yaw)
    turn_K33 = P.so3_exp(np.stack([zero if is_shear else pitch, yaw, zero], 1)) @ centre[0]
    sink_K = centre[1] + (pitch if is_shear else zero)
    return list(zip(turn_K33, sink_K.tolist(), strict=True))


def _best(a: np.ndarray, b: np.ndarray, turns: Sequence[Turn], f_px: float) -> list[Pose]:
    """Poses of the best turns, the best first."""
    turn_K33 = np.stack([turn for turn, _ in turns]).astype(np.float32)
    sink_K = np.array([sink for _, sink in turns], np.float32)
    ahead_KN3 = np.einsum("kij,nj->kni", turn_K33, a)
    seen_KN3 = np.repeat(b[None], len(turns), 0)
    seen_KN3[..., 1] -= sink_K[:, None]
    travel_KP3, cost_KP = _epipolar(ahead_KN3, seen_KN3, f_px)
    found = []
    for k in np.argsort(cost_KP.min(1))[:_BEST]:
        t = travel_KP3[k, cost_KP[k].argmin()]
        costs = [_cost(ahead_KN3[k], seen_KN3[k, :, :2], sign * t, f_px) for sign in (1, -1)]
        t = t if costs[0] <= costs[1] else -t
        found.append((turn_K33[k].astype(float), float(sink_K[k]), t.astype(float), min(costs)))
    return sorted(found, key=lambda pose: pose[3])


def _epipolar(ahead_KN3: np.ndarray, seen_KN3: np.ndarray, f_px: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions (K, P, 3) that pairs of tracks give, and the mean truncated distance from their lines (K, P)."""
    normal_KN3 = np.cross(ahead_KN3, seen_KN3)
    count = normal_KN3.shape[1]
    first = np.arange(_PAIRS) * count // _PAIRS
    second = (first + count // 2 + np.arange(_PAIRS) % 5) % count
    travel_KP3 = np.cross(normal_KN3[:, first], normal_KN3[:, second])
    travel_KP3 /= np.maximum(np.linalg.norm(travel_KP3, axis=2, keepdims=True), 1e-12)
    miss_KPN = travel_KP3 @ normal_KN3.swapaxes(1, 2)
    x, y, z = (ahead_KN3[:, None, :, i] for i in range(3))
    tx, ty, tz = (travel_KP3[:, :, None, i] for i in range(3))
    slope_KPN = (ty * z - tz * y) ** 2 + (tz * x - tx * z) ** 2
    square_KPN = miss_KPN**2 * np.float32(f_px**2) / np.maximum(slope_KPN, 1e-12)
    return travel_KP3, np.minimum(square_KPN, _CEILING_PX**2).mean(2)


def _cost(ahead_N3: np.ndarray, seen_N2: np.ndarray, t: np.ndarray, f_px: float) -> float:
    """Mean truncated squared distance of the tracks from where a point in front of the camera may appear."""
    moves = t[:2] - seen_N2 * t[2]
    rest = seen_N2 * ahead_N3[:, 2:] - ahead_N3[:, :2]
    near = np.clip((moves * rest).sum(1) / np.maximum((moves * moves).sum(1), 1e-12), 0.0, _NEAREST)
    depth = np.maximum(ahead_N3[:, 2] + near * t[2], 0.05)
    place = (ahead_N3[:, :2] + near[:, None] * t[:2]) / depth[:, None]
    return float(np.minimum(((place - seen_N2) ** 2).sum(1) * f_px**2, _CEILING_PX**2).mean())
