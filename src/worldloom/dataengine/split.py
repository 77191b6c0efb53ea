"""Stage `clip`: one decode of a video finds its hard cuts and writes its canonical clips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.dataengine.store import scratch_path
from worldloom.dataengine.video.cadence import Cadence, exact_rate, sustained_rate
from worldloom.dataengine.video.framing import Framing, framing
from worldloom.schemas import Clip, DecodeError, Drop, Video, ids

if TYPE_CHECKING:
    from worldloom.dataengine.video.encode import ClipWriter


class SplitParams(Params):
    """What a canonical clip is. `None` keeps what the source has."""
    fps: float | None = Field(default=None, gt=0, le=240)
    width: int | None = Field(default=None, ge=2, multiple_of=2)
    height: int | None = Field(default=None, ge=2, multiple_of=2)
    min_s: float = Field(default=1.0, ge=0)
    max_s: float = Field(default=12.0, gt=0)
    shots: bool = True
    shot_threshold: float = Field(default=0.35, gt=0, le=1)
    test_share: float = Field(default=0.1, ge=0, le=1)

    @model_validator(mode="after")
    def _lengths_agree(self) -> SplitParams:
        if self.min_s > self.max_s:
            raise ValueError(f"min_s {self.min_s} is more than max_s {self.max_s}")
        return self

    def pixel_spec(self) -> dict[str, Any]:
        """The parameters that change the pictures of given frames."""
        return {"fps": self.fps, "width": self.width, "height": self.height, "codec": "h264/crf18/1"}


@dataclass(frozen=True)
class Shown:
    """A source frame: displayed picture at the scaled size, and whether a shot starts with it."""
    index: int
    time_s: float
    rgb_HWC: np.ndarray
    is_cut: bool


@dataclass
class OpenClip:
    """A clip being written, from source frame `start` on; frames shown so far."""
    start: int
    start_s: float
    cut_by: str
    cadence: Cadence
    writer: ClipWriter
    source_frames: list[int]
    times_s: list[float]


class SplitStage:
    """Cuts a video into canonical clips. Its frames are accounted for: in a clip, or in a drop that names them."""
    name: ClassVar[str] = "clip"
    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("video",)
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Clip
    budget_s: ClassVar[float] = 900.0
    Params = SplitParams

    def __init__(self, params: SplitParams | None = None) -> None:
        self.params = params or SplitParams()

    def setup(self, context: Context) -> None:
        self.context = context

    def process(self, item: Inputs) -> Iterator[Clip | Drop]:
        """Clips of {"video": Video}, and drops for what is left over or cannot be decoded."""
        video: Video = item["video"]
        path = self.context.video_path(video)
        yield from VideoSplit(video, path, self.context.corpus, self.params).run()


class VideoSplit:
    """One pass over one video."""

    def __init__(self, video: Video, path: Path, corpus: Path, params: SplitParams) -> None:
        self.video, self.path, self.corpus, self.params = video, path, corpus, params
        self.framing: Framing = framing((video.width, video.height), params.width, params.height)
        source_fps = sustained_rate(path) if video.is_variable_rate else video.fps
        self.rate = exact_rate(min(params.fps or source_fps, source_fps))
        self.fps = float(self.rate)
        self.max_frames = max(1, int(params.max_s * self.fps + 1e-6))
        self.open: OpenClip | None = None

    def run(self) -> Iterator[Clip | Drop]:
        """Clips and drops in order of their frames."""
        try:
            last, end_s = None, self.video.start_s + self.video.duration_s
            for frame in self._frames():
                yield from self._step(last, frame)
                last = frame
            if last is None:
                raise DecodeError(f"{self.path.name}: no frame can be decoded")
            self._serve(last, last.time_s + 1 / self.fps)
            yield from self._finish(last.index + 1, end_s)
            if last.index + 1 < self.video.num_frames:
                yield self._drop(last.index + 1, self.video.num_frames, "undecodable", "counted before, not read now")
        finally:
            if self.open:
                self.open.writer.abort()

    def _frames(self) -> Iterator[Shown]:
        """Displayed pictures at the scaled size, with the cuts marked."""
        from worldloom.dataengine.video.container import open_video
        from worldloom.dataengine.video.index import Damage, good_frames
        from worldloom.dataengine.video.picture import geometry_of, upright
        from worldloom.dataengine.video.shots import THUMB_HEIGHT, THUMB_WIDTH, mark_cuts

        def pictures() -> Iterator[tuple[tuple[int, float, np.ndarray], np.ndarray]]:
            geometry = None
            with open_video(self.path) as (container, stream):
                for index, (time_s, raw) in enumerate(good_frames(container, stream, Damage())):
                    geometry = geometry or geometry_of(stream, raw)
                    shown = upright(raw, geometry, self.framing.scaled_width, self.framing.scaled_height)
                    thumb = upright(raw, geometry, THUMB_WIDTH, THUMB_HEIGHT) if self.params.shots else shown
                    yield (index, time_s, shown), thumb

        if not self.params.shots:
            yield from (Shown(*item, is_cut=False) for item, _ in pictures())
            return
        for item, is_cut in mark_cuts(pictures(), threshold=self.params.shot_threshold):
            yield Shown(*item, is_cut=is_cut)

    def _step(self, last: Shown | None, frame: Shown) -> Iterator[Clip | Drop]:
        """Take in the next frame: serve the ticks that `last` is due for, close at a cut, and open when needed."""
        if last is None:
            self._start(frame, "start")
            return
        end_s = frame.time_s
        missed = self._serve(last, max(end_s, last.time_s + 1 / self.fps) if frame.is_cut else end_s)
        if frame.is_cut:
            yield from self._finish(frame.index, end_s)
            self._start(frame, "histogram")
        elif missed or self._is_full_at(frame.time_s):
            yield from self._finish(frame.index, end_s)
            self._start(frame, "window")

    def _is_full_at(self, time_s: float) -> bool:
        """Whether the open clip has its last tick and a frame at `time_s` belongs to the next clip."""
        clip = self.open
        if clip is None or len(clip.source_frames) < self.max_frames:
            return False
        return time_s >= clip.start_s + self.max_frames / self.fps - 0.5 / max(self.video.fps, self.fps)

    def _serve(self, last: Shown, next_time_s: float) -> bool:
        """Show `last` at its tick; whether a later tick before the next frame found nothing new to show."""
        clip = self.open
        if clip is None:
            return False
        for _ in clip.cadence.ticks_before(next_time_s):
            if len(clip.source_frames) >= self.max_frames:
                return False
            if clip.source_frames and clip.source_frames[-1] == last.index:
                return True
            clip.writer.write(self.framing.crop(last.rgb_HWC))
            clip.source_frames.append(last.index)
            clip.times_s.append(last.time_s)
        return False

    def _start(self, frame: Shown, cut_by: str) -> None:
        from worldloom.dataengine.video.encode import ClipWriter

        scratch = scratch_path(self.corpus, f"{self.video.video_id[:12]}-{frame.index}.mp4")
        writer = ClipWriter(scratch, width=self.framing.width, height=self.framing.height, rate=self.rate)
        self.open = OpenClip(frame.index, frame.time_s, cut_by, Cadence(frame.time_s, self.fps), writer, [], [])

    def _finish(self, stop: int, stop_s: float) -> Iterator[Clip | Drop]:
        """Close the open clip at source frame `stop`: a clip, or a drop where it is too short."""
        clip, self.open = self.open, None
        if clip is None:
            return
        seconds = len(clip.source_frames) / self.fps
        if not clip.source_frames or seconds < self.params.min_s - 1e-9:
            clip.writer.abort()
            yield self._drop(clip.start, stop, "too_short", f"{seconds:.3f} s, at least {self.params.min_s:g} s wanted")
            return
        yield self._row(clip, stop, stop_s)

    def _drop(self, start: int, stop: int, reason: str, detail: str) -> Drop:
        return Drop(stage="clip", row_key=f"{self.video.video_id}:{start}-{stop}", reason=reason,
                    detail=f"{self.video.name}: frames [{start}, {stop}): {detail}")

    def _row(self, clip: OpenClip, stop: int, stop_s: float) -> Clip:
        video, frame = self.video, self.framing
        clip_id = ids.clip_id(video.video_id, clip.start, stop, self.params.pixel_spec())
        media = f"media/{clip_id[:2]}/{clip_id}.mp4"
        path = self.corpus / media
        clip.writer.close(path)
        is_test = ids.unit_interval(video.video_id, "split") < self.params.test_share
        return Clip(
            clip_id=clip_id, video_id=video.video_id, source_id=video.source_id, start_frame=clip.start,
            stop_frame=stop, start_s=clip.start_s, stop_s=stop_s, num_frames=len(clip.source_frames), fps=self.fps,
            width=frame.width, height=frame.height, source_frames=clip.source_frames, frame_times_s=clip.times_s,
            scale_x=frame.scale_x, scale_y=frame.scale_y, crop_x_px=frame.crop_x_px, crop_y_px=frame.crop_y_px,
            media=media, media_bytes=path.stat().st_size, media_sha256=ids.file_sha256(path), cut_by=clip.cut_by,
            split="test" if is_test else "train",
        )
