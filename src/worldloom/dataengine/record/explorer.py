"""A player that covers a map of ViZDoom: it goes to the nearest place where it has not been, through doors too.

`cover` goes for area; `events` goes first for items in sight, faces enemies, and changes weapons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from worldloom.dataengine.record.floorplan import CELL_UNITS, Place, floor_plan, turn_towards_deg
from worldloom.dataengine.record.policy import Command, Player, View

BLOCK_CELLS = 4                 # places are squares of 64 units
AHEAD_CELLS, STRAIGHT_CELLS = 3, 5
MOST_CELLS, ITEM_CELLS = 40_000, 1500
STUCK_TICS, GIVE_UP_TICS, NEW_PLAN_TICS = 8, 45, 140
GOALS, CELLS_PER_DEG = 40, 0.12     # among so many near goals, a turn costs as much as a walk of so many cells
FACES_DEG = 50.0
NEXT_WEAPON_SHARE = {"cover": 0.002, "events": 0.012}


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The player's place and heading (counterclockwise from east), and where the items in the picture are."""
    x: float
    y: float
    angle_deg: float
    items_xy: tuple[tuple[float, float], ...] = ()


class Explorer:
    """`act` is called once a tic; equal seeds and maps give equal commands."""

    def __init__(self, kind: str, seed: int, sectors: Sequence[Any], max_pitch_deg: float) -> None:
        self.kind, self.plan = kind, floor_plan(sectors)
        self.wander = Player("explore", seed, max_pitch_deg)     # where no way is known
        self.rng = np.random.default_rng(seed)
        self.been: set[Place] = set()
        self.given_up: set[Place] = set()
        self.way: list[Place] = []
        self.tic = self.planned = self.stuck = self.wanders = 0
        self.shortest = 10**9           # what was left of the way at best; a way that gets no shorter is stuck
        self.turn_deg = 0.0

    def act(self, view: View, here: Whereabouts) -> Command:
        self.tic += 1
        place = self.plan.place(here.x, here.y)
        row, column = _block(place)
        self.been.update((row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1))
        if self._wants_way(place):
            self._look_for_way(place, here)
        if not self.way or self.wanders > 0:
            self.wanders -= 1
            return self.wander.act(view)
        return self._follow(view, here, place)

    def _wants_way(self, place: Place) -> bool:
        if self.wanders > 0:
            return False
        self.way = _rest(self.way, place)
        if self.stuck > GIVE_UP_TICS:
            self.given_up.add(_block(self.way[-1]) if self.way else _block(place))
            for cell in self.way[1:3]:
                self.plan.free_HW[cell] = False         # something unknown stands there
            self.stuck, self.way = 0, []
            self.wanders = int(self.rng.integers(12, 40))
            return False
        return not self.way or self.tic - self.planned > NEW_PLAN_TICS

    def _look_for_way(self, place: Place, here: Whereabouts) -> None:
        self.planned = self.tic
        start = self._nearest_free(place)
        items = {self.plan.place(*xy) for xy in here.items_xy} if self.kind == "events" else set()
        items = {item for item in items if _block(item) not in self.given_up}
        found = self.plan.ways(start, items.__contains__, 1, ITEM_CELLS) if items else []
        found = found or self.plan.ways(start, self._is_new, GOALS, MOST_CELLS)
        self.way = min(found, key=lambda way: self._cost(way, here), default=[])
        self.shortest, self.stuck = len(self.way), 0
        if not self.way:
            self.wanders = NEW_PLAN_TICS

    def _cost(self, way: list[Place], here: Whereabouts) -> float:
        ahead = self.plan.middle(way[min(STRAIGHT_CELLS, len(way)) - 1])
        return len(way) + CELLS_PER_DEG * abs(turn_towards_deg(here.x, here.y, here.angle_deg, ahead))

    def _is_new(self, place: Place) -> bool:
        block = _block(place)
        return block not in self.been and block not in self.given_up

    def _nearest_free(self, place: Place) -> Place:
        if self.plan.free_HW[place]:
            return place
        rows, columns = np.nonzero(self.plan.free_HW)
        nearest = int(np.argmin((rows - place[0]) ** 2 + (columns - place[1]) ** 2))
        return int(rows[nearest]), int(columns[nearest])

    def _follow(self, view: View, here: Whereabouts, place: Place) -> Command:
        goal = self.way[min(AHEAD_CELLS, len(self.way)) - 1]
        aside = turn_towards_deg(here.x, here.y, here.angle_deg, self.plan.middle(goal))
        walks = abs(aside) < FACES_DEG
        self.stuck = 0 if len(self.way) < self.shortest else self.stuck + int(walks)
        self.shortest = min(self.shortest, len(self.way))
        turn, attack = 0.3 * aside, 0
        if view.enemy is not None:
            attack = int(abs(view.enemy) < 0.07)
            if self.kind == "events" and abs(view.enemy) < 0.4 and self.tic % 140 < 80:
                turn, walks = view.enemy * 16, walks and abs(view.enemy) > 0.1
        self.turn_deg += 0.45 * (float(np.clip(turn, -8, 8)) - self.turn_deg)
        sidesteps = self.stuck > 2 * STUCK_TICS
        return Command(
            longitudinal=int(walks), lateral=(1 if self.stuck // 12 % 2 else -1) if sidesteps else 0,
            run=int(len(self.way) > STRAIGHT_CELLS and abs(aside) < 15), attack=attack,
            use=int(walks and self.stuck > STUCK_TICS // 2 and self.tic % 9 == 4), turn_deg=self.turn_deg,
            look_deg=float(np.clip(-0.06 * view.pitch_deg, -2, 2)),
            next_weapon=int(self.rng.random() < NEXT_WEAPON_SHARE[self.kind]))


def covered_area_m2(xy_N2: np.ndarray, metres_per_unit: float = 0.03125) -> float:
    """Area of the squares of 64 map units that a path visits."""
    side = BLOCK_CELLS * CELL_UNITS
    squares = np.unique(np.floor(np.asarray(xy_N2) / side).astype(int), axis=0)
    return len(squares) * (side * metres_per_unit) ** 2


def _block(place: Place) -> Place:
    return place[0] // BLOCK_CELLS, place[1] // BLOCK_CELLS


def _rest(way: list[Place], place: Place) -> list[Place]:
    """The way from the cell of it that is nearest, among the next few, to where the player is."""
    if not way:
        return way
    ahead = way[:8]
    away = [max(abs(cell[0] - place[0]), abs(cell[1] - place[1])) for cell in ahead]
    nearest = int(np.argmin(away))
    return way[nearest + 1:] if away[nearest] <= 1 else way[nearest:]

