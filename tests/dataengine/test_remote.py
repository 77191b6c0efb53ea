"""A corpus in object storage, over a real S3 protocol server, with runs as processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from object_store import S3Server
from tiny import tiny_video

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.catalog.open import row_types
from worldloom.dataengine.objects import Objects
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.remote import working_copy
from worldloom.dataengine.remote_lock import RemoteLock
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.store import corpus_lock, present, read_manifest
from worldloom.schemas import ConfigError, DataError


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        server = S3Server()
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five videos in parts of one, so that a run has many places to be stopped at."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "videos").mkdir()
    for number in range(4):
        tiny_video(folder / "videos" / f"{number}.mp4", 40, looks=((0, number), (20, number + 1)))
    (folder / "videos" / "broken.mp4").write_bytes(b"none")
    (folder / "plan.yaml").write_text(yaml.safe_dump({
        "sources": [{"name": "s", "path": "videos"}], "stages": ["video", "clip", "score"], "videos_per_part": 1,
        "params": {"clip": {"fps": 24, "min_s": 0.2, "max_s": 0.5}}}))
    return folder / "plan.yaml"


@pytest.fixture(scope="module")
def expected(plan: Path, server: S3Server) -> dict[str, list[str]]:
    local = plan.parent / "local"
    assert run_plan(load_plan(plan), local, executor="inline", quiet=True).failed == 1  # one video is broken
    return catalog(local)


def command(cache: Path, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "worldloom.cli", *map(str, args),
         *(["--executor", "inline"] if args[0] == "run" else [])],
        env=os.environ | {"WORLDLOOM_CACHE": str(cache)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def worldloom(cache: Path, *args: object) -> subprocess.CompletedProcess[str]:
    process = command(cache, *args)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_here(plan: Path, url: str, cache: Path) -> int:
    """How many rows fail in a run with that cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLDLOOM_CACHE", str(cache))
        return run_plan(load_plan(plan), working_copy(url), executor="inline", quiet=True).failed


def catalog(corpus: Path) -> dict[str, list[str]]:
    con = open_catalog(corpus)
    return {name: sorted(json.dumps(row, default=str)
                         for row in con.sql(f'SELECT * FROM "{name}"').to_arrow_table().to_pylist())
            for name in row_types()}


