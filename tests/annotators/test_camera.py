import json
from fractions import Fraction
from itertools import accumulate

import av
import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worldloom.annotators.actions.keys import Recorded, keys_of_clip
from worldloom.annotators.actions.label import label
from worldloom.annotators.actions.stage import ActionStage, ActionTruthStage
from worldloom.annotators.camera import odometry
from worldloom.annotators.camera.blocks import Blocks
from worldloom.annotators.camera.certainty import turn_error_deg
from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.stage import CameraParams, CameraStage, TruthStage
from worldloom.annotators.camera.sweep import swept_pose
from worldloom.annotators.camera.tracks import LIFE, Tracks
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Context
from worldloom.schemas import UNCERTAIN, Camera, Clip, DataError, Drop, Video

LENS = odometry.Lens(160.0, 160.0, 160.0, 120.0)
SHEAR = odometry.Lens(160.0, 192.0, 160.0, 110.0, "yshear")
HALF_ROOM = np.array([5.0, 2.0, 7.0])


@pytest.fixture(scope="module")
def walls():
    """One random texture for each side of the room, with detail at several sizes."""
    rng, size = np.random.default_rng(5), 768
    sides = []
    for _ in range(6):
        layers = [cv2.resize(rng.normal(0, 40, (n, n)).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
                  for n in (24, 64, 160)]
        sides.append(np.clip(128 + sum(layers), 0, 255).astype(np.uint8))
    return sides


def draw(walls, lens, heading, elevation, position):
    """Exact picture (240, 320) of the textured room from a level-horizon camera."""
    y, x = np.mgrid[0:240, 0:320].astype(float)
    if lens.model == "yshear":
        horizon, turn = lens.cy + lens.fy * np.tan(np.radians(elevation)), P.look(heading, 0.0)
    else:
        horizon, turn = lens.cy, P.look(heading, elevation)
    rays = np.stack([(x - lens.cx) / lens.fx, (y - horizon) / lens.fy, np.ones_like(x)], -1) @ turn.T
    reach = (np.sign(rays) * HALF_ROOM - position) / np.where(np.abs(rays) < 1e-9, 1e-9, rays)
    axis = np.argmin(reach, -1)
    place = position + rays * np.min(reach, -1)[..., None]
    picture = np.zeros((240, 320), np.uint8)
    for k in range(3):
        u, v = [i for i in range(3) if i != k]
        for side in (0, 1):
            here = (axis == k) & ((np.take(rays, k, -1) > 0) == bool(side))
            size = 14.0
            map_u = ((place[..., u] / size + 0.5) * 767).astype(np.float32)
            map_v = ((place[..., v] / size + 0.5) * 767).astype(np.float32)
            picture[here] = cv2.remap(walls[2 * k + side], map_u, map_v, cv2.INTER_LINEAR)[here]
    return picture


def film(walls, lens, heading, elevation=None, position=None):
    count = len(heading)
    elevation = np.zeros(count) if elevation is None else elevation
    position = np.zeros((count, 3)) if position is None else position
    return np.stack([draw(walls, lens, *pose) for pose in zip(heading, elevation, position, strict=True)])


def seen(motion, lens, count):
    return Camera(
        clip_id="c", estimator="odometry/1", chosen_because="test", pose_source="estimated",
        camera_model=lens.model, num_frames=count,
        world_from_cam_T44=odometry.integrate(motion, lens).reshape(-1, 16), intrinsics_T4=np.zeros((count, 4)),
        confidence=motion.confidence, yaw_se_deg=motion.yaw_se_deg, pitch_se_deg=motion.pitch_se_deg,
        parallax_px=motion.parallax_px, travel_se_deg=np.full(count, np.nan), is_calibrated=True,
        focal_source="declared", focal_spread=None, perspective_seen="uncertain", scale_status="relative",
        metres_per_unit=None,
        scale_spread=None, gravity_source="assumed", gravity_confidence=0.5)


@pytest.mark.parametrize("lens", [LENS, SHEAR], ids=["pinhole", "yshear"])
def test_a_rotating_camera_is_measured_within_a_twentieth_of_a_degree(walls, lens):
    time = np.arange(14)
    heading, elevation = 3.0 * time, 6 * np.sin(time / 3)
    motion = odometry.estimate(film(walls, lens, heading, elevation), lens, 17.5)
    assert np.abs(motion.yaw_deg[1:] - 3.0).max() < 0.05
    assert np.abs(motion.pitch_deg[1:] - np.diff(elevation)).max() < 0.05
    found = odometry.integrate(motion, lens)
    assert P.heading_deg(found)[-1] == pytest.approx(39.0, abs=0.3)
    action = label(seen(motion, lens, 14), 17.5)
    assert not action.longitudinal.any() and not action.lateral.any()


@pytest.mark.parametrize(("direction", "longitudinal", "lateral"), [(0, 1, 0), (180, -1, 0), (90, 0, 1), (-45, 1, -1)])
@pytest.mark.parametrize("fps", [17.5, 35.0])
def test_a_moving_camera_has_its_direction_and_no_turn(walls, direction, longitudinal, lateral, fps):
    angle = np.radians(direction)
    position = np.arange(12)[:, None] * np.array([np.sin(angle), 0, np.cos(angle)]) * 4.0 / fps
    position += [0.4, 0.3, 1.0] - position.mean(0)
    motion = odometry.estimate(film(walls, LENS, np.zeros(12), position=position), LENS, fps)
    action = label(seen(motion, LENS, 12), fps)
    assert set(action.longitudinal[1:]) <= {longitudinal, UNCERTAIN}
    assert set(action.lateral[1:]) <= {lateral, UNCERTAIN}
    assert direction == 90 or action.certain_share == 1      # travel along a far wall is too like a turn
    truth = np.array([np.sin(angle), 0, np.cos(angle)])
    assert np.abs(motion.direction_T3[1:] - truth).max() < 0.1
    assert np.abs(action.yaw_deg).max() < 0.15
    assert set(action.jump) == {UNCERTAIN}


def test_walking_while_turning_gives_both(walls):
    heading = 2.0 * np.arange(14)
    step = P.look(heading, np.zeros(14))[:, :, 2] * 0.14
    motion = odometry.estimate(film(walls, LENS, heading, position=np.cumsum(step, 0) - [1, 0, 3]), LENS, 17.5)
    action = label(seen(motion, LENS, 14), 17.5)
    assert np.abs(motion.yaw_deg[1:] - 2.0).max() < 0.2
    assert set(action.longitudinal[1:]) == {1} and not np.isin(action.lateral[1:], (-1, 1)).any()


def test_a_still_camera_with_picture_noise_is_at_rest(walls):
    still = film(walls, LENS, np.zeros(1))[0].astype(float)
    noise = np.random.default_rng(0).normal(0, 4, (10, 240, 320))
    frames = np.clip(still + noise, 0, 255).astype(np.uint8)
    action = label(seen(odometry.estimate(frames, LENS, 17.5), LENS, 10), 17.5)
    assert np.abs(action.yaw_deg).max() < 0.05 and not action.longitudinal.any() and not action.lateral.any()


def test_a_black_clip_has_no_confidence_and_no_certain_movement():
    motion = odometry.estimate(np.zeros((6, 240, 320), np.uint8), LENS, 17.5)
    action = label(seen(motion, LENS, 6), 17.5)
    assert not motion.confidence[1:].any() and set(action.longitudinal[1:]) == {UNCERTAIN}
    assert (action.yaw_se_deg[1:] == 180).all()


def test_a_status_bar_is_masked_and_does_not_hold_the_yaw_back(walls):
    frames = film(walls, LENS, 4.0 * np.arange(24))
    bar = np.random.default_rng(1).integers(0, 255, (40, 320), np.uint8)
    frames[:, 200:] = cv2.blur(bar, (3, 3))
    mask = usable_mask(frames, fps=17.5)
    assert (mask[205:] == 0).mean() > 0.95 and (mask[:180] > 0).mean() > 0.95
    assert np.abs(odometry.estimate(frames, LENS, 17.5).yaw_deg[1:] - 4.0).max() < 0.05


def test_a_status_bar_is_masked_in_the_dark_too(walls):
    frames = film(walls, LENS, 4.0 * np.arange(24)) // 8
    frames[:, 200:] = cv2.blur(np.random.default_rng(1).integers(0, 255, (40, 320), np.uint8), (3, 3)) // 3
    mask = usable_mask(frames, fps=17.5)
    assert (mask[205:] == 0).mean() > 0.95 and (mask[:180] > 0).mean() > 0.95


def test_one_frame_or_an_unknown_model_is_refused():
    with pytest.raises(DataError, match="1 frames"):
        odometry.estimate(np.zeros((1, 8, 8), np.uint8), LENS, 30.0)
    with pytest.raises(DataError, match="fisheye"):
        odometry.estimate(np.zeros((2, 8, 8), np.uint8), odometry.Lens(1, 1, 1, 1, "fisheye"), 30.0)


# ---------------------------------------------------------------- stages


def video_row(count, sidecar):
    return Video(
        video_id="v", source_id="s", name="walk.mp4", bytes=1, container="mp4", codec="h264", pix_fmt="yuv420p",
        stream_index=0, width=320, height=240, rotation_deg=0, sample_aspect_ratio=1.0, num_frames=count,
        header_frames=count, start_s=0.0, duration_s=count / 35, fps=35.0, is_variable_rate=False, is_interlaced=False,
        backend="pyav", notes=[], sidecar=sidecar)


def clip_row(frames, *, scale=1.0, crop=(0.0, 0.0)):
    count = len(frames)
    return Clip(
        clip_id="c", video_id="v", source_id="s", start_frame=frames[0], stop_frame=frames[-1] + 1,
        start_s=frames[0] / 35, stop_s=(frames[-1] + 1) / 35, num_frames=count, fps=17.5, width=320, height=240,
        source_frames=list(frames), frame_times_s=[f / 35 for f in frames], scale_x=scale, scale_y=scale,
        crop_x_px=crop[0], crop_y_px=crop[1], media="clip.mp4", media_bytes=1, media_sha256="0", cut_by="start",
        split="train")


def write_truth(path, poses, keys=None):
    count = len(poses)
    zeros = np.zeros(count, np.int8)
    columns = {"frame": np.arange(count), "world_from_cam": poses.reshape(-1, 16).tolist(),
               "on_ground": np.ones(count, bool), "key_longitudinal": zeros, "key_lateral": zeros, "key_jump": zeros}
    lens = {"model": "yshear", "fx": 160.0, "fy": 192.0, "cx": 160.0, "cy": 120.0, "width": 320, "height": 240}
    facts = {"camera": lens, "fps": 35.0, "perspective": "fps", "convention": "c2w/opencv/matrix",
             "pose_source": "engine",
             "metres_per_unit": 0.03125, "scale_status": "exact"}
    table = pa.table({**columns, **(keys or {})})
    pq.write_table(table.replace_schema_metadata({b"worldloom": json.dumps(facts).encode()}), path)


def turning(count=40):
    position = np.arange(count)[:, None] * np.array([0, 0, 6.0])
    return P.compose(P.look(np.arange(count) * 0.0, np.zeros(count)), position)


def run(stage, tmp_path, item):
    stage.setup(Context(tmp_path, {"s": str(tmp_path)}))
    return next(iter(stage.process(item)))


@pytest.mark.parametrize("stage", [CameraStage, TruthStage])
def test_recorder_truth_is_sampled_at_the_frames_of_the_clip(tmp_path, stage):
    poses = turning()
    write_truth(tmp_path / "walk.truth.parquet", poses)
    camera = run(stage(), tmp_path, {"clip": clip_row(range(2, 30, 2)), "video": video_row(40, "walk.truth.parquet")})
    np.testing.assert_allclose(camera.world_from_cam_T44.reshape(-1, 4, 4), poses[2:30:2], atol=1e-9)
    assert (camera.pose_source, camera.camera_model, camera.scale_status) == ("engine", "yshear", "exact")
    assert np.isnan(camera.parallax_px).all() and camera.is_calibrated


def test_intrinsics_follow_crop_and_scale(tmp_path):
    write_truth(tmp_path / "walk.truth.parquet", turning())
    clip = clip_row(range(0, 10), scale=0.5, crop=(20.0, 8.0))
    camera = run(TruthStage(), tmp_path, {"clip": clip, "video": video_row(40, "walk.truth.parquet")})
    assert camera.intrinsics_T4[0].tolist() == [80.0, 96.0, 69.75, 55.75]   # whole numbers are the middles of pixels


def test_a_clip_without_truth_is_dropped_with_its_reason(tmp_path):
    drop = run(TruthStage(), tmp_path, {"clip": clip_row(range(5)), "video": video_row(5, None)})
    assert isinstance(drop, Drop) and (drop.stage, drop.reason, drop.row_key) == ("camera_truth", "no_truth", "c")


def test_poses_that_do_not_fit_the_video_are_refused(tmp_path):
    write_truth(tmp_path / "walk.truth.parquet", turning(39))
    with pytest.raises(DataError, match="39 poses for a video of 40 frames"):
        run(TruthStage(), tmp_path, {"clip": clip_row(range(5)), "video": video_row(40, "walk.truth.parquet")})


@pytest.mark.parametrize(("change", "word"), [
    ({"convention": None}, "direction/axes/form"), ({"poses": []}, "holds no list"), ({"times_s": [0.0]}, "1 times")])
def test_a_pose_file_that_lacks_something_is_refused_by_name(tmp_path, change, word):
    facts = {"convention": "c2w/opengl/matrix", "unit_m": 1.0, "camera": None, "times_s": None,
             "poses": [np.eye(4).ravel().tolist()] * 5}
    (tmp_path / "walk.poses.json").write_text(json.dumps({**facts, **change}))
    with pytest.raises(DataError, match=word):
        run(TruthStage(), tmp_path, {"clip": clip_row(range(5)), "video": video_row(5, "walk.poses.json")})


def test_poses_with_times_are_interpolated_at_the_frames(tmp_path):
    facts = {"convention": "c2w/opencv/quat_xyzw", "unit_m": 0.5, "camera": None, "times_s": [0.0, 1.0],
             "perspective": "fps", "poses": [[0, 0, 0, 0, 0, 0, 1], [0, 0, 4, 0, 0, 0, 1]]}
    (tmp_path / "walk.poses.json").write_text(json.dumps(facts))
    camera = run(CameraStage(), tmp_path, {"clip": clip_row([0, 7, 14]), "video": video_row(40, "walk.poses.json")})
    np.testing.assert_allclose(camera.world_from_cam_T44[:, 11], [0, 0.4, 0.8], atol=1e-9)
    assert (camera.scale_status, camera.metres_per_unit, camera.is_calibrated) == ("metric", 1.0, False)


def write_clip(path, frames):
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=Fraction(35, 2), options={"crf": "16", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt, stream.thread_count = 320, 240, "yuv420p", 1
        for picture in frames:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.repeat(picture[..., None], 3, 2), format="rgb24")))
        out.mux(stream.encode())


