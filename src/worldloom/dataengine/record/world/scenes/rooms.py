"""A house of four by four rooms, joined by openings, some of which have doors."""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.scenes.buildings import add_door, add_wall, random_tint
from worldloom.dataengine.record.world.scenes.things import add_prop

COUNT, SIDE_M, HEIGHT_M, OPENING_M = 4, 7.0, 3.0, 1.2
DOOR_SHARE = 0.55
LOW_M, HIGH_M = -COUNT * SIDE_M / 2, COUNT * SIDE_M / 2
WALLS, FLOORS = ("brick", "stone", "plaster", "planks", "plaster"), ("tiles", "planks", "concrete", "dark")


def build_rooms(scene: Scene, rng: np.random.Generator) -> None:
    for column in range(COUNT):
        for row in range(COUNT):
            _room(scene, rng, column, row)
    for start in ((LOW_M, HIGH_M), (HIGH_M, LOW_M)):
        add_wall(scene, "brick", start, (HIGH_M, HIGH_M), HEIGHT_M)
    column, row = rng.integers(COUNT, size=2)
    scene.start = (LOW_M + (int(column) + 0.5) * SIDE_M, LOW_M + (int(row) + 0.5) * SIDE_M,
                   float(rng.uniform(0, 360)))


def _room(scene: Scene, rng: np.random.Generator, column: int, row: int) -> None:
    x, y = LOW_M + column * SIDE_M, LOW_M + row * SIDE_M
    scene.mesh.box(str(rng.choice(FLOORS)), (x, y, -0.1), (x + SIDE_M, y + SIDE_M, 0), tile_m=2.5)
    scene.mesh.box("plaster", (x, y, HEIGHT_M), (x + SIDE_M, y + SIDE_M, HEIGHT_M + 0.1))
    colour = rng.uniform([0.75, 0.6, 0.4], [1, 0.95, 0.9])
    middle = (x + SIDE_M / 2, y + SIDE_M / 2)
    scene.lamps.append([*middle, HEIGHT_M - 0.35, *colour])
    scene.mesh.ball("white", (*middle, HEIGHT_M - 0.12), 0.22, (*colour, 0.9), stretch=(1, 1, 0.5))
    front_opening = _side(scene, rng, x, y, axis=0, closed=row == 0)
    _side(scene, rng, x, y, axis=1, closed=column == 0)
    _hang_pictures(scene, rng, x, y, front_opening)
    _place_things(scene, rng, x, y)


def _side(scene: Scene, rng: np.random.Generator, x: float, y: float, axis: int, closed: bool) -> float | None:
    """The wall of a room along x (axis 0) or y; the middle of its opening, None where it has none."""
    middle = None if closed else (x, y)[axis] + SIDE_M / 2 + float(rng.uniform(-1.2, 1.2))
    end = (x + SIDE_M, y) if axis == 0 else (x, y + SIDE_M)
    tint, material = random_tint(rng, 0.7), str(rng.choice(WALLS))
    add_wall(scene, material, (x, y), end, HEIGHT_M, [] if middle is None else [(middle, OPENING_M)], tint)
    if middle is not None and rng.random() < DOOR_SHARE:
        hinge = middle - OPENING_M / 2
        add_door(scene, *((hinge, y) if axis == 0 else (x, hinge)), axis, OPENING_M)
    return middle


def _hang_pictures(scene: Scene, rng: np.random.Generator, x: float, y: float, opening: float | None) -> None:
    for _ in range(2):
        left, picture = x + float(rng.uniform(0.6, SIDE_M - 1.8)), int(rng.integers(3))
        if opening is None or abs(left + 0.6 - opening) > 1.4:
            scene.mesh.box(f"picture{picture}", (left, y + 0.16, 1.1), (left + 1.2, y + 0.19, 2.1), fit=True)


def _place_things(scene: Scene, rng: np.random.Generator, x: float, y: float) -> None:
    for _ in range(int(rng.integers(2, 5))):
        dx, dy = (float(rng.choice([1.0, SIDE_M - 1.0])) + float(rng.uniform(-0.2, 0.2)) for _ in range(2))
        add_prop(scene, rng, x + dx, y + dy)
    if rng.random() < 0.5:
        dx, dy = rng.uniform(2.4, SIDE_M - 2.4, 2)
        add_prop(scene, rng, x + float(dx), y + float(dy), "coin")
    if rng.random() < 0.5:
        scene.mesh.box("cloth", (x + 2, y + 2, 0), (x + 5, y + 5, 0.015), random_tint(rng, 0.2, 1.0), tile_m=0.7)
