"""Counting a packed mix again from its tars, by nothing but the JSON member of every sample."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class ShardCount:
    """Samples and frames by component, tars read, and one line for each tar or sample that could not be read."""
    tars: int = 0
    clips: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    frames: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problems: list[str] = field(default_factory=list)


def count_shards(shards_dir: Path) -> ShardCount:
    """Counts over every tar of the folder."""
    count = ShardCount()
    for path in sorted(shards_dir.glob("*.tar")):
        count.tars += 1
        try:
            _count_tar(path, count)
        except (tarfile.TarError, OSError) as err:
            count.problems.append(f"{path.name}: {err}")
    return count


def _count_tar(path: Path, count: ShardCount) -> None:
    with tarfile.open(path) as tar:
        for member in tar:
            if not member.name.endswith(".json") or (file := tar.extractfile(member)) is None:
                continue
            try:
                sample = json.loads(file.read())
                component, frames = str(sample["component"]), int(sample["num_frames"])
            except (ValueError, KeyError, TypeError) as err:
                count.problems.append(f"{path.name}/{member.name}: {type(err).__name__} {err}")
            else:
                count.clips[component] += 1
                count.frames[component] += frames
