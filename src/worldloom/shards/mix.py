"""The mix document: which clips, in which exact proportions."""

from __future__ import annotations

import difflib
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from worldloom.schemas import ConfigError
from worldloom.schemas.config import read_yaml

SUM_TOLERANCE = 1e-6
Unit = Literal["clips", "frames", "hours", "latents"]


class Component(BaseModel):
    """One part of a mix: the clips that meet `where`, with their share of the total."""
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: str = Field(min_length=1)
    weight: float = Field(allow_inf_nan=False)
    source: str | None = None
    where: str = "true"
    repeat: bool = False
    max_repeats: int = Field(default=4, ge=1)

    @property
    def passes(self) -> int:
        """How often a clip may be used."""
        return self.max_repeats if self.repeat else 1


class MixDocument(BaseModel):
    """What a mix asks for. `total` counts `unit`; "max" is the largest total that no component runs out of."""
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    selection: str | None = "default"
    unit: Unit = "frames"
    total: int | float | Literal["max"] = "max"
    seed: int = 0
    ratio: bool = False
    overlap: Literal["refuse", "first"] = "refuse"
    held_out: str | None = None
    components: list[Component]

    @model_validator(mode="after")
    def _check(self) -> MixDocument:
        check_names([c.name for c in self.components])
        check_weights([c.weight for c in self.components], [c.name for c in self.components], ratio=self.ratio)
        if self.total != "max" and (self.total <= 0 or (self.unit != "hours" and self.total != int(self.total))):
            raise ValueError(f"total is {self.total}; it must be a positive count of {self.unit}, or max")
        if any(";" in text for text in [self.held_out or "", *(c.where for c in self.components)]):
            raise ValueError("a condition holds ';'; it must be one SQL condition, not a statement")
        return self

    @property
    def shares(self) -> list[Fraction]:
        """Exact shares that add up to one."""
        return shares([c.weight for c in self.components])


def check_names(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"component {name!r} is named twice (also {seen[name.casefold()]!r}); merge them")
        seen[name.casefold()] = name


def check_weights(weights: list[float], names: list[str], *, ratio: bool) -> None:
    if not weights:
        raise ValueError("the mix has no components; name at least one")
    for name, weight in zip(names, weights, strict=True):
        if weight < 0:
            raise ValueError(f"component {name!r} has weight {weight:g}; weights are 0 or more")
    total = float(sum(Fraction(repr(float(w))) for w in weights))
    if total == 0:
        raise ValueError("all weights are 0; at least one must be above")
    if not ratio and abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"weights add to {total:.6g}, not 1; correct them, or set ratio: true to scale them")


def shares(weights: list[float]) -> list[Fraction]:
    exact = [Fraction(repr(float(w))) for w in weights]
    return [w / sum(exact) for w in exact]


def allot(total: int, parts: list[Fraction]) -> list[int]:
    """Integers that add up to `total`, each within one of its share: largest remainder, ties to the first."""
    quotas = [total * part for part in parts]
    counts = [int(q) for q in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda i: (counts[i] - quotas[i], i))
    for i in by_remainder[:total - sum(counts)]:
        counts[i] += 1
    return counts


def load_mix(path: Path) -> MixDocument:
    """The mix at `path`.

    Raises:
        ConfigError: unreadable, not YAML, or not a mix; one line an error.
    """
    return parse_mix(read_yaml(path)[0], str(path))


def parse_mix(data: Any, where: str = "mix") -> MixDocument:
    try:
        return MixDocument.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_explain(e)}" for e in error.errors())) from None


def _explain(error: Any) -> str:
    place = ".".join(str(p) for p in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{place + ': ' if place else ''}{error['msg'].removeprefix('Value error, ')}"
    fields = list((Component if len(error["loc"]) > 1 else MixDocument).model_fields)
    near = difflib.get_close_matches(str(error["loc"][-1]), fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"no field {place!r}{hint} (fields: {', '.join(fields)})"
