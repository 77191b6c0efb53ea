"""What one recorded episode of the world is: all that decides its poses and pictures, and the name of its file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from worldloom.dataengine.record.cells import check_cell_weights
from worldloom.schemas import ConfigError

SCENES = ("town", "rooms", "terrain")
PERSPECTIVES = ("fps", "tps")
POLICIES = ("explore", "mixed", "turn", "rotate", "look", "strafe", "back", "jump", "walk", "forward", "idle",
            "stationary", "wall", "door", "loop", "square", "showcase", "thin")
SCHEDULED = ("object_added", "object_dropped", "object_removed", "rain", "snow", "fog", "dusk", "dawn", "lamps_off",
             "lamps_on")
"""Events that are asked for; doors and items are the player's doing."""
MAX_PEOPLE = 20
EVENT = re.compile(r"(?P<kind>[a-z_]+)(@(?P<seconds>\d+(\.\d+)?))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldParams:
    """One episode. Equal parameters give equal poses, keys and events, and on one machine equal pictures."""
    scene: str = "town"
    seed: int = 1                   # makes the place, the way the player goes, and the times of events without one
    seconds: float = 12.0
    fps: int = 24
    policy: str = "mixed"
    perspective: Literal["fps", "tps"] = "fps"
    width: int = 320
    height: int = 240
    hfov_deg: float = 75.0
    daylight: float = 1.0           # 0 night to 1 noon
    inertia_s: float = 0.08         # time constant of walking speed; loops and squares have none
    events: tuple[str, ...] = ()    # KIND or KIND@SECONDS
    depth_every: int = 0            # save the depth of every Nth frame; 0 saves none
    save_twin: bool = False         # save the same play with no event as NAME.twin.mp4
    people: int = 0                 # how many walk about
    variant: int = 0                # 1, 2, ...: the same play with another look
    cell_weights: tuple[float, ...] = ()    # of policy `thin`: how often each of coverage.CELLS is held

    def __post_init__(self) -> None:
        for name, value, known in (("scene", self.scene, SCENES), ("policy", self.policy, POLICIES),
                                   ("perspective", self.perspective, PERSPECTIVES)):
            if value not in known:
                raise ConfigError(f"unknown {name} {value!r}; known: {', '.join(known)}")
        check_cell_weights(self.policy, self.cell_weights)
        self._check_picture()
        self._check_numbers()
        for kind, second in self.timed_events():
            if kind not in SCHEDULED:
                raise ConfigError(f"unknown event {kind!r}; known: {', '.join(SCHEDULED)}")
            if second is not None and second >= self.seconds:
                raise ConfigError(f"event {kind}@{second:g} comes after the end at {self.seconds:g} s")

    def _check_picture(self) -> None:
        if self.width % 2 or self.height % 2 or not (32 <= self.width <= 3840 and 32 <= self.height <= 2160):
            raise ConfigError(f"no picture of {self.width}x{self.height}: give even numbers from 32 to 3840x2160")
        if not 20 <= self.hfov_deg <= 130:
            raise ConfigError(f"hfov_deg {self.hfov_deg:g} must be in 20 to 130")

    def _check_numbers(self) -> None:
        if not 1 <= self.fps <= 120 or self.num_frames < 2:
            raise ConfigError(f"{self.seconds:g} s at {self.fps} frames a second is no episode; give 2 frames or more")
        if not 0 <= self.people <= MAX_PEOPLE or self.variant < 0:
            raise ConfigError(f"people {self.people} must be in 0 to {MAX_PEOPLE}, variant {self.variant} 0 or more")
        if self.seed < 0 or self.depth_every < 0 or not 0 <= self.daylight <= 1 or not 0 <= self.inertia_s <= 1:
            raise ConfigError(f"seed {self.seed} and depth_every {self.depth_every} must be 0 or more, daylight "
                              f"{self.daylight:g} and inertia_s {self.inertia_s:g} in 0 to 1")

    @property
    def num_frames(self) -> int:
        return round(self.seconds * self.fps)

    @property
    def is_closed(self) -> bool:
        """The play comes back to where it began, exactly."""
        return self.policy in ("loop", "square")

    @property
    def name(self) -> str:
        """File name without suffix."""
        variant = f"_v{self.variant}" if self.variant else ""
        return f"world_{self.scene}_{self.perspective}_{self.policy}_{self.seed}{variant}"

    def timed_events(self) -> list[tuple[str, float | None]]:
        """(kind, seconds from the start or None) of each event asked for.

        Raises:
            ConfigError: an event is not KIND or KIND@SECONDS.
        """
        found = []
        for text in self.events:
            match = EVENT.fullmatch(text)
            if match is None:
                raise ConfigError(f"event {text!r} must be KIND or KIND@SECONDS; kinds: {', '.join(SCHEDULED)}")
            found.append((match["kind"], None if match["seconds"] is None else float(match["seconds"])))
        return found
