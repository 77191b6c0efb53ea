"""Camera motion from pixels, one step a frame: turns in degrees, direction of travel, and how far to trust both.

A pair of frames is first explained by rotation alone; only where that leaves image motion over is a five-point
relative pose fitted (poselib, LO-RANSAC), and near walls, where that is degenerate, a homography.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.rotation import facing, fit_rotation, fit_yaw_shear, travel_given_rotation
from worldloom.annotators.camera.tracks import follow
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import hampel
from worldloom.schemas import DataError

MIN_TRACKS = 12
STILL_PX = 0.18           # rotation alone explains a neighbouring pair when it leaves less
STILL_WIDE_PX = 0.40      # the same over the wider baseline
_BASELINE_S = 0.115       # travel direction is read over this time
_WIDE_TURN_DEG = 8.0      # but never over more turn than this
_SE_FLOOR_DEG = 0.04
_JERK_COST = 0.25         # a radian of change from the last step, in mean squared pixels of epipolar error
_REFINE = {"loss_type": "CAUCHY", "loss_scale": 0.3, "max_iterations": 25}


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
    parallax_px: np.ndarray           # median image motion that the best rotation alone leaves
    confidence: np.ndarray
    tracks: np.ndarray
    overlay_share: float              # of the picture, static while the rest moves


@dataclass(frozen=True)
class _Step:
    yaw: float = 0.0                  # radians
    pitch: float = 0.0
    direction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rest_px: float = 0.0              # image motion that rotation alone leaves
    inliers: float = 0.0
    tracks: int = 0


def estimate(gray_THW: np.ndarray, lens: Lens, fps: float) -> Motion:
    """Motion of the camera over uint8 frames (T, H, W).

    Raises:
        DataError: fewer than 2 frames, or an unknown camera model.
    """
    if len(gray_THW) < 2 or lens.model not in ("pinhole", "yshear"):
        raise DataError(f"odometry over {len(gray_THW)} frames with model {lens.model!r}; wanted 2 or more frames and "
                        "model pinhole or yshear")
    mask_HW = usable_mask(gray_THW, fps=fps)
    steps = _neighbours(gray_THW, mask_HW, lens)
    elevation = np.concatenate([[0.0], np.cumsum([s.pitch for s in steps])])
    span = max(1, int(_BASELINE_S * fps))
    wide = _directions(gray_THW, mask_HW, lens, steps, elevation, span) if span > 1 else steps
    return _motion(steps, wide, lens, 1.0 - float(np.mean(mask_HW > 0)))


def integrate(motion: Motion, lens: Lens) -> np.ndarray:
    """Poses (T, 4, 4) from the first frame, taken as level at the origin; roll is held at 0.

    One unit of translation is the median scene depth: lengths compare within a clip only.
    """
    heading = np.cumsum(motion.yaw_deg)
    elevation = np.clip(np.cumsum(motion.pitch_deg), -85.0, 85.0)
    rotation_T33 = P.look(heading, elevation)
    before = P.look(heading, np.zeros_like(elevation)) if lens.model == "yshear" else rotation_T33
    length = motion.parallax_px / lens.fx
    step_T3 = np.zeros((len(heading), 3))
    step_T3[1:] = (before[:-1] @ motion.direction_T3[1:, :, None])[:, :, 0] * length[1:, None]
    return P.compose(rotation_T33, np.cumsum(step_T3, 0))


def _neighbours(gray_THW: np.ndarray, mask_HW: np.ndarray, lens: Lens) -> list[_Step]:
    steps, elevation, last = [], 0.0, (0.0, 0.0)
    for a_HW, b_HW in zip(gray_THW[:-1], gray_THW[1:], strict=True):
        step = _solve(*follow(a_HW, b_HW, mask_HW), gray_THW.shape[1:], lens, elevation, STILL_PX, last)
        elevation = float(np.clip(elevation + step.pitch, -1.2, 1.2))
        last = (float(np.clip(step.yaw, -0.15, 0.15)), float(np.clip(step.pitch, -0.1, 0.1)))
        steps.append(step)
    return steps


def _directions(gray_THW: np.ndarray, mask_HW: np.ndarray, lens: Lens, steps: list[_Step], elevation: np.ndarray,
                span: int) -> list[_Step]:
    """Travel direction of each step over `span` frames around it, where the camera turns little enough."""
    turn = np.concatenate([[0.0], np.cumsum([math.degrees(s.yaw) for s in steps])])
    count, half, wide = len(gray_THW), span // 2, []
    for i, near in enumerate(steps):
        a = min(max(0, i - half + 1), count - 1 - span) if count > span else 0
        b = min(a + span, count - 1)
        if b - a < 2 or abs(turn[b] - turn[a]) > _WIDE_TURN_DEG:
            wide.append(near)
            continue
        p, q = follow(gray_THW[a], gray_THW[b], mask_HW, most=250)
        step = _solve(p, q, gray_THW.shape[1:], lens, float(elevation[a]), STILL_WIDE_PX, None)
        wide.append(_Step(direction=step.direction, rest_px=step.rest_px / (b - a), inliers=step.inliers,
                          tracks=step.tracks))
    return wide


def _solve(p: np.ndarray, q: np.ndarray, size: tuple[int, ...], lens: Lens, elevation: float, still_px: float,
           last: tuple[float, float] | None) -> _Step:
    """One step from tracks p to q (N, 2); `last` is the step before, which settles near-wall ambiguity."""
    if len(p) < MIN_TRACKS:
        return _Step(tracks=len(p))
    if lens.model == "yshear":
        return _solve_yshear(p, q, size, lens, elevation, still_px, last)
    a, b = lens.rays(p, 0.0), lens.rays(q, 0.0)
    rotation, residual = fit_rotation(a, b, lens.fx)
    rest, direction, inliers = float(np.median(residual)), np.zeros(3), float(np.mean(residual < 1.0))
    if rest >= still_px:
        rotation, direction, inliers = _travel(a, b, rotation, size, lens, last)
    yaw, pitch = _yaw_pitch(rotation, elevation)
    return _Step(yaw, pitch, tuple(direction), rest, inliers, len(p))


def _solve_yshear(p: np.ndarray, q: np.ndarray, size: tuple[int, ...], lens: Lens, elevation: float, still_px: float,
                  last: tuple[float, float] | None) -> _Step:
    """The shear is fitted before any relative pose: that would read a plain vertical shift as travel upwards."""
    a = lens.rays(p, elevation)
    yaw, shift, residual = fit_yaw_shear(a, lens.rays(q, elevation), lens.fx)
    rest, direction, inliers = float(np.median(residual)), np.zeros(3), float(np.mean(residual < 1.0))
    after = math.atan(math.tan(elevation) + shift)
    for _ in range(2 if rest >= still_px else 0):
        start = P.look(-math.degrees(yaw), 0.0)
        rotation, direction, inliers = _travel(a, lens.rays(q, after), start, size, lens, last)
        yaw, tilt = _yaw_pitch(rotation, 0.0)
        after = math.atan(math.tan(after) + math.tan(float(np.clip(tilt, -0.5, 0.5))))
        if abs(tilt) < 2e-3:
            break
    return _Step(yaw, after - elevation, tuple(direction), rest, inliers, len(p))


def _yaw_pitch(rotation: np.ndarray, elevation: float) -> tuple[float, float]:
    """World yaw and pitch steps in radians of a camera at `elevation`, for X2 = rotation X1.

    The turn is projected on the vertical, so an elevation that has drifted hardly changes the yaw.
    """
    pitch, yaw, roll = P.so3_log(rotation.T)
    return yaw * math.cos(elevation) - roll * math.sin(elevation), pitch


def _travel(a: np.ndarray, b: np.ndarray, rotation: np.ndarray, size: tuple[int, ...], lens: Lens,
            last: tuple[float, float] | None) -> tuple[np.ndarray, np.ndarray, float]:
    """(rotation, unit travel in the first camera, inlier share) from rays, with X2 = rotation X1 + t.

    Sampling alone often trades sideways travel for a turn. So the pose found competes with refinements that start at
    the rotation-only fit and at the last step's turn; the least truncated epipolar error wins.
    """
    import poselib
    height, width = size
    points = [rays[:, :2] * lens.fx + (lens.cx, lens.cy) for rays in (a, b)]         # square pixels, horizon at cy
    camera = {"model": "SIMPLE_PINHOLE", "width": width, "height": height, "params": [lens.fx, lens.cx, lens.cy]}
    found, _ = poselib.estimate_relative_pose(
        *points, camera, camera, {"max_epipolar_error": 0.6, "max_iterations": 100, "min_iterations": 20}, {})
    options = [(np.asarray(found.R), np.asarray(found.t).ravel())]
    starts = [rotation] if last is None else [rotation, P.look(-math.degrees(last[0]), -math.degrees(last[1]))]
    for start in starts:
        first = poselib.CameraPose()
        first.q, first.t = P.to_quaternion(start, order="wxyz"), travel_given_rotation(a, b, start)
        refined, _ = poselib.refine_relative_pose(*points, first, camera, camera, _REFINE)
        options.append((np.asarray(refined.R), np.asarray(refined.t).ravel()))
    scored = []
    for option in options + (_near_wall(a, b, lens) if last is not None else []):
        cost, inliers = _epipolar(a, b, option, lens.fx)
        jerk = 0.0 if last is None else _JERK_COST * min(_turn_change(option[0], last), 0.2)
        scored.append((cost + jerk, inliers, option))
    _, inliers, chosen = min(scored, key=lambda entry: entry[0])
    travel = -chosen[0].T @ facing(a, b, *chosen)
    return chosen[0], travel / max(float(np.linalg.norm(travel)), 1e-9), inliers


def _epipolar(a: np.ndarray, b: np.ndarray, pose: tuple[np.ndarray, np.ndarray], f_px: float) -> tuple[float, float]:
    """Mean truncated Sampson error in square pixels, and the share of tracks within a pixel."""
    x, y, z = pose[1] / max(float(np.linalg.norm(pose[1])), 1e-12)
    essential = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ pose[0]
    line_b, line_a = a @ essential.T, b @ essential
    slope = line_b[:, 0] ** 2 + line_b[:, 1] ** 2 + line_a[:, 0] ** 2 + line_a[:, 1] ** 2
    error = np.sum(b * line_b, axis=1) ** 2 / np.maximum(slope, 1e-12) * f_px**2
    return float(np.minimum(error, 1.0).mean()), float(np.mean(error < 0.36))


def _near_wall(a: np.ndarray, b: np.ndarray, lens: Lens) -> list[tuple[np.ndarray, np.ndarray]]:
    """Poses of the one plane that explains most tracks, where there is one: there five points do not settle a pose."""
    plane, on_plane = cv2.findHomography(a[:, :2], b[:, :2], cv2.RANSAC, 0.8 / lens.fx, maxIters=200, confidence=0.99)
    if plane is None or on_plane.mean() < 0.6:
        return []
    rays = a[on_plane.ravel() > 0]
    _, rotations, shifts, normals = cv2.decomposeHomographyMat(plane, np.eye(3))
    return [(r, t.ravel()) for r, t, n in zip(rotations, shifts, normals, strict=True)
            if np.mean(rays @ n.ravel() > 0) > 0.95 and np.linalg.norm(t) > 1e-3]


def _turn_change(rotation: np.ndarray, last: tuple[float, float]) -> float:
    yaw, pitch = _yaw_pitch(rotation, 0.0)
    return abs(yaw - last[0]) + abs(pitch - last[1]) + 0.5 * abs(math.atan2(rotation[1, 0], rotation[1, 1]))


def _motion(steps: list[_Step], wide: list[_Step], lens: Lens, overlay_share: float) -> Motion:
    def at_rest_first(values: list) -> np.ndarray:
        array = np.asarray(values, float)
        return np.concatenate([np.zeros_like(array[:1]), array])

    raw_yaw = at_rest_first([math.degrees(s.yaw) for s in steps])
    raw_pitch = at_rest_first([math.degrees(s.pitch) for s in steps])
    tracks = at_rest_first([s.tracks for s in steps])
    seen = tracks >= MIN_TRACKS
    raw_yaw, yaw_gap = bridged(raw_yaw, seen)
    raw_pitch, pitch_gap = bridged(raw_pitch, seen)
    yaw, pitch = hampel(raw_yaw, floor=0.004 * 57.3), hampel(raw_pitch, floor=0.004 * 57.3)
    yaw[0] = pitch[0] = 0.0
    rest = at_rest_first([s.rest_px for s in steps])
    error = _standard_error(rest, tracks, lens)
    inliers = at_rest_first([min(near.inliers, far.inliers) for near, far in zip(steps, wide, strict=True)])
    fewest = at_rest_first([min(near.tracks, far.tracks) for near, far in zip(steps, wide, strict=True)])
    confidence = inliers * np.clip(fewest / 60, 0, 1)
    confidence[0] = 1.0
    return Motion(
        yaw_deg=yaw, pitch_deg=pitch, yaw_se_deg=np.where(np.isnan(yaw_gap), np.hypot(error, raw_yaw - yaw), yaw_gap),
        pitch_se_deg=np.where(np.isnan(pitch_gap), np.hypot(error, raw_pitch - pitch), pitch_gap),
        direction_T3=at_rest_first([s.direction for s in wide]),
        parallax_px=at_rest_first([s.rest_px for s in wide]), confidence=confidence, tracks=tracks.astype(int),
        overlay_share=overlay_share)


def bridged(steps_deg_T: np.ndarray, seen_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps with unseen ones between two seen ones put on the line between them, as a turning camera goes on turning.

    Also their standard error, NaN elsewhere: what the two ends differ by, at least 2 degrees. Unseen steps with
    nothing seen on one side stay as they are.
    """
    known = np.flatnonzero(seen_T)
    filled, error = steps_deg_T.copy(), np.full(len(steps_deg_T), np.nan)
    if not len(known):
        return filled, error
    inside = ~seen_T & (np.arange(len(seen_T)) > known[0]) & (np.arange(len(seen_T)) < known[-1])
    filled[inside] = np.interp(np.flatnonzero(inside), known, steps_deg_T[known])
    after = np.searchsorted(known, np.flatnonzero(inside))
    error[inside] = np.maximum(2.0, np.abs(steps_deg_T[known[after]] - steps_deg_T[known[after - 1]]))
    return filled, error


def _standard_error(rest_px: np.ndarray, tracks: np.ndarray, lens: Lens) -> np.ndarray:
    """Degrees: tracking scatter over the root of the tracks, five times that where travel is fitted too; floored."""
    scatter_px = np.where(rest_px < STILL_PX, rest_px, 5 * np.clip(rest_px, 0.3, 2.0))
    error = np.degrees(scatter_px / lens.fx) / np.sqrt(np.maximum(tracks, 1.0))
    return np.where(tracks < MIN_TRACKS, 180.0, np.maximum(error, _SE_FLOOR_DEG)) * (np.arange(len(tracks)) > 0)
