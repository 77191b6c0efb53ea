"""Stage `caption`: one structured caption a clip, refused when it breaks the rules of captions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldloom.annotators.captions.interface import Captioner, Evidence, RecordedEvent, Truth
from worldloom.annotators.captions.rules import RulesCaptioner
from worldloom.annotators.captions.validate import validate
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import Caption, Clip, ConfigError, DataError, Video

CAPTIONERS: dict[str, Callable[[], Captioner]] = {"rules": RulesCaptioner}
SAMPLE_FPS, SAMPLE_WIDTH_PX, MAX_SAMPLE = 4.0, 96, 256
TRUTH_SUFFIX = ".truth.parquet"


class CaptionParams(Params):
    captioner: str = "rules"
    use_sidecar: bool = True        # read recorded events and objects where a truth file exists


class CaptionStage:
    """Gives a captioner the evidence of each clip and stores its caption once it validates."""
    name, version, writes = "caption", 1, Caption
    reads, optional = ("clip", "video", "action", "score"), ("action", "score")
    budget_s = 120.0
    Params = CaptionParams

    def __init__(self, params: CaptionParams | None = None) -> None:
        self.params = params or CaptionParams()
        if self.params.captioner not in CAPTIONERS:
            raise ConfigError(f"caption: there is no captioner '{self.params.captioner}' (known: "
                              f"{', '.join(sorted(CAPTIONERS))})")

    def setup(self, context: Context) -> None:
        self.context, self.captioner = context, CAPTIONERS[self.params.captioner]()

    def process(self, item: Inputs) -> Iterator[Any]:
        evidence = self.evidence(item)
        answer = dict(self.captioner.caption(evidence))
        basis = answer.pop("basis", "model")
        clip_id = evidence.clip.clip_id
        problems = validate(answer, evidence.duration_s, evidence.perspective)
        if problems:
            raise DataError(f"clip {clip_id}: caption by {self.captioner.name} refused: {'; '.join(problems[:5])}")
        yield Caption(clip_id=clip_id, captioner=self.captioner.name, basis=basis, **answer)

    def evidence(self, item: Inputs) -> Evidence:
        """What a captioner may see of one item: sampled frames, scores, action, recorded truth."""
        clip, video, action = item["clip"], item.get("video"), item.get("action")
        truth, recorded_perspective = self._truth(clip, video)
        frames_THWC, times_s = sample_frames(self.context.media_path(clip), clip)
        scores = item.get("score") or ()
        return Evidence(
            clip=clip, video=video, action=action, truth=truth, frames_THWC=frames_THWC, times_s=times_s,
            perspective=recorded_perspective or (action.perspective if action is not None else "uncertain"),
            scores={score.name: score.value for score in scores},
        )

    def _truth(self, clip: Clip, video: Video | None) -> tuple[Truth | None, str | None]:
        if not self.params.use_sidecar or video is None or not (video.sidecar or "").endswith(TRUTH_SUFFIX):
            return None, None
        return read_truth(self.context.sidecar_path(video), clip)


def sample_frames(path: Path, clip: Clip) -> tuple[np.ndarray, np.ndarray]:
    """About four frames a second, at most `MAX_SAMPLE`: (T, H, W, 3) uint8, and times from the first frame."""
    step = max(1, round(clip.fps / SAMPLE_FPS), -(-clip.num_frames // MAX_SAMPLE))
    width = min(SAMPLE_WIDTH_PX, clip.width)
    height = max(2, round(clip.height * width / clip.width / 2) * 2)
    frames, indices = [], []
    for index, frame in enumerate(iter_frames(path, width=width, height=height)):
        if index % step == 0:
            frames.append(frame.rgb_HWC)
            indices.append(index)
    if not frames:
        raise DataError(f"clip {clip.clip_id}: its file holds no frame; rerun split")
    return np.stack(frames), np.array(indices) / clip.fps


def read_truth(path: Path, clip: Clip) -> tuple[Truth, str | None]:
    """Recorded events and objects of a clip's source frames, and the recorded perspective.

    Raises:
        DataError: the file cannot be read, lacks a column, or is shorter than the clip.
    """
    try:
        table = pq.read_table(path, columns=["events", "objects"])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"truth file {path.name}: {' '.join(str(error).split())[:200]}") from None
    if lacking := sorted({"events", "objects"} - set(table.column_names)):
        raise DataError(f"truth file {path.name}: no column {lacking[0]}")
    if clip.source_frames[-1] >= table.num_rows:
        raise DataError(f"truth file {path.name}: {table.num_rows} rows, clip {clip.clip_id} ends at source frame "
                        f"{clip.source_frames[-1]}")
    first = clip.source_frames[0]
    rows = table.slice(first, clip.source_frames[-1] - first + 1)
    facts = _facts(table.schema.metadata or {}, path)
    objects = rows.column("objects").take(pa.array([f - first for f in clip.source_frames])).to_pylist()
    return Truth(
        events=tuple(_events(rows.column("events").to_pylist(), clip, first)),
        objects=tuple(tuple(thing["name"] for thing in things or ()) for things in objects),
        hud=bool(facts.get("hud")), weapon=bool(facts.get("weapon")),
    ), facts.get("perspective")


def _facts(metadata: Mapping[bytes, bytes], path: Path) -> Mapping[str, Any]:
    try:
        facts = json.loads(metadata.get(b"worldloom", b"{}"))
    except ValueError:
        raise DataError(f"truth file {path.name}: its 'worldloom' metadata is not JSON") from None
    return facts if isinstance(facts, dict) else {}


def _events(per_source_frame: list[Any], clip: Clip, first: int) -> Iterator[RecordedEvent]:
    """Events on the first canonical frame that shows them: the first at or after their source frame."""
    shown = np.searchsorted(np.array(clip.source_frames), np.arange(len(per_source_frame)) + first)
    for frame, events in zip(shown, per_source_frame, strict=True):
        for event in events or ():
            yield RecordedEvent(int(frame), event["kind"] or "", event["text"] or "")
