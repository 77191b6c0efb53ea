"""People who walk to and fro on paths of their own, the same in every world of a seed; nobody stops them or is stopped.

Where a person is depends on the time alone, so that a play that stands still in time (loops, squares) has people that
stand still.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.record.world.figure_pose import FigurePose
from worldloom.dataengine.record.world.player import RADIUS_M, STEP_UP_M, STRIDE_RAD_PER_M, TALL_M
from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.space import bearing_deg, canonical, direction, heading, wrap_deg

PEOPLE_STREAM = 17
SPREAD_M = {"rooms": 5.0, "town": 12.0, "terrain": 14.0}
CORNERS, TRIES = 5, 60
LEG_M, SHORTEST_M, WAIST_M = (3.0, 10.0), 1.2, 0.8
CLEAR_M, SLOPE_M, PILLAR_M = 0.05, 0.3, 1000.0
REACH_M, HEAD_M = 0.5, 1.82
SPEED_M_S, TURN_S = (0.9, 1.5), 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A path of corners (N, 2), walked to its end and back for ever, with a turn on the spot at each corner."""
    corners_N2: np.ndarray
    speed_m_s: float
    start_s: float

    def at(self, time_s: float, scene: Scene) -> FigurePose:
        """Feet, heading and stride at a time."""
        tour_N2 = np.concatenate([self.corners_N2, self.corners_N2[-2:0:-1], self.corners_N2[:1]])
        legs_L2 = np.diff(tour_N2, axis=0)
        lengths = np.linalg.norm(legs_L2, axis=1)
        spent_s = lengths / self.speed_m_s + TURN_S
        left_s = (self.start_s + time_s) % float(spent_s.sum())
        ends_s = np.cumsum(spent_s)
        leg = min(int(np.searchsorted(ends_s, left_s, side="right")), len(legs_L2) - 1)
        left_s -= float(ends_s[leg] - spent_s[leg])
        walked = min(left_s * self.speed_m_s, float(lengths[leg]))
        x, y = tour_N2[leg] + legs_L2[leg] * (walked / lengths[leg])
        yaw, after = bearing_deg(legs_L2[leg]), bearing_deg(legs_L2[(leg + 1) % len(legs_L2)])
        turned = min(max((left_s - float(lengths[leg]) / self.speed_m_s) / TURN_S, 0.0), 1.0)
        return FigurePose(np.array([x, y, scene.ground(float(x), float(y))]),
                          wrap_deg(yaw + turned * wrap_deg(after - yaw)), walked * STRIDE_RAD_PER_M,
                          0.0 if turned else 1.0, True, True)


def make_people(scene: Scene, obstacles_N6: np.ndarray, count: int, seed: int) -> list[Person]:
    """Up to `count` people near the scene's start, fewer where there is no room for a path."""
    people = []
    for i in range(count):
        rng = np.random.default_rng([seed, PEOPLE_STREAM, i])
        corners = _path(scene, obstacles_N6, rng)
        if len(corners) > 1:
            people.append(Person(np.array(corners), float(rng.uniform(*SPEED_M_S)), float(rng.uniform(0, 20))))
    return people


def _path(scene: Scene, obstacles_N6: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    grown_N6 = _grown(scene, obstacles_N6)
    corners: list[np.ndarray] = []
    for _ in range(TRIES):
        if not corners:
            place = np.array(scene.start[:2]) + rng.uniform(-1, 1, 2) * SPREAD_M[scene.name]
            is_inside = (place > grown_N6[:, :2]) & (place < grown_N6[:, 3:5])
            if not is_inside.all(axis=1).any():
                corners.append(place)
        elif len(corners) < CORNERS:
            way, wanted = float(rng.uniform(0, 360)), float(rng.uniform(*LEG_M))
            feet = _feet(scene, corners[-1])
            free = scene.free_length(grown_N6, feet + [0, 0, WAIST_M], direction(way), wanted) - CLEAR_M
            if free > SHORTEST_M:
                corners.append(corners[-1] + heading(way) * free)
    return corners


def _grown(scene: Scene, obstacles_N6: np.ndarray) -> np.ndarray:
    """What would stop a body on the ground, as pillars without end that are wider by the body's radius."""
    ground_N = scene.ground_of((obstacles_N6[:, :2] + obstacles_N6[:, 3:5]) / 2)
    is_in_way = ((obstacles_N6[:, 5] > ground_N + STEP_UP_M - SLOPE_M)
                 & (obstacles_N6[:, 2] < ground_N + TALL_M + SLOPE_M))
    pillars_N6 = obstacles_N6[is_in_way].copy()
    pillars_N6[:, :2] -= RADIUS_M
    pillars_N6[:, 3:5] += RADIUS_M
    pillars_N6[:, 2], pillars_N6[:, 5] = -PILLAR_M, PILLAR_M
    return pillars_N6


def _feet(scene: Scene, at_2: np.ndarray) -> np.ndarray:
    return np.array([at_2[0], at_2[1], scene.ground(float(at_2[0]), float(at_2[1]))])


def box_of(pose: FigurePose) -> list[float]:
    """Low and high corner around a body, swinging arms and legs within."""
    x, y, z = pose.position_3.tolist()
    return [x - REACH_M, y - REACH_M, z, x + REACH_M, y + REACH_M, z + HEAD_M]


def people_rows(people: tuple[FigurePose, ...]) -> list[dict[str, float | int]]:
    """Truth of everybody, in view or not: number, feet (canonical) and heading."""
    rows: list[dict[str, float | int]] = []
    for i, pose in enumerate(people):
        x, y, z = canonical(pose.position_3).tolist()
        rows.append({"person": i, "x": x, "y": y, "z": z, "yaw_deg": pose.yaw_deg})
    return rows
