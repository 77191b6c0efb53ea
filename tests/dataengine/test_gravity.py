import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.gravity import UP, Gravity, align, estimate_up
from worldloom.schemas import DataError


def walk(seed, count=240, turn_deg=120.0, roll_deg=1.0, look_deg=4.0):
    """A walk with a level horizon but for hand shake: heading, elevation and roll wander smoothly."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, count)
    heading = turn_deg * np.sin(2 * np.pi * (time + rng.random())) * time + rng.uniform(-180, 180)
    elevation = look_deg * np.sin(2 * np.pi * (3 * time + rng.random()))
    roll = np.radians(roll_deg * np.sin(2 * np.pi * (5 * time + rng.random())))
    rotation = P.look(heading, elevation) @ P.so3_exp(np.stack([0 * roll, 0 * roll, roll], 1))
    step = P.look(heading, np.zeros(count))[:, :, 2] * 0.05
    return P.compose(rotation, np.cumsum(step, 0))


def tilted(poses, rotvec):
    turn = P.so3_exp(np.asarray([rotvec], float))[0]
    return P.compose(turn @ poses[:, :3, :3], poses[:, :3, 3] @ turn.T), turn


def angle_deg(a, b):
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


rotvecs = st.tuples(*[st.floats(-1.7, 1.7)] * 3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), rotvecs)
def test_a_random_tilt_of_a_walk_is_found_within_a_degree(seed, rotvec):
    track, turn = tilted(walk(seed), rotvec)
    gravity = estimate_up(track)
    # 1 degree: hand shake of 1 degree of roll and 4 of elevation, neither of which averages out over the headings
    assert angle_deg(gravity.up_3, turn @ UP) < 1.0
    assert gravity.confidence > 0.6 and gravity.source == "estimated"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), rotvecs)
def test_labels_of_an_aligned_track_do_not_depend_on_the_tilt_of_its_world(seed, rotvec):
    track = walk(seed)
    moved, _ = tilted(track, rotvec)
    plain, other = (align(t, estimate_up(t)) for t in (track, moved))
    for angle in (P.heading_deg, P.elevation_deg, P.roll_deg):
        np.testing.assert_allclose(P.wrap180(np.diff(angle(other)) - np.diff(angle(plain))), 0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), rotvecs)
def test_aligning_twice_is_aligning_once_and_relative_motion_stays(seed, rotvec):
    track, _ = tilted(walk(seed), rotvec)
    once = align(track, estimate_up(track))
    np.testing.assert_allclose(align(once, estimate_up(once)), once, atol=1e-9)
    step, kept = (P.invert(t[:-1]) @ t[1:] for t in (track, once))
    np.testing.assert_allclose(kept, step, atol=1e-12)


def test_a_camera_that_looks_down_all_the_time_hardly_tilts_the_vertical_when_it_turns():
    poses = P.compose(P.look(np.linspace(0, 90, 60), np.full(60, -10.0)), np.zeros((60, 3)))
    # 0.5 of the 10 degrees: the right-hand axes lie level, and the mean up vector pulls a hundredth as hard
    assert angle_deg(estimate_up(poses).up_3, UP) < 0.5


@pytest.mark.parametrize(("heading", "elevation"), [(0.0, 12.0), (0.0, 0.0), (40.0, 6.0)])
def test_a_view_that_only_nods_in_one_place_has_low_confidence(heading, elevation):
    nod = elevation * np.sin(np.linspace(0, 6, 50))
    gravity = estimate_up(P.compose(P.look(np.full(50, heading), nod), np.zeros((50, 3))))
    assert gravity.confidence <= 0.25


def test_a_straight_walk_is_trusted_less_than_one_that_turns():
    straight, turning = estimate_up(walk(3, turn_deg=0.0)), estimate_up(walk(3))
    assert 0.25 < straight.confidence < turning.confidence


def test_scattered_up_vectors_are_not_trusted():
    rng = np.random.default_rng(0)
    gravity = estimate_up(P.compose(P.so3_exp(rng.normal(0, 0.8, (80, 3))), rng.normal(0, 1, (80, 3))))
    assert gravity.dispersion_deg > 15 and gravity.confidence < 0.2


def test_a_few_frames_that_tumble_do_not_move_the_vertical():
    track = walk(5)
    track[50:70, :3, :3] = P.so3_exp(np.random.default_rng(1).normal(0, 1.5, (20, 3)))
    assert angle_deg(estimate_up(track).up_3, UP) < 1.5


def test_an_upside_down_world_is_turned_over():
    flipped = align(np.eye(4)[None], Gravity(up_3=-UP, source="estimated", confidence=1.0, dispersion_deg=0.0))
    np.testing.assert_allclose(flipped[0, :3, :3] @ -UP, UP, atol=1e-12)
    assert np.linalg.det(flipped[0, :3, :3]) == pytest.approx(1.0)


def test_no_pose_or_a_broken_one_is_refused():
    with pytest.raises(DataError, match="finite"):
        estimate_up(np.zeros((0, 4, 4)))
    with pytest.raises(DataError, match="finite"):
        estimate_up(np.full((3, 4, 4), np.nan))
