"""Hills with a winding path, trees and rocks, in a bowl of steep slopes."""

from __future__ import annotations

import math

import numpy as np

from worldloom.dataengine.record.world.mesh import Mesh
from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.scenes.things import add_prop, add_tree
from worldloom.dataengine.record.world.textures import noise

SIDE_M = 128
STEEP, PATH_HALF_M = 0.82, 1.4          # upward part of the normal under which ground is rock
TREES, ROCKS, THINGS = 110, 40, 12


def build_terrain(scene: Scene, rng: np.random.Generator) -> None:
    rows, columns = np.mgrid[:SIDE_M + 1, :SIDE_M + 1] - SIDE_M / 2
    away = np.hypot(columns, rows)
    hills = noise(rng, 2.1)[:SIDE_M + 1, :SIDE_M + 1] * 6
    scene.height_HW = hills * np.clip(away / 30, 0.15, 1) + np.clip((away - 45) / 20, 0, 1) ** 2 * 14
    _cover(scene.mesh, scene.height_HW, rows, columns)
    for _ in range(TREES):
        x, y = (float(value) for value in rng.uniform(-50, 50, 2))
        if abs(x - path_x(y)) > 2.5:
            add_tree(scene, rng, x, y)
    for _ in range(ROCKS):
        x, y = (float(value) for value in rng.uniform(-40, 40, 2))
        add_prop(scene, rng, x, y, "rock")
    for _ in range(THINGS):
        y = float(rng.uniform(-30, 30))
        add_prop(scene, rng, path_x(y) + float(rng.uniform(-0.8, 0.8)), y, str(rng.choice(["coin", "crate", "barrel"])))
    scene.start = (path_x(-20.0), -20.0, 20.0)


def path_x(y: float) -> float:
    """Where the path runs."""
    return 6 * math.sin(y / 14)


def _cover(mesh: Mesh, height_HW: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Two triangles a square metre, split along the diagonal that `Scene.ground_of` uses, of rock, dirt or grass."""
    slope_y, slope_x = np.gradient(height_HW)
    normal = np.stack([-slope_x, -slope_y, np.ones_like(slope_x)], axis=-1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    position = np.stack([columns, rows, height_HW], axis=-1)
    i, j = (index.ravel() for index in np.mgrid[:SIDE_M, :SIDE_M])
    corners = np.stack([np.stack([i + a, j + b], axis=-1)
                        for a, b in ((0, 0), (0, 1), (1, 1), (0, 0), (1, 1), (1, 0))], axis=1)
    on_path = np.abs(columns - 6 * np.sin(rows / 14))[i, j] < PATH_HALF_M
    is_rock = (normal[i, j, 2] < STEEP) & ~on_path
    for material, chosen in (("rock", is_rock), ("dirt", on_path), ("grass", ~is_rock & ~on_path)):
        at = corners[chosen].reshape(-1, 2)
        if len(at):
            vertex = position[at[:, 0], at[:, 1]]
            shade = np.clip(0.95 + 0.04 * vertex[:, 2], 0.6, 1.4)
            tint = np.stack([shade, shade, shade, np.zeros_like(shade)], axis=1)
            mesh.add(material, vertex, normal[at[:, 0], at[:, 1]], vertex[:, :2] / 4, tint)
