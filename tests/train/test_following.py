"""The yaw estimator and the scores built on it."""

from __future__ import annotations

import json

import cv2
import numpy as np
import panorama
import pytest
import torch

from worldloom.train.checkpoint import load_checkpoint, load_model
from worldloom.train.evaluate.card import evaluation_rows, write_card
from worldloom.train.evaluate.following import choose_clips, measure_following, validate_estimator
from worldloom.train.evaluate.strips import write_strips
from worldloom.train.evaluate.yaw import yaw_search, yaw_track
from worldloom.train.trainer import train_on_bank


@pytest.mark.parametrize("yaw_deg", [-7.0, -2.6, 0.0, 0.4, 3.0, 9.5])
def test_yaw_search_reads_a_rendered_turn(yaw_deg: float) -> None:
    picture = panorama.panorama(np.random.default_rng(3))
    first, second = panorama.view(picture, 40.0), panorama.view(picture, 40.0 + yaw_deg)
    assert yaw_search(first, second, panorama.CAMERA) == pytest.approx(yaw_deg, abs=0.3)


def test_a_right_turn_moves_the_picture_left_and_reads_positive() -> None:
    wide = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 255, (48, 90, 3), dtype=np.uint8), (0, 0), 1.5)
    assert yaw_search(wide[:, 10:74], wide[:, 13:77], panorama.CAMERA) > 2


def test_a_change_of_light_does_not_read_as_a_turn() -> None:
    frame = panorama.view(panorama.panorama(np.random.default_rng(1)), 10.0)
    assert abs(yaw_search(frame, (frame * 0.8 + 20).astype(np.uint8), panorama.CAMERA)) < 0.2


def test_the_estimator_is_near_perfect_on_true_frames(tmp_path) -> None:
    test = choose_clips(panorama.bank(tmp_path, 4), 2, 8, 12, seed=0)
    figures = validate_estimator(test)
    assert figures["estimator_r"] > 0.97 and figures["estimator_slope"] == pytest.approx(1, abs=0.1)


def test_chosen_clips_do_not_overlap_and_repeat_by_seed(tmp_path) -> None:
    bank = panorama.bank(tmp_path, 4)
    first, second = (choose_clips(bank, 2, 8, 100, seed=5) for _ in range(2))
    assert 4 <= len(first.frames_BTHWC) <= 16
    assert np.array_equal(first.frames_BTHWC, second.frames_BTHWC)


def test_an_untrained_model_follows_nothing_and_its_card_says_so(tmp_path) -> None:
    torch.set_num_threads(1)
    path = train_on_bank(panorama.tiny_config(tmp_path / "run", steps=1), panorama.bank(tmp_path / "bank", 2))
    model, state = load_model(path)
    test = choose_clips(panorama.bank(tmp_path / "held", 2, seed=1), 2, 8, 4, seed=0)
    figures, arrays = measure_following(model, test, steps=1)
    assert abs(figures["yaw_slope"]) < 0.1 and abs(figures["counterfactual_spread_deg"]) < 0.5
    assert len(figures["per_frame_r"]) == 8 and len(figures["per_position_r"]) == 4
    write_strips(tmp_path / "strips.png", test, arrays["generated_BTHWC"], arrays["measured_deg_BT"], rows=2)
    assert cv2.imread(str(tmp_path / "strips.png")).shape[1] == 9 * (64 * 2 + 2)
    card = write_card(tmp_path / "evaluation.json", figures, path, state)
    assert json.loads((tmp_path / "evaluation.json").read_text()) == card
    rows = {row.metric: row.value for row in evaluation_rows(card)}
    assert rows["per_position_r.3"] == figures["per_position_r"][3]
    assert rows["counterfactual_deg.-6"] == figures["counterfactual_deg"]["-6"]
    assert {row.checkpoint for row in evaluation_rows(card)} == {card["checkpoint"]}
    assert load_checkpoint(path).mix_digest == card["mix"] == "panorama"


def test_a_track_has_one_turn_for_each_pair_of_frames(tmp_path) -> None:
    bank = panorama.bank(tmp_path, 1, frames=12)
    track = yaw_track(bank.frames_FHWC[:6], panorama.CAMERA)
    assert track.shape == (5,) and np.abs(track - bank.actions_F6[1:6, 1]).max() < 0.5
