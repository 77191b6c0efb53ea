"""What happens in the world, with the frame from which it can be seen: doors, items, things that come and go, weather.

Texts speak of the world alone. Each kind belongs to one of three categories: interaction, environment, object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from worldloom.dataengine.record.world.lights import lamp_strength
from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.player import GRAVITY_M_S2, Player
from worldloom.dataengine.record.world.scene import Door, Scene, State
from worldloom.dataengine.record.world.scenes.things import ADDED_KINDS, make_prop
from worldloom.dataengine.record.world.space import bearing_deg, canonical, direction, heading, wrap_deg

CATEGORY = {"door_open": "interaction", "door_close": "interaction", "item": "interaction",
            "object_added": "object", "object_dropped": "object", "object_removed": "object",
            **dict.fromkeys(("rain", "snow", "fog", "dusk", "dawn", "lamps_off", "lamps_on"), "environment")}
CHANGES = {     # kind: (part of the environment, its new value, seconds until then, text)
    "rain": ("rain", 1.0, 1.5, "rain begins to fall"), "snow": ("snow", 1.0, 1.5, "snow begins to fall"),
    "fog": ("fog", 1.0, 3.0, "fog rolls in"), "dusk": ("daylight", 0.03, 3.0, "daylight fades to dusk"),
    "dawn": ("daylight", 1.0, 3.0, "the sky brightens to day"),
    "lamps_off": ("lamps", 0.0, 0.1, "the lamps go out"), "lamps_on": ("lamps", 1.0, 0.1, "the lamps light up"),
}
OF_THE_SKY = ("rain", "snow", "dusk", "dawn")
DOOR_DEG, DOOR_DEG_PER_S, DOOR_REACH_M, DOOR_AHEAD_DEG = 95.0, 150.0, 2.2, 60.0
ITEM_REACH_M, DROP_M, AHEAD_M = 0.8, 3.0, 4.5
EVENT_STREAM = 16
FREE_TIME = (0.25, 0.6)         # part of the episode in which events without a time happen


@dataclass(frozen=True, slots=True)
class Event:
    """`frame` is the first one whose picture can differ, `stop_frame` the first after the change is complete."""
    kind: str
    text: str
    frame: int
    stop_frame: int
    by: str                             # player or script
    thing: str | None = None
    position_3: tuple[float, float, float] | None = None     # canonical

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "category": CATEGORY[self.kind], "text": self.text, "frame": self.frame,
                "stop_frame": self.stop_frame, "by": self.by, "thing": self.thing, "position": self.position_3}


@dataclass(frozen=True, slots=True)
class Ramp:
    """A part of the environment on its way."""
    part: str
    start_frame: int
    from_value: float
    to_value: float
    frames: float


class Events:
    """Changes the state of a scene from frame to frame and says what happened."""

    def __init__(self, scene: Scene, params: WorldParams) -> None:
        self.scene, self.params = scene, params
        self.rng = np.random.default_rng([params.seed, EVENT_STREAM])
        self.first_props = len(scene.props)         # those that a world without events has too
        self.due = self._schedule()
        self.door_goal_deg = [0.0] * len(scene.doors)
        self.ramps: list[Ramp] = []
        self.falling: dict[int, float] = {}         # prop: speed downwards
        self.happened: list[Event] = []
        self.skipped: list[dict[str, Any]] = []

    def _schedule(self) -> list[tuple[int, str]]:
        low, high = (share * self.params.seconds for share in FREE_TIME)
        timed = [(self.rng.uniform(low, high) if second is None else second, kind)
                 for kind, second in self.params.timed_events()]
        return sorted((round(second * self.params.fps), kind) for second, kind in timed)

    def advance(self, frame: int, state: State, player: Player, used: bool, in_view: Sequence[int]) -> list[Event]:
        """Bring the state from the frame before to this one; the events whose first frame this is.

        Args:
            used: the use key was held on the way here.
            in_view: props that were seen in the frame before.
        """
        before = len(self.happened)
        if used:
            self._use_door(frame, state, player)
        self._swing(state)
        self._take_items(frame, state, player)
        while self.due and self.due[0][0] <= frame:
            self._script(self.due.pop(0)[1], frame, state, player, in_view)
        self._change_environment(frame, state)
        self._drop(state)
        return self.happened[before:]

    def _tell(self, kind: str, text: str, frame: int, seconds: float, by: str, thing: str | None = None,
              position_3: np.ndarray | None = None) -> None:
        place = None if position_3 is None else tuple(round(float(v), 3) for v in canonical(position_3))
        stop = frame + max(1, math.ceil(seconds * self.params.fps))
        self.happened.append(Event(kind, text, frame, stop, by, thing, place))      # type: ignore[arg-type]

    def _use_door(self, frame: int, state: State, player: Player) -> None:
        """The nearest door in reach and ahead swings away from the player, or shut."""
        offsets = [door.centre_2 - player.position_3[:2] for door in self.scene.doors]
        near = [i for i, offset in enumerate(offsets) if np.hypot(*offset) < DOOR_REACH_M
                and abs(wrap_deg(bearing_deg(offset) - player.yaw_deg)) < DOOR_AHEAD_DEG]
        if not near:
            return
        i = min(near, key=lambda j: float(np.hypot(*offsets[j])))
        door, opens = self.scene.doors[i], self.door_goal_deg[i] == 0
        self.door_goal_deg[i] = _away_from(door, player) * DOOR_DEG if opens else 0.0
        self._tell("door_open" if opens else "door_close", f"the wooden door swings {'open' if opens else 'shut'}",
                   frame, DOOR_DEG / DOOR_DEG_PER_S, "player", f"door{i}", np.array([*door.centre_2, 1.1]))

    def _swing(self, state: State) -> None:
        step = DOOR_DEG_PER_S / self.params.fps
        for i, goal in enumerate(self.door_goal_deg):
            state.door_deg[i] += float(np.clip(goal - state.door_deg[i], -step, step))

    def _take_items(self, frame: int, state: State, player: Player) -> None:
        if self.params.is_closed:
            return                                  # what is passed twice must look the same
        for i, prop in enumerate(self.scene.props):
            near = prop.kind == "coin" and state.present[i] and (
                np.linalg.norm(state.positions[i] - player.position_3) < ITEM_REACH_M)
            if near:
                state.present[i] = False
                self._tell("item", "a golden coin is picked up and vanishes", frame, 0, "player", f"coin{i}",
                           state.positions[i] + [0, 0, 1])

    def _script(self, kind: str, frame: int, state: State, player: Player, in_view: Sequence[int]) -> None:
        if kind in CHANGES:
            self._start_ramp(kind, frame, state)
        elif kind == "object_removed":
            self._remove(frame, state, player, in_view)
        else:
            self._add(kind, frame, state, player)

    def _start_ramp(self, kind: str, frame: int, state: State) -> None:
        part, value, seconds, text = CHANGES[kind]
        from_value = getattr(state.environment, part)
        if abs(value - from_value) < 0.05:
            self._skip(kind, frame, f"{part} is {from_value:g} already")
        elif self.scene.is_indoor and kind in OF_THE_SKY:
            self._skip(kind, frame, "there is no sky indoors")
        elif part == "lamps" and lamp_strength(self.scene, replace(state.environment, lamps=1.0)) < 0.2:
            self._skip(kind, frame, "lamps cannot be seen by day")
        else:
            self.ramps = [ramp for ramp in self.ramps if ramp.part != part]
            self.ramps.append(Ramp(part, frame, from_value, value, seconds * self.params.fps))
            self._tell(kind, text, frame, seconds, "script")

    def _skip(self, kind: str, frame: int, why: str) -> None:
        self.skipped.append({"kind": kind, "frame": frame, "why": why})

    def _add(self, kind: str, frame: int, state: State, player: Player) -> None:
        """A thing ahead, as far as the walls leave room, at rest or falling from above."""
        waist = player.position_3 + [0, 0, 0.6]
        free = self.scene.free_length(self.scene.obstacles(state), waist, direction(player.yaw_deg), 9.0)
        if free < 2.2:
            self._skip(kind, frame, "no room ahead")
            return
        x, y = player.position_3[:2] + heading(player.yaw_deg) * min(AHEAD_M, free - 0.9)
        ground = np.array([x, y, self.scene.ground(x, y)])
        prop = make_prop(self.rng, str(self.rng.choice(ADDED_KINDS)), ground)
        prop = replace(prop, solid=prop.solid and not self.params.is_closed)    # it may lie on the way back
        is_dropped, name = kind == "object_dropped", f"{prop.kind.replace(' ', '_')}{len(self.scene.props)}"
        if is_dropped:
            self.falling[len(self.scene.props)] = 0.0
        self.scene.props.append(prop)
        state.present.append(True)
        state.positions.append(ground + [0, 0, DROP_M if is_dropped else 0.0])
        text = f"a {prop.kind} {'drops from above and lands' if is_dropped else 'appears'} ahead"
        self._tell(kind, text, frame, math.sqrt(2 * DROP_M / GRAVITY_M_S2) if is_dropped else 0, "script", name,
                   state.positions[-1])

    def _remove(self, frame: int, state: State, player: Player, in_view: Sequence[int]) -> None:
        seen = [i for i in in_view if i < self.first_props and state.present[i] and self.scene.props[i].solid]
        if not seen:
            self._skip("object_removed", frame, "nothing solid in view")
            return
        i = min(seen, key=lambda j: float(np.linalg.norm(state.positions[j] - player.position_3)))
        kind = self.scene.props[i].kind
        state.present[i] = False
        self.falling.pop(i, None)
        self._tell("object_removed", f"the {kind} ahead vanishes", frame, 0, "script",
                   f"{kind.replace(' ', '_')}{i}", state.positions[i])

    def _change_environment(self, frame: int, state: State) -> None:
        for ramp in self.ramps:
            share = min(1.0, (frame - ramp.start_frame + 1) / ramp.frames)
            value = ramp.from_value + (ramp.to_value - ramp.from_value) * share
            state.environment = replace(state.environment, **{ramp.part: value})

    def _drop(self, state: State) -> None:
        step_s = 1 / self.params.fps
        for i, speed in list(self.falling.items()):
            x, y, z = state.positions[i]
            floor = self.scene.ground(x, y)
            self.falling[i] = speed + GRAVITY_M_S2 * step_s
            state.positions[i] = np.array([x, y, max(floor, z - self.falling[i] * step_s)])
            if state.positions[i][2] == floor:
                del self.falling[i]


def _away_from(door: Door, player: Player) -> int:
    """Sign of the angle by which a door opens away from the player."""
    across = 1 - door.axis
    is_before = player.position_3[across] < door.hinge_2[across]
    return (1 if is_before else -1) * (1 if door.axis == 0 else -1)
