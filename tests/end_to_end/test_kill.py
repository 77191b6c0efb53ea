"""Kill -9 at ten random moments: what is left is finished by the next run, and is what a calm run makes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_plan

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.catalog.open import row_types
from worldloom.schemas.ids import file_sha256

MIX = """
name: all
unit: frames
total: max
seed: 3
components: [{name: all, weight: 1.0, where: "num_frames > 0"}]
"""
WORK = "import sys; from worldloom.cli import main; sys.argv = ['worldloom', *sys.argv[1:]]; main()"


def commands(folder: Path) -> list[list[str]]:
    corpus = ["--corpus", str(folder / "corpus")]
    return [[sys.executable, "-c", WORK, "run", str(folder.parent / "plan.yaml"), *corpus],
            [sys.executable, "-c", WORK, "pack", str(folder.parent / "mix.yaml"), *corpus]]


def run_until(folder: Path, limit_s: float | None) -> bool:
    """Run and pack; kill the whole process group after `limit_s`. True when it got to the end."""
    for command in commands(folder):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            _, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        assert process.returncode == 0, errors.decode()[-2000:]
    return True


def everything(folder: Path) -> dict[str, object]:
    """All rows of all tables and the hash of every media file, tar and index."""
    con = open_catalog(folder / "corpus")
    rows = {name: sorted(map(repr, con.sql(f'SELECT * FROM "{name}"').fetchall())) for name in row_types()}
    kept = [p for part in ("media", "shards") for p in (folder / "corpus" / part).rglob("*") if p.is_file()]
    return rows | {str(p.relative_to(folder)): file_sha256(p) for p in kept}


@pytest.mark.slow
def test_ten_kills_change_neither_the_catalog_nor_the_shards(recordings, tmp_path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for path in sorted(recordings.iterdir())[:4]:
        shutil.copy(path, videos)
    params = {"clip": {"fps": 17.5, "max_s": 2.0, "shots": False}, "camera": {"mode": "odometry", "hfov_deg": 90.0},
              "selection": {"rules": []}}
    write_plan(tmp_path / "plan.yaml", videos, params=params, videos_per_part=1)
    (tmp_path / "mix.yaml").write_text(MIX)
    assert run_until(tmp_path / "calm", None)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    moments = random.Random(seed)
    kills, calm = 0, everything(tmp_path / "calm")
    while kills < 10:
        if run_until(tmp_path / "killed", moments.uniform(0.3, 4.0)):     # it got to the end first: compare, begin anew
            assert everything(tmp_path / "killed") == calm
            shutil.rmtree(tmp_path / "killed")
        else:
            kills += 1
    assert run_until(tmp_path / "killed", None)
    assert everything(tmp_path / "killed") == calm
