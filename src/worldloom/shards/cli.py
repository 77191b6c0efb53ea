"""`worldloom mix`, `worldloom pack`, `worldloom shards`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worldloom.dataengine.corpus_option import Corpus, OptionalCorpus

mix_app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
shards_app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
MixFile = Annotated[Path, typer.Argument(metavar="MIX", help="The mix document, a YAML file.")]


@mix_app.callback()
def mix_group() -> None:
    """Compile a mix document and show what it would realise."""


@shards_app.callback()
def shards_group() -> None:
    """Verify shards."""


@mix_app.command("compile")
def mix_compile(mix: MixFile, corpus: Corpus = Path("corpus"),
                json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Show what a mix would realise; nothing is written."""
    import json as json_module

    from worldloom.dataengine.catalog import open_catalog
    from worldloom.shards.compile import compile_mix
    from worldloom.shards.mix import load_mix

    report = compile_mix(open_catalog(corpus), load_mix(mix)).report
    if json:
        typer.echo(json_module.dumps(report))
        return
    _show(report)


def _show(report: dict) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = ("component", "weight", "available", "allotted", "realised", "clips", "repeats", "without_labels")
    table = Table(title=Text(f"{report['name']} {report['digest']}: {report['samples']} samples, "
                             f"{report['total']} {report['unit']}"), show_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == "component" else "right")
    for part in report["components"]:
        table.add_row(*[Text(f"{v:.4g}" if isinstance(v := part[n], float) else str(v)) for n in names])
    Console(width=120).print(table)


def pack_command(mix: MixFile, corpus: Corpus = Path("corpus"),
                 shard_mib: Annotated[int, typer.Option(min=1, help="Largest shard, in MiB.")] = 32) -> None:
    """Write the shards of a mix; run again after a kill, it goes on."""
    from worldloom.schemas import WorldloomError
    from worldloom.shards.pack import pack

    try:
        result = pack(corpus, mix, shard_bytes=shard_mib * 2**20)
    except OSError as error:
        raise WorldloomError(f"{error.filename or corpus}: {error.strerror}; finished shards are kept, "
                             "run again when that is put right") from None
    typer.echo(f"{result.samples} samples in {result.shards} shards ({result.reused} already there)")
    typer.echo(result.dir)


@shards_app.command("verify")
def verify_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of shards.")],
    corpus: OptionalCorpus = None,
) -> None:
    """Check tars, index and samples; exit 1 when anything is wrong."""
    from worldloom.shards.verify import verify

    count = None
    if corpus is not None:
        from worldloom.shards.pack import catalog_samples

        count = catalog_samples(corpus, folder.resolve().name)
    problems = verify(folder, count)
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)
    typer.echo(f"{folder}: all samples are whole")
