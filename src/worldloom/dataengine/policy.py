"""Policies: rules over scores that say which clips are kept, and why the others are not.

A rule is `NAME OP NUMBER`, joined by `and` and `or` (`and` binds first): `flow_px < 0.5 or static_share >= 0.9`.
Every failed rule is a reason. A number that is missing or null fails the clip too: what was not measured is not kept.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.schemas import Clip, ConfigError, Selection

SCORE_NAMES = ("blur", "luma_mean", "clipped_share", "static_share", "duplicate_share", "cut_score", "flow_px",
               "black_share", "saturation_mean", "colour_entropy", "letterbox_share")
CLIP_NAMES = ("num_frames", "fps", "width", "height")
ACTION_NAMES = ("certain_share",)

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
             "==": operator.eq, "!=": operator.ne}
_CLAUSE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|<|>)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")


class Rule(Params):
    """Clips for which `drop_when` holds are dropped for `reason`."""
    reason: str
    drop_when: str


DEFAULT_RULES = (
    Rule(reason="short", drop_when="num_frames < 16"),
    Rule(reason="black", drop_when="black_share > 0.5"),
    Rule(reason="frozen", drop_when="static_share > 0.8 or duplicate_share > 0.5"),
    Rule(reason="still", drop_when="flow_px < 0.3"),
    Rule(reason="cut", drop_when="cut_score > 0.35"),
    Rule(reason="blurred", drop_when="blur < 30"),
    Rule(reason="clipped", drop_when="clipped_share > 0.5"),
    Rule(reason="letterbox", drop_when="letterbox_share > 0.3"),
    Rule(reason="flat", drop_when="colour_entropy < 0.1"),
    Rule(reason="unlabelled", drop_when="certain_share < 0.1"),
)
"""A start for gameplay: pictures that show something, move, hold no cut, and carry usable actions."""


class SelectionParams(Params):
    name: str = "default"
    rules: tuple[Rule, ...] = DEFAULT_RULES
    extra_scores: tuple[str, ...] = ()      # names of scores that other annotators add


@dataclass(frozen=True, slots=True)
class Clause:
    """One comparison of a named number with a bound."""
    name: str
    op: str
    bound: float

    def holds(self, value: float | None) -> bool | None:
        """None where the value is unknown."""
        return None if value is None else bool(OPERATORS[self.op](value, self.bound))


Expression = tuple[tuple[Clause, ...], ...]
"""Alternatives, each of clauses that must all hold."""


def parse_rule(text: str, known: Iterable[str]) -> Expression:
    """The expression that `text` spells, with every name in `known`.

    Raises:
        ConfigError: the text does not parse, or a name is not known; the nearest known one is named.
    """
    names = tuple(known)
    return tuple(tuple(_clause(part, text, names) for part in re.split(r"\band\b", alternative))
                 for alternative in re.split(r"\bor\b", text))


def _clause(part: str, text: str, known: tuple[str, ...]) -> Clause:
    match = _CLAUSE.fullmatch(part)
    if match is None:
        raise ConfigError(f"rule '{text}': cannot read '{part.strip()}'; wanted NAME OP NUMBER such as flow_px < 0.5, "
                          "joined by and / or")
    name, op, number = match.groups()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"rule '{text}': there is no number '{name}'{hint} (known: {', '.join(known)})")
    bound = float(number)
    if not math.isfinite(bound):
        raise ConfigError(f"rule '{text}': bound {number} is too large")
    return Clause(name, op, bound)


def judge(rules: Iterable[tuple[Rule, Expression]], values: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """Every reason to drop a clip, in the order of the rules, each with the rule and the value found.

    A value that is missing, null or NaN gives `missing_<name>`, once for each name.
    """
    reasons, missing = [], set()
    for rule, expression in rules:
        found = {c.name: _known(values.get(c.name)) for clauses in expression for c in clauses}
        broken = next((clauses for clauses in expression if all(c.holds(found[c.name]) for c in clauses)), None)
        if broken:
            reasons.append({"reason": rule.reason, "rule": rule.drop_when, "value": found[broken[0].name]})
        for name in found:
            if found[name] is None and name not in missing:
                missing.add(name)
                reasons.append({"reason": f"missing_{name}", "rule": rule.drop_when, "value": None})
    return reasons


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def clip_values(item: Inputs) -> dict[str, float | None]:
    """Every number that a rule may name, from the clip, its scores and its action."""
    clip: Clip = item["clip"]
    values = {name: getattr(clip, name) for name in CLIP_NAMES}
    scores = item.get("score") or ()
    values |= {score.name: score.value for score in (scores if isinstance(scores, list | tuple) else (scores,))}
    if (action := item.get("action")) is not None:
        values |= {name: getattr(action, name) for name in ACTION_NAMES}
    return values


class SelectionStage:
    """Verdict of one policy on each clip. It reads numbers only, so another policy costs no decoding."""
    name, version, reads, optional, writes = "selection", 1, ("clip", "score", "action"), ("score", "action"), Selection
    budget_s = 30.0
    Params = SelectionParams

    def __init__(self, params: SelectionParams | None = None) -> None:
        self.params = params or SelectionParams()
        clash = sorted(set(self.params.extra_scores) & {*CLIP_NAMES, *ACTION_NAMES})
        if clash:
            raise ConfigError(f"selection {self.params.name}: extra_scores holds {clash[0]}, which is not a score")
        known = (*SCORE_NAMES, *self.params.extra_scores, *CLIP_NAMES, *ACTION_NAMES)
        self.rules = tuple((rule, parse_rule(rule.drop_when, known)) for rule in self.params.rules)

    def setup(self, context: Context) -> None:
        """Nothing to open: a policy reads rows only."""

    def process(self, item: Inputs) -> Iterator[Selection]:
        reasons = judge(self.rules, clip_values(item))
        yield Selection(clip_id=item["clip"].clip_id, selection=self.params.name, kept=not reasons, reasons=reasons)


def selection_report(rows: Iterable[Selection]) -> dict[str, Any]:
    """Counts of a selection: clips, kept, dropped; `reasons` counts a clip under each of its reasons, `first` once."""
    every: Counter[str] = Counter()
    first: Counter[str] = Counter()
    clips, kept = 0, 0
    for row in rows:
        clips, kept = clips + 1, kept + row.kept
        every.update(reason["reason"] for reason in row.reasons)
        first.update(reason["reason"] for reason in row.reasons[:1])
    return {"clips": clips, "kept": kept, "dropped": clips - kept, "reasons": dict(every.most_common()),
            "first": dict(first.most_common())}
