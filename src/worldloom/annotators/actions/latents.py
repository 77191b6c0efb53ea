"""Per-latent views of per-frame actions, for video autoencoders of any temporal stride.

Columns: pitch_deg, yaw_deg, longitudinal, lateral, perspective (tps 0, fps 1), jump. Never stored as truth.
"""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.geometry.poses import check_times
from worldloom.schemas import UNCERTAIN, Action, DataError

ALIGNMENTS = {
    "causal_first": "frame 0 alone, then groups of stride: anchors 0, s, 2s",
    "first_two": "frames 0 and 1 alone, then groups of stride: anchors 0, 1, s + 1, 2s + 1",
    "uniform": "groups of stride from frame 0: anchors s - 1, 2s - 1",
}
_LOST_SE_DEG = 25.0


def groups(num_frames: int, stride: int = 4, alignment: str = "causal_first") -> list[tuple[int, int]]:
    """Frames [first, stop) of each latent; frames after the last whole group are left out.

    Raises:
        DataError: an unknown alignment, or no whole latent fits.
    """
    if alignment not in ALIGNMENTS or stride < 1:
        raise DataError(f"alignment {alignment!r} with stride {stride} is not known; wanted {', '.join(ALIGNMENTS)}")
    alone = {"causal_first": 1, "first_two": 2, "uniform": 0}[alignment]
    whole = max(0, num_frames - alone) // stride
    found = [(i, i + 1) for i in range(min(alone, num_frames))]
    found += [(alone + stride * i, alone + stride * (i + 1)) for i in range(whole)]
    if not found:
        raise DataError(f"{num_frames} frames hold no latent of stride {stride}")
    return found


def per_latent(action: Action, stride: int = 4, alignment: str = "causal_first") -> tuple[np.ndarray, np.ndarray]:
    """Actions float32 (L, 6) and where they are certain, bool (L, 6); an uncertain entry is 0.

    Angles are summed; a step whose standard error is above 25 degrees (lost, or a cut in the path) makes the sum
    uncertain. Movement is what more than half of the group's frames say; without such a majority it is
    uncertain. Jump is 1 when any frame jumps.
    """
    spans = groups(action.num_frames, stride, alignment)
    out = np.zeros((len(spans), 6), np.float32)
    certain = np.ones((len(spans), 6), bool)
    out[:, 4], certain[:, 4] = action.perspective == "fps", action.perspective in ("fps", "tps")
    for i, (first, stop) in enumerate(spans):
        for column, turn, error in ((0, action.pitch_deg, action.pitch_se_deg), (1, action.yaw_deg, action.yaw_se_deg)):
            certain[i, column] = np.all(np.asarray(error[first:stop]) <= _LOST_SE_DEG)
            out[i, column] = np.sum(turn[first:stop], dtype=np.float64)
        for column, track in ((2, action.longitudinal), (3, action.lateral)):
            out[i, column], certain[i, column] = _majority(track[first:stop])
        jump = action.jump[first:stop]
        out[i, 5] = np.any(jump == 1)
        certain[i, 5] = bool(np.any(jump == 1)) or not np.any(jump == UNCERTAIN)
    return np.where(certain, out, np.float32(0)), certain


def _majority(values: np.ndarray) -> tuple[int, bool]:
    for value in (-1, 0, 1):
        if 2 * np.count_nonzero(values == value) > len(values):
            return value, True
    return 0, False


def rows_of_latents(rows_TC: np.ndarray, stride: int = 4, alignment: str = "causal_first") -> list[np.ndarray]:
    """The rows of each latent, by `groups`; np.concatenate of them gives back the rows that whole latents hold."""
    return [rows_TC[first:stop] for first, stop in groups(len(rows_TC), stride, alignment)]


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
