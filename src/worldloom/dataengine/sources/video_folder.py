"""VideoFolder's metadata: metadata.csv, .jsonl or .parquet whose rows name video files and say something of them."""

from __future__ import annotations

import csv
import json
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.dataengine.objects import safe_name
from worldloom.dataengine.sources.files import is_video_name
from worldloom.schemas import DataError

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_ONE, _MANY = "file_name", "file_names"
_CSV_FIELD_BYTES = 16 << 20


@dataclass
class Described:
    """Rows by the video that they name, POSIX inside the dataset, and what was wrong with the metadata."""
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    named_by: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def facts(self, name: str) -> dict[str, Any]:
        """All that is said of a video: its first row, and under `rows` those that follow."""
        first, *rest = self.rows.get(name, [{}])
        return first | ({"rows": rest} if rest else {})

    def problems(self, wanted: Callable[[Path], bool], origin: Path) -> Iterator[tuple[str, str]]:
        """(name, problem) of every bad row, and of every named video that is not there."""
        yield from self.wrong.items()
        for name, row in self.named_by.items():
            if not (origin / name).is_file() and wanted(origin / name):
                yield name, f"{row} names {name}, which is not there"


def read_metadata(path: Path, origin: Path, into: Described) -> None:
    """Add the rows of a metadata file; what is wrong with it is noted, and the rest still read."""
    inside = path.relative_to(origin).as_posix()
    folder, videos, count = posixpath.dirname(inside), 0, 0
    try:
        for count, row in enumerate(_READERS[path.suffix](path), start=1):
            if isinstance(row, DataError):
                into.wrong[f"{inside} row {count}"] = f"{inside} {row}"
                continue
            videos += _add(row, folder, f"{inside} row {count}", into)
    except (csv.Error, ValueError, OSError, pa.ArrowException) as error:
        into.wrong[inside] = f"{inside} cannot be read after row {count}: {' '.join(str(error).split())[:200]}"
        return
    if not videos and inside not in into.wrong:
        into.wrong[inside] = f"{inside}: {count} rows, and none names a video; wanted a column file_name or *_file_name"


def _add(row: dict[str, Any], folder: str, place: str, into: Described) -> int:
    """Note what a row says of the videos that it names; how many those are."""
    columns = {column: value for column, value in row.items()
               if column in (_ONE, _MANY) or str(column).endswith((f"_{_ONE}", f"_{_MANY}"))}
    facts = {column: value for column, value in row.items() if column not in columns}
    found = 0
    for column, value in columns.items():
        for named in value if isinstance(value, list) else [value]:
            if not isinstance(named, str) or not is_video_name(posixpath.basename(named)):
                continue
            found += 1
            name = posixpath.normpath(posixpath.join(folder, named))
            if not safe_name(name):
                into.wrong[place] = f"{place} names {named[:100]!r}, which cannot be a file of the dataset"
                continue
            view = {} if column in (_ONE, _MANY) else {"column": column.rpartition("_file_name")[0]}
            into.rows.setdefault(name, []).append(facts | view)
            into.named_by.setdefault(name, place)
    return found


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_CSV_FIELD_BYTES)
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: value for name, value in row.items() if name is not None}


def _jsonl(path: Path) -> Iterator[dict[str, Any] | DataError]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield DataError(f"line {number}: {error}")
                continue
            yield row if isinstance(row, dict) else DataError(f"line {number}: one JSON object is wanted")


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1000):
            yield from batch.to_pylist()


_READERS: dict[str, Callable[[Path], Iterator[Any]]] = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
