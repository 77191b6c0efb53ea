"""What video2dataset writes: shards 00000.tar or folders 00000/ of KEY.mp4, KEY.json, KEY.txt, and 00000.parquet.

Every row of a shard has a JSON and a row of the table, those that could not be had too, with their status and error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.packed import MOST_CHARACTERS, Brought, Bundle, PackedReader
from worldloom.dataengine.sources.shards import Shard, key_of, read_folder, read_tar
from worldloom.dataengine.sources.webdataset import problems, sample
from worldloom.schemas import DataError

SUCCESS = "success"
_BOOKKEEPING = ("status", "error_message")


@dataclass(frozen=True)
class Table:
    """The rows of a shard's table by key; `problem` says why there are none."""
    rows: Mapping[str, dict[str, Any]]
    problem: str | None = None


class Video2DatasetReader(PackedReader):
    """Every video of every shard, tars and folders; each row without its video is one problem."""

    def bundles(self) -> Iterator[Bundle]:
        tars = {path.with_suffix(""): path for path in self.matching("*.tar")}
        tables = {path.with_suffix(""): path for path in self.matching("*.parquet")}
        folders = {path for path in (*tables, *self.origin.iterdir()) if path.is_dir() and path not in tars
                   and (path in tables or path.name.isdigit() and self.wanted(path))}
        for shard in sorted(tars.keys() | tables.keys() | folders):
            name = self.inside(shard)
            tar, table = tars.get(shard), shard.with_suffix(".parquet")
            files = (tar, table) if tar else () if shard in folders else (table,)
            yield Bundle(name, files, partial(bring_shard, tar, shard, table, name))


def bring_shard(tar: Path | None, folder: Path, table: Path, name: str, root: Path) -> Iterator[Brought]:
    """The videos of a shard, then a line for each row that has none."""
    rows = read_rows(table)
    if tar is not None:
        shard = read_tar(tar, name, root)
    else:
        shard = read_folder(folder, name, root) if folder.is_dir() else Shard(name)
    for member in shard.videos:
        facts = rows.rows.get(key_of(member), {}) | shard.facts(member)
        yield sample(shard, member, {k: v for k, v in facts.items() if k not in _BOOKKEEPING}, root)
    yield from problems(shard, tar.name if tar else name)
    if rows.problem:
        yield Brought(f"{name}.parquet", problem=rows.problem)
    yield from _without_video(shard, rows.rows)


def read_rows(path: Path) -> Table:
    """The table of a shard; embedded videos are left where they are."""
    if not path.is_file():
        return Table({})
    try:
        with pq.ParquetFile(path) as file:
            names = [field.name for field in file.schema_arrow if not pa.types.is_binary(field.type)]
            embedded = [field.name for field in file.schema_arrow if pa.types.is_binary(field.type)]
            rows = [row for batch in file.iter_batches(1000, columns=names) for row in batch.to_pylist()]
    except (pa.ArrowException, OSError) as error:
        return Table({}, f"{path.name} cannot be read ({' '.join(str(error).split())[:120]}); was its shard finished?")
    if any(is_video_name(f"x.{name}") for name in embedded):
        return Table({}, f"{path.name} holds its videos inside the table; kind huggingface reads it")
    return Table({str(row["key"]): row for row in rows if row.get("key") is not None})


def _without_video(shard: Shard, rows: Mapping[str, dict[str, Any]]) -> Iterator[Brought]:
    """One line for each row that has no video; of a shard cut short, for those whose status says so."""
    had = {key_of(member) for member in (*shard.videos, *shard.problems)}
    told = {key: shard.facts(f"{key}.mp4") for key in shard.without_video()}
    for key, facts in sorted((dict(rows) | told).items()):
        status = str(facts.get("status") or SUCCESS)
        if key in had or status == SUCCESS and shard.cut_short:
            continue
        yield Brought(shard.place(key), problem=str(_problem(key, status, facts)))


def _problem(key: str, status: str, facts: Mapping[str, Any]) -> DataError:
    if status == SUCCESS:
        return DataError(f"row {key}: status success, and no video is there")
    why = " ".join(str(facts.get("error_message") or "no error given").split())
    url = f" ({facts['url']})" if facts.get("url") else ""
    return DataError(f"row {key}: {status}: {why[:MOST_CHARACTERS - len(url[:150])]}{url[:150]}")
