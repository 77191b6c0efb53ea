import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.annotators.actions import grammar, latents
from worldloom.annotators.actions.jitter import white_noise_deg
from worldloom.annotators.actions.keys import Keys
from worldloom.annotators.actions.label import label
from worldloom.annotators.actions.stage import ActionParams, ActionStage
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Context
from worldloom.schemas import UNCERTAIN, Camera, Clip, DataError, Video

FPS = 16.0


def camera(heading, elevation=None, position=None, *, metres_per_unit=1.0, rotation=None):
    """A given camera along exact headings, elevations and positions."""
    count = len(heading)
    elevation = np.zeros(count) if elevation is None else elevation
    position = np.zeros((count, 3)) if position is None else position
    rotation = P.look(heading, elevation) if rotation is None else rotation
    zeros = np.zeros(count, np.float32)
    return Camera(
        clip_id="c", estimator="given/1", chosen_because="test", pose_source="engine",
        camera_model="pinhole", num_frames=count,
        world_from_cam_T44=P.compose(rotation, position).reshape(-1, 16), intrinsics_T4=np.zeros((count, 4)),
        confidence=zeros + 1, yaw_se_deg=zeros, pitch_se_deg=zeros, parallax_px=zeros * np.nan,
        travel_se_deg=zeros * np.nan, is_calibrated=True, focal_source="file", focal_spread=None,
        perspective_seen="uncertain",
        scale_status="metric", metres_per_unit=metres_per_unit, scale_spread=None, gravity_source="engine",
        gravity_confidence=1.0)


def walk(direction_deg, count=12, speed=1.5, heading=0.0):
    """A camera looking along `heading` that travels `direction_deg` to its right, at `speed` m/s."""
    angle = np.radians(heading + direction_deg)
    step = np.array([np.sin(angle), 0, np.cos(angle)]) * speed / FPS
    return camera(np.full(count, heading), position=np.arange(count)[:, None] * step)


def test_a_right_turn_is_positive_yaw_and_no_movement():
    action = label(camera(np.arange(10) * 2.0), FPS)
    np.testing.assert_allclose(action.yaw_deg, [0] + [2] * 9, atol=1e-5)
    assert not action.pitch_deg.any() and not action.longitudinal.any() and not action.lateral.any()


def test_looking_up_is_positive_pitch():
    action = label(camera(np.zeros(5), np.arange(5) * 3.0), FPS)
    np.testing.assert_allclose(action.pitch_deg, [0, 3, 3, 3, 3], atol=1e-5)
    np.testing.assert_allclose(action.yaw_deg, 0, atol=1e-5)


def test_yaw_of_a_tilted_camera_is_its_full_change_of_heading():
    action = label(camera(np.arange(6) * 1.0, np.full(6, 60.0)), FPS)
    np.testing.assert_allclose(action.yaw_deg[1:], 1.0, atol=1e-4)
    np.testing.assert_allclose(action.pitch_deg, 0.0, atol=1e-4)


def test_yaw_goes_on_across_the_half_turn():
    np.testing.assert_allclose(label(camera(np.array([178.0, 179.5, -179.0])), FPS).yaw_deg, [0, 1.5, 1.5], atol=1e-4)


def test_roll_alone_is_no_action():
    roll = P.so3_exp(np.radians(np.arange(8) * 4.0)[:, None] * np.array([0, 0, 1.0]))
    action = label(camera(np.zeros(8), rotation=roll), FPS)
    for track in (action.yaw_deg, action.pitch_deg, action.longitudinal, action.lateral):
        np.testing.assert_allclose(track, 0, atol=1e-5)


@pytest.mark.parametrize(("direction", "longitudinal", "lateral"), [
    (0, 1, 0), (180, -1, 0), (90, 0, 1), (-90, 0, -1), (45, 1, 1), (-45, 1, -1), (135, -1, 1), (-135, -1, -1)])
