"""Where an episode begins: a free place that suits its policy."""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.plans import DOOR_STOP_M, Square
from worldloom.dataengine.record.world.player import WALK_M_S, Player, collides
from worldloom.dataengine.record.world.policy import Surroundings
from worldloom.dataengine.record.world.scene import Scene, State
from worldloom.dataengine.record.world.space import bearing_deg, wrap_deg

START_STREAM = 15
TRIES = 200
OPEN_INDOOR_M, OPEN_OUTDOOR_M = 2.5, 6.0
SPREAD_M = {"rooms": 3.5, "town": 9.0, "terrain": 25.0}
WALL_WITHIN_S = 2.5
Place = tuple[float, float, float]      # x, y, heading


def find_start(scene: Scene, state: State, params: WorldParams, rng: np.random.Generator) -> Place:
    """A place near the scene's start where nobody stands in a wall and the way ahead suits the policy."""
    obstacles = scene.obstacles(state)
    best: Place = scene.start
    for _ in range(TRIES):
        place = _before_a_door(scene, rng) if params.policy == "door" and scene.doors else _near(scene, rng)
        x, y, yaw = place
        if collides(np.array([x, y, scene.ground(x, y)]), obstacles):
            continue
        best = place
        if _suits(scene, state, obstacles, params, place):
            return place
    return best


def _near(scene: Scene, rng: np.random.Generator) -> Place:
    x, y, _ = scene.start
    dx, dy = rng.uniform(-1, 1, 2) * SPREAD_M[scene.name]
    return x + float(dx), y + float(dy), float(rng.uniform(0, 360))


def _before_a_door(scene: Scene, rng: np.random.Generator) -> Place:
    """Outside in a town, on either side in a house; looking at the door, nearly."""
    door = scene.doors[int(rng.integers(len(scene.doors)))]
    side = int(rng.choice([-1, 1])) if scene.is_indoor else -1
    away = float(rng.uniform(3.2, 4.2) if scene.is_indoor else rng.uniform(3.6, 5.0))
    place = door.centre_2.copy()
    place[door.axis] += rng.uniform(-0.5, 0.5)
    place[1 - door.axis] += side * away
    return float(place[0]), float(place[1]), bearing_deg(door.centre_2 - place) + float(rng.uniform(-12, 12))


def _suits(scene: Scene, state: State, obstacles_N6: np.ndarray, params: WorldParams, place: Place) -> bool:
    x, y, yaw = place
    around = Surroundings(scene, state, obstacles_N6)
    player = Player(scene, x, y, yaw, params.perspective == "tps", 0.0)
    if params.policy == "wall":
        return around.push(player, 0.0, WALL_WITHIN_S, 1 / params.fps)
    if params.policy == "door" and scene.doors:
        return _can_reach_door(scene, around, player, 1 / params.fps)
    if params.policy == "square":
        square = Square(params)
        square.act(0, player, around)
        return any(command.moves for command in square.plan or ())
    return around.free(player) > (OPEN_INDOOR_M if scene.is_indoor else OPEN_OUTDOOR_M)


def _can_reach_door(scene: Scene, around: Surroundings, player: Player, step_s: float) -> bool:
    """A straight walk, square to the nearest door, to where it is used, with nothing in the way and it in sight."""
    here = player.position_3[:2]
    door = min(scene.doors, key=lambda d: float(np.hypot(*(d.centre_2 - here))))
    offset = door.centre_2 - here
    away, aside = float(np.hypot(*offset)), bearing_deg(offset) - player.yaw_deg
    reached_s = (away - DOOR_STOP_M) / WALK_M_S
    is_square = abs(offset[1 - door.axis]) > 2 * abs(offset[door.axis]) and abs(wrap_deg(aside)) < 25
    is_seen = around.free(player, aside) > 0.9 * away
    return is_square and is_seen and not around.push(player, aside, reached_s + 0.2, step_s)
