"""Scripted play: smooth and seeded. Numbers are for 24 frames a second and scaled to others.

`Wander` goes in segments and keeps off walls by rays; the policies that need a plan are in `plans`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.player import Command, Player
from worldloom.dataengine.record.world.scene import Scene, State
from worldloom.dataengine.record.world.space import bearing_deg, direction, ray_length, wrap_deg

SEGMENTS: dict[str, tuple[str, ...]] = {
    "explore": ("forward",) * 5 + ("scan", "diagonal", "forward_jump", "run", "strafe"),
    "mixed": ("forward", "forward", "run", "diagonal", "diagonal", "back", "strafe", "turn", "turn", "scan", "look",
              "jump", "forward_jump", "idle"),
    "turn": ("turn", "turn", "walk_turn"),
    "rotate": ("rotate", "rotate", "scan"),
    "look": ("look",),
    "strafe": ("strafe",),
    "back": ("back", "back", "forward"),
    "jump": ("jump", "forward_jump", "forward_jump"),
    "walk": ("forward", "forward", "forward", "arc"),
    "forward": ("forward",),
    "idle": ("idle",),
    "stationary": ("idle",),
    "wall": ("forward",),
    "loop": ("forward", "diagonal", "scan", "strafe", "arc"),
    "showcase": ("forward", "scan", "look", "forward_jump", "run", "strafe"),
}
FORWARD = ("forward", "run", "forward_jump", "arc", "diagonal", "walk_turn")
STILL_VIEW = ("idle",)
SEEKS_ITEMS = ("explore", "walk")
LOOKS_AROUND = ("explore", "mixed", "loop", "showcase", "jump")
MAX_TURN_DEG, MAX_LOOK_DEG = 8.0, 5.0
FREE_TURN_DEG = {"turn": 6.0, "mixed": 4.2}     # largest turn rate that is drawn and held
NEAR_WALL_M, AT_WALL_M, SIGHT_M, ITEM_SIGHT_M = 2.6, 0.8, 12.0, 7.0
SCAN_RAYS_DEG = (0.0, -25.0, 25.0, -60.0, 60.0)
SHIN_M, HIP_M = 0.4, 0.8
NO_BOXES = np.zeros((0, 6))
POLICY_STREAM = 14
FRAMES = 24.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a policy sees: the scene, its state, and what would stop a body."""
    scene: Scene
    state: State
    obstacles_N6: np.ndarray

    def free(self, player: Player, turn_deg: float = 0.0, limit_m: float = SIGHT_M) -> float:
        """Metres to the first thing at shin height or the first slope at hip height in a level direction."""
        way = direction(player.yaw_deg + turn_deg)
        free = ray_length(self.obstacles_N6, player.position_3 + [0, 0, SHIN_M], way, limit_m)
        return self.scene.free_length(NO_BOXES, player.position_3 + [0, 0, HIP_M], way, free)

    def push(self, player: Player, turn_deg: float, seconds: float, step_s: float) -> bool:
        """Whether walking straight on after a turn comes up against something within the time."""
        trial = player.copy()
        trial.yaw_deg += turn_deg
        for _ in range(round(seconds / step_s)):
            trial.step(Command(longitudinal=1), self.obstacles_N6, step_s)
            if trial.blocked:
                return True
        return False


class Policy(Protocol):
    """Gives the command between each frame and the next."""

    @property
    def segment(self) -> str: ...

    def act(self, frame: int, player: Player, around: Surroundings) -> Command: ...


