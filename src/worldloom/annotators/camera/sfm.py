"""Structure from motion on keyframes, with odometry between them: slow, and without odometry's slow drift.

Between two keyframes the camera turns as odometry saw it, corrected evenly to the turn of the model, and goes from
one to the other as fast as odometry saw it go. Frames beyond the model's keyframes go on as odometry saw them, with
confidence 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from worldloom.annotators.camera import odometry
from worldloom.annotators.camera.builtin import intrinsics_T4
from worldloom.annotators.camera.estimator import UNSEEN_SE_DEG, Footage, Track, pinhole
from worldloom.annotators.camera.sfm_model import Model, SfmParams, reconstruct
from worldloom.annotators.camera.stitch import in_windows
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

_UNKNOWN_SPREAD = 0.1            # a self-calibrated focal length less certain than this leaves angles uncalibrated
_MOST_MISSED = 3                 # keyframe distances between two of a model that still hold what lies between
_LEAST_TRAVEL = 0.2              # of the frames of a model
_AGREE_DEG = 0.2                 # turns of model and odometry that differ by less agree
_STRAIGHT = 0.5                  # of a chain's length that it must get away, and cosine of its way to the model's


class Sfm:
    """pycolmap, incremental or global, over every fifth frame; finds the focal length where none is known."""
    name: ClassVar[str] = "sfm"
    version: ClassVar[int] = 1
    pictures: ClassVar[str] = "gray"
    needs_lens: ClassVar[bool] = False
    Params = SfmParams

    def __init__(self, params: SfmParams | None = None) -> None:
        self.params = params or SfmParams()

    def estimate(self, footage: Footage, lens: odometry.Lens | None) -> Track:
        """The track of a clip.

        Raises:
            DataError: the lens is no pinhole, or too few keyframes can be placed.
        """
        lens, gray_THW, fps = pinhole(lens, self.name), footage.gray(), footage.clip.fps
        return in_windows(lambda part: self._track(gray_THW[part], lens, fps, footage.mask_HW), len(gray_THW),
                          self.params.windows)

    def _track(self, gray_THW: np.ndarray, lens: odometry.Lens | None, fps: float, mask_HW: np.ndarray) -> Track:
        keys = keyframes(len(gray_THW), self.params.every_frames)
        model = reconstruct(gray_THW[keys], lens, self.params)
        motion = odometry.estimate(gray_THW, model.lens, fps, mask_HW)
        chain_T44 = odometry.integrate(motion, model.lens)
        keys = keys[model.places_K]
        _check_travel(motion.parallax_px[keys[0]:keys[-1] + 1])
        pose_K44 = rejoined(keys, model.world_from_cam_K44, chain_T44, 3 * allowed_deg(keys, motion))
        pose_T44 = between(keys, pose_K44, chain_T44)
        errors = step_errors(keys, model, motion, chain_T44, _MOST_MISSED * self.params.every_frames)
        track = Track(
            estimator=f"{self.name}/{self.version}", world_from_cam_T44=P.invert(pose_T44[:1]) @ pose_T44,
            intrinsics_T4=intrinsics_T4(model.lens, len(gray_THW)), confidence=errors.confidence,
            yaw_se_deg=errors.yaw_se_deg, pitch_se_deg=errors.pitch_se_deg, travel_se_deg=errors.travel_se_deg,
            parallax_px=motion.parallax_px)
        if lens is not None:
            return track
        return replace(track, focal_source="found", focal_spread=model.focal_spread,
                       is_calibrated=model.focal_spread < _UNKNOWN_SPREAD)


def keyframes(count: int, every: int) -> np.ndarray:
    """Frames 0, every, 2 every, … and the last; the last but one gives way where the two would nearly meet."""
    keys = list(range(0, count, every))
    if len(keys) > 1 and count - 1 - keys[-1] < every / 2:
        keys.pop()
    return np.array(sorted({*keys, count - 1}))


def _check_travel(parallax_px: np.ndarray) -> None:
    """Raises DataError where hardly a step travels: what looks like depth is then the noise of a turn."""
    share = float(np.mean(parallax_px > 0))
    if share < _LEAST_TRAVEL:
        raise DataError(f"the camera travels on {share:.0%} of the frames that sfm places; a turn alone shows no depth")


def allowed_deg(keys_K: np.ndarray, motion: odometry.Motion) -> np.ndarray:
    """What model and odometry may differ by in the turn of each segment (K - 1,): odometry's errors and a little."""
    return np.array([np.hypot(np.linalg.norm(motion.yaw_se_deg[first + 1:last + 1]), _AGREE_DEG)
                     for first, last in zip(keys_K[:-1], keys_K[1:], strict=True)])


