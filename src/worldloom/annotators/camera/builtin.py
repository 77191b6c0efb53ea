"""The two estimators that need nothing else: the source's own poses, and odometry."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from worldloom.annotators.camera import odometry
from worldloom.annotators.camera.estimator import Footage, Track
from worldloom.annotators.camera.given import Given, poses_of_clip, read_sidecar
from worldloom.annotators.camera.stitch import Windows, in_windows
from worldloom.dataengine.stage import Params
from worldloom.schemas import Clip, DataError, Video

ASSUMED_HFOV_DEG = 75.0


class OdometryParams(Params):
    """Clips longer than `windows.above_frames` are estimated in overlapping windows."""
    windows: Windows = Windows()


class Odometry:
    """Corner tracks, explained by rotation first and by travel where that is not enough, and adjusted together."""
    name: ClassVar[str] = "odometry"
    version: ClassVar[int] = 8
    pictures: ClassVar[str] = "gray"
    needs_lens: ClassVar[bool] = True
    Params = OdometryParams

    def __init__(self, params: OdometryParams | None = None) -> None:
        self.params = params or OdometryParams()

    def estimate(self, footage: Footage, lens: odometry.Lens | None) -> Track:
        gray_THW, fps = footage.gray(), footage.clip.fps
        lens = lens or assumed_lens(*footage.size)
        return in_windows(lambda part: self.track(gray_THW[part], lens, fps, footage.mask_HW), len(gray_THW),
                          self.params.windows)

    def track(self, gray_THW: np.ndarray, lens: odometry.Lens, fps: float, mask_HW: np.ndarray | None = None) -> Track:
        motion = odometry.estimate(gray_THW, lens, fps, mask_HW)
        return Track(
            estimator=f"{self.name}/{self.version}", camera_model=lens.model,
            world_from_cam_T44=odometry.integrate(motion, lens), intrinsics_T4=intrinsics_T4(lens, len(gray_THW)),
            confidence=motion.confidence, yaw_se_deg=motion.yaw_se_deg, pitch_se_deg=motion.pitch_se_deg,
            travel_se_deg=motion.travel_se_deg,
            parallax_px=motion.parallax_px, has_roll=motion.turn_T33 is not None)


def intrinsics_T4(lens: odometry.Lens, count: int) -> np.ndarray:
    return np.tile((lens.fx, lens.fy, lens.cx, lens.cy), (count, 1))


def assumed_lens(width: int, height: int) -> odometry.Lens:
    fx = width / 2 / math.tan(math.radians(ASSUMED_HFOV_DEG / 2))
    return odometry.Lens(fx, fx, (width - 1) / 2, (height - 1) / 2)


class GivenPoses:
    """The poses of the source's own file at the frames of a clip; no pixel is looked at."""
    name: ClassVar[str] = "given"
    version: ClassVar[int] = 1
    pictures: ClassVar[str] = "none"
    needs_lens: ClassVar[bool] = False
    Params = Params

    def __init__(self, params: Params | None = None) -> None:
        self.params = params or Params()

    def estimate(self, footage: Footage, lens: odometry.Lens | None) -> Track:
        """The track of the pose file.

        Raises:
            DataError: there is none, it does not cover the clip, or it does not belong to the video.
        """
        if footage.sidecar is None:
            raise DataError("no pose file beside the video")
        clip, video, given = footage.clip, footage.video, read_sidecar(footage.sidecar)
        count, is_engine = clip.num_frames, given.pose_source == "engine"
        lens, zeros = _file_lens(given, clip, video), np.zeros(count)
        return Track(
            estimator=f"{self.name}/{self.version}", world_from_cam_T44=poses_of_clip(given, clip, video.num_frames),
            intrinsics_T4=intrinsics_T4(lens, count), camera_model=lens.model, pose_source=given.pose_source,
            confidence=np.ones(count), yaw_se_deg=zeros, pitch_se_deg=zeros, travel_se_deg=np.full(count, np.nan),
            parallax_px=np.full(count, np.nan), is_calibrated=given.camera is not None,
            focal_source="file" if given.camera is not None else "assumed", scale_status=given.scale_status,
            metres_per_unit=given.metres_per_unit, gravity_source="engine" if is_engine else given.gravity_source,
            gravity_confidence=1.0 if is_engine else given.gravity_confidence)


def _file_lens(given: Given, clip: Clip, video: Video) -> odometry.Lens:
    """Lens in pixels of the clip; an assumed field of view where the file gives none."""
    if given.camera is None:
        return to_clip(assumed_lens(video.width, video.height), clip)
    camera = given.camera
    sx, sy = video.width / camera["width"], video.height / camera["height"]
    shown = odometry.Lens(camera["fx"] * sx, camera["fy"] * sy, (camera["cx"] + 0.5) * sx - 0.5,
                          (camera["cy"] + 0.5) * sy - 0.5,
                          camera.get("model", "pinhole"))
    return to_clip(shown, clip)


def to_clip(lens: odometry.Lens, clip: Clip) -> odometry.Lens:
    """A lens of displayed source pixels in pixels of the canonical clip; whole numbers are the middles of pixels."""
    cx = (lens.cx + 0.5 - clip.crop_x_px) * clip.scale_x - 0.5
    cy = (lens.cy + 0.5 - clip.crop_y_px) * clip.scale_y - 0.5
    return odometry.Lens(lens.fx * clip.scale_x, lens.fy * clip.scale_y, cx, cy, lens.model)
