"""Long clips in overlapping windows, each estimated alone, put together by aligning pose and scale on the overlap.

Windows of 150 frames with 10 shared are the sizes that WorldPlay2 names (its appendix B.3). A window's own world is
free up to a similarity: the frames that it shares with the track so far fix rotation (their mean), scale (the median
ratio of their distances) and position. Where nothing moves in the overlap the scale cannot be seen: the last one is
carried on and the whole track says that its scale is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field, model_validator

from worldloom.annotators.camera.estimator import PER_FRAME, Track
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Params
from worldloom.schemas import DataError

_LEAST_SHARE = 0.1        # of the window's usual travel over as many frames: below it the overlap stands still
_WIDEST_LOG = math.log(2.0)     # spread of the ratios over which they say nothing


class Windows(Params):
    """How a long clip is cut: windows of `frames` that share `overlap`, from `above_frames` on."""
    frames: int = Field(150, ge=8)
    overlap: int = Field(10, ge=2)
    above_frames: int = Field(600, ge=8)

    @model_validator(mode="after")
    def _fits(self) -> Windows:
        if 2 * self.overlap > self.frames:
            raise ValueError(f"windows of {self.frames} frames share {self.overlap}; wanted at most half")
        return self


@dataclass(frozen=True)
class Similarity:
    """x -> scale rotation x + shift; `is_scaled` False where the overlap did not show the scale."""
    rotation_33: np.ndarray
    shift_3: np.ndarray
    scale: float
    is_scaled: bool = True

    def poses(self, world_from_cam_T44: np.ndarray) -> np.ndarray:
        position_T3 = self.scale * world_from_cam_T44[:, :3, 3] @ self.rotation_33.T + self.shift_3
        return P.compose(self.rotation_33 @ world_from_cam_T44[:, :3, :3], position_T3)


def in_windows(estimate: Callable[[slice], Track], count: int, windows: Windows) -> Track:
    """The track of `count` frames: at once up to `above_frames`, else window by window, stitched."""
    if count <= max(windows.above_frames, windows.frames):
        return estimate(slice(0, count))
    parts = spans(count, windows)
    return stitched([estimate(part) for part in parts], parts)


def spans(count: int, windows: Windows) -> list[slice]:
    """Windows over `count` frames; the last is longer rather than left with little more than its overlap."""
    step, starts = windows.frames - windows.overlap, [0]
    while starts[-1] + windows.frames < count and count - (starts[-1] + step) > 2 * windows.overlap:
        starts.append(starts[-1] + step)
    stops = [start + windows.frames for start in starts[:-1]] + [count]
    return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


def stitched(tracks: Sequence[Track], parts: Sequence[slice]) -> Track:
    """One track from windows in order; window k covers the frames of parts[k] and shares 2 or more with its neighbour.

    Raises:
        DataError: windows that share too few frames, or tracks that are not as long as their windows.
    """
    whole, scales, unseen = tracks[0], [1.0], False
    _check(tracks, parts)
    for track, part, before in zip(tracks[1:], parts[1:], parts[:-1], strict=True):
        shared = before.stop - part.start
        moved = align(whole.world_from_cam_T44[part.start:], track.world_from_cam_T44[:shared], otherwise=scales[-1],
                      usual_step=_usual_step(track))
        whole = _joined(whole, track, moved, shared)
        scales.append(moved.scale)
        unseen |= not moved.is_scaled
    return _with_scale(whole, tracks, np.array(scales), unseen)


def align(onto_N44: np.ndarray, from_N44: np.ndarray, *, otherwise: float = 1.0,
          usual_step: float = 0.0) -> Similarity:
    """The similarity that takes one window's poses onto the same frames of another.

    Args:
        otherwise: the scale where the frames stand still.
        usual_step: length of a step elsewhere in `from`, which says what standing still is.
    """
    u, _, vt = np.linalg.svd((onto_N44[:, :3, :3] @ np.swapaxes(from_N44[:, :3, :3], 1, 2)).sum(0))
    rotation = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
    found = ratio(onto_N44[:, :3, 3], from_N44[:, :3, 3], usual_step)
    size = otherwise if found is None else found
    shift = (onto_N44[:, :3, 3] - size * from_N44[:, :3, 3] @ rotation.T).mean(0)
    return Similarity(rotation, shift, size, found is not None)


def ratio(onto_N3: np.ndarray, from_N3: np.ndarray, usual_step: float = 0.0) -> float | None:
    """Median ratio of the distances between the same places in two windows; None where they hardly move or disagree."""
    i, j = np.triu_indices(len(from_N3), 1)
    here, there = (np.linalg.norm(x[i] - x[j], axis=1) for x in (from_N3, onto_N3))
    far = max(float(here.max()), 1e-300)
    if far <= _LEAST_SHARE * usual_step * (len(from_N3) - 1) or there.max() <= 1e-9 * far or far <= 1e-12:
        return None
    apart = (here > 0.3 * far) & (there > 0)
    log = np.log(there[apart] / here[apart]) if apart.any() else np.full(1, np.inf)
    middle = float(np.median(log))
    spread = float(np.median(np.abs(log - middle)))
    return math.exp(middle) if math.isfinite(middle) and spread < _WIDEST_LOG else None


def _usual_step(track: Track) -> float:
    """Median length of the steps that move, in the track's unit."""
    length = np.linalg.norm(np.diff(track.world_from_cam_T44[:, :3, 3], axis=0), axis=1)
    moving = length[length > 0.05 * max(float(length.max(initial=0.0)), 1e-300)]
    return float(np.median(moving)) if len(moving) else 0.0


