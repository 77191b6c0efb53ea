"""Which files go into which part: finished groups stay as they are, new files make new groups."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldloom.dataengine.stage import decode_name
from worldloom.dataengine.store import part_metadata, part_path, publish, read_manifest, scratch_path
from worldloom.schemas import ConfigError, ids


@dataclass(frozen=True)
class SourceFile:
    """A file of a source, by content. `problem` says why it cannot be read."""
    source_id: str
    name: str
    path: str
    sidecar: str | None
    sha256: str | None
    sidecar_sha256: str | None
    problem: str | None = None
    same_bytes_as: str | None = None
    about: str | None = None

    def identity(self) -> list[str | None]:
        """What enters the key of the part: no path of this machine. The sidecar's hash covers what it points at."""
        return [self.source_id, self.name, self.sha256, self.sidecar, self.sidecar_sha256, self.problem,
                self.same_bytes_as, *([self.about] if self.about is not None else [])]


class HashCache:
    """SHA-256 of files by (path, size, mtime), kept beside the corpus so that a rerun reads no video."""

    def __init__(self, corpus: Path) -> None:
        self.path = corpus / "hashes.json"
        self.corpus = corpus
        self.known: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.used: dict[str, Any] = {}

    def sha256(self, path: Path) -> str:
        stat = path.stat()
        name, facts = ids.digest(str(path).encode("utf-8", "surrogateescape").hex()), [stat.st_size, stat.st_mtime_ns]
        entry = self.known.get(name)
        if entry is None or entry[:2] != facts:
            entry = [*facts, ids.file_sha256(path)]
        self.used[name] = entry
        return entry[2]

    def save(self) -> None:
        merged = self.known | self.used
        if merged != self.known:
            scratch = scratch_path(self.corpus, "hashes.json")
            scratch.write_text(json.dumps(merged))
            publish(scratch, self.path)


def source_files(readers: Iterable[Any], corpus: Path) -> list[SourceFile]:
    """Every file of every source, sorted; the second of two equal ones names the first."""
    cache = HashCache(corpus)
    first: dict[str, str] = {}
    found: list[SourceFile] = []
    for reader in readers:
        entries = sorted(reader.entries(), key=lambda e: e.name)
        if not entries:
            raise ConfigError(f"source {reader.source_row().name}: no video under {reader.root}; nothing was changed")
        for entry in entries:
            file = _hashed(entry, cache)
            if file.sha256 is not None:
                other = first.setdefault(file.sha256, file.name)
                if other != file.name or any(f.sha256 == file.sha256 for f in found if f.name == file.name):
                    file = SourceFile(**{**_as_dict(file), "same_bytes_as": other})
            found.append(file)
    cache.save()
    return found


def _as_dict(file: SourceFile) -> dict[str, Any]:
    return {name: getattr(file, name) for name in SourceFile.__dataclass_fields__}


def _hashed(entry: Any, cache: HashCache) -> SourceFile:
    path, sidecar = Path(entry.path), entry.sidecar
    problem = entry.problem or ("not a regular file" if path.exists() and not path.is_file() else None)
    if problem:
        return SourceFile(entry.source_id, entry.name, str(path), None, None, None, problem=problem)
    try:
        sha = cache.sha256(path)
        hashes = [cache.sha256(_beside(path, entry.name, name)) for name in (sidecar, *entry.beside) if name]
        sidecar_sha = hashes[0] if len(hashes) == 1 else (ids.digest(hashes, 64) if hashes else None)
    except OSError as error:
        problem = error.strerror or "unreadable"
        return SourceFile(entry.source_id, entry.name, str(path), None, None, None, problem=problem)
    return SourceFile(entry.source_id, entry.name, str(path), sidecar, sha, sidecar_sha, about=entry.about)


def _beside(path: Path, name: str, sidecar: str) -> Path:
    """The sidecar's path: both names are relative to the source's root."""
    root = path
    for _ in Path(decode_name(name)).parts:
        root = root.parent
    return root / decode_name(sidecar)


def grouped(files: list[SourceFile], corpus: Path, size: int) -> list[tuple[SourceFile, ...]]:
    """The groups of the current parts, less what is gone, then the new files in groups of `size`."""
    by_identity = {json.dumps(f.identity()): f for f in files}
    groups, seen = [], set()
    for key in read_manifest(corpus).get("video", []):
        if not part_path(corpus, "video", key).exists():
            continue
        names = [json.dumps(identity) for identity in part_metadata(corpus, "video", key).get("files", [])]
        seen.update(names)
        kept = tuple(by_identity[name] for name in names if name in by_identity)
        if kept:
            groups.append(kept)
    rest = [f for name, f in by_identity.items() if name not in seen]
    return groups + [tuple(rest[i:i + size]) for i in range(0, len(rest), size)]
