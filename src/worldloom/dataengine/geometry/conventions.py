"""Pose conventions to and from the canonical one: camera-to-world, OpenCV axes, world y down.

A convention is "direction/axes/form", such as "w2c/opengl/quat_wxyz". World and camera share the axes: opencv is x
right, y down, z forward; opengl x right, y up, z backward; ned x forward, y right, z down; unreal x forward, y right,
z up.
"""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

DIRECTIONS = ("c2w", "w2c")
FORMS = ("matrix", "quat_xyzw", "quat_wxyz")
AXES = {
    "opencv": np.eye(3),
    "opengl": np.diag([1.0, -1.0, -1.0]),
    "ned": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "unreal": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]),
}
"""Canonical axes from source axes, as matrices; unreal is left-handed, so its determinant is -1."""


def parse(convention: str | None) -> tuple[str, str, str]:
    """(direction, axes, form) of a convention.

    Raises:
        DataError: it is missing or unknown; a pose file is never read by a guess.
    """
    parts = tuple((convention or "").split("/"))
    if len(parts) == 3 and parts[0] in DIRECTIONS and parts[1] in AXES and parts[2] in FORMS:
        return parts
    raise DataError(f"pose convention {convention!r} is not known; declare direction/axes/form with direction in "
                    f"{', '.join(DIRECTIONS)}; axes in {', '.join(AXES)}; form in {', '.join(FORMS)}")


def to_canonical(poses: np.ndarray, convention: str | None, unit_m: float | None = None) -> np.ndarray:
    """Canonical camera-to-world poses (T, 4, 4), in metres when `unit_m` is given and in the source's units otherwise.

    Args:
        poses: (T, 16) or (T, 4, 4) row-major matrices, or (T, 7) position then quaternion.
    Raises:
        DataError: an undeclared convention, another shape, or matrices that are not rotations.
    """
    direction, axes, form = parse(convention)
    pose_T44 = _matrices(poses, form)
    if direction == "w2c":
        pose_T44 = P.invert(pose_T44)
    to_cv = AXES[axes]
    rotation_T33 = to_cv @ pose_T44[:, :3, :3] @ to_cv.T
    return P.compose(rotation_T33, pose_T44[:, :3, 3] @ to_cv.T * (1.0 if unit_m is None else unit_m))


def from_canonical(pose_T44: np.ndarray, convention: str, unit_m: float | None = None) -> np.ndarray:
    """Inverse of `to_canonical`: (T, 4, 4) for the matrix form, (T, 7) for quaternions."""
    direction, axes, form = parse(convention)
    to_cv = AXES[axes]
    rotation_T33 = to_cv.T @ pose_T44[:, :3, :3] @ to_cv
    pose_T44 = P.compose(rotation_T33, pose_T44[:, :3, 3] @ to_cv / (1.0 if unit_m is None else unit_m))
    if direction == "w2c":
        pose_T44 = P.invert(pose_T44)
    if form == "matrix":
        return pose_T44
    return np.concatenate([pose_T44[:, :3, 3], P.to_quaternion(pose_T44[:, :3, :3], order=form[5:])], 1)


def _matrices(poses: np.ndarray, form: str) -> np.ndarray:
    array = np.asarray(poses, float)
    width = 16 if form == "matrix" else 7
    if array.ndim == 3 and array.shape[1:] == (4, 4):
        array = array.reshape(len(array), 16)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise DataError(f"poses have shape {list(array.shape)}; {form} wants {width} numbers a frame")
    _check_rows(array, form)
    if form != "matrix":
        return P.compose(P.from_quaternion(array[:, 3:], order=form[5:]), array[:, :3])
    pose_T44 = array.reshape(-1, 4, 4)
    if not np.allclose(pose_T44[:, 3], [0, 0, 0, 1], atol=1e-6):
        raise DataError("the last row of a pose is not 0 0 0 1; matrices must be row-major")
    return P.compose(P.nearest_rotation(pose_T44[:, :3, :3]), pose_T44[:, :3, 3])


def _check_rows(array: np.ndarray, form: str) -> None:
    """Raises DataError with every row that holds NaN or a zero quaternion."""
    broken = ~np.isfinite(array).all(1)
    zero = np.zeros(len(array), bool) if form == "matrix" else np.linalg.norm(array[:, 3:], axis=1) < 1e-6
    faults = [f"row {P.name_rows(rows)} holds {what}"
              for rows, what in ((broken, "NaN or infinity"), (zero, "a zero quaternion")) if rows.any()]
    if faults:
        raise DataError(f"{'; '.join(faults)}; drop those frames or mend the pose file")
