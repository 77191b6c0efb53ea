"""Directions, poses and boxes of the world: x right, y forward, z up, metres; angles in degrees."""

from __future__ import annotations

import math

import numpy as np

from worldloom.dataengine.record import truth

CANONICAL_FROM_WORLD = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])


def wrap_deg(angle_deg: float) -> float:
    """The same angle in [-180, 180)."""
    return (angle_deg + 180) % 360 - 180


def heading(yaw_deg: float) -> np.ndarray:
    """Level unit vector (2,) of a compass heading: 0 along y, 90 along x."""
    yaw = math.radians(yaw_deg)
    return np.array([math.sin(yaw), math.cos(yaw)])


def direction(yaw_deg: float, pitch_deg: float = 0.0) -> np.ndarray:
    """Unit vector (3,) of a view."""
    x, y = heading(yaw_deg)
    pitch = math.radians(pitch_deg)
    return np.array([x * math.cos(pitch), y * math.cos(pitch), math.sin(pitch)])


def bearing_deg(offset: np.ndarray) -> float:
    """Compass heading of a vector's level part."""
    return math.degrees(math.atan2(offset[0], offset[1]))


def camera_pose(position_3: np.ndarray, yaw_deg: float, pitch_deg: float) -> np.ndarray:
    """Canonical world_from_cam (4, 4) of a camera without roll."""
    x, y, z = (float(value) for value in position_3)
    return truth.world_from_cam(x, y, z, 90.0 - yaw_deg, pitch_deg)


def canonical(position_3: np.ndarray) -> np.ndarray:
    return CANONICAL_FROM_WORLD @ np.asarray(position_3, float)


def ray_length(boxes_N6: np.ndarray, origin_3: np.ndarray, direction_3: np.ndarray, limit_m: float) -> float:
    """Metres along a ray to the first box (low xyz, high xyz) that it enters from outside, at most `limit_m`."""
    if not len(boxes_N6):
        return limit_m
    step = np.where(np.abs(direction_3) < 1e-9, 1e-9, direction_3)
    to_low, to_high = (boxes_N6[:, :3] - origin_3) / step, (boxes_N6[:, 3:] - origin_3) / step
    enter, leave = np.minimum(to_low, to_high).max(axis=1), np.maximum(to_low, to_high).min(axis=1)
    hit = enter[(leave >= enter) & (enter > 0)]
    return min(float(hit.min()), limit_m) if len(hit) else limit_m
