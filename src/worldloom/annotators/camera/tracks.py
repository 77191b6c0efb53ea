"""Corners followed through video, kept where forward and backward flow agree.

In a clip each point is followed for up to LIFE steps, so that its depth shows over a long path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

LIFE = 12                             # steps
MOST = 300                            # points at a time
_REFILL_BELOW = 0.85
_APART_PX = 6
_LK = {"maxLevel": 4, "criteria": (3, 20, 0.01), "minEigThreshold": 1e-4}
_SIDE_PX, _SMALL_SIDE_PX, _SMALL_PX = 15, 11, 300      # of the window around a point; in pictures up to so high
_RETURN_PX = 0.5


def follow(
    a_HW: np.ndarray, b_HW: np.ndarray, mask_HW: np.ndarray, *, most: int = 400,
) -> tuple[np.ndarray, np.ndarray]:
    """Pixel places (N, 2) in two pictures, x right and y down; N may be 0."""
    start = _corners(a_HW, mask_HW, most)
    if len(start) < 8:
        return np.zeros((0, 2)), np.zeros((0, 2))
    end, ok = _flow(a_HW, b_HW, start, mask_HW, _SIDE_PX)
    return start[ok].astype(float), end[ok].astype(float)


@dataclass(frozen=True)
class Tracks:
    """N points over up to LIFE steps; step k of track n is from frame start_N[n] + k to the next."""
    start_N: np.ndarray               # first frame, ascending
    places_NK2: np.ndarray            # pixels in LIFE + 1 frames, NaN past the end
    num_frames: int

    @property
    def seen_NL(self) -> np.ndarray:
        """Steps whose both ends are known."""
        return np.isfinite(self.places_NK2[:, 1:, 0])

    @cached_property
    def last_N(self) -> np.ndarray:
        """Last frame in which each point was seen."""
        return self.start_N + self.seen_NL.sum(1)

    def between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Places (N, 2) in two frames of the points followed from one to the other."""
        here = np.flatnonzero((self.start_N <= first) & (self.last_N >= last))
        return tuple(self.places_NK2[here, frame - self.start_N[here]] for frame in (first, last))


def follow_all(gray_THW: np.ndarray, mask_HW: np.ndarray) -> Tracks:
    """Tracks of a clip (T, H, W); lost and worn-out points are replaced."""
    side_px = _SMALL_SIDE_PX if gray_THW.shape[1] <= _SMALL_PX else _SIDE_PX
    live, ended = _Live(), [(np.zeros(0, int), np.zeros((0, LIFE + 1, 2), np.float32))]
    for t, (a_HW, b_HW) in enumerate(zip(gray_THW[:-1], gray_THW[1:], strict=True)):
        if len(live.places) < _REFILL_BELOW * MOST:
            live.add(_corners(a_HW, _away_from(live.places, mask_HW), MOST - len(live.places)), t)
        if len(live.places):
            live.move(*_flow(a_HW, b_HW, live.places, mask_HW, side_px))
            ended.extend(live.retired(t + 1))
    ended.append((live.start, live.path))
    start, path = (np.concatenate(parts) for parts in zip(*ended, strict=True))
    order = np.argsort(start, kind="stable")
    return Tracks(start[order], path[order].astype(float), len(gray_THW))


class _Live:
    """The points being followed: where they are and were."""

    def __init__(self) -> None:
        self.places = np.zeros((0, 2), np.float32)
        self.path = np.zeros((0, LIFE + 1, 2), np.float32)
        self.start, self.age, self.life = np.zeros(0, int), np.zeros(0, int), np.zeros(0, int)
        self.is_lost = np.zeros(0, bool)
        self.added = 0

    def add(self, places_N2: np.ndarray, frame: int) -> None:
        """New points; their lives differ, so that at no frame all tracks end."""
        count = len(places_N2)
        path = np.full((count, LIFE + 1, 2), np.nan, np.float32)
        path[:, 0] = places_N2
        life = LIFE - (self.added + np.arange(count)) % (LIFE // 2)
        for name, new in (("places", places_N2), ("path", path), ("start", np.full(count, frame)),
                          ("age", np.zeros(count, int)), ("life", life), ("is_lost", np.zeros(count, bool))):
            setattr(self, name, np.concatenate([getattr(self, name), new]))
        self.added += count

    def move(self, end_N2: np.ndarray, ok_N: np.ndarray) -> None:
        self.age = self.age + ok_N
        self.path[np.flatnonzero(ok_N), self.age[ok_N]] = end_N2[ok_N]
        self.places, self.is_lost = np.where(ok_N[:, None], end_N2, self.places), ~ok_N

    def retired(self, frame: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ended tracks, as first frames and paths; a point whose track is full goes on as a new one."""
        worn = (self.age >= self.life) & ~self.is_lost
        done, again = worn | self.is_lost, self.places[worn]
        yield self.start[done], self.path[done]
        for name in ("places", "path", "start", "age", "life", "is_lost"):
            setattr(self, name, getattr(self, name)[~done])
        self.add(again, frame)


def _corners(a_HW: np.ndarray, mask_HW: np.ndarray, most: int) -> np.ndarray:
    found = cv2.goodFeaturesToTrack(a_HW, most, 0.004, _APART_PX, mask=mask_HW)
    return np.zeros((0, 2), np.float32) if found is None else found.reshape(-1, 2)


def _away_from(places_N2: np.ndarray, mask_HW: np.ndarray) -> np.ndarray:
    """The mask without the surroundings of points already followed."""
    free_HW = mask_HW.copy()
    if len(places_N2):
        free_HW[places_N2[:, 1].astype(int), places_N2[:, 0].astype(int)] = 0
        free_HW = cv2.erode(free_HW, np.ones((2 * _APART_PX - 1,) * 2, np.uint8), borderValue=255)
    return free_HW


def _flow(
    a_HW: np.ndarray, b_HW: np.ndarray, start_N2: np.ndarray, mask_HW: np.ndarray, side_px: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends (N, 2), and which are to be believed (N,)."""
    window = {"winSize": (side_px, side_px)}
    end, found, _ = cv2.calcOpticalFlowPyrLK(a_HW, b_HW, start_N2, None, **window, **_LK)
    back, returned, _ = cv2.calcOpticalFlowPyrLK(b_HW, a_HW, end, None, **window, **_LK)
    height, width = a_HW.shape
    ok = (found.ravel() > 0) & (returned.ravel() > 0) & (np.abs(start_N2 - back).max(1) < _RETURN_PX)
    ok &= (end > 1).all(1) & (end[:, 0] < width - 2) & (end[:, 1] < height - 2)
    inside = np.clip(end, 0, (width - 1, height - 1)).astype(int)
    return end, ok & (mask_HW[inside[:, 1], inside[:, 0]] > 0)
