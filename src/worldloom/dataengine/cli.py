"""`worldloom run`: compute what a plan is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worldloom.dataengine.corpus_option import Corpus


def run_command(
    plan: Annotated[Path, typer.Argument(help="The plan, a YAML file.")],
    corpus: Corpus = Path("corpus"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run and why.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; the plan's own by default.")] = None,
    executor: Annotated[str, typer.Option(help="inline or pool.")] = "pool",
    json: Annotated[bool, typer.Option("--json", help="The row accounts as JSON.")] = False,
) -> None:
    """Run a plan. Exit 1 when the plan is refused, 3 when some rows failed and the others are done."""
    import json as json_module

    from worldloom.dataengine.catalog import publish_catalog
    from worldloom.dataengine.plan import load_plan
    from worldloom.dataengine.runner import run_plan
    from worldloom.dataengine.store import shown

    report = run_plan(load_plan(plan), corpus, executor=executor, workers=workers, dry_run=dry_run,
                      say=(lambda line: None) if json else typer.echo)
    if json:
        typer.echo(json_module.dumps([{"stage": s.stage, "key": s.key, "made": s.made, **s.counts}
                                      for s in report.stages]))
    if dry_run:
        return
    published, manifest = corpus / "catalog.duckdb", corpus / "manifest.json"
    if not published.exists() or published.stat().st_mtime_ns < manifest.stat().st_mtime_ns:
        publish_catalog(corpus)
    if report.failed:
        typer.echo(f"{report.failed} failed: worldloom failures --corpus {shown(corpus)}", err=True)
        raise typer.Exit(3)
