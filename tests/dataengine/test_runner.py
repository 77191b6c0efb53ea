import json
import shutil
import subprocess
import sys

import pytest
from corpora import STAGES, write_plan

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.store import part_path, read_manifest

CHEAP = [s for s in STAGES if s not in ("camera", "action")]


def run(tmp_path, recordings, **changes):
    options = {k: changes.pop(k) for k in ("executor", "dry_run") if k in changes}
    plan = write_plan(tmp_path / "plan.yaml", recordings, **{"stages": CHEAP} | changes)
    return run_plan(load_plan(plan), tmp_path / "corpus", quiet=True, **options)


def made(report):
    return {s.stage: s.made for s in report.stages if s.made}


@pytest.fixture(scope="module")
def videos(recordings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for path in sorted(recordings.iterdir())[:6]:
        shutil.copy(path, folder)
    return folder


def test_a_second_run_does_nothing_and_a_new_video_adds_parts_only(tmp_path, videos, recordings) -> None:
    folder = shutil.copytree(videos, tmp_path / "videos")
    first = run(tmp_path, folder)
    assert first.failed == 0 and made(first) == {s: 2 for s in CHEAP}
    before = read_manifest(tmp_path / "corpus")
    assert made(run(tmp_path, folder)) == {}
    new = sorted(recordings.glob("*.mp4"))[-1]
    for path in new.parent.glob(new.stem + "*"):
        shutil.copy(path, folder)
    assert made(run(tmp_path, folder)) == {s: 1 for s in CHEAP}
    after = read_manifest(tmp_path / "corpus")
    assert all(set(before[s]) < set(after[s]) for s in CHEAP)


def test_a_changed_parameter_reruns_only_what_depends_on_it_and_the_dry_run_says_why(tmp_path, videos) -> None:
    run(tmp_path, videos)
    params = {"clip": {"fps": 17.5, "max_s": 2.0, "shots": False},
              "selection": {"rules": [{"reason": "static", "drop_when": "flow_px < 0.25"}]}}
    dry = run(tmp_path, videos, params=params, dry_run=True)
    assert made(dry) == {"selection": 2}
    assert dict(dry.stages[-1].why) == {"changed rules": 2} or "changed rules" in str(dict(dry.stages[-1].why))
    assert made(run(tmp_path, videos, params=params)) == {"selection": 2}


def test_both_executors_write_the_same_parts(tmp_path, videos) -> None:
    reports = []
    for executor in ("inline", "pool"):
        (tmp_path / executor).mkdir()
        run(tmp_path / executor, videos, executor=executor, stages=["video", "clip", "score"])
        reports.append(contents(tmp_path / executor / "corpus"))
    assert reports[0] == reports[1]


def test_the_account_of_every_stage_adds_up(corpus) -> None:
    rows = open_catalog(corpus).sql("SELECT * FROM stage_accounts").fetchall()
    assert len(rows) == len(STAGES)
    for stage, rows_in, done, dropped, failed, _ in rows:
        assert rows_in == done + dropped + failed > 0, stage


def test_no_path_of_this_machine_is_in_the_corpus(corpus, recordings) -> None:
    con = open_catalog(corpus)
    for table in ("source", "video", "clip", "camera", "caption"):
        assert str(recordings) not in str(con.sql(f"SELECT * FROM {table}").fetchall()), table


def contents(corpus):
    """Everything that the catalog says, and the hash of every media file, but not who ran it."""
    con = open_catalog(corpus)
    tables = ["source", "video", "clip", "camera", "action", "score", "caption", "selection", '"drop"', "failure",
              "run"]
    rows = {t: sorted(map(repr, con.sql(f"SELECT * FROM {t}").fetchall())) for t in tables}
    return rows | {"media": sorted(p.name for p in (corpus / "media").rglob("*") if p.is_file())}


def test_the_catalog_is_the_same_after_a_kill_at_any_moment(tmp_path, videos) -> None:
    stages = ["video", "clip", "score", "caption", "selection"]
    (tmp_path / "calm").mkdir()
    run(tmp_path / "calm", videos, stages=stages)
    plan = write_plan(tmp_path / "plan.yaml", videos, stages=stages)
    command = [sys.executable, "-m", "worldloom.cli", "run", str(plan), "--corpus", str(tmp_path / "corpus")]
    for delay_s in (0.4, 0.8, 1.1, 1.5, 2.0):
        victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            victim.wait(delay_s)
        except subprocess.TimeoutExpired:
            victim.kill()
            victim.wait()
        for path in (tmp_path / "corpus" / "tables").rglob("*.parquet"):
            assert path.read_bytes()[-4:] == b"PAR1"
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert contents(tmp_path / "corpus") == contents(tmp_path / "calm" / "corpus")


def test_one_broken_file_is_a_failure_and_the_others_go_on(tmp_path, videos) -> None:
    folder = shutil.copytree(videos, tmp_path / "videos")
    (folder / "a_broken.mp4").write_text("'); drop table clip; --")
    (folder / "b_empty.mp4").write_bytes(b"")
    twin = sorted(folder.glob("vizdoom*.mp4"))[0]
    shutil.copy(twin, folder / "z_twin.mp4")
    plan = write_plan(tmp_path / "plan.yaml", folder, stages=["video", "clip"])
    command = [sys.executable, "-m", "worldloom.cli", "run", str(plan), "--corpus", str(tmp_path / "corpus"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    video = json.loads(done.stdout.splitlines()[0])[0]
    assert (video["rows_in"], video["done"], video["dropped"], video["failed"]) == (6, 3, 1, 2)
    con = open_catalog(tmp_path / "corpus")
    assert con.sql("SELECT row_key FROM failure ORDER BY 1").fetchall() == [("a_broken.mp4",), ("b_empty.mp4",)]
    dropped = con.sql("SELECT row_key, reason FROM drops WHERE stage = 'video'").fetchall()
    assert dropped == [("z_twin.mp4", "same_bytes")]
    assert part_path(tmp_path / "corpus", "video", read_manifest(tmp_path / "corpus")["video"][0]).exists()
