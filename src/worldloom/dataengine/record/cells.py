"""Action cells and a play that holds them: (longitudinal, lateral, turn, look), each -1, 0 or 1.

Forward, right, turning right and looking up are positive.
"""

from __future__ import annotations

import itertools

import numpy as np

from worldloom.schemas import ConfigError

Cell = tuple[int, int, int, int]
CELLS: tuple[Cell, ...] = tuple(itertools.product((-1, 0, 1), repeat=4))       # type: ignore[arg-type]
HOLD_S = (0.4, 1.1)
TURN_DEG_PER_S, LOOK_DEG_PER_S = (30.0, 120.0), (16.0, 40.0)
ROOM_DEG = 6.0                  # a look starts only where pitch has this much left
BLOCKED_S = 0.2                 # so long against a wall, and another cell is drawn
BLOCKED_SHARE = 0.35            # of such draws turn on the spot first, so that a corner is left
CHANGE_S = 0.12                 # time constant at which turning reaches a cell's rate


def check_cell_weights(policy: str, weights: tuple[float, ...]) -> None:
    """Refuse weights that do not fit the policy.

    Raises:
        ConfigError: weights without policy `thin` or the other way around, another number than 81, or none above 0.
    """
    if (policy == "thin") != bool(weights):
        raise ConfigError("policy 'thin' and the weights of action cells go together; give --thin-from FOLDER")
    if weights and (len(weights) != len(CELLS) or min(weights) < 0 or not sum(weights) > 0):
        raise ConfigError(f"cell_weights must be {len(CELLS)} numbers of 0 or more, not all 0")


class Cells:
    """The cell that is held now. `next` is called before each frame; equal seeds and answers give equal cells."""

    def __init__(self, rng: np.random.Generator, weights: tuple[float, ...], fps: float) -> None:
        self.rng, self.fps = rng, fps
        self.share = np.array(weights, float) / sum(weights)
        self.cell: Cell = (0, 0, 0, 0)
        self.left = self.blocked = 0
        self.turn_goal = self.look_goal = self.turn_deg = self.look_deg = 0.0     # degrees a frame

    def next(self, is_blocked: bool, room_down_deg: float, room_up_deg: float) -> None:
        """Go on, or draw another cell when time is up, a wall stops it or pitch ends.

        Args:
            room_down_deg, room_up_deg: how much pitch is left each way.
        """
        self.left -= 1
        self.blocked = self.blocked + 1 if is_blocked else 0
        is_stuck = self.blocked > BLOCKED_S * self.fps
        ends = (self.cell[3] > 0 and room_up_deg < ROOM_DEG / 3) or (self.cell[3] < 0 and room_down_deg < ROOM_DEG / 3)
        if self.left < 0 or is_stuck or ends:
            self._draw(is_stuck, room_down_deg, room_up_deg)
        share = 1 - np.exp(-1 / (CHANGE_S * self.fps))
        self.turn_deg = self._towards(self.turn_deg, self.turn_goal, share)
        self.look_deg = self._towards(self.look_deg, self.look_goal, share)

    def _towards(self, now: float, goal: float, share: float) -> float:
        reached = float(now + (goal - now) * share)
        return 0.0 if goal == 0 and abs(reached) * self.fps < 2 else reached

    def _draw(self, is_stuck: bool, room_down_deg: float, room_up_deg: float) -> None:
        share = self.share.copy()
        for i, cell in enumerate(CELLS):
            if (cell[3] > 0 and room_up_deg < ROOM_DEG) or (cell[3] < 0 and room_down_deg < ROOM_DEG):
                share[i] = 0
        if is_stuck and self.rng.random() < BLOCKED_SHARE:
            self.cell = (0, 0, int(self.rng.choice([-1, 1])), 0)
        elif share.sum() > 0:
            self.cell = CELLS[int(self.rng.choice(len(CELLS), p=share / share.sum()))]
        else:                       # only looks are wanted, and pitch is at its end: look back
            self.cell = (0, 0, 0, 1 if room_down_deg < room_up_deg else -1)
        self.left, self.blocked = round(float(self.rng.uniform(*HOLD_S)) * self.fps), 0
        self.turn_goal = self.cell[2] * float(self.rng.uniform(*TURN_DEG_PER_S)) / self.fps
        self.look_goal = self.cell[3] * float(self.rng.uniform(*LOOK_DEG_PER_S)) / self.fps
