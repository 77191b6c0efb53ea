"""WebDataset shards: tars whose members of one key are a sample, a video with its JSON, text and arrays.

Shards that `worldloom pack` wrote come back with the cameras of their clips.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from worldloom.dataengine.sources.about import about_text, stated_licence
from worldloom.dataengine.sources.packed import Brought, Bundle, PackedReader
from worldloom.dataengine.sources.shard_poses import CONVENTION, attach_poses
from worldloom.dataengine.sources.shards import Shard, endings, read_tar
from worldloom.schemas import DataError, Source

TARS = ("*.tar", "*.tar.gz", "*.tgz")


class WebDatasetReader(PackedReader):
    """Every video of every shard; the path is a folder of tars or one tar."""
    takes_file: ClassVar[bool] = True

    def bundles(self) -> Iterator[Bundle]:
        yield from tar_bundles(self)

    def source_row(self) -> Source:
        """The source; of shards with cameras, with what their samples agree on."""
        facts = [json.loads(one.about or "{}").get("facts", {}) for one in self.brought() if one.sidecar]
        if not facts:
            return super().source_row()
        scales = {str(fact.get("scale_status")) for fact in facts}
        is_engine = all(fact.get("pose_source") == "engine" for fact in facts)
        return replace(super().source_row(), pose_mode="engine" if is_engine else "given", convention=CONVENTION,
                       scale_status=scales.pop() if len(scales) == 1 else "unknown")


def tar_bundles(reader: PackedReader) -> Iterator[Bundle]:
    """A bundle for each tar of a reader's folder; its path is the folder of its videos, which no other file has."""
    for path in reader.matching(*TARS):
        name = reader.inside(path)
        yield Bundle(name, (path,), partial(bring_tar, path, name))


def bring_tar(path: Path, name: str, root: Path) -> Iterator[Brought]:
    """The videos of a tar, then what was wrong with it."""
    shard = read_tar(path, name, root)
    yield from samples(shard, root)
    yield from problems(shard, path.name)
    if not shard.videos and not shard.cut_short:
        held = endings(name for names in shard.beside.values() for name in names) or "nothing"
        yield Brought(name, problem=f"{path.name}: no video in it (holds {held})")
    elif not shard.cut_short:
        for key in shard.without_video():
            yield Brought(shard.place(key), problem=f"{path.name}: no video of key {key}")


def problems(shard: Shard, file: str) -> Iterator[Brought]:
    """One line for each member that was refused, and one for a shard that is not whole."""
    for member, problem in shard.problems.items():
        yield Brought(shard.place(member.replace("\0", "")), problem=f"{file}: {problem}")
    if shard.cut_short:
        yield Brought(shard.name, problem=f"{file}: {shard.cut_short}; {len(shard.videos)} videos before it are kept")


def samples(shard: Shard, root: Path) -> Iterator[Brought]:
    """Each video with its facts, and its cameras where the sample has some."""
    for member in shard.videos:
        yield sample(shard, member, shard.facts(member), root)


def sample(shard: Shard, member: str, facts: dict[str, Any], root: Path) -> Brought:
    name = shard.place(member)
    try:
        sidecar = attach_poses(shard, member, facts, root)
    except DataError as error:
        return Brought(name, problem=str(error))
    key = shard.key(member)
    about = about_text(facts | {"beside": shard.unread(key)}, key=key)
    return Brought(name, about=about, sidecar=sidecar, licence=stated_licence(facts))
