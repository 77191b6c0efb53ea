import math

import cv2
import numpy as np
import pytest

from worldloom.annotators.camera.calibrate import find_lens
from worldloom.annotators.camera.odometry import Lens
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.video.read import read_frames
from worldloom.schemas import DataError

HALF_ROOM = np.array([5.0, 2.0, 7.0])


@pytest.fixture(scope="module")
def texture():
    """One picture with detail at several sizes, for all sides of the room."""
    rng, size = np.random.default_rng(5), 1024
    layers = [cv2.resize(rng.normal(0, 40, (n, n)).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
              for n in (30, 80, 200)]
    return np.clip(128 + sum(layers), 0, 255).astype(np.uint8)


def draw(texture, lens, size, heading, elevation, position):
    """Exact picture of a textured room; every side shows another part of the texture."""
    y, x = np.mgrid[0 : size[0], 0 : size[1]].astype(float)
    shift = lens.fy * math.tan(math.radians(elevation)) if lens.model == "yshear" else 0.0
    turn = P.look(heading, 0.0 if lens.model == "yshear" else elevation)
    rays = np.stack([(x - lens.cx) / lens.fx, (y - lens.cy - shift) / lens.fy, np.ones_like(x)], -1) @ turn.T
    reach = (np.sign(rays) * HALF_ROOM - position) / np.where(np.abs(rays) < 1e-9, 1e-9, rays)
    axis = np.argmin(reach, -1)
    place = position + rays * np.min(reach, -1)[..., None]
    u, v = (np.where(axis == 0, place[..., b], place[..., a]) for a, b in ((0, 2), (1, 1)))
    v = np.where(axis == 1, place[..., 2], v)
    side = 131.0 * (2 * axis + (np.take_along_axis(rays, axis[..., None], -1)[..., 0] > 0))
    return cv2.remap(texture, ((u * 70 + side) % 1023).astype(np.float32), ((v * 70 + side) % 1023).astype(np.float32),
                     cv2.INTER_LINEAR)


def film(texture, lens, heading, elevation=None, position=None, size=(240, 320)):
    count = len(heading)
    elevation = np.zeros(count) if elevation is None else elevation
    position = np.zeros((count, 3)) if position is None else position
    return np.stack([draw(texture, lens, size, *pose) for pose in zip(heading, elevation, position, strict=True)])


def pinhole(hfov_deg, size=(240, 320)):
    f = size[1] / 2 / math.tan(math.radians(hfov_deg) / 2)
    return Lens(f, f, (size[1] - 1) / 2, (size[0] - 1) / 2)


SHEAR = Lens(112.0, 134.4, 159.5, 103.5, "yshear")
TIME = np.arange(36)
TURNING, NODDING = 2.5 * TIME, 9 * np.sin(TIME / 5)


@pytest.mark.parametrize("hfov_deg", [50.0, 75.0, 105.0])
def test_the_focal_length_of_a_turning_pinhole_camera_is_found(texture, hfov_deg):
    lens = pinhole(hfov_deg)
    found = find_lens(film(texture, lens, TURNING, NODDING), 24.0)
    assert found.lens.fx == pytest.approx(lens.fx, rel=0.02)      # tracks are good to a tenth of a pixel
    assert (found.lens.model, found.model_source, found.focal_source) == ("pinhole", "found", "found")
    assert found.is_calibrated and 0.01 <= found.focal_spread < 0.05
    assert found.lens.fy == found.lens.fx and found.lens.cy == 119.5


def test_a_sheared_projection_is_found_with_its_horizon(texture):
    found = find_lens(film(texture, SHEAR, TURNING, NODDING), 24.0)
    assert (found.lens.model, found.model_source, found.focal_source) == ("yshear", "found", "found")
    assert found.lens.fx == pytest.approx(SHEAR.fx, rel=0.02)
    # the median over a nod that is not centred: its horizon moves by 21 pixels to either side
    assert found.lens.cy == pytest.approx(SHEAR.cy, abs=8) and found.lens.fy == pytest.approx(1.2 * found.lens.fx)
    assert "1.20 is not seen" in found.detail


def test_the_horizon_of_a_level_sheared_camera_is_found_within_two_pixels(texture):
    found = find_lens(film(texture, SHEAR, TURNING), 24.0, model="yshear")
    assert found.lens.cy == pytest.approx(103.5, abs=2) and found.model_source == "declared"


def test_a_level_turn_gives_the_focal_length_and_leaves_the_model_open(texture):
    found = find_lens(film(texture, pinhole(75.0), TURNING), 24.0)
    assert found.focal_source == "found" and found.lens.fx == pytest.approx(208.5, rel=0.02)
    assert (found.lens.model, found.model_source) == ("pinhole", "assumed") and "cannot be told" in found.detail


def test_the_focal_length_of_a_larger_picture_is_in_its_own_pixels(texture):
    size = (480, 640)
    found = find_lens(film(texture, pinhole(75.0, size), TURNING, NODDING, size=size), 24.0)
    assert found.lens.fx == pytest.approx(pinhole(75.0, size).fx, rel=0.02) and found.lens.cx == 319.5


@pytest.mark.parametrize("walk", ["still", "ahead", "sideways"])
def test_a_clip_without_turns_is_not_calibrated_and_says_so(texture, walk):
    step = {"still": [0, 0, 0], "ahead": [0, 0, 0.12], "sideways": [0.12, 0, 0]}[walk]
    frames = film(texture, pinhole(60.0), np.zeros(36), position=(TIME - 18)[:, None] * np.array(step))
    found = find_lens(frames, 24.0)
    assert not found.is_calibrated and found.focal_source == "assumed" and found.focal_spread is None
    assert found.lens.fx == pytest.approx(160 / math.tan(math.radians(37.5))) and "assumed" in found.detail


def test_what_is_declared_is_held(texture):
    black = np.zeros((2, 240, 320), np.uint8)
    found = find_lens(black, 24.0, hfov_deg=90.0, model="yshear", fy_over_fx=1.1, horizon_share=0.4)
    assert (found.lens.fx, found.lens.cy, found.lens.model) == (pytest.approx(160.0), 95.5, "yshear")
    assert found.lens.fy == pytest.approx(176.0) and found.focal_source == found.model_source == "declared"
    assert found.focal_spread is None and found.is_calibrated


def test_the_model_is_found_under_a_declared_focal_length(texture):
    hfov_deg = math.degrees(2 * math.atan(160 / SHEAR.fx))
    found = find_lens(film(texture, SHEAR, TURNING, NODDING), 24.0, hfov_deg=hfov_deg)
    assert (found.lens.model, found.model_source, found.focal_source) == ("yshear", "found", "declared")
    assert found.lens.fx == pytest.approx(SHEAR.fx)


def test_one_frame_or_an_unknown_model_is_refused():
    with pytest.raises(DataError, match="1 frames"):
        find_lens(np.zeros((1, 24, 32), np.uint8), 24.0)
    with pytest.raises(DataError, match="fisheye"):
        find_lens(np.zeros((2, 24, 32), np.uint8), 24.0, model="fisheye")


@pytest.mark.slow
def test_the_native_projection_of_a_recorded_game_is_found(tmp_path):
    pytest.importorskip("vizdoom")
    from worldloom.dataengine.record.params import EpisodeParams
    from worldloom.dataengine.record.vizdoom import record_episode
    video = record_episode(tmp_path, EpisodeParams(map="map03", seed=4, tics=150, policy="rotate", hud=True,
                                                   weapon=True, fov_deg=90.0))
    found = find_lens(read_frames(video, gray=True), 35.0)
    assert found.focal_source == "found" and found.lens.fx == pytest.approx(160.0, rel=0.1)