def test_a_clip_of_one_frame_is_left_out_with_its_reason_and_keeps_a_given_pose(tmp_path, walls):
    drop = run(CameraStage(), tmp_path, {"clip": clip_row([3]), "video": video_row(5, None)})
    assert (drop.stage, drop.reason, drop.row_key) == ("camera", "too_short", "c")
    facts = {"convention": "c2w/opencv/quat_xyzw", "camera": None, "poses": [[0, 0, 1, 0, 0, 0, 1]] * 5}
    (tmp_path / "walk.poses.json").write_text(json.dumps(facts))
    write_clip(tmp_path / "clip.mp4", film(walls, LENS, np.zeros(1)))
    camera = run(CameraStage(), tmp_path, {"clip": clip_row([3]), "video": video_row(5, "walk.poses.json")})
    assert camera.world_from_cam_T44.shape == (1, 16) and camera.perspective_seen == "uncertain"


@pytest.mark.parametrize(("declared", "seen_as"), [(None, "fps"), ("tps", "uncertain")])
def test_pictures_tell_the_perspective_of_given_poses_unless_the_pose_file_does(tmp_path, walls, declared, seen_as):
    heading = 3.0 * np.arange(40)
    write_clip(tmp_path / "clip.mp4", film(walls, LENS, heading))
    poses = P.compose(P.look(heading, np.zeros(40)), np.zeros((40, 3))).reshape(40, 16).tolist()
    facts = {"convention": "c2w/opencv/matrix", "camera": None, "perspective": declared, "poses": poses}
    (tmp_path / "walk.poses.json").write_text(json.dumps(facts))
    camera = run(CameraStage(), tmp_path, {"clip": clip_row(range(40)), "video": video_row(40, "walk.poses.json")})
    assert (camera.estimator, camera.perspective_seen) == ("given/1", seen_as)
    assert np.isnan(camera.parallax_px).all() and (camera.confidence == 1).all()