def from_elsewhere(url: str, cache: Path) -> dict[str, list[str]]:
    """The catalog as a machine sees it that has nothing of it yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLDLOOM_CACHE", str(cache))
        corpus = working_copy(url)
        found = catalog(corpus)
        for row in found["clip"]:
            assert present(corpus, json.loads(row)["media"]).stat().st_size == json.loads(row)["media_bytes"]
        return found


def wait_until(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    while process.poll() is None and not is_so():
        time.sleep(0.005)


def test_a_corpus_in_a_bucket_is_the_corpus_of_a_folder(tmp_path, server, plan, expected) -> None:
    server.bucket("plain")
    url = "s3://plain/deep/corpus"
    done = worldloom(tmp_path / "a", "run", plan, "--corpus", url)
    assert done.returncode == 3 and f"--corpus {url}" in done.stderr
    assert from_elsewhere(url, tmp_path / "b") == expected
    names = {n.removeprefix("plain/deep/corpus/") for n in server.files().find("plain/deep/corpus")}
    assert {"manifest.json", "catalog.duckdb"} <= names
    tops = {name.split("/")[0] for name in names}
    assert tops <= {"manifest.json", "catalog.duckdb", "tables", "media", "runs"}
    again = worldloom(tmp_path / "c", "run", plan, "--corpus", url)
    assert [line.split()[1] for line in again.stdout.splitlines()] == ["done", "done", "done"]
    sql = worldloom(tmp_path / "d", "sql", "SELECT count(*) AS n FROM clip", "--corpus", url, "--json")
    assert json.loads(sql.stdout) == [{"n": len(expected["clip"])}]
    assert not list((tmp_path / "d").rglob("*.mp4"))


@pytest.mark.slow
@pytest.mark.parametrize("objects", [2, 9, 18, 30, 36])
def test_a_run_killed_while_it_stores_goes_on_from_an_empty_cache(tmp_path, server, plan, expected, objects) -> None:
    url = server.bucket(f"killed{objects}")
    files = server.files()
    process = command(tmp_path / "a", "run", plan, "--corpus", url)
    wait_until(process, lambda: len(files.find(f"killed{objects}/data")) >= objects)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    for table, keys in read_tables(files, f"killed{objects}/data").items():      # all that is listed is there
        assert all(files.exists(f"killed{objects}/data/tables/{table}/{key}.parquet") for key in keys)
    assert run_here(plan, url, tmp_path / "b") == 1
    assert from_elsewhere(url, tmp_path / "c") == expected


def read_tables(files: object, place: str) -> dict[str, list[str]]:
    try:
        return json.loads(files.cat_file(f"{place}/manifest.json"))["tables"]    # type: ignore[attr-defined]
    except FileNotFoundError:
        return {}


@pytest.mark.slow
def test_a_killed_run_goes_on_in_its_own_cache_too(tmp_path, server, plan, expected) -> None:
    url = server.bucket("samecache")
    process = command(tmp_path / "a", "run", plan, "--corpus", url)
    wait_until(process, lambda: len(list((tmp_path / "a").rglob("clip/*.parquet"))) >= 2)
    process.kill()
    process.communicate()
    files = server.files()
    for name in files.find("samecache/data/tables")[-3:]:                        # and the bucket lost some of it
        files.rm_file(name)
    assert run_here(plan, url, tmp_path / "a") == 1
    assert from_elsewhere(url, tmp_path / "b") == expected


@pytest.mark.slow
def test_a_server_that_stops_is_one_line_and_the_run_goes_on_when_it_is_back(tmp_path, server, plan, expected) -> None:
    url = server.bucket("stopped")
    process = command(tmp_path / "a", "run", plan, "--corpus", url)
    files = server.files()
    wait_until(process, lambda: len(files.find("stopped/data")) >= 12)
    server.stop()
    try:
        _, err = process.communicate(timeout=120)
    finally:
        server.start()
    assert process.returncode == 1, err
    assert len(err.splitlines()) == 1 and err.startswith("worldloom: s3://stopped/data: ") and "run again" in err
    assert run_here(plan, url, tmp_path / "b") == 1
    assert from_elsewhere(url, tmp_path / "c") == expected


def test_two_writers_do_not_write_at_once_and_a_dead_one_is_passed_over(tmp_path, server, monkeypatch) -> None:
    url = server.bucket("two")
    held = Objects(url)
    for cache in ("a", "b"):
        monkeypatch.setenv("WORLDLOOM_CACHE", str(tmp_path / cache))
        corpus = working_copy(url)
        if cache == "a":
            with corpus_lock(corpus):
                monkeypatch.setenv("WORLDLOOM_CACHE", str(tmp_path / "other"))
                with pytest.raises(ConfigError, match=f"two/data: in use by process {os.getpid()} on"):
                    with corpus_lock(working_copy(url)):
                        raise AssertionError("both hold it")
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    lock = RemoteLock(held, "lock.json")
    note = json.loads(lock._note()) | {"process": int(ended.stdout), "token": "of another"}
    held.write("lock.json", json.dumps(note).encode())
    with corpus_lock(corpus):                                        # its process has ended
        held.write("lock.json", json.dumps(note | {"machine": "another"}).encode())
        with pytest.raises(ConfigError, match="now held by"):
            lock.check()
    held.write("lock.json", json.dumps(note | {"machine": "another", "renewed": time.time() - 301}).encode())
    with corpus_lock(corpus):                                        # of another machine, silent for too long
        assert json.loads(held.read("lock.json") or b"{}")["token"] != "of another"
    assert held.read("lock.json") is None


def test_a_clip_that_the_bucket_lost_fails_alone_and_no_corpus_is_one_line(tmp_path, server, monkeypatch) -> None:
    url = server.bucket("lost")
    monkeypatch.setenv("WORLDLOOM_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="media/aa/x.mp4"):
        present(working_copy(url), "media/aa/x.mp4")
    with pytest.raises(ConfigError, match="s3://lost/data: no corpus there"):
        open_catalog(working_copy(url))
    assert worldloom(tmp_path, "sql", "SELECT 1", "--corpus", "s3://nowhere/x").stderr.count("\n") == 1


def test_a_folder_behind_a_url_works_as_a_bucket_does(tmp_path, server, plan, expected) -> None:
    url = f"file://{tmp_path}/shelf/corpus"
    assert run_here(plan, url, tmp_path / "a") == 1
    assert from_elsewhere(url, tmp_path / "b") == expected
    shutil.rmtree(tmp_path / "a")
    assert read_manifest(tmp_path / "shelf" / "corpus")["clip"]
