"""Euler angles of game engines and robots, in degrees: which sign, which column.

All of them turn the level camera by yaw about the vertical, then pitch, then roll about the line of sight (in each
one's own moving axes), so they differ in signs and in the order of their columns alone.
"""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.geometry import poses as P

SIGNS = {
    "unreal": {"y": 1, "p": 1, "r": 1},         # yaw right +, pitch up +, roll clockwise +
    "unity": {"y": 1, "p": -1, "r": -1},        # eulerAngles x is pitch, down +; z is roll, anticlockwise +
    "minecraft": {"y": 1, "p": -1, "r": 1},     # yaw clockwise from south, pitch down +; no roll
    "source": {"y": -1, "p": -1, "r": 1},       # QAngle: pitch down +, yaw left +
    "flu": {"y": -1, "p": -1, "r": 1},          # ROS: turns about z up, y left, x forward
    "ned": {"y": 1, "p": 1, "r": 1},            # aircraft: yaw right +, nose up +, right wing down +
}
"""What a positive angle means, against ours: heading right, elevation up, roll clockwise as the camera sees itself."""
ORDER = {"euler_ypr": "ypr", "euler_pyr": "pyr", "euler_rpy": "rpy", "euler_yp": "yp"}
"""Columns of each form: euler_pyr is Unreal's FRotator, Source's QAngle and Unity's x, y, z; euler_yp Minecraft's."""
FORMS = tuple(ORDER)


def to_rotation(angles_TN: np.ndarray, axes: str, form: str) -> np.ndarray:
    """Canonical world-from-camera rotations (T, 3, 3) of angles in degrees, columns as the form says."""
    named = {letter: SIGNS[axes][letter] * angles_TN[:, i] for i, letter in enumerate(ORDER[form])}
    roll = np.radians(named.get("r", np.zeros(len(angles_TN))))
    return P.look(named["y"], named["p"]) @ P.so3_exp(roll[:, None] * np.array([0.0, 0.0, 1.0]))


def from_rotation(rotation_T33: np.ndarray, axes: str, form: str) -> np.ndarray:
    """Angles (T, 3) or (T, 2) in degrees; inverse of `to_rotation` while the view is not straight up or down.

    A form without roll leaves roll out.
    """
    pose_T44 = P.compose(rotation_T33, np.zeros((len(rotation_T33), 3)))
    named = {"y": P.heading_deg(pose_T44), "p": P.elevation_deg(pose_T44), "r": P.roll_deg(pose_T44)}
    return np.stack([SIGNS[axes][letter] * named[letter] for letter in ORDER[form]], 1)
