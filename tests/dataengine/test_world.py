"""Recordings of the procedural world: what the truth says is what the pictures show."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from worldloom.annotators.camera.given import read_sidecar
from worldloom.dataengine.record.truth import read_truth, sidecar_path
from worldloom.dataengine.record.world import WorldParams, record_world
from worldloom.dataengine.record.world.depth import depth_path, read_depth
from worldloom.dataengine.record.world.episode import Episode
from worldloom.dataengine.record.world.events import CATEGORY
from worldloom.dataengine.record.world.mesh import Mesh
from worldloom.dataengine.record.world.params import SCENES, SCHEDULED
from worldloom.dataengine.record.world.play import Play, View, camera_of
from worldloom.dataengine.record.world.player import GRAVITY_M_S2, JUMP_M_S, WALK_M_S
from worldloom.dataengine.record.world.record import twin_path
from worldloom.dataengine.record.world.render import Renderer
from worldloom.dataengine.record.world.scene import Environment, Prop, Scene
from worldloom.dataengine.sources import SourceParams, open_source
from worldloom.schemas import ConfigError

SMALL = dict(width=160, height=120)


def played(params: WorldParams) -> tuple[np.ndarray, list[dict]]:
    """Poses (T, 4, 4) and truth columns of a play that is not drawn."""
    game, poses, rows = Play(params), [], []
    for frame in range(params.num_frames):
        game.advance(frame, [])
        view = game.view(frame)
        poses.append(view.pose())
        rows.append(game.body_columns(frame, view) | game.act(frame))
    return np.array(poses), rows


def drawn(params: WorldParams) -> tuple[np.ndarray, np.ndarray, list[dict]]:
    """Raw pictures (T, H, W, 3), those of the twin, and truth rows."""
    pictures, twins = [], []
    with closing(Episode(params)) as episode:
        result = episode.record(pictures.append, twins.append)
    return np.array(pictures), np.array(twins), result.rows


def frames(video: Path) -> np.ndarray:
    import av

    with av.open(str(video)) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])


def project(points_N3: np.ndarray, world_from_cam_44: np.ndarray, camera: dict) -> np.ndarray:
    """Pixels (N, 2) of canonical points, from the truth alone."""
    x, y, z = (np.linalg.inv(world_from_cam_44) @ np.c_[points_N3, np.ones(len(points_N3))].T)[:3]
    return np.stack([camera["fx"] * x / z + camera["cx"], camera["fy"] * y / z + camera["cy"]], axis=1)


def white_balls(camera: dict, seed: int) -> tuple[Scene, np.ndarray]:
    """A scene of nothing but shining balls, about 2 px in radius when they are at their depths (N,)."""
    rng, scene = np.random.default_rng(seed), Scene("town", seed)
    depths = rng.uniform(1, 40, 48)
    for depth in depths:
        mesh = Mesh()
        mesh.ball("white", (0, 0, 0), 2.2 * depth / camera["fx"], (9.0, 9.0, 9.0, 9.0), sides=12)
        scene.props.append(Prop("ball", mesh, np.zeros(3), 0.1, 0.1, 0.1))
    return scene.close(), depths


def centroid(picture_HW: np.ndarray, near_xy: np.ndarray) -> np.ndarray:
    x, y = np.round(near_xy).astype(int)
    part = picture_HW[max(0, y - 7):y + 8, max(0, x - 7):x + 8].astype(float)
    rows, columns = np.mgrid[max(0, y - 7):max(0, y - 7) + part.shape[0], max(0, x - 7):max(0, x - 7) + part.shape[1]]
    return np.array([(part * columns).sum(), (part * rows).sum()]) / part.sum()


@pytest.mark.parametrize("perspective", ["fps", "tps"])
def test_known_points_are_drawn_where_the_recorded_pose_projects_them(perspective):
    params = WorldParams(scene="terrain", seed=4, policy="mixed", perspective=perspective, seconds=4)
    poses, rows = played(params)
    camera = camera_of(params).as_dict()
    scene, depths = white_balls(camera, 1)
    rng, errors = np.random.default_rng(2), []
    grid = np.stack(np.meshgrid(np.linspace(12, 307, 8), np.linspace(12, 227, 6)), axis=-1).reshape(-1, 2)
    with closing(Renderer(scene, camera_of(params), 0.0, 0.0)) as renderer:
        for pose, row in list(zip(poses, rows, strict=True))[::24]:
            pixels = grid + rng.uniform(-5, 5, grid.shape)
            rays = np.c_[(pixels - [camera["cx"], camera["cy"]]) / camera["fx"], np.ones(len(grid))]
            points = (rays * depths[:, None]) @ pose[:3, :3].T + pose[:3, 3]
            there = scene.first_state(Environment(daylight=0.0, cloud=0.0))
            there.positions = [np.array([x, z, -y]) for x, y, z in points]
            gone = there.copy()
            gone.present = [False] * len(points)
            eye = np.array([pose[0, 3], pose[2, 3], -pose[1, 3]])
            view = View(eye, row["yaw_deg"], row["pitch_deg"], 0.0, eye)
            change = np.abs(renderer.draw(there, view)[0].astype(int) - renderer.draw(gone, view)[0]).sum(axis=2)
            expected = project(points, pose, camera)
            errors += [np.linalg.norm(centroid(change, at) - at) for at in expected]
    assert len(errors) == 4 * 48
    assert max(errors) < 0.2 and np.median(errors) < 0.08


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), scene=st.sampled_from(SCENES), perspective=st.sampled_from(["fps", "tps"]))
def test_a_loop_comes_back_by_the_way_it_went_and_a_square_looks_the_same_way(seed, scene, perspective):
    params = WorldParams(scene=scene, seed=seed, perspective=perspective, policy="loop", seconds=3)
    poses, _ = played(params)
    middle = (len(poses) - 1) // 2
    assert abs(poses[:2 * middle + 1] - poses[:2 * middle + 1][::-1]).max() < 1e-9
    assert abs(poses - poses[0]).max() > 0.1
    poses, rows = played(replace(params, policy="square"))
    last = (len(poses) - 1) // 4 * 4
    assert abs(poses[last] - poses[0]).max() < 1e-9
    assert sum(row["turn_deg"] for row in rows) == pytest.approx(math.copysign(360, rows[last - 1]["turn_deg"]))


def test_pictures_of_a_loop_are_the_same_on_the_way_back():
    pictures, _, _ = drawn(WorldParams(scene="town", seed=3, policy="loop", seconds=1, **SMALL))
    middle = (len(pictures) - 1) // 2
    for i in range(middle):
        change = abs(pictures[i].astype(int) - pictures[2 * middle - i])
        assert change.mean() < 0.05         # poses differ by 1e-15, which moves a sample over an edge at times
    assert abs(pictures[middle].astype(int) - pictures[0]).mean() > 2


def test_the_same_seed_gives_the_same_poses_and_pictures_in_other_processes(tmp_path):
    options = dict(scenes=["town", "rooms"], seed=5, seconds=0.5, perspective="tps", **SMALL)
    calls = []
    pair = record_world(tmp_path / "pair", workers=2, progress=lambda *seen: calls.append(seen), **options)
    alone = record_world(tmp_path / "alone", **options)
    assert [path.name for path in pair] == ["world_town_tps_mixed_5.mp4", "world_rooms_tps_mixed_1005.mp4"]
    assert sorted(done for done, _, _ in calls) == [1, 2] and {path for _, _, path in calls} == set(pair)
    for one, other in zip(pair, alone, strict=True):
        first, second = read_truth(sidecar_path(one)), read_truth(sidecar_path(other))
        np.testing.assert_array_equal(first.world_from_cam_T44, second.world_from_cam_T44)
        assert first.meta == second.meta and len(first.meta["pictures_sha1"]) == 40
    different, _ = played(WorldParams(scene="town", seed=6, perspective="tps", seconds=0.5))
    assert not np.array_equal(different, read_truth(sidecar_path(pair[0])).world_from_cam_T44)


@pytest.mark.parametrize("fields", [
    dict(scene="town", events=("rain@0.5",)),
    dict(scene="town", events=("dusk@0.5",)),
    dict(scene="terrain", events=("object_dropped@0.5",), perspective="tps"),
    dict(scene="rooms", events=("lamps_off@0.5",)),
    dict(scene="rooms", events=("object_removed@0.5",), policy="look", seed=3),
    dict(scene="rooms", policy="door", seconds=2.5),
])
def test_the_frame_of_an_event_is_the_first_that_differs_from_the_world_without_it(fields):
    params = WorldParams(**{"seed": 2, "seconds": 1, "policy": "idle", **SMALL, **fields})
    pictures, twins, rows = drawn(params)
    told = [row["frame"] for row in rows if row["events"]]
    differs = np.flatnonzero((pictures != twins).any(axis=(1, 2, 3)))
    assert told and differs[0] == told[0]
    assert told[0] == 12 or params.policy == "door"
    assert [row["event_differs"] for row in rows] == (pictures != twins).any(axis=(1, 2, 3)).tolist()
    assert max(row["event_px"] for row in rows) > 0.002


def test_every_scheduled_kind_happens_or_is_skipped_with_a_reason_and_has_a_category():
    happened, skipped = set(), set()
    for scene, daylight in (("town", 1.0), ("rooms", 0.5), ("town", 0.0)):
        game = Play(WorldParams(scene=scene, daylight=daylight, seconds=2, policy="idle",
                                events=tuple(f"{kind}@1" for kind in SCHEDULED)))
        for frame in range(48):
            game.advance(frame, [])
            game.view(frame)
            game.act(frame)
        happened |= {event.kind for event in game.events.happened}
        skipped |= {(event["kind"], event["why"]) for event in game.events.skipped}
    assert set(SCHEDULED) - {"object_removed", "lamps_on"} <= happened
    assert ("object_removed", "nothing solid in view") in skipped and ("rain", "there is no sky indoors") in skipped
    assert set(CATEGORY.values()) == {"interaction", "environment", "object"} and set(SCHEDULED) <= set(CATEGORY)


def test_the_third_person_camera_follows_a_body_that_is_drawn_where_the_truth_says():
    params = WorldParams(scene="town", seed=2, perspective="tps", policy="walk", seconds=1.5)
    game = Play(params)
    with closing(Renderer(game.scene, camera_of(params), 0.0, 1.0, has_figure=True)) as renderer:
        for frame in range(params.num_frames):
            game.advance(frame, [])
            view = game.view(frame)
            row = game.body_columns(frame, view) | game.act(frame)
        shown, _ = renderer.draw(game.state, view)
        hidden, _ = renderer.draw(game.state, replace(view, figure=replace(view.figure, is_shown=False)))
    changed = np.argwhere(abs(shown.astype(int) - hidden).max(axis=2) > 12)[:, ::-1]
    belly = np.array([[row["body_x"], row["body_y"] - 0.95, row["body_z"]]])
    at = project(belly, view.pose(), camera_of(params).as_dict())[0]
    assert np.linalg.norm(np.median(changed, axis=0) - at) < 12           # its shadow and its legs move the middle
    assert 1.5 < np.linalg.norm(view.pose()[:3, 3] - belly[0]) < 3.8
    assert row["body_shown"] and abs(row["body_yaw_deg"] - row["yaw_deg"]) < 30


def test_walking_against_a_wall_is_blocked_and_walking_freely_is_not():
    _, rows = played(WorldParams(scene="rooms", seed=3, policy="wall", seconds=6, inertia_s=0.0))
    body = np.array([(row["body_x"], row["body_z"]) for row in rows])
    moved = np.linalg.norm(np.diff(body, axis=0), axis=1)
    walks = np.array([row["key_longitudinal"] == 1 for row in rows[:-1]])
    blocked = np.array([row["blocked"] for row in rows[:-1]])
    assert blocked.sum() > 10 and not blocked[~walks].any()
    assert moved[blocked].max() < 0.5 * WALK_M_S / 24 <= moved[walks & ~blocked].min()


def test_a_jump_is_a_parabola_that_ends_where_it_began():
    _, rows = played(WorldParams(scene="rooms", seed=1, policy="jump", seconds=4))
    height = -np.array([row["body_y"] for row in rows])
    grounded = np.array([row["on_ground"] for row in rows])
    jump = next(i for i, row in enumerate(rows) if row["key_jump"])
    assert grounded[jump] and not grounded[jump + 1]
    landed = jump + 1 + int(np.argmax(grounded[jump + 1:]))
    seconds = np.arange(landed - jump) / 24
    np.testing.assert_allclose(height[jump:landed], JUMP_M_S * seconds - GRAVITY_M_S2 * seconds**2 / 2, atol=1e-9)
    assert height[landed] == 0 and height.max() == pytest.approx(JUMP_M_S**2 / 2 / GRAVITY_M_S2, abs=0.01)


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    return record_world(tmp_path_factory.mktemp("world"), scenes=["town"], seed=2, seconds=1, policy="walk",
                        events=("object_added@0.5",), depth_every=4, save_twin=True)[0]


def test_depth_and_pose_say_where_each_tracked_point_goes(walk):
    import cv2

    truth, pictures = read_truth(sidecar_path(walk)), frames(walk)
    camera, poses = truth.meta["camera"], truth.world_from_cam_T44
    at_frames, depths_KHW = read_depth(depth_path(walk))
    assert at_frames.tolist() == [0, 4, 8, 12, 16, 20] == np.flatnonzero(truth.extra["has_depth"]).tolist()
    before, after = (cv2.cvtColor(pictures[i], cv2.COLOR_RGB2GRAY) for i in (4, 6))
    points = cv2.goodFeaturesToTrack(before, 200, 0.01, 7)
    found, status, _ = cv2.calcOpticalFlowPyrLK(before, after, points, None)
    points, found = points[status > 0], found[status > 0]
    z = depths_KHW[1][np.round(points[:, 1]).astype(int), np.round(points[:, 0]).astype(int)]
    rays = np.c_[(points - [camera["cx"], camera["cy"]]) / camera["fx"], np.ones(len(points))]
    solid = np.isfinite(z)
    world = (rays[solid] * z[solid, None]) @ poses[4, :3, :3].T + poses[4, :3, 3]
    error = np.linalg.norm(found[solid] - project(world, poses[6], camera), axis=1)
    still = np.linalg.norm(found[solid] - points[solid], axis=1)
    assert solid.sum() > 60
    assert np.median(error) < 0.25 < 0.7 < np.median(still)         # LK on H.264 is good to a tenth or two of a pixel


def test_a_recording_holds_a_video_its_truth_and_its_twin(walk):
    truth, pictures, twins = read_truth(sidecar_path(walk)), frames(walk), frames(twin_path(walk))
    assert pictures.shape == twins.shape == (24, 240, 320, 3) and len(truth) == 24
    np.testing.assert_allclose(np.diff(truth.time_s), 1 / 24)
    assert [i for i, events in enumerate(truth.events) if events] == [12]
    assert truth.meta["events"][0] | {"thing": None, "position": None, "text": None} == {
        "kind": "object_added", "category": "object", "frame": 12, "stop_frame": 13, "by": "script", "thing": None,
        "position": None, "text": None}
    change = (abs(pictures.astype(int) - twins).max(axis=3) > 40).mean(axis=(1, 2))     # less is the coder's doing
    assert change[:12].max() < 0.002 < 0.01 < change[12:].min()
    twin = read_truth(sidecar_path(twin_path(walk)))
    assert not any(twin.events) and twin.meta["twin_of"] == walk.name
    np.testing.assert_array_equal(twin.world_from_cam_T44, truth.world_from_cam_T44)
    assert len(truth.objects[13]) == len(twin.objects[13]) + 1


def test_the_labelling_stages_read_it_as_any_recording(walk):
    given_poses = read_sidecar(sidecar_path(walk))
    assert (given_poses.pose_source, given_poses.scale_status, given_poses.metres_per_unit) == ("engine", "exact", 1.0)
    assert given_poses.camera["model"] == "pinhole" and given_poses.perspective == "fps"
    assert given_poses.keys["longitudinal"].tolist() == [1] * 23 + [0]
    entries = list(open_source(SourceParams(name="w", kind="world", path=str(walk.parent))).entries())
    assert [(entry.name, entry.sidecar) for entry in entries] == [
        (f"{walk.stem}{part}.mp4", f"{walk.stem}{part}.truth.parquet") for part in ("", ".twin")]


def test_a_finished_recording_is_kept_and_one_with_other_options_is_refused(walk):
    options = dict(scenes=["town"], seed=2, policy="walk", events=("object_added@0.5",), depth_every=4, save_twin=True)
    written = walk.stat().st_mtime_ns
    assert record_world(walk.parent, seconds=1, **options) == [walk] and walk.stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match=r"is there with seconds 1 and not 2; record into another folder"):
        record_world(walk.parent, seconds=2, **options)
    assert not list(walk.parent.glob(".*"))


@pytest.mark.parametrize("fields, message", [
    (dict(scene="moon"), "unknown scene 'moon'; known: town, rooms, terrain"),
    (dict(policy="fly"), "unknown policy 'fly'"),
    (dict(perspective="top"), "unknown perspective"),
    (dict(events=("flood@1",)), "unknown event 'flood'"),
    (dict(events=("rain at 1",)), "must be KIND or KIND@SECONDS"),
    (dict(events=("rain@12",)), "comes after the end at 12 s"),
    (dict(width=321), "no picture of 321x240"),
    (dict(seconds=0.0), "no episode"),
])
def test_a_wrong_option_is_one_clear_error(fields, message):
    with pytest.raises(ConfigError, match=message) as caught:
        WorldParams(**fields)
    assert "\n" not in str(caught.value)


def test_the_command_records_and_counts(tmp_path):
    from worldloom.dataengine.record.cli import record_app

    told = CliRunner().invoke(record_app, ["world", "--scenes", "rooms", "--seconds", "0.5", "--out", str(tmp_path),
                                           "--perspective", "tps", "--policy", "turn", "--event", "fog@0.2",
                                           "--width", "160", "--height", "120"])
    assert told.exit_code == 0, told.output
    assert "1 recordings of 0.5 s" in told.output
    truth = read_truth(tmp_path / "world_rooms_tps_turn_1.truth.parquet")
    assert truth.meta["perspective"] == "tps" and truth.meta["camera"]["cy"] == pytest.approx(59.5)
    assert truth.events[5][0]["kind"] == "fog"


def test_a_machine_without_egl_is_one_clear_error(tmp_path):
    import subprocess
    import sys

    script = ("from worldloom.dataengine.record.world import record_world\n"
              f"record_world({str(tmp_path)!r}, seconds=1)\n")
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env={"__EGL_VENDOR_LIBRARY_FILENAMES": "/none", "PYTHONPATH": str(Path(
                              __import__("worldloom").__file__).parents[1])})
    assert told.returncode != 0
    assert "ConfigError: cannot draw the world: EGL with OpenGL 3.3 did not open" in told.stderr
    assert not list(tmp_path.iterdir())
