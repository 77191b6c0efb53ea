"""What every executor does with one part: load its rows, join them, run the stage on each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldloom.dataengine.stage import ALIVE, Context
from worldloom.dataengine.store import read_part
from worldloom.schemas import DataError, Drop, Failure, key_column


@dataclass(frozen=True)
class Job:
    """One part to make: the stage, the parts it reads, and the files where the stage reads those."""
    reference: str                       # module:class of the stage
    params: Mapping[str, Any]
    key: str
    inputs: Mapping[str, str]            # table -> key of the part
    row_types: Mapping[str, type]        # table -> row type
    files: tuple[Any, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


NATIVE = ("av", "cv2")
"""Libraries whose own errors come from the pictures they were given: they fail the row, as a DataError does."""


def make_stage(job: Job, context: Context) -> Any:
    from worldloom.dataengine.plan import load_stage

    stage = load_stage(job.reference, job.params)
    stage.setup(context)
    return stage


def items(job: Job, stage: Any, corpus: Path) -> list[tuple[str, dict[str, Any]]]:
    """(key, rows by table) of every item of the part, in order. An item lacking a needed row is left out:

    an earlier stage has dropped or failed it, and has said so.
    """
    first = stage.reads[0]
    if first == "file":
        return [(file.name, {"file": file}) for file in job.files]
    rows = {table: read_part(corpus, table, key, job.row_types[table]) for table, key in job.inputs.items()}
    joined = []
    for row in rows[first]:
        item: dict[str, Any] = {first: row}
        for table in stage.reads[1:]:
            if table in rows and (found := _match(row, item, rows[table], job.row_types[table])) is not None:
                item[table] = found
        if all(table in item or table in stage.optional for table in stage.reads):
            joined.append((getattr(row, key_column(job.row_types[first])), item))
    return joined


def _match(row: Any, item: Mapping[str, Any], candidates: list[Any], row_type: type) -> Any:
    column = key_column(row_type)
    holder = row if hasattr(row, column) else next((r for r in item.values() if hasattr(r, column)), None)
    wanted = getattr(holder, column, None)
    found = [c for c in candidates if getattr(c, column) == wanted]
    if row_type.__name__ == "Score":
        return found or None
    return found[0] if found else None


def run_item(stage: Any, key: str, item: Mapping[str, Any], beat: Callable[[], None] = lambda: None) -> list[Any]:
    """The rows a stage yields for one item, with a `beat` after each row or ALIVE; a DataError becomes its Failure."""
    file = item.get("file")
    if file is not None and (early := _settled(stage, file)) is not None:
        return [early]
    try:
        rows = []
        for row in stage.process(item):
            if row is not ALIVE:
                rows.append(row)
            beat()
        return rows
    except Exception as error:
        if not isinstance(error, DataError) and type(error).__module__.split(".")[0] not in NATIVE:
            raise
        return [Failure(stage=stage.name, row_key=key, error=type(error).__name__, detail=one_line(error))]


def _settled(stage: Any, file: Any) -> Drop | Failure | None:
    """A file that needs no decoding to be accounted for: unreadable, or the same bytes as another."""
    if file.problem is not None:
        return Failure(stage=stage.name, row_key=file.name, error="OSError", detail=f"{file.name}: {file.problem}")
    if file.same_bytes_as is not None:
        return Drop(stage=stage.name, row_key=file.name, reason="same_bytes",
                    detail=f"{file.name}: the same bytes as {file.same_bytes_as}")
    return None


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:500]
    return text.encode("utf-8", "backslashreplace").decode()
