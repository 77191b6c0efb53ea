"""First or third person, from pixels: does a body stand near the middle of the picture while the background flows?

Between two frames the background moves as one plane or one turn does; what is seen of the followed body hardly moves.
Tracks of many such pairs are counted on a grid of the picture. Hands and weapons stay too, but low, at the bottom edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.tracks import follow
from worldloom.annotators.camera.turns import moved_share

Perspective = Literal["fps", "tps", "uncertain"]
_COLUMNS, _ROWS = 24, 18
_PAIRS = 60
_APART_S, _APART_SHARE = 0.3, 0.06      # frames of a pair: until the picture has moved on by this much of its width
_LEAST_FLOW_SHARE = 0.0125              # of the width, that the background moves in a pair that counts
_STAYS, _FLOWS = 0.35, 0.6              # of the background's own movement there
_MIN_TRACKS = 30
_LEAST_PAIRS = 8
_LEAST_STAYING = 12                     # tracks of a body, over all pairs
_LEAST_CELLS = 3
_BAR_SHARE = 0.6                        # of a row that is overlay
_ZONE = (slice(6, 18), slice(5, 19))    # rows and columns of the grid where a followed body stands
_LOWER, _SEEN_SHARE = slice(6, None), 0.3         # rows of the zone that show ground or body, where it is not too plain
_BODY_HALF_WIDTH, _BODY_HIGHEST = 0.22, 0.4       # shares of the picture; the background is read around it
_TURN_AGREES, _GROUND = 0.5, 0.6        # cosine between both sides' movement in a turn; where a walk shows ground
_BODY_HIGH, _HANDS_LOW = 0.745, 0.77    # height above which a quarter of a body's tracks lie, and less of hands'
_HANDS_ROWS, _HANDS_SHARE, _HANDS_STAY = 4, 0.76, 0.65      # their tracks are in the lowest rows, and stay all the time


@dataclass(frozen=True)
class Counts:
    """Tracks by grid cell (18, 24): those that stay while the background flows, that flow with it, and others."""
    stays: np.ndarray
    flows: np.ndarray
    other: np.ndarray
    pairs: int


def seen_perspective(gray_THW: np.ndarray, fps: float, *, mask_HW: np.ndarray | None = None) -> Perspective:
    """fps, tps or uncertain for uint8 frames (T, H, W): uncertain where the picture hardly moves.

    `mask_HW` is that of `overlay.usable_mask`, where the caller has it.
    """
    return decide(count(gray_THW, fps, mask_HW))


def decide(counts: Counts) -> Perspective:
    """The verdict on counted tracks."""
    if counts.pairs < _LEAST_PAIRS:
        return "uncertain"
    stays, flows, other = (grid[_ZONE] for grid in (counts.stays, counts.flows, counts.other))
    height = _figure_height(stays, stays + flows + other)
    if height is not None:
        is_body = height < _BODY_HIGH and np.mean(_smooth(stays + flows + other)[_LOWER] > 0.25) > _SEEN_SHARE
        is_hands = height > _HANDS_LOW and _is_at_the_edge(stays, flows + other)
        return "tps" if is_body else "fps" if is_hands else "uncertain"
    total = stays.sum() + flows.sum() + other.sum()
    is_seen = np.mean(_smooth(flows) > 0.5) > 0.5
    return "fps" if is_seen and flows.sum() > 0.5 * total and stays.sum() < 0.05 * total else "uncertain"


def _smooth(grid: np.ndarray) -> np.ndarray:
    return cv2.GaussianBlur(grid.astype(np.float64), (3, 3), 0)


def _figure_height(stays: np.ndarray, seen: np.ndarray) -> float | None:
    """Row over the height of the upper quarter of the tracks of what stays near the middle; None where nothing does."""
    figure = _smooth(stays) > 0.4 * (_smooth(seen) + 0.25)
    by_row = np.where(figure, stays, 0).sum(1)
    if by_row.sum() < _LEAST_STAYING or figure.sum() < _LEAST_CELLS:
        return None
    reached = np.concatenate([[0.0], np.cumsum(by_row) / by_row.sum()])
    return float(np.interp(0.25, reached, np.arange(len(reached)) + _ZONE[0].start) / _ROWS)


def _is_at_the_edge(stays: np.ndarray, others: np.ndarray) -> bool:
    """Whether what stays does so all the time and lies at the lower edge: a body comes and goes when walls push in."""
    steady = float(np.max(_smooth(stays) / (_smooth(stays + others) + 0.25)))
    return steady > _HANDS_STAY and stays[-_HANDS_ROWS:].sum() > _HANDS_SHARE * stays.sum()


def count(gray_THW: np.ndarray, fps: float, mask_HW: np.ndarray | None = None) -> Counts:
    """Tracks of up to `_PAIRS` pairs of frames between which the background moves; bars are no part of the picture."""
    grids, pairs = np.zeros((3, _ROWS, _COLUMNS)), 0
    mask_HW = usable_mask(gray_THW, fps=fps) if mask_HW is None else mask_HW
    top, bottom = _rows_without_bars(mask_HW)
    scene = np.zeros_like(mask_HW)
    scene[top:bottom] = 255
    for first, last in _pairs(gray_THW, fps):
        p, q = follow(gray_THW[first], gray_THW[last], scene, most=300)
        if len(p) >= _MIN_TRACKS:
            pairs += _add(grids, p - (0, top), q - (0, top), (bottom - top, gray_THW.shape[2]))
    return Counts(*grids, pairs)


def _rows_without_bars(mask_HW: np.ndarray) -> tuple[int, int]:
    """The tallest run of rows (start, stop) that no bar crosses; all of them where bars leave less than half."""
    bar = np.mean(mask_HW == 0, 1) > _BAR_SHARE
    edges = np.flatnonzero(np.diff(np.concatenate([[1], bar.astype(np.int8), [1]])))
    runs = list(zip(edges[::2], edges[1::2], strict=True))
    start, stop = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    return (int(start), int(stop)) if stop - start >= len(bar) / 2 else (0, len(bar))


def _pairs(gray_THW: np.ndarray, fps: float) -> list[tuple[int, int]]:
    place, longest = np.cumsum(moved_share(gray_THW), 0), max(1, round(_APART_S * fps))
    found, first = [], 0
    while first < len(place) - 1:
        last = first + 1
        while last < min(len(place) - 1, first + longest) and np.linalg.norm(place[last] - place[first]) < _APART_SHARE:
            last += 1
        if _changed(gray_THW[first], gray_THW[last]):
            found.append((first, last))
        first = last
    return [found[i] for i in np.unique(np.linspace(0, len(found) - 1, _PAIRS).astype(int))] if found else []


def _changed(a_HW: np.ndarray, b_HW: np.ndarray) -> bool:
    small = [cv2.resize(picture, (80, 60), interpolation=cv2.INTER_AREA) for picture in (a_HW, b_HW)]
    return bool(np.mean(cv2.absdiff(*small) > 6) > 0.15)


def _add(grids: np.ndarray, p: np.ndarray, q: np.ndarray, size: tuple[int, int]) -> int:
    """Count the tracks of one pair; 0 when its background does not move enough."""
    height, width = size
    moved, least_px = np.linalg.norm(q - p, axis=1), _LEAST_FLOW_SHARE * width
    around = (np.abs(p[:, 0] / width - 0.5) > _BODY_HALF_WIDTH) | (p[:, 1] < _BODY_HIGHEST * height)
    if around.sum() < _MIN_TRACKS // 2 or np.median(moved[around]) < least_px:
        return 0
    plane, _ = cv2.findHomography(p[around].astype(np.float32), q[around].astype(np.float32), cv2.RANSAC,
                                  2.0 * width / 320, maxIters=200)
    if plane is None:
        return 0
    there = cv2.perspectiveTransform(p[:, None].astype(np.float32), plane)[:, 0]
    flow = np.linalg.norm(there - p, axis=1)
    stays = (moved < _STAYS * flow) & (flow > least_px)
    flows = (np.linalg.norm(q - there, axis=1) < (1 - _FLOWS) * flow) & (flow > least_px)
    other = ~stays & ~flows & (flow > least_px)
    if not _is_turn(p[around, 0] < width / 2, (q - p)[around]):
        near = p[:, 1] > _GROUND * height           # what lies ahead of a walk hardly moves, body or not
        stays, flows, other = stays & near, flows & near, other & near
    rows = np.clip((p[:, 1] / height * _ROWS).astype(int), 0, _ROWS - 1)
    columns = np.clip((p[:, 0] / width * _COLUMNS).astype(int), 0, _COLUMNS - 1)
    for grid, chosen in zip(grids, (stays, flows, other), strict=True):
        np.add.at(grid, (rows[chosen], columns[chosen]), 1)
    return 1


def _is_turn(is_left: np.ndarray, moved_N2: np.ndarray) -> bool:
    """Whether both sides of the picture move the same way; in a walk they part."""
    if min(is_left.sum(), (~is_left).sum()) < _MIN_TRACKS // 6:
        return False
    left, right = (np.median(moved_N2[side], 0) for side in (is_left, ~is_left))
    return float(left @ right) > _TURN_AGREES * float(np.linalg.norm(left) * np.linalg.norm(right))
