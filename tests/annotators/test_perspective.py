import cv2
import numpy as np
import pytest

from worldloom.annotators.camera.perspective import seen_perspective

TIME = np.arange(40)


@pytest.fixture(scope="module")
def panorama():
    rng = np.random.default_rng(2)
    layers = [cv2.resize(rng.normal(0, 40, (n, 4 * n)).astype(np.float32), (1600, 400), interpolation=cv2.INTER_CUBIC)
              for n in (12, 40, 90)]
    return np.clip(128 + sum(layers), 0, 255).astype(np.uint8)


def pan(panorama, heading_deg=3.0 * TIME):
    """Pictures (T, 240, 320) of a camera of 75 degrees that turns before a cylinder."""
    y, x = np.mgrid[0:240, 0:320].astype(float)
    around, up = np.degrees(np.arctan2(x - 159.5, 208.5)), (y - 119.5) / np.hypot(x - 159.5, 208.5)
    return np.stack([cv2.remap(panorama, (((around + h) % 180) * 8.8).astype(np.float32),
                               (200 + up * 208.5).astype(np.float32), cv2.INTER_LINEAR) for h in heading_deg])


def with_figure(frames, top, bottom, left, right, sway=1.0):
    """The frames with a textured figure that sways by a pixel and stays in its place."""
    patch = cv2.resize(np.random.default_rng(3).integers(0, 255, (12, 6), np.uint8), (right - left, bottom - top),
                       interpolation=cv2.INTER_CUBIC)
    frames = frames.copy()
    for t in range(len(frames)):
        shift = round(sway * np.sin(t))
        frames[t, top:bottom, left + shift : right + shift] = patch
    return frames


def test_a_flowing_picture_without_a_figure_is_first_person(panorama):
    assert seen_perspective(pan(panorama), 24.0) == "fps"


@pytest.mark.parametrize("left", [100, 135, 170])
def test_a_body_that_stays_near_the_middle_is_third_person(panorama, left):
    assert seen_perspective(with_figure(pan(panorama), 95, 225, left, left + 50), 24.0) == "tps"


@pytest.mark.parametrize("bar", [False, True])
def test_hands_at_the_lower_edge_are_first_person_with_and_without_a_status_bar(panorama, bar):
    bottom = 205 if bar else 240
    frames = with_figure(pan(panorama), bottom - 50, bottom, 135, 190)
    if bar:
        frames[:, bottom:] = cv2.blur(np.random.default_rng(1).integers(0, 255, (35, 320), np.uint8), (3, 3))
    assert seen_perspective(frames, 24.0) == "fps"


def test_a_map_in_the_corner_is_no_body(panorama):
    assert seen_perspective(with_figure(pan(panorama), 10, 70, 250, 310, sway=0), 24.0) == "fps"


@pytest.mark.parametrize("frames", [np.zeros((30, 240, 320), np.uint8), None], ids=["black", "still"])
def test_a_picture_that_does_not_move_is_uncertain(panorama, frames):
    frames = pan(panorama, np.zeros(20)) if frames is None else frames
    assert seen_perspective(frames, 24.0) == "uncertain"


def test_two_frames_are_too_few_to_tell(panorama):
    assert seen_perspective(pan(panorama)[:2], 24.0) == "uncertain"
