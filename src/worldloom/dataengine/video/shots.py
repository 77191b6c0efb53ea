"""Hard cuts: a picture whose colours and layout differ from the last far more than its neighbours differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

THUMB_WIDTH, THUMB_HEIGHT = 64, 36
BINS = 8
REACH = 3
"""Neighbouring steps on either side that a cut is compared with."""


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


def is_cut(changes: list[float], at: int, threshold: float, ratio: float) -> bool:
    """Whether step `at` of a list of changes stands out: over the threshold, and over its neighbours.

    Two equal peaks side by side are a flash, and a run of large changes is a fast turn: neither is a cut.
    """
    around = changes[max(0, at - REACH):at] + changes[at + 1:at + 1 + REACH]
    return changes[at] >= threshold and changes[at] >= ratio * max(around, default=0.0)


def mark_cuts(
    items: Iterable[tuple[Item, np.ndarray]], *, threshold: float, ratio: float = 1.8
) -> Iterator[tuple[Item, bool]]:
    """(item, whether a new shot starts with it) for each (item, 64x36 RGB thumbnail), REACH items late.

    Holds at most REACH + 1 items.
    """
    waiting: deque[Item] = deque()
    changes: deque[float] = deque([0.0] * REACH, maxlen=2 * REACH + 1)
    last = None
    for item, thumb in items:
        now = features(thumb)
        changes.append(change(last, now) if last is not None else 0.0)
        last = now
        waiting.append(item)
        if len(waiting) > REACH:
            yield waiting.popleft(), is_cut(list(changes), len(changes) - 1 - REACH, threshold, ratio)
    while waiting:
        steps = list(changes)
        yield waiting.popleft(), is_cut(steps, len(steps) - 1 - len(waiting), threshold, ratio)
