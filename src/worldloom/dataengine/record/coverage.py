"""What recordings or a corpus hold much and little of: action cells, events, places, perspectives.

An action cell is (longitudinal, lateral, turn, look), each -1, 0 or 1: forward, right, right and up positive. Of a
recording it is what was held where it was not blocked; of a corpus what was labelled with certainty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.record.cells import CELLS, Cell
from worldloom.dataengine.record.events import KINDS as GAME_EVENTS
from worldloom.dataengine.record.truth import read_truth
from worldloom.dataengine.record.world.events import CATEGORY
from worldloom.dataengine.record.world.params import PERSPECTIVES, SCENES
from worldloom.schemas import ConfigError

TURNS_FROM_DEG_PER_S = 12.0     # slower turning and looking counts as none
THIN_SHARE = 0.25               # thin: less than this share of what an even spread would give
UNCERTAIN = 2
GAME_MAP = re.compile(r"map\d\d|e\dm\d")


@dataclass(slots=True)
class Coverage:
    """Frames by action cell, place and perspective; times that each kind of event happened."""
    cells: Counter[Cell] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    perspectives: Counter[str] = field(default_factory=Counter)
    videos: int = 0

    @property
    def frames(self) -> int:
        return sum(self.places.values())

    def count(self, place: str, perspective: str, cells_N4: np.ndarray, events: Iterable[str], frames: int) -> None:
        """Add a video of `frames` frames, of which `cells_N4` have a certain action."""
        found, times = np.unique(np.asarray(cells_N4, int).reshape(-1, 4), axis=0, return_counts=True)
        for cell, count in zip(found.tolist(), times.tolist(), strict=True):
            self.cells[tuple(cell)] += count            # type: ignore[index]
        self.events.update(events)
        self.places[place] += frames
        self.perspectives[perspective] += frames
        self.videos += 1

    def weights(self) -> tuple[float, ...]:
        """Share (81,) of the time to give each of CELLS so that the emptiest fill up first; equal when all is even."""
        counts = np.array([self.cells[cell] for cell in CELLS], float)
        even = max(counts.mean(), 1.0)
        lack = np.clip(even - counts, 0, None) / even
        share = lack / lack.sum() if lack.any() else np.full(len(CELLS), 1 / len(CELLS))
        return tuple(round(float(value), 6) for value in share)

    def thin_cells(self) -> list[Cell]:
        return thin(self.cells, CELLS)


def thin(counts: Mapping[Any, int], known: Iterable[Any]) -> list[Any]:
    """Those of `known` that have less than a quarter of an even spread over them, thinnest first."""
    known = list(known)
    even = sum(counts.get(name, 0) for name in known) / max(1, len(known))
    few = [name for name in known if counts.get(name, 0) < THIN_SHARE * even or not counts.get(name, 0)]
    return sorted(few, key=lambda name: counts.get(name, 0))


def coverage_of(path: Path) -> Coverage:
    """Of a corpus (a folder with a manifest), or of all recordings under a folder.

    Raises:
        ConfigError: it is neither.
    """
    if (path / "manifest.json").is_file():
        return _of_corpus(path)
    sidecars = sorted(found for found in path.rglob("*.truth.parquet") if not found.name.startswith("."))
    if not sidecars:
        raise ConfigError(f"{path}: no corpus and no VIDEO.truth.parquet under it; give a folder of recordings")
    coverage = Coverage()
    for sidecar in sidecars:
        _count_recording(coverage, sidecar)
    return coverage


def signs(turn_deg: np.ndarray, fps: float) -> np.ndarray:
    """-1, 0 or 1 of degrees a frame."""
    return np.sign(turn_deg) * (np.abs(turn_deg) * fps >= TURNS_FROM_DEG_PER_S)


def _count_recording(coverage: Coverage, sidecar: Path) -> None:
    truth = read_truth(sidecar)
    if "twin_of" in truth.meta:
        return                              # the same play again
    fps = float(truth.meta["fps"])
    cells_T4 = np.stack([truth.keys["longitudinal"], truth.keys["lateral"], signs(truth.turn_deg, fps),
                         signs(truth.look_deg, fps)], axis=1)[:-1]      # nothing is held in the last frame
    blocked = truth.extra.get("blocked")
    if blocked is not None:
        cells_T4 = cells_T4[~blocked[:-1].astype(bool)]
    coverage.count(place_of(truth.meta), str(truth.meta["perspective"]), cells_T4,
                   (event["kind"] for events in truth.events for event in events or []), len(truth))


def place_of(meta: Mapping[str, Any]) -> str:
    """A scene, a map, or a scenario."""
    return str(meta.get("scene") or meta.get("scenario") or meta.get("map"))


def known_of(coverage: Coverage) -> dict[str, tuple[str, ...]]:
    """Events and perspectives that the recorders of what was counted could give, so that what is missing shows."""
    events: list[str] = [*CATEGORY] if coverage.places.keys() & {*SCENES} else []
    events += GAME_EVENTS if any(GAME_MAP.fullmatch(place) for place in coverage.places) else ()
    return {"events": tuple(dict.fromkeys(events)), "perspectives": PERSPECTIVES}


def _of_corpus(corpus: Path) -> Coverage:
    """Labels of every clip; the place is the clip's source, events are counted by the kinds that captions give."""
    from worldloom.dataengine.catalog.open import open_catalog

    coverage, con = Coverage(), open_catalog(corpus)
    rows = con.execute(
        "SELECT s.name, a.perspective, a.longitudinal, a.lateral, a.yaw_deg, a.pitch_deg, a.num_frames, c.fps "
        "FROM action a JOIN clip c USING (clip_id) JOIN source s USING (source_id) ORDER BY a.clip_id").fetchall()
    for source, perspective, longitudinal, lateral, yaw_deg, pitch_deg, frames, fps in rows:
        cells_T4 = np.stack([np.array(longitudinal, int), np.array(lateral, int), signs(np.array(yaw_deg), fps),
                             signs(np.array(pitch_deg), fps)], axis=1)
        coverage.count(source, perspective, cells_T4[(cells_T4[:, :2] != UNCERTAIN).all(axis=1)], (), frames)
    if not rows:
        raise ConfigError(f"{corpus}: the corpus holds no actions; run its action stage first")
    kinds = con.execute("SELECT event.kind, count(*) FROM (SELECT unnest(events) AS event FROM caption) "
                        "WHERE event.kind <> 'none' GROUP BY 1").fetchall()
    coverage.events.update(dict(kinds))
    con.close()
    return coverage
