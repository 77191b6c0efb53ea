import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.dataengine.geometry import euler
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import (
    AXES,
    DIRECTIONS,
    USUAL_UNIT_M,
    axes_matrices,
    from_canonical,
    to_canonical,
)
from worldloom.dataengine.geometry.smooth import hampel, noise_sigma, savitzky_golay, smooth_rotations
from worldloom.schemas import DataError

RIGID = [f"{direction}/{axes}/{form}" for direction in DIRECTIONS for axes in (*AXES, "rdb", "ldf", "lub:fru")
         for form in ("matrix", "quat_xyzw", "quat_wxyz")]
ANGLES = [f"c2w/{axes}/{form}" for axes in euler.SIGNS for form in ("euler_ypr", "euler_pyr", "euler_rpy")]
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


@given(convention=st.sampled_from(RIGID), rotvec=vector, position=vector, mount=st.tuples(vector, vector) | st.none())
def test_every_convention_is_inverted_exactly(convention, rotvec, position, mount):
    canonical = P.compose(P.so3_exp(rotvec)[None], position[None])
    body = None if mount is None else P.compose(P.so3_exp(mount[0])[None], mount[1][None])[0]
    written = from_canonical(canonical, convention, 0.01, body_from_cam_44=body)
    np.testing.assert_allclose(to_canonical(written, convention, 0.01, body_from_cam_44=body), canonical, atol=1e-9)
    again = from_canonical(to_canonical(written, convention, 0.01, body_from_cam_44=body), convention, 0.01,
                           body_from_cam_44=body)
    sign = 1 if "matrix" in convention or again[0, 3:] @ written[0, 3:] > 0 else -1          # q and -q are one turn
    np.testing.assert_allclose(again.ravel()[:3], written.ravel()[:3], atol=1e-7)
    np.testing.assert_allclose(sign * again.ravel()[3:], written.ravel()[3:], atol=1e-7)


@given(st.sampled_from(ANGLES), angle, st.floats(-89.0, 89.0), angle, vector)
def test_angles_of_engines_are_inverted_exactly(convention, heading, elevation, roll, position):
    axes, form = convention.split("/")[1:]
    turn = P.look([heading], [elevation]) @ P.so3_exp(np.array([0, 0, np.radians(roll)]))
    canonical = P.compose(turn, position[None])
    written = from_canonical(canonical, convention, 0.01)
    columns = dict(zip(euler.ORDER[form], written[0, 3:], strict=True))
    expected = {"y": heading, "p": elevation, "r": roll}
    for letter, value in columns.items():
        assert value == pytest.approx(euler.SIGNS[axes][letter] * expected[letter], abs=1e-6)
    np.testing.assert_allclose(to_canonical(written, convention, 0.01), canonical, atol=1e-9)


# each engine's own matrices, from its own documentation: x forward (or z), angles about its own axes
def about_z(deg):
    c, s = np.cos(np.radians(deg)), np.sin(np.radians(deg))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


def about_y(deg):
    c, s = np.cos(np.radians(deg)), np.sin(np.radians(deg))
    return np.array([[c, 0, s], [0, 1.0, 0], [-s, 0, c]])


def about_x(deg):
    c, s = np.cos(np.radians(deg)), np.sin(np.radians(deg))
    return np.array([[1.0, 0, 0], [0, c, -s], [0, s, c]])


@pytest.mark.parametrize(("axes", "form", "angles", "own"), [
    ("unreal", "euler_pyr", (20, 50, 10), about_z(50) @ about_y(-20) @ about_x(-10)),   # FRotator: pitch, yaw, roll
    ("unity", "euler_pyr", (20, 50, 10), about_y(50) @ about_x(20) @ about_z(10)),      # eulerAngles x, y, z: z, x, y
    ("source", "euler_pyr", (20, 50, 10), about_z(50) @ about_y(20) @ about_x(10)),     # QAngle: pitch, yaw, roll
    ("flu", "euler_rpy", (10, 20, 50), about_z(50) @ about_y(20) @ about_x(10)),        # ROS roll, pitch, yaw
    ("ned", "euler_ypr", (50, 20, 10), about_z(50) @ about_y(20) @ about_x(10)),        # aircraft
])
def test_angles_and_matrices_of_an_engine_are_the_same_pose(axes, form, angles, own):
    matrix = np.eye(4)[None].copy()
    matrix[0, :3, :3], matrix[0, :3, 3] = own, [1, 2, 3]
    by_angles = to_canonical(np.array([[1.0, 2, 3, *angles]]), f"c2w/{axes}/{form}")
    np.testing.assert_allclose(by_angles, to_canonical(matrix, f"c2w/{axes}/matrix"), atol=1e-12)


