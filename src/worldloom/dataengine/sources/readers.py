"""The readers, by kind. A reader is a class made with SourceParams that has `source_row` and `entries`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar, Protocol

from worldloom.dataengine.geometry.pose_note import noted_files
from worldloom.dataengine.objects import is_url
from worldloom.dataengine.sources.files import video_files
from worldloom.dataengine.sources.params import FileEntry, SourceParams
from worldloom.dataengine.stage import encode_name
from worldloom.schemas import ConfigError, Source, ids


class Reader(Protocol):
    """Lists the files of one source, all below `root`."""
    root: Path

    def source_row(self) -> Source: ...
    def prepare(self, corpus: Path) -> None:
        """Make what `entries` will list, where the source's own files will not do; called once before it."""
        ...
    def entries(self) -> Iterator[FileEntry]: ...


READERS: dict[str, Callable[[SourceParams], Reader]] = {}


def register_reader(kind: str) -> Callable[[type], type]:
    """Class decorator: the reader of `kind`. Packages outside use the entry point group `worldloom.sources`."""
    def register(cls: type) -> type:
        READERS[kind] = cls
        return cls
    return register


def open_source(params: SourceParams) -> Reader:
    """The reader of a source; one whose path is a URL is brought in first.

    Raises:
        ConfigError: no such kind, or its folder is not there.
    """
    found = READERS.get(params.kind)
    if found is None:
        points = {point.name: point for point in entry_points(group="worldloom.sources")}
        if params.kind not in points:
            known = ", ".join(sorted({*READERS, *points}))
            raise ConfigError(f"source {params.name}: no kind {params.kind!r}; kinds: {known}")
        found = points[params.kind].load()
    if is_url(params.path) and not getattr(found, "opens_urls", False):
        from worldloom.dataengine.sources.bucket import BucketReader

        return BucketReader(params, found)
    return found(params)


def known_readers() -> Iterator[tuple[str, type]]:
    """(kind, class) of every reader, those of installed packages included."""
    points = {point.name: point for point in entry_points(group="worldloom.sources")}
    for kind in sorted({*READERS, *points}):
        yield kind, READERS[kind] if kind in READERS else points[kind].load()   # type: ignore[misc]


@register_reader("folder")
class FolderReader:
    """Every video under a folder. Sidecars are attached only where the plan asks for them."""
    pose_mode: ClassVar[str] = "none"
    scale_status: ClassVar[str] = "unknown"
    convention: ClassVar[str | None] = None
    sidecar_endings: ClassVar[tuple[str, ...]] = (".truth.parquet", ".poses.json")

    def __init__(self, params: SourceParams) -> None:
        self.params = params
        self.root = Path(params.path)
        if not self.root.is_dir():
            raise ConfigError(f"source {params.name}: {params.path} is not a folder")

    @property
    def source_id(self) -> str:
        return ids.source_id(self.params.kind, self.params.name)

    @property
    def wants_sidecars(self) -> bool:
        return self.params.sidecars

    def source_row(self) -> Source:
        return Source(
            source_id=self.source_id, name=self.params.name, kind=self.params.kind, licence=self.params.licence,
            url=self.params.url, perspective=self.params.perspective, pose_mode=self.pose_mode,
            convention=self.convention, scale_status=self.scale_status,
        )

    def prepare(self, corpus: Path) -> None:
        """Nothing: the files are read where they lie."""

    def entries(self) -> Iterator[FileEntry]:
        for name, path in video_files(self.root):
            sidecar = self._sidecar(name) if self.wants_sidecars else None
            beside = tuple(encode_name(other) for other in self._beside(sidecar)) if sidecar else ()
            yield FileEntry(encode_name(name), str(path), self.source_id, sidecar and encode_name(sidecar),
                            beside=beside)

    def _beside(self, sidecar: str) -> Iterator[str]:
        """Files that hold what a pose note only points at."""
        path = self.root / sidecar
        for other in noted_files(path):
            yield other.relative_to(self.root).as_posix()

    def _sidecar(self, name: str) -> str | None:
        """VIDEO.mp4 -> VIDEO.truth.parquet or VIDEO.mp4.truth.parquet, whichever is there."""
        for ending in self.sidecar_endings:
            for stem in (name.rpartition(".")[0], name):
                if (self.root / (stem + ending)).is_file():
                    return stem + ending
        return None


@register_reader("posed")
class PosedReader(FolderReader):
    """Videos with a pose file VIDEO.poses.json beside them; one without is still listed, with no sidecar."""
    pose_mode = "given"
    scale_status = "unknown"
    sidecar_endings = (".poses.json",)

    @property
    def wants_sidecars(self) -> bool:
        return True


@register_reader("world")
@register_reader("vizdoom")
class RecordingReader(FolderReader):
    """Recordings of `worldloom record`, with the engine's truth in VIDEO.truth.parquet."""
    pose_mode = "engine"
    scale_status = "exact"
    convention = "c2w/opencv/matrix"
    sidecar_endings = (".truth.parquet",)

    @property
    def wants_sidecars(self) -> bool:
        return True
