import json
import shutil
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from worldloom.annotators.camera.cli import camera_app
from worldloom.annotators.camera.doctor import diagnose, hypotheses, read_pose_file
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import from_canonical, to_canonical
from worldloom.schemas import DataError

FOCAL, SIZE, COUNT = 200.0, (320, 240), 20
CAMERA = {"model": "pinhole", "fx": FOCAL, "fy": FOCAL, "cx": 159.5, "cy": 119.5, "width": 320, "height": 240}
HALF_ROOM = np.array([4.0, 2.5, 5.0])
MATRIX, QUATERNION = hypotheses(16), hypotheses(7)
SEVENSCENES = Path(__file__).resolve().parents[2] / "../shared/data/posed/sevenscenes_rgbd"


def wall():
    rng = np.random.default_rng(5)
    layers = [cv2.resize(rng.normal(0, 40, (n, n)).astype(np.float32), (768, 768), interpolation=cv2.INTER_CUBIC)
              for n in (24, 64, 160)]
    return np.clip(128 + sum(layers), 0, 255).astype(np.uint8)


def draw(texture, pose):
    """Exact picture of a textured box from any camera inside it."""
    y, x = np.mgrid[0:SIZE[1], 0:SIZE[0]].astype(float)
    rays = np.stack([(x - 159.5) / FOCAL, (y - 119.5) / FOCAL, np.ones_like(x)], -1) @ pose[:3, :3].T
    reach = (np.sign(rays) * HALF_ROOM - pose[:3, 3]) / np.where(np.abs(rays) < 1e-9, 1e-9, rays)
    axis = np.argmin(reach, -1)
    place = pose[:3, 3] + rays * np.min(reach, -1)[..., None]
    u = np.where(axis == 0, place[..., 1], place[..., 0])
    v = np.where(axis == 2, place[..., 1], place[..., 2])
    at = [((part / 11 + 0.5) * 767).astype(np.float32) for part in (u, v)]
    return cv2.remap(texture, *at, cv2.INTER_LINEAR)


