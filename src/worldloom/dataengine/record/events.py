"""Events of a game, from the engine's counters and moving sectors, in plain English without camera or control words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

COUNTED = {
    "kills": ("kill", "an enemy is killed"),
    "hits": ("hit", "an enemy is hit"),
    "hits_taken": ("damage_taken", "the player takes damage"),
    "items": ("item", "an item is picked up"),
    "secrets": ("secret", "a secret area is found"),
}
FIGHTS, QUIET_TICS = ("kills", "hits", "hits_taken"), 105      # a fight begins after so long without any of these
USE_REACH_UNITS, USE_WINDOW_TICS, STILL_TICS = 128.0, 20, 3
CLOSE_REACH_UNITS = 512.0       # a door that shuts farther away is not told


@dataclass
class Doors:
    """Sectors whose ceiling starts to rise soon after USE and close by are doors that open; they shut when it falls."""
    heights: np.ndarray | None = None
    last_use: int = -10**6
    moved: dict[int, int] = field(default_factory=dict)
    open_sectors: set[int] = field(default_factory=set)
    closed: int = 0             # doors first seen shutting in the frame last asked about

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
        before, self.heights, self.closed = self.heights, heights, 0
        if before is None or before.shape != heights.shape:
            return 0
        count = 0
        for sector in np.nonzero(np.abs(heights - before).max(1) > 1e-3)[0].tolist():
            onset = frame - self.moved.get(sector, -10**6) > STILL_TICS
            self.moved[sector] = frame
            rises = heights[sector, 1] > before[sector, 1] + 1e-3
            lines = middles[sector]
            away = float(np.hypot(*(lines - np.array(position)).T).min()) if len(lines) else np.inf
            if onset and rises and frame - self.last_use <= USE_WINDOW_TICS and away <= USE_REACH_UNITS:
                self.open_sectors.add(sector)
                count += 1
            elif onset and not rises and sector in self.open_sectors:
                self.open_sectors.remove(sector)
                self.closed += int(away <= CLOSE_REACH_UNITS)
        return count


@dataclass
class Events:
    """Events whose first visible frame is the one just seen: differences from the frame before."""
    before: dict[str, float] | None = None
    quiet_tics: int = QUIET_TICS
    weapon: int | None = None           # the last one really held; the engine says -1 in the middle of a switch

    def seen(self, counters: Mapping[str, float], doors_opened: int = 0,
             doors_closed: int = 0) -> list[dict[str, str]]:
        """counters: kills, hits, hits_taken, items, secrets, health, armor, weapons (number held), ammo, weapon."""
        before, self.before = self.before, dict(counters)
        weapon, held = self.weapon, int(counters["weapon"])
        self.weapon = held if held >= 0 else weapon
        if before is None:
            return []
        found = [pair for key, pair in COUNTED.items() if counters[key] > before[key]]
        if counters["health"] > before["health"]:
            found.append(("heal", "the player is healed"))
        if counters["armor"] > before["armor"]:
            found.append(("armor_pickup", "armor is put on"))
        if counters["weapons"] > before["weapons"]:
            found.append(("weapon_pickup", "a weapon is picked up"))
        if counters["ammo"] > before["ammo"] and held == int(before["weapon"]) and held >= 0:
            found.append(("ammo_pickup", "ammunition is picked up"))
        if weapon is not None and held >= 0 and held != weapon:
            found.append(("weapon_switch", "the player changes weapons"))
        found += [("door_open", "a door opens")] * doors_opened + [("door_close", "a door closes")] * doors_closed
        fights = any(counters[key] > before[key] for key in FIGHTS)
        if fights and self.quiet_tics >= QUIET_TICS:
            found.append(("fight", "a fight begins"))
        self.quiet_tics = 0 if fights else self.quiet_tics + 1
        return [{"kind": kind, "text": text} for kind, text in found]


KINDS = (*(kind for kind, _ in COUNTED.values()), "heal", "armor_pickup", "weapon_pickup", "ammo_pickup",
         "weapon_switch", "door_open", "door_close", "fight")
"""Every kind of event that the game tells."""


def listed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The events of truth rows, each with its frame and the player's place then (canonical)."""
    return [{**event, "frame": row["frame"], "position": [round(row["world_from_cam"][i], 3) for i in (3, 7, 11)]}
            for row in rows for event in row["events"]]
