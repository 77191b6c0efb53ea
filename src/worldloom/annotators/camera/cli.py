"""worldloom camera doctor: check a pose file's convention against the pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from worldloom.annotators.camera.doctor import Diagnosis

camera_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
EXIT_CODES = {"holds": 0, "none holds": 1, "cannot be told apart": 2}


@camera_app.callback()
def camera() -> None:
    """Check pose conventions against the pixels."""


@camera_app.command()
def doctor(
    video: Annotated[Path, typer.Argument(help="The video.")],
    poses: Annotated[Path, typer.Argument(help="VIDEO.poses.json, .npy (N,4,4), text of 12 or 16 numbers a row, or a "
                                               "folder of 4x4 texts.")],
    hfov: Annotated[float | None, typer.Option(help="Horizontal field of view in degrees; else the file's camera, else "
                                                    "50 to 90 are tried.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which pose convention fits the pixels.

    Exit 0: one holds. 2: several cannot be told apart. 1: none holds, or an error.
    """
    import json

    from worldloom.annotators.camera.doctor import diagnose

    found = diagnose(video, poses, hfov_deg=hfov)
    typer.echo(json.dumps(found.as_json(), indent=1) if as_json else report(found))
    raise typer.Exit(EXIT_CODES[found.verdict])


def report(found: Diagnosis) -> str:
    """The diagnosis as text: a table of hypotheses, then the verdict."""
    lines = [f"{found.pairs} pairs of frames, corners move {found.flow_px:.1f} px of 320; "
             f"intrinsics {found.intrinsics}", "",
             f"{'convention':<22}{'error px':>9}{'epipolar px':>13}{'in front':>10}{'hfov':>7}  verdict"]
    for row in found.hypotheses:
        note = " (same camera motion)" if row.same_motion else ""
        lines.append(f"{row.convention:<22}{row.error_px:>9.2f}{row.epipolar_px:>13.2f}{row.forward_share:>10.0%}"
                     f"{row.hfov_deg:>7.1f}  {row.verdict}{note}")
    best_left = f"confidence {found.confidence:.2f}, the next is {found.margin:.1f} times worse"
    if found.verdict == "holds":
        lines += ["", f"holds: {found.candidates[0]} ({best_left})"]
    elif found.verdict == "none holds":
        lines += ["", f"none holds: the best is off by {found.hypotheses[0].error_px:.2f} px (confidence "
                      f"{found.confidence:.2f}); the poses may belong to "
                      "other frames, another camera or a lens with distortion"]
    else:
        lines += ["", f"cannot be told apart: {', '.join(found.candidates)} ({best_left}); more kinds of motion are "
                      "wanted: turns about every axis, or moving up and sideways"]
    if found.declared and found.declared not in found.candidates:
        lines.append(f"the file declares {found.declared}, which does not hold")
    return "\n".join(lines)
