"""Every handed set of poses, with pictures or without, in one plan."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from real_corpus import source

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan

VIDEOS = {"7scenes": ("posed/sevenscenes_rgbd", 1), "re10k": ("posed/re10k", 6), "euroc": ("posed/euroc_v101_micro", 1),
          "nerf": ("posed/fox_nerf", 1), "slambook": ("posed/slambook_ch5_rgbd", 1)}
"""Folder and number of videos of each kind."""
PATHS = {"sekai": ("traj/sekai_yume", 16), "lingbot": ("traj/lingbot_world", 3),
         "hy-worldplay": ("traj/hy_worldplay", 1), "motionctrl": ("traj/motionctrl", 5), "uzh-fpv": ("traj/uzhfpv", 1),
         "tartanair": ("traj/tartanair_eval", 2), "comma2k19": ("traj/comma2k19", 1), "aria": ("traj/aria", 2),
         "colmap": ("traj/colmap_text_crane_mast", 1)}
SHARED_FOLDER = [("kitti", "KITTI*", 1), ("tum", "fr2*", 2)]


@pytest.mark.slow
def test_every_posed_set_comes_through_one_plan(shared_data: Path, tmp_path: Path) -> None:
    sources = [source(kind, kind, shared_data / folder, licence="see the data")
               for kind, (folder, _) in {**VIDEOS, **PATHS}.items()]
    sources += [source(kind, kind, shared_data / "traj/evo", only=only) for kind, only, _ in SHARED_FOLDER]
    plan = {"sources": sources, "stages": ["video", "clip", "camera", "action"],
            "params": {"clip": {"height": 240, "shots": False}, "camera": {"mode": "given"}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    report = run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    counts = {stage.stage: stage.counts for stage in report.stages}
    videos = sum(count for _, count in VIDEOS.values())
    paths = sum(count for _, count in PATHS.values()) + sum(count for *_, count in SHARED_FOLDER)
    assert (counts["video"]["done"], counts["video"]["dropped"], counts["video"]["failed"]) == (videos, paths, 0)
    con = open_catalog(tmp_path / "corpus")
    assert con.sql("SELECT stage, row_key, detail FROM failure").fetchall() == []
    labelled = con.sql("SELECT s.kind, count(*), min(c.is_calibrated::int), min(s.convention) FROM action a "
                       "JOIN camera c USING (clip_id) JOIN clip USING (clip_id) JOIN source s USING (source_id) "
                       "GROUP BY 1").fetchall()
    assert {kind for kind, *_ in labelled} == set(VIDEOS)
    assert all(calibrated == 1 and convention for *_, calibrated, convention in labelled)
    rows = con.sql("SELECT count(*), count(convention), count(licence) FROM source").fetchall()
    assert rows == [(len(sources), len(sources), len(sources) - len(SHARED_FOLDER))]
