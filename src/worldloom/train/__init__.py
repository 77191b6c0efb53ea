"""Train a small world model on shards, roll it out, and measure whether it follows its commands.

`train_model(config) -> Path` and `evaluate_following(checkpoint, shards) -> dict` are the two calls most people need;
both are imported on use, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worldloom.train.config import ModelConfig, TrainConfig

if TYPE_CHECKING:
    from worldloom.train.evaluate.following import evaluate_following
    from worldloom.train.trainer import train_model

__all__ = ["ModelConfig", "TrainConfig", "evaluate_following", "train_model"]


def __getattr__(name: str) -> Any:
    if name == "train_model":
        from worldloom.train.trainer import train_model
        return train_model
    if name == "evaluate_following":
        from worldloom.train.evaluate.following import evaluate_following
        return evaluate_following
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
