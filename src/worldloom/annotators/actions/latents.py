"""Per-latent views of per-frame actions, for video autoencoders of any temporal stride.

Columns: pitch_deg, yaw_deg, longitudinal, lateral, perspective (tps 0, fps 1), jump. Never stored as truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from worldloom.dataengine.geometry.poses import check_times
from worldloom.schemas import UNCERTAIN, Action, DataError

ALIGNMENTS: dict[str, tuple[int, ...]] = {"causal_first": (1,), "first_two": (1, 1), "uniform": ()}
"""Frames of the first latents, before groups of the stride: causal_first is 1 + s (L - 1) frames with anchors 0, s, 2s;
first_two has anchors 0, 1, s + 1; uniform, for autoencoders that are not causal, s - 1, 2s - 1."""
Alignment = str | Sequence[int]
_LOST_SE_DEG = 25.0
_STILL, _MOVING = 0.15, 0.35           # displacement over that of the whole group at the usual step
_ACTIVE, _INACTIVE = 0.50, 0.38        # share of the displacement along an axis: at least, at most


def groups(
    num_frames: int, stride: int = 4, alignment: Alignment = "causal_first", *, start: int = 0,
) -> list[tuple[int, int]]:
    """Frames [first, stop) of each latent; frames after the last whole group are left out.

    Args:
        alignment: a name of `ALIGNMENTS`, or the frames of the first latents, such as (5,) for 5 + 17 k with stride 17.
        start: first frame of a window. It is encoded anew, as a first latent: stored latents of a longer clip may not
            be cut out, since theirs remember the frames before.
    Raises:
        DataError: an unknown alignment, or no whole latent fits.
    """
    lead = ALIGNMENTS.get(alignment) if isinstance(alignment, str) else tuple(alignment)
    if lead is None or stride < 1 or any(size < 1 for size in lead):
        raise DataError(f"alignment {alignment!r} with stride {stride} is not known; wanted {', '.join(ALIGNMENTS)}, "
                        "or the frames of the first latents")
    if not 0 <= start < max(num_frames, 1):
        raise DataError(f"a window from frame {start} of {num_frames} frames; wanted one inside")
    rest = max(0, num_frames - start - sum(lead)) // stride
    edges = start + np.cumsum([0, *lead, *[stride] * rest])
    found = [(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True) if b <= num_frames]
    if not found:
        raise DataError(f"{num_frames - start} frames hold no latent of stride {stride}")
    return found


def latent_map(
    num_frames: int, stride: int = 4, alignment: Alignment = "causal_first", *, start: int = 0,
) -> np.ndarray:
    """int32 (L, 3): first frame, last frame and anchor of each latent, to store beside latents.

    The anchor is the frame whose pose stands for the latent: the last one.
    """
    spans = groups(num_frames, stride, alignment, start=start)
    return np.array([(first, stop - 1, stop - 1) for first, stop in spans], np.int32)


def frames_of(latents: int, stride: int = 4, alignment: Alignment = "causal_first") -> int:
    """Frames that this many latents hold: stride (L - 1) + 1 for causal_first. Inverse of counting `groups`."""
    lead = ALIGNMENTS[alignment] if isinstance(alignment, str) else tuple(alignment)
    return sum(lead[:latents]) + stride * max(0, latents - len(lead))


def per_latent(
    action: Action, stride: int = 4, alignment: Alignment = "causal_first", *, start: int = 0,
    travel_T3: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Actions float32 (L, 6) and where they are certain, bool (L, 6); an uncertain entry is 0.

    Angles are summed; a step whose standard error is above 25 degrees (lost, or a cut in the path) makes the sum
    uncertain. Movement is that of the group's displacement, seen from its first step, so there and back is none. What
    an uncertain frame may have done is tried; where that changes the answer, the latent is uncertain. Jump is 1 when
    any frame jumps. The step into the window's first frame belongs to no latent.

    Args:
        travel_T3: `label.travel` of given poses (right, up, forward): the displacement is then theirs, in the frames
            that moved; else every moving frame counts as one step.
    """
    spans = groups(action.num_frames, stride, alignment, start=start)
    moves = _Moves(action, travel_T3)
    out = np.zeros((len(spans), 6), np.float32)
    certain = np.ones((len(spans), 6), bool)
    out[:, 4], certain[:, 4] = action.perspective == "fps", action.perspective in ("fps", "tps")
    for i, (first, stop) in enumerate(spans):
        first = max(first, start + 1)
        for column, turn, error in ((0, action.pitch_deg, action.pitch_se_deg), (1, action.yaw_deg, action.yaw_se_deg)):
            certain[i, column] = np.all(np.asarray(error[first:stop]) <= _LOST_SE_DEG)
            out[i, column] = np.sum(turn[first:stop], dtype=np.float64)
        for column, value in zip((2, 3), moves.of_group(first, stop), strict=True):
            certain[i, column] = value != UNCERTAIN and certain[i, 1]
            out[i, column] = value
        jump = action.jump[first:stop]
        out[i, 5] = np.any(jump == 1)
        certain[i, 5] = bool(np.any(jump == 1)) or not np.any(jump == UNCERTAIN)
    return np.where(certain, out, np.float32(0)), certain


