"""Tars with the same bytes for the same samples, in place under their final name only when whole."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worldloom.schemas.ids import file_sha256

BLOCK = 512


def tar_bytes(sizes: Sequence[int]) -> int:
    """Bytes that members of these sizes take in a tar, headers and padding included."""
    return sum(BLOCK + -(-size // BLOCK) * BLOCK for size in sizes)


def write_tar(path: Path, samples: Sequence[tuple[str, Mapping[str, bytes]]]) -> list[dict[str, Any]]:
    """Write (key, members) in order; returns key, offset, bytes and members [offset, size] of each sample."""
    temporary, entries = path.with_name(path.name + ".tmp"), []
    with temporary.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for key, members in samples:
                start, places = tar.offset, {}
                for suffix in sorted(members):
                    places[suffix] = [tar.offset + BLOCK, len(members[suffix])]
                    tar.addfile(_header(f"{key}.{suffix}", len(members[suffix])), io.BytesIO(members[suffix]))
                entries.append({"key": key, "offset": start, "bytes": tar.offset - start, "members": places})
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return entries


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, 0, 0o644
    return info


def write_text(path: Path, text: str) -> None:
    """Write a small file by rename."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def finished(tar: Path, side: Path, fingerprint: str) -> dict[str, Any] | None:
    """The note of a shard that was finished with this content, if the tar still has its size and hash."""
    try:
        note = json.loads(side.read_text(encoding="utf-8"))
        if note["fingerprint"] == fingerprint and tar.stat().st_size == note["bytes"] \
                and file_sha256(tar) == note["sha256"]:
            return note
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None
