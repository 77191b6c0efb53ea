"""The bridge to metres: it gives one number with its spread, or one reason why not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldloom.dataengine.geometry.scale import (
    Evidence,
    bridge,
    from_camera_height,
    from_depth,
    from_distances,
    from_speed,
    known,
    retime_stride,
    speed_bucket,
)
from worldloom.schemas import DataError

FPS = 16.0


def straight(speed_units_s, count=161):
    return np.arange(count)[:, None] * np.array([0, 0, speed_units_s / FPS])


def measures(ratio, relative_error=0.0):
    ratio = np.asarray(ratio, float)
    return Evidence("test", ratio, np.linspace(0, 160, len(ratio)).astype(int), relative_error)


def test_metric_depth_gives_the_ratio_of_depths_whatever_lies_outside():
    rng = np.random.default_rng(0)
    units = rng.uniform(1, 8, (161, 50))
    metres = units * 0.4
    metres[:, ::7] *= 30                                    # a seventh of the places is wrong
    units[3], metres[5, 10:] = 0, np.nan
    scale = bridge(straight(3.5), FPS, [from_depth(units, metres, relative_error=0.0)])
    assert (scale.status, scale.refused, scale.evidence) == ("metric", None, "metric depth")
    assert scale.metres_per_unit == pytest.approx(0.4) and scale.spread == pytest.approx(1.0)


def test_a_known_camera_height_a_stated_speed_and_known_steps_give_the_same_scale():
    place = straight(3.5)
    height = from_camera_height(np.full(161, 4.0), 1.6)
    speed = from_speed(place, FPS, 1.4)
    steps = from_distances(place, [(0, 16, 1.4), (16, 48, 2.8), (100, 132, 2.8)])
    for evidence in ([height], [speed], [steps], [height, speed, steps]):
        assert bridge(place, FPS, evidence).metres_per_unit == pytest.approx(0.4)


def test_the_error_that_all_measures_share_widens_the_spread():
    sure = bridge(straight(3.5), FPS, [measures(np.full(20, 0.4))])
    unsure = bridge(straight(3.5), FPS, [measures(np.full(20, 0.4), relative_error=0.2)])
    assert sure.spread == pytest.approx(1.0) and unsure.metres_per_unit == pytest.approx(0.4)
    assert unsure.p90 / unsure.metres_per_unit == pytest.approx(np.exp(0.2 * 1.2816))


def test_standing_still_says_nothing_of_the_speed():
    place = np.concatenate([np.zeros((80, 3)), straight(3.5, 81)])
    evidence = from_speed(place, FPS, 1.4)
    assert np.allclose(evidence.metres_per_unit_N, 0.4) and len(evidence.frame_N) == 10
    assert from_speed(np.zeros((40, 3)), FPS, 1.4).metres_per_unit_N.size == 0


@pytest.mark.parametrize(("evidence", "speed", "reason"), [
    ([], 1.0, "0 measures"),
    ([measures([0.4, 0.4])], 1.0, "2 measures"),
    ([measures([0.4, np.nan, 0.4])], 1.0, "not a number above 0"),
    ([measures([0.4, -0.4, 0.4])], 1.0, "not a number above 0"),
    ([measures(np.tile([0.2, 0.6], 20))], 1.0, "spread by 3.00"),
    ([measures(np.full(20, 0.4))], 260.0, "104 m/s"),
    ([measures(np.linspace(0.3, 0.6, 40))], 1.0, "drifts by 0.2"),
], ids=["none", "too few", "NaN", "negative", "spread", "speed", "drift"])
def test_the_bridge_refuses_with_one_reason_rather_than_guess(evidence, speed, reason):
    scale = bridge(straight(speed), FPS, evidence)
    assert scale.status == "relative" and scale.metres_per_unit is None and scale.spread is None
    assert reason in scale.refused


@given(st.floats(1e-3, 1e3), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_the_scale_follows_the_unit_of_the_track(unit_m, speed_m_s, seed):
    noise = np.exp(np.random.default_rng(seed).normal(0, 0.02, 60))
    one = bridge(straight(speed_m_s), FPS, [measures(noise)])
    other = bridge(straight(speed_m_s / unit_m), FPS, [measures(unit_m * noise)])
    assert one.refused is None
    for number in ("metres_per_unit", "p10", "p90"):
        assert getattr(other, number) / getattr(one, number) == pytest.approx(unit_m)
    assert one.p10 <= one.metres_per_unit <= one.p90


def test_known_steps_that_are_no_steps_are_refused_by_frame():
    with pytest.raises(DataError, match="frame 0 to 400; the track has frames 0 to 160"):
        from_distances(straight(1.0), [(0, 400, 1.0)])
    with pytest.raises(DataError, match="frame 5 to 5 is 1 m and 0 units"):
        from_distances(straight(1.0), [(5, 5, 1.0)])


def test_depths_of_two_shapes_are_refused():
    with pytest.raises(DataError, match="the same"):
        from_depth(np.ones((3, 4)), np.ones((3, 5)))


@pytest.mark.parametrize(("status", "unit_m"), [("exact", None), ("relative", 0.5), ("guessed", None), ("metric", 0.0)])
def test_a_declared_scale_that_contradicts_itself_is_refused(status, unit_m):
    with pytest.raises(DataError):
        known(status, unit_m)
    assert known("exact", 0.03125).spread == 1.0 and known("unknown", None).spread is None


@pytest.mark.parametrize(("speed", "climb", "share", "bucket"), [
    (0.0, 0, 0, "still"), (0.19, 0, 0, "still"), (0.2, 0, 0, "walk"), (1.4, 0, 0, "walk"), (2.2, 0, 0, "run"),
    (7.0, 0, 0, "vehicle"), (99.0, 0, 0, "vehicle"), (100.0, 0, 0, "unknown"), (4.0, 6.0, 0.3, "drone"),
    (1.4, 3.0, 0.3, "walk"), (4.0, 6.0, 0.1, "run"), (None, 0, 0, "unknown"), (float("nan"), 9, 1, "unknown")])
def test_speeds_have_their_buckets(speed, climb, share, bucket):
    assert speed_bucket(speed, climb, share) == bucket


@given(st.floats(0.001, 10))
def test_a_stride_brings_the_speed_within_reach_or_there_is_none(ratio):
    stride = retime_stride(ratio)
    fits = [k for k in range(1, 9) if 0.8 <= k * ratio <= 1.25]
    assert stride in fits if fits else stride is None


def test_no_stride_makes_a_clip_slower():
    assert (retime_stride(1.3), retime_stride(1.0), retime_stride(0.5), retime_stride(0.0)) == (None, 1, 2, None)
