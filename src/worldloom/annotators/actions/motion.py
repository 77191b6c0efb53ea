"""Continuous steps of a level camera: read from poses, put together again, joined and undone, exactly.

A step row is yaw_deg, pitch_deg, right, up, forward: the turn from the frame before, and the displacement in the level
frame (heading alone) of the frame before, as action labels are. Row 0 is at rest. Roll is no action and is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from worldloom.annotators.actions.label import travel, turns
from worldloom.dataengine.geometry import poses as P

YAW, PITCH, RIGHT, UP, FORWARD = range(5)


def steps_of(pose_T44: np.ndarray) -> np.ndarray:
    """Steps (T, 5) of poses; `integrate` gives the poses back, but for roll, while no view is within 15 degrees of
    straight up or down."""
    yaw, pitch, _ = turns(pose_T44)
    return np.concatenate([np.stack([yaw, pitch], 1), travel(pose_T44)], 1)


def integrate(steps_T5: np.ndarray, start_44: np.ndarray | None = None) -> np.ndarray:
    """Level poses (T, 4, 4) of a first-person camera that makes these steps from `start_44` (the identity) on."""
    start = np.eye(4) if start_44 is None else np.asarray(start_44, float)
    heading = P.heading_deg(start) + np.cumsum(steps_T5[:, YAW])
    elevation = P.elevation_deg(start) + np.cumsum(steps_T5[:, PITCH])
    before = np.concatenate([[P.heading_deg(start)], heading[:-1]])
    return P.compose(P.look(heading, elevation), start[:3, 3] + np.cumsum(_in_world(steps_T5, before), 0))


def _in_world(steps_T5: np.ndarray, heading_T: np.ndarray) -> np.ndarray:
    """Displacements (T, 3) in the canonical world of steps made along headings in degrees."""
    sin, cos = np.sin(np.radians(heading_T)), np.cos(np.radians(heading_T))
    right, up, forward = steps_T5[:, RIGHT], steps_T5[:, UP], steps_T5[:, FORWARD]
    return np.stack([cos * right + sin * forward, -up, -sin * right + cos * forward], 1)


def compose(steps_T5: np.ndarray, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """One step (L, 5) for each span [first, stop) of rows: integrating them gives the poses at the spans' last rows."""
    joined = np.zeros((len(spans), 5))
    for i, (first, stop) in enumerate(spans):
        rows = steps_T5[first:stop]
        turned = np.concatenate([[0.0], np.cumsum(rows[:-1, YAW])])
        x, y, z = _in_world(rows, turned).sum(0)
        joined[i] = rows[:, YAW].sum(), rows[:, PITCH].sum(), x, -y, z
    return joined


def inverse(steps_T5: np.ndarray) -> np.ndarray:
    """The steps (T, 5) that lead back the same way: of the poses in reverse order. Row 0 stays at rest."""
    back = np.zeros_like(steps_T5)
    forward = steps_T5[:0:-1]
    undone = -_in_world(forward, -forward[:, YAW])            # seen from the frame after, where the way back begins
    back[1:, YAW], back[1:, PITCH] = -forward[:, YAW], -forward[:, PITCH]
    back[1:, RIGHT], back[1:, UP], back[1:, FORWARD] = undone[:, 0], -undone[:, 1], undone[:, 2]
    return back


def mirrored(steps_T5: np.ndarray) -> np.ndarray:
    """The steps (T, 5) seen in a mirror: what a flipped picture shows."""
    return steps_T5 * np.array([-1.0, 1.0, -1.0, 1.0, 1.0])
