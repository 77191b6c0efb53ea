"""Camera motion from pixels, one step a frame: turns in degrees, direction of travel, and how far to trust both.

Tracks are first explained by rotation alone. Where that leaves coherent image motion, travel is found from pairs of
frames some way apart, and then all turns, travels and depths of the clip are adjusted together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from worldloom.annotators.camera import bundle
from worldloom.annotators.camera.bundle import Fit, Flow, Steps
from worldloom.annotators.camera.certainty import (
    noise_of_steps,
    travel_error_deg,
    turn_error_deg,
    unseen_error_deg,
)
from worldloom.annotators.camera.clutter import clear_tracks
from worldloom.annotators.camera.creep import set_off
from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.starts import MIN_TRACKS, first_start, hold_still, repaired
from worldloom.annotators.camera.tracks import Tracks, follow_all
from worldloom.annotators.camera.upright import upright
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import hampel
from worldloom.schemas import DataError

_SPIKE_DEG = 0.23                     # a step this far off its neighbours is not believed where its tracks are poor


@dataclass(frozen=True)
class Lens:
    """Intrinsics in pixels; model pinhole, or yshear (pitch shifts the horizon instead of tilting the view)."""
    fx: float
    fy: float
    cx: float
    cy: float
    model: str = "pinhole"

    def rays(self, points_N2: np.ndarray, elevation: float) -> np.ndarray:
        """Rays (N, 3), z = 1; for yshear the elevation in radians places the horizon."""
        horizon = self.cy + self.fy * math.tan(elevation) if self.model == "yshear" else self.cy
        x, y = (points_N2[:, 0] - self.cx) / self.fx, (points_N2[:, 1] - horizon) / self.fy
        return np.stack([x, y, np.ones_like(x)], 1)


@dataclass(frozen=True)
class Motion:
    """Steps of T frames; index t is the motion from t-1 to t, index 0 is at rest."""
    yaw_deg: np.ndarray
    pitch_deg: np.ndarray
    yaw_se_deg: np.ndarray
    pitch_se_deg: np.ndarray
    direction_T3: np.ndarray          # unit travel in the camera of frame t-1 (yshear: levelled); 0 where none is seen
    parallax_px: np.ndarray           # median coherent image motion that the best rotation alone leaves
    confidence: np.ndarray
    tracks: np.ndarray
    overlay_share: float              # of the picture, static while the rest moves
    travel_se_deg: np.ndarray         # of the direction; NaN where there is none
    length: np.ndarray                # of the travel, in median scene depths of the clip
    start_elevation_deg: float        # of frame 0, where the camera's turns show it; else 0
    turn_T33: np.ndarray | None       # of a camera that rolls: axes of frame t + 1 in those of frame t, for T - 1 steps


def estimate(gray_THW: np.ndarray, lens: Lens, fps: float, mask_HW: np.ndarray | None = None) -> Motion:
    """Motion of the camera over uint8 frames (T, H, W); `mask_HW` is of `usable_mask`, where the caller has it.

    Raises:
        DataError: fewer than 2 frames, or an unknown camera model.
    """
    if len(gray_THW) < 2 or lens.model not in ("pinhole", "yshear"):
        raise DataError(f"odometry over {len(gray_THW)} frames with model {lens.model!r}; wanted 2 or more frames and "
                        "model pinhole or yshear")
    mask_HW = usable_mask(gray_THW, fps=fps) if mask_HW is None else mask_HW
    return of_tracks(follow_all(gray_THW, mask_HW), lens, gray_THW.shape[1:], 1.0 - float(np.mean(mask_HW > 0)))


def of_tracks(tracks: Tracks, lens: Lens, size: tuple[int, ...], overlay_share: float = 0.0) -> Motion:
    """Motion of the camera that saw `tracks` in pictures of size (height, width)."""
    flow = Flow(tracks, lens)
    turning = bundle.fit_turns(flow)
    still_T, parallax_px = hold_still(flow, turning.error)
    flow, fit, doubt_T2, still_T, slow_px = _fit(flow, tracks, lens, turning.steps, still_T, parallax_px, size)
    return _motion(flow, fit, doubt_T2, still_T, np.maximum(parallax_px, slow_px), overlay_share)


def integrate(motion: Motion, lens: Lens) -> np.ndarray:
    """Poses (T, 4, 4) from the first frame, taken at the origin with heading 0; a camera that never rolls is held so.

    One unit of translation is the median scene depth: lengths compare within a clip only.
    """
    heading = np.cumsum(motion.yaw_deg)
    elevation = np.clip(motion.start_elevation_deg + np.cumsum(motion.pitch_deg), -85.0, 85.0)
    rotation_T33 = P.look(heading, elevation)
    if motion.turn_T33 is not None:
        rotation_T33 = np.stack(list(accumulate([rotation_T33[0], *motion.turn_T33], np.matmul)))
    before = P.look(heading, np.zeros_like(elevation)) if lens.model == "yshear" else rotation_T33
    step_T3 = np.zeros((len(heading), 3))
    step_T3[1:] = (before[:-1] @ motion.direction_T3[1:, :, None])[:, :, 0] * motion.length[1:, None]
    return P.compose(rotation_T33, np.cumsum(step_T3, 0))


def _fit(flow: Flow, tracks: Tracks, lens: Lens, turns: Steps, still_T: np.ndarray, parallax_px: np.ndarray,
         size: tuple[int, ...]) -> tuple[Flow, Fit, np.ndarray, np.ndarray, np.ndarray]:
    """The tracks heard, the adjusted clip, and how far its turns are in doubt (`starts.repaired`).

    Half of the tracks settle which solution it is, all of them its last digits, those of clutter left out.
    """
    steps = first_start(flow, tracks, turns, still_T, parallax_px, size)
    kept_N = flow.touched(flow.count < 120) | (np.arange(flow.tracks) % 2 == 0)
    part = Flow(tracks, lens, kept_N)
    sigma = bundle.noise_px(Fit.of(part, steps).error)
    fit = bundle.adjust(part, steps, still_T, min(sigma, 1.0), rounds=6, from_px=max(1.0, 6 * sigma))
    doubt_T2 = np.zeros((flow.steps, 2))
    if not still_T.all():
        fit, doubt_T2 = repaired(part, tracks, lens, fit, still_T, kept_N, size)
    bundle.set_nearness(flow, fit.steps, ~kept_N)
    sigma = bundle.noise_px(fit.error)
    fit = bundle.adjust(flow, fit.steps, still_T, sigma, rounds=6, from_px=4 * sigma)
    fit, still_T, slow_px = set_off(flow, fit, still_T, sigma)
    clear_N = np.ones(flow.tracks, bool) if still_T.all() else clear_tracks(flow, fit, sigma, size)
    if not clear_N.all():
        flow = Flow(tracks, lens, clear_N)
        sigma = bundle.noise_px(Fit.of(flow, fit.steps).error)
        fit = bundle.adjust(flow, fit.steps, still_T, sigma, rounds=6, from_px=4 * sigma)
    return flow, fit, doubt_T2, still_T, slow_px


def _motion(flow: Flow, fit: Fit, doubt_T2: np.ndarray, still_T: np.ndarray, parallax_px: np.ndarray,
            overlay_share: float) -> Motion:
    sigma = bundle.noise_px(fit.error)
    covariance_T66 = bundle.covariances(flow, fit, still_T, sigma)
    trust = flow.sums((bundle.robust_cost(fit.error, sigma) < 1.5).astype(float)) / np.maximum(flow.count, 1)
    poor = (trust < 0.5) | (flow.count < 40)
    turned = upright(flow, fit.steps, poor)
    noise_T = noise_of_steps(flow, fit, sigma) / sigma
    confidence = trust * np.clip(flow.count / 60, 0, 1)
    yaw_variance = np.einsum("ti,tij,tj->t", turned.vertical_T3, covariance_T66[:, :3, :3], turned.vertical_T3)
    angles, errors = [], []
    for angle_T, variance_T, axis in ((turned.yaw_deg, yaw_variance, 1),
                                      (turned.pitch_deg, covariance_T66[:, 0, 0], 0)):
        smooth_T = np.where(poor, hampel(angle_T, floor=_SPIKE_DEG), angle_T)
        angles.append(_from_rest(smooth_T))
        error_T = turn_error_deg(angle_T, variance_T * noise_T**2, confidence, np.degrees(doubt_T2[:, axis]),
                                 still_T)
        error_T = np.where(flow.count < MIN_TRACKS, unseen_error_deg(flow, variance_T), error_T)
        errors.append(_from_rest(np.minimum(np.hypot(error_T, angle_T - smooth_T), 180.0)))
    length = np.linalg.norm(fit.steps.shift, axis=1)
    direction = -np.einsum("tij,ti->tj", fit.steps.turn, fit.steps.shift) / np.maximum(length, 1e-12)[:, None]
    confidence = _from_rest(confidence)
    confidence[0] = 1.0
    return Motion(
        yaw_deg=angles[0], pitch_deg=angles[1], yaw_se_deg=errors[0], pitch_se_deg=errors[1],
        direction_T3=_from_rest(direction * (length > 1e-9)[:, None]),
        parallax_px=_from_rest(np.where(still_T, 0.0, parallax_px)), confidence=confidence,
        tracks=_from_rest(flow.count), overlay_share=overlay_share,
        travel_se_deg=np.concatenate([[np.nan], travel_error_deg(fit.steps.shift, covariance_T66, noise_T)]),
        length=_from_rest(length), start_elevation_deg=math.degrees(turned.start),
        turn_T33=np.swapaxes(fit.steps.turn, 1, 2) if turned.rolls else None)


def _from_rest(values_T: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(values_T[:1]), values_T])
