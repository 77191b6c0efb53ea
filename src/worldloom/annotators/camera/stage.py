"""Camera stages: the camera given by the source or found from the pixels, and the truth alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.schemas import Camera, Clip, DataError, Drop, Video

if TYPE_CHECKING:
    from worldloom.annotators.camera.auto import Choice
    from worldloom.annotators.camera.estimator import Footage, Track
    from worldloom.annotators.camera.odometry import Lens


class Calibration(Params):
    """What is known of a source's lens, for displayed pictures; unset fields fall back to the stage's."""
    hfov_deg: float | None = Field(None, gt=1, lt=175)
    camera_model: Literal["pinhole", "yshear"] | None = None
    fy_over_fx: float | None = Field(None, gt=0)
    horizon_share: float | None = Field(None, ge=0, le=1)


class CameraParams(Params):
    mode: str = "auto"                           # auto, or the name of an estimator
    options: dict[str, dict[str, Any]] = {}      # by estimator; `auto` reads the model outputs named here
    use_sidecar: bool = True                     # in auto, a pose file is used where the video has one
    find_focal: bool = True                      # read an undeclared focal length from the clip's turns
    hfov_deg: float | None = Field(None, gt=1, lt=175)
    camera_model: Literal["pinhole", "yshear"] | None = None   # None: pinhole, or what find_focal sees
    fy_over_fx: float | None = Field(None, gt=0)
    horizon_share: float | None = Field(None, ge=0, le=1)      # row of the horizon over height when level; None: centre
    declared: dict[str, Calibration] = {}        # by source_id, over the fields above

    @model_validator(mode="after")
    def _known(self) -> CameraParams:
        from worldloom.annotators.camera.auto import load_estimator

        for name in {*self.options, self.mode} - {"auto"}:
            load_estimator(name, self.options.get(name, {}))
        return self

    def of_source(self, source_id: str) -> Calibration:
        """What is declared of a source's lens."""
        own = self.declared.get(source_id, Calibration()).model_dump(exclude_none=True)
        return Calibration(**{name: own.get(name, getattr(self, name)) for name in Calibration.model_fields})


@dataclass(frozen=True)
class KnownLens:
    """A lens in pixels of the clip, None where the estimator finds its own, and where its focal length comes from."""
    lens: Lens | None
    focal_source: str = "assumed"
    focal_spread: float | None = None
    is_calibrated: bool = False
    detail: str = ""


class CameraStage:
    """One camera track a clip, from the source's pose file, a model's output, or the pixels."""
    name: ClassVar[str] = "camera"
    version: ClassVar[int] = 8
    reads: ClassVar[tuple[str, ...]] = ("clip", "video")
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Camera
    budget_s: ClassVar[float] = 600.0
    Params = CameraParams

    def __init__(self, params: CameraParams | None = None) -> None:
        self.params = params or CameraParams()

    def setup(self, context: Context) -> None:
        import cv2
        cv2.setNumThreads(1)
        self.context = context
        self._loaded: dict[str, Any] = {}

    def process(self, item: Inputs) -> Iterator[Camera | Drop]:
        clip, video = item["clip"], item["video"]
        with _named(clip, video):
            yield self._camera(clip, video)

    def _camera(self, clip: Clip, video: Video) -> Camera | Drop:
        footage = _footage(self.context, clip, video)
        choice = self._choose(footage)
        if choice.name == "given" and footage.sidecar is None:
            return _no_truth(self.name, clip, video)
        estimator = self._estimator(choice.name)
        if clip.num_frames < 2 and estimator.pictures != "none":
            return Drop(stage=self.name, row_key=clip.clip_id, reason="too_short",
                        detail=f"video {video.name} frame {clip.start_frame}: one frame shows no movement")
        footage = _with_pictures(footage, self.context.media_path(clip), estimator.pictures)
        known = self._lens(footage, estimator.needs_lens)
        track = _checked(estimator.estimate(footage, known.lens), footage, known)
        because = f"{choice.because}; {known.detail}" if known.detail else choice.because
        return _row(clip, levelled(track), because, _perspective(self._shown(footage)))

    def _shown(self, footage: Footage) -> Footage:
        """The footage with pictures to see the perspective in, unless the pose file states it."""
        from worldloom.annotators.camera.given import read_sidecar

        if footage.gray_THW is not None:
            return footage
        if footage.sidecar is not None and read_sidecar(footage.sidecar).perspective:
            return footage
        return _with_pictures(footage, self.context.media_path(footage.clip), "gray")

    def _choose(self, footage: Footage) -> Choice:
        from worldloom.annotators.camera.auto import choose
        from worldloom.annotators.camera.estimator import OutputReader

        readers = {name: reader for name in self.params.options
                   if isinstance(reader := self._estimator(name), OutputReader)} if self.params.mode == "auto" else {}
        long_above = self._estimator("odometry").params.windows.above_frames
        return choose(self.params.mode, footage, readers, use_sidecar=self.params.use_sidecar, long_above=long_above)

    def _estimator(self, name: str) -> Any:
        from worldloom.annotators.camera.auto import load_estimator

        if name not in self._loaded:
            self._loaded[name] = load_estimator(name, self.params.options.get(name, {}))
        return self._loaded[name]

    def _lens(self, footage: Footage, is_needed: bool) -> KnownLens:
        """The declared lens; else, for an estimator that needs one, what the clip's turns show or an assumed one."""
        from worldloom.annotators.camera.builtin import ASSUMED_HFOV_DEG, to_clip
        from worldloom.annotators.camera.odometry import Lens

        said, clip, video = self.params.of_source(footage.clip.source_id), footage.clip, footage.video
        if said.hfov_deg is None and not is_needed:
            return KnownLens(None)
        if said.hfov_deg is None and self.params.find_focal:
            return _found_lens(footage, said)
        fx = video.width / 2 / math.tan(math.radians((said.hfov_deg or ASSUMED_HFOV_DEG) / 2))
        share = 0.5 if said.horizon_share is None else said.horizon_share
        shown = Lens(fx, fx * (said.fy_over_fx or 1.0), (video.width - 1) / 2, video.height * share - 0.5,
                     said.camera_model or "pinhole")
        lens, known = to_clip(shown, clip), said.hfov_deg is not None
        if known and said.camera_model is None and is_needed and self.params.find_focal:
            return _with_found_model(footage, said, lens)
        return KnownLens(lens, "declared" if known else "assumed", None, known)


