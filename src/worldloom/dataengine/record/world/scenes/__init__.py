"""The places: each is built from a seed alone."""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.scenes.rooms import build_rooms
from worldloom.dataengine.record.world.scenes.terrain import build_terrain
from worldloom.dataengine.record.world.scenes.town import build_town

BUILDERS = {"town": build_town, "rooms": build_rooms, "terrain": build_terrain}
LAYOUT_STREAM = 11


def make_scene(name: str, seed: int) -> Scene:
    scene = Scene(name, seed)
    BUILDERS[name](scene, np.random.default_rng([seed, LAYOUT_STREAM]))
    return scene.close()