@pytest.mark.parametrize("heading", [0.0, 130.0])
def test_travel_in_each_of_eight_directions_has_its_keys(direction, longitudinal, lateral, heading):
    action = label(walk(direction, heading=heading), FPS)
    assert set(action.longitudinal[1:]) == {longitudinal} and set(action.lateral[1:]) == {lateral}
    assert action.longitudinal[0] == action.lateral[0] == 0


def test_travel_between_two_cones_is_uncertain_on_that_axis_alone():
    action = label(walk(26.0), FPS)                                    # sin 26 degrees = 0.44, between 0.38 and 0.50
    assert set(action.longitudinal[1:]) == {1} and set(action.lateral[1:]) == {UNCERTAIN}
    assert (action.lateral_confidence[1:] < 0.5).all() and action.certain_share == pytest.approx(1 / 12)


def test_a_slow_drift_is_still():
    assert not label(walk(0.0, speed=0.05), FPS).longitudinal.any()


def test_climbing_is_no_horizontal_movement():
    action = label(camera(np.zeros(8), position=np.arange(8)[:, None] * np.array([0, -0.1, 0])), FPS)
    assert not action.longitudinal.any() and not action.lateral.any()


@pytest.mark.parametrize(("metres_per_unit", "between"), [(1.0, 0.15), (None, 0.25)])
def test_a_speed_between_the_bands_keeps_its_state_and_then_is_uncertain(metres_per_unit, between):
    speed = np.concatenate([np.full(30, 1.0), np.full(20, between)]) / FPS
    action = label(camera(np.zeros(50), position=np.cumsum(speed)[:, None] * np.array([0, 0, 1.0]),
                          metres_per_unit=metres_per_unit), FPS)
    assert set(action.longitudinal[1:38]) == {1} and set(action.longitudinal[38:]) == {UNCERTAIN}


@pytest.mark.parametrize("rest_of_the_clip", [0.0, 3.0])
def test_equal_metric_speeds_have_equal_labels_in_every_clip(rest_of_the_clip):
    speed = np.concatenate([np.full(20, 0.3), np.full(80, rest_of_the_clip)]) / FPS
    action = label(camera(np.zeros(100), position=np.cumsum(speed)[:, None] * np.array([0, 0, 1.0])), FPS)
    assert set(action.longitudinal[1:20]) == {1}


def test_noise_of_metric_poses_from_a_file_is_no_movement():
    jitter = np.random.default_rng(3).normal(0, 0.01, (60, 3))                  # 0.2 m/s between frames
    track = dataclasses.replace(camera(np.zeros(60), position=jitter), pose_source="file")
    assert not np.isin(label(track, FPS).longitudinal, (-1, 1)).any()


def test_a_teleport_is_uncertain_and_its_neighbours_are_not():
    position = np.arange(12)[:, None] * np.array([0, 0, 0.1])
    position[6:] += [50.0, 0, 0]
    heading = np.where(np.arange(12) < 6, 0.0, 90.0)
    position[6:, [0, 2]] = position[5, [0, 2]] + [50, 0] + np.arange(6)[:, None] * [0.1, 0]
    action = label(camera(heading, position=position), FPS)
    assert action.longitudinal[6] == action.lateral[6] == UNCERTAIN and action.yaw_se_deg[6] == pytest.approx(90)
    assert set(np.delete(action.longitudinal, [0, 6])) == {1}


def test_walking_now_and_then_in_a_clip_that_mostly_creeps_is_no_teleport():
    speed = np.where(np.arange(120) % 40 < 10, 2.0, 0.002) / FPS
    action = label(camera(np.zeros(120), position=np.cumsum(speed)[:, None] * np.array([0, 0, 1.0])), FPS)
    assert (action.longitudinal[1:10] == 1).all() and not action.yaw_se_deg.any()


def keys(count, **tracks):
    zeros = np.zeros(count, np.int8)
    return Keys(**{"longitudinal": zeros, "lateral": zeros, "jump": zeros, "on_ground": np.ones(count, bool), **tracks})


