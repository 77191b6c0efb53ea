"""Places in the picture where tracks do not go with the scene: a body in front of the camera, its edges, its shadow.

A followed body stands in the same place of the picture while it walks. A robust fit passes over most of its tracks, but
those of its edges half agree, and bend the turns. Where most tracks disagree over the whole clip, none is heard.
"""

from __future__ import annotations

import cv2
import numpy as np

from worldloom.annotators.camera import bundle
from worldloom.annotators.camera.bundle import Fit, Flow

_CELL_SHARE = 1 / 15                  # of the picture's height: side of a cell
_OUTSIDE = 0.6                        # share of a cell's observations that do not agree
_SEEN_SHARE = 1 / 30                  # observations a cell has for each step of the clip, at least
_LEAST_LEFT = 100                     # observations of a step; with fewer it keeps what it has
_DISAGREES = 1.5                      # robust cost of an observation


def clear_tracks(flow: Flow, fit: Fit, sigma_px: float, size: tuple[int, ...]) -> np.ndarray:
    """Tracks (N,) that never touch a cluttered place of the picture (height, width), or that their steps need."""
    cell_M2 = _cells(flow, size)
    shape = tuple(cell_M2.max(0) + 1) if len(cell_M2) else (1, 1)
    seen, outside = np.zeros(shape), np.zeros(shape)
    disagrees_M = bundle.robust_cost(fit.error, sigma_px) > _DISAGREES
    np.add.at(seen, tuple(cell_M2.T), 1.0)
    np.add.at(outside, tuple(cell_M2.T), disagrees_M)
    seen, outside = (cv2.GaussianBlur(grid, (3, 3), 0, borderType=cv2.BORDER_REPLICATE) for grid in (seen, outside))
    is_clutter = (outside > _OUTSIDE * (seen + 1)) & (seen > _SEEN_SHARE * flow.steps)
    around = cv2.dilate(is_clutter.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    touches_N = np.zeros(flow.tracks, bool)
    touches_N[flow.track[around[tuple(cell_M2.T)]]] = True
    left_T = flow.sums((~touches_N[flow.track]).astype(float))
    return ~touches_N | flow.touched(left_T < _LEAST_LEFT)


def _cells(flow: Flow, size: tuple[int, ...]) -> np.ndarray:
    """Row and column (M, 2) of each observation's first end."""
    place_M2 = flow.a * flow.focal + flow.centre
    side = size[0] * _CELL_SHARE
    row_M, column_M = ((place_M2[:, axis] / side).astype(int).clip(0) for axis in (1, 0))
    return np.column_stack([row_M, column_M])
