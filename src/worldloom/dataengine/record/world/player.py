"""The body: walks, runs, jumps, is stopped by boxes and follows the ground; and the camera in it or behind it.

A step turns by half, moves, and turns the other half, so that opposite commands in reverse order lead back exactly.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np

from worldloom.dataengine.record.world.figure_pose import FigurePose
from worldloom.dataengine.record.world.scene import Scene
from worldloom.dataengine.record.world.space import bearing_deg, direction, heading, wrap_deg

EYE_M, RADIUS_M, STEP_UP_M, TALL_M = 1.65, 0.3, 0.3, 1.75
GRAVITY_M_S2, JUMP_M_S, WALK_M_S, RUN_M_S = 9.81, 4.2, 1.8, 3.6
FOLLOWS_DOWN_M = 0.35                       # the ground may fall this much in a step before a body flies
FPS_PITCH_DEG, TPS_PITCH_DEG, TPS_LEVEL_DEG = (-80.0, 80.0), (-45.0, 30.0), -8.0
BODY_TURN_DEG = 12.0                        # a step
ARM_M, SHOULDER_M, PIVOT_M, HIDE_BODY_M = 3.0, 0.55, 1.6, 0.9
STRIDE_RAD_PER_M = 4.2


@dataclass(frozen=True, slots=True)
class Command:
    """What is held during one step: keys as -1, 0, 1 (forward, right positive) and turns in degrees a step."""
    longitudinal: int = 0
    lateral: int = 0
    jump: int = 0
    run: int = 0
    use: int = 0
    turn_deg: float = 0.0
    look_deg: float = 0.0

    @property
    def moves(self) -> bool:
        return bool(self.longitudinal or self.lateral)

    def reversed(self) -> Command:
        return replace(self, longitudinal=-self.longitudinal, lateral=-self.lateral, jump=0, use=0,
                       turn_deg=-self.turn_deg, look_deg=-self.look_deg)


class Player:
    """A body in a scene, first or third person."""

    def __init__(self, scene: Scene, x: float, y: float, yaw_deg: float, third_person: bool, inertia_s: float) -> None:
        self.scene, self.third_person, self.inertia_s = scene, third_person, inertia_s
        self.position_3 = np.array([x, y, scene.ground(x, y)])
        self.yaw_deg, self.pitch_deg = wrap_deg(yaw_deg), self.level_deg
        self.velocity_2, self.rise_m_s = np.zeros(2), 0.0
        self.on_ground, self.blocked = True, False
        self.body_yaw_deg, self.phase, self.gait, self.arm_m = self.yaw_deg, 0.0, 0.0, ARM_M

    @property
    def level_deg(self) -> float:
        """The pitch that a player comes back to."""
        return TPS_LEVEL_DEG if self.third_person else 0.0

    def copy(self) -> Player:
        """Another body in the same state."""
        return copy.copy(self)

    def step(self, command: Command, obstacles_N6: np.ndarray, step_s: float) -> None:
        """Apply a command for one step."""
        wish = self._wish(command)
        self._accelerate(wish, step_s)
        before = self.position_3
        self._move(obstacles_N6, step_s)
        self.yaw_deg = wrap_deg(self.yaw_deg + command.turn_deg)
        low, high = TPS_PITCH_DEG if self.third_person else FPS_PITCH_DEG
        self.pitch_deg = min(max(self.pitch_deg + command.look_deg, low), high)
        self._fall(command, obstacles_N6, step_s)
        moved = float(np.linalg.norm((self.position_3 - before)[:2]))
        self.blocked = command.moves and moved < 0.5 * float(np.linalg.norm(self.velocity_2)) * step_s
        self._stride(wish, moved, step_s)

    def _wish(self, command: Command) -> np.ndarray:
        """Wanted velocity (2,), along the heading half way through the turn."""
        if not command.moves:
            return np.zeros(2)
        forward = heading(self.yaw_deg + command.turn_deg / 2)
        right = np.array([forward[1], -forward[0]])
        way = command.longitudinal * forward + command.lateral * right
        return way / np.linalg.norm(way) * (RUN_M_S if command.run else WALK_M_S)

    def _accelerate(self, wish: np.ndarray, step_s: float) -> None:
        share = 1.0 if self.inertia_s <= 0 else 1 - math.exp(-step_s / self.inertia_s)
        self.velocity_2 = self.velocity_2 + (wish - self.velocity_2) * share if share < 1 else wish

    def _move(self, obstacles_N6: np.ndarray, step_s: float) -> None:
        """Along x, then y; a wall stops one and lets the other slide."""
        for axis in (0, 1):
            wanted = self.position_3.copy()
            wanted[axis] += self.velocity_2[axis] * step_s
            if not collides(wanted, obstacles_N6):
                self.position_3 = wanted

    def _fall(self, command: Command, obstacles_N6: np.ndarray, step_s: float) -> None:
        ground = self._floor(obstacles_N6)
        if self.on_ground and command.jump:
            self.rise_m_s, self.on_ground = JUMP_M_S, False
        height = self.position_3[2]
        if self.on_ground and height - ground < FOLLOWS_DOWN_M:
            height = ground
        else:
            self.on_ground = False
            height += self.rise_m_s * step_s - GRAVITY_M_S2 * step_s**2 / 2
            self.rise_m_s -= GRAVITY_M_S2 * step_s
            if height <= ground and self.rise_m_s <= 0:
                height, self.rise_m_s, self.on_ground = ground, 0.0, True
        self.position_3 = np.array([self.position_3[0], self.position_3[1], height])

    def _floor(self, obstacles_N6: np.ndarray) -> float:
        """The highest ground or lid under the feet, up to one step above them."""
        under = _over(self.position_3, obstacles_N6) & (obstacles_N6[:, 5] <= self.position_3[2] + STEP_UP_M)
        ground = self.scene.ground(self.position_3[0], self.position_3[1])
        return max(ground, float(obstacles_N6[under, 5].max())) if under.any() else ground

    def _stride(self, wish: np.ndarray, moved_m: float, step_s: float) -> None:
        if wish.any():
            turn = wrap_deg(bearing_deg(wish) - self.body_yaw_deg)
            self.body_yaw_deg = wrap_deg(self.body_yaw_deg + min(max(turn, -BODY_TURN_DEG), BODY_TURN_DEG))
        self.phase += moved_m * STRIDE_RAD_PER_M
        self.gait += (min(1.0, moved_m / step_s / WALK_M_S) - self.gait) * 0.3

    def camera_3(self, obstacles_N6: np.ndarray) -> np.ndarray:
        """Where the camera is: the eye, or behind a shoulder as far as the walls leave room.

        Call it once a frame: the arm gets longer slowly. Without inertia it does so at once, so that the camera is a
        function of where the body is.
        """
        if not self.third_person:
            return self.position_3 + [0, 0, EYE_M]
        view, right = direction(self.yaw_deg, self.pitch_deg), direction(self.yaw_deg + 90)
        pivot = self.position_3 + [0, 0, PIVOT_M]
        aside = self.scene.free_length(obstacles_N6, pivot, right, 2.0) - 0.2
        pivot = pivot + right * max(0.0, min(SHOULDER_M, aside))
        room = max(0.5, min(ARM_M, self.scene.free_length(obstacles_N6, pivot, -view, ARM_M + 1) - 0.3))
        grows_slowly = self.inertia_s > 0 and room > self.arm_m
        self.arm_m = self.arm_m + 0.15 * (room - self.arm_m) if grows_slowly else room
        place = pivot - view * self.arm_m
        place[2] = max(place[2], self.scene.ground(place[0], place[1]) + 0.25)
        return place

    def figure(self) -> FigurePose | None:
        """The body to draw; none in first person."""
        if not self.third_person:
            return None
        return FigurePose(self.position_3, self.body_yaw_deg, self.phase, self.gait, self.on_ground,
                          self.arm_m > HIDE_BODY_M)


def _over(position_3: np.ndarray, boxes_N6: np.ndarray) -> np.ndarray:
    """Boxes (N,) whose level outline, grown by the body's radius, holds the position."""
    x, y = position_3[0], position_3[1]
    return ((x > boxes_N6[:, 0] - RADIUS_M) & (x < boxes_N6[:, 3] + RADIUS_M)
            & (y > boxes_N6[:, 1] - RADIUS_M) & (y < boxes_N6[:, 4] + RADIUS_M))


def collides(position_3: np.ndarray, boxes_N6: np.ndarray) -> bool:
    """A body with its feet at the position would stand in a box that is too high to step on."""
    z = position_3[2]
    return bool((_over(position_3, boxes_N6) & (z + STEP_UP_M < boxes_N6[:, 5]) & (z + TALL_M > boxes_N6[:, 2])).any())
