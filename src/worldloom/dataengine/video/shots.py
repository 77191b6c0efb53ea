"""Hard cuts: a picture that differs from the last far more than its neighbours do, and keeps nothing of its layout."""

from __future__ import annotations

from collections import deque

import numpy as np

from worldloom.dataengine.video.detect import Look

THUMB_WIDTH, THUMB_HEIGHT = 64, 36
BINS = 8
REACH = 3
"""Neighbouring steps on either side that a cut is compared with."""
BLOCK_WIDTH, BLOCK_HEIGHT, SEARCH = 16, 12, 4
TEXTURE, SAME, BLACK = 0.02, 0.7, 0.08
KEPT_AT_A_CUT = 0.15
"""Real cuts keep at most a tenth of the blocks, colour flashes in games a quarter and more."""
CLEAR_RATIO = 4.0
"""A change this many times its neighbours is a cut whatever is kept: flashes of colour fade over some frames."""


def features(thumb_HWC: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(colour histogram summing to 1, luma in 0 to 1, edge strength) of a small RGB picture."""
    codes = (thumb_HWC // (256 // BINS)).astype(np.int32)
    codes = (codes[..., 0] * BINS + codes[..., 1]) * BINS + codes[..., 2]
    histogram = np.bincount(codes.ravel(), minlength=BINS**3) / codes.size
    luma = thumb_HWC.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    edges = np.abs(np.diff(luma, axis=0))[:, 1:] + np.abs(np.diff(luma, axis=1))[1:]
    return histogram, luma, edges


def change(
    a: tuple[np.ndarray, np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> float:
    """How different two pictures are, 0 to about 1: colours (half), layout (half: luma and edges)."""
    colours = 0.5 * float(np.abs(a[0] - b[0]).sum())
    luma = min(1.0, 4 * float(np.abs(a[1] - b[1]).mean()))
    total = float(a[2].sum() + b[2].sum())
    edges = float(np.abs(a[2] - b[2]).sum()) / total if total > 1e-6 else 0.0
    return 0.5 * colours + 0.25 * luma + 0.25 * edges


def stands_out(changes: list[float], at: int, threshold: float, ratio: float) -> bool:
    """Whether step `at` of a list of changes is over the threshold, and `ratio` times over its neighbours.

    Two equal peaks side by side are a flash, and a run of large changes is a fast turn: neither stands out.
    """
    around = changes[max(0, at - REACH):at] + changes[at + 1:at + 1 + REACH]
    return changes[at] >= threshold and changes[at] >= ratio * max(around, default=0.0)


def without_bars(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two luma pictures without the black bars that both have: their edges would seem to stay."""
    lit = np.maximum(a, b) > BLACK
    rows, columns = np.flatnonzero(lit.mean(1) > 0.1), np.flatnonzero(lit.mean(0) > 0.1)
    if len(rows) < BLOCK_HEIGHT + 2 or len(columns) < BLOCK_WIDTH + 2:
        return a, b
    box = slice(rows[0] + 1, rows[-1]), slice(columns[0] + 1, columns[-1])
    return a[box], b[box]


def kept_share(before: np.ndarray, after: np.ndarray) -> float | None:
    """Share of textured blocks of one luma picture found again in the next, moved by at most SEARCH pixels.

    A cut keeps almost none; a flash of colour over the picture, such as a pick-up in a game, keeps many. None: the
    picture has no texture to follow.
    """
    import cv2

    cv2.setNumThreads(1)
    before, after = without_bars(before, after)
    padded = np.pad(after, SEARCH, mode="edge")
    kept = blocks = 0
    for y in range(0, before.shape[0] - BLOCK_HEIGHT + 1, BLOCK_HEIGHT):
        for x in range(0, before.shape[1] - BLOCK_WIDTH + 1, BLOCK_WIDTH):
            block = before[y:y + BLOCK_HEIGHT, x:x + BLOCK_WIDTH]
            if block.std() < TEXTURE:
                continue
            around = padded[y:y + BLOCK_HEIGHT + 2 * SEARCH, x:x + BLOCK_WIDTH + 2 * SEARCH]
            blocks += 1
            kept += bool(cv2.matchTemplate(around, block, cv2.TM_CCOEFF_NORMED).max() > SAME)
    return kept / blocks if blocks else None


class ContentDetector:
    """Finds hard cuts by colours and layout; what it says of a picture comes REACH pictures late."""
    name = "histogram"

    def __init__(self, threshold: float, ratio: float = 1.8) -> None:
        self._threshold, self._ratio, self._undecided = threshold, ratio, 0
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._changes: deque[float] = deque([0.0] * REACH, maxlen=2 * REACH + 1)
        self._lumas: deque[np.ndarray] = deque(maxlen=REACH + 2)

    def see(self, look: Look) -> list[bool]:
        """Whether a shot starts, for the pictures of which that is known now, in order."""
        now = features(look.thumb(THUMB_WIDTH, THUMB_HEIGHT))
        self._changes.append(0.0 if self._last is None else change(self._last, now))
        self._lumas.append(now[1])
        self._last = now
        self._undecided += 1
        if self._undecided <= REACH:
            return []
        self._undecided -= 1
        return [self._is_cut(REACH)]

    def finish(self) -> list[bool]:
        """What is still to be said, after the last picture."""
        return [self._is_cut(late) for late in range(self._undecided - 1, -1, -1)]

    def _is_cut(self, late: int) -> bool:
        """Whether the picture seen `late` pictures ago starts a shot."""
        steps, at = list(self._changes), len(self._changes) - 1 - late
        if not stands_out(steps, at, self._threshold, self._ratio):
            return False
        if stands_out(steps, at, self._threshold, CLEAR_RATIO):
            return True
        share = kept_share(self._lumas[-2 - late], self._lumas[-1 - late])
        return share is None or share < KEPT_AT_A_CUT
