"""Training: the same run twice, the same run stopped and resumed, and a model that follows its commands."""

from __future__ import annotations

import json

import numpy as np
import panorama
import pytest
import torch

from worldloom.schemas.errors import ConfigError, DataError
from worldloom.train.checkpoint import load_checkpoint, load_model
from worldloom.train.config import TrainConfig, load_config
from worldloom.train.data import fill_bank
from worldloom.train.evaluate.following import choose_clips, measure_following
from worldloom.train.trainer import Trainer, train_on_bank


def test_a_resumed_run_draws_the_next_batch_and_ends_with_equal_weights(tmp_path) -> None:
    bank = panorama.bank(tmp_path / "bank", 2)
    whole = Trainer(panorama.tiny_config(tmp_path / "whole"), bank)
    for _ in range(2):
        whole.step()
    whole.save()
    resumed = Trainer(panorama.tiny_config(tmp_path / "again", seed=9), bank)
    resumed.restore(load_checkpoint(whole.checkpoint_path))
    state = whole.sampler.bit_generator.state
    expected, drawn = whole.next_batch(), resumed.next_batch()
    assert all(torch.equal(a, b) for a, b in zip(expected, drawn, strict=True))
    whole.sampler.bit_generator.state = resumed.sampler.bit_generator.state = state
    losses = [(whole.step()["loss"], resumed.step()["loss"]) for _ in range(2)]
    assert all(a == b for a, b in losses)
    pairs = zip(whole.average + list(whole.model.parameters()), resumed.average + list(resumed.model.parameters()),
                strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_run_writes_metrics_and_a_checkpoint_and_a_finished_run_stays_as_it_is(tmp_path) -> None:
    bank, config = panorama.bank(tmp_path / "bank", 2), panorama.tiny_config(tmp_path / "run", steps=3)
    path = train_on_bank(config, bank)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines][:3] == [1, 2, 3]
    first = load_checkpoint(path)
    assert first.step == 3 and TrainConfig.model_validate_json(first.config_json) == config
    train_on_bank(config, bank)
    assert all(torch.equal(first.model[name], value) for name, value in load_checkpoint(path).model.items())
    assert [file.name for file in (tmp_path / "run").iterdir() if file.name.startswith(".")] == []


def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(ConfigError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_windows_stay_inside_one_clip(tmp_path) -> None:
    bank = panorama.bank(tmp_path, 3, frames=10)
    starts = bank.starts(6)
    assert starts.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]
    with pytest.raises(DataError, match="consecutive"):
        bank.starts(11)


def test_the_bank_scales_frames_and_camera_together(tmp_path) -> None:
    sample = next(panorama.samples(1, 5, 0))
    large = np.kron(sample["frames_THWC"], np.ones((1, 2, 2, 1), np.uint8))
    camera = np.tile([64.0, 76.8, 63.5, 47.5], (5, 1))
    doubled = panorama.PaintedSample(sample | {"frames_THWC": large, "intrinsics_T4": camera})
    bank = fill_bank([doubled], tmp_path, 48, 64)
    assert np.array_equal(bank.frames_FHWC, sample["frames_THWC"])
    assert np.allclose(bank.intrinsics_N4, panorama.CAMERA)


def test_a_sample_with_too_few_actions_is_refused(tmp_path) -> None:
    sample = next(panorama.samples(1, 5, 0))
    with pytest.raises(DataError, match="5 frames but 4 actions"):
        fill_bank([panorama.PaintedSample(sample | {"actions_T6": sample["actions_T6"][:4]})], tmp_path, 48, 64)


@pytest.mark.parametrize("text, complaint", [
    ("shards: [a]\nout: b\n", "exactly one of minutes and steps"),
    ("shards: [a]\nout: b\nsteps: 1\nlearning: 2\n", "learning"),
    ("shards: [a]\nout: b\nminutes: .nan\n", "minutes"),
    ("- 1\n", "document"),
])
def test_a_wrong_configuration_is_refused_by_name(tmp_path, text: str, complaint: str) -> None:
    (tmp_path / "train.yaml").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_config(tmp_path / "train.yaml")


def test_paths_in_a_configuration_count_from_its_folder(tmp_path) -> None:
    (tmp_path / "train.yaml").write_text("shards: [packed]\nout: run\nsteps: 2\nmodel: {dim: 32}\n")
    config = load_config(tmp_path / "train.yaml")
    assert config.shards == (tmp_path / "packed",) and config.out == tmp_path / "run" and config.model.dim == 32


@pytest.mark.slow
def test_a_minute_of_training_makes_a_model_that_follows_its_commands(tmp_path) -> None:
    bank = panorama.bank(tmp_path / "train", 60, seed=0)
    config = panorama.tiny_config(tmp_path / "run", steps=None, minutes=1.0, batch=8, precision="bf16", model={})
    model, _ = load_model(train_on_bank(config, bank))
    unseen = choose_clips(panorama.bank(tmp_path / "held", 20, seed=1), 2, 8, 24, seed=1)
    figures, _ = measure_following(model, unseen)
    assert figures["estimator_r"] > 0.95
    assert figures["yaw_r"] > 0.5 and figures["counterfactual_spread_deg"] > 2
    assert figures["psnr"] > figures["psnr_negated"]


def test_actions_between_kept_frames_are_composed() -> None:
    from worldloom.train.data import compose_actions

    rows = np.array([[0, 0, 0, 0, 1, 0], [1, 2, 1, 0, 1, 0], [1, 3, 1, -1, 1, 1], [0, -4, 0, -1, 1, 0],
                     [0, 1, 1, 1, 1, 0], [9, 9, 1, 1, 1, 1]], np.float32)
    wanted = np.array([[0, 0, 0, 0, 1, 0], [2, 5, 1, -1, 1, 1], [0, -3, 1, 0, 1, 0]], np.float32)
    assert (compose_actions(rows, 2) == wanted).all() and (compose_actions(rows, 1) == rows).all()
