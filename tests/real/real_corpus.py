"""One plan over the handed real footage that comes with poses, labelled from the pixels and from the poses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.schemas import ids

STAGES = ["video", "clip", "camera", "camera_truth", "action", "action_truth"]


def lens(fx: float, fy: float, width: float) -> dict[str, float]:
    """A declared calibration, from focal lengths in pixels of a picture of this width."""
    return {"hfov_deg": math.degrees(2 * math.atan(width / 2 / fx)), "fy_over_fx": float(fy / fx)}


def re10k_lens(text: Path) -> dict[str, float]:
    """The normalised focal lengths of a RealEstate10K file, for the 384x256 videos beside the handed ones."""
    fx, fy = np.loadtxt(text, skiprows=1, usecols=(1, 2))[0]
    return lens(fx * 384, fy * 256, 384)


def make_corpus(data: Path, folder: Path) -> Path:
    """A corpus of 7-Scenes, EuRoC and the six RealEstate10K clips, each with the lens that its source declares."""
    texts = sorted((data / "posed/re10k").glob("*.txt"))
    euroc = {"horizon_share": 248.375 / 480} | lens(458.654, 457.296, 752)
    declared = {("7scenes", "scenes"): lens(525, 525, 640), ("euroc", "euroc"): euroc}
    declared |= {("re10k", text.stem): re10k_lens(text) for text in texts}
    sources = [source("7scenes", "scenes", data / "posed/sevenscenes_rgbd"),
               source("euroc", "euroc", data / "posed/euroc_v101_micro")]
    sources += [source("re10k", text.stem, text.parent, only=text.name) for text in texts]
    plan = {"sources": sources, "stages": STAGES, "params": {
        "clip": {"shots": False},
        "camera": {"mode": "odometry", "declared": {ids.source_id(*key): own for key, own in declared.items()}}}}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    run_plan(load_plan(folder / "plan.yaml"), folder / "corpus", executor="inline", quiet=True)
    return folder / "corpus"


def source(kind: str, name: str, path: Path, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "path": str(path), **more}


def labels(corpus: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(measured, true) tracks of the one clip of a source: poses (T, 4, 4) and every action column."""
    con = open_catalog(corpus)
    found = []
    for camera, action in (("camera", "action"), ("camera_truth", "action_truth")):
        rows = con.execute(f"SELECT c.world_from_cam_T44 AS poses, a.* FROM {camera} c JOIN {action} a USING (clip_id) "
                           "JOIN clip USING (clip_id) JOIN source s USING (source_id) WHERE s.name = ?", [name])
        columns = [column[0] for column in rows.description or []]
        (row,) = rows.fetchall()
        track = {key: np.asarray(value) if isinstance(value, list) else value
                 for key, value in zip(columns, row, strict=True)}
        found.append(track | {"poses": np.asarray(track["poses"], float).reshape(-1, 4, 4)})
    return found[0], found[1]