def test_the_camera_stage_measures_a_coded_clip_with_the_declared_lens(tmp_path, walls):
    write_clip(tmp_path / "clip.mp4", film(walls, LENS, 3.0 * np.arange(10)))
    item = {"clip": clip_row(range(0, 20, 2)), "video": video_row(20, None)}
    params = CameraParams(declared={"s": {"hfov_deg": 90.0}})
    camera = run(CameraStage(params), tmp_path, item)
    assert camera.is_calibrated and camera.intrinsics_T4[0].tolist() == pytest.approx([160, 160, 159.5, 119.5])
    action = run(ActionStage(), tmp_path, {**item, "camera": camera})
    assert np.abs(action.yaw_deg[1:] - 3.0).max() < 0.1 and action.perspective == "uncertain"
    assert action.intent_longitudinal is None
    found = run(CameraStage(), tmp_path, item)
    assert found.focal_source == "found" and found.intrinsics_T4[0, 0] == pytest.approx(160, rel=0.02)
    assert not run(CameraStage(CameraParams(find_focal=False)), tmp_path, item).is_calibrated


@pytest.mark.parametrize("camera_model", ["pinhole", None], ids=["model declared", "model left out"])
def test_a_declared_view_follows_crop_and_scale_with_or_without_a_model(tmp_path, walls, camera_model):
    write_clip(tmp_path / "clip.mp4", film(walls, LENS, 3.0 * np.arange(10)))
    clip = clip_row(range(0, 20, 2), scale=0.5, crop=(40.0, 10.0))
    params = CameraParams(declared={"s": {"hfov_deg": 90.0, "camera_model": camera_model}})
    camera = run(CameraStage(params), tmp_path, {"clip": clip, "video": video_row(20, None)})
    wanted = [80, 80, 0.5 * (160 - 40) - 0.5, 0.5 * (120 - 10) - 0.5]
    assert camera.camera_model == "pinhole" and camera.focal_source == "declared" and camera.is_calibrated
    assert camera.intrinsics_T4[0].tolist() == pytest.approx(wanted)