def rejoined(keys_K: np.ndarray, pose_K44: np.ndarray, chain_T44: np.ndarray, limit_deg_K: np.ndarray) -> np.ndarray:
    """The keyframes' poses; a segment that turns otherwise than the chain by more than the limit is made as there.

    Pictures that look alike join a model in the wrong place; what comes after such a join moves along as one.
    """
    pose_K44, scale = pose_K44.copy(), _chain_scale(keys_K, pose_K44, chain_T44)
    wrong_K = np.linalg.norm(closures_deg(keys_K, pose_K44, chain_T44), axis=1) > limit_deg_K
    for k in np.flatnonzero(wrong_K):
        wanted = _beyond(pose_K44[k], chain_T44[keys_K[k]], chain_T44[keys_K[k + 1]][None], scale)
        pose_K44[k + 1:] = wanted @ P.invert(pose_K44[k + 1:k + 2]) @ pose_K44[k + 1:]
    return pose_K44


def between(keys_K: np.ndarray, pose_K44: np.ndarray, chain_T44: np.ndarray) -> np.ndarray:
    """Poses (T, 4, 4) of all frames from those at the keyframes and a chain of relative motion, in the keys' world.

    Frames before the first and after the last keyframe follow the chain, its steps scaled as between keyframes.
    """
    pose_T44 = chain_T44.copy()
    for k, (first, last) in enumerate(zip(keys_K[:-1], keys_K[1:], strict=True)):
        pose_T44[first:last + 1] = _segment(pose_K44[k], pose_K44[k + 1], chain_T44[first:last + 1])
    scale = _chain_scale(keys_K, pose_K44, chain_T44)
    first, last = keys_K[0], keys_K[-1]
    pose_T44[:first + 1] = _beyond(pose_K44[0], chain_T44[first], chain_T44[:first + 1], scale)
    pose_T44[last:] = _beyond(pose_K44[-1], chain_T44[last], chain_T44[last:], scale)
    return pose_T44


def _segment(start_44: np.ndarray, end_44: np.ndarray, chain_N44: np.ndarray) -> np.ndarray:
    """Poses from one keyframe to the next along a chain of as many frames."""
    share = np.linspace(0, 1, len(chain_N44))
    turned = start_44[:3, :3] @ chain_N44[0, :3, :3].T @ chain_N44[:, :3, :3]
    rest = P.so3_log(turned[-1].T @ end_44[:3, :3])
    position = start_44[:3, 3] + _path(end_44[:3, 3] - start_44[:3, 3], start_44[:3, :3] @ chain_N44[0, :3, :3].T,
                                       chain_N44[:, :3, 3] - chain_N44[0, :3, 3])
    return P.compose(turned @ P.so3_exp(share[:, None] * rest), position)


def _path(goal_3: np.ndarray, turn_33: np.ndarray, chain_N3: np.ndarray) -> np.ndarray:
    """Places (N, 3) from 0 to the goal: the chain's path turned and stretched onto it, or straight at its pace.

    The path is taken where it goes somewhere, and not too much elsewhere than the model says.
    """
    path_N3 = chain_N3 @ turn_33.T
    pace_N = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(chain_N3, axis=0), axis=1))])
    there, goal = float(np.linalg.norm(path_N3[-1])), float(np.linalg.norm(goal_3))
    if pace_N[-1] < 1e-9:
        return np.linspace(0, 1, len(chain_N3))[:, None] * goal_3
    if goal < 1e-12 or there < _STRAIGHT * pace_N[-1] or path_N3[-1] @ goal_3 < _STRAIGHT * there * goal:
        return (pace_N / pace_N[-1])[:, None] * goal_3
    axis = np.cross(path_N3[-1], goal_3)
    angle = np.arctan2(np.linalg.norm(axis), path_N3[-1] @ goal_3)
    onto_33 = P.so3_exp(axis / max(float(np.linalg.norm(axis)), 1e-300) * angle)
    return goal / there * path_N3 @ onto_33.T


