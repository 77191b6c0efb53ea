"""Where each sample lies in the tars: from index.json, or by scanning tars that came without one."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldloom.schemas import ConfigError, DataError
from worldloom.schemas.ids import digest
from worldloom.shards.sample import REQUIRED, read_json, split_name

INDEX_NAME = "index.json"


@dataclass(frozen=True)
class Entry:
    """One sample: its tar and the [offset, size] of each member."""
    key: str
    shard: str
    members: dict[str, list[int]]
    component: str = ""
    clip_id: str = ""
    num_frames: int = 0


@dataclass
class Index:
    """Usable samples in order, and what was found wrong."""
    digest: str
    entries: list[Entry]
    problems: list[str] = field(default_factory=list)


def shards_folder(path: Path) -> Path:
    """The folder that holds the tars: `path` itself, or the one packed mix below it (shards/<name>).

    Raises:
        ConfigError: several mixes were packed under that name.
    """
    packed = sorted(p.parent for p in path.glob(f"*/{INDEX_NAME}"))
    if (path / INDEX_NAME).exists() or not packed:
        return path
    if len(packed) > 1:
        raise ConfigError(f"{path}: {len(packed)} packed mixes, name one: {', '.join(p.name for p in packed)}")
    return packed[0]


def read_index(folder: Path) -> Index:
    """Index of a folder of shards.

    Raises:
        ConfigError: no shards, or a shard that the index names is missing or has another size.
    """
    path = folder / INDEX_NAME
    document = _document(path) if path.exists() else None
    if document is None:
        names = sorted(p.name for p in folder.glob("*.tar"))
        if not names:
            raise ConfigError(f"{folder}: no shards there")
        return scan(folder, names)
    check_shards(folder, document)
    if "samples" not in document:
        return scan(folder, [s["name"] for s in document["shards"]])
    names = [s["name"] for s in document["shards"]]
    entries = [Entry(s["key"], names[s["shard"]], s["members"], s["component"], s["clip_id"], s["num_frames"])
               for s in document["samples"]]
    return Index(document["mix"], entries)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if all(Path(s["name"]).name == s["name"] for s in document["shards"]):
            return document
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not an index: {error}") from None
    raise ConfigError(f"{path}: a shard's name holds a path")


def check_shards(folder: Path, document: dict[str, Any]) -> None:
    """Refuse an index whose tars are not all there, with their sizes."""
    for shard in document["shards"]:
        tar = folder / shard["name"]
        if not tar.is_file():
            raise ConfigError(f"{folder}: {shard['name']} is missing; the index names {len(document['shards'])} shards")
        if "bytes" in shard and tar.stat().st_size != shard["bytes"]:
            raise ConfigError(f"{tar}: {tar.stat().st_size} bytes, {shard['bytes']} in the index")


def scan(folder: Path, names: list[str]) -> Index:
    """Samples found in the tars; those incomplete, damaged or named twice are left out and listed as problems."""
    found, problems = [], []
    for name in names:
        entries, wrong = scan_tar(folder / name)
        found += entries
        problems += wrong
    count = Counter(entry.key for entry in found)
    for key, times in count.items():
        if times > 1:
            shards = ", ".join(e.shard for e in found if e.key == key)
            problems.append(f"key {key} is in {times} shards: {shards}")
    kept = [entry for entry in found if count[entry.key] == 1]
    return Index(digest([[e.shard, e.key, e.members] for e in kept]), kept, problems)


def scan_tar(path: Path) -> tuple[list[Entry], list[str]]:
    """(usable samples, problems) of one tar; nothing is unpacked and no link is followed."""
    members: dict[str, dict[str, list[int]]] = {}
    problems, spoiled = [], set()
    for info, wrong in _walk(path):
        if wrong:
            problems.append(f"{path.name}: {wrong}")
            continue
        key, suffix = split_name(info.name)
        if suffix in members.setdefault(key, {}):
            problems.append(f"{path.name}: member {info.name} of key {key} is there twice")
            spoiled.add(key)
        members[key][suffix] = [info.offset_data, info.size]
    usable: list[Entry] = []
    for key, places in members.items():
        missing = [f"{key}.{s}" for s in REQUIRED if s not in places]
        if missing:
            problems.append(f"{path.name}: key {key} lacks {', '.join(missing)}")
        elif key not in spoiled:
            _add(path, key, places, usable, problems)
    return usable, problems


def _walk(path: Path) -> Any:
    """(member, "") of regular members with safe names, (None, problem) of the rest."""
    size = path.stat().st_size
    try:
        with tarfile.open(path, "r:") as tar:
            for info in tar:
                if info.name.startswith("/") or ".." in info.name.split("/"):
                    yield None, f"member {info.name!r} leaves the folder; not read"
                elif not info.isreg():
                    yield None, f"member {info.name!r} is a link or no plain file; not followed"
                elif info.offset_data + info.size > size:
                    yield None, f"cut short inside member {info.name!r}"
                else:
                    yield info, ""
            yield from ((None, problem) for problem in _after_the_last(path, tar.offset))
    except (tarfile.TarError, EOFError, OSError) as error:
        yield None, f"cut short or damaged: {error}"


def _after_the_last(path: Path, offset: int) -> list[str]:
    """What is wrong where a tar's reading ended: neither nothing nor zeros, as where a header was cut in two."""
    with path.open("rb") as file:
        file.seek(offset)
        block = file.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0") or 0 < len(block) < tarfile.BLOCKSIZE:
        return ["cut short or damaged: no header of a member follows the last"]
    return []


def _add(path: Path, key: str, places: dict[str, list[int]], usable: list[Entry], problems: list[str]) -> None:
    try:
        meta = read_json(key, read_member(path, places["json"]))
        usable.append(Entry(key, path.name, places, str(meta.get("component", "")), str(meta.get("clip_id", key)),
                            int(meta.get("num_frames", 0))))
    except (DataError, ValueError, TypeError) as error:
        problems.append(f"{path.name}: {error}")


def read_member(path: Path, place: list[int]) -> bytes:
    with path.open("rb") as file:
        file.seek(place[0])
        return file.read(place[1])
