"""Where a body can walk in a map of ViZDoom, from its sectors and lines, and ways over it."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CELL_UNITS = 16.0               # a body is 32 wide
STEP_UP_UNITS, TALL_UNITS, DOOR_UNITS = 24.0, 56.0, 8.0
MARGIN_CELLS = 4
AROUND = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
Place = tuple[int, int]         # row (y), column (x)


@dataclass(slots=True)
class FloorPlan:
    """free_HW: a body's middle may be in the cell. `low` is the corner of cell (0, 0) in map units."""
    free_HW: np.ndarray
    low: tuple[float, float]

    def place(self, x: float, y: float) -> Place:
        row, column = int((y - self.low[1]) // CELL_UNITS), int((x - self.low[0]) // CELL_UNITS)
        height, width = self.free_HW.shape
        return min(max(row, 0), height - 1), min(max(column, 0), width - 1)

    def middle(self, place: Place) -> tuple[float, float]:
        return self.low[0] + (place[1] + 0.5) * CELL_UNITS, self.low[1] + (place[0] + 0.5) * CELL_UNITS

    def ways(self, start: Place, is_goal: Callable[[Place], bool], most: int = 1,
             most_cells: int = 10**9) -> list[list[Place]]:
        """Shortest ways over free cells to the nearest `most` goals, nearest first, start left out."""
        came: dict[Place, Place] = {start: start}
        queue, free_HW, found = deque([start]), self.free_HW, list[list[Place]]()
        while queue and len(came) < most_cells and len(found) < most:
            here = queue.popleft()
            if here != start and is_goal(here):
                found.append(_back(came, here, start))
            for down, right in AROUND:
                there = (here[0] + down, here[1] + right)
                if there in came or not free_HW[there]:
                    continue
                if down and right and not (free_HW[here[0] + down, here[1]] and free_HW[here[0], here[1] + right]):
                    continue                    # no cutting of corners
                came[there] = here
                queue.append(there)
        return found


def _back(came: dict[Place, Place], end: Place, start: Place) -> list[Place]:
    way = [end]
    while came[way[-1]] != start:
        way.append(came[way[-1]])
    return way[::-1]


def floor_plan(sectors: Sequence[Any]) -> FloorPlan:
    """From the engine's sectors: solid walls and steps too high are grown by a body's radius; doors let through."""
    import cv2

    walls = [line for line, beside in _lines(sectors).items() if _stops([sectors[i] for i in beside])]
    ends = np.array(list(_lines(sectors)), float).reshape(-1, 2, 2)
    low = ends.min(axis=(0, 1)) - MARGIN_CELLS * CELL_UNITS
    width, height = np.ceil((ends.max(axis=(0, 1)) - low) / CELL_UNITS).astype(int) + MARGIN_CELLS
    solid_HW = np.zeros((height, width), np.uint8)
    for line in walls:
        (x0, y0), (x1, y1) = ((np.array(line) - low) / CELL_UNITS * 16).round().astype(int).tolist()
        cv2.line(solid_HW, (x0 - 8, y0 - 8), (x1 - 8, y1 - 8), 1, 1, cv2.LINE_8, shift=4)
    solid_HW = cv2.dilate(solid_HW, np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8))
    solid_HW[[0, -1]] = solid_HW[:, [0, -1]] = 1
    return FloorPlan(solid_HW == 0, (float(low[0]), float(low[1])))


def _lines(sectors: Sequence[Any]) -> dict[tuple[tuple[float, float], ...], list[int]]:
    """The sectors beside each line, by its ends."""
    beside: dict[tuple[tuple[float, float], ...], list[int]] = defaultdict(list)
    for i, sector in enumerate(sectors):
        for line in sector.lines:
            beside[tuple(sorted(((line.x1, line.y1), (line.x2, line.y2))))].append(i)
    return beside


def _stops(beside: Sequence[Any]) -> bool:
    if len(beside) < 2:
        return True
    one, other = beside[:2]
    if min(s.ceiling_height - s.floor_height for s in (one, other)) <= DOOR_UNITS:
        return False                            # a shut door; whether it opens is found by trying
    room = min(one.ceiling_height, other.ceiling_height) - max(one.floor_height, other.floor_height)
    return room < TALL_UNITS or abs(one.floor_height - other.floor_height) > STEP_UP_UNITS


def turn_towards_deg(x: float, y: float, angle_deg: float, goal_xy: tuple[float, float]) -> float:
    """How far to turn right to face a place; `angle_deg` is counterclockwise from east."""
    wanted = math.degrees(math.atan2(goal_xy[1] - y, goal_xy[0] - x))
    return (angle_deg - wanted + 180) % 360 - 180
