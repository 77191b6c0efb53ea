"""Episodes of a LeRobot dataset whose pictures lie in its data tables: PNG or JPEG bytes, one a row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from worldloom.dataengine.sources.formats.reader import inside_folder
from worldloom.schemas import DataError

_ROWS_AT_ONCE = 64


def episodes_of(table: Path, camera: str, folder: Path) -> Iterator[tuple[int, Iterator[bytes]]]:
    """(episode, its pictures in order) of a table; take each episode's pictures before asking for the next.

    Raises:
        DataError: the table has no such column, or a row holds no picture.
    """
    with pq.ParquetFile(table, pre_buffer=False) as file:
        lacking = sorted({"episode_index", camera} - set(file.schema_arrow.names))
        if lacking:
            raise DataError(f"{table.name} has no column {lacking[0]}")
        batches = file.iter_batches(_ROWS_AT_ONCE, columns=["episode_index", camera], use_threads=False)
        rows = (row for batch in batches for row in batch.to_pylist())
        for episode, group in groupby(rows, key=lambda row: int(row["episode_index"])):
            yield episode, (_picture(row[camera], table, folder) for row in group)


def encode(pictures: Iterator[bytes], length: int | None, fps: float, target: Path) -> None:
    """One video of the pictures, at even intervals from 0.

    Raises:
        DataError: a picture cannot be read, or they are not as many as `length` says.
    """
    from worldloom.dataengine.sources.formats.pictures import encode_pictures

    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.part")
    with TemporaryDirectory(dir=target.parent, prefix=".pictures-") as folder:
        paths = _unpacked(pictures, Path(folder))
        if length is not None and len(paths) != length:
            raise DataError(f"{len(paths)} pictures; its length is {length}")
        encode_pictures(paths, np.arange(len(paths)) / fps, scratch)
    os.replace(scratch, target)


def _unpacked(pictures: Iterator[bytes], folder: Path) -> Sequence[Path]:
    paths = []
    for number, picture in enumerate(pictures):
        paths.append(folder / f"picture {number}")
        paths[-1].write_bytes(picture)
    return paths


def _picture(held: Any, table: Path, folder: Path) -> bytes:
    """The bytes of a row's picture, its own or those of the file inside the dataset that it names."""
    data, path = (held.get("bytes"), held.get("path")) if isinstance(held, dict) else (held, None)
    if not data and isinstance(path, str) and (file := inside_folder(folder, path)) is not None:
        data = file.read_bytes()
    if not isinstance(data, bytes) or not data:
        raise DataError(f"{table.name}: a row holds no picture")
    return data
