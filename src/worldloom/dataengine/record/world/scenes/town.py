"""A town: blocks of houses, gardens and parks between cobbled streets, with a ring of buildings around."""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.scenes.buildings import add_house
from worldloom.dataengine.record.world.scenes.things import add_lamp_post, add_prop, add_tree

BLOCK_M, STREET_M, EDGE_M, RING_M = 18.0, 7.0, 70.0, 56.0
PITCH_M = BLOCK_M + STREET_M
PARK_SHARE, GARDEN_SHARE = 0.2, 0.45


def build_town(scene: Scene, rng: np.random.Generator) -> None:
    edge = np.array([[-EDGE_M, -EDGE_M, 0], [EDGE_M, -EDGE_M, 0], [EDGE_M, EDGE_M, 0], [-EDGE_M, EDGE_M, 0]])
    scene.mesh.quad("cobble", edge, edge[:, :2] / 3)
    for column in range(-2, 2):
        for row in range(-2, 2):
            _block(scene, rng, column * PITCH_M + STREET_M / 2, row * PITCH_M + STREET_M / 2)
    _ring(scene, rng)
    for _ in range(16):
        street = float(rng.choice([-PITCH_M, 0, PITCH_M]))
        add_prop(scene, rng, float(rng.uniform(-24, 24)), street + float(rng.uniform(-1, 1)), "coin")
    scene.start = (float(rng.choice([-PITCH_M, 0])), float(rng.uniform(-12, 10)), float(rng.choice([0, 180])))


def _block(scene: Scene, rng: np.random.Generator, x: float, y: float) -> None:
    far_x, far_y = x + BLOCK_M, y + BLOCK_M
    scene.mesh.box("concrete", (x - 0.8, y - 0.8, -0.1), (far_x + 0.8, far_y + 0.8, 0.02))
    scene.mesh.box("grass", (x, y, 0), (far_x, far_y, 0.03), tile_m=3)
    use = rng.random()
    if use < PARK_SHARE:
        for _ in range(9):
            add_tree(scene, rng, x + float(rng.uniform(2, BLOCK_M - 2)), y + float(rng.uniform(2, BLOCK_M - 2)))
        add_prop(scene, rng, x + 3, y + 1.2, "bench")
    else:
        with_garden = use <= GARDEN_SHARE
        for lot in ((0, 0), (1, 1)) if with_garden else ((0, 0), (1, 0), (0, 1), (1, 1)):
            _house_on(scene, rng, x, y, lot)
        if with_garden:
            add_tree(scene, rng, x + BLOCK_M * 0.75, y + BLOCK_M * 0.25)
    for _ in range(2):
        add_prop(scene, rng, x + float(rng.uniform(1, BLOCK_M - 1)), y + float(rng.choice([-0.35, BLOCK_M + 0.35])))
    add_lamp_post(scene, x - 0.4, y - 0.4)


def _house_on(scene: Scene, rng: np.random.Generator, x: float, y: float, lot: tuple[int, int]) -> None:
    is_open = lot == (0, 0)
    width, depth = float(rng.uniform(5, 7.4)), float(rng.uniform(5, 7))
    height = 3.0 if is_open else float(rng.choice([3.0, 5.8, 5.8, 8.6]))
    left, front = x + 0.9 + lot[0] * BLOCK_M / 2 + float(rng.uniform(0, 0.5)), y + 1.2 + lot[1] * BLOCK_M / 2
    add_house(scene, rng, left, front, width, depth, height, is_open)


def _ring(scene: Scene, rng: np.random.Generator) -> None:
    """Tall buildings that end every street."""
    for side in (-RING_M, RING_M):
        for along in np.arange(-EDGE_M, EDGE_M, 10):
            height = float(rng.uniform(5, 13))
            material = str(rng.choice(["brick", "stone", "plaster"]))
            scene.solid(material, (along, side - 3, 0), (along + 10, side + 3, height))
            scene.solid("stone", (side - 3, along, 0), (side + 3, along + 10, height * 0.8))