def test_intent_is_the_key_applied_on_the_way_into_each_frame(tmp_path):
    press = np.zeros(40, np.int8)
    press[4:9] = 1                                        # applied between source frames 4 and 9
    write_truth(tmp_path / "walk.truth.parquet", turning(), {"key_longitudinal": press})
    item = {"clip": clip_row(range(0, 16, 2)), "video": video_row(40, "walk.truth.parquet")}
    action = run(ActionTruthStage(), tmp_path, {**item, "camera_truth": run(TruthStage(), tmp_path, item)})
    assert action.intent_longitudinal.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
    assert action.longitudinal.tolist() == [0] + [1] * 7 and action.residual.tolist() == [0, 1, 1, 0, 0, 0, 1, 1]
    assert action.perspective == "fps"


# ---------------------------------------------------------------- exact tracks, without pictures


def cloud_tracks(turn_deg, shift, *, noise_px=0.0, is_wandering=True, depth=(2.0, 9.0), count=24, seed=0):
    """Tracks of points seen by an exact camera that turns (yaw) and shifts alike at every step."""
    rng, pieces = np.random.default_rng(seed), []
    turn = P.look(np.array([-turn_deg]), np.zeros(1))[0]
    for start in range(0, count - 1, 2):
        steps = min(LIFE, count - 1 - start)
        point = np.column_stack([rng.uniform(-0.9, 0.9, 60), rng.uniform(-0.7, 0.7, 60), np.ones(60)])
        point *= rng.uniform(*depth, 60)[:, None]
        path = np.full((60, LIFE + 1, 2), np.nan)
        wander = rng.normal(0, noise_px, (60, steps + 1, 2))
        wander = np.cumsum(wander, 1) if is_wandering else wander
        for k in range(steps + 1):
            path[:, k] = point[:, :2] / point[:, 2:] * 160 + (160, 120) + wander[:, k]
            point = point @ turn.T + shift
        pieces.append((np.full(60, start), path))
    start, path = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return Tracks(start, path, count)


