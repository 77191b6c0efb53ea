"""What must be true of labels whatever the path: hypothesis draws the paths."""
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.annotators.actions import latents, motion
from worldloom.annotators.actions.label import label, travel, turns
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import UNCERTAIN, Camera

FPS = 16.0
YAW_DEG, PITCH_DEG, STEP_M = 6.0, 4.0, 0.12
kinds = st.tuples(st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]),
                  st.sampled_from([-1, 0, 1]), st.integers(6, 14))
held = st.lists(kinds, min_size=1, max_size=4)                    # yaw, pitch, forward, right, frames
free = st.lists(st.tuples(*[st.floats(-YAW_DEG, YAW_DEG)] * 2, *[st.floats(-STEP_M, STEP_M)] * 3), min_size=3,
                max_size=40)


def camera(pose_T44, **facts):
    count = len(pose_T44)
    zeros = np.zeros(count, np.float32)
    row = Camera(
        clip_id="c", estimator="given/1", chosen_because="test", pose_source="engine", camera_model="pinhole",
        num_frames=count, world_from_cam_T44=pose_T44.reshape(-1, 16), intrinsics_T4=np.zeros((count, 4)),
        confidence=zeros + 1, yaw_se_deg=zeros, pitch_se_deg=zeros, travel_se_deg=zeros * np.nan,
        parallax_px=zeros * np.nan, is_calibrated=True, focal_source="file", focal_spread=None,
        perspective_seen="uncertain", scale_status="metric", metres_per_unit=1.0, scale_spread=None,
        gravity_source="engine", gravity_confidence=1.0)
    return dataclasses.replace(row, **facts)


def keys_path(segments):
    """Keys (T, 4) of held segments and the exact path of a first-person camera that obeys them."""
    keys = np.array([(0, 0, 0, 0)] + [s[:4] for s in segments for _ in range(s[4])], float)
    keys[:, 1] = np.where(np.abs(np.cumsum(keys[:, 1] * PITCH_DEG)) > 60, 0, keys[:, 1])
    return keys, motion.integrate(rows_to_steps(keys * [YAW_DEG, PITCH_DEG, 1, 1]))


def rows_to_steps(rows_T4):
    """Steps of rows (yaw_deg, pitch_deg, forward, right): a diagonal is as fast as a straight walk."""
    yaw, pitch, ahead, right = np.asarray(rows_T4, float).T
    length = STEP_M / np.maximum(np.hypot(ahead, right), 1)
    return np.stack([yaw, pitch, right * length, 0 * yaw, ahead * length], 1)


def free_path(steps):
    """A path that turns, climbs and walks anyhow, with its view kept off the poles."""
    rows = np.array([(0.0,) * 5, *steps])
    rows[:, 1] = np.diff(np.clip(np.cumsum(rows[:, 1]), -60, 60), prepend=0.0)
    return motion.integrate(rows)


def labels_of(pose_T44):
    return label(camera(pose_T44), FPS)


def same_labels(a, b, flip=1):
    """Both say the same, or with `flip` -1 the same with right and left exchanged."""
    np.testing.assert_allclose(b.yaw_deg, flip * a.yaw_deg, atol=1e-4)
    np.testing.assert_allclose(b.pitch_deg, a.pitch_deg, atol=1e-4)
    np.testing.assert_array_equal(b.longitudinal, a.longitudinal)
    np.testing.assert_array_equal(b.lateral, np.where(a.lateral == UNCERTAIN, UNCERTAIN, flip * a.lateral))


