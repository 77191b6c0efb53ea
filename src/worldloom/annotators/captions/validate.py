"""The gate every caption passes, whoever wrote it: strict parsing of answers, then a list of all problems."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from worldloom.annotators.captions.interface import KINDS
from worldloom.schemas import DataError

MAX_ANSWER_BYTES = 64 * 1024
MAX_BYTES = {"scene": 2000, "character": 800, "ui": 800, "text": 600}
MAX_EVENTS = 256
KEYS = ("scene", "character", "ui", "events")
EVENT_KEYS = ("start_s", "end_s", "text", "kind")
TIME_TOLERANCE_S = 1e-6

_SEEN = r"(?:camera|view(?:point|er)?|point of view|perspective|shot|lens)"
_MOVES = (r"(?:pan|tilt|zoom|turn|mov|rotat|follow|track|orbit|shift|swing|sweep|shak|fl|glid|doll|ris|push|pull)"
          r"(?:e|y|s|es|ed|ing|ning|ming|ying|ies|ned|med)?")
_WAY = r"(?:left|right|up(?:ward)?s?|down(?:ward)?s?|forward|back(?:ward)?s?|in|out|across|around)"
_AVATAR = r"(?:the (?:player|viewer|user|agent)|we|you)"
PHRASES = tuple(re.compile(pattern, re.I) for pattern in (
    rf"\b(?:the|our|this|your) {_SEEN} (?:is |slowly |quickly |then |smoothly |slightly )*{_MOVES}\b",
    r"\bcamera (?:movements?|motions?|angles?|work|shakes?|pans?|tilts?|position)\b",
    r"\b(?:moving|static|handheld|hand-held|fixed|panning|virtual) camera\b",
    r"(?<!frying )(?<!baking )(?<!sauce )(?<!cooking )\b(?:pans|panning|tilts|tilting) (?:to the )?"
    rf"{_WAY}\b(?! (?:on|in|over|behind|by) )",
    rf"\b(?:zoom|zooms|zooming) (?:to the )?{_WAY}\b",
    r"\b(?:first|third)[- ]person (?:view|perspective|shot|camera|game|shooter)\b|\bPOV\b|\bpoint[- ]of[- ]view\b",
    r"\b(?:wide|tracking|dolly|aerial|establishing|close-up|overhead|panning|medium) shots?\b",
    rf"\b{_AVATAR} (?:\w+ly )?(?:turn|move|walk|run|look|jump|strafe|step|rotate|back|crouch|sprint)(?:s|es|ing)?"
    rf"(?: to the)? {_WAY}\b",
    r"\bstraf(?:e|es|ed|ing)\b",
    r"\b(?:press|presses|pressing|pressed|holding|holds|hits|tapping|taps) (?:down )?(?:the )?"
    r"(?:(?-i:[WASD])|space(?: ?bar)?|shift|ctrl|(?:left|right) (?:mouse|click)\w*|(?:arrow|space|shift|[wasd]) key|"
    r"\w+ button)\b",
    r"\bWASD\b|\b(?:arrow|movement) keys\b|\b(?:keyboard|mouse|joystick|gamepad) (?:input|movement|control|click)s?\b",
))
"""Phrases that speak of the camera or of the controls; a mountain pass, a frying pan or a security camera is none."""


def parse_answer(text: str) -> dict[str, Any]:
    """The JSON object of a captioner's answer, bare or in one fenced block.

    Raises:
        DataError: too large, cut off, not JSON, a key twice, NaN or infinity, or not an object; one line.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_ANSWER_BYTES:
        raise DataError(f"answer has {size} bytes, at most {MAX_ANSWER_BYTES} are read")
    try:
        value = json.loads(_unfenced(text), object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise DataError(f"answer is not complete JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"answer cannot be read: {_one_line(str(error))}") from None
    if not isinstance(value, dict):
        raise DataError(f"answer is a JSON {type(value).__name__}, wanted an object with {', '.join(KEYS)}")
    return value


def _unfenced(text: str) -> str:
    text = text.strip()
    if not text.startswith("```"):
        return text
    head, _, body = text.partition("\n")
    if head[3:].strip().lower() not in ("", "json") or not body.endswith("```"):
        raise DataError("answer opens a fenced block that is not closed JSON; it was cut off or holds more text")
    return body[:-3]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"key {twice!r} stands twice")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def validate(caption: Mapping[str, Any], duration_s: float, perspective: str | None = None) -> list[str]:
    """Every problem of a caption as one line that names the field; empty where it can be used.

    Args:
        duration_s: length of the clip, which the events must tile from 0.
        perspective: with fps, `character` must be null.
    """
    problems = _key_problems(caption, KEYS, "caption")
    for name in ("scene", "character", "ui"):
        if name in caption:
            problems += _text_problems(caption[name], name, MAX_BYTES[name], optional=name != "scene")
    if perspective == "fps" and caption.get("character") is not None:
        problems.append("character: wanted null in first person")
    if "events" in caption:
        problems += _event_problems(caption["events"], duration_s)
    return problems


def _key_problems(value: Mapping[str, Any], wanted: tuple[str, ...], where: str) -> list[str]:
    return ([f"{where}: no field '{name}'" for name in wanted if name not in value]
            + [f"{where}: unknown field {_one_line(repr(name))}" for name in value if name not in wanted])


def _text_problems(value: Any, where: str, most_bytes: int, *, optional: bool) -> list[str]:
    if value is None and optional:
        return []
    if not isinstance(value, str):
        return [f"{where}: found {type(value).__name__}, wanted text" + (" or null" if optional else "")]
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        return [f"{where}: {size} bytes, at most {most_bytes}"]
    if not value.strip():
        return [f"{where}: empty, wanted text" + (" or null" if optional else "")]
    if any(0xD800 <= ord(c) < 0xE000 or ord(c) < 32 and c not in "\n\t" for c in value):
        return [f"{where}: holds control characters or half a surrogate pair"]
    return [f"{where}: speaks of the camera or controls: '{phrase}'" for phrase in camera_phrases(value)]


def camera_phrases(text: str) -> list[str]:
    """Phrases of a text that speak of the camera or of controls, in their own words."""
    return [_one_line(match.group()) for pattern in PHRASES if (match := pattern.search(text))]


def _event_problems(events: Any, duration_s: float) -> list[str]:
    if not isinstance(events, list) or not events:
        return ["events: wanted a list that tiles the clip, found none"]
    if len(events) > MAX_EVENTS:
        return [f"events: {len(events)} of them, at most {MAX_EVENTS}"]
    problems, reached_s = [], 0.0
    for i, event in enumerate(events):
        where = f"events[{i}]"
        if not isinstance(event, Mapping):
            problems.append(f"{where}: found {type(event).__name__}, wanted an object")
            continue
        problems += _key_problems(event, EVENT_KEYS, where)
        problems += _text_problems(event.get("text"), f"{where}.text", MAX_BYTES["text"], optional=True)
        if "kind" in event and event["kind"] not in KINDS:
            problems.append(f"{where}.kind: {_one_line(repr(event['kind']))}, wanted one of {', '.join(KINDS)}")
        bounds = [event.get("start_s"), event.get("end_s")]
        if not all(_is_finite(bound) for bound in bounds):
            problems.append(f"{where}: start_s and end_s must be finite numbers")
            continue
        problems += _bound_problems(where, *bounds, reached_s, duration_s)
        reached_s = bounds[1]
    if not problems and abs(reached_s - duration_s) > TIME_TOLERANCE_S:
        problems.append(f"events: end at {reached_s:g} s, the clip at {duration_s:g} s")
    return problems


def _bound_problems(where: str, start_s: float, end_s: float, reached_s: float, duration_s: float) -> list[str]:
    problems = []
    if abs(start_s - reached_s) > TIME_TOLERANCE_S:
        problems.append(f"{where}.start_s: {start_s:g}, wanted {reached_s:g} where the one before ends")
    if end_s <= start_s:
        problems.append(f"{where}.end_s: {end_s:g} is not after start_s {start_s:g}")
    if end_s > duration_s + TIME_TOLERANCE_S:
        problems.append(f"{where}.end_s: {end_s:g} is past the clip's {duration_s:g} s")
    return problems


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9 and math.isfinite(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:80]
