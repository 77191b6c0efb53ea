"""What a folder may hold besides good videos: each is accounted for once, and the rest goes on."""

import os
import subprocess
import sys

import pytest
import yaml
from tiny import tiny_video, write_video

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.schemas import ConfigError


def plan(folder, **changes):
    path = folder.parent / "plan.yaml"
    source = {"name": "v", "kind": "folder", "path": str(folder), "perspective": "fps"}
    path.write_text(yaml.safe_dump({"sources": [source]} | changes))
    return load_plan(path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "videos").mkdir()
    tiny_video(tmp_path / "videos" / "good.mp4")
    return tmp_path / "videos"


def test_a_pipe_and_a_name_that_is_not_text_fail_alone(folder, tmp_path) -> None:
    os.mkfifo(folder / "pipe.mp4")
    with open(os.fsencode(folder) + b"/bad\nline\xffjunk.mp4", "wb") as file:
        file.write(b"junk")
    report = run_plan(plan(folder, stages=["video", "clip"]), tmp_path / "corpus", quiet=True)
    counts = report.stages[0].counts
    assert (counts["rows_in"], counts["done"], counts["failed"]) == (3, 1, 2)
    failed = open_catalog(tmp_path / "corpus").sql("SELECT row_key, detail FROM failure ORDER BY 1").fetchall()
    assert failed[0][0] == "bad\nline\\xffjunk.mp4" and "not a regular file" in failed[1][1]


def test_a_picture_that_a_library_cannot_take_fails_alone(folder, tmp_path) -> None:
    import numpy as np

    write_video(folder / "thin.mp4", [np.full((2, 2, 3), 9 * i, np.uint8) for i in range(24)])
    report = run_plan(plan(folder), tmp_path / "corpus", quiet=True)
    assert report.stages[-1].stage in ("selection", "caption") and report.stages[0].counts["done"] == 2
    con = open_catalog(tmp_path / "corpus")
    assert all(n == m for n, m in con.sql("SELECT rows_in, done + dropped + failed FROM stage_accounts").fetchall())
    assert con.sql("SELECT count(*) FROM selection").fetchall()[0][0] >= 1


def test_a_source_without_a_video_is_refused_and_empties_nothing(folder, tmp_path) -> None:
    run_plan(plan(folder, stages=["video"]), tmp_path / "corpus", quiet=True)
    (folder / "good.mp4").unlink()
    with pytest.raises(ConfigError, match="no video under .*; nothing was changed"):
        run_plan(plan(folder, stages=["video"]), tmp_path / "corpus", quiet=True)
    assert open_catalog(tmp_path / "corpus").sql("SELECT count(*) FROM video").fetchall() == [(1,)]


def test_the_perspective_that_a_source_declares_reaches_its_labels(folder, tmp_path) -> None:
    run_plan(plan(folder), tmp_path / "corpus", quiet=True)
    assert open_catalog(tmp_path / "corpus").sql("SELECT DISTINCT perspective FROM action").fetchall() == [("fps",)]


def test_a_corpus_that_cannot_be_written_is_one_line(folder, tmp_path) -> None:
    plan(folder)
    done = subprocess.run([sys.executable, "-m", "worldloom.cli", "run", str(tmp_path / "plan.yaml"), "--corpus",
                           str(folder / "good.mp4")], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_aliases_and_deep_nesting_in_a_plan_are_refused(tmp_path) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("a: &a [1, 2]\nb: [*a, *a]\n")
    with pytest.raises(ConfigError, match="aliases"):
        load_plan(bomb)
    bomb.write_text("[" * 5000)
    with pytest.raises(ConfigError):
        load_plan(bomb)
