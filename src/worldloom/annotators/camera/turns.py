"""Pairs of views with a good turn between them, and tracks across it: what a focal length can be read from.

Corners are followed from frame to frame until the picture has moved far enough, then matched once more, directly,
between the two ends, so that no drift is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

_WIDTH = 320              # pictures are read at this width: corners are placed to a tenth of a pixel anyway
_CORNERS = 200
_FAR_SHARE = 0.08         # of the width: short turns, so that little travel comes with them
_LEAST_SHARE = 0.02
_LONGEST_S = 0.7
_MOST_STEPS = 220         # frames that are followed in all
_MIN_TRACKS = 24
_RETURN_PX = 0.7
_STEP = {"winSize": (15, 15), "maxLevel": 3, "criteria": (3, 12, 0.03), "minEigThreshold": 1e-4}
_ENDS = {"winSize": (15, 15), "maxLevel": 1, "criteria": (3, 25, 0.005), "minEigThreshold": 1e-4}


@dataclass(frozen=True)
class Turn:
    """Tracks across a turn, in pixels of the picture shrunk by `scale` from its middle (x right, y down)."""
    first: int
    last: int
    p_N2: np.ndarray
    q_N2: np.ndarray


@dataclass(frozen=True)
class Turns:
    """Turns of a clip; a pixel of theirs is `scale` pixels of the clip."""
    turns: list[Turn]
    scale: float
    size: tuple[int, int]     # (height, width) of the shrunk picture


def find_turns(gray_THW: np.ndarray, fps: float, mask_HW: np.ndarray) -> Turns:
    """The widest turns of the clip, without overlap, for at most `_MOST_STEPS` followed frames."""
    scale = max(1.0, gray_THW.shape[2] / _WIDTH)
    size = (round(gray_THW.shape[1] / scale), round(gray_THW.shape[2] / scale))
    mask = mask_HW if scale == 1 else cv2.resize(mask_HW, size[::-1], interpolation=cv2.INTER_NEAREST)
    moved = moved_share(gray_THW)
    turns, steps = [], 0
    for first, last in _stretches(moved, max(2, round(_LONGEST_S * fps))):
        if steps + last - first > _MOST_STEPS:
            break
        steps += last - first
        frames = [_shrink(gray_THW[i], size) for i in range(first, last + 1)]
        turn = _follow(frames, first, mask)
        if turn is not None:
            turns.append(turn)
    return Turns(sorted(turns, key=lambda t: t.first), scale, size)


def _shrink(gray_HW: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return gray_HW if gray_HW.shape == size else cv2.resize(gray_HW, size[::-1], interpolation=cv2.INTER_AREA)


def moved_share(gray_THW: np.ndarray) -> np.ndarray:
    """Shift of the whole picture into each frame (T, 2), over its width, from thumbnails."""
    width = 80
    size = (width, max(8, round(gray_THW.shape[1] * width / gray_THW.shape[2])))
    window = cv2.createHanningWindow(size, cv2.CV_32F)
    moved, last = np.zeros((len(gray_THW), 2)), None
    for t, gray_HW in enumerate(gray_THW):
        small = cv2.resize(gray_HW, size, interpolation=cv2.INTER_AREA).astype(np.float32)
        if last is not None:
            moved[t], _ = cv2.phaseCorrelate(last, small, window)
        last = small
    return np.clip(moved / width, -0.25, 0.25)


def _stretches(moved_T2: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """(first, last) frames of stretches in which the picture moves on by up to `_FAR_SHARE`; widest first."""
    found, first, place = [], 0, np.cumsum(moved_T2, 0)
    for t in range(1, len(place)):
        far = float(np.linalg.norm(place[t] - place[first]))
        if far >= _FAR_SHARE or t - first >= longest or t == len(place) - 1:
            if far >= _LEAST_SHARE:
                found.append((min(far, _FAR_SHARE), first, t))
            first = t
    return [(a, b) for _, a, b in sorted(found, key=lambda entry: (-round(entry[0], 2), entry[1]))]


def _follow(frames: list[np.ndarray], first: int, mask_HW: np.ndarray) -> Turn | None:
    start = cv2.goodFeaturesToTrack(frames[0], _CORNERS, 0.005, 7, mask=mask_HW)
    if start is None or len(start) < _MIN_TRACKS:
        return None
    height, width = frames[0].shape
    place, index, last = start, np.arange(len(start)), 0
    for t in range(1, len(frames)):
        place_next, ok, _ = cv2.calcOpticalFlowPyrLK(frames[t - 1], frames[t], place, None, **_STEP)
        x, y = place_next[:, 0, 0], place_next[:, 0, 1]
        keep = (ok.ravel() > 0) & (x > 2) & (y > 2) & (x < width - 3) & (y < height - 3)
        if keep.sum() < max(_MIN_TRACKS, 0.4 * len(start)):
            break
        place, index, last = place_next[keep], index[keep], t
    if not last:
        return None
    return _ends(frames[0], frames[last], start[index], place, (first, first + last), mask_HW)


def _ends(a_HW: np.ndarray, b_HW: np.ndarray, start: np.ndarray, guess: np.ndarray, span: tuple[int, int],
          mask_HW: np.ndarray) -> Turn | None:
    """Tracks matched directly between both ends, from the followed places, and kept where the way back agrees."""
    flags = {"flags": cv2.OPTFLOW_USE_INITIAL_FLOW, **_ENDS}
    end, found, _ = cv2.calcOpticalFlowPyrLK(a_HW, b_HW, start, guess.copy(), **flags)
    back, returned, _ = cv2.calcOpticalFlowPyrLK(b_HW, a_HW, end, start.copy(), **flags)
    p, q, r = (points.reshape(-1, 2).astype(float) for points in (start, end, back))
    height, width = a_HW.shape
    ok = (found.ravel() > 0) & (returned.ravel() > 0) & (np.abs(p - r).max(1) < _RETURN_PX)
    ok &= (q > 1).all(1) & (q[:, 0] < width - 2) & (q[:, 1] < height - 2)
    p, q = p[ok], q[ok]
    seen = mask_HW[q[:, 1].astype(int), q[:, 0].astype(int)] > 0
    middle = ((width - 1) / 2, (height - 1) / 2)
    return Turn(*span, p[seen] - middle, q[seen] - middle) if seen.sum() >= _MIN_TRACKS else None
