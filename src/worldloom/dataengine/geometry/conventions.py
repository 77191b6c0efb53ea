"""Pose conventions to and from the canonical one: camera-to-world, OpenCV axes, world y down.

A convention is "direction/axes/form", such as "w2c/opengl/quat_wxyz". Axes are a name of `AXES`, or letters: where the
camera's x, y and z point (r or l, u or d, f or b), and after a colon those of the world for a level camera that looks
along its forward axis: "rdf" is opencv, "rub:rfu" an OpenGL camera in a world with z up. One word stands for both.
"""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.geometry import euler
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

DIRECTIONS = ("c2w", "w2c")
FORMS = ("matrix", "quat_xyzw", "quat_wxyz", *euler.FORMS)
AXES = {
    "opencv": "rdf",            # also COLMAP, RealEstate10K, TUM
    "opengl": "rub",            # y up in the world too
    "ned": "frd",               # north, east, down; also TartanAir
    "unreal": "fru",            # left-handed
    "unity": "ruf",             # left-handed
    "minecraft": "luf",         # camera that faces south: x is east
    "source": "flu",            # Source engine
    "flu": "flu",               # ROS bodies: x forward, y left, z up
    "blender": "rub:rfu",       # OpenGL camera, world z up; also NeRF's transforms.json
    "optical": "rdf:flu",       # OpenCV camera in a ROS or motion-capture world, z up; also EuRoC
}
USUAL_UNIT_M = {"unreal": 0.01, "source": 0.01905, "unity": 1.0, "minecraft": 1.0, "ned": 1.0, "flu": 1.0}
"""Metres in a unit where an engine or a standard fixes it; offered, never assumed."""
_LETTERS = {"r": (1, 0, 0), "l": (-1, 0, 0), "d": (0, 1, 0), "u": (0, -1, 0), "f": (0, 0, 1), "b": (0, 0, -1)}


def parse(convention: str | None) -> tuple[str, str, str]:
    """(direction, axes, form) of a convention.

    Raises:
        DataError: it is missing, unknown or contradicts itself; a pose file is never read by a guess.
    """
    parts = (convention or "").split("/")
    if len(parts) != 3 or parts[0] not in DIRECTIONS or _matrices_of(parts[1]) is None or parts[2] not in FORMS:
        raise DataError(f"pose convention {convention!r} is not known; declare direction/axes/form with direction in "
                        f"{', '.join(DIRECTIONS)}; axes in {', '.join(AXES)}; form in {', '.join(FORMS)}")
    direction, axes, form = parts
    if form in euler.FORMS and (direction != "c2w" or axes not in euler.SIGNS):
        raise DataError(f"pose convention {convention!r}: Euler angles are read as c2w in {', '.join(euler.SIGNS)} "
                        "alone, whose signs and order are known; write other poses as matrices")
    return direction, axes, form


def axes_matrices(axes: str) -> tuple[np.ndarray, np.ndarray]:
    """Canonical from source axes (3, 3), of the camera and of the world; determinant -1 when left-handed.

    Raises:
        DataError: unknown axes, or a right-handed camera in a left-handed world, which no rotation can describe.
    """
    found = _matrices_of(axes)
    if found is None:
        raise DataError(f"axes {axes!r} are not known; wanted one of {', '.join(AXES)}, or letters such as rdf or "
                        "rub:rfu with camera and world of one handedness")
    return found


def _matrices_of(axes: str) -> tuple[np.ndarray, np.ndarray] | None:
    words = AXES.get(axes, axes).split(":")
    if len(words) > 2 or any(len(word) != 3 or not set(word) <= set(_LETTERS) for word in words):
        return None
    camera, world = (np.array([_LETTERS[letter] for letter in word], float).T for word in (words[0], words[-1]))
    same_hand = abs(np.linalg.det(camera)) > 0.5 and np.linalg.det(camera) * np.linalg.det(world) > 0.5
    return (camera, world) if same_hand else None


