"""Per-latent views of per-frame actions, for video autoencoders of any temporal stride.

Columns: pitch_deg, yaw_deg, longitudinal, lateral, perspective (tps 0, fps 1), jump. Never stored as truth.
"""

from __future__ import annotations

import numpy as np

from worldloom.schemas import UNCERTAIN, Action, DataError

ALIGNMENTS = {
    "causal_first": "frame 0 alone, then groups of stride: anchors 0, s, 2s",
    "first_two": "frames 0 and 1 alone, then groups of stride: anchors 0, 1, s + 1, 2s + 1",
    "uniform": "groups of stride from frame 0: anchors s - 1, 2s - 1",
}


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

    Angles are summed. Movement is what more than half of the group's frames say; without such a majority it is
    uncertain. Jump is 1 when any frame jumps.
    """
    spans = groups(action.num_frames, stride, alignment)
    out = np.zeros((len(spans), 6), np.float32)
    certain = np.ones((len(spans), 6), bool)
    out[:, 4], certain[:, 4] = action.perspective == "fps", action.perspective in ("fps", "tps")
    for i, (first, stop) in enumerate(spans):
        out[i, 0] = np.sum(action.pitch_deg[first:stop], dtype=np.float64)
        out[i, 1] = np.sum(action.yaw_deg[first:stop], dtype=np.float64)
        for column, track in ((2, action.longitudinal), (3, action.lateral)):
            out[i, column], certain[i, column] = _majority(track[first:stop])
        jump = action.jump[first:stop]
        out[i, 5] = np.any(jump == 1)
        certain[i, 5] = bool(np.any(jump == 1)) or not np.any(jump == UNCERTAIN)
    return out, certain


def _majority(values: np.ndarray) -> tuple[int, bool]:
    for value in (-1, 0, 1):
        if 2 * np.count_nonzero(values == value) > len(values):
            return value, True
    return 0, False
