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
    video: Annotated[Path, typer.Argument(help="The video, or a folder of pictures.")],
    poses: Annotated[Path, typer.Argument(help="VIDEO.poses.json, VIDEO.truth.parquet, .npy (N,4,4), text of 7, 8, 12 "
                                               "or 16 numbers a row, RealEstate10K, COLMAP's images.txt, NeRF's "
                                               "transforms.json, or a folder of 4x4 texts.")],
    hfov: Annotated[float | None, typer.Option(help="Horizontal field of view in degrees; else the file's camera, else "
                                                    "50 to 90 are tried.")] = None,
    start: Annotated[float, typer.Option(help="Where to begin to look, in seconds from the first frame.")] = 0.0,
    seconds: Annotated[float, typer.Option(help="How much of the video to look at.")] = 30.0,
    body: Annotated[Path | None, typer.Option(help="Where the poses are of a body that carries the camera: its "
                                                   "sensor.yaml with T_BS, or a text of 4x4 numbers.")] = None,
    frame_times: Annotated[Path | None, typer.Option(help="Times of the video's frames on the clock of the poses: a "
                                                          "text whose lines begin with seconds, or with ns.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which pose convention fits the pixels.

    Exit 0: one holds. 2: several cannot be told apart. 1: none holds, or an error.
    """
    import json

    from worldloom.annotators.camera.doctor import diagnose
    from worldloom.annotators.camera.doctor_files import read_extrinsic, read_frame_times

    found = diagnose(video, poses, hfov_deg=hfov, start_s=start, seconds=seconds,
                     body_from_cam_44=read_extrinsic(body) if body else None,
                     frame_times_s=read_frame_times(frame_times) if frame_times else None)
    typer.echo(json.dumps(found.as_json(), indent=1) if as_json else report(found))
    raise typer.Exit(EXIT_CODES[found.verdict])


def report(found: Diagnosis) -> str:
    """The diagnosis as text: a table of hypotheses, then the verdict."""
    lines = [f"{found.pairs} pairs of pictures, points move {found.flow_px:.1f} px of 320; "
             f"intrinsics {found.intrinsics}", "",
             f"{'convention':<24}{'error px':>9}{'epipolar px':>13}{'in front':>10}{'hfov':>7}  verdict"]
    for row in found.hypotheses:
        note = " (same camera motion)" if row.same_motion else ""
        lines.append(f"{row.convention:<24}{row.error_px:>9.2f}{row.epipolar_px:>13.2f}{row.forward_share:>10.0%}"
                     f"{row.hfov_deg:>7.1f}  {row.verdict}{note}")
    lines += ["", _verdict(found)]
    if found.declared_holds is False:
        lines.append(f"the file declares {found.declared}, which does not hold")
    return "\n".join(lines)


def _verdict(found: Diagnosis) -> str:
    sure = f"confidence {found.confidence:.2f}, the next is {found.margin:.1f} times worse"
    if found.verdict == "holds":
        return f"holds: {found.candidates[0]} ({sure})"
    if found.verdict == "none holds":
        return (f"none holds: the best is off by {found.hypotheses[0].error_px:.2f} px (confidence "
                f"{found.confidence:.2f}); the poses may belong to other frames, another camera or a lens with "
                "distortion")
    if len(found.candidates) == len(found.hypotheses):
        return (f"cannot be told apart: all {len(found.candidates)} conventions; the camera hardly moves, so any of "
                "them fits; look elsewhere with --start")
    return (f"cannot be told apart: {', '.join(found.candidates)} ({sure}); more kinds of motion are wanted: turns "
            "about every axis, or moving up and sideways")
