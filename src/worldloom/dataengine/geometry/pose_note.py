"""Where a pose note's numbers lie: JSON that declares a convention and leaves the poses to a file beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worldloom.schemas import DataError

ENDINGS = (".csv", ".npy", ".txt")


def candidates(note_path: Path, note: Mapping[str, Any]) -> list[Path]:
    """The files that are there and may hold the note's poses: its "file", or those of its name with another ending.

    Raises:
        DataError: "file" leads to another folder.
    """
    named = note.get("file")
    if named is not None and (not isinstance(named, str) or Path(named).name != named):
        raise DataError(f"{note_path.name}: \"file\" is {named!r}; wanted a name in the same folder")
    found = [note_path.with_name(named)] if named else [note_path.with_suffix(end) for end in ENDINGS]
    return [path for path in found if path.is_file()]


def noted_files(note_path: Path) -> Iterator[Path]:
    """Every file beside a pose file that its meaning depends on; none for one that holds its poses itself.

    A note that cannot be read names nothing here: the stage that reads the poses says why.
    """
    note: Any = {}
    if note_path.suffix == ".json" and b'"file"' in (raw := note_path.read_bytes()):
        try:
            note = json.loads(raw)
        except ValueError:
            return
    try:
        found = candidates(note_path, note if isinstance(note, dict) else {}) if note_path.suffix == ".json" else []
    except DataError:
        return
    yield from found
    for path in (*found, note_path):
        cameras = path.with_name("cameras.txt")
        if path.suffix == ".txt" and cameras.is_file():
            yield cameras