class Wander:
    """Segments of play drawn at random (in order for `showcase`); equal seeds and worlds give equal commands."""

    def __init__(self, params: WorldParams) -> None:
        self.kind, self.rate = params.policy, FRAMES / params.fps
        self.rng = np.random.default_rng([params.seed, POLICY_STREAM])
        self.segment, self.side, self.open_side = "idle", 1, 1
        self.drawn = self.left = self.hold = self.wall_frames = self.blocked_frames = 0
        self.turn_goal = self.turn_deg = self.look_deg = 0.0
        self.away_deg = 0.0

    def act(self, frame: int, player: Player, around: Surroundings) -> Command:
        self._next_segment()
        longitudinal, lateral = self._keys()
        turn, look = self._turn_goal(frame), self._look_goal(frame, player)
        if self.kind == "wall":
            longitudinal, turn = self._leave_wall(player, around, longitudinal)
        elif longitudinal > 0:
            longitudinal, turn = self._keep_off_walls(player, around, turn)
        elif player.blocked and (longitudinal or lateral):
            self._turn_back()
        self._smooth(turn, look)
        jump = self.segment in ("jump", "forward_jump") and player.on_ground and self._beat(26)
        return Command(longitudinal=longitudinal, lateral=lateral, jump=int(jump), run=int(self.segment == "run"),
                       use=int(self._uses_door(player, around)), turn_deg=self.turn_deg, look_deg=self.look_deg)

    def _beat(self, frames: int) -> bool:
        return self.left % max(1, round(frames / self.rate)) == 0

    def _next_segment(self) -> None:
        self.left -= 1
        if self.left > 0:
            return
        names = SEGMENTS[self.kind]
        chosen = self.drawn % len(names) if self.kind == "showcase" else int(self.rng.integers(len(names)))
        self.segment, self.drawn = names[chosen], self.drawn + 1
        self.left = int(self.rng.integers(18, 50) / self.rate)
        self.side = 1 if self.rng.random() < 0.5 else -1

    def _keys(self) -> tuple[int, int]:
        longitudinal = 1 if self.segment in FORWARD else -1 if self.segment == "back" else 0
        return longitudinal, self.side if self.segment in ("strafe", "diagonal") else 0

    def _turn_goal(self, frame: int) -> float:
        """Degrees a 24th of a second."""
        self.hold -= 1
        if self.hold < 0:
            self.hold = int(self.rng.integers(6, 26) / self.rate)
            top = FREE_TURN_DEG.get(self.kind, 0.0)
            self.turn_goal = float(self.rng.uniform(-top, top)) if self.rng.random() < 0.8 else 0.0
        wander = float(self.rng.normal())
        if self.segment == "rotate":
            return self.side * (3.6 + 0.8 * math.sin(frame * self.rate / 17))
        if self.segment == "scan":
            return self.side * 2.4
        if self.segment in ("turn", "walk_turn") or (self.kind == "mixed" and self.segment in FORWARD):
            return self.turn_goal
        if self.segment == "arc":
            return self.side * 1.6 + wander
        return wander * {"look": 0.2, "strafe": 0.5, "back": 0.5, "jump": 0.3}.get(self.segment, 1.0)

    def _look_goal(self, frame: int, player: Player) -> float:
        level = 0.05 * (player.level_deg - player.pitch_deg)
        if self.segment == "look":
            return 0.3 * level + 2.6 * math.cos(frame * self.rate / 13)
        if self.segment == "scan" and self.kind != "rotate":
            return level + 0.7 * math.sin(frame * self.rate / 9)
        return level + (float(self.rng.normal(0, 0.5)) if self.kind in LOOKS_AROUND else 0.0)

    def _keep_off_walls(self, player: Player, around: Surroundings, turn: float) -> tuple[int, float]:
        """Towards an item in sight, else away from a wall ahead: (forward key, turn goal)."""
        towards_item = self._item_turn(player, around)
        if towards_item is not None:
            return 1, towards_item
        free = [around.free(player, deg) for deg in SCAN_RAYS_DEG]
        ahead = min(free[:3])
        if ahead >= NEAR_WALL_M:
            self.wall_frames = 0
            return 1, turn
        if self.wall_frames == 0:
            self.open_side = 1 if free[2] + free[4] > free[1] + free[3] else -1
        self.wall_frames += 1
        return int(ahead > AT_WALL_M), self.open_side * (4.5 if ahead < NEAR_WALL_M / 2 else 3.0)

    def _item_turn(self, player: Player, around: Surroundings) -> float | None:
        if self.kind not in SEEKS_ITEMS:
            return None
        items = [at - player.position_3 for prop, there, at in
                 zip(around.scene.props, around.state.present, around.state.positions, strict=False)
                 if prop.kind == "coin" and there]
        offset = min(items, key=lambda v: math.hypot(v[0], v[1]), default=None)
        if offset is None:
            return None
        away, aside = math.hypot(offset[0], offset[1]), wrap_deg(bearing_deg(offset) - player.yaw_deg)
        if away > ITEM_SIGHT_M or abs(aside) > 60 or around.free(player, aside) < away:
            return None
        return float(np.clip(0.15 * aside, -4, 4))

    def _leave_wall(self, player: Player, around: Surroundings, longitudinal: int) -> tuple[int, float]:
        """Push against a wall for a while, then turn to another."""
        if abs(self.away_deg) > 4:
            self.away_deg -= self.turn_deg
            return 0, float(np.clip(self.away_deg * 0.25, -5, 5))
        self.blocked_frames = self.blocked_frames + 1 if player.blocked else 0
        if self.blocked_frames > 30 / self.rate:
            self.blocked_frames = 0
            turns = [self.side * float(self.rng.uniform(60, 170)) for _ in range(8)]
            self.away_deg = next((t for t in turns if around.push(player, t, 2.5, self.rate / FRAMES)), turns[0])
        return longitudinal, 0.0

    def _turn_back(self) -> None:
        """Blocked on the way back or aside: go on to the other side, or to the next segment."""
        self.left -= 3
        self.side = -self.side if self.left % 2 else self.side

    def _uses_door(self, player: Player, around: Surroundings) -> bool:
        if self.kind != "explore" or self.wall_frames % 12 != 5:
            return False
        return any(deg == 0 and np.linalg.norm(door.centre_2 - player.position_3[:2]) < 1.7
                   for door, deg in zip(around.scene.doors, around.state.door_deg, strict=True))

    def _smooth(self, turn: float, look: float) -> None:
        if self.segment in STILL_VIEW:
            self.turn_deg = self.look_deg = 0.0
            return
        self.turn_deg += 0.22 * (turn * self.rate - self.turn_deg)
        self.look_deg += 0.25 * (look * self.rate - self.look_deg)
        self.turn_deg = min(max(self.turn_deg, -MAX_TURN_DEG), MAX_TURN_DEG)
        self.look_deg = min(max(self.look_deg, -MAX_LOOK_DEG), MAX_LOOK_DEG)
        if self.kind in ("strafe", "turn", "walk"):
            self.look_deg = 0.0
