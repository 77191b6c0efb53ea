"""Labelling the bench's recordings through the engine, and reading estimates and truth back, clip by clip."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from labels_record import GROUPS, ClipPlan

from worldloom.dataengine.catalog.open import row_types
from worldloom.dataengine.plan import Plan
from worldloom.dataengine.record.truth import read_truth
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.store import read_manifest, read_part
from worldloom.schemas import Action, Camera, ids

STAGES = ("video", "clip", "camera", "camera_truth", "action", "action_truth")


@dataclass(frozen=True)
class Labelled:
    """One clip with what was estimated from its pixels and what the engine says."""
    plan: ClipPlan
    fps: float
    camera: Camera
    camera_truth: Camera
    action: Action
    action_truth: Action
    on_ground: np.ndarray       # (T,) by the engine


def label_all(out: Path, plans: Sequence[ClipPlan], seconds: float, workers: int, mode: str) -> None:
    """Label the recordings of each engine in out/ENGINE/corpus; no source says its perspective, nor an unknown lens."""
    for engine in sorted({plan.engine for plan in plans}):
        document = plan_document(out, engine, sorted({p.group for p in plans if p.engine == engine}), seconds, mode)
        run_plan(Plan.model_validate(document), out / engine / "corpus", workers=workers,
                 say=lambda line: print(line, file=sys.stderr, flush=True))


def plan_document(out: Path, engine: str, groups: Sequence[str], seconds: float, mode: str) -> dict[str, Any]:
    """The plan: a source for each group, with the lens that it declares."""
    folder = out / engine / "recordings"
    declared = {ids.source_id(engine, name): lens for name in groups if (lens := GROUPS[name].lens) is not None}
    return {
        "sources": [{"name": name, "kind": engine, "path": str(folder / name)} for name in groups],
        "stages": STAGES, "videos_per_part": 1,
        "params": {"clip": {"height": 240, "max_s": seconds, "shots": False},
                   "camera": {"mode": mode, "use_sidecar": False, "declared": declared}},
    }


def read_labelled(out: Path, plans: Sequence[ClipPlan]) -> Iterator[Labelled]:
    """Clips in the order of `plans`; those that have no labels are named on stderr and left out."""
    for engine in sorted({plan.engine for plan in plans}):
        corpus = out / engine / "corpus"
        videos = {v.name.removesuffix(".mp4").rpartition("/")[2] + v.source_id: v for v in _rows(corpus, "video")}
        clips = {c.video_id: c for c in _rows(corpus, "clip")}
        tracks = {table: {row.clip_id: row for row in _rows(corpus, table)} for table in STAGES[2:]}
        for plan in (p for p in plans if p.engine == engine):
            video = videos.get(plan.name + ids.source_id(engine, plan.group))
            clip = clips.get(video.video_id) if video is not None else None
            if clip is None or any(clip.clip_id not in rows for rows in tracks.values()):
                print(f"{plan.group}/{plan.name}: no labels; worldloom failures --corpus {corpus}", file=sys.stderr)
                continue
            truth = read_truth(out / engine / "recordings" / plan.group / f"{plan.name}.truth.parquet")
            yield Labelled(plan, clip.fps, **{table: rows[clip.clip_id] for table, rows in tracks.items()},
                           on_ground=truth.on_ground[np.asarray(clip.source_frames)])


def _rows(corpus: Path, table: str) -> list[Any]:
    return [row for key in read_manifest(corpus).get(table, []) for row in read_part(corpus, table, key,
                                                                                     row_types()[table])]