def film(path, poses):
    texture = wall()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "10", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for pose in poses:
            gray = draw(texture, pose)
            frame = av.VideoFrame.from_ndarray(np.repeat(gray[..., None], 3, 2), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def path_of(turn_deg, step):
    """Poses that turn and move about every axis given, unevenly."""
    time = np.arange(COUNT)[:, None]
    swing = 0.5 * time + 3 * np.sin(time / np.array([2.0, 2.6, 3.3]) + np.array([0.3, 1.1, 2.0]))
    return P.compose(P.so3_exp(np.radians(np.asarray(turn_deg) * swing)), np.asarray(step) * (time - 8.0))


@pytest.fixture(scope="module")
def handheld(tmp_path_factory):
    poses = path_of([1.2, 1.5, 0.8], [0.05, -0.03, 0.06])
    return film(tmp_path_factory.mktemp("doctor") / "handheld.mp4", poses), poses


def poses_json(folder, poses, convention, **facts):
    path = folder / "v.poses.json"
    path.write_text(json.dumps({"poses": poses.reshape(len(poses), -1).tolist(), "convention": convention, **facts}))
    return path


@pytest.mark.parametrize("convention", MATRIX)
@pytest.mark.parametrize("camera", [CAMERA, None], ids=["camera", "no_camera"])
def test_each_of_the_eight_conventions_is_named_whatever_the_file_declares(handheld, tmp_path, convention, camera):
    video, poses = handheld
    found = diagnose(video, poses_json(tmp_path, from_canonical(poses, convention), "c2w/opencv/matrix", camera=camera))
    assert (found.verdict, found.candidates) == ("holds", [convention])
    assert found.confidence > 0.8 and found.margin > 2
    assert found.intrinsics.startswith("from the file" if camera else "unknown: hfov 50 to 90")


@pytest.mark.parametrize("convention", QUATERNION[::3])
def test_the_order_of_a_quaternion_is_named(handheld, tmp_path, convention):
    video, poses = handheld
    found = diagnose(video, poses_json(tmp_path, from_canonical(poses, convention), None, camera=CAMERA))
    assert (found.verdict, found.candidates) == ("holds", [convention])


def test_a_change_of_the_world_axes_is_not_seen(handheld, tmp_path):
    video, poses = handheld
    world = P.compose(P.so3_exp(np.array([[0.4, -1.0, 0.7]])), np.array([[3.0, 1.0, -2.0]]))[0]
    found = diagnose(video, poses_json(tmp_path, world @ poses, None, camera=CAMERA))
    assert found.candidates == ["c2w/opencv/matrix"]


def test_a_level_turn_cannot_tell_pairs_of_conventions_apart(tmp_path):
    poses = path_of([0, 1.5, 0], [0, 0, 0])
    video = film(tmp_path / "turn.mp4", poses)
    found = diagnose(video, poses_json(tmp_path, poses, "c2w/opencv/matrix", camera=CAMERA))
    same = [name for name in MATRIX if np.allclose(turns(to_canonical(poses, name)), turns(poses), atol=1e-6)]
    assert found.verdict == "cannot be told apart" and set(found.candidates) == set(same)
    assert same == ["c2w/opencv/matrix", "w2c/opengl/matrix"]
    assert all(row.same_motion for row in found.hypotheses[1:] if row.verdict == "tied")


def turns(poses):
    return np.swapaxes(poses[1:, :3, :3], 1, 2) @ poses[:-1, :3, :3]


def test_walking_on_a_floor_leaves_the_handedness_of_unreal_and_ned_open(tmp_path):
    poses = path_of([0, 1.5, 0], [0.05, 0, 0.06])
    video = film(tmp_path / "walk.mp4", poses)
    found = diagnose(video, poses_json(tmp_path, from_canonical(poses, "c2w/unreal/matrix"), None, camera=CAMERA))
    assert found.verdict == "cannot be told apart"
    assert set(found.candidates) == {"c2w/unreal/matrix", "c2w/ned/matrix"}


def test_poses_of_other_frames_do_not_hold(handheld, tmp_path):
    video, poses = handheld
    other = poses[np.random.default_rng(3).permutation(COUNT)]
    found = diagnose(video, poses_json(tmp_path, other, "c2w/opencv/matrix", camera=CAMERA))
    assert (found.verdict, found.candidates) == ("none holds", [])


def test_every_kind_of_pose_file_gives_the_same_rows(tmp_path):
    poses = path_of([1, 1, 1], [0.1, 0.1, 0.1])
    np.save(tmp_path / "a.npy", poses)
    np.savetxt(tmp_path / "b.txt", poses[:, :3].reshape(COUNT, 12))
    (tmp_path / "c").mkdir()
    for i, pose in enumerate(poses):
        np.savetxt(tmp_path / "c" / f"pose-{i}.txt", pose)
    files = [tmp_path / "a.npy", tmp_path / "b.txt", tmp_path / "c", poses_json(tmp_path, poses, None)]
    for path in files:
        assert np.allclose(read_pose_file(path).rows, poses.reshape(COUNT, 16))


def test_times_pair_poses_with_frames(handheld, tmp_path):
    video, poses = handheld
    times = (np.arange(COUNT) / 30).tolist()
    path = poses_json(tmp_path, poses[2:], None, camera=CAMERA, times_s=times[2:])
    assert diagnose(video, path).candidates == ["c2w/opencv/matrix"]


def test_what_cannot_be_judged_is_refused(handheld, tmp_path):
    video, poses = handheld
    with pytest.raises(DataError, match="5 poses for a video of 20 frames"):
        diagnose(video, poses_json(tmp_path, poses[:5], None))
    with pytest.raises(DataError, match="yshear"):
        diagnose(video, poses_json(tmp_path, poses, None, camera={**CAMERA, "model": "yshear"}))
    with pytest.raises(DataError, match="camera cannot be used"):
        diagnose(video, poses_json(tmp_path, poses, None, camera={"fx": 1.0}))
    with pytest.raises(DataError, match="mirrored"):
        diagnose(video, poses_json(tmp_path, poses @ np.diag([1.0, -1, 1, 1]), None))
    with pytest.raises(DataError, match="shape"):
        diagnose(video, poses_json(tmp_path, poses[:, 0], None))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        read_pose_file(tmp_path / "broken.json")
    still = film(tmp_path / "still.mp4", poses[[0] * COUNT])
    with pytest.raises(DataError, match="0 pairs of frames show motion"):
        diagnose(still, poses_json(tmp_path, poses, None))


def test_the_command_says_the_verdict_and_exits_by_it(handheld, tmp_path):
    video, poses = handheld
    wrong = poses_json(tmp_path, from_canonical(poses, "w2c/opengl/matrix"), "c2w/opencv/matrix", camera=CAMERA)
    shown = CliRunner().invoke(camera_app, ["doctor", str(video), str(wrong)])
    assert shown.exit_code == 0 and "holds: w2c/opengl/matrix (confidence" in shown.stdout
    assert "declares c2w/opencv/matrix, which does not hold" in shown.stdout
    as_json = CliRunner().invoke(camera_app, ["doctor", str(video), str(wrong), "--json", "--hfov", "77.3"])
    facts = json.loads(as_json.stdout)
    assert facts["candidates"] == ["w2c/opengl/matrix"] and len(facts["hypotheses"]) == 8
    turn = path_of([0, 1.5, 0], [0, 0, 0])
    level = film(tmp_path / "turn.mp4", turn)
    assert CliRunner().invoke(
        camera_app, ["doctor", str(level), str(poses_json(tmp_path, turn, None, camera=CAMERA))]).exit_code == 2


@pytest.mark.skipif(not SEVENSCENES.exists(), reason="the shared real data is not here")
@pytest.mark.parametrize("convention", MATRIX)
def test_real_handheld_poses_are_named_in_every_convention(tmp_path, convention):
    video = next(SEVENSCENES.glob("*.mp4"))
    given = read_pose_file(SEVENSCENES / "pose").rows
    poses = to_canonical(given, "c2w/opencv/matrix")
    np.save(tmp_path / "poses.npy", from_canonical(poses, convention))
    shutil.copy(video, tmp_path / "v.mp4")
    found = diagnose(tmp_path / "v.mp4", tmp_path / "poses.npy")
    assert (found.verdict, found.candidates) == ("holds", [convention])
    assert found.confidence > 0.9
