import subprocess
import sys

import duckdb
import pyarrow.parquet as pq
import pytest

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.catalog.cli import ask
from worldloom.schemas import TABLES, ConfigError, arrow_schema


def test_every_table_has_its_columns_even_where_it_has_no_rows(corpus) -> None:
    con = open_catalog(corpus)
    for name, row_type in TABLES.items():
        assert con.sql(f'SELECT * FROM "{name}"').columns == arrow_schema(row_type).names


@pytest.mark.parametrize("attack", [
    "COPY (SELECT 1) TO '{out}'", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
    "INSTALL httpfs", "LOAD httpfs", "ATTACH '{out}' AS x", "SET enable_external_access = true",
    "EXPORT DATABASE '{out}'", "SELECT * FROM read_parquet('https://example.org/x.parquet')"])
def test_a_query_reaches_nothing_but_the_tables(corpus, tmp_path, attack) -> None:
    with pytest.raises(ConfigError):
        ask(attack.format(out=tmp_path / "out"), corpus)
    assert not list(tmp_path.iterdir())


def test_a_query_cannot_change_the_corpus(corpus) -> None:
    before = {p: p.stat().st_mtime_ns for p in corpus.rglob("*")}
    for query in ("DELETE FROM clip", "DROP VIEW clip", "COPY (SELECT 1 a) TO '" + str(corpus) + "/tables/x.parquet'"):
        try:
            ask(query, corpus)
        except ConfigError:
            continue
    assert {p: p.stat().st_mtime_ns for p in corpus.rglob("*")} == before


def test_the_published_snapshot_says_what_the_parts_say(corpus) -> None:
    con = duckdb.connect(str(corpus / "catalog.duckdb"), read_only=True)
    ours = open_catalog(corpus)
    for table in ("clips", "score", "stage_accounts"):
        query = f"SELECT * FROM {table} ORDER BY ALL"
        assert con.sql(query).fetchall() == ours.sql(query).fetchall()


def test_answers_come_as_table_json_csv_and_parquet(corpus, tmp_path) -> None:
    def sql(*options):
        command = [sys.executable, "-m", "worldloom.cli", "sql", "select clip_id, yaw_deg from action order by 1",
                   "--corpus", str(corpus), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
    rows = open_catalog(corpus).sql("SELECT count(*) FROM action").fetchall()[0][0]
    assert sql("--csv").count("\n") == rows + 1
    assert sql("--json").count("clip_id") == rows
    sql("--parquet", str(tmp_path / "x.parquet"))
    assert pq.read_table(tmp_path / "x.parquet").num_rows == rows


def test_no_corpus_is_one_line(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-m", "worldloom.cli", "sql", "select 1", "--corpus", str(tmp_path)],
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no corpus there" in done.stderr


def test_a_query_that_takes_too_long_is_stopped(corpus) -> None:
    with pytest.raises(ConfigError, match="stopped after 0.2 s"):
        ask("SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range % 7 = 3", corpus, 0.2)
