import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from worldloom.annotators.camera.estimator import Track
from worldloom.annotators.camera.stitch import Windows, align, in_windows, ratio, spans, stitched
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

SMALL = Windows(frames=30, overlap=8, above_frames=30)


def walk(count, seed, still=()):
    """A wandering camera; its steps are 0.05 to 0.15 units, none on the frames in `still`."""
    rng = np.random.default_rng(seed)
    heading, elevation = np.cumsum(rng.normal(0, 2, count)), 20 * np.sin(np.arange(count) / 9)
    rotation = P.look(heading, elevation)
    step = rotation[:, :, 2] * rng.uniform(0.05, 0.15, (count, 1))
    step[list(still)] = 0
    return P.compose(rotation, np.cumsum(step, 0))


def track(pose_T44, **facts):
    count = len(pose_T44)
    numbers = np.arange(count, dtype=float)
    return Track(estimator="test/1", world_from_cam_T44=pose_T44, intrinsics_T4=np.tile([9.0, 9, 5, 5], (count, 1)),
                 confidence=np.ones(count), yaw_se_deg=numbers, pitch_se_deg=numbers,
                 travel_se_deg=np.full(count, np.nan), parallax_px=numbers, **facts)


def moved(pose_T44, rotvec, shift, scale):
    turn = P.so3_exp(np.asarray(rotvec, float))
    return P.compose(turn @ pose_T44[:, :3, :3], scale * pose_T44[:, :3, 3] @ turn.T + shift)


def rigid_gap(a_T44, b_T44):
    """Largest difference of two tracks after putting the second onto the first's first camera."""
    onto = a_T44[:1] @ P.invert(b_T44[:1])
    return np.abs(a_T44 - onto @ b_T44).max()


vector = st.tuples(*[st.floats(-2, 2)] * 3)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(31, 140), data=st.data())
def test_an_exact_track_cut_into_windows_each_in_a_world_of_its_own_comes_back(seed, count, data):
    whole = walk(count, seed)
    parts = spans(count, SMALL)
    worlds = [((0, 0, 0), (0, 0, 0), 1.0)] + [
        (data.draw(vector), data.draw(vector), data.draw(st.floats(0.1, 10))) for _ in parts[1:]]
    windows = [track(moved(whole[part], *world)) for part, world in zip(parts, worlds, strict=True)]
    found = stitched(windows, parts)
    np.testing.assert_allclose(found.world_from_cam_T44, whole, atol=1e-9 * max(1.0, np.abs(whole).max()))
    assert found.scale_status == "relative" and len(found) == count
    drift = np.array([1.0] + [1 / world[2] for world in worlds[1:]])
    low, high = np.percentile(drift, [10, 90])
    assert found.scale_spread == pytest.approx(high / low, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_noise_in_the_windows_stays_bounded_by_the_number_of_seams(seed):
    """1 percent of a step on positions and 0.05 degrees on rotations: a seam then turns by about 0.05 / sqrt(8)."""
    rng, whole = np.random.default_rng(seed), walk(300, seed)
    parts = spans(300, SMALL)
    windows = []
    for part in parts:
        pose = moved(whole[part], rng.normal(0, 1, 3), rng.normal(0, 1, 3), np.exp(rng.normal(0, 0.5)))
        size = np.linalg.norm(np.diff(pose[:, :3, 3], axis=0), axis=1).mean()
        turn = P.so3_exp(np.radians(rng.normal(0, 0.05, (len(pose), 3))))
        position = pose[:, :3, 3] + rng.normal(0, 0.01 * size, (len(pose), 3))
        windows.append(track(P.compose(pose[:, :3, :3] @ turn, position)))
    found = stitched(windows, parts).world_from_cam_T44
    onto = align(whole[:8], found[:8])
    found = onto.poses(found)
    rest = np.linalg.norm(P.so3_log(np.swapaxes(found[:, :3, :3], 1, 2) @ whole[:, :3, :3]), axis=1)
    path = np.linalg.norm(np.diff(whole[:, :3, 3], axis=0), axis=1).sum()
    assert np.degrees(rest).max() < 0.05 * 6 * np.sqrt(len(parts))
    assert np.linalg.norm(found[:, :3, 3] - whole[:, :3, 3], axis=1).max() < 0.1 * path


def test_an_overlap_that_stands_still_carries_the_scale_on_and_says_so():
    whole = walk(52, 3, still=range(20, 34))
    parts = [slice(0, 30), slice(22, 52)]
    found = stitched([track(whole[:30]), track(moved(whole[22:], (0, 1, 0), (1, 2, 3), 0.5))], parts)
    assert found.scale_status == "unknown" and found.metres_per_unit is None
    ahead = np.linalg.norm(np.diff(found.world_from_cam_T44[34:, :3, 3], axis=0), axis=1)
    true = np.linalg.norm(np.diff(whole[34:, :3, 3], axis=0), axis=1)
    np.testing.assert_allclose(ahead, 0.5 * true, atol=1e-12)
    assert np.degrees(np.linalg.norm(P.so3_log(whole[51, :3, :3].T @ found.world_from_cam_T44[51, :3, :3]))) < 1e-6


def test_metric_windows_give_the_median_of_their_scales():
    whole = walk(74, 5)
    parts = [slice(0, 30), slice(22, 52), slice(44, 74)]
    sizes = [1.0, 0.5, 2.0]
    windows = [track(moved(whole[part], (0, 0, 0), (0, 0, 0), size), scale_status="metric", metres_per_unit=metres)
               for part, size, metres in zip(parts, sizes, (1.0, 2.2, 0.4), strict=True)]
    found = stitched(windows, parts)
    assert found.metres_per_unit == pytest.approx(1.0) and found.scale_status == "metric"


def test_the_facts_of_a_step_come_from_one_window_and_never_from_its_first_frame():
    whole = walk(52, 6)
    found = stitched([track(whole[:30]), track(whole[22:])], [slice(0, 30), slice(22, 52)])
    assert found.yaw_se_deg.tolist() == [*range(26), *range(4, 30)]


@given(count=st.integers(31, 2000))
def test_windows_cover_every_frame_and_share_their_overlap(count):
    parts = spans(count, SMALL)
    assert parts[0].start == 0 and parts[-1].stop == count
    assert all(a.stop - b.start == 8 for a, b in zip(parts, parts[1:], strict=False))
    lengths = [part.stop - part.start for part in parts]
    assert set(lengths[:-1]) <= {30} and 2 * 8 < lengths[-1] < 30 + 2 * 8


def test_a_short_clip_is_estimated_at_once():
    seen = []
    in_windows(lambda part: (seen.append(part), track(walk(20, 0)))[1], 20, SMALL)
    assert seen == [slice(0, 20)]


def test_what_cannot_be_put_together_is_refused():
    whole = walk(60, 1)
    with pytest.raises(DataError, match="share fewer than 2"):
        stitched([track(whole[:30]), track(whole[29:])], [slice(0, 30), slice(29, 60)])
    with pytest.raises(DataError, match="track of 29 frames"):
        stitched([track(whole[:29])], [slice(0, 30)])
    with pytest.raises(ValidationError, match="at most half"):
        Windows(frames=20, overlap=11)


def test_ratios_that_disagree_say_nothing():
    rng = np.random.default_rng(0)
    assert ratio(rng.normal(0, 1, (8, 3)) * np.exp(rng.normal(0, 3, (8, 1))), rng.normal(0, 1, (8, 3))) is None
    assert ratio(np.zeros((4, 3)), np.zeros((4, 3))) is None
