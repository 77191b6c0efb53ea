"""Rotations and poses as plain arrays: camera-to-world, OpenCV axes, world y down.

Legend: T frames, N any number, 33 a rotation, 44 a pose. A level camera looking ahead is the identity.
"""

from __future__ import annotations

import numpy as np

from worldloom.schemas import DataError


def wrap180(angle_deg: np.ndarray | float) -> np.ndarray:
    """The same angle in [-180, 180)."""
    return (np.asarray(angle_deg, float) + 180.0) % 360.0 - 180.0


def heading_deg(world_from_cam_T44: np.ndarray) -> np.ndarray:
    """Direction of view in the horizontal plane, 0 along +z, right positive; shape (T,)."""
    poses = np.asarray(world_from_cam_T44, float)
    return np.degrees(np.arctan2(poses[..., 0, 2], poses[..., 2, 2]))


def elevation_deg(world_from_cam_T44: np.ndarray) -> np.ndarray:
    """Angle of view above the horizon, up positive; shape (T,)."""
    poses = np.asarray(world_from_cam_T44, float)
    return np.degrees(np.arctan2(-poses[..., 1, 2], np.hypot(poses[..., 0, 2], poses[..., 2, 2])))


def roll_deg(world_from_cam_T44: np.ndarray) -> np.ndarray:
    """Turn about the direction of view that heading and elevation leave over, clockwise positive; shape (T,)."""
    poses = np.asarray(world_from_cam_T44, float)
    level = look(heading_deg(poses), elevation_deg(poses))
    rest = np.swapaxes(level, -1, -2) @ poses[..., :3, :3]
    return np.degrees(np.arctan2(rest[..., 1, 0], rest[..., 0, 0]))


def look(heading: np.ndarray | float, elevation: np.ndarray | float) -> np.ndarray:
    """Rotations of level-horizon cameras with the given heading and elevation in degrees; shape (..., 3, 3)."""
    h, e = np.radians(np.broadcast_arrays(np.asarray(heading, float), np.asarray(elevation, float)))
    sh, ch, se, ce, zero = np.sin(h), np.cos(h), np.sin(e), np.cos(e), np.zeros_like(h)
    rows = [[ch, sh * se, sh * ce], [zero, ce, -se], [-sh, ch * se, ch * ce]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def compose(rotation_T33: np.ndarray, position_T3: np.ndarray) -> np.ndarray:
    """Poses (T, 4, 4) from rotations and positions."""
    poses = np.zeros((len(rotation_T33), 4, 4))
    poses[:, :3, :3], poses[:, :3, 3], poses[:, 3, 3] = rotation_T33, position_T3, 1.0
    return poses


def invert(pose_T44: np.ndarray) -> np.ndarray:
    """Inverse of rigid poses: camera-to-world from world-to-camera and back."""
    rotation_T33 = np.swapaxes(pose_T44[:, :3, :3], 1, 2)
    return compose(rotation_T33, -(rotation_T33 @ pose_T44[:, :3, 3:])[:, :, 0])


def so3_exp(rotvec_N3: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) of rotation vectors in radians."""
    vec = np.asarray(rotvec_N3, float)
    angle = np.linalg.norm(vec, axis=-1)[..., None, None]
    x, y, z, zero = vec[..., 0], vec[..., 1], vec[..., 2], np.zeros_like(vec[..., 0])
    cross = np.stack([np.stack(r, -1) for r in ([zero, -z, y], [z, zero, -x], [-y, x, zero])], -2)
    return np.eye(3) + np.sinc(angle / np.pi) * cross + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * (cross @ cross)


def so3_log(rotation_N33: np.ndarray) -> np.ndarray:
    """Rotation vectors (N, 3) in radians, length at most pi; inverse of `so3_exp` below pi."""
    quat = to_quaternion(rotation_N33, order="xyzw")
    quat = np.where(quat[..., 3:] < 0, -quat, quat)
    sine = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, quat[..., 3:])
    return quat[..., :3] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-12), 2.0)


def to_quaternion(rotation_N33: np.ndarray, *, order: str) -> np.ndarray:
    """Unit quaternions (N, 4) with their order named: "xyzw" or "wxyz"."""
    r = np.asarray(rotation_N33, float)
    d = np.stack([r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]], -1)
    trace = d.sum(-1)
    squares = np.concatenate([1 + 2 * d - trace[..., None], 1 + trace[..., None]], -1)      # 4q², x y z w
    skew = np.stack([r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]], -1)
    outer = np.zeros(r.shape[:-2] + (4, 4))                                               # 4 q qᵀ
    outer[..., :3, :3] = r + np.swapaxes(r, -1, -2)
    outer[..., :3, 3] = outer[..., 3, :3] = skew
    for i in range(4):
        outer[..., i, i] = squares[..., i]
    best = np.argmax(squares, -1)
    quat = np.take_along_axis(outer, best[..., None, None].repeat(4, -1), -2)[..., 0, :]
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    return quat[..., _ORDER[order]]


def from_quaternion(quat_N4: np.ndarray, *, order: str) -> np.ndarray:
    """Rotations (N, 3, 3) of quaternions with their order named: "xyzw" or "wxyz".

    Raises:
        DataError: a length is off 1 by more than 1 percent, so these are not rotations.
    """
    quat = np.asarray(quat_N4, float)
    length = np.linalg.norm(quat, axis=-1, keepdims=True)
    good = np.abs(length.ravel() - 1) < 0.01
    if not good.all():
        bad = int(np.argmin(good))
        raise DataError(f"quaternion {bad} has length {length.ravel()[bad]:.4g}; wanted 1 within 1 percent")
    quat = (quat / length)[..., _INVERSE_ORDER[order]]
    x, y, z, w = np.moveaxis(quat, -1, 0)
    rows = [[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


_HOLE_TIMES = 3.0
_ORDER = {"xyzw": [0, 1, 2, 3], "wxyz": [3, 0, 1, 2]}
_INVERSE_ORDER = {"xyzw": [0, 1, 2, 3], "wxyz": [1, 2, 3, 0]}


def nearest_rotation(matrix_N33: np.ndarray, *, limit: float = 0.05) -> np.ndarray:
    """The closest rotations to nearly orthonormal matrices.

    Raises:
        DataError: a matrix is mirrored, not finite, or any entry moves by more than `limit`.
    """
    matrix = np.asarray(matrix_N33, float)
    broken = ~np.isfinite(matrix).all((-1, -2))
    if broken.any():
        raise DataError(f"the pose of row {name_rows(broken)} holds NaN or infinity; drop those frames or "
                        "mend the file")
    u, _, vt = np.linalg.svd(matrix)
    rotation = u @ vt
    mirrored = np.linalg.det(rotation) < 0
    if np.any(mirrored):
        raise DataError(f"the pose of row {name_rows(mirrored)} is mirrored (determinant -1); the axes named do "
                        "not fit")
    moved = np.abs(rotation - matrix).max((-1, -2))
    if np.any(moved > limit):
        raise DataError(f"the pose of row {name_rows(moved > limit)} is up to {moved.max():.3g} away from a rotation; "
                        f"at most {limit:g} is mended")
    return rotation


def name_rows(flag_N: np.ndarray) -> str:
    """The set rows as text, counted from 0: "3, 12-20"."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.ravel(flag_N).astype(np.int8), [0]])))
    return ", ".join(str(a) if a == b - 1 else f"{a}-{b - 1}" for a, b in zip(edges[::2], edges[1::2], strict=True))


def slerp(a_N33: np.ndarray, b_N33: np.ndarray, share_N: np.ndarray) -> np.ndarray:
    """Rotations on the shortest arc from a (share 0) to b (share 1)."""
    step = so3_log(np.swapaxes(a_N33, -1, -2) @ b_N33)
    return a_N33 @ so3_exp(step * np.asarray(share_N, float)[..., None])


def check_times(times_s: np.ndarray, count: int) -> np.ndarray:
    """The times as they are.

    Raises:
        DataError: not one a pose, or the rows where time does not go on.
    """
    times = np.asarray(times_s, float)
    if times.shape != (count,):
        raise DataError(f"{times.size} times for {count} poses; they must agree")
    wrong = np.concatenate([[not np.isfinite(times[0])], ~(np.diff(times) > 0)])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"time does not go on at row {name_rows(wrong)}; first {times[max(row - 1, 0)]:.6f} s, then "
                        f"{times[row]:.6f} s at row {row}; sort the file or mend its clock")
    return times


