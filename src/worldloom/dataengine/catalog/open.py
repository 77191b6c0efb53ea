"""Opening the catalog for reading, and publishing a snapshot for any DuckDB client."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from worldloom.dataengine.catalog.scale_views import MACROS
from worldloom.dataengine.catalog.views import VIEWS
from worldloom.dataengine.store import part_path, read_manifest, refresh, scratch_path, share, shown
from worldloom.schemas import TABLES, ConfigError, arrow_schema

ALIASES = {"camera_truth": "camera", "action_truth": "action"}
"""Tables that hold another table's row type."""
GROWN = {"video": ("about",)}
"""Text columns that a table got later: parts written before lack them, and read as null."""


def row_types() -> dict[str, type]:
    return dict(TABLES) | {name: TABLES[of] for name, of in ALIASES.items()}


def open_catalog(corpus: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with one view a table. It reads the corpus's tables and nothing else: no other file,

    no network, no extension, and nothing that a query says can change that.

    Raises:
        ConfigError: there is no corpus at that path.
    """
    refresh(corpus)
    if not (corpus / "manifest.json").exists():
        name = shown(corpus)
        raise ConfigError(f"{name}: no corpus there; make one with worldloom run PLAN --corpus {name}")
    con = duckdb.connect(":memory:", config={"autoinstall_known_extensions": False,
                                             "autoload_known_extensions": False})
    con.execute(f"SET allowed_directories = [{_quoted(str((corpus / 'tables').resolve()) + '/')}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET enable_progress_bar = false")
    manifest = read_manifest(corpus)
    for name, row_type in row_types().items():
        paths = [part_path(corpus.resolve(), name, key) for key in manifest.get(name, [])]
        con.execute(f'CREATE VIEW "{name}" AS {_select(con, name, row_type, [str(p) for p in paths])}')
    for name, query in MACROS.items():
        con.execute(f"CREATE MACRO {name} AS TABLE {query}")
    for name, query in VIEWS.items():
        con.execute(f"CREATE VIEW {name} AS {query}")
    con.execute("SET lock_configuration = true")
    return con


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _select(con: duckdb.DuckDBPyConnection, name: str, row_type: type, paths: list[str]) -> str:
    if paths:
        files = f"[{', '.join(map(_quoted, paths))}]"
        if name not in GROWN:
            return f"SELECT * FROM read_parquet({files})"
        found = f"read_parquet({files}, union_by_name=true)"
        have = {row[0] for row in con.sql(f"DESCRIBE SELECT * FROM {found}").fetchall()}
        missing = "".join(f", NULL::VARCHAR AS {column}" for column in GROWN[name] if column not in have)
        return f"SELECT *{missing} FROM {found}"
    empty = arrow_schema(row_type).empty_table()
    con.register("_empty", empty)
    con.execute(f"CREATE TABLE _{name} AS SELECT * FROM _empty")
    con.unregister("_empty")
    return f"SELECT * FROM _{name}"


def publish_catalog(corpus: Path) -> Path:
    """Write catalog.duckdb, a copy of every table and view, and put it in place by rename."""
    source = open_catalog(corpus)
    scratch = scratch_path(corpus, "catalog.duckdb")
    target = duckdb.connect(str(scratch))
    for name in row_types():
        target.register("_rows", source.sql(f'SELECT * FROM "{name}"').to_arrow_table())
        target.execute(f'CREATE TABLE "{name}" AS SELECT * FROM _rows')
        target.unregister("_rows")
    for name, query in MACROS.items():
        target.execute(f"CREATE MACRO {name} AS TABLE {query}")
    for name, query in VIEWS.items():
        target.execute(f'CREATE VIEW "{name}" AS {query}')
    target.close()
    source.close()
    os.replace(scratch, corpus / "catalog.duckdb")
    share(corpus, "catalog.duckdb")
    return corpus / "catalog.duckdb"
