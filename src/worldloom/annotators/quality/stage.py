"""Stage `score`: the quality numbers of each canonical clip, one row a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
from pydantic import Field

from worldloom.annotators.quality.checks import SMALL_WIDTH_PX, measure
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import Clip, DataError, Score


class ScoreParams(Params):
    stride: int = Field(1, ge=1, description="frames between two on which blur, colour and flow are measured")


class ScoreStage:
    """Measures every clip and judges none: a policy says what is too dark or too still."""
    name, version, reads, optional, writes = "score", 1, ("clip",), (), Score
    budget_s = 120.0
    Params = ScoreParams

    def __init__(self, params: ScoreParams | None = None) -> None:
        self.params = params or ScoreParams()

    def setup(self, context: Context) -> None:
        cv2.setNumThreads(1)
        self.context = context

    def process(self, item: Inputs) -> Iterator[Any]:
        clip: Clip = item["clip"]
        width = min(SMALL_WIDTH_PX, clip.width)
        height = max(2, round(clip.height * width / clip.width / 2) * 2)
        count = 0

        def counted() -> Iterator[Any]:
            nonlocal count
            for frame in iter_frames(self.context.media_path(clip), width=width, height=height):
                count += 1
                yield frame.rgb_HWC

        measures = measure(counted(), width=clip.width, stride=self.params.stride)
        if count != clip.num_frames:
            raise DataError(f"clip {clip.clip_id}: its file holds {count} frames, its row says {clip.num_frames}; "
                            "rerun split")
        for m in measures:
            yield Score(clip_id=clip.clip_id, name=m.name, value=m.value, unit=m.unit, frames=m.frames)
