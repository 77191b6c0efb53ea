"""The import table of docs/architecture.md, held by reading every module's imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "worldloom"
VIEW = ("worldloom.schemas", "worldloom.dataengine.stage", "worldloom.dataengine.video",
        "worldloom.dataengine.geometry")
ALLOWED = {
    "schemas": ("worldloom.schemas",),
    "dataengine": ("worldloom.schemas", "worldloom.dataengine"),
    "annotators": (*VIEW, "worldloom.annotators"),
    "shards": ("worldloom.schemas", "worldloom.shards"),
    "train": ("worldloom.schemas", "worldloom.shards", "worldloom.train"),
}
EXTRA = {  # the few modules that may reach further
    "shards/compile.py": ("worldloom.dataengine.catalog",),
    "shards/pack.py": ("worldloom.dataengine.catalog", "worldloom.dataengine.store"),
    "train/evaluate": ("worldloom.annotators", "worldloom.dataengine"),
    "train/study.py": ("worldloom.annotators", "worldloom.dataengine"),
}
MODULES = sorted(p for package in ALLOWED for p in (ROOT / package).rglob("*.py") if p.name != "cli.py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return {name for name in names if name.split(".")[0] == "worldloom"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_what_its_package_may(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    allowed = ALLOWED[relative.split("/")[0]]
    allowed += tuple(name for prefix, names in EXTRA.items() if relative.startswith(prefix) for name in names)
    wrong = [n for n in imported(path) if not any(n == a or n.startswith(a + ".") for a in allowed)]
    assert not wrong, f"{relative} may not import {wrong}"


def test_a_training_node_does_not_import_the_packer() -> None:
    for path in (ROOT / "train").rglob("*.py"):
        assert not imported(path) & {"worldloom.shards.pack", "worldloom.shards.compile"}, path


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_the_loader_needs_no_engine() -> None:
    assert not loaded_by("worldloom.shards.loader") & {"duckdb", "cv2", "ray", "torch", "imageio_ffmpeg", "vizdoom"}


def test_the_command_line_loads_nothing_heavy() -> None:
    heavy = {"numpy", "pyarrow", "duckdb", "torch", "cv2", "av", "typer", "pydantic"}
    assert not loaded_by("worldloom.cli") & heavy
