"""Turn and direction of travel from the tracks between two frames: where a bundle adjustment may start."""

from __future__ import annotations

import cv2
import numpy as np

from worldloom.annotators.camera.rotation import facing, travel_given_rotation
from worldloom.dataengine.geometry import poses as P

_REFINE = {"loss_type": "CAUCHY", "loss_scale": 0.3, "max_iterations": 25}
_SAMPLE = {"max_epipolar_error": 0.6, "max_iterations": 100, "min_iterations": 20, "seed": 0}


def relative_pose(a_N3: np.ndarray, b_N3: np.ndarray, rotation: np.ndarray, f_px: float, size: tuple[int, ...],
                  ) -> tuple[np.ndarray, np.ndarray]:
    """(R, unit t) with b ~ depth R a + t, from rays (N, 3) of two frames and the rotation-only fit.

    Sampling five tracks often trades sideways travel for a turn. So the pose found competes with a refinement that
    starts at the rotation-only fit and, near a wall, with the poses of its plane; the least epipolar error wins.
    """
    import poselib
    height, width = size
    centre = (width / 2, height / 2)
    points = [rays[:, :2] * f_px + centre for rays in (a_N3, b_N3)]
    camera = {"model": "SIMPLE_PINHOLE", "width": width, "height": height, "params": [f_px, *centre]}
    found, _ = poselib.estimate_relative_pose(*points, camera, camera, _SAMPLE, {})
    start = poselib.CameraPose()
    start.q, start.t = P.to_quaternion(rotation, order="wxyz"), travel_given_rotation(a_N3, b_N3, rotation)
    refined, _ = poselib.refine_relative_pose(*points, start, camera, camera, _REFINE)
    options = [(np.asarray(pose.R), np.asarray(pose.t).ravel()) for pose in (found, refined)]
    options += _near_wall(a_N3, b_N3, f_px)
    turn, t = min(options, key=lambda option: _epipolar(a_N3, b_N3, option, f_px))
    t = facing(a_N3, b_N3, turn, t)
    return turn, t / max(float(np.linalg.norm(t)), 1e-9)


def nearness(a_N3: np.ndarray, b_N3: np.ndarray, turn: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Inverse depths (N,) of tracks in units of 1 / |t|, linear and without regard to sign."""
    moves = b_N3[:, :2] * t[2] - t[:2]
    ahead = a_N3 @ turn.T
    seen = ahead[:, :2] - b_N3[:, :2] * ahead[:, 2:]
    return (moves * seen).sum(1) / np.maximum((moves * moves).sum(1), 1e-9)


def _epipolar(a: np.ndarray, b: np.ndarray, pose: tuple[np.ndarray, np.ndarray], f_px: float) -> float:
    """Mean truncated Sampson error in square pixels."""
    x, y, z = pose[1] / max(float(np.linalg.norm(pose[1])), 1e-12)
    essential = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ pose[0]
    line_b, line_a = a @ essential.T, b @ essential
    slope = line_b[:, 0] ** 2 + line_b[:, 1] ** 2 + line_a[:, 0] ** 2 + line_a[:, 1] ** 2
    error = np.sum(b * line_b, axis=1) ** 2 / np.maximum(slope, 1e-12) * f_px**2
    return float(np.minimum(error, 1.0).mean())


def _near_wall(a: np.ndarray, b: np.ndarray, f_px: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Poses of the one plane that explains most tracks, where there is one: there five points do not settle a pose."""
    plane, on_plane = cv2.findHomography(a[:, :2], b[:, :2], cv2.RANSAC, 0.8 / f_px, maxIters=200, confidence=0.99)
    if plane is None or on_plane.mean() < 0.6:
        return []
    rays = a[on_plane.ravel() > 0]
    _, rotations, shifts, normals = cv2.decomposeHomographyMat(plane, np.eye(3))
    return [(r, t.ravel()) for r, t, n in zip(rotations, shifts, normals, strict=True)
            if np.mean(rays @ n.ravel() > 0) > 0.95 and np.linalg.norm(t) > 1e-3]
