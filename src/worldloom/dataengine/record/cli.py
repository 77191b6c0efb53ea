"""`worldloom record`: video with exact truth from game engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

record_app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
                         help="Record game engines with exact truth.")


@record_app.callback()
def _group() -> None:
    """Record game engines with exact truth."""


@record_app.command("vizdoom")
def vizdoom_command(
    out: Annotated[Path, typer.Option(help="Folder of the videos and their truth; finished ones are kept.")],
    maps: Annotated[str, typer.Option(help="Maps, separated by commas.")] = "map01",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each map.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first episode.")] = 1,
    tics: Annotated[int, typer.Option(min=2, help="Frames of each episode, 35 a second.")] = 700,
    policy: Annotated[str, typer.Option(help="explore, mixed, turn, rotate, strafe, back, jump, look, forward or "
                                             "stationary.")] = "mixed",
    width: Annotated[int, typer.Option(help="Picture width; the engine must have the size.")] = 320,
    height: Annotated[int, typer.Option(help="Picture height.")] = 240,
    hud: Annotated[bool, typer.Option("--hud/--no-hud", help="Draw the status bar.")] = False,
    weapon: Annotated[bool, typer.Option("--weapon/--no-weapon", help="Draw the weapon.")] = False,
    pinhole: Annotated[bool, typer.Option("--pinhole", help="Rectify to a true pinhole camera (slower).")] = False,
    third_person: Annotated[bool, typer.Option("--third-person", help="Follow the player from behind.")] = False,
    fov_deg: Annotated[float, typer.Option(help="Horizontal view of the engine.")] = 90.0,
    hfov_deg: Annotated[float, typer.Option(help="Horizontal view of a pinhole picture.")] = 75.0,
    skill: Annotated[int, typer.Option(min=1, max=5, help="Difficulty.")] = 2,
    wad: Annotated[str, typer.Option(help="Game data that comes with the engine.")] = "freedoom2.wad",
    workers: Annotated[int, typer.Option(min=1, help="Episodes recorded at the same time.")] = 1,
) -> None:
    """Record Freedoom play: H.264 video at 35 frames a second, and pose, keys, events and objects of every frame."""
    from worldloom.dataengine.record.vizdoom import FPS, record_many

    names = [name for name in dict.fromkeys(part.strip().lower() for part in maps.split(",")) if name]
    with _progress() as bar:
        task = bar.add_task("record", total=len(names) * episodes * tics, rate="")
        paths = record_many(
            out, names, episodes, seed, tics, policy, workers=workers, width=width, height=height, hud=hud,
            weapon=weapon, pinhole=pinhole, third_person=third_person, fov_deg=fov_deg, hfov_deg=hfov_deg, skill=skill,
            wad=wad, progress=lambda done, total, path: _show(bar, task, done * tics))
    typer.echo(f"{len(paths)} recordings of up to {tics / FPS:.1f} s in {out}")


@record_app.command("world")
def world_command(
    out: Annotated[Path, typer.Option(help="Folder of the videos and their truth; finished ones are kept.")],
    scenes: Annotated[str, typer.Option(help="Of town, rooms and terrain, separated by commas.")] = "town",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each scene.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode; it makes the place too.")] = 1,
    seconds: Annotated[float, typer.Option(help="Length of each episode.")] = 12.0,
    policy: Annotated[str, typer.Option(help="explore, mixed, turn, rotate, look, strafe, back, jump, walk, forward, "
                                             "idle, stationary, wall, door, loop, square or showcase.")] = "mixed",
    perspective: Annotated[str, typer.Option(help="fps (from the eye) or tps (from behind the body).")] = "fps",
    width: Annotated[int, typer.Option(help="Picture width.")] = 320,
    height: Annotated[int, typer.Option(help="Picture height.")] = 240,
    hfov_deg: Annotated[float, typer.Option(help="Horizontal view.")] = 75.0,
    fps: Annotated[int, typer.Option(min=1, help="Frames a second.")] = 24,
    daylight: Annotated[float, typer.Option(help="0 night to 1 noon.")] = 1.0,
    event: Annotated[list[str] | None, typer.Option(help="KIND or KIND@SECONDS, any number of times: object_added, "
                                                         "object_dropped, object_removed, rain, snow, fog, dusk, "
                                                         "dawn, lamps_off, lamps_on.")] = None,
    depth_every: Annotated[int, typer.Option(min=0, help="Save the depth of every Nth frame; 0 saves none.")] = 0,
    twin: Annotated[bool, typer.Option("--twin", help="Save the same play without events too.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Episodes recorded at the same time.")] = 1,
) -> None:
    """Record a procedural 3-D world: H.264 video, and pose, body, keys, events and objects of every frame."""
    from worldloom.dataengine.record.world.record import record_world

    names = [name for name in dict.fromkeys(part.strip().lower() for part in scenes.split(",")) if name]
    frames = round(seconds * fps)
    with _progress() as bar:
        task = bar.add_task("record", total=len(names) * episodes * frames, rate="")
        paths = record_world(
            out, scenes=names, episodes=episodes, seed=seed, seconds=seconds, policy=policy, perspective=perspective,
            width=width, height=height, hfov_deg=hfov_deg, fps=fps, daylight=daylight, events=tuple(event or ()),
            depth_every=depth_every, save_twin=twin, workers=workers,
            progress=lambda done, total, path: _show(bar, task, done * frames))
    typer.echo(f"{len(paths)} recordings of {seconds:.1f} s in {out}")


def _progress():  # noqa: ANN202 (a rich type, imported only here)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("frames"),
                    TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=Console(stderr=True))


def _show(bar, task, frames: int) -> None:  # noqa: ANN001 (as above)
    bar.update(task, completed=frames)
    speed = bar.tasks[0].speed
    bar.update(task, rate=f"{speed:.0f} frames/s" if speed else "")
