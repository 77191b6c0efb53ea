"""Sources in object storage, over a real S3 protocol server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from object_store import S3Server
from tiny import tiny_video

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.catalog.open import row_types
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.sources import SourceParams, open_source
from worldloom.schemas import ConfigError


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        server = S3Server()
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    (folder / "deep ü").mkdir()
    for number, name in enumerate(("a.mp4", "b c.mp4", "deep ü/c+d%20.mp4", "e.mp4")):
        tiny_video(folder / name, 24 + 2 * number, looks=((0, number), (14, number + 1)))
    shutil.copy(folder / "a.mp4", folder / "same as a.mp4")
    (folder / "broken.mp4").write_bytes(b"no video at all")
    (folder / ".hidden.mp4").write_bytes(b"x")
    (folder / "notes.txt").write_text("not listed")
    poses = {"convention": "c2w/opencv/matrix", "poses": [[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0.1 * i, 0, 0, 0, 1]
                                                          for i in range(24)]}
    (folder / "a.poses.json").write_text(json.dumps(poses))
    return folder


def plan(tmp_path: Path, **source: Any) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({
        "sources": [{"name": "s", "licence": "CC0-1.0", "url": "https://example.org"} | source],
        "stages": ["video", "clip", "score"], "videos_per_part": 3,
        "params": {"clip": {"fps": 24, "min_s": 0.2, "max_s": 0.5}}}))
    return path


def catalog(corpus: Path, leave_out: tuple[str, ...] = ()) -> dict[str, list[str]]:
    con = open_catalog(corpus)
    return {name: sorted(json.dumps({k: v for k, v in row.items() if k not in leave_out}, default=str)
                         for row in con.sql(f'SELECT * FROM "{name}"').to_arrow_table().to_pylist())
            for name in row_types()}


def run(tmp_path: Path, name: str, **source: Any) -> Path:
    run_plan(load_plan(plan(tmp_path, **source)), tmp_path / name, executor="inline", quiet=True)
    return tmp_path / name


def test_videos_in_a_bucket_give_the_catalog_of_the_same_videos_on_a_disk(tmp_path, server, videos) -> None:
    url = server.bucket("same", videos)
    local = run(tmp_path, "local", path=str(videos), sidecars=True)
    assert catalog(local) == catalog(run(tmp_path, "remote", path=url, sidecars=True))
    kind = ("source_id", "kind", "run_id", "part", "sidecar")        # what says that the kind is another
    assert catalog(local, kind) == catalog(run(tmp_path, "bucket", path=url, kind="bucket"), kind)
    clips = open_catalog(local).sql("SELECT count(*) FROM clip").fetchall()[0][0]
    assert clips >= 8


def test_what_is_there_is_not_brought_again_and_what_has_changed_is(tmp_path, server, videos) -> None:
    url, files = server.bucket("again", videos), server.files()
    reader = open_source(SourceParams(name="s", kind="bucket", path=url))
    reader.prepare(tmp_path)
    folder = tmp_path / "incoming" / reader.source_id
    times = {p.name: p.stat().st_mtime_ns for p in folder.rglob("*.mp4")}
    files.pipe_file("again/data/broken.mp4", b"NO VIDEO AT ALL")     # the same size, other bytes
    files.rm_file("again/data/e.mp4")
    reader = open_source(SourceParams(name="s", kind="bucket", path=url))
    reader.prepare(tmp_path)
    now = {p.name: p.stat().st_mtime_ns for p in folder.rglob("*.mp4")}
    assert (folder / "broken.mp4").read_bytes() == b"NO VIDEO AT ALL"
    assert now.keys() == times.keys() - {"e.mp4"}
    assert {n for n in now if now[n] != times[n]} == {"broken.mp4"}
    assert not [p for p in folder.rglob("*.part")]


def test_a_name_that_leads_out_fails_alone_and_a_marker_of_a_folder_is_none(tmp_path, server, videos) -> None:
    url, files = server.bucket("names", videos), server.files()
    import boto3

    client = boto3.client("s3", endpoint_url=server.url)
    for key in ("data/../../out.mp4", "data//double.mp4", "data/" + "n" * 250 + ".mp4", "data/folder.mp4/"):
        client.put_object(Bucket="names", Key=key, Body=b"x" if not key.endswith("/") else b"")
    corpus = run(tmp_path, "corpus", path=url, kind="bucket")
    rows = open_catalog(corpus).sql("SELECT row_key, detail FROM failure ORDER BY 1").fetchall()
    failed = {key: detail for key, detail in rows}
    assert len(failed) == 4 and "broken.mp4" in failed
    assert sum("leads out of the folder" in detail for detail in failed.values()) == 3
    assert not list(tmp_path.rglob("out.mp4"))
    assert files.exists("names/data/a.mp4")


def test_poses_beside_the_videos_come_along(tmp_path, server, videos) -> None:
    url = server.bucket("posed", videos)
    reader = open_source(SourceParams(name="s", kind="posed", path=url))
    reader.prepare(tmp_path)
    assert {e.name: e.sidecar for e in reader.entries()}["a.mp4"] == "a.poses.json"
    assert reader.source_row().pose_mode == "given"


def test_an_empty_place_a_missing_bucket_and_a_missing_package_are_one_line(tmp_path, server) -> None:
    server.bucket("empty")
    for url in ("s3://empty/none", "s3://nowhere-at-all/x"):
        with pytest.raises(ConfigError, match=url.replace("s3://", "s3://")) as told:
            open_source(SourceParams(name="s", kind="bucket", path=url)).prepare(tmp_path)
        assert "\n" not in str(told.value)
    with pytest.raises(ConfigError, match="not a URL"):
        open_source(SourceParams(name="s", kind="bucket", path=str(tmp_path)))
    with pytest.raises(ConfigError, match="nosuch"):
        open_source(SourceParams(name="s", kind="bucket", path="nosuch://x/y"))
    with pytest.raises(ConfigError, match="no credentials"):
        open_source(SourceParams(name="s", kind="bucket", path="s3://key:secret@host/x"))


def test_an_endpoint_that_does_not_answer_is_one_line(tmp_path) -> None:
    params = SourceParams(name="s", kind="bucket", path="s3://b/x", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="Could not connect") as told:
        open_source(params).prepare(tmp_path)
    assert "\n" not in str(told.value)