def test_a_key_against_a_wall_is_blocked_and_sliding_without_keys_is_residual():
    press = np.array([0] + [1] * 9, np.int8)
    blocked = label(camera(np.zeros(10)), FPS, keys=keys(10, longitudinal=press))
    assert blocked.blocked.tolist() == press.tolist() and not blocked.residual.any()
    sliding = label(walk(0.0, count=10), FPS, keys=keys(10))
    assert sliding.residual.tolist() == press.tolist() and not sliding.blocked.any()


def estimated(angle_deg, parallax_px, *, steep=0.0, confidence=1.0, travel_se_deg=np.nan):
    """A camera seen in pixels: travel `angle_deg` to the right of ahead, with its image motion, one value a frame."""
    angle, size = np.radians(np.asarray(angle_deg, float)), np.asarray(parallax_px, float)
    steep = np.broadcast_to(steep, size.shape)
    unit = np.stack([np.sin(angle) * np.sqrt(1 - steep**2), -steep, np.cos(angle) * np.sqrt(1 - steep**2)], 1)
    step = unit * size[:, None] / 160.0
    step[0] = 0
    track = camera(np.zeros(len(size)), position=np.cumsum(step, 0), metres_per_unit=None)
    return dataclasses.replace(track, pose_source="estimated", parallax_px=size, confidence=size * 0 + confidence,
                               travel_se_deg=size * 0 + travel_se_deg)


NOISE = np.random.default_rng(11)


@pytest.mark.parametrize(("direction", "longitudinal", "lateral"), [
    (0, 1, 0), (180, -1, 0), (90, 0, 1), (-90, 0, -1), (45, 1, 1), (-135, -1, -1)])
def test_travel_seen_with_noise_has_its_keys(direction, longitudinal, lateral):
    action = label(estimated(direction + NOISE.normal(0, 4, 60), NOISE.lognormal(0, 0.5, 60)), 24.0)
    assert set(action.longitudinal[1:]) == {longitudinal} and set(action.lateral[1:]) == {lateral}
    assert action.longitudinal_confidence.min() >= 0.8      # the share that is called certain


def test_a_lone_wrong_direction_is_outvoted():
    angle = np.zeros(40)
    angle[20] = 170.0
    assert set(label(estimated(angle, np.full(40, 1.0)), 24.0).longitudinal[1:]) == {1}


def test_image_motion_at_the_noise_of_a_still_camera_is_standing_and_no_jump():
    action = label(estimated(NOISE.uniform(-180, 180, 60), np.full(60, 0.03)), 24.0)
    assert not action.longitudinal.any() and not action.lateral.any() and not action.jump.any()


def test_directions_that_agree_on_nothing_are_uncertain():
    action = label(estimated(NOISE.uniform(-180, 180, 60), np.full(60, 1.0)), 24.0)
    assert action.certain_share < 0.25


def test_a_direction_with_a_large_standard_error_is_uncertain_where_a_sharp_one_is_not():
    angle = 26.0 + NOISE.normal(0, 2, 30)
    sharp, vague = (label(estimated(angle - 26.0 * (se < 10), np.full(30, 1.0), travel_se_deg=se), 24.0)
                    for se in (3.0, 60.0))
    assert sharp.certain_share == 1.0 and vague.certain_share < 0.5


def test_a_jump_on_the_spot_is_no_level_movement_and_a_leap_ahead_is():
    steep = np.where((np.arange(60) >= 20) & (np.arange(60) < 34), 0.97, 0.0)
    size = np.where((steep == 0), 0.03, 1.0)
    standing = label(estimated(NOISE.uniform(-180, 180, 60), size, steep=steep), 24.0)
    assert not np.isin(standing.longitudinal, (-1, 1)).any() and set(standing.jump[22:32]) == {UNCERTAIN}
    leaping = label(estimated(NOISE.normal(0, 5, 60), np.full(60, 1.0), steep=steep), 24.0)
    assert set(leaping.longitudinal[1:]) == {1}


