"""The corpus on disk: immutable Parquet parts, named by their key, and the manifest that lists the current ones."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.schemas import ConfigError, arrow_schema, to_table

FORMAT_VERSION = 1
REMOTE_NOTE = ".remote.json"
"""Of a folder that is the working copy of a bucket: where that is."""


def part_path(corpus: Path, table: str, key: str) -> Path:
    return corpus / "tables" / table / f"{key}.parquet"


def scratch_path(corpus: Path, name: str) -> Path:
    """A path under corpus/tmp that no other process uses; write there, then `publish`."""
    folder = corpus / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{os.getpid()}-{uuid.uuid4().hex}-{name}"


def publish(scratch: Path, path: Path) -> None:
    """Give a finished file its name: it is there whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(scratch, path)


def write_part(corpus: Path, table: str, key: str, rows: Sequence[Any], row_type: type,
               metadata: Mapping[str, Any] | None = None) -> None:
    """Write one part; `metadata` goes into the file as JSON under the key worldloom."""
    data = to_table(rows, row_type)
    info = dict(data.schema.metadata or {}) | {b"worldloom": json.dumps(metadata or {}, sort_keys=True).encode()}
    scratch = scratch_path(corpus, f"{table}.parquet")
    pq.write_table(data.replace_schema_metadata(info), scratch, compression="zstd")
    publish(scratch, part_path(corpus, table, key))
    if (remote := _remote(corpus)) is not None and remote.lock is not None:
        remote.push_part(table, key)


def read_part(corpus: Path, table: str, key: str, row_type: type) -> list[Any]:
    from worldloom.schemas import from_table

    with _whole(part_path(corpus, table, key)) as path:
        return from_table(pq.read_table(path, schema=arrow_schema(row_type)), row_type)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """The path of a part; one that cannot be read is named, with what to do about it."""
    try:
        yield path
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{path}: damaged part ({' '.join(str(error).split())[:120]}); "
                          "remove it and run the plan again") from None


def part_metadata(corpus: Path, table: str, key: str) -> dict[str, Any]:
    with _whole(part_path(corpus, table, key)) as path:
        info = pq.read_schema(path).metadata or {}
    return json.loads(info.get(b"worldloom", b"{}"))


def read_manifest(corpus: Path) -> dict[str, list[str]]:
    """Keys of the current parts of each table, in order.

    Raises:
        ConfigError: the corpus was written by another format version.
    """
    path = corpus / "manifest.json"
    if not path.exists():
        return {}
    try:
        manifest = json.loads(path.read_text())
        version, tables = manifest["format"], manifest["tables"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: damaged; remove it and run the plan again, finished parts are found") from None
    if version != FORMAT_VERSION:
        raise ConfigError(f"{path}: corpus format {version}, this worldloom reads {FORMAT_VERSION}; "
                          "use the version that wrote it, or run the plan into a new corpus")
    return tables


def update_manifest(corpus: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Set the current parts of the tables named; the others stay. The caller holds the lock."""
    before = read_manifest(corpus)
    merged = before | {name: list(keys) for name, keys in tables.items()}
    if merged == before and (corpus / "manifest.json").exists():
        return
    scratch = scratch_path(corpus, "manifest.json")
    scratch.write_text(json.dumps({"format": FORMAT_VERSION, "tables": merged}, indent=1, sort_keys=True) + "\n")
    publish(scratch, corpus / "manifest.json")
    if (remote := _remote(corpus)) is not None:
        remote.push_manifest()


def write_table(corpus: Path, table: str, key: str, rows: Sequence[Any], row_type: type) -> None:
    """Write one part and list it, beside those already listed; an equal key replaces."""
    write_part(corpus, table, key, rows, row_type)
    with corpus_lock(corpus):
        keys = read_manifest(corpus).get(table, [])
        update_manifest(corpus, {table: [*(k for k in keys if k != key), key]})


def _remote(corpus: Path) -> Any:
    """The bucket behind a working copy; None where the folder is the corpus itself."""
    if not (corpus / REMOTE_NOTE).exists():
        return None
    from worldloom.dataengine.remote import remote_of

    return remote_of(corpus)


def refresh(corpus: Path) -> None:
    """Make the tables of a working copy those of its bucket; nothing for any other corpus."""
    if (remote := _remote(corpus)) is not None:
        remote.refresh()


def present(corpus: Path, name: str) -> Path:
    """The path of a file of the corpus, brought here first where only its bucket has it.

    Raises:
        DataError: the bucket has none.
    """
    path = corpus / name
    if not path.exists() and (remote := _remote(corpus)) is not None:
        remote.fetch(name)
    return path


def share(corpus: Path, name: str) -> None:
    """Store a file beside the tables in the bucket of a working copy; nothing for any other corpus."""
    if (remote := _remote(corpus)) is not None:
        with corpus_lock(corpus):
            remote.push_file(name)


def shown(corpus: Path) -> str:
    """How a person names the corpus: the URL of a working copy, else the folder."""
    remote = _remote(corpus)
    return str(corpus) if remote is None else str(remote.url)


_held: set[Path] = set()


@contextmanager
def corpus_lock(corpus: Path) -> Iterator[None]:
    """Hold the corpus for writing; a killed holder lets go by itself. Holding it twice in one process is fine.

    A working copy holds its bucket too, and has all finished parts here.

    Raises:
        ConfigError: another process holds it.
    """
    with folder_lock(corpus) as is_first:
        remote = _remote(corpus) if is_first else None
        with remote.writing() if remote is not None else nullcontext():
            yield


@contextmanager
def folder_lock(corpus: Path) -> Iterator[bool]:
    """Hold a corpus folder against other processes of this machine; whether this is the first hold of this one."""
    corpus = corpus.resolve()
    if corpus in _held:
        yield False
        return
    corpus.mkdir(parents=True, exist_ok=True)
    with (corpus / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InUse(f"{corpus.name}: the corpus is in use by process {file.read().strip() or '?'}; "
                        "wait for it or stop it, then run again") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.add(corpus)
        try:
            yield True
        finally:
            _held.discard(corpus)


class InUse(ConfigError):
    """Another process of this machine holds the corpus folder."""


def clear_scratch(corpus: Path) -> int:
    """Remove what killed runs left half-written; returns how many files. The caller holds the lock."""
    folder = corpus / "tmp"
    left = list(folder.iterdir()) if folder.exists() else []
    shutil.rmtree(folder, ignore_errors=True)
    return len(left)
