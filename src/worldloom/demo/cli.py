"""`worldloom demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    videos: Annotated[Path | None, typer.Option(help="Your own folder of videos instead of recorded gameplay.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that the demo makes.")] = Path("demo"),
    minutes: Annotated[float, typer.Option(min=0.05, help="Minutes of training.")] = 3.5,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    episodes: Annotated[int, typer.Option(min=1, help="Recorded episodes a map.")] = 2,
    tics: Annotated[int, typer.Option(min=80, help="Engine steps an episode, 35 a second.")] = 560,
) -> None:
    """Record gameplay, label it from its pixels, mix, pack, train, roll out, and write one report."""
    from worldloom.demo.pipeline import Demo

    report = Demo(out=out, videos=videos, minutes=minutes, workers=workers, episodes=episodes, tics=tics).run()
    typer.echo(f"report: {report.resolve()}")
