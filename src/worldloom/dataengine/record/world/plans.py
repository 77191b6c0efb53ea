"""Play with a plan: out and back, a closed square, through a door."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from worldloom.dataengine.record.cells import Cells
from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.player import FPS_PITCH_DEG, TPS_PITCH_DEG, WALK_M_S, Command, Player
from worldloom.dataengine.record.world.policy import POLICY_STREAM, Policy, Surroundings, Wander
from worldloom.dataengine.record.world.space import bearing_deg, wrap_deg

DOOR_STOP_M, DOOR_WAIT_S, DOOR_WALK_S, GIVE_UP_S, THROUGH_M = 1.9, 1.0, 3.3, 6.0, 1.6
CORNER_SHARE = 0.35             # of a side's frames are its turn
SIDES = 4


def make_policy(params: WorldParams) -> Policy:
    if params.policy == "loop":
        return Loop(params)
    if params.policy == "square":
        return Square(params)
    if params.policy == "thin":
        return Thin(params)
    return ThroughDoor(params) if params.policy == "door" else Wander(params)


class Thin:
    """Holds action cells, the thinnest most often; a wall or the end of pitch asks for another cell."""
    segment = "thin"

    def __init__(self, params: WorldParams) -> None:
        rng = np.random.default_rng([params.seed, POLICY_STREAM])
        self.cells = Cells(rng, params.cell_weights, params.fps)
        self.pitch_deg = TPS_PITCH_DEG if params.perspective == "tps" else FPS_PITCH_DEG

    def act(self, frame: int, player: Player, around: Surroundings) -> Command:
        low, high = self.pitch_deg
        self.cells.next(player.blocked, player.pitch_deg - low, high - player.pitch_deg)
        longitudinal, lateral, _, _ = self.cells.cell
        return Command(longitudinal=longitudinal, lateral=lateral, turn_deg=self.cells.turn_deg,
                       look_deg=self.cells.look_deg)


class Loop:
    """Half the episode anywhere, then every step undone in reverse order: frame i is frame 2 * middle - i."""

    def __init__(self, params: WorldParams) -> None:
        self.wander, self.step_s = Wander(params), 1 / params.fps
        self.middle = (params.num_frames - 1) // 2
        self.done: list[Command] = []

    @property
    def segment(self) -> str:
        return self.wander.segment if len(self.done) < self.middle else "return"

    def act(self, frame: int, player: Player, around: Surroundings) -> Command:
        if frame < self.middle:
            self.done.append(self._undoable(self.wander.act(frame, player, around), player, around))
            return self.done[-1]
        back = 2 * self.middle - 1 - frame
        return self.done[back].reversed() if back >= 0 else Command()

    def _undoable(self, command: Command, player: Player, around: Surroundings) -> Command:
        """The command without its jump, and without what a wall, a step or the end of pitch would make one-way."""
        command = replace(command, jump=0, use=0)
        trial = player.copy()
        trial.step(command, around.obstacles_N6, self.step_s)
        if trial.pitch_deg != player.pitch_deg + command.look_deg:
            command = replace(command, look_deg=0.0)
        there = trial.position_3
        trial.step(command.reversed(), around.obstacles_N6, self.step_s)
        moved = float(np.linalg.norm((there - player.position_3)[:2]))
        speed = WALK_M_S * (2 if command.run else 1)
        is_free = abs(moved - speed * self.step_s) < 1e-9 and trial.on_ground
        returns = float(np.abs(trial.position_3 - player.position_3).max()) < 1e-12
        return command if not command.moves or (is_free and returns) else replace(command, longitudinal=0, lateral=0)


class Square:
    """Four equal sides, each a walk and a right angle: back at the start, looking the same way."""

    def __init__(self, params: WorldParams) -> None:
        self.step_s, self.frames = 1 / params.fps, (params.num_frames - 1) // SIDES
        self.plan: list[Command] | None = None

    @property
    def segment(self) -> str:
        return "square"

    def act(self, frame: int, player: Player, around: Surroundings) -> Command:
        if self.plan is None:
            self.plan = self._largest(player, around)
        return self.plan[frame] if frame < len(self.plan) else Command()

    def _largest(self, player: Player, around: Surroundings) -> list[Command]:
        """The longest walk whose square is free of walls, to the right or the left; at worst a turn on the spot."""
        for share in (1.0, 0.8, 0.6, 0.45, 0.3, 0.15):
            for side in (1, -1):
                plan = self.commands(share, side)
                if self._is_free(plan, player, around):
                    return plan
        return self.commands(0.0, 1)

    def commands(self, share: float, side: int) -> list[Command]:
        """Forward in the first `share` of each side's frames; a smooth turn of 90 degrees at its end."""
        turning = max(1, round(CORNER_SHARE * self.frames))
        walking = round(share * (self.frames - turning))
        rate = np.sin(np.pi * (np.arange(turning) + 0.5) / turning)
        turns = np.zeros(self.frames)
        turns[self.frames - turning:] = side * 90.0 * rate / rate.sum()
        one = [Command(longitudinal=int(i < walking), turn_deg=float(turn)) for i, turn in enumerate(turns)]
        return one * SIDES

    def _is_free(self, plan: list[Command], player: Player, around: Surroundings) -> bool:
        trial = player.copy()
        for command in plan:
            before = trial.position_3
            trial.step(command, around.obstacles_N6, self.step_s)
            moved = float(np.linalg.norm((trial.position_3 - before)[:2]))
            if not trial.on_ground or (command.moves and abs(moved - WALK_M_S * self.step_s) > 1e-9):
                return False
        return float(np.abs(trial.position_3 - player.position_3).max()) < 1e-9


