"""Movement seen in pixels: a hidden Markov model over the direction of travel, from an estimated camera track.

Hidden states are standing still, moving straight up or down, and travel in one of 48 level directions: plain to see,
too faint to tell from standing (slow, or before a far scene), or in a leap, where height hides it. What is seen of a
step is how much image motion its rotation leaves, and the fitted direction of travel with its standard error. The
posterior, smoothed over the whole clip, gives each axis its value, its confidence, or uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import UNCERTAIN, Camera

ACTIVE, INACTIVE = 0.50, 0.38    # share of the travel along an axis: at least, at most
_BINS = 48
_ANGLE = (np.arange(_BINS) + 0.5) * (2 * np.pi / _BINS)          # from ahead to the right
_STILL, _RISE = 0, 1
_PLAIN, _FAINT, _LEAP = (slice(2 + i * _BINS, 2 + (i + 1) * _BINS) for i in range(3))
_COUNT = 2 + 3 * _BINS
_LEVEL = 0.45                    # share of the fitted travel that must be level to have a direction
_STRAIGHT = 0.15                 # and below which it goes straight up or down
LOOKS_HZ = 12.0                  # neighbouring steps share frames: independent looks at the travel a second
CERTAIN = 0.80                   # posterior share of a value that is called certain
SURE_STAND = 0.58                # confidence below which standing is not certain: what stands may be an overlay
BLIND = 0.1                      # confidence of a step below which nothing was seen
SLOW, SLOW_S = (0.05, 0.15), 0.25    # of the clip's usual speed, if it travels so long: by metres standing or walking
# The figures below were fitted on recordings with other seeds than the bench draws.
_FLOOR_PX, _FLOOR_PX_DEG = 0.04, 0.05         # image motion that a still camera leaves, and more for each degree turned
_FLOOR_SPREAD, _FLAW = 0.5, 0.06              # its log's spread, and how often something else moves or fails
_MOVING_LOG_PX, _MOVING_SPREAD = 0.0, 1.1     # log of the image motion of plain travel, in pixels a frame
_FAINT_LOG_PX, _FAINT_SPREAD = np.log(0.12), 1.0
_SE_TIMES = 2.0                               # directions err more than their standard error says, and by
_LEAST_SPREAD = 0.07                          # radians at least
_SPREAD, _SPREAD_PX = 0.05, 0.04              # radians where no standard error is stated, and more over image motion
_STRAY = 1.05                                 # less the confidence: how often a direction means nothing
_MOVE_S, _STAND_S, _FADE_S, _AIR_S, _VEER_S = 1.0, 1.0, 0.7, 0.4, 0.35     # usual time that a state lasts
_STEEP = {"rise": 3.0, "plain": 0.1, "faint": 0.3, "leap": 2.5}      # chance of a steep direction, over that of any
_FLAT = {"rise": 0.1, "plain": 1.0, "faint": 1.0, "leap": 0.3}       # the same for a level one
_UPRIGHT = {"rise": 6.0, "plain": 0.1, "faint": 0.3, "leap": 4.0}    # and for one straight up or down


@dataclass(frozen=True)
class Movement:
    """Values (-1, 0, +1 or 2) and confidences of both axes, one a frame."""
    longitudinal: np.ndarray
    lateral: np.ndarray
    longitudinal_confidence: np.ndarray
    lateral_confidence: np.ndarray
    stands: np.ndarray                # frames on which the camera stays where it is, level and in height


def judge_seen(camera: Camera, step_T3: np.ndarray, fps: float, lost_T: np.ndarray) -> Movement:
    """Movement of an estimated track; `step_T3` is right, up, forward, and nothing is told on `lost_T` frames."""
    belief_TS, trust = posterior(camera, step_T3, fps), np.asarray(camera.confidence, float)
    lost_T = lost_T | (trust < BLIND) | ((belief_TS[:, _STILL] > 0.5) & (_usual(trust, fps) < SURE_STAND))
    lost_T = lost_T | _is_slow(belief_TS, np.hypot(step_T3[:, 0], step_T3[:, 2]), fps)
    ahead, across = (_decided(share_T3, lost_T) for share_T3 in axis_shares(belief_TS))
    return Movement(ahead[0], across[0], ahead[1], across[1], belief_TS[:, _STILL] >= CERTAIN)


def _is_slow(belief_TS: np.ndarray, level_T: np.ndarray, fps: float) -> np.ndarray:
    """Steps at speeds between standing and moving, as they are where metres are known; here by the clip's own speed."""
    travels = (belief_TS[:, _PLAIN].sum(1) >= CERTAIN) & (level_T > 0)
    if travels.sum() < SLOW_S * fps:
        return np.zeros(len(level_T), bool)
    share_T = level_T / np.median(level_T[travels])
    return (share_T > SLOW[0]) & (share_T < SLOW[1])