@pytest.mark.parametrize(("turn_deg", "shift"), [
    (0.0, (-0.06, 0.0, 0.0)), (2.0, (0.0, 0.0, -0.06)), (0.0, (0.0, 0.05, -0.03)), (-3.0, (0.05, 0.0, -0.02))],
    ids=["strafe", "walk and turn", "jump", "orbit"])
def test_exact_tracks_give_the_exact_motion(turn_deg, shift):
    motion = odometry.of_tracks(cloud_tracks(turn_deg, np.array(shift)), LENS, (240, 320))
    assert np.abs(motion.yaw_deg[1:] - turn_deg).max() < 2e-3          # the priors pull a little
    assert np.abs(motion.pitch_deg[1:]).max() < 2e-3
    turned = P.look(np.array([turn_deg]), np.zeros(1))[0]
    truth = -turned @ np.array(shift) / np.linalg.norm(shift)
    assert np.degrees(np.arccos(np.clip(motion.direction_T3[1:] @ truth, -1, 1))).max() < 0.3


def test_exact_tracks_of_a_turning_camera_hold_no_travel():
    motion = odometry.of_tracks(cloud_tracks(4.0, np.zeros(3), noise_px=0.2), LENS, (240, 320))
    assert not motion.parallax_px.any() and not motion.direction_T3.any() and np.isnan(motion.travel_se_deg).all()
    assert np.abs(motion.yaw_deg[1:] - 4.0).max() < 0.05


