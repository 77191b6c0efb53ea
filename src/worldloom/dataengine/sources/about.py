"""What a source says of one of its videos, as the one JSON text that a Video row keeps in `about`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

TEXT = ("text", "caption", "txt", "prompt", "description", "task")
URL = ("url", "video_url", "source_url")
KEY = ("key", "__key__")
LICENCE = ("licence", "license")
MOST_CHARACTERS = 16_000
"""Of one value; a longer one is left out, and named in `facts.left_out`."""
_MOST_DEPTH = 20


def about_text(facts: Mapping[str, Any], **known: str | None) -> str | None:
    """{"text", "url", "key", "licence", "facts"} as JSON, what is not known left out; None where nothing is.

    Args:
        facts: by the source's own names. The first text under a usual name for a caption becomes `text`, and so on.
        known: text, url, key or licence, where the source states it elsewhere.
    """
    rest, found = dict(facts), {}
    for name, usual in (("text", TEXT), ("url", URL), ("key", KEY), ("licence", LICENCE)):
        own = next((other for other in usual if isinstance(rest.get(other), str) and rest[other].strip()), None)
        value = known.get(name) or (rest[own] if own else None)
        if value:
            found[name] = _clean(value)
            rest = {other: said for other, said in rest.items() if other not in usual or said != value}
    kept = {_clean(str(name)): plain for name, value in sorted(rest.items()) if (plain := _plain(value)) is not None}
    long = sorted(name for name, value in (found | kept).items() if _length(value) > MOST_CHARACTERS)
    found = {name: value for name, value in found.items() if name not in long}
    kept = {name: value for name, value in kept.items() if name not in long}
    if long:
        kept["left_out"] = long
    document = found | ({"facts": kept} if kept else {})
    return json.dumps(document, ensure_ascii=False) if document else None


def stated_licence(facts: Mapping[str, Any]) -> str | None:
    """The licence under one of its usual names."""
    return next((value.strip() for name in LICENCE
                 if isinstance(value := facts.get(name), str) and value.strip()), None)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON has it; None for what is empty, no number, no text, or too deep."""
    if isinstance(value, str):
        return _clean(value) or None
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        inner = {_clean(str(k)): _plain(v, depth + 1) for k, v in value.items() if depth < _MOST_DEPTH}
        return {k: v for k, v in inner.items() if v is not None} or None
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value if depth < _MOST_DEPTH] or None
    return None if value is None or isinstance(value, bytes | bytearray) else _clean(str(value))


def _clean(text: str) -> str:
    """Text that is valid everywhere: half a surrogate pair as its escape, no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "")
