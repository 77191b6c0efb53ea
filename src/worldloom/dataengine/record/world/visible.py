"""Which things are in the picture, with their boxes in pixels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from worldloom.dataengine.record.pinhole import CameraModel
from worldloom.dataengine.record.world.scene import Scene, State
from worldloom.dataengine.record.world.space import CANONICAL_FROM_WORLD

MAX_AWAY_M, MIN_AWAY_M = 25.0, 0.3
CORNERS = np.array(list(itertools.product((0, 1), repeat=3)))
PROBES = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.95], [0.1, 0.1, 0.5], [0.9, 0.9, 0.5]])  # shares of a thing's box
TERRAIN_POINTS = 40


@dataclass(frozen=True, slots=True)
class Seen:
    """A thing in the picture; `prop` is its index, None for a door or a person."""
    kind: str
    prop: int | None
    box: tuple[int, int, int, int]      # x, y, width, height in pixels, clipped to the picture

    @property
    def category(self) -> str:
        return "person" if self.kind == "person" else "door" if self.prop is None else "thing"

    def as_dict(self) -> dict[str, str | int]:
        x, y, w, h = self.box
        return {"name": self.kind, "category": self.category, "x": x, "y": y, "w": w, "h": h}


def things_in_view(scene: Scene, state: State, world_from_cam_44: np.ndarray, eye_3: np.ndarray,
                   camera: CameraModel, people: Sequence[list[float]] = ()) -> list[Seen]:
    """Things within 25 m of which a probe point is in the picture with no wall or hill before it (leaves are air)."""
    named = [*_boxes(scene, state), *(("person", None, box) for box in people)]
    if not named:
        return []
    boxes_N6 = np.array([box for _, _, box in named])
    low, high = boxes_N6[:, None, :3], boxes_N6[:, None, 3:]
    probes_NP3, corners_NC3 = low + PROBES * (high - low), low + CORNERS * (high - low)
    uvz_NP3 = _project(probes_NP3, world_from_cam_44, camera)
    inside = ((uvz_NP3[..., 2] > MIN_AWAY_M) & (uvz_NP3[..., 2] < MAX_AWAY_M)
              & (uvz_NP3[..., :2] >= -0.5).all(-1)
              & (uvz_NP3[..., 0] < camera.width - 0.5) & (uvz_NP3[..., 1] < camera.height - 0.5))
    chosen = np.nonzero(inside.any(axis=1))[0]
    clear = _is_clear(scene, eye_3, probes_NP3[chosen]) & inside[chosen]
    seen = []
    for i in chosen[clear.any(axis=1)].tolist():
        box = _pixel_box(_project(corners_NC3[i], world_from_cam_44, camera), camera)
        if box is not None:
            seen.append(Seen(named[i][0], named[i][1], box))
    return seen


def _boxes(scene: Scene, state: State) -> Iterator[tuple[str, int | None, list[float]]]:
    for i, (prop, there, at) in enumerate(zip(scene.props, state.present, state.positions, strict=False)):
        if there:
            yield prop.kind, i, prop.box(at)
    for door, deg in zip(scene.doors, state.door_deg, strict=True):
        if deg == 0:
            yield "door", None, door.box()


def _project(points: np.ndarray, world_from_cam_44: np.ndarray, camera: CameraModel) -> np.ndarray:
    """Pixel u, v and depth of points (..., 3) of the world; depth is kept away from 0."""
    canonical = points @ CANONICAL_FROM_WORLD.T
    local = (canonical - world_from_cam_44[:3, 3]) @ world_from_cam_44[:3, :3]
    z = local[..., 2]
    ahead = np.where(z < 0.05, 0.05, z)
    return np.stack([camera.fx * local[..., 0] / ahead + camera.cx, camera.fy * local[..., 1] / ahead + camera.cy, z],
                    axis=-1)


def _is_clear(scene: Scene, eye_3: np.ndarray, probes_NP3: np.ndarray) -> np.ndarray:
    """Whether nothing still stands between the eye and each probe (N, P)."""
    way = probes_NP3 - eye_3
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)[..., None, :]
    to_low, to_high = (scene.boxes_N6[:, :3] - eye_3) / way, (scene.boxes_N6[:, 3:] - eye_3) / way
    enter, leave = np.minimum(to_low, to_high).max(-1), np.maximum(to_low, to_high).min(-1)
    clear = ~((leave >= enter) & (enter > 0) & (enter < 0.98)).any(-1)
    if scene.height_HW is not None:
        share = np.linspace(0.05, 0.9, TERRAIN_POINTS)[:, None]
        points = eye_3 + (probes_NP3 - eye_3)[..., None, :] * share
        ground = scene.ground_of(points.reshape(-1, 3)[:, :2]).reshape(points.shape[:-1])
        clear &= (points[..., 2] > ground).all(-1)
    return clear


def _pixel_box(uvz_C3: np.ndarray, camera: CameraModel) -> tuple[int, int, int, int] | None:
    low = np.clip(np.floor(uvz_C3[:, :2].min(0)), 0, [camera.width, camera.height])
    high = np.clip(np.ceil(uvz_C3[:, :2].max(0)) + 1, 0, [camera.width, camera.height])
    width, height = (high - low).astype(int).tolist()
    return (int(low[0]), int(low[1]), width, height) if width > 0 and height > 0 else None
