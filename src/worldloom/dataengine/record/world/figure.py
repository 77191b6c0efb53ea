"""The character of third-person play, and other people: walking figures of boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import panda3d.core as p3d

from worldloom.dataengine.record.world.figure_pose import FigurePose
from worldloom.dataengine.record.world.mesh import Mesh
from worldloom.dataengine.record.world.nodes import mesh_node

FIGURE_STREAM, PERSON_STREAM = 13, 19
SWING_DEG, JUMP_SPREAD_DEG = 34.0, 25.0


class Figure:
    """Nodes of a body under `parent`; its colours come from the seeds."""

    def __init__(self, parent: p3d.NodePath, textures: Mapping[str, p3d.Texture], seeds: Sequence[int]) -> None:
        rng = np.random.default_rng(list(seeds))
        skin = rng.uniform(0.55, 1, 3) * (1, 0.8, 0.65)
        shirt, trousers = rng.uniform(0.1, 1, 3), rng.uniform(0.08, 0.5, 3)
        self.node, self.textures = parent.attachNewNode("figure"), textures
        self._part("cloth", (-0.22, -0.13, 0), (0.22, 0.13, 0.6), shirt, (0, 0, 0.85))
        self._part("cloth", (-0.12, -0.12, 0), (0.12, 0.12, 0.26), skin, (0, 0, 1.5))
        self._part("dark", (-0.13, -0.13, 0.16), (0.13, 0.09, 0.3), (0.7, 0.6, 0.5), (0, 0, 1.5))
        self._part("planks", (-0.17, -0.26, 0.12), (0.17, -0.13, 0.52), (0.6, 0.8, 0.5), (0, 0, 0.85))
        self.limbs = []
        for side in (-1, 1):
            leg = self._part("cloth", (-0.09, -0.1, -0.85), (0.09, 0.1, 0), trousers, (side * 0.12, 0, 0.87))
            arm = self._part("cloth", (-0.065, -0.075, -0.62), (0.065, 0.075, 0.05), shirt, (side * 0.29, 0, 1.38))
            self.limbs += [(leg, -side), (arm, side)]

    def _part(self, material: str, low: tuple[float, ...], high: tuple[float, ...], colour: np.ndarray | tuple,
              pivot: tuple[float, float, float]) -> p3d.NodePath:
        mesh = Mesh()
        mesh.box(material, low, high, (float(colour[0]), float(colour[1]), float(colour[2]), 0.0), tile_m=0.5)
        node = mesh_node("part", mesh, self.textures)
        node.reparentTo(self.node)
        node.setPos(*pivot)
        return node

    def place(self, pose: FigurePose) -> None:
        self.node.setPos(*map(float, pose.position_3))
        self.node.setH(-pose.yaw_deg)
        if pose.is_shown:
            self.node.show()
        else:
            self.node.hide()
        swing = math.sin(pose.phase) * SWING_DEG * pose.gait if pose.on_ground else JUMP_SPREAD_DEG
        for limb, sign in self.limbs:
            limb.setP(swing * sign)
