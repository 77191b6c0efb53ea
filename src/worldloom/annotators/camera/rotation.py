"""Robust rotation-only fits between two views, exact for large turns.

Rays are (N, 3) with z = 1: ((x - cx) / fx, (y - cy) / fy, 1). A fit minimises image-plane distance with weights that
fall with the residual, so the far or dominant part of the scene decides.
"""

from __future__ import annotations

import math

import numpy as np

_FLOOR = 0.15            # pixels: residuals below this are tracking noise


def project(rays_N3: np.ndarray) -> np.ndarray:
    """Image-plane coordinates (N, 2); rays behind the camera are pushed far out."""
    return rays_N3[:, :2] / np.maximum(rays_N3[:, 2:], 1e-6)


def fit_rotation(a_N3: np.ndarray, b_N3: np.ndarray, f_px: float, rounds: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """R (3, 3) with b ~ R a, and each track's residual in pixels."""
    a_unit = a_N3 / np.linalg.norm(a_N3, axis=1, keepdims=True)
    b_unit = b_N3 / np.linalg.norm(b_N3, axis=1, keepdims=True)
    weight, scale, rotation, residual = np.ones(len(a_N3)), None, np.eye(3), np.zeros(len(a_N3))
    for _ in range(rounds):
        u, _, vt = np.linalg.svd((b_unit * weight[:, None]).T @ a_unit)
        rotation = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
        residual = np.linalg.norm(project(a_N3 @ rotation.T) - b_N3[:, :2], axis=1) * f_px
        weight, scale = _reweight(residual, scale)
    return rotation, residual


def fit_yaw_shear(
    a_N3: np.ndarray, b_N3: np.ndarray, f_px: float, rounds: int = 8,
) -> tuple[float, float, np.ndarray]:
    """Yaw in radians (right positive), vertical shift in units of fy (down positive), residuals in pixels.

    For pictures in which pitch only moves the horizon (old raycast engines); b is measured with a's horizon.
    """
    psi, shift, scale, residual = 0.0, float(np.median(b_N3[:, 1] - a_N3[:, 1])), None, np.zeros(len(a_N3))
    weight = np.ones(len(a_N3))
    for _ in range(rounds):
        sin, cos = math.sin(psi), math.cos(psi)
        depth = np.maximum(cos - sin * a_N3[:, 0], 1e-3)            # psi turns the scene, the camera by -psi
        u, v = (cos * a_N3[:, 0] + sin) / depth, a_N3[:, 1] / depth
        du, dv = b_N3[:, 0] - u, b_N3[:, 1] - v - shift
        residual = np.hypot(du, dv) * f_px
        weight, scale = _reweight(residual, scale)
        jac_u, jac_v = 1 + u * u, u * v
        normal = np.array([[weight @ (jac_u**2 + jac_v**2), weight @ jac_v], [weight @ jac_v, weight.sum()]])
        step = np.linalg.solve(normal + 1e-9 * np.eye(2), [weight @ (jac_u * du + jac_v * dv), weight @ dv])
        psi, shift = psi + float(np.clip(step[0], -0.5, 0.5)), shift + float(step[1])
    return -psi, shift, residual


def travel_given_rotation(a_N3: np.ndarray, b_N3: np.ndarray, rotation: np.ndarray, rounds: int = 4) -> np.ndarray:
    """Unit t (3,) with b ~ depth rotation a + t for a known rotation, by robust epipolar least squares."""
    turned = a_N3 @ rotation.T
    turned = turned / turned[:, 2:]
    normal = np.cross(turned, b_N3)
    weight, t = np.ones(len(normal)), np.zeros(3)
    for _ in range(rounds):
        t = np.linalg.eigh((normal * weight[:, None]).T @ normal)[1][:, 0]
        error = np.abs(normal @ t)
        weight = 1 / (1 + (error / max(1.5 * float(np.median(error)), 1e-6)) ** 2) ** 2
    return facing(a_N3, b_N3, rotation, t)


def facing(a_N3: np.ndarray, b_N3: np.ndarray, rotation: np.ndarray, t: np.ndarray) -> np.ndarray:
    """t or -t, whichever puts most of the tracked points in front of the camera."""
    turned = project(a_N3 @ rotation.T)
    # a point moves by t towards t - t_z b, the more the nearer it is; behind the camera it would move against
    along = np.sum((b_N3[:, :2] - turned) * (t[:2] - t[2] * b_N3[:, :2]), axis=1)
    return t if np.sum(np.tanh(along / max(float(np.median(np.abs(along))), 1e-12))) >= 0 else -t


def _reweight(residual_px: np.ndarray, scale_px: float | None) -> tuple[np.ndarray, float]:
    """Weights for the next round and their scale, which shrinks to the noise floor."""
    if scale_px is None:
        scale_px = max(4 * _FLOOR, 1.5 * float(np.median(residual_px)))
    else:
        scale_px = max(_FLOOR, 0.6 * scale_px)
    return 1 / (1 + (residual_px / scale_px) ** 2) ** 2, scale_px
