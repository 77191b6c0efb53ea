"""What a training folder holds: the loss by step, the figures of the evaluation, and the pictures it drew."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CURVES = ("loss", "copy_loss")


@dataclass(frozen=True)
class Check:
    """One bound on the evaluation; `passed` is None where the figure is missing."""
    name: str
    found: str
    bound: str
    passed: bool | None


def read_curves(training_dir: Path) -> tuple[list[float], dict[str, list[float]]]:
    """Steps and the loss curves of metrics.jsonl; lines that are no JSON object with a loss are passed over."""
    path, steps, curves = training_dir / "metrics.jsonl", [], {name: [] for name in CURVES}
    if not path.is_file():
        return [], {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        entry = _object(line)
        if not _is_number(entry.get("loss")):
            continue
        steps.append(float(entry["step"]) if _is_number(entry.get("step")) else float(len(steps)))
        for name, values in curves.items():
            values.append(float(entry[name]) if _is_number(entry.get(name)) else math.nan)
    return steps, {name: values for name, values in curves.items() if any(math.isfinite(v) for v in values)}


def read_figures(training_dir: Path) -> dict[str, float | list[float]]:
    """Numbers and lists of numbers of evaluation.json, here or in evaluation/; nested names are joined by dots."""
    paths = [training_dir / "evaluation.json", training_dir / "evaluation" / "evaluation.json"]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return {}
    return dict(_flatten("", _object(path.read_text(encoding="utf-8", errors="replace"))))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flatten(prefix: str, value: Any) -> list[tuple[str, float | list[float]]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _flatten(f"{prefix}.{key}".strip("."), inner)]
    if _is_number(value):
        return [(prefix, float(value))]
    if isinstance(value, list) and value and all(_is_number(item) for item in value):
        return [(prefix, [float(item) for item in value])]
    return []


_PATTERNS = {
    "r": r"^(?!.*(shuffled|estimator|negat)).*(^|[._])(r|correlation)$",
    "slope": r"^(?!.*(shuffled|estimator|negat)).*slope$",
    "spread": r"spread(_deg)?$",
    "positions": r"(position|horizon)",
    "copy": r"(?=.*psnr)(?=.*copy)",
    "negated": r"(?=.*psnr)(?=.*(negat|invert))",
    "psnr": r"(?=.*psnr)(?!.*(copy|negat|invert|true|recon|position|horizon|by_))",
}


def find_figure(figures: dict[str, float | list[float]], name: str) -> float | list[float] | None:
    """The figure that a bound speaks of, by its shortest matching name; positions are a list, the others one number."""
    for key in sorted(figures, key=len):
        value = figures[key]
        if not re.search(_PATTERNS[name], key.lower()):
            continue
        if isinstance(value, list) == (name == "positions"):
            return value
    return None


def number(value: float | list[float] | None) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, list):
        return ", ".join(number(item) for item in value)
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.3g}"


def checks(figures: dict[str, float | list[float]]) -> list[Check]:
    """The bounds that a model which follows its actions keeps."""
    r, slope, spread, positions, psnr, copy, negated = (
        find_figure(figures, name) for name in ("r", "slope", "spread", "positions", "psnr", "copy", "negated"))

    def check(name: str, bound: str, value: Any, test: Callable[[Any], bool], *others: Any) -> Check:
        known = value is not None and None not in others
        return Check(name, number(value), bound, test(value) if known else None)
    return [
        check("correlation of commanded and measured yaw", "at least 0.6", r, lambda v: v >= 0.6),
        check("slope of measured on commanded yaw", "at least 0.4", slope, lambda v: v >= 0.4),
        check("spread between the outer commands, degrees", "at least 5", spread, lambda v: v >= 5),
        check("correlation at every position", "each at least 0.5", positions, lambda v: min(v) >= 0.5),
        check("PSNR against copying the last frame, dB", f"above {number(copy)}", psnr, lambda v: v > copy, copy),
        check("PSNR against negated actions, dB", f"above {number(negated)}", psnr, lambda v: v > negated, negated),
    ]


def pictures(training_dir: Path, limit: int = 12) -> list[tuple[str, bytes]]:
    """Names and bytes of evaluation/*.png, at most `limit`, in order of name."""
    found = sorted((training_dir / "evaluation").glob("*.png"))[:limit]
    return [(path.stem.replace("_", " "), path.read_bytes()) for path in found]