def test_an_estimate_without_image_motion_is_judged_by_its_own_speed():
    track = dataclasses.replace(estimated(np.zeros(40), np.full(40, 1.0)), parallax_px=np.full(40, np.nan))
    assert set(label(track, 24.0).longitudinal[1:]) == {1}


def test_standing_that_half_of_the_tracks_contradict_is_uncertain():
    action = label(estimated(np.zeros(60), np.full(60, 1e-6), confidence=0.5), 24.0)      # an overlay stands too
    assert set(action.longitudinal[1:]) == {UNCERTAIN} and set(action.jump) == {UNCERTAIN}


def test_steps_that_nothing_was_seen_of_are_uncertain():
    confidence = np.where((np.arange(60) >= 20) & (np.arange(60) < 40), 0.0, 1.0)
    action = label(estimated(np.zeros(60), np.full(60, 1.0), confidence=confidence), 24.0)
    assert set(action.longitudinal[20:40]) == {UNCERTAIN} and set(action.longitudinal[1:20]) == {1}


def test_keys_tell_blocked_and_residual_of_an_estimated_track_and_change_no_movement():
    press = np.array([0] + [1] * 59, np.int8)
    track = estimated(np.zeros(60), np.where(np.arange(60) < 30, 1.0, 0.03))
    plain, keyed = label(track, 24.0), label(track, 24.0, keys=keys(60, longitudinal=press))
    np.testing.assert_array_equal(keyed.longitudinal, plain.longitudinal)
    np.testing.assert_array_equal(keyed.jump, plain.jump)
    assert keyed.blocked[40:].all() and not keyed.blocked[:25].any()
    assert label(track, 24.0, keys=keys(60)).residual[1:25].all()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(0.02, 4)), min_size=10, max_size=40))
def test_mirroring_what_is_seen_flips_lateral_alone(steps):
    angle, size = np.array(steps).T
    plain, mirrored = label(estimated(angle, size), 24.0), label(estimated(-angle, size), 24.0)
    np.testing.assert_array_equal(mirrored.longitudinal, plain.longitudinal)
    flipped = np.where(plain.lateral == UNCERTAIN, UNCERTAIN, -plain.lateral)
    np.testing.assert_array_equal(mirrored.lateral, flipped)


def labelled(track, tmp_path, *, declared="uncertain", sidecar=None, **params):
    """The action row of a track by the stage, of a video in tmp_path, as a rule without a pose file."""
    count = track.num_frames
    video = Video(
        video_id="v", source_id="s", name="walk.mp4", bytes=1, container="mp4", codec="h264", pix_fmt="yuv420p",
        stream_index=0, width=320, height=240, rotation_deg=0, sample_aspect_ratio=1.0, num_frames=count,
        header_frames=count, start_s=0.0, duration_s=count / 24, fps=24.0, is_variable_rate=False, is_interlaced=False,
        backend="pyav", notes=[], sidecar=sidecar)
    clip = Clip(
        clip_id="c", video_id="v", source_id="s", start_frame=0, stop_frame=count, start_s=0.0, stop_s=count / 24,
        num_frames=count, fps=24.0, width=320, height=240, source_frames=list(range(count)),
        frame_times_s=[i / 24 for i in range(count)], scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0,
        media="c.mp4", media_bytes=1, media_sha256="0", cut_by="start", split="train")
    stage = ActionStage(ActionParams(declared={"s": declared} if declared != "uncertain" else {}, **params))
    stage.setup(Context(corpus=tmp_path, locations={"s": tmp_path}))
    return next(stage.process({"camera": track, "clip": clip, "video": video}))


def test_the_perspective_is_what_the_source_declares_and_else_what_the_pixels_show(tmp_path):
    track = dataclasses.replace(estimated(np.zeros(12), np.full(12, 1.0)), perspective_seen="tps")
    assert labelled(track, tmp_path).perspective == "tps"
    assert labelled(track, tmp_path, declared="fps").perspective == "fps"


