"""Stage `clip`: one decode of a video finds its hard cuts and writes its canonical clips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from worldloom.dataengine.clip_spec import clip_spec
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.dataengine.store import scratch_path
from worldloom.dataengine.video.cadence import Cadence, exact_rate, sustained_rate
from worldloom.dataengine.video.framing import Framing, framing
from worldloom.schemas import Clip, DecodeError, Drop, Video, ids

if TYPE_CHECKING:
    import av

    from worldloom.dataengine.video.bars import Bars
    from worldloom.dataengine.video.detect import Detector, Look
    from worldloom.dataengine.video.encode import ClipWriter
    from worldloom.dataengine.video.encoders import Encoder
    from worldloom.dataengine.video.sound import Sound


class SplitParams(Params):
    """What a canonical clip is. `None` keeps what the source has.

    spec: "81@16/480p": exactly 81 frames at 16 a second, 832x480; sets num_frames, fps, latent_stride 4 and the size.
    num_frames: the length of every clip; what is left over is dropped by name.
    latent_stride: lengths are latent_stride n + 1, as causal video codecs take them: 4 keeps 77 of 80 frames.
    crop_bars: constant black bars (letterbox, pillarbox) are cut off before scaling.
    shots: what cuts besides length. content: hard cuts by colours and layout; transnet: TransNetV2, hard and gradual
        (needs worldloom[shots]); both: where either is sure. false: nothing; true: content.
    teleports: a jump in the camera path that came with the video starts a shot too.
    audio: the video's sound comes along, cut to the clip's times, where it has any.
    encoder: x264 gives the same bytes again; a name of hardware insists on it; auto: the first hardware that encodes
        here, else x264.
    """
    spec: str | None = None
    fps: float | None = Field(default=None, gt=0, le=240)
    width: int | None = Field(default=None, ge=2, multiple_of=2)
    height: int | None = Field(default=None, ge=2, multiple_of=2)
    crop_bars: bool = False
    audio: bool = False
    encoder: Literal["x264", "auto", "nvenc", "videotoolbox", "qsv", "amf"] = "x264"
    num_frames: int | None = Field(default=None, ge=1)
    latent_stride: int = Field(default=1, ge=1, le=32)
    min_s: float = Field(default=1.0, ge=0)
    max_s: float = Field(default=12.0, gt=0)
    shots: Literal[False, "content", "transnet", "both"] = "content"
    shot_threshold: float = Field(default=0.35, gt=0, le=1)
    teleports: bool = False
    transnet_threshold: float = Field(default=0.5, gt=0, lt=1)
    test_share: float = Field(default=0.1, ge=0, le=1)

    @field_validator("shots", mode="before")
    @classmethod
    def _plain_yes(cls, given: Any) -> Any:
        return "content" if given is True else given

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, given: Any) -> Any:
        return {**clip_spec(given["spec"]), **given} if isinstance(given, dict) and given.get("spec") else given

    @model_validator(mode="after")
    def _lengths_agree(self) -> SplitParams:
        if self.min_s > self.max_s:
            raise ValueError(f"min_s {self.min_s} is more than max_s {self.max_s}")
        if self.num_frames is not None and (self.num_frames - 1) % self.latent_stride:
            raise ValueError(f"num_frames {self.num_frames} is not {self.latent_stride} n + 1 (latent_stride)")
        return self

    def pixel_spec(self, backend: str = "pyav") -> dict[str, Any]:
        """The parameters that change the pictures, or the sound, of given frames."""
        spec: dict[str, Any] = {"fps": self.fps, "width": self.width, "height": self.height, "codec": "h264/crf18/3"}
        unusual = {"encoder": (self.encoder, "x264"), "backend": (backend, "pyav")}
        spec |= {name: value for name, (value, usual) in unusual.items() if value != usual}
        return spec | {name: True for name in ("crop_bars", "audio") if getattr(self, name)}


@dataclass(frozen=True)
class Shown:
    """A source frame as a canonical picture; `cut_by` names what starts a shot with it, "" where none starts."""
    index: int
    time_s: float
    picture: av.VideoFrame
    cut_by: str


@dataclass
class OpenClip:
    """A clip being written, from source frame `start` on; frames shown so far."""
    start: int
    start_s: float
    cut_by: str
    cadence: Cadence
    writer: ClipWriter
    stride: int
    source_frames: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    waiting: list[Shown] = field(default_factory=list)

    def show(self, frame: Shown) -> None:
        """Take the next canonical frame; frames are written when they fill a latent."""
        self.waiting.append(frame)
        if not self.source_frames or len(self.waiting) == self.stride:
            for each in self.waiting:
                self.writer.write(each.picture)
                self.source_frames.append(each.index)
                self.times_s.append(each.time_s)
            self.waiting = []

    @property
    def num_shown(self) -> int:
        return len(self.source_frames) + len(self.waiting)

    @property
    def last_index(self) -> int | None:
        if self.waiting:
            return self.waiting[-1].index
        return self.source_frames[-1] if self.source_frames else None


class SplitStage:
    """Cuts a video into canonical clips. Its frames are accounted for: in a clip, or in a drop that names them."""
    name: ClassVar[str] = "clip"
    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("video",)
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Clip
    budget_s: ClassVar[float] = 900.0
    Params = SplitParams

    def __init__(self, params: SplitParams | None = None) -> None:
        self.params = params or SplitParams()

    def setup(self, context: Context) -> None:
        from worldloom.dataengine.video.encoders import find_encoder

        self.context = context
        self.encoder = find_encoder(self.params.encoder)
        if self.params.shots in ("transnet", "both"):
            from worldloom.dataengine.video.transnet import transnet
            transnet()

    def process(self, item: Inputs) -> Iterator[Clip | Drop]:
        """Clips of {"video": Video}, and drops for what is left over or cannot be decoded."""
        video: Video = item["video"]
        path = self.context.video_path(video)
        sidecar = self.context.sidecar_path(video)
        yield from VideoSplit(video, path, self.context.corpus, self.params, self.encoder, sidecar).run()


class VideoSplit:
    """One pass over one video."""

    def __init__(
        self, video: Video, path: Path, corpus: Path, params: SplitParams, encoder: Encoder, sidecar: Path | None
    ) -> None:
        self.video, self.path, self.corpus, self.params, self.sidecar = video, path, corpus, params, sidecar
        self.encoder, self.sound = encoder, self._sound()
        self.bars, self.framing = self._framed()
        source_fps = sustained_rate(path) if video.is_variable_rate else video.fps
        self.rate = exact_rate(min(params.fps or source_fps, source_fps))
        self.fps = float(self.rate)
        longest = max(1, int(params.max_s * self.fps + 1e-6))
        self.max_frames = params.num_frames or (longest - 1) // params.latent_stride * params.latent_stride + 1
        self.min_frames = params.num_frames or max(1, math.ceil(params.min_s * self.fps - 1e-9))
        self.open: OpenClip | None = None
        self.broken_by: str | None = None         # what stopped decoding before the last frame

    def _framed(self) -> tuple[Bars | None, Framing]:
        """Black bars to cut off, where asked for and there, and the framing of what is left."""
        video, wanted = self.video, (self.params.width, self.params.height)
        if self.params.crop_bars:
            from worldloom.dataengine.video.bars import find_bars
            from worldloom.dataengine.video.probe import stored_geometry

            bars, geometry = find_bars(self.path), stored_geometry(self.path)
            if bars:
                x_px, y_px = bars.origin_px(geometry)
                inner = framing(bars.inside(geometry).display_size, *wanted)
                return bars, replace(inner, origin_x_px=x_px, origin_y_px=y_px)
        return None, framing((video.width, video.height), *wanted)

    def _sound(self) -> Sound | None:
        """The video's sound, where it is asked for and there."""
        if not self.params.audio:
            return None
        from worldloom.dataengine.video.sound import Sound, sound_pieces

        sound = Sound(sound_pieces(self.path))
        return sound if sound.is_there else None

    def run(self) -> Iterator[Clip | Drop]:
        """Clips and drops in order of their frames."""
        wanted_fps = self.params.fps or 0.0
        if self.params.spec and self.fps < wanted_fps * (1 - 1e-3):
            yield self._drop(0, self.video.num_frames, "rate_too_low",
                             f"{self.fps:.4g} frames a second, {wanted_fps:g} wanted; no frame is shown twice")
            return
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
                yield self._drop(last.index + 1, self.video.num_frames, "undecodable",
                                 self.broken_by or "packets are there, frames are not")
        finally:
            if self.open:
                self.open.writer.abort()
            if self.sound:
                self.sound.close()

    def _frames(self) -> Iterator[Shown]:
        """Canonical pictures of all frames, with the cuts marked."""
        from worldloom.dataengine.video.detect import mark_shots

        detectors = self._detectors()
        if detectors:
            for item, cut_by in mark_shots(self._pictures(), detectors):
                yield Shown(*item, cut_by=cut_by)
        else:
            yield from (Shown(*item, cut_by="") for item, _ in self._pictures())

    def _pictures(self) -> Iterator[tuple[tuple[int, float, av.VideoFrame], Look]]:
        """((index, time, canonical picture), what detectors see) of every frame that decodes."""
        from worldloom.dataengine.video.backends import decoded
        from worldloom.dataengine.video.container import open_video
        from worldloom.dataengine.video.detect import Look
        from worldloom.dataengine.video.index import Damage, deinterlaced
        from worldloom.dataengine.video.picture import Canonical, geometry_of

        canonical, damage = None, Damage()
        with open_video(self.path) as (container, stream):
            frames = decoded(self.video.backend, self.path, container, stream, damage)
            frames = deinterlaced(frames, stream) if self.video.is_interlaced else frames
            if self.bars:
                from worldloom.dataengine.video.bars import without_bars
                frames = without_bars(frames, stream, self.bars)
            for index, (time_s, raw) in enumerate(frames):
                canonical = canonical or Canonical(geometry_of(stream, raw), self.framing)
                yield (index, time_s, canonical.picture(raw)), Look(time_s, partial(canonical.thumb, raw))
        self.broken_by = damage.detail

    def _detectors(self) -> list[Detector]:
        from worldloom.dataengine.video.shots import ContentDetector
        from worldloom.dataengine.video.teleport import teleport_detector
        from worldloom.dataengine.video.transnet import TransNetDetector

        wanted = self.params.shots
        found: list[Detector] = []
        if wanted in ("content", "both"):
            found.append(ContentDetector(self.params.shot_threshold))
        if self.params.teleports and self.sidecar and (detector := teleport_detector(self.sidecar)):
            found.append(detector)
        if wanted in ("transnet", "both"):
            found.append(TransNetDetector(self.params.transnet_threshold))
        return found

    def _step(self, last: Shown | None, frame: Shown) -> Iterator[Clip | Drop]:
        """Take in the next frame: serve the ticks that `last` is due for, close at a cut, and open when needed."""
        if last is None:
            self._start(frame, "start")
            return
        end_s = frame.time_s
        missed = self._serve(last, max(end_s, last.time_s + 1 / self.fps) if frame.cut_by else end_s)
        if frame.cut_by:
            yield from self._finish(frame.index, end_s)
            self._start(frame, frame.cut_by)
        elif missed or self._is_full_at(frame.time_s):
            yield from self._finish(frame.index, end_s)
            self._start(frame, "window")

    def _is_full_at(self, time_s: float) -> bool:
        """Whether the open clip has its last tick and a frame at `time_s` belongs to the next clip."""
        clip = self.open
        if clip is None or clip.num_shown < self.max_frames:
            return False
        return time_s >= clip.start_s + self.max_frames / self.fps - 0.5 / max(self.video.fps, self.fps)

    def _serve(self, last: Shown, next_time_s: float) -> bool:
        """Show `last` at its tick; whether a later tick before the next frame found nothing new to show."""
        clip = self.open
        if clip is None:
            return False
        for _ in clip.cadence.ticks_before(next_time_s):
            if clip.num_shown >= self.max_frames:
                return False
            if clip.last_index == last.index:
                return True
            clip.show(last)
        return False

    def _start(self, frame: Shown, cut_by: str) -> None:
        from worldloom.dataengine.video.encode import ClipWriter

        scratch = scratch_path(self.corpus, f"{self.video.video_id[:12]}-{frame.index}.mp4")
        writer = ClipWriter(scratch, width=self.framing.width, height=self.framing.height, rate=self.rate,
                            encoder=self.encoder, has_sound=self.sound is not None)
        self.open = OpenClip(frame.index, frame.time_s, cut_by, Cadence(frame.time_s, self.fps), writer,
                             self.params.latent_stride)

    def _finish(self, stop: int, stop_s: float) -> Iterator[Clip | Drop]:
        """Close the open clip at source frame `stop`: a clip, or a drop where it is too short."""
        clip, self.open = self.open, None
        if clip is None:
            return
        count = len(clip.source_frames)
        if count < self.min_frames:
            clip.writer.abort()
            yield self._drop(clip.start, stop, "too_short",
                             f"{count / self.fps:.3f} s, at least {self.min_frames / self.fps:.3g} s wanted")
            return
        if clip.waiting:
            rest, stop, stop_s = (clip.waiting[0].index, stop), clip.waiting[0].index, clip.waiting[0].time_s
            yield self._row(clip, stop, stop_s)
            yield self._drop(*rest, "part_of_a_latent", f"{len(clip.waiting)} frames do not fill a latent of "
                                                        f"{self.params.latent_stride}")
            return
        yield self._row(clip, stop, stop_s)

    def _drop(self, start: int, stop: int, reason: str, detail: str) -> Drop:
        return Drop(stage="clip", row_key=f"{self.video.video_id}:{start}-{stop}", reason=reason,
                    detail=f"{self.video.name}: frames [{start}, {stop}): {detail}")

    def _row(self, clip: OpenClip, stop: int, stop_s: float) -> Clip:
        video, frame = self.video, self.framing
        clip_id = ids.clip_id(video.video_id, clip.start, stop, self.params.pixel_spec(video.backend))
        media = f"media/{clip_id[:2]}/{clip_id}.mp4"
        path = self.corpus / media
        clip.writer.close(path, self.sound.cut(clip.start_s, clip.writer.num_samples) if self.sound else ())
        is_test = ids.unit_interval(video.video_id, "split") < self.params.test_share
        return Clip(
            clip_id=clip_id, video_id=video.video_id, source_id=video.source_id, start_frame=clip.start,
            stop_frame=stop, start_s=clip.start_s, stop_s=stop_s, num_frames=len(clip.source_frames), fps=self.fps,
            width=frame.width, height=frame.height, source_frames=clip.source_frames, frame_times_s=clip.times_s,
            scale_x=frame.scale_x, scale_y=frame.scale_y, crop_x_px=frame.crop_x_px, crop_y_px=frame.crop_y_px,
            media=media, media_bytes=path.stat().st_size, media_sha256=ids.file_sha256(path), cut_by=clip.cut_by,
            split="test" if is_test else "train", encoder=self.encoder.codec, has_audio=self.sound is not None,
        )
