"""What learned models give as numbers, to camera-to-world poses and intrinsics in pixels of the clip.

Facts from the models' public code: VGGT (pose encoding: translation, quaternion xyzw, vertical and horizontal field
of view, of world-to-camera), Depth Anything 3 (world-to-camera), Pi3 and Pi3X (camera-to-world, points in each camera),
ViPE and MegaSaM (camera-to-world). All use OpenCV axes. Legend: N frames, H, W the picture the model saw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

_ENCODING = 9
_LEAST_TANGENT = 0.1      # of a ray from the axis: nearer ones say little of the focal length


@dataclass(frozen=True)
class Poses:
    """Camera-to-world poses (N, 4, 4), intrinsics (N, 4) as fx, fy, cx, cy in pixels of a picture of `size`.

    `size` is (width, height) and None where the output does not say; metres_per_unit only where the model claims it.
    """
    world_from_cam_N44: np.ndarray
    intrinsics_N4: np.ndarray
    size: tuple[float, float] | None
    metres_per_unit: float | None = None


def from_vggt(pose_enc: np.ndarray, size: tuple[int, int]) -> Poses:
    """Poses of VGGT's `pose_enc` (N, 9) or (1, N, 9).

    Raises:
        DataError: another shape, or not finite.
    """
    encoded_N9 = _without_batch(np.asarray(pose_enc, float), 2)
    if encoded_N9.shape[1] != _ENCODING or not np.isfinite(encoded_N9).all():
        raise DataError(f"VGGT pose encoding has shape {list(encoded_N9.shape)}; wanted (N, {_ENCODING}), all finite")
    quat_N4 = encoded_N9[:, 3:7]
    length = np.linalg.norm(quat_N4, axis=1, keepdims=True)
    if (length < 1e-6).any():
        raise DataError("VGGT pose encoding holds a zero quaternion")
    rotation_N33 = P.from_quaternion(quat_N4 / length, order="xyzw")
    view_N2 = encoded_N9[:, 7:]
    if (view_N2 <= 0).any() or (view_N2 >= np.pi).any():
        raise DataError(f"VGGT gives a field of view of {view_N2.min():.3g} to {view_N2.max():.3g} radians")
    width, height = size
    focal_N2 = np.array([width, height]) / 2 / np.tan(view_N2[:, ::-1] / 2)
    middle_N2 = np.tile([width / 2, height / 2], (len(focal_N2), 1))
    return Poses(P.invert(P.compose(rotation_N33, encoded_N9[:, :3])), np.concatenate([focal_N2, middle_N2], 1), size)


def from_extrinsics(cam_from_world: np.ndarray, intrinsic: np.ndarray, size: tuple[float, float],
                    metres_per_unit: float | None = None) -> Poses:
    """Poses of world-to-camera matrices (N, 3, 4) or (N, 4, 4) and camera matrices (N, 3, 3), as Depth Anything 3 has.

    Raises:
        DataError: another shape, or matrices that are not rotations.
    """
    return Poses(P.invert(rigid(cam_from_world)), intrinsics_N4(intrinsic, len(cam_from_world)), size, metres_per_unit)


def from_pi3(camera_poses: np.ndarray, local_points: np.ndarray, conf: np.ndarray,
             metres_per_unit: float | None = None) -> Poses:
    """Poses of Pi3's camera-to-world (N, 4, 4), points in each camera (N, H, W, 3) and confidence logits (N, H, W, 1).

    Pi3 gives no intrinsics: each focal length is the weighted median of pixel offset over ray slope.

    Raises:
        DataError: another shape, points that all lie on the optical axis, or points that no camera sees so.
    """
    points_NHW3, logit_NHW = _without_batch(local_points, 4), _without_batch(conf, 4)[..., 0]
    height, width = points_NHW3.shape[1:3]
    lenses = [_focal(points_HW3, 1 / (1 + np.exp(-logit_HW)))
              for points_HW3, logit_HW in zip(points_NHW3, logit_NHW, strict=True)]
    middle = [width / 2, height / 2]
    return Poses(rigid(_without_batch(camera_poses, 3)), checked_intrinsics(
        np.array([[*lens, *middle] for lens in lenses])), (width, height), metres_per_unit)


def _focal(points_HW3: np.ndarray, weight_HW: np.ndarray) -> tuple[float, float]:
    """fx and fy of the camera that sees point (row, column) at that pixel."""
    height, width = points_HW3.shape[:2]
    row, column = np.mgrid[0:height, 0:width]
    found = []
    for axis, place in ((0, column + 0.5 - width / 2), (1, row + 0.5 - height / 2)):
        slope = points_HW3[..., axis] / np.where(points_HW3[..., 2] > 1e-9, points_HW3[..., 2], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            use = (np.abs(slope) > _LEAST_TANGENT) & (weight_HW > 0)
        if not use.any():
            raise DataError("the points in the camera show no ray off its axis, so no focal length")
        found.append(_weighted_median(place[use] / slope[use], weight_HW[use]))
    return found[0], found[1]


def _weighted_median(value_N: np.ndarray, weight_N: np.ndarray) -> float:
    order = np.argsort(value_N)
    below = np.cumsum(weight_N[order])
    return float(value_N[order][np.searchsorted(below, below[-1] / 2)])


def rigid(matrices: np.ndarray) -> np.ndarray:
    """Poses (N, 4, 4) of (N, 3, 4) or (N, 4, 4) single-precision matrices, their rotations made exact.

    Raises:
        DataError: another shape, NaN, mirrored, or no rotation.
    """
    array = np.asarray(matrices, float)
    if array.ndim != 3 or array.shape[1:] not in ((3, 4), (4, 4)) or not len(array):
        raise DataError(f"poses have shape {list(array.shape)}; wanted (N, 3, 4) or (N, 4, 4)")
    if not np.isfinite(array).all():
        raise DataError(f"the pose of row {P.name_rows(~np.isfinite(array).all((1, 2)))} holds NaN or infinity")
    return P.compose(P.nearest_rotation(array[:, :3, :3]), array[:, :3, 3])


def intrinsics_N4(matrix: np.ndarray, count: int) -> np.ndarray:
    """fx, fy, cx, cy (N, 4) of one camera matrix (3, 3) or one a frame (N, 3, 3).

    Raises:
        DataError: another shape, or a focal length that is not positive.
    """
    array = np.asarray(matrix, float)
    array = np.broadcast_to(array, (count, 3, 3)) if array.shape == (3, 3) else array
    if array.shape != (count, 3, 3):
        raise DataError(f"intrinsics have shape {list(array.shape)}; wanted (3, 3) or ({count}, 3, 3)")
    return checked_intrinsics(np.stack([array[:, 0, 0], array[:, 1, 1], array[:, 0, 2], array[:, 1, 2]], 1))


def checked_intrinsics(lens_N4: np.ndarray) -> np.ndarray:
    """The intrinsics as they are.

    Raises:
        DataError: not finite, or a focal length that is not positive.
    """
    bad = ~np.isfinite(lens_N4).all(1) | (lens_N4[:, :2] <= 0).any(1)
    if bad.any():
        raise DataError(f"the intrinsics of row {P.name_rows(bad)} are {lens_N4[bad][0].tolist()}; wanted positive "
                        "focal lengths")
    return lens_N4


def _without_batch(array: np.ndarray, dims: int) -> np.ndarray:
    """An array with a leading batch of one taken off.

    Raises:
        DataError: it has another number of axes.
    """
    array = np.asarray(array, float)
    if array.ndim == dims + 1 and len(array) == 1:
        array = array[0]
    if array.ndim != dims or not len(array):
        raise DataError(f"a model gave an array of shape {list(array.shape)}; wanted {dims} axes, or a batch of one")
    return array


def resized(intrinsics_N4: np.ndarray, size: tuple[float, float], onto: tuple[float, float]) -> np.ndarray:
    """Intrinsics of a picture of `size` in pixels of the same picture resized to `onto`, both (width, height)."""
    sx, sy = onto[0] / size[0], onto[1] / size[1]
    return intrinsics_N4 * [sx, sy, sx, sy]
