"""The package from end to end: packed shards in, a trained checkpoint, pictures and an evaluation card out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import panorama
import pytest
from typer.testing import CliRunner

from worldloom.schemas.errors import ConfigError
from worldloom.shards.loader import Loader
from worldloom.train import evaluate_following, train_model
from worldloom.train.cli import train_app
from worldloom.train.data import read_shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return panorama.pack(tmp_path_factory.mktemp("packed") / "shards", clips=4, frames=24, seed=0)


def test_the_bank_holds_every_frame_of_the_shards_in_order(shards: Path, tmp_path: Path) -> None:
    bank = read_shards([shards], tmp_path, 48, 64)
    painted = np.concatenate([sample["frames_THWC"] for sample in panorama.samples(4, 24, 0)])
    actions = np.concatenate([sample["actions_T6"] for sample in panorama.samples(4, 24, 0)])
    assert isinstance(bank.frames_FHWC, np.memmap) and bank.frames_FHWC.shape == painted.shape
    assert np.abs(bank.frames_FHWC.astype(int) - painted).mean() < 6
    assert np.array_equal(bank.actions_F6, actions)
    assert np.allclose(bank.intrinsics_N4, panorama.CAMERA)
    assert bank.mix == Loader(shards).digest


def test_train_and_evaluate_leave_a_card_arrays_and_pictures(shards: Path, tmp_path: Path) -> None:
    config = panorama.tiny_config(tmp_path / "run", shards=(shards,), steps=2)
    checkpoint = train_model(config)
    figures = evaluate_following(checkpoint, shards, clips=3, frames=4, steps=1)
    folder = tmp_path / "run" / "evaluation"
    card = json.loads((folder / "evaluation.json").read_text())
    assert card["metrics"] == figures and card["mix"] == Loader(shards).digest and card["step"] == 2
    with np.load(folder / "following.npz") as arrays:
        assert arrays["generated_BTHWC"].shape == arrays["true_BTHWC"].shape == (3, 4, 48, 64, 3)
    assert (folder / "following.png").stat().st_size > 0


def test_the_commands_train_roll_out_and_evaluate(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(
        f"shards: ['{shards}']\nout: run\nsteps: 1\nbatch: 2\ndevice: cpu\nmodel: {{dim: 32, blocks: 2}}\n")
    runner = CliRunner()
    trained = runner.invoke(train_app, ["run", str(tmp_path / "train.yaml")])
    assert trained.exit_code == 0, trained.output
    checkpoint = str(tmp_path / "run" / "checkpoint.pt")
    assert trained.stdout.strip() == checkpoint
    drawn = runner.invoke(train_app, ["rollout", checkpoint, str(shards), "--out", str(tmp_path / "r.png")])
    assert drawn.exit_code == 0 and (tmp_path / "r.png").is_file()
    measured = runner.invoke(train_app, ["evaluate", checkpoint, str(shards), "--clips", "2", "--frames", "4"])
    assert measured.exit_code == 0 and json.loads(measured.stdout)["clips"] == 2


def test_a_missing_shard_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        train_model(panorama.tiny_config(tmp_path, shards=(tmp_path / "nowhere",)))