def _joined(whole: Track, track: Track, moved: Similarity, shared: int) -> Track:
    """The track so far and the next window: poses pass over gradually in the overlap, all else at its middle."""
    there, here = whole.world_from_cam_T44[-shared:], moved.poses(track.world_from_cam_T44)
    share = (np.arange(shared) + 0.5) / shared
    mixed = P.compose(P.slerp(there[:, :3, :3], here[:shared, :3, :3], share),
                      (1 - share)[:, None] * there[:, :3, 3] + share[:, None] * here[:shared, :3, 3])
    middle = shared // 2 or 1
    fields = {name: np.concatenate([getattr(whole, name)[:len(whole) - shared + middle], getattr(track, name)[middle:]])
              for name in PER_FRAME}
    fields["world_from_cam_T44"] = np.concatenate([whole.world_from_cam_T44[:-shared], mixed, here[shared:]])
    return replace(whole, **fields)


def _with_scale(whole: Track, tracks: Sequence[Track], scales: np.ndarray, unseen: bool) -> Track:
    """The joined track with what the seams say of its scale: drift as p90 over p10, metres as the windows' median."""
    low, high = np.percentile(scales, [10, 90])
    metres = [track.metres_per_unit for track in tracks]
    known = None if any(m is None for m in metres) else float(np.median(np.array(metres, float) / scales))
    return replace(whole, scale_spread=float(high / low), metres_per_unit=None if unseen else known,
                   scale_status="unknown" if unseen else whole.scale_status, focal_spread=_focal_spread(tracks))


def _focal_spread(tracks: Sequence[Track]) -> float | None:
    """The windows' own spread of a found focal length, or what they differ by, whichever is more."""
    own = [track.focal_spread for track in tracks if track.focal_spread is not None]
    if not own:
        return None
    between = float(np.std([math.log(np.median(track.intrinsics_T4[:, 0])) for track in tracks]))
    return max([*own, between])


def _check(tracks: Sequence[Track], parts: Sequence[slice]) -> None:
    for track, part in zip(tracks, parts, strict=True):
        if len(track) != part.stop - part.start:
            raise DataError(f"window [{part.start}, {part.stop}) has a track of {len(track)} frames")
    for before, after in zip(parts[:-1], parts[1:], strict=True):
        if not before.start < after.start <= before.stop - 2:
            raise DataError(f"windows [{before.start}, {before.stop}) and [{after.start}, {after.stop}) share fewer "
                            "than 2 frames")