@pytest.mark.parametrize(("convention", "row", "heading", "elevation", "roll"), [
    ("c2w/unreal/euler_pyr", (30, 90, 0), 90, 30, 0), ("c2w/unreal/euler_pyr", (0, 0, 15), 0, 0, 15),
    ("c2w/unity/euler_pyr", (30, 90, 0), 90, -30, 0), ("c2w/unity/euler_pyr", (0, 0, 15), 0, 0, -15),
    ("c2w/minecraft/euler_yp", (90, 30), 90, -30, 0), ("c2w/source/euler_pyr", (30, 90, 0), -90, -30, 0),
    ("c2w/source/euler_pyr", (0, 0, 15), 0, 0, 15), ("c2w/ned/euler_ypr", (90, 30, 15), 90, 30, 15),
    ("c2w/flu/euler_rpy", (15, 30, 90), -90, -30, 15)])
def test_known_angles_have_known_signs(convention, row, heading, elevation, roll):
    found = to_canonical(np.array([[0.0, 0, 0, *row]]), convention)
    np.testing.assert_allclose([P.heading_deg(found)[0], P.elevation_deg(found)[0], P.roll_deg(found)[0]],
                               [heading, elevation, roll], atol=1e-9)


@pytest.mark.parametrize("axes", list(AXES))
def test_known_turns_have_known_signs_in_every_axes(axes):
    """The camera looks to its right, then up, in its own axes: no formula of the converter is used."""
    of_camera, _ = axes_matrices(axes)
    ahead, right, up = (of_camera.T @ np.array(v, float) for v in ((0, 0, 1), (1, 0, 0), (0, -1, 0)))
    def turn(towards):
        rotation = np.eye(3) - np.outer(ahead, ahead) - np.outer(towards, towards)      # ahead -> towards, a quarter
        return rotation + np.outer(towards, ahead) - np.outer(ahead, towards)
    start = from_canonical(pose(10.0, 0.0, (1, 2, 3)), f"c2w/{axes}/matrix")
    found = []
    for towards in (right, up):
        moved = start.copy()
        moved[:, :3, :3] = start[:, :3, :3] @ turn(towards)
        found.append(to_canonical(moved, f"c2w/{axes}/matrix"))
    assert P.heading_deg(found[0])[0] == pytest.approx(100.0) and P.elevation_deg(found[0])[0] == pytest.approx(0)
    np.testing.assert_allclose(found[1][0, :3, 2], [0, -1, 0], atol=1e-12)


def test_units_of_engines_are_offered_and_scale_positions_alone():
    row = np.array([[100.0, 0, 0, 0, 90, 0]])
    found = to_canonical(row, "c2w/unreal/euler_pyr", USUAL_UNIT_M["unreal"])
    np.testing.assert_allclose(found[0, :3, 3], [0, 0, 1.0])
    found = to_canonical(row, "c2w/source/euler_pyr", USUAL_UNIT_M["source"])
    np.testing.assert_allclose(found[0, :3, 3], [0, 0, 1.905])


def test_a_camera_on_a_body_is_the_body_times_its_mount():
    """EuRoC's order: world from camera = world from body x T_BS; here a camera that looks along the body's -x."""
    mount = np.eye(4)
    mount[:3, :3] = np.array([[0, 0, -1.0], [1, 0, 0], [0, -1, 0]])
    mount[:3, 3] = [0.1, 0, 0]
    body = np.eye(4)[None].copy()
    body[0, :3, :3], body[0, :3, 3] = about_z(90), [5, 0, 1]
    found = to_canonical(body, "c2w/optical/matrix", body_from_cam_44=mount)
    assert P.heading_deg(found)[0] == pytest.approx(90.0)           # body faces y (left), the camera behind it: right
    np.testing.assert_allclose(found[0, :3, 3], [-0.1, -1, 5], atol=1e-12)
    with pytest.raises(DataError, match="4 x 4"):
        to_canonical(body, "c2w/optical/matrix", body_from_cam_44=np.eye(3))


@pytest.mark.parametrize(("axes", "forward", "up"), [
    ("opencv", (0, 0, 1), (0, -1, 0)), ("opengl", (0, 0, -1), (0, 1, 0)), ("ned", (1, 0, 0), (0, 0, -1)),
    ("unreal", (1, 0, 0), (0, 0, 1)), ("unity", (0, 0, 1), (0, 1, 0)), ("minecraft", (0, 0, 1), (0, 1, 0)),
    ("source", (1, 0, 0), (0, 0, 1)), ("flu", (1, 0, 0), (0, 0, 1)), ("blender", (0, 1, 0), (0, 0, 1)),
    ("optical", (1, 0, 0), (0, 0, 1)), ("rub:rfu", (0, 1, 0), (0, 0, 1))])
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