def _with_found_model(footage: Footage, said: Calibration, lens: Lens) -> KnownLens:
    """The declared pinhole lens, unless the clip's turns show that the pictures are sheared."""
    from dataclasses import replace

    found = _found_lens(footage, said)
    if found.lens is not None and found.lens.model != lens.model:
        return replace(found, lens=replace(found.lens, fx=lens.fx, cx=lens.cx))
    return KnownLens(lens, "declared", None, True, found.detail)


def _found_lens(footage: Footage, said: Calibration) -> KnownLens:
    """The lens that the clip's turns show, with what is declared of the displayed picture held in the clip's."""
    from worldloom.annotators.camera.calibrate import find_lens

    clip, video = footage.clip, footage.video
    aspect = None if said.fy_over_fx is None else said.fy_over_fx * clip.scale_y / clip.scale_x
    horizon = None if said.horizon_share is None else (
        (said.horizon_share * video.height - clip.crop_y_px) * clip.scale_y / clip.height)
    hfov_deg = None if said.hfov_deg is None else _hfov_of_clip(said.hfov_deg, clip, video)
    found = find_lens(footage.gray(), clip.fps, hfov_deg=hfov_deg, model=said.camera_model, fy_over_fx=aspect,
                      horizon_share=horizon, mask_HW=footage.mask_HW)
    return KnownLens(found.lens, found.focal_source, found.focal_spread, found.is_calibrated, found.detail)


def _hfov_of_clip(hfov_deg: float, clip: Clip, video: Video) -> float:
    """Horizontal view of the clip's pictures, of the displayed picture's."""
    fx = video.width / 2 / math.tan(math.radians(hfov_deg / 2)) * clip.scale_x
    return math.degrees(2 * math.atan(clip.width / 2 / fx))


class TruthStage:
    """The camera track of the source's pose file alone: what estimates are scored against."""
    name: ClassVar[str] = "camera_truth"
    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("clip", "video")
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Camera
    budget_s: ClassVar[float] = 60.0
    Params = Params

    def __init__(self, params: Params | None = None) -> None:
        self.params = params or Params()

    def setup(self, context: Context) -> None:
        self.context = context

    def process(self, item: Inputs) -> Iterator[Camera | Drop]:
        from worldloom.annotators.camera.builtin import GivenPoses

        clip, video = item["clip"], item["video"]
        with _named(clip, video):
            footage = _footage(self.context, clip, video)
            if footage.sidecar is None:
                yield _no_truth(self.name, clip, video)
            else:
                track = levelled(GivenPoses().estimate(footage, None))
                yield _row(clip, track, "pose file beside the video", "uncertain")