@pytest.mark.parametrize("is_wandering", [False, True], ids=["each frame errs alone", "errors add up"])
def test_stated_errors_cover_what_noise_does(is_wandering):
    within = []
    for seed in range(6):
        tracks = cloud_tracks(1.0, np.array([-0.03, 0.0, -0.05]), noise_px=0.15, is_wandering=is_wandering, seed=seed)
        motion = odometry.of_tracks(tracks, LENS, (240, 320))
        within.append(np.abs(motion.yaw_deg[1:] - 1.0) / motion.yaw_se_deg[1:])
    assert np.mean(np.array(within) < 2) > 0.9   # fitted on pictures, whose tracks also err together: 0.80, 0.80
    assert 0.6 < np.mean(np.array(within) < 1) < 0.85


def sheared(tracks, horizon_px_T):
    """The tracks of a level camera as an engine draws them that moves the horizon instead of looking up."""
    path = tracks.places_NK2.copy()
    frame = np.minimum(tracks.start_N[:, None] + np.arange(LIFE + 1), tracks.num_frames - 1)
    path[:, :, 1] += horizon_px_T[frame]
    return Tracks(tracks.start_N, path, tracks.num_frames)


def test_a_sheared_horizon_is_solved_for_with_its_standard_error():
    lens, count = odometry.Lens(160.0, 160.0, 160.0, 120.0, "yshear"), 24
    horizon = 30 * np.sin(np.arange(count) / 4)
    tracks = sheared(cloud_tracks(2.0, np.array([-0.03, 0.0, -0.05]), noise_px=0.1), horizon)
    motion = odometry.of_tracks(tracks, lens, (240, 320))
    elevation = np.degrees(np.arctan(horizon / 160))
    error = motion.pitch_deg[1:] - np.diff(elevation)
    assert np.abs(error).max() < 0.1 and np.mean(np.abs(error) < 2 * motion.pitch_se_deg[1:]) > 0.9
    assert np.abs(motion.yaw_deg[1:] - 2.0).max() < 0.1


def test_a_few_steps_of_nonsense_do_not_move_the_horizon_of_what_follows():
    lens, count, rng = odometry.Lens(160.0, 160.0, 160.0, 120.0, "yshear"), 60, np.random.default_rng(0)
    tracks = cloud_tracks(2.0, np.array([-0.03, 0.0, -0.05]), count=count)
    path, length = tracks.places_NK2, np.isfinite(tracks.places_NK2[:, :, 0]).sum(1)
    for n in np.flatnonzero((tracks.start_N < 33) & (tracks.start_N + length > 30)):
        after = max(0, 31 - tracks.start_N[n])                      # lost, or a tenth of them dragged down
        drag = np.arange(len(path[n, after:]))[:, None] * (0, 40)
        path[n, after:] = np.nan if rng.random() < 0.9 else path[n, after:] + drag
    motion = odometry.of_tracks(tracks, lens, (240, 320))
    assert np.abs(motion.yaw_deg[40:] - 2.0).max() < 0.05
    assert np.abs(np.cumsum(motion.pitch_deg)[40:]).max() < 1.0


