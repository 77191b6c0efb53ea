"""worldloom sources: which formats open, what a folder of one holds, and the labels of its paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

sources_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

Kind = Annotated[str, typer.Argument(help="A kind of `worldloom sources kinds`.")]
Folder = Annotated[Path, typer.Argument(help="The folder in that format.")]
Only = Annotated[str | None, typer.Option(help="Pattern of the files to read, as paths inside the folder.")]
Fps = Annotated[float | None, typer.Option(help="Rate of pictures and poses that come without times.")]
Out = Annotated[Path, typer.Option(help="Where videos and pose files are made; a corpus makes its own.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


@sources_app.callback()
def sources() -> None:
    """Open public pose formats, and label paths that have no pictures."""


@sources_app.command()
def kinds(as_json: AsJson = False) -> None:
    """List the kinds of sources with their conventions and scale."""
    import json

    from worldloom.dataengine.sources.readers import known_readers

    for kind, reader in known_readers():
        facts = {name: getattr(reader, name, None) for name in ("convention", "scale_status", "pose_mode")}
        row = {"kind": kind, "convention": facts["convention"], "scale": facts["scale_status"] or "-",
               "poses": facts["pose_mode"] or "-"}
        typer.echo(json.dumps(row) if as_json else
                   f"{kind:<14}{row['poses']:<8}{row['scale']:<10}{row['convention'] or '-'}")


@sources_app.command("open")
def open_folder(kind: Kind, folder: Folder, out: Out = Path("opened"), only: Only = None, fps: Fps = None,
                as_json: AsJson = False) -> None:
    """Bring a folder in: videos with a pose file beside each, readable as a `posed` source. Exit 3 on any problem."""
    rows = [_facts(entry, path) for entry, path in _opened(kind, folder, out, only, fps)]
    _print(rows, as_json)


@sources_app.command()
def label(kind: Kind, folder: Folder, out: Out = Path("opened"), only: Only = None, fps: Fps = None,
          as_json: AsJson = False) -> None:
    """Label every path of a folder from its poses, pictures or none. Exit 3 on any problem."""
    rows = []
    for entry, path in _opened(kind, folder, out, only, fps):
        row = _facts(entry, path)
        rows.append(row if row["problem"] or not row["poses"] else _labelled(row, path))
    _print(rows, as_json)


def _opened(kind: str, folder: Path, out: Path, only: str | None, fps: float | None) -> list[tuple[Any, Path]]:
    from worldloom.dataengine.sources import SourceParams, open_source
    from worldloom.schemas import ConfigError

    reader = open_source(SourceParams(name=folder.resolve().name, kind=kind, path=str(folder), only=only, fps=fps))
    reader.prepare(out)
    entries = list(reader.entries())
    if not entries:
        raise ConfigError(f"{folder}: nothing of kind {kind} here")
    return [(entry, Path(reader.root) / (entry.sidecar or entry.name)) for entry in entries]


def _facts(entry: Any, path: Path) -> dict[str, Any]:
    import json

    if entry.problem:
        return {"name": entry.name, "problem": entry.problem}
    if entry.sidecar is None or path.suffix != ".json":
        return {"name": entry.name, "problem": None, "poses": 0}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {"name": entry.name, "problem": None, "poses": len(document.get("poses", ())),
            "read_as": document.get("read_as"), "unit_m": document.get("unit_m"), "fps": document.get("fps"),
            "gravity": document.get("gravity")}


def _labelled(row: dict[str, Any], path: Path) -> dict[str, Any]:
    """The row with what the path does; the problem where it cannot be labelled."""
    import numpy as np

    from worldloom.annotators.actions.consistency import consistency
    from worldloom.annotators.actions.trajectory import path_action, summary
    from worldloom.annotators.camera.given import read_sidecar
    from worldloom.schemas import DataError

    try:
        given = read_sidecar(path)
        fps, action = path_action(path, given, row["name"], row["fps"])
    except DataError as error:
        return row | {"problem": str(error)}
    found: dict[str, Any] = {name: round(float(getattr(action, name).sum()), 2) for name in ("yaw_deg", "pitch_deg")}
    for axis, names in (("longitudinal", ("backward", "still", "forward")), ("lateral", ("left", "centre", "right"))):
        track = np.asarray(getattr(action, axis))[1:]
        found |= {name: round(float(np.mean(track == value)), 3) for name, value in zip(names, (-1, 0, 1), strict=True)}
    whole = summary(given, action, fps)
    found |= {name: round(whole[name], 3) for name in ("path_length", "heading_range_deg", "turning_frames")}
    if given.keys is not None:
        axes = ("longitudinal", "lateral", "yaw", "pitch")
        keys = {name: track for name, track in given.keys.items() if name in axes}
        verdict = consistency(given.world_from_cam_N44, **keys)
        found |= {"keys_fit": verdict.holds, "why": verdict.reason}
    return row | found


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    import json

    for row in rows:
        if as_json:
            typer.echo(json.dumps(row))
        else:
            rest = "  ".join(f"{name} {value}" for name, value in row.items() if name != "name" and value is not None)
            typer.echo(f"{row['name']}: {rest}")
    if any(row["problem"] for row in rows):
        raise typer.Exit(3)
