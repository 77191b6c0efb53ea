"""Errors of one labelled clip against its truth, and figures pooled over clips. Frame 0, at rest, never counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from labels_corpus import Labelled

from worldloom.annotators.actions.label import best_guess
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import UNCERTAIN

STILL_KINDS = ("rotate", "look", "stationary")
ONSET_FRAMES = 3            # an onset found this close to a true one is right


@dataclass(frozen=True)
class Axis:
    """One movement axis over the frames whose truth is not uncertain itself."""
    truth: np.ndarray           # -1, 0, +1
    label: np.ndarray           # the same, or 2
    forced: np.ndarray          # the label, and the likeliest value where it is uncertain

    @property
    def certain(self) -> np.ndarray:
        return self.label != UNCERTAIN


@dataclass(frozen=True)
class Scored:
    """Errors of one clip."""
    clip: Labelled
    yaw: np.ndarray             # estimate minus truth, degrees a frame
    pitch: np.ndarray
    yaw_se: np.ndarray
    longitudinal: Axis
    lateral: Axis
    still_truth: np.ndarray     # frames without movement, by the truth
    claimed: np.ndarray         # frames labelled as moving along either axis
    certain: np.ndarray         # frames certain along both axes
    forced_claim: np.ndarray    # frames whose forced label moves


def score(clip: Labelled) -> Scored:
    est, truth = clip.action, clip.action_truth
    whole = np.asarray(truth.yaw_se_deg) == 0            # a teleporter's step is no turn
    whole[0] = False
    likeliest = dict(zip(("longitudinal", "lateral"), best_guess(clip.camera, clip.fps), strict=True))
    values = {}
    for name in ("longitudinal", "lateral"):
        label, value = np.asarray(getattr(est, name)), np.asarray(getattr(truth, name))
        forced = np.where(label == UNCERTAIN, likeliest[name], label)
        values[name] = (value, label, forced)
    axes = {name: Axis(*(track[whole & (entry[0] != UNCERTAIN)] for track in entry)) for name, entry in values.items()}
    both = np.stack([np.stack(entry)[:, whole] for entry in values.values()])     # axis, (truth, label, forced), frame
    moving = np.isin(both, (-1, 1)).any(0)
    return Scored(clip, (est.yaw_deg - truth.yaw_deg)[whole], (est.pitch_deg - truth.pitch_deg)[whole],
                  np.asarray(est.yaw_se_deg)[whole], axes["longitudinal"], axes["lateral"], (both[:, 0] == 0).all(0),
                  moving[1], (both[:, 1] != UNCERTAIN).all(0), moving[2])


def rmse(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


def median(error: np.ndarray) -> float:
    return float(np.median(np.abs(error)))


def pooled(scored: Sequence[Scored], axis: str) -> Axis:
    parts = [getattr(s, axis) for s in scored]
    return Axis(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("truth", "label", "forced")))


def macro_f1(truth: np.ndarray, label: np.ndarray) -> float:
    """Mean F1 of the classes -1, 0, +1 that the truth holds."""
    found = []
    for value in (-1, 0, 1):
        right = np.count_nonzero((truth == value) & (label == value))
        if np.any(truth == value):
            found.append(2 * right / (np.count_nonzero(truth == value) + np.count_nonzero(label == value)))
    return float(np.mean(found)) if found else float("nan")


def certain_figures(axis: Axis) -> tuple[float, float]:
    """Accuracy among certain frames, and their share."""
    sure = axis.certain
    return _share(axis.label[sure] == axis.truth[sure]), _share(sure)


def uncertain_ratio(scored: Sequence[Scored]) -> tuple[float, float]:
    """Share of wrong forced labels on uncertain frames, and of wrong labels on certain ones; both axes together."""
    axes = [pooled(scored, name) for name in ("longitudinal", "lateral")]
    wrong = np.concatenate([a.forced != a.truth for a in axes])
    sure = np.concatenate([a.certain for a in axes])
    return _share(wrong[~sure]), _share(wrong[sure])


def false_motion(scored: Sequence[Scored]) -> tuple[float, float]:
    """Share of motion among certain frames, and of forced motion among all, where the truth stands still.

    Frames uncertain along one axis and moving along the other count as certain.
    """
    claimed, sure, forced = (np.concatenate([np.zeros(0, bool), *(getattr(s, f)[s.still_truth] for s in scored)])
                             for f in ("claimed", "certain", "forced_claim"))
    return _share(claimed[sure | claimed]), _share(forced)


def within(scored: Sequence[Scored], times: float) -> float:
    """Share of yaw errors within `times` their standard error, over the clips whose lens is calibrated."""
    inside = [np.abs(s.yaw) <= times * s.yaw_se for s in scored if s.clip.camera.is_calibrated]
    return _share(np.concatenate(inside)) if inside else float("nan")


def focal_error(scored: Scored) -> float:
    """Relative error of the focal length."""
    found, true = scored.clip.camera.intrinsics_T4[0][0], scored.clip.camera_truth.intrinsics_T4[0][0]
    return float(found / true - 1)


def onset_counts(clip: Labelled, jump: np.ndarray) -> tuple[int, int, int]:
    """(right, found, true) onsets of a jump track; the clip's last second, which cuts jumps off, is left out."""
    stop = len(jump) - 1.1 * clip.fps
    found, left = ([t for t in onsets if t < stop] for onsets in (jump_onsets(jump), true_jumps(clip)))
    right, true = 0, len(left)
    for onset in found:
        near = [t for t in left if abs(t - onset) <= ONSET_FRAMES]
        if near:
            left.remove(min(near, key=lambda t: abs(t - onset)))
            right += 1
    return right, len(found), true


