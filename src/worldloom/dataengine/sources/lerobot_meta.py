"""What a LeRobot dataset's meta folder says: its cameras, and where each episode of each lies."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from worldloom.dataengine.objects import safe_name
from worldloom.schemas import DataError

INFO = "meta/info.json"
_V2_VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_V3_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")


@dataclass(frozen=True)
class Camera:
    """A feature that is a picture; `problem` says why its videos cannot be had."""
    key: str
    in_tables: bool = False              # its pictures lie in the data tables, and no video is there
    problem: str | None = None


@dataclass(frozen=True)
class Take:
    """One episode as one camera saw it: a whole file, or [start_s, end_s) of one that it shares."""
    episode: int
    path: str                            # of the video, inside the dataset
    tasks: tuple[str, ...]
    length: int | None = None            # frames
    start_s: float | None = None
    end_s: float | None = None
    data: str | None = None              # the table of its states and actions, inside the dataset
    rows: tuple[int, int] | None = None  # of the whole dataset, in v3


@dataclass(frozen=True)
class Robot:
    """A dataset. `files` are those that say where its episodes lie."""
    folder: Path
    version: str
    fps: float
    robot_type: str | None
    cameras: tuple[Camera, ...]
    info: Mapping[str, Any]
    episodes: tuple[Mapping[str, Any], ...]
    files: tuple[Path, ...]
    is_per_episode: bool                 # each episode has files of its own, as in v2

    def take(self, row: Mapping[str, Any], camera: Camera) -> Take:
        """One of `episodes` as a camera saw it; of pictures in tables, `path` is the table.

        Raises:
            DataError: the row lacks what says where it lies.
        """
        take = self._own(row, camera.key) if self.is_per_episode else self._shared(row, camera)
        if camera.in_tables and take.data is None:
            raise DataError(f"episode {take.episode}: {INFO} and its row do not say which table holds it")
        return replace(take, path=take.data or "") if camera.in_tables else take

    def _own(self, row: Mapping[str, Any], camera: str) -> Take:
        index = int(row["episode_index"])
        values = {"episode_index": index, "video_key": camera, "episode_chunk": self._chunk(index),
                  "chunk_index": self._chunk(index), "file_index": index}
        return Take(index, filled(self.info.get("video_path") or _V2_VIDEO, values), _tasks(row), _length(row),
                    data=self._data(values))

    def _shared(self, row: Mapping[str, Any], camera: Camera) -> Take:
        index, place = int(row["episode_index"]), f"videos/{camera.key}"
        table = {name: row.get(f"data/{name}") for name in ("chunk_index", "file_index")}
        take = Take(index, "", _tasks(row), _length(row), rows=_rows(row),
                    data=self._data(table) if all(_is_number(value) for value in table.values()) else None)
        if camera.in_tables:
            return take
        lacking = [end for end in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
                   if not _is_number(row.get(f"{place}/{end}"))]
        if lacking:
            raise DataError(f"episode {index} lacks {place}/{lacking[0]} in meta/episodes")
        values = {"video_key": camera.key, "episode_index": index, "episode_chunk": self._chunk(index),
                  **{name: int(row[f"{place}/{name}"]) for name in ("chunk_index", "file_index")}}
        return replace(take, path=filled(self.info.get("video_path") or _V3_VIDEO, values),
                       start_s=float(row[f"{place}/from_timestamp"]), end_s=float(row[f"{place}/to_timestamp"]))

    def _chunk(self, index: int) -> int:
        return index // max(1, int(self.info.get("chunks_size") or 1000))

    def _data(self, values: Mapping[str, Any]) -> str | None:
        template = self.info.get("data_path")
        try:
            return filled(template, values) if isinstance(template, str) else None
        except DataError:
            return None                          # it is only named, in what is known of the video


def read_robot(folder: Path) -> Robot:
    """The dataset of a folder.

    Raises:
        DataError: its version is another, or it lacks what says where its episodes lie.
    """
    info = json.loads((folder / INFO).read_text(encoding="utf-8"))
    version = str(info.get("codebase_version"))
    if not re.match(r"v?[23](\.|$)", version):
        raise DataError(f"{INFO}: codebase_version {version[:20]}; wanted v2.x or v3.x (LeRobot converts older ones)")
    if not _is_number(info.get("fps")) or not 0 < float(info["fps"]) <= 1000:
        raise DataError(f"{INFO}: fps is {info.get('fps')!r:.40}; wanted frames a second")
    tables = tuple(sorted((folder / "meta" / "episodes").glob("*/*.parquet")))
    lines = folder / "meta" / "episodes.jsonl"
    if not tables and not lines.is_file():
        raise DataError(f"{INFO}: neither meta/episodes/*/*.parquet nor meta/episodes.jsonl beside it")
    rows = [row for table in tables for row in _table(table)] if tables else _lines(lines)
    return Robot(folder, version, float(info["fps"]), info.get("robot_type"), tuple(_cameras(info)), info,
                 tuple(rows), tables or (lines,), not tables)


def _cameras(info: Mapping[str, Any]) -> Iterator[Camera]:
    features = info.get("features")
    if not isinstance(features, dict):
        raise DataError(f"{INFO}: no features")
    for key, feature in features.items():
        if not isinstance(feature, dict) or feature.get("dtype") not in ("video", "image"):
            continue
        details = feature.get("info") or feature.get("video_info") or {}
        problem, in_tables = None, feature["dtype"] == "image"
        if not safe_name(key) or "/" in key or key.startswith("."):
            problem = f"{INFO}: feature {key[:100]!r} cannot be a folder's name here"
        elif details.get("is_depth_map") or details.get("video.is_depth_map"):
            problem = f"camera {key} holds depth, no pictures"
        yield Camera(key, in_tables, problem)


def _table(path: Path) -> list[dict[str, Any]]:
    """The rows of a table of episodes, without its statistics."""
    names = [name for name in pq.read_schema(path).names if not name.startswith("stats/")]
    return pq.read_table(path, columns=names).to_pylist()


def _lines(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    wrong = next((i for i, row in enumerate(rows, 1) if not isinstance(row, dict) or "episode_index" not in row), None)
    if wrong is not None:
        raise DataError(f"meta/{path.name} line {wrong} is no episode; wanted an object with episode_index")
    return rows


def filled(template: str, values: Mapping[str, Any]) -> str:
    """A path of info.json with its fields, such as {chunk_index:03d}, filled in.

    Raises:
        DataError: a field is not known, or the path leads out of the dataset.
    """
    def value(match: re.Match[str]) -> str:
        name, width = match.groups()
        if name not in values:
            raise DataError(f"{INFO}: path {template[:100]!r} has a field {name!r}; known: {', '.join(values)}")
        return f"{values[name]:0{width}d}" if width and isinstance(values[name], int) else str(values[name])

    path = _FIELD.sub(value, template)
    if not safe_name(path) or "{" in path:
        raise DataError(f"{INFO}: path {template[:100]!r} leads out of the dataset or is no path")
    return path


def _tasks(row: Mapping[str, Any]) -> tuple[str, ...]:
    tasks = row.get("tasks")
    return tuple(dict.fromkeys(task for task in (tasks if isinstance(tasks, list) else [tasks])
                               if isinstance(task, str) and task.strip()))


def _rows(row: Mapping[str, Any]) -> tuple[int, int] | None:
    first, stop = row.get("dataset_from_index"), row.get("dataset_to_index")
    return (int(first), int(stop)) if _is_number(first) and _is_number(stop) else None     # type: ignore[arg-type]


def _length(row: Mapping[str, Any]) -> int | None:
    return int(row["length"]) if _is_number(row.get("length")) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
