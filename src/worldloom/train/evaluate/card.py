"""The evaluation card: figures joined to the checkpoint and the mix that made them, as JSON and as catalog rows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldloom.schemas.rows import Evaluation
from worldloom.train.checkpoint import Checkpoint, checkpoint_digest


def write_card(path: Path, figures: Mapping[str, Any], checkpoint: Path, state: Checkpoint) -> dict[str, Any]:
    """Write the card atomically and return it."""
    card = {"checkpoint": checkpoint_digest(checkpoint), "mix": state.mix_digest, "step": state.step,
            "training_s": round(state.elapsed_s, 2), "metrics": dict(figures)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(card, indent=2) + "\n")
    os.replace(partial, path)
    return card


def evaluation_rows(card: Mapping[str, Any],
                    detail: str = "generated frames, yaw by rotation search") -> list[Evaluation]:
    """One catalog row a figure; lists and mappings become name.0, name.1 or name.key."""
    return [Evaluation(checkpoint=card["checkpoint"], mix=card["mix"], metric=name, value=float(value), detail=detail)
            for name, value in _flat("", card["metrics"])]


def _flat(prefix: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in _flat(f"{prefix}.{key}" if prefix else key, inner)]
    if isinstance(value, list):
        return [pair for index, inner in enumerate(value) for pair in _flat(f"{prefix}.{index}", inner)]
    return [(prefix, float(value))]
