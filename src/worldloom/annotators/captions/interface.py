"""What every captioner is given and what it gives back: rules today, a vision-language model by the same call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from worldloom.schemas import Action, Clip, Video

KINDS = ("none", "interaction", "environment", "object")


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something the engine recorded; `frame` is the first canonical frame on which it shows."""
    frame: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What a recorder knows about a clip."""
    events: tuple[RecordedEvent, ...] = ()
    objects: tuple[tuple[str, ...], ...] = ()   # for each canonical frame, the name of each thing in view
    hud: bool = False
    weapon: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a captioner may look at: a sample of the frames, and what is known besides."""
    clip: Clip
    video: Video | None
    perspective: str                            # fps, tps or uncertain
    frames_THWC: np.ndarray                     # uint8 RGB sample, small
    times_s: np.ndarray                         # time of each sampled frame from the clip's first frame
    scores: Mapping[str, float | None] = field(default_factory=dict)
    action: Action | None = None
    truth: Truth | None = None

    @property
    def duration_s(self) -> float:
        return self.clip.num_frames / self.clip.fps


class Captioner(Protocol):
    """Writes captions; `name` holds its version, such as rules/1."""
    name: str

    def caption(self, evidence: Evidence) -> dict[str, Any]:
        """{"scene": str, "character": str | None, "ui": str | None, "events": [{start_s, end_s, text, kind}, …]}.

        The events tile [0, duration_s). It may also carry "basis" (engine, pixels or model, the default), which is
        stored; `validate` is run on the rest.
        """
        ...
