"""What several tests share: real recordings, made once, and a corpus computed from them."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from corpora import write_plan


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The handed real videos and poses; tests that need them are left out where they are absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no shared data beside the checkout")
    return path


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four short episodes of real gameplay with exact truth, on two maps."""
    from worldloom.dataengine.record.vizdoom import record_many

    out = tmp_path_factory.mktemp("recordings")
    record_many(out, maps=("map01", "map02"), episodes=2, seed=11, tics=150, policy="mixed",
                workers=2, hud=False, weapon=False)
    return out


@pytest.fixture(scope="session")
def corpus(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of those recordings with every stage run; read it, do not change it."""
    from worldloom.dataengine.catalog import publish_catalog
    from worldloom.dataengine.plan import load_plan
    from worldloom.dataengine.runner import run_plan

    folder = tmp_path_factory.mktemp("corpus")
    run_plan(load_plan(write_plan(folder / "plan.yaml", recordings)), folder / "corpus", quiet=True)
    publish_catalog(folder / "corpus")
    return folder / "corpus"
