"""The lines that the label bench measures: what, how much of it, what is wanted, and whether it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import labels_score as S
from labels_score import STILL_KINDS, Scored


@dataclass(frozen=True)
class Line:
    """One row of the table; `passed` is None where no clip was there to measure."""
    hold: str
    what: str
    measured: str
    wanted: str
    passed: bool | None


Angle = Callable[[Scored], float]
_YAW_MEDIAN: Angle = lambda s: S.median(s.yaw)        # noqa: E731
_PITCH_MEDIAN: Angle = lambda s: S.median(s.pitch)    # noqa: E731
_YAW_RMSE: Angle = lambda s: S.rmse(s.yaw)            # noqa: E731
_PITCH_RMSE: Angle = lambda s: S.rmse(s.pitch)        # noqa: E731


def all_lines(scored: Sequence[Scored], recorded: int) -> list[Line]:
    """Every line that the clips allow; `recorded` clips should have labels."""
    def of(*groups: str) -> list[Scored]:
        return [s for s in scored if s.clip.plan.group in groups]

    engines = {s.clip.plan.engine for s in scored}
    lines = [Line("-", "clips with labels", f"{len(scored)} of {recorded}", "all", len(scored) == recorded)]
    if "world" in engines:
        lines += _world_angles(of("world_fps"), "first person")
        third = [s for s in of("world_tps") if s.clip.plan.kind in ("walk", "turn")]
        lines += _world_angles(third, "third person, walk and turn")
    if "vizdoom" in engines:
        lines += [*_rectified_angles(of("rectified")), *_native_angles(of("native_hud"), "lens declared")]
        lines += _native_found(of("native_unknown"))
    names = {"world": ("world_fps", "world_tps"), "rectified": ("rectified",), "native": ("native_hud", "native_bare")}
    for name, groups in names.items():
        if of(*groups):
            lines += _movement(of(*groups), name)
    return [*lines, *_jumps_and_views(scored), *_honesty(scored), *_focal(scored)]


def _at_most(hold: str, what: str, value: float, bound: float, unit: str = "°") -> Line:
    return Line(hold, what, f"{value:.3f}{unit}", f"≤ {bound:g}{unit}", None if math.isnan(value) else value <= bound)


def _at_least(hold: str, what: str, value: float, bound: float) -> Line:
    return Line(hold, what, f"{value:.3f}", f"≥ {bound:g}", None if math.isnan(value) else value >= bound)


def _median_of(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if len(values) % 2 else sum(sorted(values)[len(values) // 2 - 1:][:2]) / 2


def _world_angles(clips: Sequence[Scored], who: str) -> Iterator[Line]:
    for name, middle, spread in (("yaw", _YAW_MEDIAN, _YAW_RMSE), ("pitch", _PITCH_MEDIAN, _PITCH_RMSE)):
        worst = S.over_clips(clips, middle, max)
        yield _at_most("1", f"world {who}: {name} median, median over clips (worst {worst:.3f})",
                       S.over_clips(clips, middle, _median_of), 0.02)
        yield _at_most("1", f"world {who}: {name} RMSE, median over clips",
                       S.over_clips(clips, spread, _median_of), 0.08)
        yield _at_most("1", f"world {who}: {name} RMSE, worst clip", S.over_clips(clips, spread, max), 0.4)


def _rectified_angles(clips: Sequence[Scored]) -> Iterator[Line]:
    still = [s for s in clips if s.clip.plan.kind in STILL_KINDS]
    moving = [s for s in clips if s.clip.plan.kind not in STILL_KINDS]
    for name, middle, spread in (("yaw", _YAW_MEDIAN, _YAW_RMSE), ("pitch", _PITCH_MEDIAN, _PITCH_RMSE)):
        yield _at_most("1", f"rectified: {name} median, worst clip", S.over_clips(clips, middle, max), 0.05)
        yield _at_most("1", f"rectified: {name} RMSE, median over clips",
                       S.over_clips(clips, spread, _median_of), 0.25)
        yield _at_most("1", f"rectified: {name} RMSE, worst moving clip", S.over_clips(moving, spread, max), 0.6)
        yield _at_most("1", f"rectified: {name} RMSE, worst of rotate, look, still",
                       S.over_clips(still, spread, max), 0.1)


def _native_angles(clips: Sequence[Scored], how: str) -> Iterator[Line]:
    for name, figure, bound in (("yaw median", _YAW_MEDIAN, 0.08), ("yaw RMSE", _YAW_RMSE, 0.5),
                                ("pitch RMSE", _PITCH_RMSE, 0.8)):
        worst = S.over_clips(clips, figure, max)
        yield _at_most("1", f"native, {how}: {name}, median over clips (worst {worst:.2f})",
                       S.over_clips(clips, figure, _median_of), bound)


def _native_found(clips: Sequence[Scored]) -> Iterator[Line]:
    if not clips:
        return
    trusted = [s for s in clips if s.clip.camera.is_calibrated]
    right = [s for s in trusted if s.clip.camera.camera_model == "yshear" and abs(S.focal_error(s)) <= 0.1]
    yield Line("1", "native, nothing declared: model found and focal within 10 %, or uncalibrated",
               f"{len(right)} found, {len(clips) - len(trusted)} uncalibrated, {len(trusted) - len(right)} wrong "
               f"of {len(clips)}", "none wrong", len(right) == len(trusted))
    if right:
        yield from _native_angles(right, "model found")


_MOVEMENT = {  # macro-F1 along and across, accuracy and coverage of certain frames
    "world": (0.98, 0.97, 0.99, 0.90), "rectified": (0.85, 0.85, 0.97, 0.80), "native": (0.85, 0.80, 0.95, 0.70)}


def _movement(clips: Sequence[Scored], name: str) -> Iterator[Line]:
    *f1, accuracy, coverage = _MOVEMENT[name]
    for axis, bound in zip(("longitudinal", "lateral"), f1, strict=True):
        track = S.pooled(clips, axis)
        yield _at_least("2", f"{name}: macro-F1 {axis}, every frame", S.macro_f1(track.truth, track.forced), bound)
        right, share = S.certain_figures(track)
        yield _at_least("2", f"{name}: accuracy of certain frames, {axis}", right, accuracy)
        yield _at_least("2", f"{name}: coverage of certain frames, {axis}", share, coverage)
    still = [s for s in clips if s.clip.plan.kind in STILL_KINDS]
    among, everywhere = S.false_motion(still)
    yield _at_most("2", f"{name}: false motion on still, look, rotate: certain frames", among, 0.02, "")
    yield _at_most("2", f"{name}: false motion on still, look, rotate: every frame, forced", everywhere, 0.05, "")
    turning = [s for s in clips if s.clip.plan.kind == "rotate" and s.clip.plan.drawn.get("weapon")]
    if turning:
        among, everywhere = S.false_motion(turning)
        yield _at_most("2", f"{name}: false motion, 4° a frame with the weapon: certain frames", among, 0.02, "")
        yield _at_most("2", f"{name}: false motion, 4° a frame with the weapon: every frame", everywhere, 0.05, "")
    unsure, sure = S.uncertain_ratio(clips)
    yield _at_least("2", f"{name}: errors of forced uncertain labels ({unsure:.3f}) over certain ones ({sure:.3f})",
                    unsure / sure if sure > 0 else (math.inf if unsure > 0 else math.nan), 3)


def _jumps_and_views(scored: Sequence[Scored]) -> Iterator[Line]:
    recorded = [S.onset_counts(s.clip, s.clip.action_truth.jump) for s in scored]
    right, found, true = map(sum, zip(*recorded, strict=True)) if recorded else (0, 0, 0)
    yield _at_least("2", f"jump onset F1 where recorded ({true} jumps, by ground contact)",
                    2 * right / (found + true) if found + true else math.nan, 0.9)
    seen = [S.onset_counts(s.clip, s.clip.action.jump) for s in scored]
    right, found, _ = map(sum, zip(*seen, strict=True)) if seen else (0, 0, 0)
    yield Line("2", "jump onset precision from pixels", f"{right}/{found}" if found else "uncertain",
               "≥ 0.9 or uncertain", right >= 0.9 * found)
    told = [s for s in scored if s.clip.action.perspective != "uncertain"]
    good = sum(s.clip.action.perspective == s.clip.action_truth.perspective for s in told)
    yield Line("2", "perspective from pixels", f"{good} of {len(told)} right, {len(scored) - len(told)} uncertain",
               "≥ 0.95 or uncertain", good >= 0.95 * len(told))
    recall, precision, count = S.blocked_figures(scored)
    yield _at_least("2", f"walking against a wall is `blocked`, of certain frames ({count} frames; precision "
                    f"{precision:.2f})", recall, 0.9)


def _honesty(scored: Sequence[Scored]) -> Iterator[Line]:
    groups = {"world": "world", "rectified": "rectified", "native": "native", "all": ""}
    for name, start in groups.items():
        clips = [s for s in scored if s.clip.plan.group.startswith(start)]
        for times, low, high in ((1, 0.60, 0.75), (2, 0.90, 0.98)):
            share = S.within(clips, times)
            if not math.isnan(share):
                yield Line("3", f"{name}: yaw errors within {times} standard error{'s' * (times > 1)}", f"{share:.3f}",
                           f"{low:.2f} to {high:.2f}", low <= share <= high)


def _focal(scored: Sequence[Scored]) -> Iterator[Line]:
    for group in ("world_unknown", "rectified_unknown"):
        clips = [s for s in scored if s.clip.plan.group == group]
        if clips:
            trusted = [s for s in clips if s.clip.camera.is_calibrated]
            wrong = [s for s in trusted if abs(S.focal_error(s)) > 0.1]
            errors = ", ".join(f"{100 * S.focal_error(s):+.1f} %" for s in trusted) or "none"
            yield Line("4", f"{group}: focal within 10 %, or uncalibrated",
                       f"found {errors}; {len(clips) - len(trusted)} uncalibrated", "none wrong", not wrong)
