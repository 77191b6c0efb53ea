"""The report: one HTML file that needs nothing beside it, runs no script and asks no network."""

from __future__ import annotations

import base64
import os
import shlex
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from worldloom.report import sections
from worldloom.report.figures import Chart
from worldloom.report.tables import Tables
from worldloom.report.template import TEMPLATE


def write_report(out: Path, con: duckdb.DuckDBPyConnection, corpus: Path, *, title: str, training_dir: Path | None,
                 timings: list[tuple[str, float]], shards_dir: Path | None) -> Path:
    """Write report.html of a corpus into the folder `out` (or to `out`, where it ends in .html); returns its path.

    A section without data says so in one sentence. Timings are stages and seconds, in the order to show.
    """
    path = out if out.suffix == ".html" else out / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = render(collect(Tables(con), corpus, path.parent, title, training_dir, timings, shards_dir))
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text, encoding="utf-8", errors="backslashreplace")
    scratch.replace(path)
    return path


def collect(tables: Tables, corpus: Path, beside: Path, title: str, training_dir: Path | None,
            timings: list[tuple[str, float]], shards_dir: Path | None) -> dict[str, Any]:
    """Everything that the template shows."""
    clips = tables.shown_clips(max(sections.STRIPS, sections.PATHS))
    labels = tables.labels(clips)
    slowest = max((seconds for _, seconds in timings), default=0.0)
    return {
        "title": title,
        "tiles": sections.summary(tables, training_dir),
        "accounts": sections.accounts(tables),
        "strips": sections.filmstrips(tables, corpus, clips[:sections.STRIPS], labels),
        "paths": sections.trajectories(tables, clips, labels),
        "yaw": sections.yaw(tables),
        "selections": sections.selections(tables),
        "left_out": sections.left_out(tables),
        "captions": sections.captions(tables),
        "mix": sections.mixes(tables, shards_dir),
        "training": sections.trained(training_dir),
        "timings": [(name, seconds, seconds / slowest if slowest else 0.0) for name, seconds in timings],
        "total_s": sum(seconds for _, seconds in timings),
        "queries": sections.queries(tables),
        "corpus": shlex.quote(Path(os.path.relpath(corpus, beside)).as_posix()),
    }


def render(content: dict[str, Any]) -> str:
    """The page; every text that comes from data is escaped."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"jpeg": _jpeg, "png": _png, "chart": _chart, "figure": _figure}
    return environment.from_string(TEMPLATE).render(content)


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _jpeg(data: bytes) -> str:
    return _uri("jpeg", data)


def _png(data: bytes) -> str:
    return _uri("png", data)


def _chart(chart: Chart) -> Markup:
    """Both colour schemes of a chart; the reader's preference picks one."""
    return Markup('<picture><source srcset="{}" media="(prefers-color-scheme: dark)">'
                  '<img class="chart" src="{}" alt="{}"></picture>').format(_png(chart.dark), _png(chart.light),
                                                                            chart.alt)


def _figure(value: float | None, form: str = ".3f") -> str:
    return "too few frames" if value is None else format(value, form)
