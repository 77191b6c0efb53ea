"""The documented commands run, in the order in which the pages give them, in one working folder."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_plan

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["record.md", "run.md", "labels.md", "query.md", "mix-and-pack.md", "train.md"]


def commands(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("worldloom ")]


@pytest.mark.slow
def test_every_documented_command_runs(tmp_path, recordings) -> None:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copytree(recordings, tmp_path / "recordings")
    for page in PAGES:
        found = commands(page)
        assert found, page
        for command in found:
            words = shlex.split(command, comments=True)
            done = subprocess.run([sys.executable, "-m", "worldloom.cli", *words[1:]], cwd=tmp_path, timeout=300,
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            assert "Traceback" not in done.stderr, f"{page}: {command}"


def test_readme_names_pages_that_are_there() -> None:
    for link in re.findall(r"\]\((docs/[^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).is_file(), link


def test_the_data_dictionary_page_is_the_generated_one() -> None:
    from worldloom.schemas import TABLES
    from worldloom.schemas.cli import dictionary

    assert (ROOT / "docs" / "data-dictionary.md").read_text() == dictionary(dict(TABLES), markdown=True) + "\n"


def test_the_example_plan_is_valid(tmp_path, recordings) -> None:
    from worldloom.dataengine.plan import load_plan, ordered_stages

    assert ordered_stages(load_plan(write_plan(tmp_path / "p.yaml", recordings)))
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copytree(recordings, tmp_path / "recordings")
    assert ordered_stages(load_plan(tmp_path / "plans" / "example.yaml"))
