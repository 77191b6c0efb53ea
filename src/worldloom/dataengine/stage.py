"""What a stage is: a named, versioned function from rows to rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from worldloom.schemas import Clip, DataError, Drop, Failure, Video


class Params(BaseModel):
    """Parameters of a stage: frozen, unknown keys refused, every field enters the key."""
    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Context:
    """Where things lie on this machine. Nothing here enters a key."""
    corpus: Path
    locations: Mapping[str, str] = field(default_factory=dict)   # source_id -> root folder

    def video_path(self, video: Video) -> Path:
        return self._inside(video.source_id, video.name)

    def sidecar_path(self, video: Video) -> Path | None:
        return self._inside(video.source_id, video.sidecar) if video.sidecar else None

    def media_path(self, clip: Clip) -> Path:
        """The clip's file; of a corpus in a bucket, brought here first. Raises DataError where it is gone."""
        from worldloom.dataengine.store import present

        return present(self.corpus, clip.media)

    def _inside(self, source_id: str, name: str) -> Path:
        root = self.locations.get(source_id)
        if root is None:
            raise DataError(f"source {source_id}: its folder is not known here; name it in the plan")
        return Path(root) / decode_name(name)


def encode_name(path: str) -> str:
    """A file name as valid text: undecodable bytes become backslash escapes, and a backslash doubles."""
    return path.replace("\\", "\\\\").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def decode_name(name: str) -> str:
    """Inverse of `encode_name`, byte for byte."""
    if "\\" not in name:
        return name
    out, i, raw = bytearray(), 0, name.encode("utf-8")
    while i < len(raw):
        if raw[i:i + 2] == b"\\\\":
            out += b"\\"
            i += 2
        elif raw[i:i + 2] == b"\\x":
            out.append(int(raw[i + 2:i + 4], 16))
            i += 4
        else:
            out.append(raw[i])
            i += 1
    return out.decode("utf-8", "surrogateescape")


class Alive:
    """What a stage may yield between rows to say that it gets on: no row, only a new start of its time budget."""


ALIVE = Alive()

Inputs = Mapping[str, Any]
"""The rows a stage reads for one item, by table: {"clip": Clip, "camera": Camera, "video": Video, "score": [Score, …]}.

The first table in `reads` gives the items; rows of the others are joined by key and missing (absent) where an
earlier stage dropped or failed them. A table with several rows an item gives a list.
"""


class Stage(Protocol):
    """A named, versioned function from rows to rows. `setup` runs once in each worker, `process` once an item.

    A stage that reads "file" may have `takes(file) -> bool`: it gets those files alone, and the other such stages of
    the plan get the rest.
    """
    name: ClassVar[str]                 # also the table it writes
    version: ClassVar[int]              # goes up when equal inputs would give other rows
    reads: ClassVar[tuple[str, ...]]    # tables; the first gives the items
    optional: ClassVar[tuple[str, ...]] # tables of `reads` that may lack a row
    writes: ClassVar[type]              # row type
    budget_s: ClassVar[float]           # a worker with no row or ALIVE for longer is killed and its item fails
    params: Any                         # a Params

    def setup(self, context: Context) -> None: ...
    def process(self, item: Inputs) -> Iterator[Any | Drop | Failure | Alive]:
        """Rows for one item. DataError raised here fails the item alone; anything else stops the run."""
        ...


def params_json(stage: Stage) -> dict[str, Any]:
    return json.loads(stage.params.model_dump_json())
