"""Turns of a camera as yaw and pitch steps about the vertical, and whether it rolls.

The cameras of games never roll, and their roll is held at 0: it would only drift. A camera held by hand does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from worldloom.annotators.camera.bundle import Flow, Steps

_MAX_TILT_DEG = 45.0                  # of the first frame
_ROLL_DEG, _ROLL_SHARE = 0.07, 0.05   # median roll of the good steps that no error explains: over that and yaw's share
_LEAST_GOOD = 0.3


@dataclass(frozen=True)
class Upright:
    """Elevation of frame 0 in radians, steps (T,) in degrees, and the vertical (T, 3) in each step's first camera."""
    start: float
    yaw_deg: np.ndarray
    pitch_deg: np.ndarray
    vertical_T3: np.ndarray
    rolls: bool = False


def upright(flow: Flow, steps: Steps, poor_T: np.ndarray) -> Upright:
    """The angles of the steps of a clip.

    Pitch of poorly tracked steps is left out of the vertical: one wrong step would tilt all that follow.
    """
    turn_T3 = -steps.rotvec(flow.is_shear)
    if flow.is_shear:
        elevation = np.arctan(_between_good(steps.horizon(), poor_T))
        level_T3 = np.tile([0.0, 1.0, 0.0], (flow.steps, 1))
        return Upright(0.0, np.degrees(turn_T3[:, 1]), np.degrees(np.diff(elevation)), level_T3)
    rise_T = np.where(poor_T, 0.0, turn_T3[:, 0])
    risen = np.cumsum(rise_T) - rise_T / 2
    start, roll_T = _start_elevation(turn_T3, risen)
    elevation = np.clip(start + risen, -1.4, 1.4)
    vertical_T3 = np.stack([np.zeros(flow.steps), np.cos(elevation), -np.sin(elevation)], 1)
    yaw_deg = np.degrees((turn_T3 * vertical_T3).sum(1))
    rolls = _rolls(np.degrees(roll_T), yaw_deg, ~poor_T)
    return Upright(start, yaw_deg, np.degrees(turn_T3[:, 0]), vertical_T3, rolls)


def _rolls(roll_deg_T: np.ndarray, yaw_deg_T: np.ndarray, good_T: np.ndarray) -> bool:
    if good_T.mean() < _LEAST_GOOD:
        return False
    roll, yaw = (float(np.median(np.abs(angle_T[good_T]))) for angle_T in (roll_deg_T, yaw_deg_T))
    return roll > _ROLL_DEG + _ROLL_SHARE * yaw


def _between_good(horizon: np.ndarray, poor_T: np.ndarray) -> np.ndarray:
    """The horizon (T + 1,), interpolated over poorly tracked steps: the frames on both sides show it well."""
    is_inside = np.concatenate([[False], poor_T]) & np.concatenate([poor_T, [True]])
    good = np.flatnonzero(~is_inside)
    return np.interp(np.arange(len(horizon)), good, horizon[good]) if len(good) else horizon


def _start_elevation(turn_T3: np.ndarray, risen_T: np.ndarray) -> tuple[float, np.ndarray]:
    """Elevation of the first frame in radians, and the roll (T,) that it leaves: a tilted camera sees yaw as part roll.

    0 where the clip turns too little to tell, or where what is left is roll after all.
    """
    yaw = turn_T3[:, 1] * np.cos(risen_T) - turn_T3[:, 2] * np.sin(risen_T)
    roll = turn_T3[:, 2] * np.cos(risen_T) + turn_T3[:, 1] * np.sin(risen_T)
    turned = float(yaw @ yaw)
    if turned < math.radians(5.0) ** 2:
        return 0.0, roll
    start = math.atan(-float(yaw @ roll) / turned)
    rest_T = roll * math.cos(start) + yaw * math.sin(start)
    left = float(np.mean(rest_T**2))
    error = math.sqrt(left / turned)
    is_roll = left > max((0.15**2) * turned / len(yaw), math.radians(0.05) ** 2)
    is_told = not is_roll and error <= math.radians(2.0) and abs(start) <= math.radians(_MAX_TILT_DEG)
    return start if is_told else 0.0, rest_T