class _Moves:
    """Displacements of groups of frames, as right and forward in units of the usual step."""

    def __init__(self, action: Action, travel_T3: np.ndarray | None) -> None:
        right, ahead = (np.asarray(track, float) for track in (action.lateral, action.longitudinal))
        unsure = np.stack([right, ahead], 1) == UNCERTAIN
        step = np.where(unsure, 0.0, np.stack([right, ahead], 1))
        size = np.linalg.norm(step, axis=1)
        step = step / np.maximum(size, 1.0)[:, None]
        if travel_T3 is not None:
            level, moving = np.asarray(travel_T3, float)[:, [0, 2]], size > 0
            usual = np.median(np.linalg.norm(level[moving], axis=1)) if moving.any() else 1.0
            step = np.where(moving[:, None], level / max(usual, 1e-12), 0.0)
            unsure &= ~moving[:, None]                       # a diagonal between two cones still has its direction
        self.step_T2, self.unsure_T2 = step, unsure
        self.turned_rad = np.radians(np.cumsum(np.asarray(action.yaw_deg, float)))

    def of_group(self, first: int, stop: int) -> tuple[int, int]:
        """(longitudinal, lateral) of the steps into frames [first, stop), first > 0; UNCERTAIN where it may differ."""
        if first >= stop:
            return 0, 0
        turned = self.turned_rad[first - 1:stop - 1] - self.turned_rad[first - 1]
        sin, cos = np.sin(turned), np.cos(turned)
        right, ahead = self.step_T2[first:stop].T
        moved = np.array([cos @ right + sin @ ahead, cos @ ahead - sin @ right]) / (stop - first)
        may = self.unsure_T2[first:stop].sum(0) / (stop - first)
        found = {_tri_state(moved + np.array(sign) * may) for sign in product((-1, 0, 1), repeat=2)}
        lateral, longitudinal = ({pair[axis] for pair in found} for axis in (0, 1))
        return (longitudinal.pop() if len(longitudinal) == 1 else UNCERTAIN,
                lateral.pop() if len(lateral) == 1 else UNCERTAIN)


def _tri_state(moved_2: np.ndarray) -> tuple[int, int]:
    """(lateral, longitudinal) of a displacement in usual steps: bands of its size, then cones of its direction."""
    size = float(np.linalg.norm(moved_2))
    if size < _STILL:
        return 0, 0
    if size < _MOVING:
        return UNCERTAIN, UNCERTAIN
    share = moved_2 / size
    right, ahead = (int(np.sign(x)) if abs(x) >= _ACTIVE - 1e-6 else 0 if abs(x) <= _INACTIVE else UNCERTAIN
                    for x in share)
    return right, ahead


def rows_of_latents(rows_TC: np.ndarray, stride: int = 4, alignment: Alignment = "causal_first") -> list[np.ndarray]:
    """The rows of each latent, by `groups`; np.concatenate of them gives back the rows that whole latents hold."""
    return [rows_TC[first:stop] for first, stop in groups(len(rows_TC), stride, alignment)]


def inverse(rows_L6: np.ndarray) -> np.ndarray:
    """Rows that undo these in reverse order: turns, looks and movement negated, jump left out; row 0 stays at rest.

    Out and back sums to zero. `motion.inverse` is exact for positions too.
    """
    rows = np.asarray(rows_L6, np.float32)
    back = rows.copy()
    back[1:, :4] = -rows[:0:-1, :4]
    back[:, 5] = 0
    return back


def rows_of_frames(rows_NC: np.ndarray, num_frames: int, rows: str | None = None) -> np.ndarray:
    """One row a frame (T, C), row t being the step from frame t - 1 to t, as everywhere.

    Args:
        rows: "into" when row t already leads into frame t (T rows); "between" when row i leads from frame i to i + 1
            (T - 1 rows), so that frame 0 gets a row of zeros; None is taken as "into" for T rows and refused else.
    Raises:
        DataError: the count of rows does not fit what is declared.
    """
    declared = rows or "into"
    wanted = {"into": num_frames, "between": num_frames - 1}.get(declared)
    if wanted is None or len(rows_NC) != wanted:
        raise DataError(f"{len(rows_NC)} action rows for {num_frames} frames with rows {rows!r}: does row i lead into "
                        "frame i (\"into\", one a frame) or from frame i to i + 1 (\"between\", one fewer)?")
    if declared == "into":
        return np.asarray(rows_NC)
    return np.concatenate([np.zeros_like(rows_NC[:1]), rows_NC])


def to_frame_rate(times_s: np.ndarray, rows_N6: np.ndarray, fps: float, num_frames: int) -> np.ndarray:
    """Rows float32 (T, 6) at frame rate from faster input rows: frame i takes i / fps <= time < (i + 1) / fps.

    Angles are summed. Movement and perspective are what most of the rows say, the last one on a tie. A jump in any
    row is kept, once. A frame without a row is at rest.

    Raises:
        DataError: times that do not increase.
    """
    times, rows_N6 = check_times(times_s, len(rows_N6)), np.asarray(rows_N6, float)
    frame = np.floor(times * fps + 1e-3).astype(int)
    out = np.zeros((num_frames, 6), np.float32)
    for i in np.unique(frame[(frame >= 0) & (frame < num_frames)]):
        here = rows_N6[frame == i]
        out[i, :2], out[i, 5] = here[:, :2].sum(0), here[:, 5].any()
        for column in (2, 3, 4):
            values, counts = np.unique(here[:, column], return_counts=True)
            best = values[counts == counts.max()]
            out[i, column] = here[np.isin(here[:, column], best), column][-1]
    return out