def _chain_scale(keys_K: np.ndarray, pose_K44: np.ndarray, chain_T44: np.ndarray) -> float:
    """The model's units in one unit of the chain: the median over the keyframe pairs in which both move."""
    there = np.linalg.norm(np.diff(pose_K44[:, :3, 3], axis=0), axis=1)
    here = np.linalg.norm(np.diff(chain_T44[keys_K, :3, 3], axis=0), axis=1)
    moving = here > 0.2 * max(float(here.max(initial=0.0)), 1e-12)
    return float(np.median(there[moving] / here[moving])) if moving.any() else 1.0


def _beyond(key_44: np.ndarray, chain_key_44: np.ndarray, chain_N44: np.ndarray, scale: float) -> np.ndarray:
    """The chain put onto one keyframe, its lengths scaled."""
    relative = P.invert(chain_key_44[None]) @ chain_N44
    relative[:, :3, 3] *= scale
    return key_44 @ relative


@dataclass(frozen=True)
class StepErrors:
    """Trust in each step (T,) and its standard errors in degrees."""
    confidence: np.ndarray
    yaw_se_deg: np.ndarray
    pitch_se_deg: np.ndarray
    travel_se_deg: np.ndarray


def step_errors(keys_K: np.ndarray, model: Model, motion: odometry.Motion, chain_T44: np.ndarray,
                longest: int) -> StepErrors:
    """Errors of the steps: odometry's within a segment, the model's over it, and what the two differ by.

    A step is trusted less where they differ by more than both allow, and not at all outside of the model or where
    keyframes of the model are more than `longest` frames apart.
    """
    count = len(chain_T44)
    trust, (yaw, pitch, travel) = np.zeros(count), np.full((3, count), np.nan)
    moved = np.linalg.norm(np.diff(model.world_from_cam_K44[:, :3, 3], axis=0), axis=1)
    apart_deg, allowed_K = closures_deg(keys_K, model.world_from_cam_K44, chain_T44), allowed_deg(keys_K, motion)
    for k, (first, last) in enumerate(zip(keys_K[:-1], keys_K[1:], strict=True)):
        part, steps = slice(first + 1, last + 1), last - first
        if steps > longest:
            continue
        turn_se = np.minimum(np.nan_to_num(model.turn_se_deg_K3[k + 1], nan=1.0), UNSEEN_SE_DEG)
        pitch[part] = _shared(motion.pitch_se_deg[part], turn_se[0], apart_deg[k, 0])
        yaw[part] = _shared(motion.yaw_se_deg[part], turn_se[1], apart_deg[k, 1])
        travel[part] = np.degrees(np.arctan2(model.shift_se_K[k + 1], moved[k])) if moved[k] > 0 else np.nan
        allowed = np.linalg.norm([*turn_se, allowed_K[k]])
        trust[part] = 1 / (1 + (np.linalg.norm(apart_deg[k]) / (3 * allowed)) ** 2)
    yaw, pitch = (np.where(trust > 0, se, UNSEEN_SE_DEG) for se in (yaw, pitch))
    yaw[0], pitch[0], trust[0] = 0.0, 0.0, 1.0
    return StepErrors(trust * motion.confidence, yaw, pitch, travel)


def closures_deg(keys_K: np.ndarray, pose_K44: np.ndarray, chain_T44: np.ndarray) -> np.ndarray:
    """What the model and the chain differ by in the turn of each segment: (K - 1, 3) about x, y, z of the camera."""
    turns = [np.swapaxes(rotation[:-1], 1, 2) @ rotation[1:]
             for rotation in (pose_K44[:, :3, :3], chain_T44[keys_K, :3, :3])]
    return np.degrees(P.so3_log(np.swapaxes(turns[1], 1, 2) @ turns[0]))


def _shared(step_se: np.ndarray, segment_se: float, apart_deg: float) -> np.ndarray:
    """Error of each step of a segment: its own without what all share, and its part of the segment's."""
    steps = len(step_se)
    return np.sqrt(step_se**2 * (1 - 1 / steps) + (segment_se**2 + apart_deg**2) / steps**2)
