"""Triangles by material, made from quads, boxes, tubes and balls.

A vertex is 12 numbers: position (3), normal (3), texture coordinate (2), colour factor (3), own light (1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Tint = tuple[float, float, float, float]    # factors of red, green and blue; light of its own
PLAIN: Tint = (1.0, 1.0, 1.0, 0.0)
VERTEX_NUMBERS = 12
FLAT_CORNERS = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
# corners of the faces of a box, as 0 (low) or 1 (high) of x, y, z; counterclockwise from outside
_FACES = np.array([[[0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 1]], [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1]],
                   [[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]], [[1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 1, 1]],
                   [[0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]])
_TOP = 5


class Mesh:
    """A growing set of triangles."""

    def __init__(self) -> None:
        self.parts: dict[str, list[np.ndarray]] = {}

    def add(self, material: str, position_N3: np.ndarray, normal_N3: np.ndarray, uv_N2: np.ndarray,
            tint: Tint | np.ndarray = PLAIN) -> None:
        """Three vertices a triangle; `tint` is one for all or (N, 4)."""
        tint_N4 = np.broadcast_to(np.asarray(tint, float), (len(position_N3), 4))
        self.parts.setdefault(material, []).append(np.concatenate([position_N3, normal_N3, uv_N2, tint_N4], axis=1))

    def vertices(self, material: str) -> np.ndarray:
        """(N, 12) float32."""
        return np.concatenate(self.parts[material]).astype(np.float32)

    def quad(self, material: str, corners: Sequence[Sequence[float]] | np.ndarray, uv: np.ndarray | None = None,
             tint: Tint = PLAIN) -> None:
        """Four corners, counterclockwise as seen from the front."""
        corners_43 = np.asarray(corners, float)
        uv_42 = FLAT_CORNERS if uv is None else np.asarray(uv, float)
        normal = np.cross(corners_43[2] - corners_43[0], corners_43[3] - corners_43[1])
        normal /= np.linalg.norm(normal)
        order = [0, 1, 2, 0, 2, 3]
        self.add(material, corners_43[order], np.tile(normal, (6, 1)), uv_42[order], tint)

    def box(self, material: str, low: Sequence[float], high: Sequence[float], tint: Tint = PLAIN, tile_m: float = 2.0,
            top: str | None = None, fit: bool = False) -> None:
        """An upright box; its texture repeats every `tile_m` metres, or is stretched once over each face (`fit`)."""
        bounds = np.array([low, high], float)
        for face, corners in enumerate(_FACES):
            position_43 = np.take_along_axis(bounds, corners, axis=0)
            across, up = ((1, 2), (0, 2), (0, 1))[face // 2]
            uv_42 = FLAT_CORNERS if fit else position_43[:, [across, up]] / tile_m
            self.quad(top if top and face == _TOP else material, position_43, uv_42, tint)

    def tube(self, material: str, base: Sequence[float], low_radius: float, high_radius: float, height: float,
             tint: Tint = PLAIN, sides: int = 10) -> None:
        """An upright tube or cone with a lid."""
        angle = np.linspace(0, 2 * np.pi, sides + 1)
        ring = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
        bottom, top = ring * low_radius + base, ring * high_radius + base + [0, 0, height]
        middle = np.asarray(base, float) + [0, 0, height]
        for i in range(sides):
            u0, u1 = 3 * i / sides, 3 * (i + 1) / sides
            self.quad(material, [bottom[i], bottom[i + 1], top[i + 1], top[i]],
                      np.array([[u0, 0], [u1, 0], [u1, height], [u0, height]]), tint)
            lid = np.array([top[i], top[i + 1], middle])
            self.add(material, lid, np.tile([0.0, 0, 1], (3, 1)), lid[:, :2], tint)

    def ball(self, material: str, centre: Sequence[float], radius: float, tint: Tint = PLAIN, sides: int = 10,
             stretch: Sequence[float] = (1, 1, 1), rng: np.random.Generator | None = None, tile_m: float = 2.0) -> None:
        """A ball, stretched along the axes; uneven where `rng` is given."""
        around, upward = np.linspace(0, 2 * np.pi, sides + 1), np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1)
        azimuth, elevation = np.meshgrid(around, upward)
        outward = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth),
                            np.sin(elevation)], axis=-1)
        position = np.asarray(centre) + outward * _radii(radius, azimuth.shape, rng)[..., None] * np.asarray(stretch)
        uv = np.stack([azimuth, elevation], axis=-1) * radius / tile_m
        row, column = (index.ravel() for index in np.mgrid[:len(upward) - 1, :sides])
        rows = np.stack([row, row, row + 1, row, row + 1, row + 1], axis=1).ravel()
        columns = np.stack([column, column + 1, column + 1, column, column + 1, column], axis=1).ravel()
        self.add(material, position[rows, columns], outward[rows, columns], uv[rows, columns], tint)


def _radii(radius: float, shape: tuple[int, ...], rng: np.random.Generator | None) -> np.ndarray:
    radii = np.full(shape, float(radius))
    if rng is not None:
        radii *= rng.uniform(0.75, 1.2, shape)
        radii[:, -1], radii[0], radii[-1] = radii[:, 0], radii[0, 0], radii[-1, 0]
    return radii