def to_canonical(
    poses: np.ndarray, convention: str | None, unit_m: float | None = None, *,
    body_from_cam_44: np.ndarray | None = None,
) -> np.ndarray:
    """Canonical camera-to-world poses (T, 4, 4), in metres when `unit_m` is given and in the source's units otherwise.

    Args:
        poses: (T, 16) or (T, 4, 4) row-major matrices, (T, 7) position then quaternion, or (T, 6) position then three
            angles in degrees ((T, 5) without roll).
        body_from_cam_44: where the poses are of a body that carries the camera (an IMU, a robot): the camera's pose in
            the body, Kalibr's and EuRoC's T_BS, in the units of the poses. The axes named are then the camera's.
    Raises:
        DataError: an undeclared convention, another shape, or matrices that are not rotations.
    """
    direction, axes, form = parse(convention)
    of_camera, of_world = axes_matrices(axes)
    pose_T44 = _read(poses, form, axes)
    if direction == "w2c":
        pose_T44 = P.invert(pose_T44)
    if body_from_cam_44 is not None:
        pose_T44 = pose_T44 @ _mount(body_from_cam_44, form)
    rotation_T33 = of_world @ pose_T44[:, :3, :3] @ of_camera.T
    return P.compose(rotation_T33, pose_T44[:, :3, 3] @ of_world.T * (1.0 if unit_m is None else unit_m))


def from_canonical(
    pose_T44: np.ndarray, convention: str, unit_m: float | None = None, *,
    body_from_cam_44: np.ndarray | None = None,
) -> np.ndarray:
    """Inverse of `to_canonical`: (T, 4, 4) for matrices, (T, 7) for quaternions, (T, 6) or (T, 5) for angles."""
    direction, axes, form = parse(convention)
    of_camera, of_world = axes_matrices(axes)
    position_T3 = pose_T44[:, :3, 3] @ of_world / (1.0 if unit_m is None else unit_m)
    if form in euler.FORMS:
        return np.concatenate([position_T3, euler.from_rotation(pose_T44[:, :3, :3], axes, form)], 1)
    pose_T44 = P.compose(of_world.T @ pose_T44[:, :3, :3] @ of_camera, position_T3)
    if body_from_cam_44 is not None:
        pose_T44 = pose_T44 @ P.invert(_mount(body_from_cam_44, form)[None])
    if direction == "w2c":
        pose_T44 = P.invert(pose_T44)
    if form == "matrix":
        return pose_T44
    return np.concatenate([pose_T44[:, :3, 3], P.to_quaternion(pose_T44[:, :3, :3], order=form[5:])], 1)


def _mount(body_from_cam_44: np.ndarray, form: str) -> np.ndarray:
    """The checked extrinsic (4, 4)."""
    if form in euler.FORMS:
        raise DataError("poses of a body in Euler angles are not read with an extrinsic; write them as matrices")
    matrix = np.asarray(body_from_cam_44, float)
    if matrix.shape != (4, 4) or not np.allclose(matrix[3], [0, 0, 0, 1], atol=1e-6):
        raise DataError(f"the camera's pose in the body has shape {list(matrix.shape)}; wanted a rigid 4 x 4 matrix")
    return P.compose(P.nearest_rotation(matrix[None, :3, :3]), matrix[None, :3, 3])[0]


def _read(poses: np.ndarray, form: str, axes: str) -> np.ndarray:
    """Poses (T, 4, 4) as the rows state them, in the source's axes."""
    array = np.asarray(poses, float)
    width = {"matrix": 16}.get(form, 3 + len(euler.ORDER[form]) if form in euler.FORMS else 7)
    if array.ndim == 3 and array.shape[1:] == (4, 4):
        array = array.reshape(len(array), 16)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise DataError(f"poses have shape {list(array.shape)}; {form} wants {width} numbers a frame")
    _check_rows(array, form)
    if form in euler.FORMS:
        of_camera, of_world = axes_matrices(axes)
        return P.compose(of_world.T @ euler.to_rotation(array[:, 3:], axes, form) @ of_camera, array[:, :3])
    if form != "matrix":
        return P.compose(P.from_quaternion(array[:, 3:], order=form[5:]), array[:, :3])
    pose_T44 = array.reshape(-1, 4, 4)
    if not np.allclose(pose_T44[:, 3], [0, 0, 0, 1], atol=1e-6):
        raise DataError("the last row of a pose is not 0 0 0 1; matrices must be row-major")
    return P.compose(P.nearest_rotation(pose_T44[:, :3, :3]), pose_T44[:, :3, 3])


def _check_rows(array: np.ndarray, form: str) -> None:
    """Raises DataError with every row that holds NaN or a zero quaternion."""
    broken = ~np.isfinite(array).all(1)
    zero = np.zeros(len(array), bool)
    if form.startswith("quat"):
        zero = np.linalg.norm(array[:, 3:], axis=1) < 1e-6
    faults = [f"row {P.name_rows(rows)} holds {what}"
              for rows, what in ((broken, "NaN or infinity"), (zero, "a zero quaternion")) if rows.any()]
    if faults:
        raise DataError(f"{'; '.join(faults)}; drop those frames or mend the pose file")
