"""Dense flow between two frames, and how well a labelled motion explains it.

At a straight edge flow is known across the edge only (the aperture problem); along it nothing is held against a motion.

Legend: N places in the picture, D directions of travel. Rays are (x / z, y / z) before focal length and centre. A
camera model `yshear` has a picture plane that stays upright: looking up shifts the picture, as old engines draw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from worldloom.dataengine.geometry import poses as P

SPACING_PX = 8
MIN_PLACES = 60
_EDGE_PX = 6
_LOST_GRAY = 30                        # change of brightness along a right flow is below
_MIN_TEXTURE = 4e-5                    # smaller eigenvalue of the gradient, of pictures in 0 to 1
_EDGE_SHARE = 0.08                     # of the larger one, below which a place shows an edge
_BACK_PX = 1.0                         # flow there and back again ends this close to where it began
_ALONG_EDGE = 0.2                      # travel that moves an edge across itself by less says nothing of its length
_STATIC_SHARE, _FAST_PX = 0.2, 3.0     # of the middle flow, where that is fast, that an overlay moves at most
_STATIC_STEPS = 8
_CAP_PX = 6.0                          # one place says no more than this against a motion
_TRAVEL_COST, _FAR_TRAVEL_PX = 0.03, 30.0     # of a pixel of flow that travel explains
_FAR_PX, _FAR_PEAK = 4.0, 0.05         # a shift of the whole picture that dense flow starts from, and how clear it is
_TILTS = np.radians([-45.0, -20.0, 0.0, 20.0, 45.0])
_CONE = np.radians([-30.0, -15.0, 0.0, 15.0, 30.0])


@dataclass(frozen=True)
class Flow:
    """Where N places of frame a lie in frame b, pixels; at edges the unit vector across the edge, elsewhere zeros."""
    a_N2: np.ndarray
    b_N2: np.ndarray
    across_N2: np.ndarray

    @property
    def moved_N2(self) -> np.ndarray:
        return self.b_N2 - self.a_N2

    @property
    def median_px(self) -> float:
        return float(np.median(np.linalg.norm(self.moved_N2, axis=1))) if len(self.a_N2) else 0.0

    def only(self, chosen_N: np.ndarray) -> Flow:
        return Flow(self.a_N2[chosen_N], self.b_N2[chosen_N], self.across_N2[chosen_N])


@dataclass(frozen=True)
class View:
    """A camera's intrinsics (fx, fy, cx, cy), model, and its elevation and roll in degrees."""
    intrinsics: np.ndarray
    model: str
    elevation_deg: float
    roll_deg: float

    @property
    def level_from_cam_33(self) -> np.ndarray:
        if self.model == "yshear":
            return np.eye(3)
        return P.look(0.0, self.elevation_deg) @ P.so3_exp(np.array([0, 0, np.radians(self.roll_deg)]))

    @property
    def centre(self) -> tuple[float, float]:
        _, fy, cx, cy = self.intrinsics
        shear = fy * np.tan(np.radians(self.elevation_deg)) if self.model == "yshear" else 0.0
        return cx, cy + shear

    def rays(self, place_N2: np.ndarray) -> np.ndarray:
        flat = (place_N2 - self.centre) / self.intrinsics[:2]
        return np.concatenate([flat, np.ones((len(flat), 1))], 1)

    def places(self, ray_N3: np.ndarray) -> np.ndarray:
        return ray_N3[:, :2] / np.maximum(ray_N3[:, 2:], 1e-6) * self.intrinsics[:2] + self.centre


