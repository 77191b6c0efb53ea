"""The vertical of a track whose world is tilted by an unknown amount, from how people and games hold cameras.

Cameras are seldom rolled, so the vertical is at right angles to all of their right-hand axes; and they look ahead on
average, so it is near the mean of their up vectors. The first says more, but only when the camera turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

UP = np.array([0.0, -1.0, 0.0])     # of the canonical world
UNTRUSTED_DEG = 15.0                # cameras whose up vectors scatter by more do not tell the vertical
_ROLL_DEG, _PITCH_DEG = 1.5, 15.0   # how far from level one camera is expected to be held
_LOW = 0.2                          # confidence of a vertical that rests on one view or on scattered ones
_ROUNDS = 12


@dataclass(frozen=True)
class Gravity:
    """The vertical in the track's own world. Below a confidence of about 0.2 it is no better than a guess."""
    up_3: np.ndarray            # unit vector
    source: str                 # "estimated"
    confidence: float           # 0 to 1
    dispersion_deg: float       # robust spread of the cameras' up vectors about `up_3`


def estimate_up(world_from_cam_T44: np.ndarray) -> Gravity:
    """Robust vertical of a camera-to-world track (T, 4, 4).

    Raises:
        DataError: no pose, or poses that are not finite.
    """
    poses = np.asarray(world_from_cam_T44, float)
    if not len(poses) or poses.shape[1:] != (4, 4) or not np.isfinite(poses).all():
        raise DataError(f"gravity of poses of shape {list(poses.shape)}; wanted (T, 4, 4), T at least 1, all finite")
    right_T3, up_T3 = poses[:, :3, 0], -poses[:, :3, 1]
    up_3 = _vertical(right_T3, up_T3)
    dispersion_deg = 1.4826 * float(np.median(_angle_deg(up_T3, up_3)))
    return Gravity(up_3=up_3, source="estimated", confidence=_confidence(poses, up_3, dispersion_deg),
                   dispersion_deg=dispersion_deg)


def align(world_from_cam_T44: np.ndarray, gravity: Gravity) -> np.ndarray:
    """The track in a world whose y axis points down: one turn of the whole world, so relative motion stays."""
    poses = np.asarray(world_from_cam_T44, float)
    turn_33 = _shortest_turn(gravity.up_3, UP)
    return P.compose(turn_33 @ poses[:, :3, :3], poses[:, :3, 3] @ turn_33.T)


def _vertical(right_T3: np.ndarray, up_T3: np.ndarray) -> np.ndarray:
    """Least squares of roll and pitch, each over its expected size, with weights that fall with the residual."""
    up_3 = np.mean(up_T3, 0)
    up_3 = up_3 / np.linalg.norm(up_3) if np.linalg.norm(up_3) > 1e-3 else up_T3[0]
    for _ in range(_ROUNDS):
        roll = np.degrees(np.arcsin(np.clip(right_T3 @ up_3, -1, 1))) / _ROLL_DEG
        pitch = _angle_deg(up_T3, up_3) / _PITCH_DEG
        roll_weight = 1 / (1 + roll**2) / math.radians(_ROLL_DEG) ** 2
        pitch_weight = 1 / (1 + pitch**2) / math.radians(_PITCH_DEG) ** 2
        normal = (right_T3 * roll_weight[:, None]).T @ right_T3 + pitch_weight.sum() * np.eye(3)
        up_3 = np.linalg.solve(normal, pitch_weight @ up_T3)
        up_3 = up_3 / np.linalg.norm(up_3)
    return up_3


def _confidence(poses: np.ndarray, up_3: np.ndarray, dispersion_deg: float) -> float:
    """High when headings differ and up vectors agree; low for one view, however steady, and for scattered ones."""
    if dispersion_deg > UNTRUSTED_DEG:
        return _LOW * UNTRUSTED_DEG / dispersion_deg
    level_T3 = poses[:, :3, 0] - (poses[:, :3, 0] @ up_3)[:, None] * up_3
    scatter = np.linalg.eigvalsh(level_T3.T @ level_T3 / len(level_T3))     # 0, smaller and larger spread of headings
    turned = min(1.0, float(scatter[1]) / math.sin(math.radians(20)) ** 2)
    walked = 0.4 if _walks(poses, up_3) else 0.0
    return float(_LOW + (0.95 - _LOW) * max(turned, walked) * (1 - 0.5 * dispersion_deg / UNTRUSTED_DEG))


def _walks(poses: np.ndarray, up_3: np.ndarray) -> bool:
    """Whether the path is long against its height: a camera that goes somewhere is seldom held at a slant."""
    away_T3 = poses[:, :3, 3] - poses[0, :3, 3]
    rise_T = away_T3 @ up_3
    level = float(np.linalg.norm(away_T3 - rise_T[:, None] * up_3, axis=1).max())
    return level > 1e-6 and float(np.abs(rise_T).max()) < 0.5 * level


def _angle_deg(vectors_T3: np.ndarray, axis_3: np.ndarray) -> np.ndarray:
    """Angles between unit vectors; the sine keeps small ones exact."""
    sine = np.linalg.norm(np.cross(vectors_T3, axis_3), axis=1)
    return np.degrees(np.arctan2(sine, vectors_T3 @ axis_3))


def _shortest_turn(source_3: np.ndarray, target_3: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) that takes one unit vector to another about the axis at right angles to both."""
    axis = np.cross(source_3, target_3)
    sine, cosine = float(np.linalg.norm(axis)), float(source_3 @ target_3)
    if sine < 1e-12:
        return np.eye(3) if cosine > 0 else np.diag([1.0, -1.0, -1.0])      # any half turn across the vertical
    return P.so3_exp((axis / sine * math.atan2(sine, cosine))[None])[0]
