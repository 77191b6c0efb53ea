"""Stage `trajectory`: camera paths that came without pictures, labelled from their poses as clips are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.annotators.actions.keys import Keys, Recorded, recorded_keys
from worldloom.annotators.actions.label import label
from worldloom.annotators.actions.stage import ActionParams
from worldloom.annotators.camera.given import Given, read_sidecar
from worldloom.annotators.camera.path import path_camera, path_fps
from worldloom.dataengine.stage import Context, Inputs
from worldloom.schemas import Action, DataError, Trajectory

POSE_FILE = ".poses.json"
TURNING_DEG_S, TURNING_ERRORS = 3.0, 3.0
_ACTION_COLUMNS = tuple(name for name in Action.__dataclass_fields__ if name in Trajectory.__dataclass_fields__)


class TrajectoryStage:
    """Labels of each pose file that is listed by itself; `video` leaves those files to this stage."""
    name: ClassVar[str] = "trajectory"
    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("file",)
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Trajectory
    budget_s: ClassVar[float] = 120.0
    Params = ActionParams

    def __init__(self, params: ActionParams | None = None) -> None:
        self.params = params or ActionParams()

    @staticmethod
    def takes(file: Any) -> bool:
        return file.name.endswith(POSE_FILE)

    def setup(self, context: Context) -> None:
        self.context = context

    def process(self, item: Inputs) -> Iterator[Trajectory]:
        """The row of {"file": FileEntry}. Raises DataError where the path cannot be labelled."""
        file = item["file"]
        path = Path(file.path)
        facts = json.loads(path.read_text(encoding="utf-8"))
        if "poses" not in facts:
            raise DataError(f"{file.name}: recorded keys alone; a path or a video is wanted for labels")
        given = read_sidecar(path)
        perspective = self.params.declared.get(file.source_id) or given.perspective or self.params.perspective
        fps, action = path_action(path, given, file.name, facts.get("fps"), perspective, self.params.use_keys)
        yield Trajectory(
            trajectory_id=file.sha256, source_id=file.source_id, name=file.name, fps=fps,
            pose_mode="engine" if given.pose_source == "engine" else "given",
            convention=facts.get("read_as") or facts.get("convention"),
            scale_status=given.scale_status, metres_per_unit=given.metres_per_unit,
            gravity_source=given.gravity_source, gravity_confidence=given.gravity_confidence,
            world_from_cam_T44=given.world_from_cam_N44.reshape(-1, 16), **summary(given, action, fps),
            **{name: getattr(action, name) for name in _ACTION_COLUMNS})


def path_action(path: Path, given: Given, name: str, declared_fps: float | None, perspective: str = "uncertain",
                use_keys: bool = True) -> tuple[float, Action]:
    """(poses a second, actions) of the whole path of a pose file.

    Raises:
        DataError: the path has neither times nor a rate, or its poses or keys are broken.
    """
    fps = path_fps(given, declared_fps)
    recorded = recorded_keys(path) if use_keys else None
    keys = None if recorded is None else _keys_into_poses(recorded, len(given.world_from_cam_N44))
    return fps, label(path_camera(given, name), fps, perspective=perspective, keys=keys)


def summary(given: Given, action: Action, fps: float) -> dict[str, Any]:
    """What a path does on the whole: its length, the range of its headings, and the frames of each movement."""
    step_T3 = np.diff(given.world_from_cam_N44[:, :3, 3], axis=0)
    heading_deg = np.cumsum(action.yaw_deg, dtype=float)
    least_deg = np.maximum(TURNING_DEG_S / fps, TURNING_ERRORS * action.yaw_se_deg)
    counts = {name: int(np.sum(track == value)) for name, track, value in (
        ("forward_frames", action.longitudinal, 1), ("backward_frames", action.longitudinal, -1),
        ("left_frames", action.lateral, -1), ("right_frames", action.lateral, 1))}
    return counts | {"path_length": float(np.linalg.norm(step_T3, axis=1).sum()),
                     "heading_range_deg": float(np.ptp(heading_deg)),
                     "turning_frames": int(np.sum(np.abs(action.yaw_deg) >= least_deg))}


def _keys_into_poses(recorded: Recorded, num_poses: int) -> Keys:
    """Keys of the step into each pose: those held from the pose before on; none at index 0."""
    held = {axis: np.concatenate([[0], np.sign(track[:-1])]).astype(np.int8) for axis, track in recorded.tracks.items()}
    none = np.zeros(num_poses, np.int8)
    ground = recorded.tracks.get("on_ground")
    return Keys(held.get("longitudinal", none), held.get("lateral", none), held.get("jump"),
                None if ground is None else ground > 0)