class _named:
    """Says in a DataError which video and frames it is about."""

    def __init__(self, clip: Clip, video: Video) -> None:
        self.where = f"video {video.name} frames [{clip.start_frame}, {clip.stop_frame})"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, DataError):
            raise type(error)(f"{self.where}: {error}") from error


def _no_truth(stage: str, clip: Clip, video: Video) -> Drop:
    return Drop(stage=stage, row_key=clip.clip_id, reason="no_truth",
                detail=f"video {video.name} has no pose file beside it")


def _footage(context: Context, clip: Clip, video: Video) -> Footage:
    from worldloom.annotators.camera.estimator import Footage

    root = context.locations.get(video.source_id)
    return Footage(clip=clip, video=video, folder=None if root is None else Path(root),
                   sidecar=context.sidecar_path(video))


def _with_pictures(footage: Footage, media: Path, pictures: str) -> Footage:
    """The footage with its frames decoded once: none, gray, or colour with the gray made from it."""
    from dataclasses import replace

    if pictures == "none":
        return footage
    from worldloom.dataengine.video.read import read_frames
    if pictures == "gray":
        return replace(footage, gray_THW=read_frames(media, gray=True))
    import cv2
    rgb_THWC = read_frames(media)
    gray_THW = np.stack([cv2.cvtColor(rgb_HWC, cv2.COLOR_RGB2GRAY) for rgb_HWC in rgb_THWC])
    return replace(footage, rgb_THWC=rgb_THWC, gray_THW=gray_THW)


def _checked(track: Track, footage: Footage, known: KnownLens) -> Track:
    """The track with what the stage knows or can measure: the lens that was passed, and the parallax in the pixels.

    Raises:
        DataError: it is not one pose a frame of the clip, or not finite.
    """
    from dataclasses import replace

    if len(track) != footage.clip.num_frames or not np.isfinite(track.world_from_cam_T44).all():
        raise DataError(f"{track.estimator} gives {len(track)} poses for {footage.clip.num_frames} frames"
                        if len(track) != footage.clip.num_frames else f"{track.estimator} gives poses that are NaN")
    if known.lens is not None and track.focal_source == "assumed":
        track = replace(track, focal_source=known.focal_source, focal_spread=known.focal_spread,
                        is_calibrated=known.is_calibrated)
    if footage.gray_THW is not None and np.isnan(track.parallax_px[1:]).all():
        from worldloom.annotators.camera.evidence import evidence
        parallax, trust = evidence(footage.gray_THW, track.world_from_cam_T44, track.intrinsics_T4, footage.mask_HW)
        track = replace(track, parallax_px=parallax, confidence=np.minimum(track.confidence, trust))
    return track


def levelled(track: Track) -> Track:
    """The track in a world that is upright, where its cameras' roll tells the vertical better than an assumption."""
    from dataclasses import replace

    from worldloom.dataengine.geometry.gravity import align, estimate_up

    if track.gravity_source != "assumed" or not track.has_roll:
        return track
    gravity = estimate_up(track.world_from_cam_T44)
    if gravity.confidence <= track.gravity_confidence:
        return track
    return replace(track, world_from_cam_T44=align(track.world_from_cam_T44, gravity), gravity_source=gravity.source,
                   gravity_confidence=gravity.confidence)


def _perspective(footage: Footage) -> str:
    """fps, tps or uncertain as the pixels show; uncertain where none were looked at."""
    if footage.gray_THW is None or len(footage.gray_THW) < 2:
        return "uncertain"
    from worldloom.annotators.camera.perspective import seen_perspective

    return seen_perspective(footage.gray_THW, footage.clip.fps, mask_HW=footage.mask_HW)


def _row(clip: Clip, track: Track, because: str, perspective: str) -> Camera:
    tracks = {name: getattr(track, name).astype(np.float32)
              for name in ("confidence", "yaw_se_deg", "pitch_se_deg", "travel_se_deg", "parallax_px")}
    facts = {name: getattr(track, name) for name in (
        "estimator", "pose_source", "camera_model", "intrinsics_T4", "is_calibrated", "focal_source", "focal_spread",
        "scale_status", "metres_per_unit", "scale_spread", "gravity_source", "gravity_confidence")}
    return Camera(clip_id=clip.clip_id, chosen_because=because, num_frames=clip.num_frames,
                  world_from_cam_T44=track.world_from_cam_T44.reshape(-1, 16), perspective_seen=perspective,
                  **tracks, **facts)