def write_poses(folder, track, **facts):
    """A pose file with a camera's poses, and what it says besides."""
    poses = np.asarray(track.world_from_cam_T44).reshape(-1, 16)
    document = {"convention": "c2w/opencv/matrix", "unit_m": 1.0, "poses": poses.tolist(), **facts}
    (folder / "walk.poses.json").write_text(json.dumps(document))
    return "walk.poses.json"


def wall_ahead():
    """24 frames a second: a walk ahead that a wall ends at frame 20, W held all the way from the step into frame 1."""
    ahead = np.minimum(np.arange(40), 19) * 1.5 / 24
    return camera(np.zeros(40), position=ahead[:, None] * np.array([0, 0, 1.0])), [1] * 39 + [0]


@pytest.mark.parametrize("source", ["file", "estimated"])
def test_keys_of_a_pose_file_tell_blocked_beside_given_and_beside_estimated_poses(tmp_path, source):
    track, press = wall_ahead()
    size = np.where(np.arange(40) < 20, 2.0, 0.02)
    seen = estimated(np.zeros(40), size) if source == "estimated" else dataclasses.replace(track, pose_source="file")
    file = write_poses(tmp_path, track, keys={"longitudinal": press, "lateral": [0] * 40})
    action = labelled(seen, tmp_path, sidecar=file)
    assert action.intent_longitudinal.tolist() == [0] + [1] * 39 and not action.intent_lateral.any()
    assert action.blocked[24:].all() and not action.blocked[:16].any() and not action.residual.any()
    released = labelled(seen, tmp_path, sidecar=write_poses(tmp_path, track, keys={"lateral": [0] * 40}))
    assert released.residual[2:16].all() and not released.blocked.any()
    assert labelled(seen, tmp_path, sidecar=file, use_keys=False).intent_longitudinal is None
    assert labelled(seen, tmp_path, sidecar=write_poses(tmp_path, track)).blocked is None


def test_keys_with_times_are_held_from_their_time_on(tmp_path):
    track, _ = wall_ahead()
    times = (np.arange(9) * 0.25).tolist()                                    # every sixth frame
    keys = {"longitudinal": [1, 1, 0, -1, 0, 0, 0, 0, 0], "jump": [0, 0, 1, 0, 0, 0, 0, 0, 0]}
    file = write_poses(tmp_path, camera(np.zeros(9)), times_s=times, keys=keys)
    action = labelled(dataclasses.replace(track, pose_source="file"), tmp_path, sidecar=file)
    assert action.intent_longitudinal.tolist() == [0] + [1] * 12 + [0] * 6 + [-1] * 6 + [0] * 15


def test_jumps_of_poses_whose_keys_say_nothing_of_them_are_read_from_the_poses(tmp_path):
    track, in_air = arc(9.81)
    file = write_poses(tmp_path, track, keys={"longitudinal": [1] * 40})
    keyed, plain = labelled(track, tmp_path, sidecar=file), labelled(track, tmp_path)
    assert keyed.jump.tolist() == plain.jump.tolist() and keyed.intent_longitudinal is not None
    both = {"longitudinal": [1] * 40, "jump": [0] * 5 + [1] + [0] * 34, "on_ground": (~in_air).astype(int).tolist()}
    recorded = labelled(track, tmp_path, sidecar=write_poses(tmp_path, track, keys=both))
    assert recorded.jump.tolist() == in_air.astype(int).tolist()


@pytest.mark.parametrize(("keys", "said"), [
    ({"longitudinal": [1] * 39}, "39 key rows for a video of 40 frames"),
    ({"longitudinal": [1] * 40, "lateral": [0] * 3}, "3 lateral keys where 40 are wanted"),
    ({"longitudinal": ["w"] * 40}, "longitudinal .*wanted a list of numbers"),
    (["w"], "wanted a list for each of longitudinal")], ids=["short", "uneven", "words", "list"])
def test_keys_that_do_not_fit_are_refused(tmp_path, keys, said):
    seen = estimated(np.zeros(40), np.full(40, 2.0))
    with pytest.raises(DataError, match=said):
        labelled(seen, tmp_path, sidecar=write_poses(tmp_path, wall_ahead()[0], keys=keys))