class FlowMeter:
    """Dense inverse search flow (DIS, arXiv:1603.03590) at a grid of textured places outside of overlays."""

    def __init__(self, usable_HW: np.ndarray) -> None:
        self.dis = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        height, width = usable_HW.shape
        self.window_HW = cv2.createHanningWindow((width, height), cv2.CV_32F) * _soft(usable_HW)
        y, x = (np.arange(_EDGE_PX, size - _EDGE_PX, SPACING_PX) for size in (height, width))
        grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
        self.grid_N2 = grid[usable_HW[grid[:, 1], grid[:, 0]] > 0]

    def between(self, a_HW: np.ndarray, b_HW: np.ndarray) -> Flow:
        """Flow at the places with texture that stay in the picture, keep their brightness and flow back again."""
        start_HW2 = self._start(a_HW, b_HW)
        there_HW2 = self.dis.calc(a_HW, b_HW, start_HW2)
        back_HW2 = self.dis.calc(b_HW, a_HW, None if start_HW2 is None else -start_HW2)
        x, y = self.grid_N2.T
        moved_N2 = there_HW2[y, x]
        end_N2 = self.grid_N2 + moved_N2
        texture_N, across_N2 = _texture(a_HW, x, y)
        shade_N = cv2.blur(a_HW, (3, 3))[y, x].astype(float) - _sampled(cv2.blur(b_HW, (3, 3)), end_N2)
        returns_N = np.linalg.norm(moved_N2 + _sampled(back_HW2, end_N2), axis=1) < _BACK_PX
        inside_N = np.all((end_N2 >= 0) & (end_N2 <= np.array(a_HW.shape[::-1]) - 1), 1)
        good_N = inside_N & returns_N & (texture_N > _MIN_TEXTURE) & (np.abs(shade_N) < _LOST_GRAY)
        return Flow(self.grid_N2.astype(float), end_N2.astype(float), across_N2).only(good_N)

    def _start(self, a_HW: np.ndarray, b_HW: np.ndarray) -> np.ndarray | None:
        """The shift of the whole picture as a first flow, where it is far: the search itself reaches some 25 pixels."""
        (x, y), peak = cv2.phaseCorrelate(a_HW.astype(np.float32), b_HW.astype(np.float32), self.window_HW)
        if np.hypot(x, y) < _FAR_PX or peak < _FAR_PEAK:
            return None
        return np.full((*a_HW.shape, 2), (x, y), np.float32)


def _soft(usable_HW: np.ndarray) -> np.ndarray:
    """1 on the scene, 0 on overlays, with a slope between."""
    far_px = cv2.distanceTransform(cv2.copyMakeBorder(usable_HW, 1, 1, 1, 1, cv2.BORDER_REPLICATE), cv2.DIST_L2, 3)
    return np.minimum(far_px[1:-1, 1:-1] / (2 * SPACING_PX), 1.0).astype(np.float32)


