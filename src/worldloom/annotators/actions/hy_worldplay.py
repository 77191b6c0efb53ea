"""The 81 action classes of HY-WorldPlay (Tencent, commit da2d0c26): nine translations times nine rotations a latent.

Class = 9 translation + rotation. Translation: 0 none, 1 forward, 2 back, 3 right, 4 left, then both: 5 forward right,
6 forward left, 7 back right, 8 back left. Rotation: 0 none, 1 yaw right, 2 yaw left, 3 pitch up, 4 pitch down, then
5 right up, 6 right down, 7 left up, 8 left down. Other trainers of the same 81 number them otherwise: see `ORDERS`.

From poses, as its own code does: the relative camera-to-world pose of consecutive latents in the axes of the camera
before (OpenCV); a translation counts above 0.01 units in training and 0.0001 in its inference code; an axis is on
where the direction lies within 60 degrees of it; Euler angles xyz of the relative rotation count above 0.05 degrees.
That reads roll and looking down as turns, which our own labels do not: this is a view for its trainer, not a truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

TRAINING_UNITS, INFERENCE_UNITS = 0.01, 0.0001     # least translation of a latent
LEAST_TURN_DEG, CONE_DEG = 0.05, 60.0
STEP_UNITS, STEP_DEG = 0.08, 3.0                   # one latent of its synthetic controls
_TRANSLATION = ("forward", "back", "right", "left")
_ROTATION = ("right", "left", "up", "down")
ORDERS = {
    "hy_worldplay": (_TRANSLATION, _ROTATION),
    "minwm_strings": (("forward", "back", "left", "right"), _ROTATION),      # a is 3 and d is 4 there
    "biwm": (_TRANSLATION, ("up", "down", "right", "left")),
}
"""What singles 1 to 4 mean in each trainer; doubles 5 to 8 are 1+3, 1+4, 2+3, 2+4."""
_DOUBLES = ((0, 2), (0, 3), (1, 2), (1, 3))


@dataclass(frozen=True)
class Signs:
    """One latent: forward, right, yaw right and pitch up, each -1, 0 or +1."""
    longitudinal: int
    lateral: int
    yaw: int
    pitch: int


def encode(signs: Signs, order: str = "hy_worldplay") -> int:
    """Class of a latent, 0 to 80; inverse of `decode`."""
    translation, rotation = _names_of(order)
    moves = {"forward": signs.longitudinal > 0, "back": signs.longitudinal < 0,
             "right": signs.lateral > 0, "left": signs.lateral < 0}
    turns = {"right": signs.yaw > 0, "left": signs.yaw < 0, "up": signs.pitch > 0, "down": signs.pitch < 0}
    return 9 * _code([moves[name] for name in translation]) + _code([turns[name] for name in rotation])


def decode(label: int, order: str = "hy_worldplay") -> Signs:
    """What a class means.

    Raises:
        DataError: no class from 0 to 80, or an unknown order.
    """
    if not 0 <= label < 81:
        raise DataError(f"action class {label}; wanted 0 to 80")
    translation, rotation = _names_of(order)
    moves = {translation[i] for i in _parts(label // 9)}
    turns = {rotation[i] for i in _parts(label % 9)}
    return Signs(("forward" in moves) - ("back" in moves), ("right" in moves) - ("left" in moves),
                 ("right" in turns) - ("left" in turns), ("up" in turns) - ("down" in turns))


def _names_of(order: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if order not in ORDERS:
        raise DataError(f"order {order!r} of the 81 classes is not known; wanted one of {', '.join(ORDERS)}")
    return ORDERS[order]


def _code(on: list[bool]) -> int:
    places = tuple(i for i, flag in enumerate(on) if flag)
    return 0 if not places else places[0] + 1 if len(places) == 1 else 5 + _DOUBLES.index(places)


def _parts(code: int) -> tuple[int, ...]:
    return () if code == 0 else (code - 1,) if code < 5 else _DOUBLES[code - 5]


def from_rows(
    rows_L6: np.ndarray, order: str = "hy_worldplay", *, least_turn_deg: float = LEAST_TURN_DEG,
) -> np.ndarray:
    """Classes (L,) of per-latent rows (pitch, yaw, longitudinal, lateral, perspective, jump); a jump has none.

    Turns count above 0.05 degrees, as in its own code; estimated labels want more than their noise.
    """
    rows = np.asarray(rows_L6, float)
    turn = np.where(np.abs(rows[:, :2]) > least_turn_deg, np.sign(rows[:, :2]), 0).astype(int)
    move = rows[:, 2:4].astype(int)
    return np.array([encode(Signs(int(move[i, 0]), int(move[i, 1]), int(turn[i, 1]), int(turn[i, 0])), order)
                     for i in range(len(rows))], np.int64)


def to_rows(labels_L: np.ndarray, *, perspective: int, step_deg: float = STEP_DEG, order: str = "hy_worldplay",
            ) -> np.ndarray:
    """Rows float32 (L, 6) of classes, a turn being `step_deg` a latent; `from_rows` gives the classes back."""
    found = [decode(int(label), order) for label in labels_L]
    return np.array([[s.pitch * step_deg, s.yaw * step_deg, s.longitudinal, s.lateral, perspective, 0]
                     for s in found], np.float32).reshape(-1, 6)


def from_poses(
    world_from_cam_L44: np.ndarray, *, least_units: float = TRAINING_UNITS, is_third_person: bool = False,
    order: str = "hy_worldplay",
) -> np.ndarray:
    """Classes (L,) by HY-WorldPlay's own rule, from one pose a latent; class 0 for the first.

    Args:
        least_units: `TRAINING_UNITS` or `INFERENCE_UNITS`, in the units of the poses; its trainer's are not metres.
        is_third_person: while the camera turns, translation is dropped, as its inference code does.
    """
    poses = np.asarray(world_from_cam_L44, float)
    step = P.invert(poses[:-1]) @ poses[1:]
    length = np.linalg.norm(step[:, :3, 3], axis=1)
    share = step[:, :3, 3] / np.maximum(length, 1e-12)[:, None]
    turn_deg = _euler_xyz_deg(step[:, :3, :3])
    turn = np.where(np.abs(turn_deg) > LEAST_TURN_DEG, np.sign(turn_deg), 0).astype(int)
    moved = length > least_units
    if is_third_person:
        moved &= ~turn[:, :2].any(1)
    move = np.where(moved[:, None] & (np.abs(share) > np.cos(np.radians(CONE_DEG))), np.sign(share), 0).astype(int)
    return np.array([0] * (len(poses) > 0) + [
        encode(Signs(int(m[2]), int(m[0]), int(t[1]), int(t[0])), order) for m, t in zip(move, turn, strict=True)],
        np.int64)


def _euler_xyz_deg(rotation_N33: np.ndarray) -> np.ndarray:
    """Angles (N, 3) about the fixed axes x, then y, then z: SciPy's "xyz"."""
    r = rotation_N33
    return np.degrees(np.stack([np.arctan2(r[:, 2, 1], r[:, 2, 2]),
                                np.arctan2(-r[:, 2, 0], np.hypot(r[:, 2, 1], r[:, 2, 2])),
                                np.arctan2(r[:, 1, 0], r[:, 0, 0])], 1))


def to_poses(labels_L: np.ndarray, *, step_units: float = STEP_UNITS, step_deg: float = STEP_DEG,
             order: str = "hy_worldplay") -> np.ndarray:
    """Camera-to-world poses (L, 4, 4), OpenCV, of its synthetic controls; `from_poses` gives the classes back.

    The first latent stands at the identity, so its class is not acted out.
    """
    poses = [np.eye(4)]
    for label in labels_L[1:]:
        s = decode(int(label), order)
        move = np.array([s.lateral, 0.0, s.longitudinal], float)
        turn = P.so3_exp(np.radians(step_deg) * np.array([0.0, s.yaw, 0.0])) @ P.so3_exp(
            np.radians(step_deg) * np.array([s.pitch, 0.0, 0.0]))
        step = np.eye(4)
        step[:3, :3], step[:3, 3] = turn, step_units * move / max(float(np.linalg.norm(move)), 1.0)
        poses.append(poses[-1] @ step)
    return np.array(poses[:len(labels_L)])
