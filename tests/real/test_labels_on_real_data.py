"""Labels from the pixels of real footage against its true poses, and real key labels against real poses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_corpus import labels, make_corpus

from worldloom.annotators.actions.consistency import consistency
from worldloom.annotators.actions.label import label, travel
from worldloom.annotators.camera.given import Given, read_sidecar
from worldloom.annotators.camera.path import path_camera
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import savitzky_golay
from worldloom.dataengine.sources import SourceParams, open_source
from worldloom.schemas import UNCERTAIN, Action

AXES = {"longitudinal": 2, "lateral": 0}
"""Column of `travel` along each axis."""
WANTED_DEG = 0.15
"""Of the turn about each axis of the camera, frame by frame, against the poses of 7-Scenes as they are: those shake by
0.1 degrees about each axis."""
_TURNED_DEG, _MOVED_SHARE = 2.0, 0.3


@pytest.fixture(scope="module")
def corpus(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(shared_data, tmp_path_factory.mktemp("real"))


def poses_of(data: Path, kind: str, folder: str, corpus: Path) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """(poses, pose file) by name of every recording under a folder."""
    import json

    reader = open_source(SourceParams(name=kind, kind=kind, path=str(data / folder)))
    reader.prepare(corpus)
    found = {}
    for entry in reader.entries():
        assert entry.problem is None and entry.sidecar is not None, entry.problem
        path = reader.root / entry.sidecar
        found[entry.name] = read_sidecar(path).world_from_cam_N44, json.loads(path.read_text())
    return found


def given_action(pose_T44: np.ndarray, fps: float) -> Action:
    """Actions of a path that came with no video and no unit."""
    return label(path_camera(Given(pose_T44, None, None, "file", None, "unknown", None, None), "path"), fps)


def turn_errors_deg(measured: dict[str, Any], true: dict[str, Any]) -> np.ndarray:
    """Rotation vectors (T - 1, 3) from the measured to the true rotation of each step, in the axes of the camera."""
    steps = [np.swapaxes(track["poses"][:-1, :3, :3], 1, 2) @ track["poses"][1:, :3, :3] for track in (measured, true)]
    return np.degrees(P.so3_log(np.swapaxes(steps[0], 1, 2) @ steps[1]))


def rmse(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def sign_agreement(measured: dict[str, Any], true: dict[str, Any], half: int) -> tuple[float, int]:
    """Share of the certain frames that say movement along an axis in which the true path goes that way, and their
    number; the true step is the mean over `half` frames to each side, as the label is a vote over as many."""
    window = np.ones(2 * half + 1) / (2 * half + 1)
    right, said = 0, 0
    for axis, column in AXES.items():
        truth = np.convolve(travel(true["poses"])[1:, column], window, "same")
        value = measured[axis][1:]
        moves = np.isin(value, (-1, 1))
        right += int(np.sum(np.sign(truth[moves]) == value[moves]))
        said += int(moves.sum())
    return right / max(said, 1), said


@pytest.mark.slow
def test_seven_scenes_moves_are_told_apart_by_sign(corpus: Path) -> None:
    agreement, said = sign_agreement(*labels(corpus, "scenes"), half=5)
    assert said > 100 and agreement >= 0.95


@pytest.mark.slow
def test_seven_scenes_turns_follow_the_poses(corpus: Path) -> None:
    """Frame by frame about each axis, roll too, and over 0.3 s, where the shake of the given poses weighs less."""
    measured, true = labels(corpus, "scenes")
    error_T3 = turn_errors_deg(measured, true)
    smooth_T3 = np.stack([savitzky_golay(error_T, fps=30.0) for error_T in error_T3.T], 1)
    for axis, name in enumerate(("pitch", "yaw", "roll")):
        assert rmse(error_T3[:, axis]) <= WANTED_DEG and rmse(smooth_T3[:, axis]) <= 0.1, name
    assert np.sqrt(np.sum(smooth_T3**2, 1).mean()) <= WANTED_DEG
    for track, most in (("yaw_deg", WANTED_DEG), ("pitch_deg", 0.16)):       # each path has its own vertical
        assert rmse(measured[track][1:] - true[track][1:]) <= most, track


@pytest.mark.slow
def test_real_estate_clips_turn_and_move_the_right_way(corpus: Path, shared_data: Path) -> None:
    """Sign of the net turn, of the net travel along each axis on which the clip moves, and of every certain frame."""
    moved, certain = 0, 0
    for path in sorted((shared_data / "posed/re10k").glob("*.txt")):
        measured, true = labels(corpus, path.stem)
        turned = float(true["yaw_deg"].sum())
        if abs(turned) > _TURNED_DEG:
            assert np.sign(measured["yaw_deg"].sum()) == np.sign(turned), path.stem
        steps = {name: travel(track["poses"])[1:] for name, track in (("measured", measured), ("true", true))}
        lengths = {name: np.linalg.norm(step, axis=1).sum() for name, step in steps.items()}
        for axis, column in AXES.items():
            share = float(steps["true"][:, column].sum() / lengths["true"])
            if abs(share) > _MOVED_SHARE:
                moved += 1
                assert np.sign(steps["measured"][:, column].sum()) == np.sign(share), (path.stem, axis)
        agreement, said = sign_agreement(measured, true, half=0)
        certain += said
        assert agreement == 1.0 or said == 0, path.stem
    assert moved >= 6 and certain >= 10


@pytest.mark.slow
def test_a_standing_drone_does_not_move_or_turn(corpus: Path) -> None:
    measured, true = labels(corpus, "euroc")
    for axis in AXES:
        assert set(true[axis].tolist()) == {0} and set(measured[axis].tolist()) <= {0, UNCERTAIN}, axis
        assert np.mean(measured[axis] == 0) >= 0.8, axis
    assert np.abs(measured["yaw_deg"]).max() < 0.1 and abs(measured["yaw_deg"].sum()) < 0.2


def test_street_walks_agree_with_the_words_that_come_with_them(shared_data: Path, tmp_path: Path) -> None:
    """The words are W, A, S, D for any travel along an axis and an arrow for any turn; ours need a cone of 60 degrees
    for an axis, so a label may say less than the words and never the opposite."""
    walks = poses_of(shared_data, "sekai", "traj/sekai_yume", tmp_path)
    assert len(walks) == 16
    for name, (poses, document) in walks.items():
        action = given_action(poses, 30.0)
        words = document["labels"]
        net = travel(poses).sum(0) / np.linalg.norm(travel(poses).sum(0))
        keys = ("W" if net[2] > 0.1 else "S" if net[2] < -0.1 else "") + (
            "D" if net[0] > 0.1 else "A" if net[0] < -0.1 else "")
        yaw = float(action.yaw_deg.sum())
        assert "+".join(keys) == words["keys"], name
        assert ("none" if abs(yaw) < _TURNED_DEG else "right" if yaw > 0 else "left") == words["mouse"], name
        assert -1 not in action.longitudinal and np.mean(action.longitudinal[1:] == 1) > 0.5, name
        assert (1 if "A" in words["keys"] else -1) not in action.lateral, name


def test_keys_that_do_not_belong_to_their_path_are_rejected(shared_data: Path, tmp_path: Path) -> None:
    verdicts = {}
    for name, (poses, document) in poses_of(shared_data, "lingbot", "traj/lingbot_world", tmp_path).items():
        keys = {axis: np.asarray(track) for axis, track in document["keys"].items()}
        verdicts[name.removesuffix(".poses.json")] = consistency(poses, **keys).holds
    assert verdicts == {"00": True, "03": False, "04": True}


def test_named_moves_are_what_their_names_say(shared_data: Path, tmp_path: Path) -> None:
    """MotionCtrl's I goes in, L to the left, U up, SPIN turns about the line of sight, which is no action."""
    paths = poses_of(shared_data, "motionctrl", "traj/motionctrl", tmp_path)
    moves = {"I": (1, 0), "L": (0, -1), "U": (0, 0), "SPIN-CW-60": (0, 0)}
    for name, (ahead, right) in moves.items():
        action = given_action(paths[f"test_camera_{name}.poses.json"][0], 8.0)
        assert set(action.longitudinal[1:]) == {ahead} and set(action.lateral[1:]) == {right}, name
        assert np.abs(action.yaw_deg).max() < 1e-3 and np.abs(action.pitch_deg).max() < 1e-3, name
    rise = travel(paths["test_camera_U.poses.json"][0])[1:, 1]
    assert (rise > 0).all()


