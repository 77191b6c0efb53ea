"""A caption as the text that a model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def render(caption: Mapping[str, Any], perspective: str, event: Mapping[str, Any] | str | None = None) -> str:
    """"The scene in the video is: … The character is: … The event is: …".

    The character is told for `tps` only; the event, an entry of `events` or its text, is left out when null.
    """
    text = event.get("text") if isinstance(event, Mapping) else event
    parts = [f"The scene in the video is: {_sentence(caption['scene'])}"]
    if perspective == "tps" and caption.get("character"):
        parts.append(f"The character is: {_sentence(caption['character'])}")
    if text:
        parts.append(f"The event is: {_sentence(text)}")
    return " ".join(parts)


def event_at(caption: Mapping[str, Any], time_s: float) -> Mapping[str, Any] | None:
    """The event whose [start_s, end_s) holds a time; None outside the clip."""
    return next((e for e in caption["events"] if e["start_s"] <= time_s < e["end_s"]), None)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text[-1:] in ".!?" else f"{text}."
