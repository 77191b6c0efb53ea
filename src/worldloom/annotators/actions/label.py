"""Actions from a camera track: turns in degrees, movement as forward/backward and right/left, or uncertain.

Movement is read in the yaw-only frame of the step before, so looking up, roll and gravity do not leak into it.
Given poses are judged by speed; estimated poses by what could be seen of their travel (`seen`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worldloom.annotators.actions.jitter import steadied
from worldloom.annotators.actions.keys import Keys
from worldloom.annotators.actions.seen import ACTIVE, INACTIVE, Movement, axis_shares, judge_seen, likeliest, posterior
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import noise_sigma, savitzky_golay
from worldloom.dataengine.geometry.teleports import teleports, turned_away_deg
from worldloom.schemas import UNCERTAIN, Action, Camera, DataError

PROFILE = "cones/5"
_STILL_M_S, _MOVING_M_S = 0.08, 0.20
_STILL_SHARE, _MOVING_SHARE = 0.15, 0.35      # of the clip's median moving speed, without metres
_KEEP_S = 0.5                          # a speed between the bands keeps its state this long
_GRAVITY_M_S2 = 9.81


def label(camera: Camera, fps: float, *, perspective: str = "uncertain", keys: Keys | None = None) -> Action:
    """Actions of a clip from its camera; index t is the motion from t-1 to t, index 0 is at rest.

    Raises:
        DataError: the track and the keys differ in length, or poses are not finite.
    """
    pose_T44 = np.asarray(camera.world_from_cam_T44, float).reshape(-1, 4, 4)
    if len(pose_T44) != camera.num_frames or (keys is not None and len(keys) != camera.num_frames):
        raise DataError(f"clip {camera.clip_id}: camera track has {len(pose_T44)} poses for {camera.num_frames} frames "
                        f"and keys for {len(keys) if keys is not None else 0}; they must agree")
    if not np.isfinite(pose_T44).all():
        raise DataError(f"clip {camera.clip_id}: camera track holds NaN; rerun camera")
    steady_T44, noise_deg_3 = steadied(pose_T44, fps) if camera.pose_source == "file" else (pose_T44, np.zeros(3))
    yaw, pitch, pole = turns(steady_T44)
    step_T3 = travel(steady_T44)
    teleport = teleports(pose_T44, camera.pose_source == "estimated")
    judge = judge_seen if _was_seen(camera) else _judge_given
    moved = judge(camera, step_T3, fps, teleport)
    jump = _jumps(camera, pose_T44, fps, keys, moved)
    cut_deg = turned_away_deg(pose_T44)
    angles = {"yaw": (yaw, np.maximum(camera.yaw_se_deg, noise_deg_3[1])),
              "pitch": (pitch, np.maximum(camera.pitch_se_deg, noise_deg_3[0]))}
    return _action(camera, angles, pole | teleport, cut_deg, moved, jump, perspective, keys)


def _was_seen(camera: Camera) -> bool:
    """The track is an estimate, and how much image motion its rotation leaves is known."""
    return camera.pose_source == "estimated" and bool(np.isfinite(camera.parallax_px[1:]).any())


def best_guess(camera: Camera, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """Likeliest longitudinal and lateral value of each frame of an estimated track, however unsure; for scoring."""
    step_T3 = travel(np.asarray(camera.world_from_cam_T44, float).reshape(-1, 4, 4))
    return likeliest(axis_shares(posterior(camera, step_T3, fps)))


def turns(pose_T44: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heading and elevation steps in degrees, and where heading means nothing because the view is near vertical."""
    elevation = P.elevation_deg(pose_T44)
    yaw = P.wrap180(_steps(P.heading_deg(pose_T44)))
    steep = np.maximum(np.abs(elevation), np.abs(np.concatenate([elevation[:1], elevation[:-1]])))
    if np.any(steep > 75) and len(pose_T44) > 1:                  # heading is ill-conditioned: turn about the vertical
        turn = P.so3_log(pose_T44[1:, :3, :3] @ np.swapaxes(pose_T44[:-1, :3, :3], 1, 2))[:, 1]
        yaw = np.where(steep > 75, np.concatenate([[0.0], np.degrees(turn)]), yaw)
    return yaw, _steps(elevation), steep > 85