def _usual(x_T: np.ndarray, fps: float) -> np.ndarray:
    """Median over half a second around each step."""
    half = max(1, round(0.25 * fps))
    return np.median(sliding_window_view(np.pad(x_T, half, mode="edge"), 2 * half + 1), axis=1)


def _decided(share_T3: np.ndarray, lost_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    confidence = share_T3.max(1)
    value = np.where((confidence >= CERTAIN) & ~lost_T, share_T3.argmax(1) - 1, UNCERTAIN)
    value[0], confidence[0] = 0, 1.0
    return value.astype(np.int8), np.where(lost_T, np.minimum(confidence, 0.4), confidence).astype(np.float32)


def likeliest(share_2T3: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The value of each axis with the largest share, certain or not."""
    longitudinal, lateral = (share_2T3.argmax(2) - 1).astype(np.int8)
    return longitudinal, lateral


def axis_shares(posterior_TS: np.ndarray) -> np.ndarray:
    """Shares (2, T, 3) of -1, 0, +1 along and across; what lies between two cones counts for no value."""
    shares = np.zeros((2, len(posterior_TS), 3))
    for axis, along in enumerate((np.cos(_ANGLE), np.sin(_ANGLE))):
        level = sum(posterior_TS[:, part] for part in (_PLAIN, _FAINT, _LEAP))
        shares[axis, :, 0] = level[:, along <= -ACTIVE].sum(1)
        shares[axis, :, 1] = level[:, np.abs(along) <= INACTIVE + 0.01].sum(1) + posterior_TS[:, :2].sum(1)
        shares[axis, :, 2] = level[:, along >= ACTIVE].sum(1)
    return shares


def posterior(camera: Camera, step_T3: np.ndarray, fps: float) -> np.ndarray:
    """Probability (T, 146) of each state at each step, by forward and backward passes."""
    seen_TS = np.exp(min(1.0, LOOKS_HZ / fps) * _log_evidence(camera, step_T3))
    move_SS = transitions(fps)
    ahead_TS, back_TS = np.zeros_like(seen_TS), np.ones_like(seen_TS)
    ahead_TS[0] = np.repeat([0.45, 0.05, 0.4 / _BINS, 0.07 / _BINS, 0.03 / _BINS], [1, 1, _BINS, _BINS, _BINS])
    for t in range(1, len(seen_TS)):
        ahead_TS[t] = (ahead_TS[t - 1] @ move_SS) * seen_TS[t]
        ahead_TS[t] /= ahead_TS[t].sum()
    for t in range(len(seen_TS) - 2, -1, -1):
        back_TS[t] = move_SS @ (back_TS[t + 1] * seen_TS[t + 1])
        back_TS[t] /= back_TS[t].sum()
    both = ahead_TS * back_TS
    return both / both.sum(1, keepdims=True)


def transitions(fps: float) -> np.ndarray:
    """Chances (S, S) from one frame to the next: states last, directions drift, and a new one can be any."""
    stop, start, fade, land, veer = (1 - np.exp(-1 / (s * fps)) for s in (_MOVE_S, _STAND_S, _FADE_S, _AIR_S, _VEER_S))
    gap = np.abs(_ANGLE[:, None] - _ANGLE[None])
    gap = np.minimum(gap, 2 * np.pi - gap)
    drift = np.exp(-0.5 * (gap / np.radians(60 / np.sqrt(fps))) ** 2)
    drift = (1 - veer) * drift / drift.sum(1, keepdims=True) + veer / _BINS
    table = np.zeros((_COUNT, _COUNT))
    table[_STILL, :2] = 1 - start, 0.1 * start
    table[_STILL, 2:] = np.repeat(np.array([0.68, 0.2, 0.02]) * start / _BINS, _BINS)
    table[_RISE, :2] = 0.5 * land, 1 - land
    table[_RISE, 2:] = np.repeat(np.array([0.3, 0.1, 0.1]) * land / _BINS, _BINS)
    table[_PLAIN, :2] = 0.4 * stop, 0.1 * stop
    table[_PLAIN, 2:] = np.hstack([share * drift for share in (1 - stop, 0.35 * stop, 0.15 * stop)])
    table[_FAINT, :2] = 0.6 * fade, 0.05 * fade
    table[_FAINT, 2:] = np.hstack([share * drift for share in (0.3 * fade, 1 - fade, 0.05 * fade)])
    table[_LEAP, :2] = 0.1 * land, 0.1 * land
    table[_LEAP, 2:] = np.hstack([share * drift for share in (0.7 * land, 0.1 * land, 1 - land)])
    return table


def _log_evidence(camera: Camera, step_T3: np.ndarray) -> np.ndarray:
    """Log-likelihood (T, S) of what was seen of each step."""
    trust = np.clip(np.asarray(camera.confidence, float), 0.0, 1.0)
    still, moving, faint = (x[:, None] for x in _of_size(camera, trust))
    length = np.linalg.norm(step_T3, axis=1)
    share = np.hypot(step_T3[:, 0], step_T3[:, 2]) / np.maximum(length, 1e-12)
    lie = {name: np.where(length > 0, np.log(np.select([share > _LEVEL, share > _STRAIGHT],
                                                       [_FLAT[name], _STEEP[name]], _UPRIGHT[name])), 0.0)[:, None]
           for name in _FLAT}
    way = _of_direction(camera, step_T3, share, trust) * (length > 0)[:, None]
    table = np.hstack([still, moving + lie["rise"], moving + lie["plain"] + way, faint + lie["faint"] + way,
                       moving + lie["leap"] + way])
    table[trust < BLIND] = 0.0
    return table


def _of_direction(camera: Camera, step_T3: np.ndarray, share: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """Log-likelihood (T, 48) of the fitted direction for travel in each level direction, over that of any."""
    spread = np.clip(_direction_spread(camera) / np.maximum(share, 0.1), _LEAST_SPREAD, 1.5)[:, None]
    peak = np.exp((np.cos(np.arctan2(step_T3[:, 0], step_T3[:, 2])[:, None] - _ANGLE[None]) - 1) / spread**2)
    peak *= _BINS / peak.sum(1, keepdims=True)
    stray = np.clip(_STRAY - trust, 0.05, 1.0)[:, None]
    return np.log(stray + (1 - stray) * peak)


def _of_size(camera: Camera, trust: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihoods (T,) of the image motion left by rotation: standing still, moving plainly, moving faintly."""
    rotation_T33 = np.asarray(camera.world_from_cam_T44, float).reshape(-1, 4, 4)[:, :3, :3]
    turn_deg = np.degrees(np.linalg.norm(P.so3_log(np.swapaxes(rotation_T33[:-1], 1, 2) @ rotation_T33[1:]), axis=1))
    floor = np.log(_FLOOR_PX + _FLOOR_PX_DEG * np.concatenate([[0.0], turn_deg]))
    size = np.maximum(np.log(np.maximum(np.nan_to_num(np.asarray(camera.parallax_px, float)), 1e-9)), floor - 0.3)
    moving = np.exp(_normal(size, _MOVING_LOG_PX, _MOVING_SPREAD))
    flaw = np.clip(_FLAW + 0.5 * (0.9 - trust), _FLAW, 0.5)
    still = (1 - flaw) * np.exp(_normal(size, floor, _FLOOR_SPREAD)) + flaw * moving
    faint = _normal(size, np.maximum(_FAINT_LOG_PX, floor), _FAINT_SPREAD)
    return np.log(still), np.log(moving), faint


def _direction_spread(camera: Camera) -> np.ndarray:
    """Radians: the stated standard error of the direction of travel, or what its image motion lets expect."""
    stated = np.radians(np.asarray(camera.travel_se_deg, float))
    expected = _SPREAD + _SPREAD_PX / np.maximum(np.nan_to_num(np.asarray(camera.parallax_px, float)), 1e-3)
    return np.where(np.isfinite(stated), _SE_TIMES * stated, expected)


def _normal(x: np.ndarray, mean: float, spread: float) -> np.ndarray:
    return -0.5 * ((x - mean) / spread) ** 2 - np.log(spread)
