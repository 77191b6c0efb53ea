"""Events of a game, from the engine's counters and moving sectors, in plain English without camera or control words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

COUNTED = {
    "kills": ("kill", "an enemy is killed"),
    "hits": ("hit", "an enemy is hit"),
    "hits_taken": ("damage_taken", "the player takes damage"),
    "items": ("item", "an item is picked up"),
    "secrets": ("secret", "a secret area is found"),
}
USE_REACH_UNITS, USE_WINDOW_TICS, STILL_TICS = 128.0, 20, 3


@dataclass
class Doors:
    """Sectors whose ceiling starts to rise soon after USE and close by: doors that open."""
    heights: np.ndarray | None = None
    last_use: int = -10**6
    moved: dict[int, int] = field(default_factory=dict)

    def used(self, frame: int) -> None:
        self.last_use = frame

    def opened(self, frame: int, heights: np.ndarray, middles: Sequence[np.ndarray],
               position: tuple[float, float]) -> int:
        """Number of doors first seen moving in this frame.

        Args:
            heights: (S, 2) floor and ceiling of every sector.
            middles: of every sector, the middles (L, 2) of its lines.
            position: the player's, level.
        """
        before, self.heights = self.heights, heights
        if before is None or before.shape != heights.shape:
            return 0
        count = 0
        for sector in np.nonzero(np.abs(heights - before).max(1) > 1e-3)[0].tolist():
            onset = frame - self.moved.get(sector, -10**6) > STILL_TICS
            self.moved[sector] = frame
            rises = heights[sector, 1] > before[sector, 1] + 1e-3
            if onset and rises and frame - self.last_use <= USE_WINDOW_TICS:
                lines = middles[sector]
                near = len(lines) and np.hypot(*(lines - np.array(position)).T).min() <= USE_REACH_UNITS
                count += int(bool(near))
        return count


@dataclass
class Events:
    """Events whose first visible frame is the one just seen: differences from the frame before."""
    before: dict[str, float] | None = None
    weapon: int | None = None           # the last one really held; the engine says -1 in the middle of a switch

    def seen(self, counters: Mapping[str, float], doors_opened: int = 0) -> list[dict[str, str]]:
        """counters: kills, hits, hits_taken, items, secrets, health, ammo, weapon of this frame."""
        before, self.before = self.before, dict(counters)
        weapon, held = self.weapon, int(counters["weapon"])
        self.weapon = held if held >= 0 else weapon
        if before is None:
            return []
        found = [pair for key, pair in COUNTED.items() if counters[key] > before[key]]
        if counters["health"] > before["health"]:
            found.append(("heal", "the player is healed"))
        if counters["ammo"] > before["ammo"] and held == int(before["weapon"]) and held >= 0:
            found.append(("ammo_pickup", "ammunition is picked up"))
        if weapon is not None and held >= 0 and held != weapon:
            found.append(("weapon_switch", "the player changes weapons"))
        found += [("door_open", "a door opens")] * doors_opened
        return [{"kind": kind, "text": text} for kind, text in found]
