"""Walls with openings, doors and houses; all along the axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from worldloom.dataengine.record.world.mesh import Mesh, Tint
from worldloom.dataengine.record.world.scene import DOOR_HEIGHT_M, Door, Scene

WALL_HALF_M, LINTEL_M, DOOR_WIDTH_M, STOREY_M = 0.15, 2.2, 1.1, 2.8
EAVES_M = 0.4
HOUSE_MATERIALS = ("brick", "stone", "plaster", "planks")


def random_tint(rng: np.random.Generator, low: float = 0.75, high: float = 1.15) -> Tint:
    red, green, blue = rng.uniform(low, high, 3)
    return float(red), float(green), float(blue), 0.0


def add_wall(scene: Scene, material: str, start: tuple[float, float], end: tuple[float, float], height: float,
             gaps: Sequence[tuple[float, float]] = (), tint: Tint = (1, 1, 1, 0)) -> None:
    """A wall along x or y. Gaps are (middle on that axis, width) with wall above them."""
    axis = 0 if abs(end[0] - start[0]) > abs(end[1] - start[1]) else 1
    across = start[1 - axis]
    for a, b, low_z in _pieces(start[axis], end[axis], gaps):
        low, high = [a, across - WALL_HALF_M], [b, across + WALL_HALF_M]
        if axis == 1:
            low, high = low[::-1], high[::-1]
        scene.solid(material, [*low, low_z], [*high, height], tint=tint)


def _pieces(start: float, end: float, gaps: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, float]]:
    """(from, to, lowest z) of the parts of a wall."""
    done = start
    for middle, width in sorted(gaps):
        yield done, middle - width / 2, 0.0
        yield middle - width / 2, middle + width / 2, LINTEL_M
        done = middle + width / 2
    yield done, end, 0.0


def add_door(scene: Scene, x: float, y: float, axis: int, width: float = DOOR_WIDTH_M) -> None:
    """A leaf with its hinge at (x, y), shut along x (axis 0) or y (axis 1)."""
    leaf = Mesh()
    leaf.box("planks", (0, -0.035, 0.02), (width, 0.035, DOOR_HEIGHT_M), (0.9, 0.55, 0.4, 0.0), tile_m=1.1)
    leaf.box("metal", (width - 0.18, -0.09, 1.0), (width - 0.08, 0.09, 1.1))
    scene.doors.append(Door(leaf, (x, y), axis, width))


def add_house(scene: Scene, rng: np.random.Generator, x: float, y: float, width: float, depth: float, height: float,
              is_open: bool) -> None:
    """A house with its door side at y; an open one has a room behind a door that works."""
    material, tint = str(rng.choice(HOUSE_MATERIALS)), random_tint(rng)
    if is_open:
        _shell(scene, material, tint, x, y, width, depth, height)
        _furnish(scene, x, y, width, depth)
    else:
        scene.solid(material, (x, y, 0), (x + width, y + depth, height), tint=tint)
        left = x + width / 2 - DOOR_WIDTH_M / 2
        scene.mesh.box("dark", (left, y - 0.06, 0), (left + DOOR_WIDTH_M, y, DOOR_HEIGHT_M), tile_m=1.1)
    _windows(scene.mesh, x, y, width, depth, height, WALL_HALF_M + 0.01 if is_open else 0.0)
    _roof(scene.mesh, material, tint, x, y, width, depth, height, float(rng.uniform(1.2, 2.6)))
    scene.roofs.append([x - EAVES_M, y - EAVES_M, x + width + EAVES_M, y + depth + EAVES_M, height])


def _shell(scene: Scene, material: str, tint: Tint, x: float, y: float, width: float, depth: float,
           height: float) -> None:
    right, back = x + width, y + depth
    add_wall(scene, material, (x, y), (right, y), height, [(x + width / 2, DOOR_WIDTH_M)], tint)
    for start, end in (((x, back), (right, back)), ((x, y), (x, back)), ((right, y), (right, back))):
        add_wall(scene, material, start, end, height, tint=tint)
    add_door(scene, x + width / 2 - DOOR_WIDTH_M / 2, y, 0)


def _furnish(scene: Scene, x: float, y: float, width: float, depth: float) -> None:
    middle = x + width / 2
    scene.mesh.box("tiles", (x, y, -0.02), (x + width, y + depth, 0.04))
    scene.lamps.append([middle, y + depth / 2, 2.4, 1.0, 0.75, 0.45])
    scene.solid("planks", (middle - 0.6, y + depth - 1.6, 0), (middle + 0.6, y + depth - 0.9, 0.75))
    scene.mesh.box("picture1", (middle - 0.8, y + depth - 0.17, 1.2), (middle + 0.8, y + depth - 0.16, 2.2), fit=True)


def _windows(mesh: Mesh, x: float, y: float, width: float, depth: float, height: float, out: float) -> None:
    storeys = max(1, int(height // STOREY_M))
    for storey in range(storeys):
        low = 1.0 + STOREY_M * storey
        for middle in _middles(x, width, 2.6):
            if storey == 0 and abs(middle - x - width / 2) < 1.4:
                continue                                            # the door is there
            for side in (y - out, y + depth + out):
                _window(mesh, (middle, side), (0.55, 0.05), low)
        for middle in _middles(y, depth, 3.0):
            for side in (x - out, x + width + out):
                _window(mesh, (side, middle), (0.05, 0.55), low)


def _window(mesh: Mesh, middle: tuple[float, float], half: tuple[float, float], low: float) -> None:
    (x, y), (dx, dy) = middle, half
    mesh.box("window", (x - dx, y - dy, low), (x + dx, y + dy, low + 1.25), fit=True)


def _middles(start: float, length: float, spacing: float) -> list[float]:
    count = max(1, int(length // spacing))
    return [start + length * (i + 0.5) / count for i in range(count)]


def _roof(mesh: Mesh, material: str, tint: Tint, x: float, y: float, width: float, depth: float, height: float,
          rise: float) -> None:
    left, right, front, back = x - EAVES_M, x + width + EAVES_M, y - EAVES_M, y + depth + EAVES_M
    ridge, top, tiles = (front + back) / 2, height + rise, (right - left) / 2
    uv = np.array([[0, 0], [tiles, 0], [tiles, 2], [0, 2]])
    mesh.quad("roof", [[left, front, height], [right, front, height], [right, ridge, top], [left, ridge, top]], uv)
    mesh.quad("roof", [[right, back, height], [left, back, height], [left, ridge, top], [right, ridge, top]], uv)
    mesh.quad("dark", [[left, front, height - 0.01], [left, back, height - 0.01], [right, back, height - 0.01],
                       [right, front, height - 0.01]])
    for at in (x, x + width):
        gable = np.array([[at, y, height], [at, y + depth, height], [at, ridge, height + 0.9 * rise]])
        corners = gable if at > x else gable[[1, 0, 2]]
        outward = np.tile([1.0 if at > x else -1.0, 0, 0], (3, 1))
        mesh.add(material, corners, outward, corners[:, 1:] / 2, tint)