def arc(gravity):
    """A walk with one arc of 1 m from frame 5 on, and frames in the air."""
    time = np.arange(40) / FPS
    rise = np.maximum(0, 3.0 * (time - 5 / FPS) - gravity / 2 * (time - 5 / FPS) ** 2) * (time > 5 / FPS)
    return camera(np.zeros(40), position=np.stack([0 * time, -rise, time], 1)), rise > 0


def test_a_jump_lasts_from_take_off_to_landing_by_ground_contact():
    track, in_air = arc(12.0)
    press = np.zeros(40, np.int8)
    press[6] = 1
    action = label(track, FPS, keys=keys(40, jump=press, on_ground=~in_air))
    assert action.jump.tolist() == in_air.astype(int).tolist()


def test_a_ballistic_arc_of_metric_poses_is_a_jump_and_a_lift_is_not():
    track, in_air = arc(9.81)
    jump = label(track, FPS).jump
    assert jump.any() and not (jump.astype(bool) & ~in_air).any()
    lift = camera(np.zeros(40), position=np.arange(40)[:, None] * np.array([0, -0.1, 0]))
    assert not label(lift, FPS).jump.any()


def test_falling_off_a_ledge_is_no_jump():
    in_air = np.arange(20) > 10
    drop = np.where(in_air, (np.arange(20) - 10) * 0.2, 0)
    track = camera(np.zeros(20), position=np.stack([0 * drop, drop, 0 * drop], 1))
    assert not label(track, FPS, keys=keys(20, on_ground=~in_air)).jump.any()


def test_jumps_without_scale_are_uncertain():
    assert set(label(camera(np.zeros(4), metres_per_unit=None), FPS).jump) == {UNCERTAIN}


def test_a_track_with_too_few_poses_is_refused():
    with pytest.raises(DataError, match="3 poses for 4 frames"):
        label(dataclasses.replace(camera(np.zeros(3)), num_frames=4), FPS)


paths = st.lists(st.tuples(st.floats(-20, 20), st.floats(-3, 3), st.floats(-1, 1), st.floats(-1, 1)),
                 min_size=8, max_size=24)


def from_steps(steps):
    """Headings, elevations and positions from (turn, tilt, right, ahead) steps."""
    turn, tilt, right, ahead = np.array(steps).T
    heading, elevation = np.cumsum(turn), np.clip(np.cumsum(tilt), -60, 60)
    return heading, elevation, np.cumsum(np.stack([right, 0 * right, ahead], 1), 0)


