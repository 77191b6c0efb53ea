"""`worldloom labels`: what the action labels of a corpus hold, and how they stand against the pixels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from worldloom.dataengine.corpus_option import Corpus

labels_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@labels_app.callback()
def labels() -> None:
    """Check action labels against the pixels, and compare their scale across sources."""


OneClip = Annotated[str | None, typer.Option("--clip", help="One clip; else all of them.")]
Stride = Annotated[int, typer.Option(help="Frames of a latent: 4 for Wan, 8 for LTX.")]
Truth = Annotated[bool, typer.Option("--truth", help="Labels of the recorder's truth instead of the estimated ones.")]
Uncertain = Annotated[str, typer.Option(help="What to do with an uncertain latent: refuse, or none (no action).")]


@labels_app.command()
def latents(
    corpus: Corpus = Path("corpus"), clip: OneClip = None, stride: Stride = 4,
    alignment: Annotated[str, typer.Option(help="causal_first (0, s, 2s), first_two (0, 1, s + 1), uniform, or the "
                                                "frames of the first latents, such as 5.")] = "causal_first",
    start: Annotated[int, typer.Option(help="First frame of the window.")] = 0,
    truth: Truth = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV instead of JSON lines.")] = False,
) -> None:
    """Print actions per latent: sums of turns, movement by displacement; null where a label is uncertain."""
    import csv as csv_module
    import json
    import sys

    from worldloom.annotators.actions.views import latent_rows

    lead = [int(size) for size in alignment.split(",")] if alignment.replace(",", "").isdigit() else alignment
    writer = None
    for action, camera in _labelled(corpus, clip, truth):
        for row in latent_rows(action, camera, stride, lead, start):
            if not csv:
                typer.echo(json.dumps(row))
                continue
            if writer is None:
                writer = csv_module.DictWriter(sys.stdout, list(row))
                writer.writeheader()
            writer.writerow(row)


@labels_app.command()
def string(
    corpus: Corpus = Path("corpus"), clip: OneClip = None, stride: Stride = 4, truth: Truth = False,
    yaw: Annotated[float, typer.Option(help="Degrees of one turning latent.")] = 3.0,
    pitch: Annotated[float, typer.Option(help="Degrees of one looking latent.")] = 3.0,
    uncertain: Uncertain = "refuse",
) -> None:
    """Print each clip as a WorldPlay2 action string, such as w+right-8,s-4."""
    from worldloom.annotators.actions.views import action_string

    for action, camera in _labelled(corpus, clip, truth):
        text = action_string(action, camera, stride, yaw_deg=yaw, pitch_deg=pitch, uncertain=uncertain)
        typer.echo(text if clip else f"{action.clip_id}\t{text}")


@labels_app.command()
def hy81(
    corpus: Corpus = Path("corpus"), clip: OneClip = None, stride: Stride = 4, truth: Truth = False,
    order: Annotated[str, typer.Option(help="Whose numbers: hy_worldplay, minwm_strings or biwm.")] = "hy_worldplay",
    least_turn: Annotated[float, typer.Option(help="Degrees a latent above which a turn counts; 0.05 as HY-WorldPlay "
                                                   "does, more where labels are estimated.")] = 0.05,
    uncertain: Uncertain = "refuse",
) -> None:
    """Print the HY-WorldPlay action class (0 to 80) of each latent, as JSON lines."""
    import json

    from worldloom.annotators.actions.views import hy_classes

    for action, camera in _labelled(corpus, clip, truth):
        classes = hy_classes(action, camera, stride, order=order, uncertain=uncertain, least_turn_deg=least_turn)
        typer.echo(json.dumps({"clip_id": action.clip_id, "order": order, "classes": classes.tolist()}))


@labels_app.command()
def audit(
    corpus: Corpus = Path("corpus"),
    clips: Annotated[int | None, typer.Option(min=1, help="At most so many clips, by id; else all.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a picture of the worst clips (.png).")] = None,
    truth: Truth = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """Hold action labels against the pixels, independently of the estimator; worst clips first.

    Rows of the stage `audit` are used where the corpus has them; else clips are checked now, and nothing is stored.
    """
    import json as json_module

    from worldloom.annotators.actions.audit import AXES, MIN_AGREEMENT
    from worldloom.schemas import ConfigError

    found = sorted(_audited(corpus, clips, truth), key=lambda one: _badness(one["audit"]))
    if not found:
        raise ConfigError(f"{corpus}: none of the clips could be checked")
    rows = [{"clip": one["audit"].clip_id, "video": one["video"], "verdict": one["audit"].verdict,
             "lag": one["audit"].lag_frames,
             "agreement": None if one["audit"].agreement is None else round(one["audit"].agreement, 4),
             **{axis: _share(one["audit"], axis) for axis in AXES}} for one in found]
    if json:
        for row in rows:
            typer.echo(json_module.dumps(row))
    else:
        _show(rows)
        typer.echo(f"each axis: share of checked frames that agree, of how many; below {MIN_AGREEMENT:.0%} with 95 % "
                   "confidence it disagrees")
    if out is not None:
        _picture(corpus, found[:4], out)
        typer.echo(f"{out}: the worst {min(4, len(found))} of {len(found)} clips", err=True)


@labels_app.command()
def scale(
    corpus: Corpus = Path("corpus"), stride: Stride = 4,
    out: Annotated[Path | None, typer.Option(help="Write the plot (.png).")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """Distance of a W latent and degrees of a turning latent by source; those off by more than 25 % are flagged."""
    import json as json_module

    from worldloom.dataengine.catalog import open_catalog
    from worldloom.schemas import ConfigError

    rows = open_catalog(corpus).sql("SELECT * FROM action_scale_at($1)", params=[stride]).to_arrow_table().to_pylist()
    if not rows:
        raise ConfigError(f"{corpus}: no clip with a camera and an action; run a plan with both stages first")
    if json:
        for row in rows:
            typer.echo(json_module.dumps(row))
    else:
        _show([_scale_row(row) for row in rows])
    if out is not None:
        from worldloom.annotators.actions.scale_picture import draw_scale

        draw_scale(rows, out)
        typer.echo(f"{out}: {len(rows)} sources", err=True)


def _scale_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table for people: medians with their quartiles, and what is flagged."""
    def spread(name: str, digits: int, ending: str = "", unit: str = "") -> str:
        values = [row[f"{name}_{q}{ending}"] for q in ("median", "q25", "q75")]
        return "-" if None in values else "{:.{d}f} ({:.{d}f} to {:.{d}f}){}".format(*values, unit, d=digits)

    def flag(name: str) -> str:
        off = row[f"{name}_off"]
        if name == "w" and not row["w_is_comparable"]:
            return "not comparable"
        return "-" if off is None else f"{off:+.0%}" + (" FLAGGED" if row[f"{name}_flagged"] else "")

    return {"source": row["source"], "scale": row["scale_status"], "clips": f"{row['clips']:,}",
            "W latents": f"{row['w_latents']:,}", "distance (quartiles)": spread("w", 3, unit=f" {row['unit']}"),
            "to median": flag("w"), "turning": f"{row['turn_latents']:,}",
            "degrees (quartiles)": spread("turn", 2, "_deg"), "to median ": flag("turn"),
            "focal": "known" if row["is_calibrated"] else "assumed"}


