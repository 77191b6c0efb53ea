"""Recordings of ViZDoom: what the truth says is what the pictures show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from worldloom.dataengine.record import EpisodeParams, read_truth, write_truth
from worldloom.dataengine.record import vizdoom as engine
from worldloom.dataengine.record.events import Doors, Events
from worldloom.dataengine.record.pinhole import (
    max_pitch_deg,
    pinhole_camera,
    rectify,
    rectify_box,
    source_from_pinhole,
    yshear_camera,
)
from worldloom.dataengine.record.policy import SEGMENTS, Player, View
from worldloom.dataengine.record.truth import sidecar_path, world_from_cam
from worldloom.schemas import ConfigError, DataError


def heading_deg(pose: np.ndarray) -> float:
    return float(np.degrees(np.arctan2(pose[0, 2], pose[2, 2])))


def frames(video: Path) -> np.ndarray:
    import av

    with av.open(str(video)) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    video = engine.record_episode(tmp_path_factory.mktemp("rec"), EpisodeParams(map="map10", seed=3, tics=80))
    return video, read_truth(sidecar_path(video))


def test_truth_has_a_row_for_every_frame_of_the_video(mixed):
    video, truth = mixed
    pictures_THWC = frames(video)
    assert pictures_THWC.shape == (80, 240, 320, 3) and len(truth) == 80
    assert pictures_THWC[10].std() > 5                        # a picture, not a blank
    assert truth.meta["camera"]["model"] == "yshear" and truth.meta["fps"] == 35.0
    np.testing.assert_allclose(np.diff(truth.time_s), 1 / 35)


def test_turning_right_raises_the_heading_by_the_turn_that_was_applied(tmp_path):
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, EpisodeParams(policy="rotate", tics=40))))
    heading = np.unwrap([heading_deg(pose) for pose in truth.world_from_cam_T44], period=360)
    assert abs(truth.turn_deg).max() > 1
    np.testing.assert_allclose(np.diff(heading), truth.turn_deg[:-1], atol=0.02)    # the engine's angles are 16 bit


def test_walking_forward_moves_along_the_camera_axis_at_eye_height(tmp_path):
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, EpisodeParams(policy="forward", tics=40))))
    step_T3 = np.diff(truth.world_from_cam_T44[:, :3, 3], axis=0)
    axis_T3 = truth.world_from_cam_T44[:-1, :3, 2]
    walking = (truth.keys["longitudinal"][:-1] == 1) & (np.linalg.norm(step_T3[:, [0, 2]], axis=1) > 4)
    assert walking.sum() > 5
    along = np.sum(step_T3[:, [0, 2]] * axis_T3[:, [0, 2]], axis=1) / np.linalg.norm(step_T3[:, [0, 2]], axis=1)
    assert np.median(along[walking]) > 0.98
    assert abs(truth.world_from_cam_T44[0, 1, 3] + 41) < 0.01     # the start is at height 0, the eye 41 units above


def test_strafing_moves_to_the_side_of_the_key(tmp_path):
    params = EpisodeParams(map="map04", policy="strafe", tics=50)
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, params)))
    step_T3 = np.diff(truth.world_from_cam_T44[:, :3, 3], axis=0)
    side = np.sum(step_T3 * truth.world_from_cam_T44[:-1, :3, 0], axis=1)
    late = slice(10, None)                                        # past the inertia of the first step
    moving = abs(side[late]) > 3
    assert moving.sum() > 10
    assert (np.sign(side[late][moving]) == truth.keys["lateral"][:-1][late][moving]).mean() > 0.9


def test_the_same_seed_records_the_same_truth_and_another_seed_does_not(mixed, tmp_path):
    _, first = mixed
    again = read_truth(sidecar_path(engine.record_episode(tmp_path, EpisodeParams(map="map10", seed=3, tics=60))))
    np.testing.assert_array_equal(again.world_from_cam_T44, first.world_from_cam_T44[:60])
    np.testing.assert_array_equal(again.turn_deg, first.turn_deg[:60])
    assert again.events == first.events[:60] and again.objects == first.objects[:60]
    other = read_truth(sidecar_path(engine.record_episode(tmp_path, EpisodeParams(map="map10", seed=4, tics=60))))
    assert not np.array_equal(other.turn_deg, again.turn_deg)


def test_a_finished_recording_is_kept_and_a_video_without_truth_is_redone(tmp_path):
    calls = []
    first, = engine.record_many(tmp_path, ["map01"], 1, 7, 20, "look", progress=lambda *seen: calls.append(seen))
    assert calls == [(1, 1, first)] and first.name == "vizdoom_map01_look_7.mp4"
    written = first.stat().st_mtime_ns
    assert engine.record_many(tmp_path, ["map01"], 1, 7, 20, "look") == [first]
    assert first.stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match="is there with hud False and not True; record into another folder"):
        engine.record_many(tmp_path, ["map01"], 1, 7, 20, "look", hud=True)
    sidecar_path(first).unlink()
    engine.record_many(tmp_path, ["map01"], 1, 7, 20, "look")
    assert first.stat().st_mtime_ns != written
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, sidecar_path(first).name]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> set[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for path in lists for child in path.read_text().split()}


def wait_for(condition: Callable[[], bool], limit_s: float = 20) -> None:
    stop = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < stop, "waited in vain"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="processes end with their parent on Linux only")
def test_a_killed_recorder_leaves_no_process_and_its_rerun_leaves_no_scratch_file(tmp_path):
    out, script = tmp_path / "out", tmp_path / "record.py"
    script.write_text("from pathlib import Path\nfrom worldloom.dataengine.record.vizdoom import record_many\n"
                      "if __name__ == '__main__':\n"
                      f"    record_many(Path({str(out)!r}), ['map01'], 2, 1, 10**6, workers=2)\n")
    source = Path(engine.__file__).parents[3]
    recorder = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(source)})
    try:
        wait_for(lambda: sum(1 for path in out.glob(".vizdoom_*.tmp") if path.stat().st_size) == 2)
        workers = {int(path.name.split(".")[-2]) for path in out.glob(".vizdoom_*.tmp")}
        engines = {pid for worker in workers for pid in children(worker)}
    finally:
        recorder.kill()
        recorder.wait()
    assert len(workers) == len(engines) == 2
    wait_for(lambda: not any(map(is_running, workers | engines)))
    engine.record_many(out, ["map01"], 1, 1, 20)
    assert not list(out.glob(".vizdoom_map01_mixed_1.*"))


def test_two_workers_record_what_one_worker_records(mixed, tmp_path):
    paths = engine.record_many(tmp_path, ["map10", "map01"], 1, 3, 40, workers=2)
    assert [path.name for path in paths] == ["vizdoom_map10_mixed_3.mp4", "vizdoom_map01_mixed_1003.mp4"]
    np.testing.assert_array_equal(read_truth(sidecar_path(paths[0])).world_from_cam_T44,
                                  mixed[1].world_from_cam_T44[:40])


def test_rectified_video_follows_a_pinhole_camera_as_it_looks_up_and_down(tmp_path):
    import cv2

    params = EpisodeParams(map="map08", policy="look", tics=60, pinhole=True)
    video = engine.record_episode(tmp_path, params)
    truth, pictures_THWC = read_truth(sidecar_path(video)), frames(video)
    camera, poses = pinhole_camera(320, 240, 75), truth.world_from_cam_T44
    assert truth.meta["camera"] == camera.as_dict()
    i = int(np.argmax(abs(truth.look_deg[:-1])))
    assert abs(truth.look_deg[i]) > 0.5
    moved = camera.matrix() @ poses[i + 1, :3, :3].T @ poses[i, :3, :3] @ np.linalg.inv(camera.matrix())
    before, after = (cv2.cvtColor(pictures_THWC[j], cv2.COLOR_RGB2GRAY) for j in (i, i + 1))
    points = cv2.goodFeaturesToTrack(before, 100, 0.01, 8)
    found, status, _ = cv2.calcOpticalFlowPyrLK(before, after, points, None)
    expected = cv2.perspectiveTransform(points.astype(np.float64), moved)
    error_px = np.linalg.norm((found - expected)[status[:, 0] > 0], axis=-1)
    still_px = np.linalg.norm((points - expected)[status[:, 0] > 0], axis=-1)
    assert np.median(error_px) < 0.5 < 2 < np.median(still_px)      # tracking is good to a few tenths of a pixel


@pytest.mark.parametrize("pitch_deg", [-17.0, 0.0, 12.0])
def test_homography_sends_a_ray_of_the_pinhole_to_the_same_ray_of_the_sheared_picture(pitch_deg):
    source, target = yshear_camera(1024, 768, 110), pinhole_camera(320, 240, 75)
    level_from_camera = world_from_cam(0, 0, 0, 90, 0)[:3, :3].T @ world_from_cam(0, 0, 0, 90, pitch_deg)[:3, :3]
    for x, y in [(0, 0), (319, 17), (160, 120), (40, 239)]:
        ray = level_from_camera @ np.linalg.inv(target.matrix()) @ [x, y, 1]
        u = source.fx * ray[0] / ray[2] + source.cx
        v = source.fy * ray[1] / ray[2] + source.cy + source.fy * np.tan(np.radians(pitch_deg))
        pixel = source_from_pinhole(source, target, pitch_deg) @ [x, y, 1]
        np.testing.assert_allclose(pixel[:2] / pixel[2], [u, v], atol=1e-6)


def test_rectification_moves_a_painted_square_to_its_box():
    source, target = yshear_camera(1024, 768, 110), pinhole_camera(320, 240, 75)
    painted = np.zeros((768, 1024, 3), np.uint8)
    painted[350:400, 500:560] = 255
    box = rectify_box((500, 350, 60, 50), source, target, 8.0)
    ys, xs = np.nonzero(rectify(painted, source, target, 8.0)[..., 0] > 128)
    np.testing.assert_allclose(box, [xs.min(), ys.min(), np.ptp(xs) + 1, np.ptp(ys) + 1], atol=3)
    assert rectify_box((0, 0, 5, 5), source, target, 0.0) is None
    assert 15 <= max_pitch_deg(source, target) <= 25


def test_pose_axes_are_right_handed_with_the_eye_above_the_ground():
    pose = world_from_cam(3, 5, 41, 30, 20)
    np.testing.assert_allclose(pose[:3, :3].T @ pose[:3, :3], np.eye(3), atol=1e-12)
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1)
    assert pose[:3, 3].tolist() == [3, -41, 5]
    assert pose[1, 2] < 0 < pose[1, 1]                             # looks up; its down axis points down
    assert heading_deg(world_from_cam(0, 0, 0, 20, 0)) > heading_deg(pose)  # Doom's angle falls when turning right


def test_events_come_from_counters_and_a_weapon_in_mid_switch_is_no_weapon():
    seen = Events()
    base = dict(kills=0, hits=0, hits_taken=0, items=0, secrets=0, health=90, armor=0, weapons=2, ammo=50, weapon=2)
    assert seen.seen(base) == []
    kinds = [event["kind"] for event in seen.seen({**base, "kills": 1, "hits": 1, "health": 100, "ammo": 60}, 1)]
    assert kinds == ["kill", "hit", "heal", "ammo_pickup", "door_open", "fight"]
    assert seen.seen({**base, "kills": 1, "hits": 1, "weapon": -1}) == []
    switched = seen.seen({**base, "kills": 1, "hits": 1, "weapon": 3, "ammo": 8})
    assert [event["kind"] for event in switched] == ["weapon_switch"]


def test_a_door_opens_once_when_used_near_and_not_when_far_or_long_ago():
    heights, lines = np.array([[0.0, 0.0]]), [np.array([[50.0, 0.0]])]
    rising = [heights + [[0, h]] for h in (0, 2, 4, 6)]

    def count(position, use_frame):
        doors = Doors()
        doors.used(use_frame)
        return sum(doors.opened(frame, now, lines, position) for frame, now in enumerate(rising))

    assert count((0, 0), 0) == 1
    assert count((-400, 0), 0) == 0
    assert count((0, 0), -30) == 0


@pytest.mark.parametrize("kind", SEGMENTS)
def test_players_are_smooth_and_turn_both_ways_where_their_kind_turns(kind):
    player, open_room = Player(kind, 5), View(pitch_deg=0, speed=8, ahead=60, left=60, right=60)
    commands = [player.act(open_room) for _ in range(1500)]
    turns = np.array([command.turn_deg for command in commands])
    assert abs(np.diff(turns)[turns[1:] != 0]).max(initial=0) < 3.0
    if kind in ("mixed", "turn"):
        assert (turns > 1.5).mean() > 0.1 and (turns < -1.5).mean() > 0.1
    if kind == "stationary":
        assert not turns.any() and not any(command.longitudinal or command.lateral for command in commands)


def test_a_sidecar_reads_back_and_a_broken_one_says_so(mixed, tmp_path):
    import pyarrow.parquet as pq

    video, truth = mixed
    rows = pq.read_table(sidecar_path(video)).to_pylist()
    write_truth(tmp_path / "x.truth.parquet", rows, truth.meta)
    again = read_truth(tmp_path / "x.truth.parquet")
    assert again.meta == truth.meta and again.objects == truth.objects
    write_truth(tmp_path / "gap.truth.parquet", rows[:5] + rows[6:], truth.meta)
    with pytest.raises(DataError, match="not numbered"):
        read_truth(tmp_path / "gap.truth.parquet")
    (tmp_path / "bad.truth.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="no truth sidecar"):
        read_truth(tmp_path / "bad.truth.parquet")


@pytest.mark.parametrize("fields, message", [
    (dict(map="map99"), "unknown map 'map99'; freedoom2.wad has map01, map02"),
    (dict(wad="doom9.wad"), "unknown wad"),
    (dict(width=300, height=200), "no 300x200 picture"),
    (dict(policy="fly"), "unknown policy"),
    (dict(pinhole=True, hud=True), "without hud"),
])
def test_what_the_engine_lacks_is_one_clear_error(fields, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as caught:
        engine.record_episode(tmp_path, EpisodeParams(**fields))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_command_records_and_counts(tmp_path):
    from worldloom.dataengine.record.cli import record_app

    told = CliRunner().invoke(record_app, ["vizdoom", "--maps", "map02", "--tics", "20", "--out", str(tmp_path),
                                           "--hud", "--weapon", "--policy", "turn"])
    assert told.exit_code == 0, told.output
    assert "1 recordings" in told.output
    truth = read_truth(tmp_path / "vizdoom_map02_turn_1.truth.parquet")
    assert truth.meta["hud"] and truth.meta["weapon"] and truth.meta["camera"]["cy"] == pytest.approx(103.5)
