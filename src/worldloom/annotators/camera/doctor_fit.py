"""How far the poses of each convention are from the motion that pairs of pictures show, and which surely differ."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from worldloom.annotators.camera.doctor_pairs import WIDTH_PX, Pair
from worldloom.dataengine.geometry import poses as P

FLOOR_PX = 0.2                     # errors below it are noise of the tracks
_RATIO, _DRAWS = 1.5, 500
_HOPELESS = 4.0                    # times the best error: no other lens saves such a convention
_SAME_DEG = 0.05


@dataclass
class Hypothesis:
    """One convention's account; pixels are of a picture 320 wide, medians are over the pairs."""
    convention: str
    error_px: float
    epipolar_px: float             # distance from the whole epipolar line
    forward_share: float           # of points with parallax: depth positive in both frames
    hfov_deg: float
    error_pairs_px: np.ndarray = field(repr=False)
    verdict: str = "no"            # holds, tied, no
    same_motion: bool = False      # predicts the best one's motion itself, so no pixel can tell them apart


def relative(pose_T44: np.ndarray, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation that take points from the first camera to the second."""
    a, b = pose_T44[pair.first], pose_T44[pair.second]
    return b[:3, :3].T @ a[:3, :3], b[:3, :3].T @ (a[:3, 3] - b[:3, 3])


def misfit(pair: Pair, rotation: np.ndarray, shift: np.ndarray, lens: np.ndarray) -> tuple[float, float, float]:
    """(error px, epipolar px, forward share) of a pair under a relative pose; medians over the points."""
    bearing = np.concatenate([(pair.p_N2 - lens[2:]) / lens[:2], np.ones((len(pair.p_N2), 1))], 1) @ rotation.T
    length = np.linalg.norm(shift)
    start = bearing[:, :2] / np.maximum(bearing[:, 2:], 1e-3)
    gap = pair.q_N2 - lens[2:] - start * lens[:2]
    if length < 1e-9:
        rest = float(np.median(np.linalg.norm(gap, axis=1)))
        return rest, rest, 0.5
    unit = shift / length
    way = (unit[:2] - start * unit[2]) * lens[:2]
    along = (gap * way).sum(1) / np.maximum((way * way).sum(1), 1e-12)
    most = 1 / unit[2] if unit[2] > 1e-9 else np.inf
    off = np.linalg.norm(gap - np.clip(along, 0, most)[:, None] * way, axis=1)
    across = np.linalg.norm(gap - along[:, None] * way, axis=1)
    moved = np.linalg.norm(gap, axis=1) > 1.0
    forward = float(((along > 0) & (along < most))[moved].mean()) if moved.any() else 0.5
    return float(np.median(off)), float(np.median(across)), forward


def accounts(
    tracks: dict[str, np.ndarray], pairs: list[Pair], lenses: list[np.ndarray],
) -> list[Hypothesis]:
    """Every convention with the lens that fits it best, least error first.

    An unknown lens is searched for between those tried too, where the convention is not hopeless.
    """
    found = {}
    for name, poses in tracks.items():
        steps = [relative(poses, pair) for pair in pairs]
        found[name] = steps, [(_errors(pairs, steps, lens), lens) for lens in lenses]
    limit = _HOPELESS * min(float(np.median(_least(tried)[0][:, 0])) for _, tried in found.values()) + FLOOR_PX
    for steps, tried in found.values():
        if len(lenses) > 1 and np.median(_least(tried)[0][:, 0]) < limit:
            _search(pairs, steps, tried)
    return sorted((_account(name, *_least(tried)) for name, (_, tried) in found.items()), key=lambda row: row.error_px)


def _search(pairs: list[Pair], steps: list, tried: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Adds lenses ever nearer to the best one."""
    for scale in (1.08, 1.04, 1.02):
        lens = _least(tried)[1]
        for near in (lens * [scale, scale, 1, 1], lens / [scale, scale, 1, 1]):
            tried.append((_errors(pairs, steps, near), near))


def _errors(pairs: list[Pair], steps: list, lens: np.ndarray) -> np.ndarray:
    return np.array([misfit(pair, *step, lens) for pair, step in zip(pairs, steps, strict=True)])


def _account(convention: str, rows: np.ndarray, lens: np.ndarray) -> Hypothesis:
    error, epipolar, forward = np.median(rows, 0)
    hfov = float(np.degrees(2 * np.arctan(WIDTH_PX / 2 / lens[0])))
    return Hypothesis(convention, float(error), float(epipolar), float(forward), hfov, rows[:, 0])


def _least(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return min(found, key=lambda pair: float(np.median(pair[0][:, 0])))


def draws(count: int) -> np.ndarray:
    """Resamples (draws, count) of the pairs; every hypothesis sees the same ones."""
    return np.random.default_rng(0).integers(0, count, (_DRAWS, count))


def beaten_share(best: Hypothesis, other: Hypothesis, floor_px: float) -> float:
    """Share of resamples of the pairs in which the other's error is clearly above the best one's, pair against pair."""
    ours, theirs = (np.log(np.maximum(row.error_pairs_px, floor_px)) for row in (best, other))
    return float(((theirs - ours)[draws(len(ours))].mean(1) > np.log(_RATIO)).mean())


def same_motion(a_T44: np.ndarray, b_T44: np.ndarray, pairs: list[Pair]) -> bool:
    """Whether two tracks turn and move the camera alike in every pair."""
    for pair in pairs:
        (turn_a, shift_a), (turn_b, shift_b) = relative(a_T44, pair), relative(b_T44, pair)
        angle = np.degrees(np.linalg.norm(P.so3_log((turn_a.T @ turn_b)[None])))
        size = max(np.linalg.norm(shift_a), np.linalg.norm(shift_b))
        if angle > _SAME_DEG or np.linalg.norm(shift_a - shift_b) > np.radians(_SAME_DEG) * size + 1e-9:
            return False
    return True
