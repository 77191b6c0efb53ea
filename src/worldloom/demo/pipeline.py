"""The demo's steps, each on top of what the one before left on disk; run it again and it goes on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from worldloom.dataengine.catalog import open_catalog, publish_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.store import write_table
from worldloom.schemas import ConfigError, Evaluation

TRAIN_MAPS = ("map01", "map02", "map03", "map04", "map07", "map08", "map10", "map11")
HELDOUT_MAPS = ("map12", "map13", "map25", "map26")
GAME_FPS = 35.0      # labels are measured at the full rate …
TRAIN_STRIDE = 2     # … and composed for a model that sees every second frame
Result = TypeVar("Result")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Demo:
    """The demo over recorded gameplay, or over `videos`. Everything lies under `out`."""
    out: Path
    videos: Path | None = None
    minutes: float = 3.5
    workers: int = 2
    episodes: int = 2
    tics: int = 560
    timings: list[tuple[str, float]] = field(default_factory=list)

    @property
    def corpus(self) -> Path:
        return self.out / "corpus"

    def run(self) -> Path:
        """Everything, in order; returns the report's path."""
        self.out.mkdir(parents=True, exist_ok=True)
        if self.videos is None:
            self._timed("record", self.record)
        elif not self.videos.is_dir():
            raise ConfigError(f"{self.videos}: not a folder")
        self._timed("label", self.label)
        train_shards = self._timed("pack", lambda: self.pack("train"))
        heldout_shards = self._timed("pack held-out", lambda: self.pack("heldout"))
        training = self.out / "training"
        if train_shards is not None:
            checkpoint = self._timed("train", lambda: self.train(train_shards, training))
            if heldout_shards is None:
                say("no clip is held out: the model is evaluated on clips it was trained on")
            shards, seen = heldout_shards or train_shards, heldout_shards is None
            self._timed("evaluate", lambda: self.evaluate(checkpoint, shards, training, seen))
        publish_catalog(self.corpus)
        return self._timed("report", lambda: self.report(training, train_shards))

    def _timed(self, name: str, step: Callable[[], Result]) -> Result:
        say(f"\n== {name}")
        began = time.monotonic()
        result = step()
        self.timings.append((name, time.monotonic() - began))
        say(f"== {name}: {self.timings[-1][1]:.0f} s")
        return result

    def record(self) -> None:
        """First-person play on the training maps and, apart, on maps that training never sees."""
        from worldloom.dataengine.progress import Progress
        from worldloom.dataengine.record.vizdoom import record_many

        for role, maps, seed in (("train", TRAIN_MAPS, 1), ("heldout", HELDOUT_MAPS, 1001)):
            progress = Progress(f"record {role}", len(maps) * self.episodes, "episodes")
            record_many(self.out / "recordings" / role, maps=maps, episodes=self.episodes, seed=seed, tics=self.tics,
                        policy="mixed", hud=False, weapon=False, workers=self.workers,
                        progress=lambda *_, p=progress: p.advance())
            progress.finish()

    def plan(self) -> dict[str, Any]:
        """The plan document: recordings are taken as plain videos of a game whose projection is declared."""
        if self.videos is not None:
            return {"workers": self.workers, "videos_per_part": 2,
                    "sources": [{"name": "videos", "kind": "folder", "path": str(self.videos.resolve())}],
                    "params": {"clip": {"fps": 16.0, "height": 240, "max_s": 5.0}}}
        projection = {"hfov_deg": 90.0, "fy_over_fx": 1.2, "camera_model": "yshear"}
        sources = [{"name": role, "kind": "vizdoom", "path": f"recordings/{role}", "perspective": "fps",
                    "licence": "BSD-3-Clause (Freedoom)"} for role in ("train", "heldout")]
        stages = ["video", "clip", "camera", "camera_truth", "action", "action_truth", "score", "caption", "selection"]
        return {"workers": self.workers, "videos_per_part": 2, "sources": sources, "stages": stages,
                "params": {"clip": {"fps": GAME_FPS, "max_s": 4.0, "shots": False},
                           "camera": {"mode": "odometry", **projection}}}

    def label(self) -> None:
        path = self.out / "plan.yaml"
        path.write_text(yaml.safe_dump(self.plan(), sort_keys=False))
        report = run_plan(load_plan(path), self.corpus, workers=self.workers, say=say)
        if report.stages[1].counts["rows_out"] == 0:
            raise ConfigError(f"no clip came out; see worldloom failures --corpus {self.corpus}")

    def mix(self, role: str) -> dict[str, Any]:
        """Navigation and events 70/30 to train on; all kept held-out clips to evaluate on."""
        base = {"name": role, "unit": "frames", "total": "max", "seed": 7}
        if self.videos is not None:
            split = "train" if role == "train" else "test"
            return base | {"components": [{"name": "all", "weight": 1.0, "where": f"kept AND split = '{split}'"}]}
        if role == "heldout":
            return base | {"components": [{"name": "heldout", "weight": 1.0, "where": "kept AND source = 'heldout'"}]}
        return base | {"components": [
            {"name": "navigation", "weight": 0.7, "where": "kept AND source = 'train' AND NOT has_event"},
            {"name": "event", "weight": 0.3, "where": "kept AND source = 'train' AND has_event"}]}

    def pack(self, role: str) -> Path | None:
        """Shards of a mix; None, and said so, when nothing was kept for it."""
        from worldloom.shards.pack import pack

        path = self.out / f"{role}.mix.yaml"
        path.write_text(yaml.safe_dump(self.mix(role), sort_keys=False))
        try:
            result = pack(self.corpus, path)
        except ConfigError as error:
            if self.videos is None:
                raise
            say(f"{role}: nothing to pack: {error}")
            return None
        say(f"{role}: {result.samples} samples in {result.shards} shards, mix {result.digest}")
        return result.dir

    def train(self, shards: Path, training: Path) -> Path:
        from worldloom.train.config import TrainConfig
        from worldloom.train.trainer import train_model

        stride = TRAIN_STRIDE if self.videos is None else 1
        return train_model(TrainConfig(shards=(shards,), out=training, minutes=self.minutes, frame_stride=stride))

    def evaluate(self, checkpoint: Path, shards: Path, training: Path, seen: bool) -> None:
        """Score action following and put the figures into the catalog; `seen` clips are the training ones."""
        from worldloom.train.evaluate.card import evaluation_rows
        from worldloom.train.evaluate.following import evaluate_following

        evaluate_following(checkpoint, shards)
        card = json.loads((training / "evaluation" / "evaluation.json").read_text())
        detail = f"generated frames, yaw by rotation search; {'training' if seen else 'held-out'} clips"
        write_table(self.corpus, "evaluation", card["checkpoint"], evaluation_rows(card, detail), Evaluation)

    def report(self, training: Path, shards: Path | None) -> Path:
        from worldloom.report.page import write_report

        con = open_catalog(self.corpus)
        return write_report(self.out / "report.html", con, self.corpus, title="worldloom demo", training_dir=training,
                            timings=self.timings, shards_dir=shards)