class ThroughDoor:
    """Walk up to the nearest door, use it, wait until it is open, go through, and wander on."""

    def __init__(self, params: WorldParams) -> None:
        self.wander, self.fps = Wander(replace(params, policy="walk")), params.fps
        self.used_frame: int | None = None
        self.goals_2: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def segment(self) -> str:
        return "door"

    def act(self, frame: int, player: Player, around: Surroundings) -> Command:
        done_frame = GIVE_UP_S * self.fps if self.used_frame is None else self.used_frame + DOOR_WALK_S * self.fps
        is_done = frame > done_frame
        if not around.scene.doors or is_done:
            return self.wander.act(frame, player, around)
        door, beyond = self.goals_2 = self.goals_2 or self._goals(player, around)
        offset = (door if self.used_frame is None else beyond) - player.position_3[:2]
        away = float(np.linalg.norm(offset))
        uses = self.used_frame is None and away <= DOOR_STOP_M
        if uses:
            self.used_frame = frame
        is_open = self.used_frame is not None and frame > self.used_frame + DOOR_WAIT_S * self.fps
        walks = away > DOOR_STOP_M if self.used_frame is None else is_open and away > 0.5
        return Command(longitudinal=int(walks), use=int(uses), turn_deg=self._turn(offset, away, player),
                       look_deg=float(np.clip(0.1 * (player.level_deg - player.pitch_deg), -1, 1)) * 24 / self.fps)

    def _turn(self, offset_2: np.ndarray, away: float, player: Player) -> float:
        aside = wrap_deg(bearing_deg(offset_2) - player.yaw_deg)
        return float(np.clip(0.12 * aside, -3, 3)) * 24 / self.fps if away > 0.8 else 0.0

    def _goals(self, player: Player, around: Surroundings) -> tuple[np.ndarray, np.ndarray]:
        """The nearest door's middle and a place behind it."""
        here = player.position_3[:2]
        door = min(around.scene.doors, key=lambda d: float(np.linalg.norm(d.centre_2 - here)))
        beyond, across = door.centre_2.copy(), 1 - door.axis
        beyond[across] += math.copysign(THROUGH_M, beyond[across] - here[across])
        return door.centre_2, beyond
