"""The camera row of a path that came without pictures, so that it can be labelled as a clip is."""

from __future__ import annotations

import numpy as np

from worldloom.annotators.camera.given import Given
from worldloom.schemas import Camera, DataError


def path_camera(given: Given, name: str) -> Camera:
    """The whole path as one camera track; `name` stands in for the clip. Intrinsics are NaN where none is given."""
    count = len(given.world_from_cam_N44)
    zeros, unseen = np.zeros(count, np.float32), np.full(count, np.nan, np.float32)
    lens = [given.camera[key] for key in ("fx", "fy", "cx", "cy")] if given.camera else [np.nan] * 4
    return Camera(
        clip_id=name, estimator="given/1", chosen_because="a path without pictures", pose_source=given.pose_source,
        camera_model="pinhole", num_frames=count, world_from_cam_T44=given.world_from_cam_N44.reshape(-1, 16),
        intrinsics_T4=np.tile(np.asarray(lens, float), (count, 1)), confidence=np.ones(count, np.float32),
        yaw_se_deg=zeros, pitch_se_deg=zeros, travel_se_deg=unseen, parallax_px=unseen,
        is_calibrated=given.camera is not None, focal_source="file" if given.camera else "assumed", focal_spread=None,
        perspective_seen="uncertain", scale_status=given.scale_status, metres_per_unit=given.metres_per_unit,
        scale_spread=None, gravity_source=given.gravity_source, gravity_confidence=given.gravity_confidence)


def path_fps(given: Given, declared: float | None) -> float:
    """Poses a second: the usual step of the times where there are any, else what is declared.

    Raises:
        DataError: neither is there.
    """
    if given.times_s is not None and len(given.times_s) > 1:
        return float(1 / np.median(np.diff(given.times_s)))
    if declared is None:
        raise DataError("a path without times and without a rate; declare fps")
    return declared