@pytest.mark.parametrize("is_shear", [False, True], ids=["pinhole", "yshear"])
def test_a_pose_is_found_among_as_many_wrong_tracks_as_right_ones(is_shear):
    rng, turn = np.random.default_rng(2), P.look(np.array([-5.0]), np.zeros(1))[0]
    point = np.column_stack([rng.uniform(-0.8, 0.8, (80, 2)), np.ones(80)]) * rng.uniform(2, 9, (80, 1))
    moved = point @ turn.T + (-0.25, 0.0, -0.3)
    a, b = point / point[:, 2:], moved / moved[:, 2:]
    b[:, 1] += 0.05 * is_shear
    b[::2, :2] += rng.uniform(-0.15, 0.15, (40, 2))
    found, sink, t, _ = swept_pose(a, b, [(np.eye(3), 0.0)], 160.0, is_shear)
    # 32 right tracks of 160 px a radian: a start for the adjustment, which finds its way from a degree or two
    assert np.degrees(np.linalg.norm(P.so3_log(found @ turn.T))) < 1.0 and abs(sink - 0.05 * is_shear) < 0.015
    assert t @ (-0.25, 0.0, -0.3) / np.hypot(0.25, 0.3) > np.cos(np.radians(12))


def test_another_solution_as_good_widens_the_error_around_it():
    angle, sure, none = np.full(30, 2.0), np.full(30, 0.95), np.zeros(30)
    rival, noise = none.copy(), np.random.default_rng(0).normal(size=30)
    rival[10] = 1.5

    def errors(angle_deg=angle, confidence=sure, rival_deg=none, only_turns=False):
        return turn_error_deg(angle_deg, np.full(30, 1e-8), confidence, rival_deg, np.full(30, only_turns))

    error = errors(rival_deg=rival)
    assert (error[8:13] > 0.3).all() and error[:8].max() < 0.02 and error[13:].max() < 0.02
    assert (errors(confidence=np.full(30, 0.3)) > 1.3 * error[0]).all()
    assert 1.3 * error[0] < np.median(errors(angle + 0.05 * noise)) < 0.05
    assert np.median(errors(angle + noise)) < 6 * error[0]          # a camera that is moved roughly is not measured so
    np.testing.assert_allclose(errors(only_turns=True), 2.6 * errors())


