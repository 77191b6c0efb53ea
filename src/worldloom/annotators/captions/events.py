"""Events of a caption: pieces of 2 to 5 seconds that tile the clip, cut where something was recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from worldloom.annotators.captions.interface import KINDS, Evidence, RecordedEvent, Truth

MIN_PIECE_S, MAX_PIECE_S = 2.0, 5.0
MAX_TEXTS = 4               # events told in one piece; more would not fit what a model reads
KIND_OF = {
    "item": "interaction", "heal": "interaction", "ammo_pickup": "interaction", "weapon_switch": "interaction",
    "hit": "interaction", "kill": "interaction", "death": "interaction", "damage": "interaction",
    "door_open": "interaction", "door_close": "interaction", "lift": "environment", "object": "object",
    "object_added": "object", "object_dropped": "object", "object_removed": "object",
}
"""Kind of a recorded event in a caption; others count as environment."""
ON_WEAPON = {"weapon_switch"}   # seen only where the weapon is drawn

BRIGHTEN_GREY = 24          # change of mean grey level over a piece that anyone would see
REDDEN_GREY = 30            # how far red stands over green and blue in a picture that turned red
STILL_FLOW_PX = 1.0         # above it another part of the world comes into view, and light changes tell of no event
MAX_CUT_SCORE = 0.3


def piece_bounds(num_frames: int, fps: float, event_frames: Sequence[int]) -> list[int]:
    """Frames where pieces start, and `num_frames` at the end.

    Pieces last 2 to 5 s and start at event frames where that leaves no shorter piece; a clip under 2 s is one piece.
    """
    shortest, longest = math.ceil(MIN_PIECE_S * fps), max(1, math.floor(MAX_PIECE_S * fps))
    cuts = [0]
    for frame in sorted(set(event_frames)):
        if frame - cuts[-1] >= shortest and num_frames - frame >= shortest:
            cuts.append(frame)
    cuts.append(num_frames)
    bounds = [0]
    for start, stop in zip(cuts, cuts[1:], strict=False):
        parts = math.ceil((stop - start) / longest)
        bounds += [start + (stop - start) * k // parts for k in range(1, parts + 1)]
    return bounds


def tile_events(evidence: Evidence) -> list[dict[str, Any]]:
    """Events of a clip; the end of each is exactly the start of the next, and the last ends with the clip."""
    clip, recorded = evidence.clip, visible_events(evidence.truth) if evidence.truth else []
    bounds = piece_bounds(clip.num_frames, clip.fps, [e.frame for e in recorded])
    pieces = []
    for start, stop in zip(bounds, bounds[1:], strict=False):
        text, kind = _tell([e for e in recorded if start <= e.frame < stop])
        start_s, end_s = start / clip.fps, stop / clip.fps
        if text is None:
            text = measured_change(evidence, start_s, end_s)
            kind = "environment" if text else "none"
        pieces.append({"start_s": start_s, "end_s": end_s, "text": text, "kind": kind})
    return pieces


def visible_events(truth: Truth) -> list[RecordedEvent]:
    """Recorded events that the pictures can show: a change of weapon is none where no weapon is drawn."""
    return [event for event in truth.events if truth.weapon or event.kind not in ON_WEAPON]


def _tell(recorded: Sequence[RecordedEvent]) -> tuple[str | None, str]:
    """The recorded texts in order, each once, as one sentence; the kind that most of them have, the first on a tie."""
    texts = list(dict.fromkeys(e.text.strip().rstrip(".") for e in recorded if e.text.strip()))
    if not texts:
        return None, "none"
    kinds = [kind_of(e.kind) for e in recorded if e.text.strip()]
    sentence = ", then ".join([texts[0], *(t[:1].lower() + t[1:] for t in texts[1:MAX_TEXTS])])
    return sentence[:1].upper() + sentence[1:] + ".", max(kinds, key=kinds.count)


def kind_of(recorded_kind: str) -> str:
    """The caption's kind of a recorded kind, which may already be one."""
    if recorded_kind in KINDS and recorded_kind != "none":
        return recorded_kind
    return KIND_OF.get(recorded_kind, "environment")


def measured_change(evidence: Evidence, start_s: float, end_s: float) -> str | None:
    """What changed in the light between the first and the last part of a piece; None where nothing plain did.

    Told only where `flow_px` and `cut_score` were measured and are small: else the change may be a change of view.
    """
    inside = (evidence.times_s >= start_s) & (evidence.times_s < end_s)
    flow_px, cut_score = (evidence.scores.get(name) for name in ("flow_px", "cut_score"))
    if inside.sum() < 4 or flow_px is None or cut_score is None or flow_px > STILL_FLOW_PX or cut_score > MAX_CUT_SCORE:
        return None
    means_T3 = evidence.frames_THWC[inside].reshape(int(inside.sum()), -1, 3).mean(axis=1)
    part = max(1, len(means_T3) // 4)
    before_3, after_3 = np.median(means_T3[:part], axis=0), np.median(means_T3[-part:], axis=0)
    brighter = float((after_3 - before_3).mean())
    red_before, red_after = (float(means_3[0] - means_3[1:].max()) for means_3 in (before_3, after_3))
    if red_after > REDDEN_GREY > 2 * red_before:
        return "The picture turns red."
    if abs(brighter) > BRIGHTEN_GREY:
        return "The picture brightens." if brighter > 0 else "The picture darkens."
    return None
