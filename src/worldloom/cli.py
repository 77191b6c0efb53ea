"""The one command `worldloom`: groups are found by entry point and imported when they are used."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import EntryPoint, entry_points

import click

SHORT_HELP = {
    "camera": "Check pose conventions against the pixels.",
    "catalog": "Tables and views of a corpus, and its published snapshot.",
    "demo": "Record gameplay, label, mix, pack, train, evaluate: one report at the end.",
    "failures": "Files and clips that failed, with their errors.",
    "labels": "Check action labels against the pixels; their scale by source.",
    "mix": "Compile a mix document and show what it would realise.",
    "pack": "Write the shards of a mix.",
    "record": "Record game engines with exact truth.",
    "run": "Run a plan: compute what is missing.",
    "schema": "Print the data dictionary or a table's JSON Schema.",
    "shards": "Verify shards.",
    "sources": "Open public pose formats; label paths without pictures.",
    "sql": "Ask the catalog in SQL.",
    "train": "Train, roll out and evaluate a model.",
}


class LazyGroup(click.Group):
    """A group whose commands stay unimported until one of them runs."""

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group="worldloom.commands")}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._points())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        point = self._points().get(name)
        if point is None:
            return None
        module, _, attribute = point.value.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        return found if isinstance(found, click.Command) else _from_typer(found, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, SHORT_HELP.get(name, "(plug-in)")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _from_typer(found: object, name: str) -> click.Command:
    import typer

    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name)(found)  # type: ignore[type-var]
    return _TyperCommand(app, name)


class _TyperCommand(click.Command):
    """Hands the arguments on to a Typer application, whichever click it was built with."""

    def __init__(self, app: object, name: str) -> None:
        super().__init__(name, context_settings={"ignore_unknown_options": True, "help_option_names": []},
                         add_help_option=False)
        self.app = app

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def invoke(self, ctx: click.Context) -> None:
        import typer

        command = typer.main.get_command(self.app)  # type: ignore[arg-type]
        command(args=ctx.args, prog_name=f"worldloom {self.name}")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="worldloom")
def root() -> None:
    """worldloom: raw video in; action labels, captions, an SQL catalog, exact mixes, shards and a trained model out."""


def main() -> None:
    """Run the command; an error that a person can act on is one line and exit 1."""
    from worldloom.schemas.errors import WorldloomError

    try:
        root()
    except WorldloomError as error:
        click.echo(f"worldloom: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        click.echo(f"worldloom: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