def interpolate_poses(pose_T44: np.ndarray, times_s: np.ndarray, query_s: np.ndarray) -> np.ndarray:
    """Poses at the queried times: slerp for rotation, straight lines for position.

    Raises:
        DataError: times do not increase, a query lies more than half an interval outside of them, or the queries span
            a hole: an interval above `_HOLE_TIMES` times the usual one.
    """
    times, query = check_times(times_s, len(pose_T44)), np.asarray(query_s, float)
    if len(times) < 2:
        raise DataError(f"{len(times)} pose times; wanted at least 2")
    usual = float(np.median(np.diff(times)))
    if query.min() < times[0] - usual / 2 or query.max() > times[-1] + usual / 2:
        raise DataError(f"poses cover {times[0]:.3f} to {times[-1]:.3f} s; frames {query.min():.3f} to "
                        f"{query.max():.3f} s lie outside; no pose is repeated, cut the clip to the poses")
    slack = 0.01 * usual
    spanned = (times[:-1] < query.max() - slack) & (times[1:] > query.min() + slack)
    hole = spanned & (np.diff(times) > _HOLE_TIMES * usual)
    if hole.any():
        row = int(np.argmax(hole))
        raise DataError(f"no pose between {times[row]:.3f} s (row {row}) and {times[row + 1]:.3f} s; the hole is not "
                        "filled, so frames are wanted from one side of it")
    query = np.clip(query, times[0], times[-1])
    i = np.clip(np.searchsorted(times, query, side="right") - 1, 0, len(times) - 2)
    share = (query - times[i]) / (times[i + 1] - times[i])
    position = pose_T44[i, :3, 3] * (1 - share[:, None]) + pose_T44[i + 1, :3, 3] * share[:, None]
    return compose(slerp(pose_T44[i, :3, :3], pose_T44[i + 1, :3, :3], share), position)