def _sampled(picture: np.ndarray, at_N2: np.ndarray) -> np.ndarray:
    """Values (N, ...) of a picture between its pixels."""
    found = cv2.remap(picture, at_N2[None].astype(np.float32), None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return found[0].astype(float)


def _texture(gray_HW: np.ndarray, x_N: np.ndarray, y_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smaller eigenvalue (N,) of the gradient around each place, and the direction (N, 2) across an edge there."""
    tensor_N6 = cv2.cornerEigenValsAndVecs(gray_HW.astype(np.float32) / 255, 7, 3)[y_N, x_N]
    first_N = tensor_N6[:, 0] >= tensor_N6[:, 1]
    most_N, least_N = tensor_N6[:, :2].max(1), tensor_N6[:, :2].min(1)
    across_N2 = np.where(first_N[:, None], tensor_N6[:, 2:4], tensor_N6[:, 4:6]).astype(float)
    return least_N, across_N2 * (least_N < _EDGE_SHARE * most_N)[:, None]


def without_static(flows: Sequence[Flow]) -> list[Flow]:
    """The flows without the places that hardly move in most fast steps: a weapon or a bar that no mask has found."""
    fast = [flow for flow in flows if flow.median_px > _FAST_PX]
    if not fast:
        return list(flows)
    size = np.max([flow.a_N2.max(0) for flow in flows if len(flow.a_N2)], 0).astype(int) + 1
    seen_WH, stays_WH = np.zeros(size, int), np.zeros(size, int)
    for flow in fast:
        place = tuple(flow.a_N2.astype(int).T)
        np.add.at(seen_WH, place, 1)
        np.add.at(stays_WH, place, np.linalg.norm(flow.moved_N2, axis=1) < _STATIC_SHARE * flow.median_px)
    moves_WH = (seen_WH < _STATIC_STEPS) | (stays_WH <= seen_WH / 2)
    return [flow.only(moves_WH[tuple(flow.a_N2.astype(int).T)]) for flow in flows]


def turned(flow: Flow, before: View, after: View, yaw_deg: float) -> np.ndarray:
    """Where the places of frame a would lie in frame b (N, 2) had the camera only turned."""
    level = before.rays(flow.a_N2) @ before.level_from_cam_33.T @ P.look(yaw_deg, 0.0)
    return after.places(level @ after.level_from_cam_33)


def cone(longitudinal: tuple[int, ...], lateral: tuple[int, ...]) -> np.ndarray:
    """Level-frame directions (D, 3) within 30 degrees of every combination of the given signs, tilted up to 45."""
    sectors = [np.arctan2(r, f) for f in longitudinal for r in lateral if f or r]
    if not sectors:
        return np.zeros((0, 3))
    azimuth = np.unique(np.round([s + c for s in sectors for c in _CONE], 6))
    azimuth, tilt = (x.ravel() for x in np.meshgrid(azimuth, _TILTS))
    return np.stack([np.sin(azimuth) * np.cos(tilt), -np.sin(tilt), np.cos(azimuth) * np.cos(tilt)], 1)


UPRIGHT = np.array([[0.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
"""Travel straight up and down, as of a head that bobs: no movement by the labels."""


def unexplained_px(flow: Flow, turned_N2: np.ndarray, after: View, level_D3: np.ndarray) -> float:
    """Mean distance between the flow and the nearest one that the turn and travel along one direction can make.

    A place may lie at any distance in front of the camera, so the flow after the turn may have any length along the ray
    away from the epipole, and none against it; a long one costs a little, so that a turn is not taken for travel. The
    best of the directions counts.
    """
    rest = flow.b_N2 - turned_N2
    towards = after.level_from_cam_33.T @ level_D3.T
    ray = after.rays(turned_N2)
    along = (ray[:, None, :2] * towards.T[None, :, 2:] - towards.T[None, :, :2]) * after.intrinsics[:2]
    along /= np.maximum(np.linalg.norm(along, axis=2, keepdims=True), 1e-9)
    dot = np.einsum("nk,ndk->nd", rest, along)
    cross = np.abs(rest[:, None, 0] * along[..., 1] - rest[:, None, 1] * along[..., 0])
    off = np.where(dot > 0, cross, np.linalg.norm(rest, axis=1)[:, None])
    is_edge = flow.across_N2.any(1)
    dot[is_edge], off[is_edge] = _at_edges(rest[is_edge], along[is_edge], flow.across_N2[is_edge])
    off = np.minimum(off, _CAP_PX)
    return float((off + _TRAVEL_COST * np.clip(dot, 0, _FAR_TRAVEL_PX)).mean(0).min())


def _at_edges(rest_N2: np.ndarray, along_ND2: np.ndarray, across_N2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length of travel and what it leaves (N, D), across edges alone."""
    rest_N1, along_ND = (rest_N2 * across_N2).sum(1)[:, None], np.einsum("ndk,nk->nd", along_ND2, across_N2)
    travels = (rest_N1 * along_ND > 0) & (np.abs(along_ND) > _ALONG_EDGE)
    length_ND = np.where(travels, rest_N1 / np.where(travels, along_ND, 1.0), 0.0)
    return length_ND, np.where(travels, 0.0, np.abs(rest_N1))
