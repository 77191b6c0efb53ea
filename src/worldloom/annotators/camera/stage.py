"""Camera stages: the camera given by the source or found from the pixels, and the truth alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from worldloom.annotators.camera.given import Given, poses_of_clip, read_sidecar
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.schemas import Camera, Clip, Drop, Video

_ASSUMED_HFOV_DEG = 75.0


class Calibration(Params):
    """What is known of a source's lens, for displayed pictures; unset fields fall back to the stage's."""
    hfov_deg: float | None = Field(None, gt=1, lt=175)
    camera_model: Literal["pinhole", "yshear"] | None = None
    fy_over_fx: float | None = Field(None, gt=0)
    horizon_share: float | None = Field(None, ge=0, le=1)


class CameraParams(Params):
    mode: Literal["auto", "odometry", "given"] = "auto"
    use_sidecar: bool = True                     # in auto, a pose file is used where the video has one
    hfov_deg: float | None = Field(None, gt=1, lt=175)
    camera_model: Literal["pinhole", "yshear"] = "pinhole"
    fy_over_fx: float = Field(1.0, gt=0)
    horizon_share: float | None = Field(None, ge=0, le=1)      # row of the horizon over height when level; None: centre
    declared: dict[str, Calibration] = {}        # by source_id, over the fields above


class CameraStage:
    """One camera track a clip, from the source's pose file or by odometry."""
    name: ClassVar[str] = "camera"
    version: ClassVar[int] = 3
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

    def process(self, item: Inputs) -> Iterator[Camera | Drop]:
        clip, video, mode = item["clip"], item["video"], self.params.mode
        sidecar = self.context.sidecar_path(video)
        if mode == "given" or (mode == "auto" and self.params.use_sidecar and sidecar is not None):
            yield _given(self.context, clip, video, self.name)
        else:
            yield self._estimate(clip, video)

    def _estimate(self, clip: Clip, video: Video) -> Camera:
        from worldloom.annotators.camera import odometry
        from worldloom.dataengine.video.read import read_frames
        gray_THW = read_frames(self.context.media_path(clip), gray=True)
        shown, model, is_calibrated = self._lens(video)
        lens = odometry.Lens(*_to_clip(shown, clip), model)
        motion = odometry.estimate(gray_THW, lens, clip.fps)
        return Camera(
            clip_id=clip.clip_id, estimator=f"odometry/{self.version}", chosen_because="no pose file",
            pose_source="estimated",
            camera_model=lens.model, num_frames=clip.num_frames,
            world_from_cam_T44=odometry.integrate(motion, lens).reshape(-1, 16),
            intrinsics_T4=np.tile((lens.fx, lens.fy, lens.cx, lens.cy), (clip.num_frames, 1)),
            confidence=motion.confidence.astype(np.float32),
            yaw_se_deg=motion.yaw_se_deg.astype(np.float32), pitch_se_deg=motion.pitch_se_deg.astype(np.float32),
            travel_se_deg=np.full(clip.num_frames, np.nan, np.float32),
            parallax_px=motion.parallax_px.astype(np.float32), is_calibrated=is_calibrated,
            focal_source="declared" if is_calibrated else "assumed", focal_spread=None, perspective_seen="uncertain",
            scale_status="relative", metres_per_unit=None, scale_spread=None,
            gravity_source="assumed", gravity_confidence=0.5)

    def _lens(self, video: Video) -> tuple[tuple[float, ...], str, bool]:
        """(fx, fy, cx, cy) in displayed source pixels, camera model, and whether its focal length was declared."""
        own = self.params.declared.get(video.source_id, Calibration()).model_dump(exclude_none=True)
        known = {**self.params.model_dump(exclude={"declared", "mode", "use_sidecar"}), **own}
        fx = video.width / 2 / math.tan(math.radians((known["hfov_deg"] or _ASSUMED_HFOV_DEG) / 2))
        share = 0.5 if known["horizon_share"] is None else known["horizon_share"]
        shown = (fx, fx * known["fy_over_fx"], video.width / 2, video.height * share)
        return shown, known["camera_model"], known["hfov_deg"] is not None


class TruthStage:
    """The camera track of the source's pose file alone: what estimates are scored against."""
    name: ClassVar[str] = "camera_truth"
    version: ClassVar[int] = 3
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
        yield _given(self.context, item["clip"], item["video"], self.name)


def _given(context: Context, clip: Clip, video: Video, stage: str) -> Camera | Drop:
    path = context.sidecar_path(video)
    if path is None:
        return Drop(stage=stage, row_key=clip.clip_id, reason="no_truth",
                    detail=f"video {video.name} has no pose file beside it")
    given = read_sidecar(path)
    poses, count = poses_of_clip(given, clip, video.num_frames), clip.num_frames
    zeros = np.zeros(count, np.float32)
    intrinsics, model = _given_intrinsics(given, clip, video)
    return Camera(
        clip_id=clip.clip_id, estimator="given/1", chosen_because="pose file", pose_source=given.pose_source,
        camera_model=model, num_frames=count,
        world_from_cam_T44=poses.reshape(-1, 16), intrinsics_T4=np.tile(intrinsics, (count, 1)),
        confidence=np.ones(count, np.float32), yaw_se_deg=zeros, pitch_se_deg=zeros,
        travel_se_deg=np.full(count, np.nan, np.float32), parallax_px=np.full(count, np.nan, np.float32),
        is_calibrated=given.camera is not None, focal_source="file" if given.camera is not None else "assumed",
        focal_spread=None, perspective_seen="uncertain",
        scale_status=given.scale_status, metres_per_unit=given.metres_per_unit, scale_spread=None,
        gravity_source="engine" if given.pose_source == "engine" else "assumed",
        gravity_confidence=1.0 if given.pose_source == "engine" else 0.5)


def _given_intrinsics(given: Given, clip: Clip, video: Video) -> tuple[tuple[float, ...], str]:
    """Intrinsics in pixels of the clip; an assumed field of view where the file gives none."""
    if given.camera is None:
        fx = video.width / 2 / math.tan(math.radians(_ASSUMED_HFOV_DEG / 2))
        return _to_clip((fx, fx, video.width / 2, video.height / 2), clip), "pinhole"
    camera = given.camera
    sx, sy = video.width / camera["width"], video.height / camera["height"]
    shown = (camera["fx"] * sx, camera["fy"] * sy, camera["cx"] * sx, camera["cy"] * sy)
    return _to_clip(shown, clip), camera.get("model", "pinhole")


def _to_clip(intrinsics: tuple[float, ...], clip: Clip) -> tuple[float, ...]:
    """fx, fy, cx, cy of displayed source pixels in pixels of the canonical clip."""
    fx, fy, cx, cy = intrinsics
    return (fx * clip.scale_x, fy * clip.scale_y,
            (cx - clip.crop_x_px) * clip.scale_x, (cy - clip.crop_y_px) * clip.scale_y)