@pytest.mark.parametrize("convention", [
    None, "", "c2w", "c2w/opencv", "c2w/maya/matrix", "C2W/opencv/matrix", "c2w/rrf/matrix", "c2w/rdf:ruf/matrix"])
def test_an_undeclared_convention_is_refused_with_the_known_names(convention):
    with pytest.raises(DataError, match="opencv, opengl, ned, unreal"):
        to_canonical(np.eye(4)[None], convention)


@pytest.mark.parametrize("convention", ["c2w/opencv/euler_ypr", "w2c/unreal/euler_pyr", "c2w/blender/euler_rpy"])
def test_angles_whose_order_is_not_known_are_refused(convention):
    with pytest.raises(DataError, match="write other poses as matrices"):
        to_canonical(np.zeros((1, 6)), convention)


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


def shaken(count=96, noise_deg=0.15, seed=0):
    """A smooth swing of heading and elevation, and the same with noise on every frame."""
    time = np.arange(count) / 24
    true = P.look(40 * np.sin(time), 10 * np.sin(1.7 * time))
    return true, true @ P.so3_exp(np.radians(np.random.default_rng(seed).normal(0, noise_deg, (count, 3))))


def turn_between_deg(a, b):
    return np.degrees(np.linalg.norm(P.so3_log(np.swapaxes(a, 1, 2) @ b), axis=1))


def test_smoothing_halves_the_noise_and_keeps_the_raw_steps():
    true, noisy = shaken()
    found = smooth_rotations(noisy, fps=24)
    rms = [np.sqrt(np.mean(turn_between_deg(x, true) ** 2)) for x in (noisy, found.rotation_T33)]
    assert rms[1] < 0.65 * rms[0] and found.changed_T.mean() > 0.9
    np.testing.assert_allclose(found.rotation_T33[1:], found.rotation_T33[:-1] @ P.so3_exp(
        np.radians(found.smoothed_deg_T3[1:])), atol=1e-12)
    steps = [np.sqrt(np.mean((x - np.degrees(P.so3_log(np.swapaxes(true[:-1], 1, 2) @ true[1:]))) ** 2))
             for x in (found.raw_deg_T3[1:], found.smoothed_deg_T3[1:])]
    assert steps[1] < 0.35 * steps[0]
    assert found.sigma_deg_3 == pytest.approx(0.15 * np.sqrt(2), rel=0.35)


@settings(deadline=None, max_examples=25)
@given(step_deg=st.floats(1.0, 24.0), at=st.integers(20, 76), noise=st.sampled_from([0.0, 0.02]), axis=vector)
def test_a_sudden_turn_keeps_nine_tenths_of_its_size_and_nothing_moves_beside_it(step_deg, at, noise, axis):
    axis = np.array([0, 1, 0]) if np.linalg.norm(axis) < 0.1 else axis / np.linalg.norm(axis)
    raw = np.tile(np.eye(3), (96, 1, 1))
    raw[at:] = P.so3_exp(np.radians(step_deg) * axis)
    raw = raw @ P.so3_exp(np.radians(np.random.default_rng(1).normal(0, noise, (96, 3))))
    found = smooth_rotations(raw, fps=24)
    size = np.linalg.norm(found.smoothed_deg_T3, axis=1) / np.maximum(np.linalg.norm(found.raw_deg_T3, axis=1), 1e-9)
    assert 0.9 <= size[at] <= 1.1
    assert np.linalg.norm(np.delete(found.smoothed_deg_T3, at, 0), axis=1).max() < 0.3


def test_a_steady_turn_passes_unchanged_and_a_cut_is_not_smoothed_over():
    steady = P.look(np.arange(60) * 3.0, np.zeros(60))
    np.testing.assert_allclose(smooth_rotations(steady, fps=24).rotation_T33, steady, atol=1e-12)
    cut = P.look(np.where(np.arange(60) < 30, 0.0, 120.0) + np.arange(60), np.zeros(60))
    np.testing.assert_allclose(smooth_rotations(cut, fps=24).rotation_T33, cut, atol=1e-12)


@settings(deadline=None, max_examples=15)
@given(world=vector, seed=st.integers(0, 9))
def test_smoothing_has_no_lag_and_turns_with_the_world(world, seed):
    _, noisy = shaken(60, seed=seed)
    found = smooth_rotations(noisy, fps=24).rotation_T33
    turned = smooth_rotations(P.so3_exp(world) @ noisy, fps=24).rotation_T33
    np.testing.assert_allclose(turned, P.so3_exp(world) @ found, atol=1e-9)
    np.testing.assert_allclose(smooth_rotations(noisy[::-1], fps=24).rotation_T33[::-1], found, atol=1e-9)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_short_tracks_are_not_smoothed(count):
    track = P.look(np.arange(count) * 2.0, np.zeros(count))
    np.testing.assert_array_equal(smooth_rotations(track, fps=24).rotation_T33, track)
