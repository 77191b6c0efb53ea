"""One plan over every handed item: each is a clip, a path, a part of one, or left out for a reason that is told."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from worldloom.dataengine.catalog import open_catalog

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import every_item

POSED = {"7scenes": 1, "re10k": 6, "euroc": 1, "nerf": 1, "slambook": 1}
"""Videos of each kind that come with poses."""
PATHS = {"sekai": 16, "lingbot": 3, "hy-worldplay": 1, "motionctrl": 5, "tartanair": 2, "comma2k19": 1, "aria": 2,
         "colmap": 1, "kitti": 1, "tum": 4}
"""Paths of each kind that come without pictures."""
FAILED = {"awkward/broken.mp4", "awkward/empty.flv", "awkward/issue55.flv", "awkward/phpffmpeg_WrongFile.mp4",
          "awkward/result.webm", "awkward/sample_pymediainfo.mkv",
          "traj/uzhfpv/indoor_forward_5_snapdragon_with_gt.txt", "traj/vpt_actions/sample_actions_0.one_hot_actions.pt"}
DROPPED = {"awkward/-video-with-dash-.mp4", "awkward/attachment631-small.mp4", "awkward/dvd_single_frame.mp4",
           "awkward/extended_atom_size_probe.mp4", "awkward/prores_422_proxy.mp4", "awkward/pymediainfo_empty.gif",
           "awkward/vp8-comprehensive-008-odd.mp4", "awkward/webm_185bytes.webm"}
"""Shorter than a clip of 0.1 s, or one pixel wide."""


@pytest.fixture(scope="module")
def made(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[every_item.Outcome]]:
    folder = tmp_path_factory.mktemp("every_item")
    every_item.make_corpus(shared_data, folder)
    return folder / "corpus", every_item.outcomes(shared_data, folder)


@pytest.mark.slow
def test_no_item_is_missing_and_none_is_left_out_without_a_reason(
        made: tuple[Path, list[every_item.Outcome]]) -> None:
    _, rows = made
    assert len(rows) == len({row.item for row in rows}) == 458
    assert [row for row in rows if row.result == "missing"] == []
    assert {row.item for row in rows if row.result == "failed"} == FAILED
    assert {row.item for row in rows if row.result == "dropped"} == DROPPED
    assert [row for row in rows if row.result in ("failed", "dropped", "beside") and len(row.detail) < 15] == []
    assert all("left out, such as" in row.detail for row in rows if row.result == "dropped")
    assert [row.item for row in rows if ", 0 labelled" in row.detail and row.result == "clips"] == []


@pytest.mark.slow
def test_every_posed_set_is_labelled_from_its_calibrated_poses(
        made: tuple[Path, list[every_item.Outcome]]) -> None:
    corpus, rows = made
    assert Counter(row.kind for row in rows if row.result == "clips" and row.kind in POSED) == POSED
    assert Counter(row.kind for row in rows if row.result == "trajectory") == PATHS
    con = open_catalog(corpus)
    labelled = con.sql("SELECT s.kind, min(c.is_calibrated::int), min(s.convention), min(c.estimator) FROM action a "
                       "JOIN camera c USING (clip_id) JOIN clip USING (clip_id) JOIN source s USING (source_id) "
                       "WHERE s.pose_mode = 'given' GROUP BY 1").fetchall()
    assert {kind for kind, *_ in labelled} == set(POSED)
    assert all(calibrated == 1 and convention and estimator.startswith("given")
               for _, calibrated, convention, estimator in labelled)


@pytest.mark.slow
def test_the_accounts_of_every_stage_add_up(made: tuple[Path, list[every_item.Outcome]]) -> None:
    con = open_catalog(made[0])
    accounts = con.sql("SELECT stage, rows_in, done, dropped, failed FROM stage_accounts").fetchall()
    assert all(rows_in == done + dropped + failed for _, rows_in, done, dropped, failed in accounts)
    found = {stage: tuple(counts) for stage, *counts in accounts}
    assert found["video"] == (87, 81, 0, 6) and found["trajectory"] == (38, 36, 0, 2)