def travel(pose_T44: np.ndarray) -> np.ndarray:
    """Displacement (T, 3) of each step: right, up, forward in the level frame of the pose before; row 0 is zero."""
    step = np.diff(pose_T44[:, :3, 3], axis=0, prepend=pose_T44[:1, :3, 3])
    heading = np.radians(P.heading_deg(pose_T44))
    heading = np.concatenate([heading[:1], heading[:-1]])
    sin, cos = np.sin(heading), np.cos(heading)
    return np.stack([cos * step[:, 0] - sin * step[:, 2], -step[:, 1], sin * step[:, 0] + cos * step[:, 2]], 1)


def _steps(x_T: np.ndarray) -> np.ndarray:
    return np.diff(x_T, prepend=x_T[:1])


def _judge_given(camera: Camera, step_T3: np.ndarray, fps: float, teleport: np.ndarray) -> Movement:
    """Speed bands with hysteresis, then direction cones."""
    speed = np.hypot(step_T3[:, 0], step_T3[:, 2]) * fps
    noise = 0.0 if camera.pose_source == "engine" else _speed_noise(step_T3, fps)
    still, moving = _bands(speed[~teleport], camera.metres_per_unit, noise)
    state = _hysteresis(speed, still, moving, max(1, round(_KEEP_S * fps)))
    trust = np.asarray(camera.confidence, float)
    axes = [_axis(step_T3[:, i] * fps, speed, state, teleport, trust) for i in (2, 0)]
    return Movement(axes[0][0], axes[1][0], axes[0][1], axes[1][1], state == 0)


def _speed_noise(step_T3: np.ndarray, fps: float) -> float:
    """Noise of the level speed: how far each step lies from a smooth path."""
    level_2T = step_T3[1:, [0, 2]].T
    return fps * float(np.hypot(*(noise_sigma(x, savitzky_golay(x, fps=fps)) for x in level_2T)))


def _bands(speed: np.ndarray, metres_per_unit: float | None, noise: float) -> tuple[float, float]:
    """Speeds below which the camera is still and above which it moves, in the track's units a second.

    Fixed where metres are known, so that equal speeds have equal labels in every source; else by the clip's own speed.
    """
    if metres_per_unit:
        return max(_STILL_M_S / metres_per_unit, 3 * noise), max(_MOVING_M_S / metres_per_unit, 6 * noise)
    moving = speed[speed > max(1e-9, 0.1 * float(speed.max(initial=0.0)))]
    usual = float(np.median(moving)) if moving.size else 0.0
    return max(1e-9, _STILL_SHARE * usual), max(1e-9, _MOVING_SHARE * usual)


def _hysteresis(speed: np.ndarray, still: float, moving: float, keep: int) -> np.ndarray:
    """0 still, 1 moving, 2 uncertain; between the bands the last state holds for `keep` frames."""
    state = np.zeros(len(speed), np.int8)
    last, age = 0, 0
    for t, value in enumerate(speed):
        if value <= still or value >= moving:
            last, age = int(value >= moving), 0
        else:
            age += 1
        state[t] = last if age <= keep else UNCERTAIN
    return state


