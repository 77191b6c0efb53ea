"""Camera paths without pictures, from a source to rows with labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_video

from worldloom.annotators.actions.trajectory import TrajectoryStage, path_action, summary
from worldloom.annotators.camera.given import read_sidecar
from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import RunReport, run_plan
from worldloom.dataengine.stage import Context
from worldloom.schemas import TABLES


def walk(turn_deg: float, step_3: tuple[float, float, float], count: int) -> np.ndarray:
    """Poses (N, 4, 4) that turn right by `turn_deg` and go by `step_3` (x right, y down, z forward) each frame."""
    poses_N44 = np.tile(np.eye(4), (count, 1, 1))
    for i in range(1, count):
        turn = np.radians(turn_deg * i)
        poses_N44[i, :3, :3] = [[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]]
        poses_N44[i, :3, 3] = poses_N44[i - 1, :3, 3] + poses_N44[i - 1, :3, :3] @ step_3
    return poses_N44


def pose_file(path: Path, poses_N44: np.ndarray, **more: Any) -> Path:
    document = {"convention": "c2w/opencv/matrix", "read_as": "w2c/opencv/matrix", "unit_m": 1.0, "fps": 10.0,
                "pose_source": "engine", "poses": poses_N44.reshape(-1, 16).tolist()} | more
    path.write_text(json.dumps(document))
    return path


def lingbot(folder: Path, poses_N44: np.ndarray) -> None:
    folder.mkdir(parents=True)
    np.save(folder / "poses.npy", poses_N44)
    np.save(folder / "wasd_action.npy", np.tile([1, 0, 0, 0], (len(poses_N44), 1)))


def run(tmp_path: Path, stages: list[str]) -> RunReport:
    sources = [{"name": "walks", "kind": "lingbot", "path": str(tmp_path / "walks")},
               {"name": "films", "kind": "folder", "path": str(tmp_path / "films")}]
    plan = {"sources": sources, "stages": stages, "params": {"clip": {"min_s": 0.1, "shots": False}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    return run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)


def counts(report: RunReport) -> dict[str, tuple[int, int, int]]:
    return {s.stage: (s.counts["done"], s.counts["dropped"], s.counts["failed"]) for s in report.stages}


def test_a_path_becomes_a_row_and_is_no_video_that_was_dropped(tmp_path: Path) -> None:
    lingbot(tmp_path / "walks" / "a", walk(3.0, (0, 0, 0.1), 31))
    lingbot(tmp_path / "walks" / "b", np.full((5, 4, 4), np.nan))
    (tmp_path / "films").mkdir()
    tiny_video(tmp_path / "films" / "film.mp4")
    report = run(tmp_path, ["video", "trajectory", "clip"])
    assert counts(report) == {"video": (1, 0, 0), "trajectory": (1, 0, 1), "clip": (1, 0, 0)}
    rows = open_catalog(tmp_path / "corpus").sql(
        "SELECT s.name, t.name, num_frames, fps, t.convention, forward_frames, turning_frames, heading_range_deg, "
        "path_length, len(yaw_deg), list_sum(intent_longitudinal) FROM trajectory t JOIN source s USING (source_id)")
    ((source, name, *facts, heading, length, labels, pressed),) = rows.fetchall()
    assert (source, name) == ("walks", "a.poses.json")
    assert facts == [31, 16.0, "c2w/opencv/matrix", 30, 30] and (labels, pressed) == (31, 30)
    np.testing.assert_allclose((heading, length), (90.0, 3.0), rtol=1e-5)              # float32 labels


def test_without_the_stage_a_path_is_dropped_by_name(tmp_path: Path) -> None:
    lingbot(tmp_path / "walks" / "a", walk(3.0, (0, 0, 0.1), 31))
    (tmp_path / "films").mkdir()
    tiny_video(tmp_path / "films" / "film.mp4")
    report = run(tmp_path, ["video"])
    assert counts(report) == {"video": (1, 1, 0)} and report.stages[0].reasons == {"no_video": 1}
    assert counts(run(tmp_path, ["video", "trajectory"])) == {"video": (1, 0, 0), "trajectory": (1, 0, 0)}


def test_a_second_run_finds_the_rows_and_a_new_path_adds_a_part(tmp_path: Path) -> None:
    lingbot(tmp_path / "walks" / "a", walk(3.0, (0, 0, 0.1), 31))
    (tmp_path / "films").mkdir()
    tiny_video(tmp_path / "films" / "film.mp4")
    first = run(tmp_path, ["video", "trajectory"])
    assert [stage.made for stage in run(tmp_path, ["video", "trajectory"]).stages] == [0, 0]
    lingbot(tmp_path / "walks" / "b", walk(-3.0, (0, 0, 0.1), 31))
    later = run(tmp_path, ["video", "trajectory"])
    assert [(stage.parts, stage.made) for stage in first.stages] == [(1, 1), (1, 1)]
    assert [(stage.parts, stage.made) for stage in later.stages] == [(2, 1), (2, 1)]
    assert counts(later) == {"video": (1, 0, 0), "trajectory": (2, 0, 0)}


def test_the_row_says_how_the_file_was_read_and_what_the_plan_declares(tmp_path: Path) -> None:
    from worldloom.dataengine.sources.params import FileEntry

    path = pose_file(tmp_path / "a.poses.json", walk(0.0, (0.25, 0, 0), 11))
    stage = TrajectoryStage(TrajectoryStage.Params(declared={"s": "tps"}))
    stage.setup(Context(tmp_path))
    (row,) = stage.process({"file": FileEntry("a.poses.json", str(path), "s", sha256="f" * 64)})
    assert (row.pose_mode, row.convention, row.scale_status, row.metres_per_unit, row.perspective) == (
        "engine", "w2c/opencv/matrix", "exact", 1.0, "tps")
    assert (row.right_frames, row.left_frames, row.forward_frames, row.turning_frames) == (10, 0, 0, 0)
    assert row.path_length == 2.5 and row.heading_range_deg == 0.0


def test_its_tracks_are_those_of_an_action() -> None:
    own, action = TABLES["trajectory"].__dataclass_fields__, TABLES["action"].__dataclass_fields__
    assert action.keys() - own.keys() == {"clip_id"}
    assert all(own[name].type == action[name].type for name in action.keys() & own.keys())


@settings(max_examples=30, deadline=None)
@given(turn_deg=st.floats(-8, 8), forward=st.sampled_from([-0.1, 0.0, 0.1]), count=st.integers(2, 40))
def test_the_summary_counts_what_the_path_does(turn_deg: float, forward: float, count: int,
                                               tmp_path_factory: Any) -> None:
    path = pose_file(tmp_path_factory.mktemp("p") / "a.poses.json", walk(turn_deg, (0, 0, forward), count))
    found = read_sidecar(path)
    fps, action = path_action(path, found, "a", 10.0)
    whole = summary(found, action, fps)
    steps = count - 1
    assert whole["forward_frames"] == steps * (forward > 0) and whole["backward_frames"] == steps * (forward < 0)
    assert whole["left_frames"] == whole["right_frames"] == 0
    if abs(abs(turn_deg) - 0.3) > 1e-3:                             # 3 degrees a second at 10 a second
        assert whole["turning_frames"] == steps * (abs(turn_deg) > 0.3)
    np.testing.assert_allclose(whole["heading_range_deg"], abs(turn_deg) * steps, atol=1e-3)   # float32 labels
    np.testing.assert_allclose(whole["path_length"], abs(forward) * steps, atol=1e-9)
