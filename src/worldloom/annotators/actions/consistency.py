"""Whether recorded keys and a camera path belong together: each held key must move the camera its own way.

For data that comes with both: no picture is looked at. Keys and poses of one recording may disagree because they were
cut apart, resampled apart, or made for two different takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

MIN_AGREEMENT = 0.8
MIN_STEPS = 10                         # a key held for fewer moving steps is reported and not judged
_STILL_SHARE = 0.15                    # of the usual speed; below, a held key is blocked and says nothing
_TURN_DEG = 0.05
_AXES = {"longitudinal": ("forward", "backward"), "lateral": ("right", "left"), "yaw": ("turn right", "turn left"),
         "pitch": ("look up", "look down")}


@dataclass(frozen=True)
class Held:
    """Steps with one key direction held in which the camera moved, and the share that went its way."""
    direction: str
    steps: int
    agreement: float


@dataclass(frozen=True)
class Consistency:
    """`holds` is None where no direction is held for long enough to judge."""
    holds: bool | None
    agreement: float | None            # over all judged steps
    held: tuple[Held, ...]
    reason: str


def consistency(world_from_cam_T44: np.ndarray, *, longitudinal: np.ndarray, lateral: np.ndarray,
                yaw: np.ndarray | None = None, pitch: np.ndarray | None = None) -> Consistency:
    """Compares keys with the path, direction by direction; index t is the step from frame t - 1 to t, as everywhere.

    Motion is read in the camera's own axes, so the world's axes and which way is down need not be known.

    Args:
        longitudinal, lateral: (T,) forward + and right +; 0 none.
        yaw, pitch: (T,) look keys, right + and up +, where they were recorded.
    Raises:
        DataError: a key track is not one a pose.
    """
    poses_T44 = np.asarray(world_from_cam_T44, float)
    keys = {name: np.sign(np.asarray(track, float)) for name, track in
            (("longitudinal", longitudinal), ("lateral", lateral), ("yaw", yaw), ("pitch", pitch))
            if track is not None}
    wrong = [f"{len(track)} {name} keys" for name, track in keys.items() if track.shape != (len(poses_T44),)]
    if wrong:
        raise DataError(f"{', '.join(wrong)} for {len(poses_T44)} poses; one a pose is wanted")
    held = tuple(found for name, track in keys.items() for found in _held(name, track, *_seen(name, poses_T44)))
    return _judged(held)


def _seen(name: str, poses_T44: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T,) motion along an axis of the camera before the step, and whether the step moves at all."""
    back_T33 = np.swapaxes(poses_T44[:-1, :3, :3], 1, 2)
    if name in ("yaw", "pitch"):
        turn = np.degrees(P.so3_log(P.nearest_rotation(back_T33 @ poses_T44[1:, :3, :3])))
        turn = np.concatenate([[0.0], turn[:, 1 if name == "yaw" else 0]])
        return turn, np.abs(turn) > _TURN_DEG
    step_T3 = np.zeros((len(poses_T44), 3))
    step_T3[1:] = (back_T33 @ np.diff(poses_T44[:, :3, 3], axis=0)[:, :, None])[:, :, 0]
    speed = np.linalg.norm(step_T3, axis=1)
    usual = np.median(speed[speed > 1e-9]) if np.any(speed > 1e-9) else np.inf
    return step_T3[:, 2 if name == "longitudinal" else 0], speed > _STILL_SHARE * usual


def _held(name: str, key: np.ndarray, seen: np.ndarray, moves: np.ndarray) -> list[Held]:
    found = []
    for direction, sign in zip(_AXES[name], (1, -1), strict=True):
        steps = moves & (key == sign)
        steps[0] = False
        if steps.any():
            found.append(Held(direction, int(steps.sum()), float(np.mean(np.sign(seen[steps]) == sign))))
    return found


def _judged(held: tuple[Held, ...]) -> Consistency:
    judged = [h for h in held if h.steps >= MIN_STEPS]
    if not judged:
        return Consistency(None, None, held, f"no key is held for {MIN_STEPS} moving steps; nothing can be said")
    agreement = sum(h.steps * h.agreement for h in judged) / sum(h.steps for h in judged)
    worst = min(judged, key=lambda h: h.agreement)
    if worst.agreement < MIN_AGREEMENT:
        return Consistency(False, agreement, held, f"{worst.direction} is held for {worst.steps} moving steps and the "
                           f"camera goes that way in {worst.agreement:.0%}; at least {MIN_AGREEMENT:.0%} is wanted")
    return Consistency(True, agreement, held,
                       f"each held key moves the camera its way in at least {worst.agreement:.0%} of its steps")
