"""Checkpoints: everything a run needs to go on as if it had never stopped, written atomically."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from worldloom.schemas.errors import ConfigError
from worldloom.schemas.ids import file_sha256
from worldloom.train.config import TrainConfig
from worldloom.train.models.small import SmallModel

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """State of a run after `step` steps."""
    step: int
    elapsed_s: float                    # training time so far, resumes included
    config_json: str                    # the TrainConfig
    mix_digest: str | None
    model: dict[str, Tensor]
    average: dict[str, Tensor]          # weight average: what rollouts and evaluation use
    optimizer: dict[str, Any]
    sampler_json: str                   # state of the numpy generator that draws windows
    noise_state: Tensor                 # state of the torch generator that draws noise
    format: int = FORMAT


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write next to `path` and rename: a reader sees the old checkpoint or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            torch.save({f.name: getattr(checkpoint, f.name) for f in fields(checkpoint)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; only tensors and plain values are accepted, no pickled code.

    Raises:
        ConfigError: the file is missing or is no checkpoint of this program.
    """
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
        checkpoint = Checkpoint(**values)
    except (OSError, RuntimeError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise ConfigError(f"{path}: not a checkpoint ({type(error).__name__}: {str(error).splitlines()[0]})") from error
    if checkpoint.format != FORMAT:
        raise ConfigError(f"{path}: checkpoint format {checkpoint.format}, this version reads {FORMAT}")
    return checkpoint


def load_model(path: Path) -> tuple[SmallModel, Checkpoint]:
    """The averaged model of a checkpoint, ready to roll out."""
    checkpoint = load_checkpoint(path)
    config = TrainConfig.model_validate_json(checkpoint.config_json).model
    model = SmallModel(config)
    model.load_state_dict(checkpoint.average)
    return model.eval(), checkpoint


def checkpoint_digest(path: Path) -> str:
    """First 16 hex digits of the SHA-256 of the file."""
    return file_sha256(path)[:16]
