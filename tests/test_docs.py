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
PAGES = ["record.md", "run.md", "labels.md", "latents.md", "query.md", "mix-and-pack.md", "train.md"]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return [line for block in blocks(text, "bash") for line in block.splitlines() if line.startswith("worldloom ")]


def run(folder: Path, words: list[str], about: str) -> None:
    done = subprocess.run([sys.executable, *words], cwd=folder, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, f"{about}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr, about


@pytest.mark.slow
def test_every_documented_command_and_example_runs(tmp_path, recordings) -> None:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copytree(recordings, tmp_path / "recordings")
    for page in PAGES:
        assert commands(page), page
        for command in commands(page):
            run(tmp_path, ["-m", "worldloom.cli", *shlex.split(command, comments=True)[1:]], f"{page}: {command}")
    for page in (*(ROOT / "docs").glob("*.md"), *(ROOT / "src" / "worldloom").glob("*/README.md")):
        for example in blocks(page.read_text(), "python"):
            run(tmp_path, ["-c", example], f"{page.name}:\n{example}")


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
