"""From a sheared picture to a true pinhole camera.

Old raycast renderers show pitch by shifting a vertical picture plane (a shear), not by tilting it. That plane shares
the eye with a pinhole camera of the true pitch, so one homography turns one picture into the other, exactly.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

PIXEL_ASPECT = 1.2      # fy / fx of Doom's software renderer at 4:3


@dataclass(frozen=True, slots=True)
class CameraModel:
    """Intrinsics in pixels, whole numbers at pixel centres. `yshear`: pitch p (up) moves cy to cy + fy tan(p)."""
    model: str
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int

    def as_dict(self) -> dict[str, str | float | int]:
        return asdict(self)

    def matrix(self, pitch_deg: float = 0.0) -> np.ndarray:
        """K (3, 3); of the picture at this pitch (up positive) for a sheared camera."""
        shift = self.fy * math.tan(math.radians(pitch_deg)) if self.model == "yshear" else 0.0
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy + shift], [0.0, 0.0, 1.0]])


def yshear_camera(width: int, height: int, fov_deg: float, hud: bool = False) -> CameraModel:
    """The engine's own camera. The status bar moves the horizon up: to row 103.5 of 240."""
    fx = width / 2 / math.tan(math.radians(fov_deg / 2))
    cy = height * (104 / 240) - 0.5 if hud else (height - 1) / 2
    return CameraModel("yshear", fx, PIXEL_ASPECT * fx, (width - 1) / 2, cy, width, height)


def pinhole_camera(width: int, height: int, hfov_deg: float) -> CameraModel:
    """Square pixels, centre in the middle."""
    f = width / 2 / math.tan(math.radians(hfov_deg / 2))
    return CameraModel("pinhole", f, f, (width - 1) / 2, (height - 1) / 2, width, height)


def source_from_pinhole(source: CameraModel, target: CameraModel, pitch_deg: float) -> np.ndarray:
    """Homography (3, 3) from a pixel of the pinhole picture to the same ray's pixel in the sheared one."""
    t = math.radians(pitch_deg)
    c, s = math.cos(t), math.sin(t)
    level_from_camera = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])   # y down, z forward; looking up raises z's tip
    return source.matrix(pitch_deg) @ level_from_camera @ np.linalg.inv(target.matrix())


def max_pitch_deg(source: CameraModel, target: CameraModel) -> float:
    """Largest whole pitch at which the rectified picture lies inside the source picture, both up and down."""
    inside = [d for d in range(0, 60) if all(_inside(source, target, pitch) for pitch in (-d, d))]
    return float(max(inside, default=-1))


def _inside(source: CameraModel, target: CameraModel, pitch_deg: float) -> bool:
    w, h = target.width - 1, target.height - 1
    source_from_target = source_from_pinhole(source, target, pitch_deg)
    corners = np.array([[0, 0, 1], [w, 0, 1], [0, h, 1], [w, h, 1.0]]) @ source_from_target.T
    xy = corners[:, :2] / corners[:, 2:]
    return bool((corners[:, 2] > 0).all() and (xy >= 0).all() and (xy <= [source.width - 1, source.height - 1]).all())


def rectify(rgb_HWC: np.ndarray, source: CameraModel, target: CameraModel, pitch_deg: float) -> np.ndarray:
    """The pinhole picture at this pitch (up positive); smoothed first where the source is finer."""
    import cv2

    ratio = source.fx / target.fx
    smooth = cv2.GaussianBlur(rgb_HWC, (0, 0), 0.35 * ratio) if ratio > 1.15 else rgb_HWC
    return cv2.warpPerspective(smooth, source_from_pinhole(source, target, pitch_deg), (target.width, target.height),
                               flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE)


def rectify_box(box: tuple[int, int, int, int], source: CameraModel, target: CameraModel,
                pitch_deg: float) -> tuple[int, int, int, int] | None:
    """A box (x, y, w, h) of the source picture in the pinhole picture, clipped; None outside of it."""
    x, y, w, h = box
    corners = np.array([[x, y, 1], [x + w, y, 1], [x, y + h, 1], [x + w, y + h, 1.0]])
    seen = corners @ np.linalg.inv(source_from_pinhole(source, target, pitch_deg)).T
    xy = seen[:, :2] / seen[:, 2:]
    low = np.clip(np.floor(xy.min(0)), 0, [target.width, target.height])
    high = np.clip(np.ceil(xy.max(0)), 0, [target.width, target.height])
    size = high - low
    return (int(low[0]), int(low[1]), int(size[0]), int(size[1])) if (size >= 1).all() else None
