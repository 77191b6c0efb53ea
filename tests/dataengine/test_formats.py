"""Every pose format, from a generated sample to canonical poses, and the plan that reads them all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import yaml
from format_samples import COUNT, FX, SAMPLES, WALK, colmap_text, euroc, pictures, re10k, seven_scenes, text, yume
from tiny import read_number, tiny_video
from typer.testing import CliRunner

from worldloom.annotators.camera.given import read_sidecar
from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.ingest_groups import source_files
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.sources import FileEntry, SourceParams, open_source
from worldloom.dataengine.sources.cli import sources_app
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import DataError

PAGES = Path(__file__).resolve().parents[2] / "docs" / "sources"

SLANT_DEG = dict.fromkeys(
    ("7scenes", "colmap_text", "colmap_binary", "spatialvid", "omniworld", "solarwm", "abot_world"), 0.1)
"""Formats whose world is slanted: the views level it, and so short a walk tells the vertical to a few degrees."""


def brought_in(kind: str, root: Path, corpus: Path, **more: object) -> list[FileEntry]:
    reader = open_source(SourceParams(name="s", kind=kind, path=str(root), **more))         # type: ignore[arg-type]
    reader.prepare(corpus)
    return sorted(reader.entries(), key=lambda entry: entry.name)


def made(tmp_path: Path, name: str, **more: object) -> FileEntry:
    kind, write, _ = SAMPLES[name]
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    (entry,) = brought_in(kind, tmp_path / "in", tmp_path / "corpus", **more)
    assert entry.problem is None, entry.problem
    return entry


def sidecar(entry: FileEntry) -> Path:
    return Path(entry.path.removesuffix(entry.name) + (entry.sidecar or ""))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_walk_comes_out_of_every_format(name: str, tmp_path: Path) -> None:
    given = read_sidecar(sidecar(made(tmp_path, name)))
    found = given.world_from_cam_N44
    relative = np.linalg.inv(found[0]) @ found
    np.testing.assert_allclose(relative, np.linalg.inv(WALK[0]) @ WALK, atol=2e-6)      # float32 in some formats
    np.testing.assert_allclose(np.diff(P.heading_deg(found)), 3.0, atol=SLANT_DEG.get(name, 1e-4))
    assert given.world_from_cam_N44.shape == (COUNT, 4, 4)


@pytest.mark.parametrize("name", [name for name, (_, _, has_pictures) in SAMPLES.items() if has_pictures])
def test_the_video_beside_the_poses_shows_their_frames_in_order(name: str, tmp_path: Path) -> None:
    entry = made(tmp_path, name)
    frames = list(iter_frames(Path(entry.path)))
    first = {"tum": 1}.get(name, 0)
    assert [read_number(frame.rgb_HWC) for frame in frames] == list(range(first, first + COUNT))
    times = read_sidecar(sidecar(entry)).times_s
    if times is not None:
        np.testing.assert_allclose([frame.time_s for frame in frames], times, atol=1 / 90_000)


@pytest.mark.parametrize("name", ["re10k", "euroc", "nerf", "kitti", "colmap_text", "colmap_binary", "sekai",
                                  "worldplay", "uzh_fpv"])
def test_focal_lengths_are_in_pixels_of_the_picture(name: str, tmp_path: Path) -> None:
    camera = read_sidecar(sidecar(made(tmp_path, name))).camera
    assert camera is not None and camera["model"] == "pinhole"
    found = [camera[key] for key in ("fx", "fy", "cx", "cy", "width", "height")]
    assert found == pytest.approx([FX, FX, 80, 48, 160, 96])


def test_a_row_says_how_the_numbers_are_read_and_what_is_known_of_scale_and_gravity(tmp_path: Path) -> None:
    row = open_source(SourceParams(name="s", kind="tartanair", path=str(tmp_path), licence="CC-BY-4.0")).source_row()
    assert (row.convention, row.scale_status, row.pose_mode) == ("c2w/ned/quat_xyzw", "exact", "given")
    assert (row.perspective, row.licence) == ("fps", "CC-BY-4.0")
    given = read_sidecar(sidecar(made(tmp_path, "tartanair")))
    assert (given.scale_status, given.metres_per_unit, given.gravity_source) == ("exact", 1.0, "engine")


def test_sekai_has_no_unit(tmp_path: Path) -> None:
    assert read_sidecar(sidecar(made(tmp_path, "sekai"))).metres_per_unit is None


def test_recorded_keys_come_with_the_poses(tmp_path: Path) -> None:
    given = read_sidecar(sidecar(made(tmp_path, "vpt")))
    assert given.keys is not None and given.pose_source == "engine"
    assert given.keys["longitudinal"].tolist() == given.keys["lateral"].tolist() == [0] + [1] * (COUNT - 1)
    assert not given.keys["on_ground"].any()                    # the walk sinks at every tick


def test_words_of_a_source_are_kept_beside_its_poses(tmp_path: Path) -> None:
    document = json.loads(sidecar(made(tmp_path, "yume")).read_text())
    assert document["labels"] == {"keys": "W", "mouse": "right"}


def test_a_body_without_its_camera_is_listed_and_refused_as_a_camera(tmp_path: Path) -> None:
    text(tmp_path / "in/a_with_gt.txt", np.column_stack([np.arange(3), np.zeros((3, 6)), np.ones(3)]))
    (entry,) = brought_in("uzh-fpv", tmp_path / "in", tmp_path / "corpus")
    with pytest.raises(DataError, match="path of a body; where the camera sits on it is wanted"):
        read_sidecar(sidecar(entry))


@pytest.mark.parametrize("wrong", [{"gravity": "imu"}, {"keys": [1, 0]}])
def test_pose_files_with_other_shapes_of_keys_or_gravity_are_refused(wrong: dict, tmp_path: Path) -> None:
    path = tmp_path / "v.poses.json"
    path.write_text(json.dumps({"convention": "c2w/opencv/matrix", "poses": np.eye(4).reshape(1, 16).tolist()} | wrong))
    with pytest.raises(DataError, match="wanted objects: a source and a confidence"):
        read_sidecar(path)


def test_a_video_of_its_own_length_keeps_its_times(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    re10k(tmp_path / "in")
    tiny_video(tmp_path / "in/a.mp4", 60, fps=10)
    (entry,) = brought_in("re10k", tmp_path / "in", tmp_path / "corpus")
    times = read_sidecar(sidecar(entry)).times_s
    assert times is not None and times[0] == pytest.approx(1.0) and times[-1] == pytest.approx(1.0 + 0.2 * (COUNT - 1))
    assert Path(entry.path).resolve() == (tmp_path / "in/a.mp4").resolve()


def break_7scenes(root: Path) -> None:
    seven_scenes(root)
    (root / "seq-01/frame-000004.pose.txt").unlink()


def break_nan(root: Path) -> None:
    seven_scenes(root)
    text(root / "seq-01/frame-000004.pose.txt", np.full((4, 4), np.nan))


def break_re10k(root: Path) -> None:
    re10k(root)
    with (root / "a.txt").open("a") as file:
        file.write("1 2 3\n")


def break_yume(root: Path) -> None:
    yume(root)
    words = root / "a_frames_00005-00016.txt"
    words.write_text(words.read_text(encoding="utf-8").replace("16", "15"), encoding="utf-8")


def break_euroc(root: Path) -> None:
    euroc(root)
    (root / "mav0/state_groundtruth_estimate0/data.csv").unlink()


def break_colmap(root: Path) -> None:
    colmap_text(root)
    path = root / "sparse/0/images.txt"
    path.write_text(path.read_text().replace(" 1 img 5.png", ""))


def break_sizes(root: Path) -> None:
    import cv2
    from tiny import picture
    seven_scenes(root)
    cv2.imwrite(str(root / "seq-01/frame-000003.color.png"), picture(3, 80, 48))


def break_json(root: Path) -> None:
    (root / "transforms.json").write_text('{"frames": [{"file_path": 3}')


def break_listing(root: Path) -> None:
    SAMPLES["tum"][1](root)
    (root / "rgb/4.png").unlink()


@pytest.mark.parametrize(("kind", "write", "message"), [
    ("nerf", break_json, "transforms.json: JSONDecodeError"),
    ("tum", break_listing, "rgb.txt names rgb/4.png, which is not there"),
    ("7scenes", break_7scenes, "frame-000005.pose.txt follows frame-000003.pose.txt"),
    ("7scenes", break_nan, "row 4 holds NaN"),
    ("7scenes", break_sizes, "frame-000003.color.png is 80x48"),
    ("re10k", break_re10k, "line 14 has 3 values; wanted 19"),
    ("sekai", break_yume, "frames 5 to 15 for 12 poses"),
    ("euroc", break_euroc, "no state_groundtruth_estimate0/data.csv"),
    ("colmap", break_colmap, "is too short")])
def test_a_broken_recording_is_a_problem_of_its_own_in_one_line(kind, write, message, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    (entry,) = brought_in(kind, tmp_path / "in", tmp_path / "corpus")
    assert entry.problem is not None and message in entry.problem and "\n" not in entry.problem


def test_what_did_not_change_is_not_brought_in_again(tmp_path: Path) -> None:
    entry = made(tmp_path, "7scenes")
    before = os.stat(entry.path).st_mtime_ns, os.stat(sidecar(entry)).st_mtime_ns
    (again,) = brought_in("7scenes", tmp_path / "in", tmp_path / "corpus")
    assert (os.stat(again.path).st_mtime_ns, os.stat(sidecar(again)).st_mtime_ns) == before
    text(tmp_path / "in/seq-01/frame-000004.pose.txt", WALK[5])
    (changed,) = brought_in("7scenes", tmp_path / "in", tmp_path / "corpus")
    found = read_sidecar(sidecar(changed)).world_from_cam_N44
    np.testing.assert_allclose(found[4], found[5], atol=1e-8)


def test_what_was_made_of_a_recording_that_is_gone_is_removed(tmp_path: Path) -> None:
    entry = made(tmp_path, "yume")
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    assert brought_in("sekai", tmp_path / "in", tmp_path / "corpus") == []
    assert not sidecar(entry).exists()


def test_only_reads_the_files_that_it_names(tmp_path: Path) -> None:
    pictures(tmp_path / "in", ["x.png"])
    for name in ("a/one.txt", "b/two.txt"):
        text(tmp_path / "in" / name, np.column_stack([np.arange(3), np.zeros((3, 6)), np.ones(3)]))
    found = brought_in("tum", tmp_path / "in", tmp_path / "corpus", only="b/*")
    assert [entry.name for entry in found] == ["b/two.poses.json"]


@pytest.mark.parametrize("ending", [".csv", ".npy", ".txt"])
def test_the_key_of_a_pose_note_covers_the_poses_it_points_at(ending: str, tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    tiny_video(root / "v.mp4", 4)
    note = {"pose": "c2w", "axes": "opencv", "file": "numbers" + ending}
    (root / "v.poses.json").write_text(json.dumps(note))
    (root / ("numbers" + ending)).write_bytes(b"1")
    reader = open_source(SourceParams(name="s", kind="posed", path=str(root)))
    (before,) = source_files([reader], tmp_path)
    (root / ("numbers" + ending)).write_bytes(b"22")
    (after,) = source_files([reader], tmp_path)
    assert before.sidecar == after.sidecar == "v.poses.json"
    assert before.sidecar_sha256 != after.sidecar_sha256 and before.sha256 == after.sha256


def test_a_plan_takes_every_format_from_poses_to_labels(tmp_path: Path) -> None:
    """Videos become clips with given cameras and labels; paths without pictures are accounted for."""
    sources = []
    for name, (kind, write, _) in SAMPLES.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name)
        sources.append({"name": name, "kind": kind, "path": name, "fps": 10.0})
    plan = {"sources": sources, "stages": ["video", "clip", "camera", "action"],
            "params": {"clip": {"min_s": 0.1, "shots": False}, "camera": {"mode": "given"}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    report = run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    with_pictures = {name for name, (_, _, has_pictures) in SAMPLES.items() if has_pictures}
    counts = {stage.stage: stage.counts for stage in report.stages}
    assert counts["video"]["dropped"] == len(SAMPLES) - len(with_pictures) and counts["video"]["failed"] == 0
    assert counts["action"]["done"] == len(with_pictures)
    con = open_catalog(tmp_path / "corpus")
    rows = con.sql("SELECT s.name, a.yaw_deg, a.longitudinal FROM action a JOIN clip USING (clip_id) "
                   "JOIN source s USING (source_id)").fetchall()
    assert {name for name, _, _ in rows} == with_pictures
    for name, yaw, longitudinal in rows:
        np.testing.assert_allclose(yaw[1:], 3.0, atol=SLANT_DEG.get(name, 2e-4), err_msg=name)
        assert set(longitudinal[1:]) == {1}, name
    reasons = con.sql("SELECT DISTINCT reason FROM drops WHERE stage = 'video'").fetchall()
    assert reasons == [("no_video",)]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("colmap_binary", "yume")])
def test_the_command_of_each_page_opens_a_sample(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, write, _ = SAMPLES[name]
    page = (PAGES / f"{kind}.md").read_text()
    (command,) = [line for line in page.splitlines() if line.startswith("worldloom ")]
    (tmp_path / f"{kind}-data").mkdir()
    write(tmp_path / f"{kind}-data")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(sources_app, [*command.split()[2:], "--json"])
    assert done.exit_code == 0, done.output
    (row,) = map(json.loads, done.output.splitlines())
    assert row["poses"] == COUNT and row["read_as"] in page
    assert row["read_as"] in (PAGES / "index.md").read_text()


def test_a_path_without_pictures_is_labelled_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    SAMPLES["lingbot"][1](tmp_path / "in")
    done = CliRunner().invoke(sources_app, ["label", "lingbot", str(tmp_path / "in"), "--out", str(tmp_path), "--json"])
    row = json.loads(done.output)
    assert (row["forward"], row["yaw_deg"], row["keys_fit"]) == (1.0, pytest.approx(33.0, abs=0.01), True)


def test_every_kind_is_listed_with_its_convention() -> None:
    done = CliRunner().invoke(sources_app, ["kinds", "--json"])
    kinds = {row["kind"]: row for row in map(json.loads, done.output.splitlines())}
    assert {kind for kind, _, _ in SAMPLES.values()} | {"folder", "posed", "vizdoom"} <= kinds.keys()
    assert all(kinds[kind]["convention"] for kind, _, _ in SAMPLES.values())
