"""`worldloom train run|rollout|evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

train_app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                        help="Train a small world model on shards, roll it out, and measure command following.")


@train_app.command("run")
def run_command(config: Annotated[Path, typer.Argument(help="YAML training configuration.")]) -> None:
    """Train, or go on with, the run a configuration describes; prints the checkpoint's path."""
    from worldloom.train.config import load_config
    from worldloom.train.trainer import train_model

    typer.echo(train_model(load_config(config)))


@train_app.command("rollout")
def rollout_command(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint.pt of a run.")],
    shards: Annotated[Path, typer.Argument(help="Packed shard folder that gives the start frames.")],
    out: Annotated[Path, typer.Option(help="PNG to write: true and generated frames.")] = Path("rollout.png"),
    frames: Annotated[int, typer.Option(min=1, help="Frames to generate.")] = 8,
    clips: Annotated[int, typer.Option(min=1, help="Start frames to roll out from.")] = 6,
    steps: Annotated[int, typer.Option(min=1, help="Sampling steps a chunk.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 1,
) -> None:
    """Roll a model out from true frames under the true commands, and draw it beside the truth."""
    from worldloom.train.evaluate.following import rollout_strips

    typer.echo(rollout_strips(checkpoint, shards, out, clips=clips, frames=frames, steps=steps, seed=seed))


@train_app.command("evaluate")
def evaluate_command(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint.pt of a run.")],
    shards: Annotated[Path, typer.Argument(help="Packed shard folder the model was not trained on.")],
    clips: Annotated[int, typer.Option(min=2, help="Clips to roll out.")] = 64,
    frames: Annotated[int, typer.Option(min=1, help="Frames to generate from each.")] = 8,
    steps: Annotated[int, typer.Option(min=1, help="Sampling steps a chunk.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the card, arrays and pictures.")] = None,
) -> None:
    """Measure command following and write evaluation.json."""
    import json

    from worldloom.train.evaluate.following import evaluate_following

    typer.echo(json.dumps(evaluate_following(checkpoint, shards, clips, frames, steps=steps, out=out), indent=2))
