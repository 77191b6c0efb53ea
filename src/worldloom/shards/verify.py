"""Checking shards against their index and against themselves, before a training run finds out."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from worldloom.schemas import ConfigError, DataError
from worldloom.schemas.ids import file_sha256
from worldloom.shards.index import INDEX_NAME, Entry, check_shards, read_index, read_member, scan
from worldloom.shards.sample import read_members


def verify(shards_dir: Path, catalog_samples: int | None = None) -> list[str]:
    """Problems of a folder of shards, one line each naming shard, key and member; empty when all is well.

    `catalog_samples` is the number of samples that the catalog lists for the mix.
    """
    tars = sorted(p.name for p in shards_dir.glob("*.tar"))
    if not tars:
        return [f"{shards_dir}: no shards there"]
    found = scan(shards_dir, tars)
    problems = list(found.problems)
    problems += [f"{path.name}: left over from a pack that was stopped" for path in sorted(shards_dir.glob("*.tmp"))]
    problems += [f"{name}: holds no sample" for name in tars
                 if not any(e.shard == name for e in found.entries) and not any(name in p for p in problems)]
    problems += [problem for entry in found.entries if (problem := _sample(shards_dir, entry))]
    problems += _index(shards_dir, tars, found.entries) if (shards_dir / INDEX_NAME).exists() else _gaps(tars)
    if catalog_samples is not None and catalog_samples != len(found.entries):
        problems.append(f"{len(found.entries)} samples in the tars, {catalog_samples} in the catalog")
    return problems


def _sample(folder: Path, entry: Entry) -> str | None:
    try:
        members = {suffix: read_member(folder / entry.shard, place) for suffix, place in entry.members.items()}
        if not read_members(entry.key, members)["mp4"]:
            return f"{entry.shard}: sample {entry.key}: member {entry.key}.mp4 is empty"
    except (DataError, TypeError, ValueError) as error:
        return f"{entry.shard}: {error}"
    return None


def _index(folder: Path, tars: list[str], entries: list[Entry]) -> list[str]:
    try:
        document = json.loads((folder / INDEX_NAME).read_text(encoding="utf-8"))
        shards = {s["name"]: s for s in document["shards"]}
    except (ValueError, KeyError, TypeError) as error:
        return [f"{INDEX_NAME}: not an index: {error}"]
    problems = [f"{name}: named in the index, missing" for name in shards if name not in tars]
    problems += [f"{name}: not in the index" for name in tars if name not in shards]
    counts = Counter(e.shard for e in entries)
    for name in [name for name in tars if name in shards]:
        if counts[name] != shards[name].get("samples", counts[name]):
            problems.append(f"{name}: {counts[name]} usable samples, {shards[name]['samples']} in the index")
        if "sha256" in shards[name] and file_sha256(folder / name) != shards[name]["sha256"]:
            problems.append(f"{name}: its SHA-256 is not the one in the index")
    if "samples" in document and not any("missing" in p for p in problems):
        problems += _places(folder, document, entries)
    return problems


def _places(folder: Path, document: dict, entries: list[Entry]) -> list[str]:
    """Samples whose place in the tar is not the one in the index."""
    try:
        check_shards(folder, document)
        listed = {entry.key: entry for entry in read_index(folder).entries}
    except (ConfigError, KeyError, IndexError) as error:
        return [f"{INDEX_NAME}: {error}"]
    there = {entry.key: entry for entry in entries}
    return [f"{INDEX_NAME}: sample {key} is not where the index says" for key in sorted(listed.keys() | there.keys())
            if key not in there or key not in listed or listed[key].members != there[key].members
            or listed[key].shard != there[key].shard]


def _gaps(tars: list[str]) -> list[str]:
    """Numbers that are skipped in names such as s-000.tar, s-002.tar."""
    numbered = [m for name in tars if (m := re.fullmatch(r"(.*?)(\d+)\.tar", name))]
    problems: list[str] = []
    for stem in sorted({m[1] for m in numbered}):
        numbers = {int(m[2]): len(m[2]) for m in numbered if m[1] == stem}
        width = max(numbers.values())
        for number in range(max(numbers)):
            if number not in numbers and len(problems) < 100:
                problems.append(f"{stem}{number:0{width}d}.tar: missing between shards that are there")
    return problems
