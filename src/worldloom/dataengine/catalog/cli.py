"""`worldloom sql`, `worldloom catalog`, `worldloom failures`: asking the catalog."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from worldloom.dataengine.corpus_option import Corpus

catalog_app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def sql_command(
    query: Annotated[str, typer.Argument(help="One SELECT statement, in DuckDB's SQL.")],
    corpus: Corpus = Path("corpus"),
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV on standard output.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the answer to this Parquet file.")] = None,
    seconds: Annotated[float, typer.Option(help="Give up after so long; 0: never.")] = 300.0,
) -> None:
    """Ask the catalog in SQL; it can be read, and nothing else."""
    answer = ask(query, corpus, seconds)
    if parquet is not None:
        import pyarrow.parquet as pq

        pq.write_table(answer, parquet)
        typer.echo(f"{answer.num_rows:,} rows in {parquet}", err=True)
    elif csv:
        import pyarrow.csv as pa_csv

        pa_csv.write_csv(_flat(answer), sys.stdout.buffer)
    elif json:
        import json as json_module

        typer.echo(json_module.dumps(answer.to_pylist(), default=str, ensure_ascii=False))
    else:
        show(answer)


def ask(query: str, corpus: Path, seconds: float = 0.0) -> Any:
    """The answer as an Arrow table; `seconds` is the time it may take, 0 any.

    Raises:
        ConfigError: DuckDB refuses the query, or it takes longer.
    """
    import threading

    import duckdb

    from worldloom.dataengine.catalog import open_catalog
    from worldloom.schemas import ConfigError

    con = open_catalog(corpus)
    clock = threading.Timer(seconds, con.interrupt)
    clock.daemon = True
    if seconds:
        clock.start()
    try:
        kinds = [statement.type for statement in con.extract_statements(query)]
        if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
            names = ", ".join(kind.name for kind in kinds) or "nothing"
            raise ConfigError(f"query: one SELECT is wanted, found {names}; the catalog can be read and nothing else")
        return con.sql(query).to_arrow_table()
    except duckdb.InterruptException:
        raise ConfigError(f"query: stopped after {seconds:g} s; ask for less, or allow more with --seconds") from None
    except duckdb.Error as error:
        raise ConfigError(f"query: {' '.join(str(error).split())}") from None
    finally:
        clock.cancel()
        if seconds:
            clock.join()


def _flat(answer: Any) -> Any:
    """Lists and structs as JSON text, which CSV can hold."""
    import json as json_module

    import pyarrow as pa

    columns = [pa.array([None if v is None else json_module.dumps(v) for v in column.to_pylist()])
               if pa.types.is_nested(column.type) else column for column in answer.columns]
    return pa.table(dict(zip(answer.column_names, columns, strict=True)))


def show(answer: Any, limit: int = 200) -> None:
    """Print a table for people; cells are text, whatever they hold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, header_style="bold")
    for name in answer.column_names:
        table.add_column(Text(name))
    for row in answer.slice(0, limit).to_pylist():
        table.add_row(*[Text(_cell(value)) for value in row.values()])
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    if answer.num_rows > limit:
        console.print(f"{answer.num_rows - limit:,} more rows; use --csv, --json or --parquet")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    text = "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= 100 else text[:99] + "…"


@catalog_app.command("tables")
def tables(corpus: Corpus = Path("corpus")) -> None:
    """Tables and views with their rows."""
    import pyarrow as pa

    from worldloom.dataengine.catalog import open_catalog
    from worldloom.dataengine.catalog.open import row_types
    from worldloom.dataengine.catalog.views import VIEWS

    con = open_catalog(corpus)
    types = row_types()
    names = [*types, *VIEWS]
    counts = [con.execute(f'SELECT count(*) FROM "{n}"').fetchall()[0][0] for n in names]
    about = [(types[n].__doc__ or "").strip().split("\n")[0] if n in types else "view" for n in names]
    show(pa.table({"table": names, "rows": counts, "holds": about}))


@catalog_app.command("publish")
def publish(corpus: Corpus = Path("corpus")) -> None:
    """Write catalog.duckdb, a snapshot for any DuckDB client."""
    from worldloom.dataengine.catalog import publish_catalog

    typer.echo(publish_catalog(corpus))


def failures_command(
    stage: Annotated[str | None, typer.Argument(help="One stage; all when left out.")] = None,
    corpus: Corpus = Path("corpus"),
) -> None:
    """Files and clips that failed, with what was found and what was wanted."""
    from worldloom.dataengine.catalog import open_catalog

    con = open_catalog(corpus)
    found = con.sql("SELECT stage, row_key, error, detail FROM failure WHERE $1 IS NULL OR stage = $1 "
                    "ORDER BY stage, row_key", params=[stage])
    show(found.to_arrow_table(), limit=10_000)