@settings(max_examples=40, deadline=None)
@given(paths, st.sampled_from([1, 4, 8]))
def test_latent_yaw_sums_to_the_change_of_heading(steps, stride):
    heading, elevation, position = from_steps(steps)
    usable = heading[: (len(heading) - 1) // stride * stride + 1]
    rows, _ = latents.per_latent(label(camera(heading, elevation, position), FPS), stride)
    assert float(P.wrap180(rows[:, 1].sum() - (usable[-1] - usable[0]))) == pytest.approx(0, abs=1e-2)


@settings(max_examples=40, deadline=None)
@given(paths)
def test_time_reversal_negates_turns(steps):
    heading, elevation, position = from_steps(steps)
    forth = label(camera(heading, elevation, position), FPS)
    back = label(camera(heading[::-1], elevation[::-1], position[::-1]), FPS)
    np.testing.assert_allclose(back.yaw_deg[1:], -forth.yaw_deg[:0:-1], atol=1e-3)
    np.testing.assert_allclose(back.pitch_deg[1:], -forth.pitch_deg[:0:-1], atol=1e-3)


@settings(max_examples=40, deadline=None)
@given(paths)
def test_a_mirrored_world_flips_yaw_and_lateral_alone(steps):
    heading, elevation, position = from_steps(steps)
    plain = label(camera(heading, elevation, position), FPS)
    mirrored = label(camera(-heading, elevation, position * [-1, 1, 1]), FPS)
    np.testing.assert_allclose(mirrored.yaw_deg, -plain.yaw_deg, atol=1e-3)
    np.testing.assert_array_equal(mirrored.longitudinal, plain.longitudinal)
    flipped = np.where(plain.lateral == UNCERTAIN, UNCERTAIN, -plain.lateral)
    np.testing.assert_array_equal(mirrored.lateral, flipped)


@settings(max_examples=40, deadline=None)
@given(paths, st.floats(-170, 170))
def test_turning_and_moving_the_world_changes_no_label(steps, turn):
    heading, elevation, position = from_steps([(round(a), b, round(c, 1), round(d, 1)) for a, b, c, d in steps])
    moved = position @ P.look(turn, 0.0).T + [5.0, 2.0, -7.0]
    plain = label(camera(heading, elevation, position), FPS)
    other = label(camera(heading + turn, elevation, moved), FPS)
    np.testing.assert_allclose(other.yaw_deg, plain.yaw_deg, atol=1e-3)
    near_bound = share_near_bound(heading, position)
    np.testing.assert_array_equal(other.longitudinal[~near_bound], plain.longitudinal[~near_bound])


def share_near_bound(heading, position):
    """Steps whose direction lies on a threshold to rounding error."""
    step = np.diff(position, axis=0, prepend=position[:1])
    length = np.linalg.norm(step, axis=1)
    angle = np.radians(np.concatenate([heading[:1], heading[:-1]]))
    ahead = np.abs(np.sin(angle) * step[:, 0] + np.cos(angle) * step[:, 2]) / np.maximum(length, 1e-12)
    return (np.abs(ahead - 0.5) < 1e-6) | (np.abs(ahead - 0.38) < 1e-6)


def test_latent_groups_follow_the_alignment():
    assert latents.groups(9) == [(0, 1), (1, 5), (5, 9)]
    assert latents.groups(10, 4, "first_two") == [(0, 1), (1, 2), (2, 6), (6, 10)]
    assert latents.groups(9, 4, "uniform") == [(0, 4), (4, 8)]
    with pytest.raises(DataError, match="causal_first"):
        latents.groups(9, 4, "other")


def test_a_latent_takes_what_uncertain_frames_cannot_change_and_else_is_uncertain():
    action = label(walk(0.0, count=9), FPS, perspective="fps")
    action = dataclasses.replace(action, longitudinal=np.array([0, 1, 1, 1, 2, 1, 1, 2, 2], np.int8))
    rows, certain = latents.per_latent(action)
    assert rows[:, 2].tolist() == [0, 1, 0] and certain[:, 2].tolist() == [True, True, False]
    assert rows[:, 4].tolist() == [1, 1, 1] and certain[:, 4].all()


def shaken(noise_deg, count=120, seed=0, source="file"):
    """A hand-held look around, each pose of its file off by itself; and the headings and elevations of the camera."""
    rng, time = np.random.default_rng(seed), np.arange(count) / FPS
    heading, elevation = 40 * np.sin(1.1 * time) + 3 * np.sin(5 * time), 10 * np.sin(0.9 * time)
    off = P.so3_exp(np.radians(rng.normal(0, noise_deg, (count, 3))))
    track = camera(heading, elevation, rotation=P.look(heading, elevation) @ off)
    return dataclasses.replace(track, pose_source=source), heading, elevation


def test_turns_of_poses_that_shake_by_themselves_are_smoothed_and_say_how_sure_they_are():
    track, heading, elevation = shaken(0.2)
    before = track.world_from_cam_T44.copy()
    raw, steady = label(dataclasses.replace(track, pose_source="engine"), FPS), label(track, FPS)
    for name, angle in (("yaw_deg", heading), ("pitch_deg", elevation)):
        errors = [np.sqrt(np.mean((getattr(a, name)[1:] - np.diff(angle)) ** 2)) for a in (raw, steady)]
        assert errors[1] < 0.6 * errors[0], name
    assert steady.yaw_se_deg == pytest.approx(0.2, rel=0.3) and not raw.yaw_se_deg.any()
    np.testing.assert_array_equal(track.world_from_cam_T44, before)               # the camera row keeps its poses


def test_smoothed_turns_have_no_lag():
    track, _, _ = shaken(0.2)
    back = dataclasses.replace(track, world_from_cam_T44=track.world_from_cam_T44[::-1])
    forth, back = label(track, FPS), label(back, FPS)
    np.testing.assert_allclose(back.yaw_deg[1:], -forth.yaw_deg[:0:-1], atol=1e-5)
    np.testing.assert_allclose(back.pitch_deg[1:], -forth.pitch_deg[:0:-1], atol=1e-5)


@pytest.mark.parametrize("noise_deg", [0.0, 0.03])
def test_poses_with_little_noise_and_steady_turns_are_labelled_as_they_are(noise_deg):
    track, _, _ = shaken(noise_deg)
    as_given = label(dataclasses.replace(track, pose_source="engine"), FPS)
    np.testing.assert_array_equal(label(track, FPS).yaw_deg, as_given.yaw_deg)
    steady = dataclasses.replace(camera(np.arange(60) * 3.0), pose_source="file")
    np.testing.assert_allclose(label(steady, FPS).yaw_deg[1:], 3.0, atol=1e-5)


def test_a_steady_turn_beneath_the_noise_keeps_its_rate():
    turning = camera(np.arange(120) * 2.0)
    off = P.so3_exp(np.radians(np.random.default_rng(1).normal(0, 0.2, (120, 3))))
    poses = P.compose(np.asarray(turning.world_from_cam_T44).reshape(-1, 4, 4)[:, :3, :3] @ off, np.zeros((120, 3)))
    action = label(dataclasses.replace(turning, world_from_cam_T44=poses.reshape(-1, 16), pose_source="file"), FPS)
    assert action.yaw_se_deg[1] > 0 and action.yaw_deg[5:-5].mean() == pytest.approx(2.0, abs=0.01)


def test_a_hand_that_shakes_is_no_noise_of_the_poses():
    shake = np.convolve(np.random.default_rng(2).normal(0, 1.0, 210), np.hanning(13)[1:-1] / 6, "valid")
    for count in (20, 200):                                # and of 20 poses nothing can be said
        noise_3, is_noise = white_noise_deg(P.look(np.arange(count) * 1.0 + shake[:count], 0 * shake[:count]))
        assert not is_noise
    found, is_noise = white_noise_deg(P.so3_exp(np.radians(np.random.default_rng(3).normal(0, 0.2, (400, 3)))))
    assert is_noise and found == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize("text", ["w+right-8,s-4", "wa+left+up+space-3", "none-12", "space-1,sd+down-2"])
def test_action_strings_come_back_exactly(text):
    assert grammar.render(grammar.parse(text)) == text


def test_rows_of_an_action_string_have_its_signs_and_lengths():
    rows = grammar.to_rows(grammar.parse("w+right-2,sa+down+space-1"), perspective=1)
    assert rows.tolist() == [[0, 3, 1, 0, 1, 0], [0, 3, 1, 0, 1, 0], [-3, 0, -1, -1, 1, 1]]


sign = st.sampled_from([-1, 0, 1])
steps_strategy = st.lists(st.builds(grammar.Step, st.integers(1, 9), sign, sign, sign, sign, st.sampled_from([0, 1])),
                          min_size=1, max_size=6)


@given(steps_strategy)
def test_steps_survive_the_string_and_rows_survive_the_steps(steps):
    assert grammar.parse(grammar.render(steps)) == steps
    rows = grammar.to_rows(steps, perspective=0)
    np.testing.assert_array_equal(grammar.to_rows(grammar.from_rows(rows), perspective=0), rows)


def test_all_faults_of_an_action_string_are_named_at_once():
    with pytest.raises(DataError) as caught:
        grammar.parse("w+jump-4,w+s-2,none+w-1,fly-x")
    for word in ("'jump'", "step 2", "step 3", "'fly'", "'x'"):
        assert word in str(caught.value)
