"""Trees, lamp posts, and the things that can come, go and be taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from worldloom.dataengine.record.world.mesh import Mesh, Tint
from worldloom.dataengine.record.world.scene import Prop, Scene

SOLID_KINDS = ("crate", "barrel", "rock", "bench", "chest")
ADDED_KINDS = ("crate", "barrel", "chest", "beach ball")
Extent = tuple[float, float, float]     # half of x, half of y, height


def add_prop(scene: Scene, rng: np.random.Generator, x: float, y: float, kind: str | None = None) -> None:
    """Put a thing on the ground; a random solid one where no kind is named."""
    kind = kind or str(rng.choice(SOLID_KINDS))
    scene.props.append(make_prop(rng, kind, np.array([x, y, scene.ground(x, y)])))


def make_prop(rng: np.random.Generator, kind: str, position_3: np.ndarray) -> Prop:
    mesh = Mesh()
    red, green, blue = rng.uniform(0.75, 1.2, 3)
    half_x, half_y, height = MAKERS[kind](mesh, rng, (red, green, blue, 0.0))
    return Prop(kind, mesh, position_3, half_x, half_y, height, solid=kind != "coin")


def _crate(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    half = float(rng.uniform(0.35, 0.6))
    mesh.box("planks", (-half, -half, 0), (half, half, 2 * half), tint, tile_m=1)
    return half, half, 2 * half


def _barrel(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.tube("dark", (0, 0, 0), 0.34, 0.38, 0.5, tint, sides=12)
    mesh.tube("dark", (0, 0, 0.5), 0.38, 0.33, 0.5, tint, sides=12)
    return 0.38, 0.38, 1.0


def _rock(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.ball("rock", (0, 0, 0.3), 0.7, tint, stretch=(1, 0.8, 0.7), rng=rng)
    return 0.6, 0.5, 0.7


def _bench(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.box("planks", (-0.9, -0.25, 0.4), (0.9, 0.25, 0.48), tint, tile_m=1)
    for x in (-0.8, 0.7):
        mesh.box("metal", (x, -0.2, 0), (x + 0.1, 0.2, 0.4))
    return 0.9, 0.25, 0.48


def _chest(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.box("dark", (-0.5, -0.3, 0), (0.5, 0.3, 0.55), (1.5, 0.9, 0.5, 0.0), tile_m=1)
    mesh.box("metal", (-0.08, -0.33, 0.25), (0.08, -0.29, 0.45), (1.8, 1.4, 0.5, 0.2))
    return 0.5, 0.3, 0.55


def _beach_ball(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.ball("picture0", (0, 0, 0.6), 0.6, (1.3, 1.1, 1.1, 0.0), sides=16, tile_m=0.6)
    return 0.6, 0.6, 1.2


def _coin(mesh: Mesh, rng: np.random.Generator, tint: Tint) -> Extent:
    mesh.ball("white", (0, 0, 1.0), 0.28, (1.5, 1.05, 0.1, 0.35), sides=12, stretch=(1, 0.35, 1))
    return 0.28, 0.28, 1.3


MAKERS: dict[str, Callable[[Mesh, np.random.Generator, Tint], Extent]] = {
    "crate": _crate, "barrel": _barrel, "rock": _rock, "bench": _bench, "chest": _chest, "beach ball": _beach_ball,
    "coin": _coin,
}


def add_tree(scene: Scene, rng: np.random.Generator, x: float, y: float) -> None:
    """A trunk that stops a body, and balls of leaves that do not."""
    ground, height = scene.ground(x, y), float(rng.uniform(2.2, 3.6))
    scene.mesh.tube("bark", (x, y, ground - 0.2), 0.2, 0.13, height + 0.4, sides=8)
    scene.walls.append([x - 0.25, y - 0.25, ground, x + 0.25, y + 0.25, ground + height])
    leaves = "leaf_green" if rng.random() < 0.75 else "leaf_yellow"
    shade = float(rng.uniform(0.8, 1.15))
    for _ in range(int(rng.integers(4, 7))):
        dx, dy = rng.normal(0, 0.6, 2)
        centre = (x + dx, y + dy, ground + height + rng.uniform(-0.3, 1.2))
        scene.mesh.ball(leaves, centre, float(rng.uniform(0.9, 1.4)), (shade, shade, shade, 0.0), sides=8, rng=rng,
                        tile_m=1.5)


def add_lamp_post(scene: Scene, x: float, y: float) -> None:
    scene.mesh.tube("metal", (x, y, 0), 0.07, 0.05, 3.4, sides=8)
    scene.mesh.ball("white", (x, y, 3.5), 0.2, (1.2, 1.1, 0.8, 0.6), sides=8)
    scene.lamps.append([x, y, 3.5, 1.0, 0.8, 0.5])
    scene.walls.append([x - 0.1, y - 0.1, 0, x + 0.1, y + 0.1, 3.4])
