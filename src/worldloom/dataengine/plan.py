"""The plan: which sources, which stages with which parameters. YAML in, stages in order out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from worldloom.dataengine.objects import is_url
from worldloom.dataengine.sources import SourceParams
from worldloom.schemas import ConfigError, ids
from worldloom.schemas.config import load_config, parse_config

DEFAULT_STAGES = ("video", "trajectory", "clip", "camera", "action", "score", "caption", "selection")


class Plan(BaseModel):
    """A plan document. `params` are the stages' own, keyed by stage name."""
    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: tuple[SourceParams, ...] = Field(min_length=1)
    stages: tuple[str, ...] = DEFAULT_STAGES
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    videos_per_part: int = Field(default=8, ge=1)
    workers: int = Field(default=2, ge=1)


def load_plan(path: Path) -> Plan:
    """The plan at `path`; source paths that are no URLs are taken relative to the file."""
    plan = load_config(path, Plan)
    base = path.resolve().parent
    sources = tuple(s if is_url(s.path) else s.model_copy(update={"path": str(base / s.path)}) for s in plan.sources)
    names = [s.name for s in sources]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two sources have the same name; names: {', '.join(names)}")
    return plan.model_copy(update={"sources": sources})


def stage_classes() -> dict[str, str]:
    """Where each stage is found: name -> module:class, from the entry points `worldloom.stages`."""
    return {point.name: point.value for point in entry_points(group="worldloom.stages")}


def load_stage(reference: str, params: Mapping[str, Any], where: str = "plan") -> Any:
    """A stage of the class at `module:class`, with its parameters checked."""
    module, _, name = reference.partition(":")
    cls = getattr(importlib.import_module(module), name)
    return cls(parse_config(dict(params), cls.Params, lambda loc: f"{where}: params.{cls.name}"))


def stage_params(plan: Plan, name: str) -> dict[str, Any]:
    """Parameters of a stage, with what the sources declare: the lens for `camera`, the perspective for the labels."""
    params = plan.params.get(name, {})
    said: dict[str, Any] = {}
    if name in ("action", "action_truth", "trajectory"):
        said = {_id(s): s.perspective for s in plan.sources if s.perspective != "uncertain"}
    elif name == "camera":
        said = {_id(s): s.camera.model_dump(exclude_none=True) for s in plan.sources if s.camera is not None}
    return params | {"declared": said | params.get("declared", {})} if said else params


def _id(source: SourceParams) -> str:
    return ids.source_id(source.kind, source.name)


def ordered_stages(plan: Plan) -> list[tuple[str, Any]]:
    """(reference, stage) of the plan, each after the stages that it reads.

    Raises:
        ConfigError: an unknown stage, parameters for one that does not run, or one that reads what nothing writes.
    """
    known = stage_classes()
    unknown = [name for name in (*plan.stages, *plan.params) if name not in known]
    if unknown:
        raise ConfigError(f"plan: no stage {', '.join(map(repr, unknown))}; stages: {', '.join(sorted(known))}")
    stages = {name: (known[name], load_stage(known[name], stage_params(plan, name))) for name in plan.stages}
    ordered: list[tuple[str, Any]] = []
    done = {"file"}
    while len(ordered) < len(stages):
        ready = [(n, s) for n, s in stages.items() if n not in done and set(_needs(s[1], stages)) <= done]
        if not ready:
            waiting = [f"{n} (reads {', '.join(_needs(s[1], stages))})" for n, s in stages.items() if n not in done]
            raise ConfigError(f"plan: nothing writes what these stages read: {'; '.join(waiting)}")
        for name, found in ready:
            ordered.append(found)
            done.add(name)
    return ordered


def _needs(stage: Any, stages: Mapping[str, Any]) -> list[str]:
    """Tables a stage waits for: an optional one only when the plan computes it."""
    return [t for t in stage.reads if t not in stage.optional or t in stages]
