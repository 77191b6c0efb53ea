"""What a camera estimator is: the pictures of one clip, and a lens or none, to a pose for each frame with its errors.

Legend: T frames of the clip, 44 a camera-to-world pose (OpenCV axes), T4 fx, fy, cx, cy in pixels of the clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from worldloom.annotators.camera.odometry import Lens
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import noise_sigma, savitzky_golay
from worldloom.schemas import Clip, DataError, Video

UNSEEN_SE_DEG = 180.0
_LEAST_SE_DEG = 0.05


@dataclass(frozen=True, kw_only=True)
class Footage:
    """One clip as an estimator sees it: what it shows, and where it was cut from.

    `gray_THW` and `rgb_THWC` are uint8; an estimator that looks at no picture gets none, and colour is there only for
    one that needs it. `folder` is the root of the source, None where it is not known on this machine; `sidecar` is the
    pose file beside the video.
    """
    clip: Clip
    video: Video
    folder: Path | None = None
    sidecar: Path | None = None
    gray_THW: np.ndarray | None = None
    rgb_THWC: np.ndarray | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the clip's pictures."""
        return self.clip.width, self.clip.height

    def gray(self) -> np.ndarray:
        if self.gray_THW is None:
            raise DataError(f"clip {self.clip.clip_id}: its pictures were not decoded")
        return self.gray_THW

    def rgb(self) -> np.ndarray:
        if self.rgb_THWC is None:
            raise DataError(f"clip {self.clip.clip_id}: its colour pictures were not decoded")
        return self.rgb_THWC

    @cached_property
    def mask_HW(self) -> np.ndarray:
        """uint8, 0 where an overlay (status bar, weapon, watermark) hides the scene, else 255; looked for once."""
        from worldloom.annotators.camera.overlay import usable_mask

        return usable_mask(self.gray(), fps=self.clip.fps)


@dataclass(frozen=True, kw_only=True)
class Track:
    """The camera of a clip, one entry a frame; index t is the step from t-1 to t, index 0 is at rest.

    Parallax NaN means that the estimator measured none: the stage then measures it in the pixels.
    """
    estimator: str                       # name/version
    world_from_cam_T44: np.ndarray
    intrinsics_T4: np.ndarray
    confidence: np.ndarray               # trust in each step, 0 to 1
    yaw_se_deg: np.ndarray
    pitch_se_deg: np.ndarray
    travel_se_deg: np.ndarray            # standard error of the direction of travel; NaN where none was fitted
    parallax_px: np.ndarray              # median image motion that rotation alone leaves
    camera_model: str = "pinhole"
    pose_source: str = "estimated"       # engine, file or estimated
    is_calibrated: bool = False
    focal_source: str = "assumed"        # declared, file, found or assumed
    focal_spread: float | None = None    # standard error of a found focal length over its value
    scale_status: str = "relative"       # exact, metric, relative or unknown
    metres_per_unit: float | None = None
    scale_spread: float | None = None    # p90 over p10 of the scale
    gravity_source: str = "assumed"      # engine, imu, estimated or assumed
    gravity_confidence: float = 0.5
    has_roll: bool = True                # roll was measured, not held at 0, so it tells the vertical

    def __len__(self) -> int:
        return len(self.world_from_cam_T44)

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in PER_FRAME}
        if len(set(lengths.values())) != 1:
            raise DataError(f"{self.estimator} gives {lengths}; one entry a frame is wanted in each")


PER_FRAME = ("world_from_cam_T44", "intrinsics_T4", "confidence", "yaw_se_deg", "pitch_se_deg", "travel_se_deg",
             "parallax_px")


class Estimator(Protocol):
    """Pictures to a track. Built once in each worker; `estimate` runs once a clip and knows nothing of the others."""
    name: ClassVar[str]
    version: ClassVar[int]               # goes up when equal input would give another track
    pictures: ClassVar[str]              # what it looks at: "none", "gray" or "rgb"
    needs_lens: ClassVar[bool]           # the stage finds or assumes a lens where none is declared
    Params: ClassVar[type]               # a pydantic model; unknown keys are refused

    def __init__(self, params: Any) -> None: ...

    def estimate(self, footage: Footage, lens: Lens | None) -> Track:
        """The track of one clip.

        Raises:
            DataError: this clip cannot be estimated; it fails alone. ConfigError: no clip can; the run stops.
        """
        ...


@runtime_checkable
class OutputReader(Protocol):
    """An estimator that reads what a model left in a folder; `auto` takes it where the folder holds the clip."""

    def holds(self, footage: Footage) -> bool: ...


def found_track(estimator: str, world_from_cam_T44: np.ndarray, intrinsics_T4: np.ndarray, fps: float,
                **known: Any) -> Track:
    """A track of poses that came without errors of their own, as learned models give them.

    Standard errors are what the turns differ by from their own smooth course (a floor: slow drift is not in it).
    """
    count = len(world_from_cam_T44)
    yaw_se, pitch_se = jitter_deg(world_from_cam_T44, fps)
    facts: dict[str, Any] = {
        "confidence": np.ones(count), "yaw_se_deg": yaw_se, "pitch_se_deg": pitch_se,
        "travel_se_deg": np.full(count, np.nan), "parallax_px": np.full(count, np.nan)}
    return Track(estimator=estimator, world_from_cam_T44=world_from_cam_T44, intrinsics_T4=intrinsics_T4,
                 **{**facts, **known})


def jitter_deg(world_from_cam_T44: np.ndarray, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """Standard error (T,) of the yaw and of the pitch steps, from how rough they are; 0 at index 0."""
    def rough(angle_deg_T: np.ndarray) -> np.ndarray:
        step = P.wrap180(np.diff(angle_deg_T, prepend=angle_deg_T[:1]))
        noise = noise_sigma(step[1:], savitzky_golay(step, fps=fps)[1:])
        error = np.full(len(step), max(noise, _LEAST_SE_DEG))
        error[:1] = 0.0
        return error

    return rough(P.heading_deg(world_from_cam_T44)), rough(P.elevation_deg(world_from_cam_T44))


def pinhole(lens: Lens | None, name: str) -> Lens | None:
    """The lens as it is.

    Raises:
        DataError: it is not a pinhole's, which is all that this estimator understands.
    """
    if lens is not None and lens.model != "pinhole":
        raise DataError(f"{name} wants a pinhole camera; this source declares {lens.model}, which odometry reads")
    return lens
