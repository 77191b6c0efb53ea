"""Scripted players: smooth, seeded, and rich in every control a model has to learn.

A player walks in segments (forward, strafe, look, ...), avoids walls by depth, uses what blocks it and turns away
when it is stuck. Angles are degrees a tic (1/35 s), turn right positive and look up positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SEGMENTS: dict[str, tuple[str, ...]] = {
    "explore": ("forward",) * 7 + ("scan", "strafe", "diagonal", "idle", "jump"),
    "mixed": ("forward", "forward", "forward", "diagonal", "diagonal", "back", "strafe", "turn", "turn", "scan", "look",
              "jump", "idle"),
    "rotate": ("rotate", "rotate", "scan"),
    "strafe": ("strafe",),
    "back": ("back", "back", "forward"),
    "jump": ("jump", "forward_jump"),
    "look": ("look",),
    "stationary": ("idle",),
    "forward": ("forward",),
    "turn": ("turn", "turn", "walk_turn"),
}
KINDS = (*SEGMENTS, "thin", "cover", "events")
WALKS = ("forward", "diagonal", "forward_jump", "walk_turn")
MAX_TURN_DEG = {"mixed": 4.2, "turn": 6.0, "explore": 5.0}
LOOKS = ("explore", "mixed", "look", "jump")
NEAR_DEPTH, WALL_DEPTH = 6.0, 18.0      # of the 8-bit depth buffer, 7.2 map units each (measured): 43 and 130
PATIENCE_TICS = {"explore": 16}         # how long a wall ahead is walked at and used, in case it is a door
DEFAULT_PATIENCE_TICS = 9


@dataclass(frozen=True, slots=True)
class View:
    """What a player sees before it acts."""
    pitch_deg: float                    # up positive
    speed: float                        # map units a tic, level
    ahead: float                        # depth of the middle, left and right of the picture
    left: float
    right: float
    enemy: float | None = None          # nearest enemy's offset from the middle, in picture widths, right positive


@dataclass(frozen=True, slots=True)
class Command:
    """What is held for one tic."""
    longitudinal: int = 0
    lateral: int = 0
    jump: int = 0
    run: int = 0
    attack: int = 0
    use: int = 0
    next_weapon: int = 0
    turn_deg: float = 0.0
    look_deg: float = 0.0


def view_of_depth(depth_HW: np.ndarray) -> tuple[float, float, float]:
    """Depth ahead (its near fifth), left and right (medians) of a strip at eye level."""
    h, w = depth_HW.shape
    strip = depth_HW[int(h * 0.45):int(h * 0.6):2, ::2]
    w //= 2
    middle = strip[:, int(w * 0.42):int(w * 0.58)]
    return (float(np.percentile(middle, 20)), float(np.median(strip[:, :int(w * 0.3)])),
            float(np.median(strip[:, int(w * 0.7):])))


class Player:
    """A scripted player of one kind. `act` is called once a tic; equal seeds and views give equal commands."""

    def __init__(self, kind: str, seed: int, max_pitch_deg: float = 28.0) -> None:
        self.kind, self.max_pitch_deg = kind, max_pitch_deg
        self.rng = np.random.default_rng(seed)
        self.tic = self.left_tics = self.hold_tics = self.blocked_tics = self.stuck_tics = 0
        self.segment, self.side, self.away = "idle", 1, 1
        self.turn_goal = self.turn_deg = self.look_deg = self.look_goal = 0.0

    def act(self, view: View) -> Command:
        self._next_segment()
        self._next_goals()
        longitudinal, lateral, jump = self._keys()
        turn, look = self._turn_target(view), self._look_target(view)
        use = 0
        if self.kind not in ("rotate", "look", "stationary"):
            longitudinal, turn, use = self._avoid(view, longitudinal, lateral, turn)
        turn, attack = self._fight(view, turn)
        self._smooth(view, turn, look)
        fights = self.kind in ("explore", "mixed")
        return Command(longitudinal=longitudinal, lateral=lateral, jump=jump, use=use, attack=attack,
                       run=int(fights and (self.tic // 200) % 3 == 1),
                       next_weapon=int(fights and self.rng.random() < 0.004),
                       turn_deg=self.turn_deg, look_deg=self.look_deg)

    def _next_segment(self) -> None:
        self.tic += 1
        self.left_tics -= 1
        if self.left_tics < 0:
            names = SEGMENTS[self.kind]
            self.segment = names[int(self.rng.integers(len(names)))]
            self.left_tics = int(self.rng.integers(18, 70))
            self.side = 1 if self.rng.random() < 0.5 else -1

    def _next_goals(self) -> None:
        """A turn rate is held for a while, then drawn anew, so that turns of every size start from every state."""
        self.hold_tics -= 1
        if self.hold_tics < 0:
            self.hold_tics = int(self.rng.integers(6, 26))
            top = MAX_TURN_DEG.get(self.kind, 0.0)
            self.turn_goal = float(self.rng.uniform(-top, top)) if self.rng.random() < 0.7 else 0.0
            self.look_goal = float(self.rng.uniform(-1.2, 1.2)) if self.rng.random() < 0.4 else 0.0

    def _keys(self) -> tuple[int, int, int]:
        longitudinal = 1 if self.segment in WALKS else -1 if self.segment == "back" else 0
        lateral = self.side if self.segment in ("strafe", "diagonal") else 0
        jump = int(self.segment in ("jump", "forward_jump") and self.tic % 29 < 3)
        return longitudinal, lateral, jump

    def _turn_target(self, view: View) -> float:
        if self.segment == "rotate":
            return self.side * 4.0
        if self.segment in ("idle", "look") or self.kind == "stationary":
            return 0.0
        if self.segment == "scan":
            return self.side * 2.0
        if self.kind == "turn" or (self.kind == "mixed" and self.segment != "jump"):
            return self.turn_goal
        wander = float(self.rng.normal(0, 1.2 if self.segment in WALKS else 0.7))
        if self.segment in WALKS and view.ahead < WALL_DEPTH:
            wander += self._open_side(view) * 0.9
        return wander

    def _look_target(self, view: View) -> float:
        if self.kind not in LOOKS or self.segment == "idle":
            return 0.0
        level = -0.06 * view.pitch_deg
        if self.segment == "look":
            return level * 0.3 + 1.8 * math.sin(self.tic / 11)
        return level + (self.look_goal if self.kind == "mixed" else float(self.rng.normal(0, 0.5)))

    def _avoid(self, view: View, longitudinal: int, lateral: int, turn: float) -> tuple[int, float, int]:
        """Use what blocks the way, then turn away from it; leave a wall behind or beside when no step succeeds."""
        use, patience = 0, PATIENCE_TICS.get(self.kind, DEFAULT_PATIENCE_TICS)
        if longitudinal > 0 and view.ahead < NEAR_DEPTH:
            self.blocked_tics = min(self.blocked_tics + 1, patience + 12)
            use = int(self.blocked_tics % 9 == 4)
            if self.blocked_tics == 1:
                self.away = self._open_side(view)
            if self.blocked_tics > patience:
                longitudinal, turn = 0, self.away * 5.0
        else:
            self.blocked_tics = max(0, self.blocked_tics - 1)
            if self.blocked_tics and longitudinal > 0:
                turn = self.away * 3.5
            elif longitudinal > 0 and view.ahead < WALL_DEPTH and self.kind in ("mixed", "turn"):
                turn = self._open_side(view) * 3.5
        if (longitudinal or lateral) and self.blocked_tics <= patience:
            self.stuck_tics = self.stuck_tics + 1 if view.speed < 1.0 else max(0, self.stuck_tics - 2)
            if self.stuck_tics > 12:
                turn = self.away * 4.0
            if self.stuck_tics > 45:
                self.side, self.away, self.stuck_tics = -self.side, -self.away, 0
        return longitudinal, turn, use

    def _open_side(self, view: View) -> int:
        """The side with more room, 1 for right; the segment's own side where both are alike."""
        more = view.right - view.left
        return self.side if abs(more) < 4 else 1 if more > 0 else -1

    def _fight(self, view: View, turn: float) -> tuple[float, int]:
        if self.kind not in ("explore", "mixed") or view.enemy is None:
            return turn, 0
        if abs(view.enemy) < 0.35 and self.kind == "explore":
            turn += float(np.clip(view.enemy * 12, -3, 3))
        return turn, int(abs(view.enemy) < 0.07)

    def _smooth(self, view: View, turn: float, look: float) -> None:
        still = self.segment == "idle"
        self.turn_deg = 0.0 if still else self.turn_deg + 0.25 * (turn - self.turn_deg)
        self.look_deg = 0.0 if still else self.look_deg + 0.25 * (look - self.look_deg)
        if abs(self.turn_deg) < 0.02:
            self.turn_deg = 0.0
        self.turn_deg = float(np.clip(self.turn_deg, -8, 8))
        low, high = -self.max_pitch_deg - view.pitch_deg, self.max_pitch_deg - view.pitch_deg
        self.look_deg = float(np.clip(np.clip(self.look_deg, -3, 3), min(low, 0), max(high, 0)))