@settings(max_examples=60, deadline=None)
@given(free, st.sampled_from([1, 4, 8]), st.sampled_from(list(latents.ALIGNMENTS)))
def test_the_yaw_of_all_latents_is_the_change_of_heading(steps, stride, alignment):
    pose = free_path(steps)
    if len(pose) < stride + 2:
        return
    rows, _ = latents.per_latent(labels_of(pose), stride, alignment)
    last = latents.latent_map(len(pose), stride, alignment)[-1, 1]
    change = P.heading_deg(pose)[last] - P.heading_deg(pose)[0]
    assert float(P.wrap180(rows[:, 1].sum() - change)) == pytest.approx(0, abs=1e-3)     # labels are float32
    assert rows[:, 0].sum() == pytest.approx(P.elevation_deg(pose)[last] - P.elevation_deg(pose)[0], abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(held)
def test_labels_put_together_again_are_the_trajectory(segments):
    keys, pose = keys_path(segments)
    action = labels_of(pose)
    certain = (action.longitudinal != UNCERTAIN) & (action.lateral != UNCERTAIN)
    assert certain.all() and (action.longitudinal == keys[:, 2]).all() and (action.lateral == keys[:, 3]).all()
    again = motion.integrate(rows_to_steps(
        np.stack([action.yaw_deg, action.pitch_deg, action.longitudinal, action.lateral], 1)))
    np.testing.assert_allclose(again, pose, atol=1e-4)                                   # labels are float32


@settings(max_examples=60, deadline=None)
@given(held, st.sampled_from([4, 8]))
def test_latents_put_together_again_are_the_trajectory_at_their_anchors(segments, stride):
    _, pose = keys_path(segments)
    spans = latents.groups(len(pose), stride)
    joined = motion.compose(motion.steps_of(pose), spans)
    anchors = latents.latent_map(len(pose), stride)[:, 2]
    np.testing.assert_allclose(motion.integrate(joined), pose[anchors], atol=1e-9)
    rows, certain = latents.per_latent(labels_of(pose), stride)
    np.testing.assert_allclose(rows[:, 1], np.where(certain[:, 1], joined[:, motion.YAW], 0), atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(free)
def test_steps_of_any_path_give_the_path_back(steps):
    pose = free_path(steps)
    np.testing.assert_allclose(motion.integrate(motion.steps_of(pose)), pose, atol=1e-9)
    start = P.compose(P.look([77.0], [-20.0]), np.array([[3.0, 1, -2]]))[0]
    moved = motion.integrate(motion.steps_of(pose), start)
    np.testing.assert_allclose(motion.steps_of(moved), motion.steps_of(pose), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(free, st.integers(1, 8))
def test_joining_steps_is_associative(steps, size):
    rows = motion.steps_of(free_path(steps))
    count = len(rows)
    fine = [(i, min(i + size, count)) for i in range(0, count, size)]
    coarse = [(i, min(i + 2, len(fine))) for i in range(0, len(fine), 2)]
    twice = motion.compose(motion.compose(rows, fine), coarse)
    once = motion.compose(rows, [(fine[a][0], fine[b - 1][1]) for a, b in coarse])
    np.testing.assert_allclose(twice, once, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(free)
def test_time_reversal_negates(steps):
    pose = free_path(steps)
    forth, back = labels_of(pose), labels_of(pose[::-1])
    np.testing.assert_allclose(back.yaw_deg[1:], -forth.yaw_deg[:0:-1], atol=1e-4)
    np.testing.assert_allclose(back.pitch_deg[1:], -forth.pitch_deg[:0:-1], atol=1e-4)
    np.testing.assert_allclose(motion.steps_of(pose[::-1]), motion.inverse(motion.steps_of(pose)), atol=1e-9)
    np.testing.assert_allclose(motion.inverse(motion.inverse(motion.steps_of(pose))), motion.steps_of(pose), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(held)
def test_walking_backward_in_time_is_walking_backward(segments):
    """Keys come back negated where the camera does not turn; a turn moves the frame in which they are read."""
    straight = [(0, 0, *s[2:]) for s in segments]
    keys, pose = keys_path(straight)
    back = labels_of(pose[::-1])
    np.testing.assert_array_equal(back.longitudinal[1:], -keys[:0:-1, 2])
    np.testing.assert_array_equal(back.lateral[1:], -keys[:0:-1, 3])


@settings(max_examples=60, deadline=None)
@given(held)
def test_mirroring_flips_yaw_and_lateral_alone(segments):
    _, pose = keys_path(segments)
    flip = np.diag([-1.0, 1, 1, 1])
    same_labels(labels_of(pose), labels_of(flip @ pose @ flip), flip=-1)
    mirrored = motion.integrate(motion.mirrored(motion.steps_of(pose)))
    np.testing.assert_allclose(mirrored, flip @ pose @ flip, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(free)
def test_out_and_back_sums_to_zero(steps):
    pose = free_path(steps)
    loop = np.concatenate([pose, pose[::-1][1:]])
    action = labels_of(loop)
    assert abs(float(np.sum(action.yaw_deg))) < 1e-3 and abs(float(np.sum(action.pitch_deg))) < 1e-3
    joined = motion.compose(motion.steps_of(loop), [(0, len(loop))])
    np.testing.assert_allclose(joined, 0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(held, st.floats(-180, 180), st.tuples(*[st.floats(-50, 50)] * 3))
def test_turning_the_world_about_gravity_and_moving_it_changes_no_label(segments, turn, shift):
    _, pose = keys_path(segments)
    world = P.compose(P.look([turn], [0.0]), np.array([shift]))[0]
    same_labels(labels_of(pose), labels_of(world @ pose))


@settings(max_examples=60, deadline=None)
@given(held, st.floats(0.2, 5.0))
def test_the_unit_of_the_poses_changes_no_label(segments, scale):
    _, pose = keys_path(segments)
    scaled = pose.copy()
    scaled[:, :3, 3] *= scale
    same_labels(labels_of(pose), label(camera(scaled, metres_per_unit=1 / scale), FPS))


@settings(max_examples=60, deadline=None)
@given(free, st.floats(-40, 40))
def test_roll_changes_neither_turn_nor_travel(steps, roll_deg):
    pose = free_path(steps)
    rolled = pose.copy()
    rolled[:, :3, :3] = pose[:, :3, :3] @ P.so3_exp(np.radians([0.0, 0.0, roll_deg]))
    np.testing.assert_allclose(motion.steps_of(rolled), motion.steps_of(pose), atol=1e-9)


# ---------------------------------------------------------------- near the poles


@settings(max_examples=60, deadline=None)
@given(st.floats(76, 84.9), st.sampled_from([-1, 1]), st.floats(-3, 3))
def test_a_steep_view_still_turns_with_the_world(elevation, side, yaw):
    pose = P.compose(P.look(np.arange(8) * yaw, np.full(8, side * elevation)), np.zeros((8, 3)))
    turned, looked, lost = turns(pose)
    np.testing.assert_allclose(turned[1:], yaw, atol=1e-9)
    np.testing.assert_allclose(looked, 0, atol=1e-9)
    assert not lost.any()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([-1, 1]), st.floats(0.5, 4), st.floats(-180, 180))
def test_passing_over_the_pole_is_no_half_turn(side, step, heading):
    """The view swings over the zenith about the camera's own axis: heading flips by a half turn, the camera not."""
    swing = P.so3_exp(np.radians(side * (70 + np.arange(int(40 / step)) * step))[:, None] * np.array([1.0, 0, 0]))
    pose = P.compose(P.look([heading], [0.0]) @ swing, np.zeros((len(swing), 3)))
    turned, looked, lost = turns(pose)
    action = labels_of(pose)
    assert np.abs(turned).max() < 1.0 and np.abs(looked).max() <= step + 1e-6
    near = np.abs(P.elevation_deg(pose)) > 85
    assert (lost[1:] == (near | np.roll(near, 1))[1:]).all() and not lost[0]
    assert (action.yaw_se_deg[lost] >= np.abs(turned[lost]) - 1e-4).all()


@settings(max_examples=40, deadline=None)
@given(st.floats(-89.9, 89.9), st.floats(-180, 180))
def test_travel_of_a_steep_view_is_level_and_keeps_its_length(elevation, heading):
    position = np.outer(np.arange(6) * STEP_M, [np.sin(np.radians(heading)), 0, np.cos(np.radians(heading))])
    pose = P.compose(P.look(np.full(6, heading), np.full(6, elevation)), position)
    np.testing.assert_allclose(travel(pose)[1:], np.tile([0, 0, STEP_M], (5, 1)), atol=1e-9)
