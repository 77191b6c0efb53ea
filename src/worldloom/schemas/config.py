"""YAML into pydantic models: unknown keys are refused with their line and the nearest known name."""

from __future__ import annotations

import difflib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from worldloom.schemas.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def load_config(path: Path, model: type[Model]) -> Model:
    """The document at `path` as a `model`.

    Raises:
        ConfigError: unreadable, not YAML, or not what the model asks for; one line an error, with its line number.
    """
    data, node = read_yaml(path)
    return parse_config(data, model, lambda loc: f"{path}:{_line(node, loc)}")


def read_yaml(path: Path) -> tuple[Any, Any]:
    """(document, its nodes with their lines). Plain data only: no tags, aliases, or key that stands twice.

    Raises:
        ConfigError: unreadable, not YAML, or more than plain data.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise ConfigError(f"{path}: YAML aliases (*name) are not taken; write the value out")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_doubles(node, path)
        return yaml.safe_load(text) or {}, node
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _refuse_doubles(node: Any, path: Path) -> None:
    """Raises ConfigError where a mapping names a key twice: YAML would keep the last in silence."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _refuse_doubles(each, path)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key.value, str) and key.value in seen:
                raise ConfigError(f"{path}:{key.start_mark.line + 1}: {key.value!r} stands twice; keep one")
            seen.add(str(key.value))
            _refuse_doubles(value, path)


def parse_config(data: Any, model: type[Model], where: Any) -> Model:
    """`data` as a `model`; `where(loc)` names the place of an error."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = [f"{where(e['loc'])}: {_explain(e, model)}" for e in error.errors()]
        raise ConfigError("\n".join(lines)) from None


def _explain(error: Any, model: type[BaseModel]) -> str:
    *parents, last = error["loc"] or ("document",)
    place = ".".join(str(p) for p in parents) or model.__name__.removesuffix("Params").lower()
    if error["type"] != "extra_forbidden":
        name = ".".join(str(p) for p in error["loc"]) or "document"
        return f"{name}: {error['msg']}, found {_short(error.get('input'))}"
    fields = _fields(model, parents)
    near = difflib.get_close_matches(str(last), fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{place} has no field {str(last)!r}{hint} (fields: {', '.join(fields)})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _fields(model: Any, loc: list[Any]) -> list[str]:
    for step in loc:
        field = getattr(model, "model_fields", {}).get(step) if isinstance(step, str) else None
        if field is None:
            continue
        model = _inner_model(field.annotation) or model
    return list(getattr(model, "model_fields", {}))


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) is not None or isinstance(annotation, types.UnionType):
        for part in typing.get_args(annotation):
            if (found := _inner_model(part)) is not None:
                return found
    return None


def _line(node: Any, loc: tuple[Any, ...]) -> int:
    """Line of the deepest part of `loc` that the document holds, counted from 1."""
    line = 1
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(step)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line
