import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import AXES, DIRECTIONS, FORMS, from_canonical, to_canonical
from worldloom.dataengine.geometry.smooth import hampel, noise_sigma, savitzky_golay
from worldloom.schemas import DataError

CONVENTIONS = ["/".join(parts) for parts in itertools.product(DIRECTIONS, AXES, FORMS)]
angle = st.floats(-179.0, 179.0)
tilt = st.floats(-80.0, 80.0)
vector = st.tuples(*[st.floats(-1.7, 1.7)] * 3).map(np.array)


def pose(heading=0.0, elevation=0.0, position=(0.0, 0.0, 0.0)):
    return P.compose(P.look([heading], [elevation]), np.array([position], float))


def test_the_identity_looks_ahead_and_level():
    identity = np.eye(4)[None]
    assert P.heading_deg(identity)[0] == P.elevation_deg(identity)[0] == P.roll_deg(identity)[0] == 0


def test_right_is_positive_heading_and_up_is_positive_elevation():
    right, up = pose(90.0)[0], pose(0.0, 30.0)[0]
    np.testing.assert_allclose(right[:3, 2], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(up[:3, 2], [0, -0.5, np.sqrt(0.75)], atol=1e-12)


@given(angle, tilt, angle)
def test_heading_elevation_and_roll_are_read_back(heading, elevation, roll):
    turn = P.so3_exp(np.array([0.0, 0.0, np.radians(roll)]))
    found = P.compose(P.look([heading], [elevation]) @ turn, np.zeros((1, 3)))
    np.testing.assert_allclose([P.heading_deg(found)[0], P.elevation_deg(found)[0], P.roll_deg(found)[0]],
                               [heading, elevation, roll], atol=1e-6)


@given(st.floats(-1e4, 1e4))
def test_wrapped_angles_differ_by_whole_turns(value):
    wrapped = float(P.wrap180(value))
    assert -180 <= wrapped < 180
    assert abs((value - wrapped) / 360 - round((value - wrapped) / 360)) < 1e-9


@given(vector)
def test_logarithm_inverts_exponential(rotvec):
    np.testing.assert_allclose(P.so3_log(P.so3_exp(rotvec)), rotvec, atol=1e-9)


@given(vector, st.sampled_from(["xyzw", "wxyz"]))
def test_quaternions_keep_the_rotation_in_both_orders(rotvec, order):
    rotation = P.so3_exp(rotvec)
    quat = P.to_quaternion(rotation, order=order)
    np.testing.assert_allclose(P.from_quaternion(quat, order=order), rotation, atol=1e-9)


def test_half_turns_have_quaternions():
    half = np.diag([-1.0, 1.0, -1.0])
    np.testing.assert_allclose(np.abs(P.to_quaternion(half, order="wxyz")), [0, 0, 1, 0], atol=1e-12)


def test_a_quaternion_of_length_two_is_refused():
    with pytest.raises(DataError, match="length 2"):
        P.from_quaternion(np.array([[0, 0, 0, 2.0]]), order="xyzw")


def test_small_matrix_errors_are_mended_and_large_or_mirrored_ones_refused():
    near = np.eye(3)[None] + 1e-3
    np.testing.assert_allclose(P.nearest_rotation(near) @ P.nearest_rotation(near)[0].T, np.eye(3)[None], atol=1e-12)
    for bad, word in ((1.2 * np.eye(3), "away"), (np.diag([1.0, 1, -1]), "mirrored"), (np.full((3, 3), np.nan), "NaN")):
        with pytest.raises(DataError, match=word):
            P.nearest_rotation(bad[None])


def test_slerp_halves_the_turn():
    half = P.slerp(P.look([10.0], [0.0]), P.look([70.0], [0.0]), np.array([0.5]))
    np.testing.assert_allclose(half, P.look([40.0], [0.0]), atol=1e-12)


def test_poses_between_times_lie_between_and_outside_is_refused():
    track = np.concatenate([pose(0.0), pose(10.0, 0.0, (2.0, 0, 0))])
    middle = P.interpolate_poses(track, [0.0, 1.0], [0.5])
    assert P.heading_deg(middle)[0] == pytest.approx(5.0)
    assert middle[0, 0, 3] == pytest.approx(1.0)
    with pytest.raises(DataError, match="outside"):
        P.interpolate_poses(track, [0.0, 1.0], [2.0])


@pytest.mark.parametrize("convention", CONVENTIONS)
@settings(max_examples=15, deadline=None)
@given(rotvec=vector, position=vector)
def test_every_convention_is_inverted_exactly(convention, rotvec, position):
    canonical = P.compose(P.so3_exp(rotvec)[None], position[None])
    np.testing.assert_allclose(to_canonical(from_canonical(canonical, convention, 0.01), convention, 0.01), canonical,
                               atol=1e-9)


@pytest.mark.parametrize(("axes", "forward", "up"), [
    ("opencv", (0, 0, 1), (0, -1, 0)), ("opengl", (0, 0, -1), (0, 1, 0)), ("ned", (1, 0, 0), (0, 0, -1)),
    ("unreal", (1, 0, 0), (0, 0, 1))])
def test_forward_and_up_of_each_convention_are_canonical_forward_and_up(axes, forward, up):
    moved = np.tile(np.eye(4), (3, 1, 1))
    moved[1, :3, 3], moved[2, :3, 3] = forward, up
    found = to_canonical(moved, f"c2w/{axes}/matrix")[:, :3, 3]
    np.testing.assert_allclose(found[1:], [[0, 0, 1], [0, -1, 0]], atol=1e-12)


def test_an_unreal_yaw_to_its_right_turns_right():
    half = np.radians(90) / 2
    quat = np.array([[0, 0, 0, 0, 0, np.sin(half), np.cos(half)]])     # Unreal: +z yaw takes x (ahead) to y (right)
    assert P.heading_deg(to_canonical(quat, "c2w/unreal/quat_xyzw", 0.01))[0] == pytest.approx(90)


def test_an_opengl_turn_about_its_up_axis_turns_left():
    turn = np.eye(4)[None].copy()
    turn[0, :3, :3] = P.so3_exp(np.array([0, np.radians(20), 0]))
    assert P.heading_deg(to_canonical(turn, "c2w/opengl/matrix"))[0] == pytest.approx(-20)


@pytest.mark.parametrize("convention", [None, "", "c2w", "c2w/opencv", "c2w/blender/matrix", "C2W/opencv/matrix"])
def test_an_undeclared_convention_is_refused_with_the_known_names(convention):
    with pytest.raises(DataError, match="opencv, opengl, ned, unreal"):
        to_canonical(np.eye(4)[None], convention)


def test_column_major_matrices_are_refused():
    with pytest.raises(DataError, match="row-major"):
        to_canonical(np.swapaxes(pose(0, 0, (1, 2, 3)), 1, 2), "c2w/opencv/matrix")


def test_hampel_replaces_a_spike_and_keeps_a_ramp():
    ramp = np.arange(20.0)
    spiked = ramp.copy()
    spiked[9] += 50
    np.testing.assert_allclose(hampel(spiked), np.where(ramp == 9, 10, ramp))     # the median with the spike in it
    np.testing.assert_array_equal(hampel(ramp), ramp)


@given(st.tuples(*[st.floats(-3, 3)] * 3))
def test_savitzky_golay_passes_parabolas_without_lag(coefficients):
    x = np.polyval(coefficients, np.linspace(-1, 1, 40))
    np.testing.assert_allclose(savitzky_golay(x, fps=24), x, atol=1e-9)


def test_noise_floor_of_white_noise_is_near_its_deviation():
    noise = np.random.default_rng(0).normal(0, 0.2, 4000)
    assert noise_sigma(noise, np.zeros(4000)) == pytest.approx(0.2, rel=0.05)
