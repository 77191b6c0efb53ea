"""Structure from motion over keyframes with pycolmap: poses, focal length, and the covariance of both.

COLMAP puts the middle of the first pixel at 0.5, the rest of this package at 0: the principal point is shifted here.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from pydantic import Field

from worldloom.annotators.camera.odometry import Lens
from worldloom.annotators.camera.stitch import Windows
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Params
from worldloom.schemas import ConfigError, DataError

_GUESSED_FOCAL = 0.8             # of the width: about 64 degrees, where none is known
_SMALL_PX = 400                  # pictures narrower than this are doubled before corners are sought
_ERROR_SHARE, _LEAST_ERROR_PX = 1 / 320, 1.5      # of the width; COLMAP's 4 pixels are for pictures of 1,000 and more
_SIGMA_PX = 1.0                  # of a corner, for covariances: features err together, so more than their scatter


class SfmParams(Params):
    """`sfm` takes seconds for each keyframe: fewer corners and pairs are faster and lose weak clips first."""
    mapper: Literal["incremental", "global"] = "incremental"
    every_frames: int = Field(5, ge=1)               # from one keyframe to the next
    features: int = Field(1000, ge=50)               # corners a keyframe, at most
    overlap: int = Field(4, ge=1)                    # neighbours matched with each keyframe, and as many at 2^k
    peak_threshold: float = Field(0.003, gt=0)       # of the corners; COLMAP's own 0.0067 is too high for games
    least_keyframes: int = Field(3, ge=3)            # in a model
    threads: int = Field(1, ge=1)
    seed: int = Field(0, ge=0)
    windows: Windows = Windows(frames=300, overlap=30, above_frames=600)


@dataclass(frozen=True)
class Model:
    """The largest model: the keyframes in it by their place, their poses, and what it says of itself."""
    places_K: np.ndarray             # ascending places of the registered keyframes among all
    world_from_cam_K44: np.ndarray
    lens: Lens
    focal_spread: float              # standard error over value; 0 where the focal length was given
    depth_K: np.ndarray              # median depth of the points that each sees, in the model's unit
    turn_se_deg_K3: np.ndarray       # of the motion from the keyframe before: about x, y, z; NaN at the first
    shift_se_K: np.ndarray           # of the same motion across its direction, in the model's unit


def reconstruct(gray_KHW: np.ndarray, lens: Lens | None, params: SfmParams) -> Model:
    """A model of the keyframes, self-calibrated where no lens is given.

    Raises:
        ConfigError: pycolmap is not installed.
        DataError: no model holds enough keyframes, as when the camera only turns or sees nothing to follow.
    """
    try:
        import pycolmap
    except ImportError as error:
        raise ConfigError("camera: sfm needs pycolmap; pip install 'worldloom[sfm]'") from error
    pycolmap.logging.minloglevel = int(pycolmap.logging.FATAL)
    with tempfile.TemporaryDirectory(prefix="worldloom-sfm-") as folder:
        models = _mapped(pycolmap, Path(folder), gray_KHW, lens, params)
    model = max(models.values(), key=lambda m: m.num_reg_images(), default=None)
    found = 0 if model is None else model.num_reg_images()
    if model is None or found < params.least_keyframes:
        raise DataError(f"sfm places {found} of {len(gray_KHW)} keyframes; wanted {params.least_keyframes} or more: "
                        "the camera must move, not only turn, past things with detail")
    return _read(pycolmap, model, lens is not None, params)


def _mapped(colmap: Any, folder: Path, gray_KHW: np.ndarray, lens: Lens | None, params: SfmParams) -> dict[int, Any]:
    """Every model that pycolmap makes of the keyframes."""
    error_px = max(_LEAST_ERROR_PX, gray_KHW.shape[2] * _ERROR_SHARE)
    pictures, out, database = folder / "pictures", folder / "models", folder / "database.db"
    pictures.mkdir()
    out.mkdir()
    for place, gray_HW in enumerate(gray_KHW):
        cv2.imwrite(str(pictures / f"{place:06d}.png"), gray_HW)
    colmap.set_random_seed(params.seed)
    colmap.extract_features(
        database, pictures, camera_mode=colmap.CameraMode.SINGLE, reader_options=_reader(colmap, gray_KHW, lens),
        extraction_options=_extraction(colmap, gray_KHW.shape[2], params), device=colmap.Device.cpu)
    colmap.match_sequential(
        database, matching_options=_set(colmap.FeatureMatchingOptions(), num_threads=params.threads, use_gpu=False),
        pairing_options=_set(colmap.SequentialPairingOptions(), overlap=params.overlap, num_threads=params.threads),
        verification_options=_verification(colmap, error_px, params), device=colmap.Device.cpu)
    if params.mapper == "global":
        return colmap.global_mapping(database, pictures, out, _global(colmap, lens is not None, params))
    options = _incremental(colmap, lens is not None, error_px, params)
    return colmap.incremental_mapping(database, pictures, out, options)


def _set(options: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _reader(colmap: Any, gray_KHW: np.ndarray, lens: Lens | None) -> Any:
    """One camera for all pictures: the given pinhole, or one focal length to be found."""
    height, width = gray_KHW.shape[1:]
    if lens is None:
        known = f"{_GUESSED_FOCAL * width},{width / 2},{height / 2}"
        return _set(colmap.ImageReaderOptions(), camera_model="SIMPLE_PINHOLE", camera_params=known)
    known = f"{lens.fx},{lens.fy},{lens.cx + 0.5},{lens.cy + 0.5}"
    return _set(colmap.ImageReaderOptions(), camera_model="PINHOLE", camera_params=known)


def _extraction(colmap: Any, width: int, params: SfmParams) -> Any:
    options = _set(colmap.FeatureExtractionOptions(), num_threads=params.threads, use_gpu=False)
    _set(options.sift, max_num_features=params.features, peak_threshold=params.peak_threshold,
         first_octave=-1 if width < _SMALL_PX else 0)
    return options


def _verification(colmap: Any, error_px: float, params: SfmParams) -> Any:
    options = colmap.TwoViewGeometryOptions()
    _set(options.ransac, random_seed=params.seed, max_error=error_px)
    return options


def _incremental(colmap: Any, is_known: bool, error_px: float, params: SfmParams) -> Any:
    options = _set(colmap.IncrementalPipelineOptions(), num_threads=params.threads, random_seed=params.seed,
                   min_model_size=params.least_keyframes, extract_colors=False, ba_refine_focal_length=not is_known,
                   ba_refine_extra_params=False)
    _set(options.mapper, init_min_tri_angle=4.0, init_min_num_inliers=50, init_max_error=error_px,
         abs_pose_max_error=2 * error_px, abs_pose_min_num_inliers=20, abs_pose_refine_focal_length=not is_known,
         abs_pose_refine_extra_params=False, filter_max_reproj_error=error_px)
    _set(options.triangulation, create_max_angle_error=1.5, continue_max_angle_error=1.5,
         merge_max_reproj_error=error_px, complete_max_reproj_error=error_px)
    return options


def _global(colmap: Any, is_known: bool, params: SfmParams) -> Any:
    options = _set(colmap.GlobalPipelineOptions(), num_threads=params.threads, random_seed=params.seed,
                   min_model_size=params.least_keyframes)
    _set(options.mapper, num_threads=params.threads, random_seed=params.seed)
    _set(options.mapper.bundle_adjustment, refine_focal_length=not is_known, refine_extra_params=False)
    options.mapper.bundle_adjustment.ceres.solver_options.num_threads = params.threads
    return options


def _read(colmap: Any, model: Any, is_known: bool, params: SfmParams) -> Model:
    images = sorted((image for image in model.images.values() if image.has_pose), key=lambda image: image.name)
    camera = model.cameras[images[0].camera_id]
    numbers = camera.calibration_matrix()
    lens = Lens(numbers[0, 0], numbers[1, 1], numbers[0, 2] - 0.5, numbers[1, 2] - 0.5)
    cam_from_world_K44 = np.array([np.vstack([image.cam_from_world().matrix(), [0, 0, 0, 1]]) for image in images])
    turn_se_deg_K3, shift_se_K, focal_se_px = _errors(colmap, model, images, is_known, params)
    return Model(
        places_K=np.array([int(Path(image.name).stem) for image in images]),
        world_from_cam_K44=P.invert(cam_from_world_K44), lens=lens, focal_spread=focal_se_px / lens.fx,
        depth_K=np.array([_depth(model, image, pose) for image, pose in zip(images, cam_from_world_K44, strict=True)]),
        turn_se_deg_K3=turn_se_deg_K3, shift_se_K=shift_se_K)


def _depth(model: Any, image: Any, cam_from_world_44: np.ndarray) -> float:
    """Median depth of the points that an image sees."""
    points = [point.point3D_id for point in image.points2D if point.has_point3D()]
    xyz_N3 = np.array([model.points3D[i].xyz for i in points]).reshape(-1, 3)
    return float(np.median(xyz_N3 @ cam_from_world_44[2, :3] + cam_from_world_44[2, 3])) if len(xyz_N3) else np.nan


def _errors(colmap: Any, model: Any, images: list[Any], is_known: bool,
            params: SfmParams) -> tuple[np.ndarray, np.ndarray, float]:
    """Standard errors from the bundle's covariance: turns (K, 3) in degrees, shifts (K,), focal length in pixels.

    A model whose covariance cannot be solved gives NaN for the motions and the whole focal length.
    """
    turn, shift = np.full((len(images), 3), np.nan), np.full(len(images), np.nan)
    camera = model.cameras[images[0].camera_id]
    covariance = _covariance(colmap, model, images, is_known, params)
    if covariance is None:
        return turn, shift, 0.0 if is_known else float(camera.params[0])
    for k, (a, b) in enumerate(zip(images[:-1], images[1:], strict=True), start=1):
        both = covariance.get_cam2_cov_from_cam1(a.image_id, a.cam_from_world(), b.image_id, b.cam_from_world())
        if both is not None:
            error = _SIGMA_PX * np.sqrt(np.maximum(np.diag(both), 0.0))
            turn[k], shift[k] = np.degrees(error[:3]), float(np.median(error[3:]))
    focal = None if is_known else covariance.get_other_params_cov(camera.params)
    return turn, shift, 0.0 if focal is None else _SIGMA_PX * float(np.sqrt(max(focal[0, 0], 0.0)))


def _covariance(colmap: Any, model: Any, images: list[Any], is_known: bool, params: SfmParams) -> Any:
    config = colmap.BundleAdjustmentConfig()
    for image in images:
        config.add_image(image.image_id)
    config.fix_gauge(colmap.BundleAdjustmentGauge.THREE_POINTS)
    options = _set(colmap.BundleAdjustmentOptions(), print_summary=False, refine_focal_length=not is_known,
                   refine_extra_params=False)
    _set(options.ceres, use_gpu=False)
    options.ceres.solver_options.num_threads = params.threads
    wanted = _set(colmap.BACovarianceOptions(), params=colmap.BACovarianceOptionsParams.ALL)
    adjuster = colmap.create_default_ceres_bundle_adjuster(options, config, model)
    return colmap.estimate_ba_covariance(wanted, model, adjuster)
