"""A Hugging Face dataset in a local folder: video files with metadata, tables that hold videos, WebDataset tars.

Nothing is fetched, and no code of the dataset is run. The licence of its card (README.md) is taken where the plan
states none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from worldloom.dataengine.sources.about import about_text, stated_licence
from worldloom.dataengine.sources.files import video_files
from worldloom.dataengine.sources.packed import Brought, Bundle, PackedReader, link, missing
from worldloom.dataengine.sources.video_folder import METADATA, Described, read_metadata
from worldloom.dataengine.sources.video_tables import TABLES, bring_table, video_columns
from worldloom.dataengine.sources.webdataset import tar_bundles


class HuggingFaceReader(PackedReader):
    """Videos of a dataset repository as it lies on a disk, whichever of the hub's layouts it has."""

    def bundles(self) -> Iterator[Bundle]:
        tables = [path for path in self.matching(*TABLES) if path.name not in METADATA]
        for path in tables:
            name = self.inside(path)
            try:
                columns = video_columns(path)
            except (pa.ArrowException, OSError) as error:
                yield Bundle(name, (), partial(_unreadable, name, missing(path) or f"cannot be read: {error}"))
                continue
            if columns:
                yield Bundle(name, (path,), partial(bring_table, path, columns, self.origin, name))
        yield Bundle("video files", (), self._bring_files)
        yield from tar_bundles(self)

    def _bring_files(self, root: Path) -> Iterator[Brought]:
        """Links to the video files, each with the rows of metadata that name it; lines for what is not there."""
        described = Described()
        for path in self.matching(*METADATA):
            read_metadata(path, self.origin, described)
        for name, path in video_files(self.origin):
            if not self.wanted(path):
                continue
            if problem := missing(path):
                yield Brought(name, problem=f"{name} {problem}")
                continue
            link(path, root / name)
            facts = described.facts(name)
            yield Brought(name, about=about_text(facts), licence=stated_licence(facts))
        yield from (Brought(name, problem=problem) for name, problem in described.problems(self.wanted, self.origin))


def _unreadable(name: str, why: str, root: Path) -> Iterator[Brought]:
    yield Brought(name, problem=f"{name} {' '.join(why.split())[:200]}")