def _show(rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa

    from worldloom.dataengine.catalog.cli import show

    show(pa.Table.from_pylist(rows))


def _audited(corpus: Path, limit: int | None, truth: bool) -> Iterator[dict[str, Any]]:
    """Clips with their audit: stored, or made now; one that cannot be read is named on standard error."""
    from worldloom.annotators.actions.audit import AuditStage
    from worldloom.dataengine.stage import Context
    from worldloom.dataengine.store import read_manifest, read_part
    from worldloom.schemas import Audit, Clip, DataError, Source, Video

    labelled = sorted(_labelled(corpus, None, truth), key=lambda pair: pair[0].clip_id)[:limit]
    manifest = read_manifest(corpus)

    def rows(table: str, row_type: type, key: str) -> dict[str, Any]:
        found = (row for part in manifest.get(table, []) for row in read_part(corpus, table, part, row_type))
        return {getattr(row, key): row for row in found}

    clips, videos = rows("clip", Clip, "clip_id"), rows("video", Video, "video_id")
    sources, stored = rows("source", Source, "source_id"), {} if truth else rows("audit", Audit, "clip_id")
    stage = AuditStage()
    stage.setup(Context(corpus))
    for action, camera in labelled:
        clip = clips[action.clip_id]
        try:
            if camera is None:
                raise DataError("no camera row; the check needs its lens, so run a plan with a camera stage")
            if (made := stored.get(clip.clip_id)) is None:
                made = next(stage.process({"action": action, "camera": camera, "clip": clip}))
        except DataError as error:
            typer.echo(f"clip {clip.clip_id}: {error}", err=True)
            continue
        yield {"audit": made, "action": action, "clip": clip, "video": videos[clip.video_id].name,
               "source": sources[clip.source_id].name}


def _badness(audit: Any) -> tuple[bool, float]:
    """Sorts shifted and disagreeing clips first, then by agreement; those that say nothing come last."""
    return audit.verdict not in ("shifted", "disagrees"), 2.0 if audit.agreement is None else audit.agreement


def _share(audit: Any, axis: str) -> str | None:
    share, count = getattr(audit, f"{axis}_agreement"), getattr(audit, f"{axis}_checked")
    return None if share is None else f"{share:.0%} of {count}"


def _picture(corpus: Path, found: list[dict[str, Any]], out: Path) -> None:
    import numpy as np

    from worldloom.annotators.actions.audit_picture import Audited, Shot, draw, frames_to_show
    from worldloom.annotators.actions.flow_check import FlowMeter
    from worldloom.dataengine.stage import Context
    from worldloom.dataengine.video.read import read_frames

    drawn = []
    for one in found:
        clip, made = one["clip"], one["audit"]
        height = max(2, round(clip.height * 320 / clip.width))
        rgb_THWC = read_frames(Context(corpus).media_path(clip), width=320, height=height)
        gray = np.dot(rgb_THWC[..., :3], (0.299, 0.587, 0.114)).astype(np.uint8)
        meter = FlowMeter(np.full(gray.shape[1:], 255, np.uint8))
        shots = tuple(Shot(t, rgb_THWC[t], meter.between(gray[t - 1], gray[t])) for t in frames_to_show(made))
        drawn.append(Audited(one["video"], one["source"], clip.fps, one["action"], made, shots))
    draw(drawn, out)


def _labelled(corpus: Path, clip: str | None, truth: bool) -> Iterator[tuple[Any, Any]]:
    """Action and camera of the clips asked for, the camera None where the corpus holds none.

    Raises:
        ConfigError: no such labels.
    """
    from worldloom.dataengine.store import read_manifest, read_part
    from worldloom.schemas import Action, Camera, ConfigError

    tables = ("action_truth", "camera_truth") if truth else ("action", "camera")
    manifest, found = read_manifest(corpus), 0
    cameras = {row.clip_id: row for key in manifest.get(tables[1], [])
               for row in read_part(corpus, tables[1], key, Camera) if clip in (None, row.clip_id)}
    for key in manifest.get(tables[0], []):
        for action in read_part(corpus, tables[0], key, Action):
            if clip in (None, action.clip_id):
                found += 1
                yield action, cameras.get(action.clip_id)
    if not found:
        raise ConfigError(f"{corpus}: no {tables[0]} row" + (f" of clip {clip}" if clip else "") +
                          "; run a plan with an action stage first")
