"""Generated datasets in the layouts that hold videos packed: WebDataset, video2dataset, Hugging Face, LeRobot."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import pyarrow as pa
import pyarrow.parquet as pq
from tiny import ffmpeg, picture, tiny_video

CAMERA = "observation.images.front"


@cache
def video(first: int, frames: int = 8, ending: str = "mp4") -> bytes:
    """A video that shows the numbers first, first + 1, … at 8 frames a second; a B-frame or two among them."""
    codec = {"webm": ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-pix_fmt", "yuv420p")}
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"v.{ending}"
        looks = ((0, first % 4),)
        options = {"codec": codec[ending]} if ending in codec else {}
        trim = f"trim=start_frame={first},setpts=PTS-STARTPTS"
        tiny_video(path, first + frames, fps=8, looks=looks, extra=("-vf", trim), **options)
        return path.read_bytes()


def write_tar(path: Path, members: Mapping[str, bytes] | Sequence[tuple[str, bytes]], mode: str = "w") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:
        for name, data in members.items() if isinstance(members, Mapping) else members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def write_json(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]], note: dict[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    metadata = {b"huggingface": json.dumps({"info": {"features": note}}).encode()} if note else None
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def video2dataset_rows() -> list[dict[str, Any]]:
    """Three rows of a shard; the last could not be downloaded."""
    names = ("a walk", "a drive", "gone")
    rows = [{"url": f"https://example.org/{i}", "caption": names[i], "key": f"{i:09d}", "status": "success",
             "error_message": None, "width": 160} for i in range(3)]
    rows[2] |= {"status": "failed_to_download", "error_message": "HTTP 404\nnot found"}
    return rows


def video2dataset(root: Path, layout: str) -> Path:
    """The output folder, as shards in tars or as folders of files."""
    members: dict[str, bytes] = {}
    for number, row in enumerate(video2dataset_rows()):
        if row["status"] == "success":
            members[f"{row['key']}.mp4"] = video(8 * number)
        members |= {f"{row['key']}.json": json.dumps(row).encode(), f"{row['key']}.txt": row["caption"].encode()}
    if layout == "tar":
        write_tar(root / "00000.tar", members)
    else:
        for name, data in members.items():
            (root / "00000").mkdir(parents=True, exist_ok=True)
            (root / "00000" / name).write_bytes(data)
    write_parquet(root / "00000.parquet", video2dataset_rows())
    write_json(root / "00000_stats.json", {"count": 3, "successes": 2})
    return root


def lerobot_info(version: str, **more: Any) -> dict[str, Any]:
    own = {"data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
           "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"}
    shared = {"data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
              "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"}
    return {"codebase_version": version, "robot_type": "so101", "fps": 8, "chunks_size": 2,
            "total_episodes": 3, "features": {
                CAMERA: {"dtype": "video", "shape": [96, 160, 3], "info": {"video.fps": 8}},
                "action": {"dtype": "float32", "shape": [6], "names": ["j1", "j2", "j3", "j4", "j5", "grip"]}},
            } | (own if version < "v3" else shared) | more


LENGTHS, TASKS = (8, 5, 11), ("open the door", "close the door", "open the door")


def lerobot_v2(root: Path, version: str = "v2.1") -> Path:
    """Three episodes, two to a chunk."""
    write_json(root / "meta/info.json", lerobot_info(version))
    lines = [{"episode_index": i, "tasks": [TASKS[i]], "length": n} for i, n in enumerate(LENGTHS)]
    (root / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for index, length in enumerate(LENGTHS):
        path = root / f"videos/chunk-{index // 2:03d}/{CAMERA}/episode_{index:06d}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(video(20 * index, length))
    return root


def join(parts: list[tuple[int, int]], path: Path, extra: tuple[str, ...] = (), **codec: Any) -> None:
    """Videos of (first number, frames) one after the other, as ffmpeg's concat demuxer joins them."""
    with TemporaryDirectory() as folder:
        names = [Path(folder) / f"{index}.mp4" for index in range(len(parts))]
        for name, (first, frames) in zip(names, parts, strict=True):
            trim = f"trim=start_frame={first},setpts=PTS-STARTPTS"
            tiny_video(name, first + frames, fps=8, extra=("-vf", trim, *extra), **codec)
        listing = Path(folder) / "list.txt"
        listing.write_text("".join(f"file '{name}'\n" for name in names))
        ffmpeg("-f", "concat", "-safe", "0", "-i", listing, "-c", "copy", path)


def episode_rows() -> list[dict[str, Any]]:
    """What v3's table of episodes says of each, but for its videos."""
    ends = [sum(LENGTHS[:i + 1]) for i in range(len(LENGTHS))]
    return [{"episode_index": i, "tasks": [TASKS[i]], "length": n, "data/chunk_index": 0, "data/file_index": 0,
             "dataset_from_index": ends[i] - n, "dataset_to_index": ends[i], "stats/action/mean": [0.0, 1.0]}
            for i, n in enumerate(LENGTHS)]


def lerobot_v3(root: Path, **codec: Any) -> Path:
    """Three episodes that were encoded alone and joined in one file; episode i shows the numbers from 20 i on."""
    write_json(root / "meta/info.json", lerobot_info("v3.0"))
    rows = episode_rows()
    for index, length in enumerate(LENGTHS):
        first = sum(LENGTHS[:index])
        span = {"from_timestamp": first / 8 + 1e-5 * index, "to_timestamp": (first + length) / 8 + 1e-5}
        rows[index] |= {f"videos/{CAMERA}/{name}": value for name, value in
                        (span | {"chunk_index": 0, "file_index": 0}).items()}
    write_parquet(root / "meta/episodes/chunk-000/file-000.parquet", rows)
    path = root / f"videos/{CAMERA}/chunk-000/file-000.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    join([(20 * index, length) for index, length in enumerate(LENGTHS)], path, **codec)
    return root


def lerobot_pictures(root: Path, version: str) -> Path:
    """Three episodes whose pictures lie in the data tables: one for each episode in v2, one for all in v3."""
    info = lerobot_info(version, video_path=None)
    info["features"][CAMERA] = {"dtype": "image", "shape": [96, 160, 3]}
    write_json(root / "meta/info.json", info)
    rows = [{"episode_index": i, "frame_index": t, "timestamp": t / 8, "action": [0.0] * 6,
             CAMERA: {"bytes": png(sum(LENGTHS[:i]) + t), "path": f"frame-{t:06d}.png"}}
            for i, n in enumerate(LENGTHS) for t in range(n)]
    if version >= "v3":
        write_parquet(root / "meta/episodes/chunk-000/file-000.parquet", episode_rows())
        write_parquet(root / "data/chunk-000/file-000.parquet", rows)
        return root
    (root / "meta/episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in episode_rows()))
    for i in range(len(LENGTHS)):
        write_parquet(root / f"data/chunk-{i // 2:03d}/episode_{i:06d}.parquet",
                      [row for row in rows if row["episode_index"] == i])
    return root


def png(number: int) -> bytes:
    return cv2.imencode(".png", picture(number)[:, :, ::-1])[1].tobytes()