def test_a_car_drives_ahead_and_climbs_as_its_satellite_poses_say(shared_data: Path, tmp_path: Path) -> None:
    """comma2k19: the satellite's own velocities give the speed, and a car goes where it looks."""
    ((poses, document),) = poses_of(shared_data, "comma2k19", "traj/comma2k19", tmp_path).values()
    step = travel(poses)[1:] / np.diff(document["times_s"])[:, None]
    velocity = np.load(shared_data / "traj/comma2k19/global_pose__frame_velocities.npy")
    np.testing.assert_allclose(np.linalg.norm(step, axis=1), np.linalg.norm(velocity, axis=1)[1:], rtol=0.05, atol=0.2)
    assert np.median(step[:, 2]) > 10 and np.abs(np.median(step[:, 0])) < 0.5
    action = given_action(poses, 20.0)
    assert set(action.longitudinal[1:]) == {1} and set(action.lateral[1:]) == {0}
    assert UNCERTAIN not in action.longitudinal


@pytest.mark.parametrize(("kind", "folder", "only", "poses", "facts"), [
    ("kitti", "traj/evo", "KITTI_00_gt*.txt", 4541, {"unit_m": 1.0}),
    ("tum", "traj/evo", "fr2_desk_groundtruth.txt", 20956, {"unit_m": 1.0}),
    ("tartanair", "traj/tartanair_eval", "pose_gt.txt", 734, {"pose_source": "engine"}),
    ("colmap", "traj/colmap_text_crane_mast", None, 8, {"read_as": "w2c/opencv/quat_wxyz"}),
    ("aria", "traj/aria", "closed*", 199, {"gravity": {"source": "imu", "confidence": 1.0}}),
    ("uzh-fpv", "traj/uzhfpv", None, 9650, {"frame": "body"}),
    ("hy-worldplay", "traj/hy_worldplay", None, 33, {"fps": 6.0}),
    ("nerf", "posed/fox_nerf", None, 13, {"read_as": "c2w/blender/matrix"}),
    ("slambook", "posed/slambook_ch5_rgbd", None, 5, {"unit_m": 1.0})])
def test_the_real_sample_of_a_format_opens_with_its_convention(
        kind: str, folder: str, only: str | None, poses: int, facts: dict[str, Any], shared_data: Path,
        tmp_path: Path) -> None:
    import json

    reader = open_source(SourceParams(name="s", kind=kind, path=str(shared_data / folder), only=only))
    reader.prepare(tmp_path)
    (entry,) = reader.entries()
    assert entry.problem is None and entry.sidecar is not None
    document = json.loads((reader.root / entry.sidecar).read_text())
    assert len(document["poses"]) == poses and document["read_as"] == reader.source_row().convention
    assert facts.items() <= document.items()
