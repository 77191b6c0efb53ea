"""What the label bench records: groups of clips with one lens each, on maps and with seeds drawn from one seed."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.dataengine.progress import Progress

MAPS = tuple(f"map{n:02d}" for n in (*range(1, 14), *range(25, 33)))
SCENES = ("town", "rooms", "terrain")
_EVERY_KIND = ("explore", "mixed", "rotate", "strafe", "back", "jump", "look", "stationary", "turn")
_QUICK = ("explore", "rotate", "strafe", "stationary")


@dataclass(frozen=True)
class Group:
    """Clips of one source: kinds of play, how they are drawn, and the lens that the source declares (None: nothing)."""
    engine: str
    kinds: tuple[str, ...]
    drawn: dict[str, Any] = field(default_factory=dict)
    lens: dict[str, Any] | None = None
    view_deg: tuple[float, float] | None = None      # horizontal view drawn anew for each clip between these


@dataclass(frozen=True)
class ClipPlan:
    """One clip to record; `name` is its file without ending."""
    engine: str
    group: str
    kind: str
    place: str
    seed: int
    name: str
    drawn: dict[str, Any]


_YSHEAR = {"hfov_deg": 90.0, "fy_over_fx": 1.2, "camera_model": "yshear"}
_HUD = {"hud": True, "weapon": True}
_PINHOLE_75 = {"hfov_deg": 75.0, "camera_model": "pinhole"}
GROUPS: dict[str, Group] = {
    "rectified": Group("vizdoom", (*_EVERY_KIND, "explore", "mixed", "forward"), {"pinhole": True}, _PINHOLE_75),
    "native_hud": Group("vizdoom", _EVERY_KIND, _HUD, _YSHEAR | {"horizon_share": 104 / 240}),
    "native_bare": Group("vizdoom", ("explore", "mixed", "rotate"), {}, _YSHEAR),
    "rectified_unknown": Group("vizdoom", ("rotate", "mixed", "turn", "explore"), {"pinhole": True}, None, (58, 79)),
    "native_unknown": Group("vizdoom", ("rotate", "mixed", "turn", "explore"), _HUD, None, (80, 105)),
    "world_fps": Group("world", (*_EVERY_KIND, "wall"), {"perspective": "fps"}, _PINHOLE_75),
    "world_tps": Group("world", ("explore", "mixed", "strafe", "jump", "turn", "walk"), {"perspective": "tps"},
                       _PINHOLE_75),
    "world_unknown": Group("world", ("rotate", "mixed", "turn", "explore"), {"perspective": "fps"}, None, (58, 95)),
}


def clip_plans(seed: int, only: Sequence[str], quick: bool = False) -> list[ClipPlan]:
    """The clips of the engines in `only`: the same list for the same seed, whatever else is recorded."""
    plans = []
    for number, (group_name, group) in enumerate(GROUPS.items()):
        rng = np.random.default_rng([seed, number])
        places = list(rng.permutation(MAPS if group.engine == "vizdoom" else SCENES * 7))
        for kind in group.kinds:
            place, clip_seed, drawn = str(places.pop()), int(rng.integers(1, 10**6)), dict(group.drawn)
            if group.view_deg is not None:
                key = "fov_deg" if group.engine == "vizdoom" and not drawn.get("pinhole") else "hfov_deg"
                drawn[key] = round(float(rng.uniform(*group.view_deg)), 1)
            plans.append(ClipPlan(group.engine, group_name, kind, place, clip_seed, "", drawn))
    kept = [p for p in plans if p.engine in only]
    return _quick(kept) if quick else kept


def _quick(plans: Sequence[ClipPlan]) -> list[ClipPlan]:
    """The first clip of a few kinds in each group."""
    first: dict[tuple[str, str], ClipPlan] = {}
    for plan in plans:
        if plan.kind in _QUICK:
            first.setdefault((plan.group, plan.kind), plan)
    return list(first.values())


def record_all(out: Path, plans: Sequence[ClipPlan], seconds: float, workers: int) -> list[ClipPlan]:
    """Record the clips under out/ENGINE/recordings/GROUP and list them in out/clips.json; finished ones are kept."""
    progress = Progress("record", len(plans), "clips")
    named: dict[int, ClipPlan] = {}
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(record_one, out, plan, seconds): i for i, plan in enumerate(plans)}
        for future in as_completed(running):
            plan = plans[running[future]]
            named[running[future]] = ClipPlan(**(asdict(plan) | {"name": future.result().name.removesuffix(".mp4")}))
            progress.advance()
            print(f"recorded {plan.group} {plan.kind} {plan.place} seed {plan.seed}", file=sys.stderr, flush=True)
    progress.finish()
    done = [named[i] for i in range(len(plans))]
    (out / "clips.json").write_text(json.dumps([asdict(plan) for plan in done], indent=1))
    return done


def record_one(out: Path, plan: ClipPlan, seconds: float) -> Path:
    os.environ["LP_NUM_THREADS"] = "1"
    folder = out / plan.engine / "recordings" / plan.group
    return (_record_vizdoom if plan.engine == "vizdoom" else _record_world)(folder, plan, seconds)


def _record_vizdoom(folder: Path, plan: ClipPlan, seconds: float) -> Path:
    from worldloom.dataengine.record.vizdoom import FPS, EpisodeParams, record_episode

    return record_episode(folder, EpisodeParams(map=plan.place, seed=plan.seed, policy=plan.kind,
                                                tics=round(seconds * FPS), **plan.drawn))


def _record_world(folder: Path, plan: ClipPlan, seconds: float) -> Path:
    from worldloom.dataengine.record.world.params import WorldParams
    from worldloom.dataengine.record.world.record import record_episode

    return record_episode(folder, WorldParams(scene=plan.place, seed=plan.seed, policy=plan.kind, seconds=seconds,
                                              **plan.drawn))


def read_plans(out: Path) -> list[ClipPlan]:
    return [ClipPlan(**row) for row in json.loads((out / "clips.json").read_text())]
