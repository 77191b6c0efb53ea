"""`worldloom record`: video with exact truth from game engines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

record_app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
                         help="Record game engines with exact truth.")


@record_app.callback()
def _group() -> None:
    """Record game engines with exact truth."""


@record_app.command("vizdoom")
def vizdoom_command(
    out: Annotated[Path, typer.Option(help="Folder of the videos and their truth; finished ones are kept.")],
    maps: Annotated[str, typer.Option(help="all, or names, numbers and ranges, separated by commas: map01,4,10-12. "
                                           "The default is map01, and of scenarios all.")] = "",
    scenario: Annotated[str, typer.Option(help="all, or small worlds that come with the engine, separated by commas; "
                                               "none records the game.")] = "",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each map.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first episode.")] = 1,
    tics: Annotated[int, typer.Option(min=2, help="Frames of each episode, 35 a second.")] = 700,
    policy: Annotated[str, typer.Option(help="cover (goes everywhere), events (items, fights, doors, weapons), "
                                             "explore, mixed, turn, rotate, strafe, back, jump, look, forward or "
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
    thin_from: Annotated[Path | None, typer.Option(help="Recordings or a corpus: what is thin there is recorded "
                                                        "(policy thin; the emptiest maps get the episodes).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Episodes recorded at the same time.")] = 1,
) -> None:
    """Record Freedoom play: H.264 video at 35 frames a second, and pose, keys, events and objects of every frame."""
    from worldloom.dataengine.record.vizdoom import FPS, chosen_maps, chosen_scenarios, record_many

    games = [(name, chosen_maps(maps or ("all" if name else "map01"), wad, name))
             for name in chosen_scenarios(scenario)]
    more: list[dict[str, Any]] = [{}] * len(games)
    if thin_from is not None:
        from worldloom.dataengine.record.thin import thin_vizdoom

        more, policy = thin_vizdoom(thin_from, games, episodes, tics), "thin"
    paths: list[Path] = []
    with _progress() as bar:
        task = bar.add_task("record", total=sum(len(names) for _, names in games) * episodes * tics, rate="")
        for (name, names), options in zip(games, more, strict=True):
            before = len(paths)
            paths += record_many(
                out, names, episodes, seed, tics, policy, workers=workers, width=width, height=height, hud=hud,
                weapon=weapon, pinhole=pinhole, third_person=third_person, fov_deg=fov_deg, hfov_deg=hfov_deg,
                skill=skill, wad=wad, scenario=name, **options,
                progress=partial(_show_episodes, bar, task, tics, before))
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
    people: Annotated[int, typer.Option(min=0, help="People who walk about.")] = 0,
    variants: Annotated[int, typer.Option(min=0, help="Record each play so many more times with another look: "
                                                      "textures, hour, weather; the same poses and actions.")] = 0,
    thin_from: Annotated[Path | None, typer.Option(help="Recordings or a corpus: what is thin there is recorded "
                                                        "(policy thin; scenes, perspective and events too).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Episodes recorded at the same time.")] = 1,
) -> None:
    """Record a procedural 3-D world: H.264 video, and pose, body, keys, events and objects of every frame."""
    from worldloom.dataengine.record.world.record import record_world

    names = [name for name in dict.fromkeys(part.strip().lower() for part in scenes.split(",")) if name]
    frames = round(seconds * fps)
    more: dict[str, Any] = {}
    if thin_from is not None:
        from worldloom.dataengine.record.thin import thin_world

        more = thin_world(thin_from, names, episodes, frames, tuple(event or ()))
        policy, perspective, event = "thin", more.pop("perspective"), more.pop("events")
    with _progress() as bar:
        task = bar.add_task("record", total=len(names) * episodes * (variants + 1) * frames, rate="")
        paths = record_world(
            out, scenes=names, episodes=episodes, seed=seed, seconds=seconds, policy=policy, perspective=perspective,
            width=width, height=height, hfov_deg=hfov_deg, fps=fps, daylight=daylight, events=tuple(event or ()),
            depth_every=depth_every, save_twin=twin, workers=workers, people=people,
            variants=variants, **more,
            progress=lambda done, total, path: _show(bar, task, done * frames))
    typer.echo(f"{len(paths)} recordings of {seconds:.1f} s in {out}")


@record_app.command("coverage")
def coverage_command(
    path: Annotated[Path, typer.Argument(help="A folder of recordings, or a corpus with actions.")],
    picture: Annotated[Path | None, typer.Option(help="Draw it too, as this .png.")] = None,
) -> None:
    """Say which action cells, events, places and perspectives are thin."""
    from worldloom.dataengine.record.coverage import coverage_of, known_of
    from worldloom.dataengine.record.coverage_report import draw, lines_of

    coverage = coverage_of(path)
    known = known_of(coverage)
    for line in lines_of(coverage, known):
        typer.echo(line)
    if picture is not None:
        draw(coverage, picture, known)
        typer.echo(f"drawn as {picture}")


def _progress():  # noqa: ANN202 (a rich type, imported only here)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("frames"),
                    TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=Console(stderr=True))


def _show_episodes(bar, task, frames: int, before: int, done: int, total: int, path: Path) -> None:  # noqa: ANN001
    _show(bar, task, (before + done) * frames)


def _show(bar, task, frames: int) -> None:  # noqa: ANN001 (as above)
    bar.update(task, completed=frames)
    speed = bar.tasks[0].speed
    bar.update(task, rate=f"{speed:.0f} frames/s" if speed else "")
