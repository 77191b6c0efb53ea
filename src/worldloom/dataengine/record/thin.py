"""What to record next where a coverage is thin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worldloom.dataengine.record.coverage import coverage_of, thin
from worldloom.dataengine.record.world.params import PERSPECTIVES, SCHEDULED

THIN_EVENTS = 2                 # scheduled in an episode of the world


def thinnest(counts: Mapping[str, int], known: Sequence[str]) -> str:
    """The one of `known` with the least; the first of equals."""
    return min(known, key=lambda name: counts.get(name, 0))


def shared_out(counts: Mapping[str, int], known: Sequence[str], episodes: int, frames: int) -> list[str]:
    """The place of each of `episodes` of `frames` frames, so that the emptiest places fill up first."""
    filled = {name: counts.get(name, 0) for name in known}
    places = []
    for _ in range(episodes):
        places.append(thinnest(filled, known))
        filled[places[-1]] += frames
    return places


def thin_vizdoom(path: Path, games: Sequence[tuple[str, Sequence[str]]], episodes: int,
                 tics: int) -> list[dict[str, Any]]:
    """For each (scenario or "", maps) the options of `record_many` that record what is thin at `path`."""
    coverage = coverage_of(path)
    weights, options = coverage.weights(), []
    for scenario, maps in games:
        counts = {name: coverage.places[scenario or name] for name in maps}
        options.append({"cell_weights": weights, "places": shared_out(counts, maps, episodes * len(maps), tics)})
    return options


def thin_world(path: Path, scenes: Sequence[str], episodes: int, frames: int,
               events: tuple[str, ...] = ()) -> dict[str, Any]:
    """Options of `record_world` that record what is thin at `path`; asked-for events come before thin ones."""
    coverage = coverage_of(path)
    few = [kind for kind in thin(coverage.events, SCHEDULED) if kind != "object_removed"][:THIN_EVENTS]
    return {"cell_weights": coverage.weights(), "perspective": thinnest(coverage.perspectives, PERSPECTIVES),
            "places": shared_out(coverage.places, scenes, episodes * len(scenes), frames),
            "events": (*events, *few)}