def jump_onsets(jump: np.ndarray) -> list[int]:
    up = np.asarray(jump) == 1
    return np.flatnonzero(up & ~np.concatenate([[False], up[:-1]])).tolist()


def true_jumps(clip: Labelled) -> list[int]:
    """Onsets by the engine's ground contact and eye height, without keys: the ground is left with a push upwards.

    A push adds 2 m/s or more; steps up a stair lose contact too, but slower than they climbed.
    """
    metres = clip.camera_truth.metres_per_unit or 1.0
    height = -np.asarray(clip.camera_truth.world_from_cam_T44).reshape(-1, 4, 4)[:, 1, 3] * metres
    rise = np.diff(height, prepend=height[:1]) * clip.fps
    pushed = np.diff(rise, prepend=rise[:1]) > 2.0
    leaves = ~clip.on_ground & np.concatenate([[False], clip.on_ground[:-1]])
    return np.flatnonzero(leaves & pushed & (rise > 2.0)).tolist()


def blocked_figures(scored: Sequence[Scored]) -> tuple[float, float, int]:
    """Of the truly blocked frames whose label is certain: share labelled blocked; share of blocked labels that are

    right; and how many truly blocked frames there are.
    """
    rows = [(s.clip.action, s.clip.action_truth) for s in scored]
    rows = [(a, t) for a, t in rows if a.blocked is not None and t.blocked is not None]
    if not rows:
        return float("nan"), float("nan"), 0
    blocked, true = (np.concatenate([np.asarray(pair[i].blocked) == 1 for pair in rows]) for i in (0, 1))
    sure = np.concatenate([(np.asarray(a.longitudinal) != UNCERTAIN) & (np.asarray(a.lateral) != UNCERTAIN)
                           for a, _ in rows])
    return _share(blocked[true & sure]), _share(true[blocked]), int(true.sum())


def over_clips(scored: Sequence[Scored], figure: Callable[[Scored], float], join: Callable[[list[float]], float]
               ) -> float:
    return float(join([figure(s) for s in scored])) if scored else float("nan")


def turn_rate(clip: Labelled) -> float:
    """Largest true turn a frame in degrees."""
    pose = np.asarray(clip.camera_truth.world_from_cam_T44).reshape(-1, 4, 4)
    return float(np.abs(P.wrap180(np.diff(P.heading_deg(pose)))).max(initial=0.0))


def _share(flags: np.ndarray) -> float:
    return float(np.mean(flags)) if np.size(flags) else float("nan")