def test_block_equations_are_solved_and_inverted_as_the_dense_ones():
    rng, steps, reach = np.random.default_rng(3), 11, 4
    blocks, dense, right = Blocks(steps, reach), np.eye(6 * (steps + 1)), rng.normal(size=6 * (steps + 1))
    blocks.add_diagonal(np.ones((steps, 6)), right[6:].reshape(steps, 6))
    for t in range(-1, steps - reach):                        # what concerns step -1 is given
        rows, pull = rng.normal(size=(9, 6 * (reach + 1))), rng.normal(size=9)
        blocks.add(t, rows.T @ rows, rows.T @ pull)
        dense[6 * (t + 1):6 * (t + reach + 2), 6 * (t + 1):6 * (t + reach + 2)] += rows.T @ rows
        right[6 * (t + 1):6 * (t + reach + 2)] += rows.T @ pull
    dense, right = dense[6:, 6:], right[6:]
    np.testing.assert_allclose(blocks.solve(0.0).ravel(), np.linalg.solve(dense, right), atol=1e-9)
    own_T66, next_T66 = blocks.covariances()
    inverse = np.linalg.inv(dense).reshape(steps, 6, steps, 6)
    np.testing.assert_allclose(own_T66, [inverse[t, :, t] for t in range(steps)], atol=1e-9)
    np.testing.assert_allclose(next_T66, [inverse[t, :, t + 1] for t in range(steps - 1)], atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_a_clip_of_a_few_frames_is_measured_too(walls, count):
    motion = odometry.estimate(film(walls, LENS, 3.0 * np.arange(count)), LENS, 17.5)
    assert np.abs(motion.yaw_deg[1:] - 3.0).max() < 0.1 and len(motion.yaw_se_deg) == count
    walked = film(walls, LENS, np.zeros(count), position=np.arange(count)[:, None] * [0.05, 0.0, 0.1])
    assert len(odometry.estimate(walked, LENS, 17.5).length) == count


@pytest.mark.parametrize("rolls", [True, False], ids=["by hand", "a game"])
def test_roll_is_kept_where_the_camera_rolls_and_held_at_zero_else(rolls):
    count = 40
    swing = P.so3_exp(np.radians([[0.1 * np.cos(k), 0.3, 0.8 * np.sin(k / 3) * rolls] for k in range(count - 1)]))
    facing = np.stack(list(accumulate([np.eye(3), *swing], np.matmul)))
    rng, pieces = np.random.default_rng(0), []
    for start in range(0, count - 1, 2):
        steps = min(LIFE, count - 1 - start)
        points = np.column_stack([rng.uniform(-0.8, 0.8, (60, 2)), np.ones(60)]) @ facing[start].T
        path = np.full((60, LIFE + 1, 2), np.nan)
        for k in range(steps + 1):
            ray = points @ facing[start + k]
            path[:, k] = ray[:, :2] / ray[:, 2:] * 160 + (160, 120) + rng.normal(0, 0.1, (60, 2))
        pieces.append((np.full(60, start), path))
    tracks = Tracks(*(np.concatenate(part) for part in zip(*pieces, strict=True)), count)
    motion = odometry.of_tracks(tracks, LENS, (240, 320))
    assert (motion.turn_T33 is not None) == rolls
    found = odometry.integrate(motion, LENS)[:, :3, :3]
    error = np.degrees(np.linalg.norm(P.so3_log(np.swapaxes(found, 1, 2) @ facing), axis=1))
    assert error.max() < 0.5                              # the noise of 0.1 px adds up over 39 steps


def test_a_camera_that_comes_to_rest_slowly_is_not_taken_for_one_that_turns():
    """Near a wall a slow step and a turn look alike; the depths known from the plain steps before tell them apart."""
    count, rng, pieces = 60, np.random.default_rng(3), []
    speed = np.where(np.arange(count - 1) < 30, 0.05, 0.05 * 0.6 ** np.clip(np.arange(count - 1) - 29, 0, None))
    speed[45:] = 0.0
    place = np.concatenate([[0.0], np.cumsum(speed)])
    point = np.column_stack([rng.uniform(-3, 6, 900), rng.uniform(-1.5, 1.5, 900), rng.uniform(2.0, 2.4, 900)])
    for start in range(0, count - 1, 3):
        steps = min(LIFE, count - 1 - start)
        seen = point[rng.permutation(900)[:160]]
        path = np.full((160, LIFE + 1, 2), np.nan)
        for k in range(steps + 1):
            path[:, k] = (seen[:, :2] - (place[start + k], 0)) / seen[:, 2:] * 160 + (160, 120)
        path += np.cumsum(rng.normal(0, 0.1, path.shape), 1)
        path[((path[:, 0] < 0) | (path[:, 0] > (320, 240))).any(1)] = np.nan
        path = path[np.isfinite(path[:, 0, 0])]
        pieces.append((np.full(len(path), start), path))
    start, path = (np.concatenate(part) for part in zip(*pieces, strict=True))
    motion = odometry.of_tracks(Tracks(start, path, count), LENS, (240, 320))
    slow = slice(31, 37)                               # 2 pixels a step and less: down to a fifth of one
    assert np.abs(motion.yaw_deg[slow]).max() < 0.04 and (motion.direction_T3[slow, 0] > 0.95).all()
    assert np.abs(motion.yaw_deg[50:]).max() < 0.02 and not motion.direction_T3[50:].any()


def test_a_key_of_one_frame_is_held_in_one_step_where_times_are_rounded_to_microseconds():
    count = 35
    track = np.zeros(count)
    track[10] = 1
    recorded = Recorded("walk.poses.json", {"longitudinal": track}, np.round(np.arange(count) / 35, 6))
    keys = keys_of_clip(recorded, clip_row(range(count)), video_row(count, "walk.poses.json"))
    assert np.flatnonzero(keys.longitudinal).tolist() == [11]