def _axis(component: np.ndarray, length: np.ndarray, state: np.ndarray, lost: np.ndarray,
          trust: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and confidence of one axis from its share of the travel."""
    share = np.abs(component) / np.maximum(length, 1e-12)
    value = np.where(share >= ACTIVE, np.sign(component), np.where(share <= INACTIVE, 0, UNCERTAIN))
    value = np.where(state == 0, 0, np.where(state == 1, value, UNCERTAIN))
    value = np.where(lost, UNCERTAIN, value)
    value[0] = 0
    return value.astype(np.int8), np.where(value == UNCERTAIN, np.minimum(trust, 0.4), trust).astype(np.float32)


def _jumps(camera: Camera, pose_T44: np.ndarray, fps: float, keys: Keys | None, moved: Movement) -> np.ndarray:
    """1 from take-off to landing; from pixels none where the camera surely stands, else uncertain, as without scale."""
    rise = -_steps(pose_T44[:, 1, 3])
    if camera.pose_source == "estimated":
        jump = np.where((moved.longitudinal == 0) & (moved.lateral == 0) & moved.stands, 0, UNCERTAIN).astype(np.int8)
        jump[:1] = jump[1:2] if len(jump) > 1 else UNCERTAIN
        return jump
    if keys is not None and keys.jump is not None and keys.on_ground is not None:
        pressed = _near(np.asarray(keys.jump) > 0, round(0.2 * fps))
        return _airborne(~np.asarray(keys.on_ground, bool), (rise > 0) & pressed)
    if camera.metres_per_unit is None or len(rise) < 3:
        return np.full(len(rise), UNCERTAIN, np.int8)
    velocity = rise * camera.metres_per_unit * fps
    fall = np.append(-np.diff(velocity) * fps, 0.0)
    free = np.abs(fall / _GRAVITY_M_S2 - 1) < 0.4
    long_enough = max(2, round(0.2 * fps))
    jump = _airborne(free, velocity > 1.0)
    for first, stop in _runs(jump == 1):
        if stop - first < long_enough:
            jump[first:stop] = 0
    return jump


def _airborne(air: np.ndarray, pushed: np.ndarray) -> np.ndarray:
    """1 on the runs of `air` that begin with a push, so walking off a ledge is no jump."""
    jump = np.zeros(len(air), np.int8)
    for first, stop in _runs(air):
        if pushed[first:min(first + 2, stop)].any():
            jump[first:stop] = 1
    return jump


def _near(flag: np.ndarray, frames: int) -> np.ndarray:
    """True on a set frame and the given number of frames after it."""
    count = np.cumsum(flag)
    return count - np.concatenate([np.zeros(frames + 1, int), count])[: len(flag)] > 0


def _runs(flag: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flag.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _action(camera: Camera, angles: dict[str, tuple[np.ndarray, np.ndarray]], lost: np.ndarray, cut_deg: np.ndarray,
            moved: Movement, jump: np.ndarray, perspective: str, keys: Keys | None) -> Action:
    """The row of (angle, standard error); where the path is cut, angles are 0 and errors at least the rotation left
    out."""
    spread = [np.maximum(np.where(lost, np.maximum(np.abs(x), se), se), cut_deg).astype(np.float32)
              for x, se in angles.values()]
    yaw, pitch = (np.where(cut_deg > 0, 0.0, x) for x, _ in angles.values())
    intent: dict[str, Any] = dict.fromkeys(("intent_longitudinal", "intent_lateral", "blocked", "residual"))
    if keys is not None:
        intent = _intent(keys, moved)
    certain = (moved.longitudinal != UNCERTAIN) & (moved.lateral != UNCERTAIN)
    return Action(
        clip_id=camera.clip_id, labeller=PROFILE, num_frames=camera.num_frames, yaw_deg=yaw.astype(np.float32),
        pitch_deg=pitch.astype(np.float32), yaw_se_deg=spread[0], pitch_se_deg=spread[1],
        longitudinal=moved.longitudinal, lateral=moved.lateral, longitudinal_confidence=moved.longitudinal_confidence,
        lateral_confidence=moved.lateral_confidence, jump=jump, perspective=perspective,
        certain_share=float(certain.mean()), **intent)


def _intent(keys: Keys, moved: Movement) -> dict[str, np.ndarray]:
    pressed = (keys.longitudinal != 0) | (keys.lateral != 0)
    still = (moved.longitudinal == 0) & (moved.lateral == 0)
    moving = np.isin(moved.longitudinal, (-1, 1)) | np.isin(moved.lateral, (-1, 1))
    return {"intent_longitudinal": keys.longitudinal.astype(np.int8), "intent_lateral": keys.lateral.astype(np.int8),
            "blocked": (pressed & still).astype(np.int8), "residual": (~pressed & moving).astype(np.int8)}
