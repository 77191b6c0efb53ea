"""Videos held inside a table, Parquet or Arrow: a column of {bytes, path}, as Hugging Face writes it, or of bytes."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.dataengine.sources.about import about_text, stated_licence
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.packed import Brought, link, write_bytes

TABLES = ("*.parquet", "*.arrow")
_ROWS_AT_ONCE = 4                # each may hold a whole video


@dataclass(frozen=True)
class Columns:
    """Columns of videos, and those to read beside them."""
    videos: tuple[str, ...]
    others: tuple[str, ...]


def video_columns(path: Path) -> Columns | None:
    """The columns that hold videos: declared so by Hugging Face's own note, else by what their first value is.

    Raises:
        pyarrow.ArrowException, OSError: no table.
    """
    schema = _schema(path)
    declared = _declared(schema)
    holders = [field.name for field in schema if _holds_bytes(field.type)]
    videos = [name for name in holders if declared.get(name) == "Video"]
    unknown = [name for name in holders if name not in declared or declared[name] not in ("Video", "Image", "Audio")]
    videos += [name for name in unknown if _looks_like_video(path, name)]
    others = [field.name for field in schema if field.name not in holders]
    return Columns(tuple(videos), tuple(others)) if videos else None


def bring_table(path: Path, columns: Columns, origin: Path, name: str, root: Path) -> Iterator[Brought]:
    """The videos of a table at root/NAME/ROW.mp4, or under the file names that the rows give."""
    taken: set[str] = set()
    for number, row in enumerate(_rows(path, [*columns.videos, *columns.others])):
        facts = {column: row[column] for column in columns.others}
        for column in columns.videos:
            held = row[column]
            data, stored = (held.get("bytes"), held.get("path")) if isinstance(held, dict) else (held, None)
            inside = f"{name}/{_file_name(data, stored, number, column if len(columns.videos) > 1 else '', taken)}"
            problem = _write(data, stored, path.parent, origin, root / inside)
            if problem:
                yield Brought(inside, problem=f"{path.name} row {number}: {column} {problem}")
                continue
            view = {"column": column} if len(columns.videos) > 1 else {}
            about = about_text({"row": number} | facts | view | ({"path": stored} if stored else {}))
            yield Brought(inside, about=about, licence=stated_licence(facts))


def _file_name(data: bytes | None, stored: str | None, number: int, column: str, taken: set[str]) -> str:
    """A name that no other row has: the row's own file name, else its number, with the ending that its bytes tell."""
    own = posixpath.basename((stored or "").replace("\\", "/"))
    plain = f"{number:06d}" + (f".{column}" if column else "") + f".{ending_of(data or b'') or 'mp4'}"
    name = own if is_video_name(own) and len(own.encode()) < 200 and "\0" not in own else plain.replace("/", "_")
    if name in taken:
        name = f"{number:06d}-{name}"
    taken.add(name)
    return name


def _write(data: bytes | None, stored: str | None, folder: Path, origin: Path, target: Path) -> str | None:
    """Put a row's video at its name: its bytes, or a link to the file that it names; the problem where neither is."""
    if data:
        write_bytes(target, data)
        return None
    if not stored:
        return "holds no video"
    for base in (folder, origin):
        found = base / stored
        if not Path(stored).is_absolute() and ".." not in Path(stored).parts and found.is_file():
            link(found, target)
            return None
    return f"holds no bytes, and {stored[:150]!r} is no file of this folder"


def ending_of(data: bytes) -> str | None:
    """The usual ending of a video, by its first bytes; None for what is none."""
    if data[4:8] in (b"ftyp", b"moov", b"mdat", b"wide"):
        return "mov" if data[8:10] == b"qt" else "mp4"
    if data[:4] == b"\x1aE\xdf\xa3":
        return "webm" if b"webm" in data[:64] else "mkv"
    if data[:4] == b"RIFF":
        return "avi" if data[8:12] == b"AVI " else None
    return {b"FLV\x01": "flv", b"GIF8": "gif", b"\x00\x00\x01\xba": "mpg"}.get(data[:4])


def _schema(path: Path) -> pa.Schema:
    if path.suffix == ".parquet":
        return pq.read_schema(path)
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return stream.schema


def _declared(schema: pa.Schema) -> dict[str, str]:
    """What Hugging Face's note in a table says that its columns are."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: str(feature.get("_type")) for name, feature in features.items() if isinstance(feature, dict)}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _looks_like_video(path: Path, column: str) -> bool:
    for row in _rows(path, [column]):
        held: Any = row[column]
        data, stored = (held.get("bytes"), held.get("path")) if isinstance(held, dict) else (held, None)
        if data or stored:
            return ending_of(data or b"") is not None or is_video_name(posixpath.basename(stored or ""))
    return False


def _rows(path: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a table, a few in memory at a time."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns, use_threads=False):
                yield from batch.to_pylist()
        return
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
        for batch in stream:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield from batch.select(columns).slice(start, _ROWS_AT_ONCE).to_pylist()
