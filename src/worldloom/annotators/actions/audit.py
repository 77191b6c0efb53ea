"""Stage `audit`: action labels held against the pixels by dense flow, independently of how they were made.

Each step's flow is explained by its label and by the label with one sign flipped, or one turn left out. The one that
leaves clearly less of the flow unexplained is right; where neither does, nothing is said. The turn is taken out as
labelled, so that forward shows as expansion away from the epipole, backward as contraction, sideways as parallax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from pydantic import Field

from worldloom.annotators.actions.flow_check import (
    MIN_PLACES,
    UPRIGHT,
    Flow,
    FlowMeter,
    View,
    cone,
    turned,
    unexplained_px,
    without_static,
)
from worldloom.annotators.actions.lag import lag_frames
from worldloom.annotators.camera.overlay import usable_mask
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import UNCERTAIN, Action, Audit, Camera, Clip, DataError

METHOD = "dis_flow/2"
AXES = ("yaw", "pitch", "longitudinal", "lateral", "still")
MIN_AGREEMENT, MIN_CHECKED = 0.85, 8
WIDTH_PX, MAX_STEPS = 320, 240
AGREES, DISAGREES = 1, 0
_WORSE, _MUCH_WORSE = 0.8, 0.5         # the better explanation leaves at most this share; no turn at all, this one
_WORSE_PX = 0.15
_MIN_TURN_PX, _MIN_TURN_SHARE = 1.5, 0.3      # a turn that moves the picture less, or less of the flow, is not checked
_MIN_SHEAR_PX = 4.0                    # the same for a look that an engine draws by shifting whole rows
_STILL_PX, _MOVED_PX = 0.5, 1.2        # flow beside the turn of a camera that stays; of one that moves, a step
_TURN_LEAK = 0.06                      # share of a turn's own flow that may be left by a wrong lens
_LONG_FLOW_PX = 8.0                    # steps are joined until the flow is about this long
_JOINED_S = 0.25


Step = tuple[int, int, Flow]              # first frame, last frame, flow from one to the other


class AuditParams(Params):
    width_px: int = Field(WIDTH_PX, ge=64, description="width at which flow is measured")
    max_steps: int = Field(MAX_STEPS, ge=8, description="steps of a clip that are looked at, evenly spread")


class AuditStage:
    """One row a clip: shares of agreeing frames by axis, a verdict, and the frames that disagree most."""
    name: ClassVar[str] = "audit"
    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("action", "camera", "clip")
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Audit
    budget_s: ClassVar[float] = 300.0
    Params = AuditParams

    def __init__(self, params: AuditParams | None = None) -> None:
        self.params = params or AuditParams()

    def setup(self, context: Context) -> None:
        cv2.setNumThreads(1)
        self.context = context

    def process(self, item: Inputs) -> Iterator[Any]:
        clip: Clip = item["clip"]
        gray_THW = clip_frames(self.context.media_path(clip), clip, self.params.width_px)
        yield audit(gray_THW, item["camera"], item["action"], clip, max_steps=self.params.max_steps)


def clip_frames(media: Path, clip: Clip, width_px: int = WIDTH_PX) -> np.ndarray:
    """Gray frames uint8 (T, H, W) of a clip, at most `width_px` wide."""
    width = min(width_px, clip.width)
    height = max(2, round(clip.height * width / clip.width))
    return np.stack([frame.rgb_HWC for frame in iter_frames(media, width=width, height=height, gray=True)])


def audit(gray_THW: np.ndarray, camera: Camera, action: Action, clip: Clip, *, max_steps: int = MAX_STEPS) -> Audit:
    """The labels of a clip against its frames, gray uint8 (T, H, W) of any size.

    Raises:
        DataError: frames, poses and labels differ in number.
    """
    count = len(gray_THW)
    if not count == camera.num_frames == action.num_frames == clip.num_frames:
        raise DataError(f"clip {clip.clip_id}: {count} frames, {camera.num_frames} poses and {action.num_frames} "
                        f"labels for a clip of {clip.num_frames} frames; they must agree")
    return judge(measured(gray_THW, clip.fps, max_steps), gray_THW.shape[1:], camera, action, clip)


def judge(steps: Iterable[Step], shape: tuple[int, ...], camera: Camera, action: Action, clip: Clip) -> Audit:
    """The labels of a clip against flow measured in pictures of `shape` (H, W)."""
    count = action.num_frames
    labels = _Labels(camera, action, np.array([shape[1] / clip.width, shape[0] / clip.height]))
    checks = {axis: np.full(count, UNCERTAIN, np.int8) for axis in AXES}
    seen_T2, span_T = np.full((count, 2), np.nan), np.zeros(count, int)
    for first, last, flow in steps:
        checks_here = _checked(flow, labels, first, last)
        for axis, value in checks_here.items():
            checks[axis][last] = value
        seen_T2[last], span_T[last] = labels.seen_turn(flow, last) / (last - first), last - first
    return _row(clip, action, checks, seen_T2, labels, span_T)


def measured(gray_THW: np.ndarray, fps: float, max_steps: int = MAX_STEPS) -> list[Step]:
    """Flow of steps spread over the clip, where enough places show it; slow ones are joined for a longer flow."""
    meter, count = FlowMeter(usable_mask(gray_THW, fps=fps)), len(gray_THW)
    longest, steps = max(1, round(_JOINED_S * fps)), []
    for last in range(1, count, max(1, -(-(count - 1) // max_steps))):
        flow = meter.between(gray_THW[last - 1], gray_THW[last])
        joined = int(np.clip(_LONG_FLOW_PX // max(flow.median_px, 0.1), 1, min(longest, last)))
        if joined > 1:
            flow = meter.between(gray_THW[last - joined], gray_THW[last])
        steps.append((last - joined, last, flow))
    flows = without_static([flow for *_, flow in steps])
    return [(first, last, flow) for (first, last, _), flow in zip(steps, flows, strict=True)
            if len(flow.a_N2) >= MIN_PLACES]


class _Labels:
    """What the labels say of the camera, in pixels of the measured frames."""

    def __init__(self, camera: Camera, action: Action, scale_xy: np.ndarray) -> None:
        poses_T44 = np.asarray(camera.world_from_cam_T44, float).reshape(-1, 4, 4)
        self.intrinsics_T4 = np.asarray(camera.intrinsics_T4, float) * np.tile(scale_xy, 2)
        self.model, self.action = camera.camera_model, action
        self.elevation, self.roll = P.elevation_deg(poses_T44), P.roll_deg(poses_T44)
        self.turn_T2 = np.stack([np.asarray(action.yaw_deg, float), np.asarray(action.pitch_deg, float)], 1)
        self.sure_T2 = np.stack([np.asarray(action.yaw_se_deg, float), np.asarray(action.pitch_se_deg, float)], 1)

    def turn(self, first: int, last: int) -> np.ndarray:
        """Yaw and pitch in degrees from frame `first` to `last`."""
        return self.turn_T2[first + 1:last + 1].sum(0)

    def turn_se(self, first: int, last: int) -> np.ndarray:
        return np.sqrt((self.sure_T2[first + 1:last + 1] ** 2).sum(0))

    def views(self, first: int, last: int, pitch_deg: float) -> tuple[View, View]:
        start = self.elevation[first]
        return (View(self.intrinsics_T4[first], self.model, start, self.roll[first]),
                View(self.intrinsics_T4[last], self.model, start + pitch_deg, self.roll[last]))

    def held(self, first: int, last: int) -> tuple[int, int]:
        """Forward and right over the steps; uncertain where they change, or while the body is in the air."""
        values = []
        for track in (self.action.longitudinal, self.action.lateral):
            here = np.asarray(track)[first + 1:last + 1]
            values.append(int(here[0]) if (here == here[0]).all() else UNCERTAIN)
        jumps = (np.asarray(self.action.jump)[first + 1:last + 1] == 1).any()
        return (UNCERTAIN, UNCERTAIN) if jumps else (values[0], values[1])

    def seen_turn(self, flow: Flow, last: int) -> np.ndarray:
        """Yaw and pitch in degrees that the middle of the flow would be, were there no translation."""
        middle = np.median(flow.moved_N2, 0) / self.intrinsics_T4[last, :2]
        return np.degrees(np.arctan(middle)) * [-1, 1]


@dataclass(frozen=True)
class _Motion:
    """A turn in degrees and signs of movement, as labelled or with one of them flipped."""
    yaw: float
    pitch: float
    longitudinal: int
    lateral: int

    def directions(self) -> np.ndarray:
        """Level directions of travel that fit; a camera that stays may bob."""
        forward, right = ((-1, 0, 1) if v == UNCERTAIN else (v,) for v in (self.longitudinal, self.lateral))
        level = cone(forward, right)
        return np.concatenate([level, UPRIGHT]) if 0 in forward and 0 in right else level


def _checked(flow: Flow, labels: _Labels, first: int, last: int) -> dict[str, int]:
    """1, 0 or 2 for each axis of one step."""
    (yaw, pitch), (forward, right) = labels.turn(first, last), labels.held(first, last)
    yaw_se, pitch_se = labels.turn_se(first, last)
    said = _Motion(yaw, pitch, forward, right)
    focal_x, focal_y = labels.intrinsics_T4[last, :2]
    others: dict[str, list[_Motion]] = {}
    least_px = max(_MIN_TURN_PX, _MIN_TURN_SHARE * flow.median_px)
    if np.radians(abs(yaw)) * focal_x > least_px and abs(yaw) > 2 * yaw_se:
        others["yaw"] = [replace(said, yaw=-yaw), replace(said, yaw=0.0)]
    least_look_px = max(_MIN_SHEAR_PX, least_px) if labels.model == "yshear" else least_px
    if np.radians(abs(pitch)) * focal_y > least_look_px and abs(pitch) > 2 * pitch_se:
        others["pitch"] = [replace(said, pitch=-pitch), replace(said, pitch=0.0)]
    if forward in (-1, 1):
        others["longitudinal"] = [replace(said, longitudinal=-forward)]
    if right in (-1, 1):
        others["lateral"] = [replace(said, lateral=-right)]
    said_px = _left_px(flow, labels, first, last, said)
    found = {axis: _better(said_px, *(_left_px(flow, labels, first, last, other) for other in motions))
             for axis, motions in others.items()}
    if forward == right == 0:
        found["still"] = _stays(flow, labels, first, last, said)
    return found


def _left_px(flow: Flow, labels: _Labels, first: int, last: int, motion: _Motion) -> float:
    before, after = labels.views(first, last, motion.pitch)
    return unexplained_px(flow, turned(flow, before, after, motion.yaw), after, motion.directions())


def _better(said_px: float, flipped_px: float, none_px: float = np.inf) -> int:
    """1 where the label explains the flow clearly better than its flip; 0 the other way round, or where none does."""
    if _clearly(flipped_px, said_px, _WORSE) or _clearly(none_px, said_px, _MUCH_WORSE):
        return DISAGREES
    return AGREES if _clearly(said_px, flipped_px, _WORSE) else UNCERTAIN


def _clearly(less_px: float, more_px: float, share: float) -> bool:
    return less_px < share * more_px and more_px - less_px > _WORSE_PX


def _stays(flow: Flow, labels: _Labels, first: int, last: int, said: _Motion) -> int:
    """Whether no movement is right: little flow beside the turn and a bob, or much that only travel explains."""
    staying_px = _left_px(flow, labels, first, last, said)
    leak_px, steps = _TURN_LEAK * flow.median_px, last - first
    if staying_px < _STILL_PX + leak_px:
        return AGREES
    moving = _Motion(said.yaw, said.pitch, UNCERTAIN, UNCERTAIN)
    moving_px = _left_px(flow, labels, first, last, moving)
    moved = staying_px > steps * _MOVED_PX + 2 * leak_px and moving_px < 0.5 * staying_px
    return DISAGREES if moved else UNCERTAIN


def _row(clip: Clip, action: Action, checks: dict[str, np.ndarray], seen_T2: np.ndarray, labels: _Labels,
         span_T: np.ndarray) -> Audit:
    counts = {axis: int((track != UNCERTAIN).sum()) for axis, track in checks.items()}
    shares = {axis: float((checks[axis] == AGREES).sum() / n) if n else None for axis, n in counts.items()}
    judged = {axis: share for axis, share in shares.items() if share is not None and counts[axis] >= MIN_CHECKED}
    focal_px = labels.intrinsics_T4[:, :2].mean(0)
    lag, gain = lag_frames(labels.turn_T2 * focal_px, seen_T2 * focal_px, span_T, clip.fps)
    wrong = any(at_most(share, counts[axis]) < MIN_AGREEMENT for axis, share in judged.items())
    verdict = "shifted" if lag else "disagrees" if wrong else "agrees" if judged else "cannot be told"
    return Audit(
        clip_id=clip.clip_id, method=METHOD, num_frames=action.num_frames, verdict=verdict,
        agreement=min(judged.values(), default=None), checked=sum(counts.values()),
        lag_frames=lag, lag_gain=gain, worst_frames=_worst(checks),
        yaw_seen_deg=seen_T2[:, 0].astype(np.float32), pitch_seen_deg=seen_T2[:, 1].astype(np.float32),
        **{f"{axis}_agreement": share for axis, share in shares.items()},
        **{f"{axis}_checked": n for axis, n in counts.items()}, **{f"{axis}_check": t for axis, t in checks.items()})


def at_most(share: float, count: int) -> float:
    """The share that lies above what was counted with 95 percent confidence (Wilson)."""
    z = 1.645
    middle, spread = share + z**2 / (2 * count), z * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return float((middle + spread) / (1 + z**2 / count))


def _worst(checks: dict[str, np.ndarray]) -> list[int]:
    wrong = sum((track == DISAGREES).astype(int) for track in checks.values())
    order = np.argsort(-wrong, kind="stable")
    return [int(t) for t in order[:8] if wrong[t]]
