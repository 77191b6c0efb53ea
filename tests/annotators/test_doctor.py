import dataclasses
import json
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from worldloom.annotators.camera.cli import camera_app, report
from worldloom.annotators.camera.doctor import diagnose, gather, hypotheses, judge
from worldloom.annotators.camera.doctor_files import read_extrinsic, read_frame_times, read_pose_file
from worldloom.annotators.camera.doctor_pairs import read_pictures
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import from_canonical, to_canonical
from worldloom.schemas import DataError

FOCAL, SIZE, COUNT = 200.0, (320, 240), 20
CAMERA = {"model": "pinhole", "fx": FOCAL, "fy": FOCAL, "cx": 159.5, "cy": 119.5, "width": 320, "height": 240}
HALF_ROOM = np.array([4.0, 2.5, 5.0])
MATRIX, QUATERNION = hypotheses(16), hypotheses(7)
EIGHT = [f"{direction}/{axes}" for direction in ("c2w", "w2c") for axes in ("opencv", "opengl", "unity", "rdb")]
POSED = Path(__file__).resolve().parents[2] / "../shared/data/posed"
REALESTATE = sorted(path.stem for path in POSED.glob("re10k/*.txt"))


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


def film(path, poses, bar=None):
    texture = wall()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "10", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for pose in poses:
            gray = draw(texture, pose)
            if bar is not None:
                gray[-len(bar):] = bar
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


@pytest.mark.parametrize(("convention", "camera"), [(name, CAMERA) for name in MATRIX] + [
    (f"{name}/matrix", None) for name in EIGHT])
def test_each_convention_is_named_whatever_the_file_declares(handheld, tmp_path, convention, camera):
    video, poses = handheld
    found = diagnose(video, poses_json(tmp_path, from_canonical(poses, convention), "c2w/opencv/matrix", camera=camera))
    assert (found.verdict, found.candidates) == ("holds", [convention])
    assert found.confidence > 0.8 and found.margin > 2
    assert found.intrinsics.startswith("from the file" if camera else "unknown: hfov 40 to 90")


@pytest.mark.parametrize("convention", QUATERNION[::7])
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
    assert {"c2w/opencv/matrix", "w2c/opengl/matrix", "c2w/unity/matrix", "w2c/rdb/matrix"} < set(same)
    assert all(row.same_motion for row in found.hypotheses[1:] if row.verdict == "tied")


def turns(poses):
    return np.swapaxes(poses[1:, :3, :3], 1, 2) @ poses[:-1, :3, :3]


@pytest.mark.parametrize("pair", [("unreal", "ned"), ("opencv", "unity"), ("opengl", "rdb")])
def test_walking_on_a_floor_leaves_up_and_down_open(tmp_path, pair):
    poses = path_of([0, 1.5, 0], [0.05, 0, 0.06])
    video = film(tmp_path / "walk.mp4", poses)
    found = diagnose(video, poses_json(tmp_path, from_canonical(poses, f"c2w/{pair[0]}/matrix"), None, camera=CAMERA))
    assert found.verdict == "cannot be told apart"
    assert {f"c2w/{axes}/matrix" for axes in pair} <= set(found.candidates)


def test_a_standing_camera_leaves_everything_open_and_still_pictures_contradict_a_turning_one(handheld, tmp_path):
    _, poses = handheld
    still = film(tmp_path / "still.mp4", poses[[0] * COUNT])
    found = diagnose(still, poses_json(tmp_path, poses[[0] * COUNT], None, camera=CAMERA))
    assert found.verdict == "cannot be told apart" and sorted(found.candidates) == sorted(MATRIX)
    assert "the camera hardly moves" in report(found)
    assert diagnose(still, poses_json(tmp_path, poses, None, camera=CAMERA)).verdict == "none holds"


def test_a_status_bar_over_half_the_picture_does_not_hide_the_motion(tmp_path):
    poses = path_of([1.2, 1.5, 0.8], [0.05, -0.03, 0.06])
    bar = np.random.default_rng(1).integers(0, 255, (130, 320), dtype=np.uint8)
    video = film(tmp_path / "hud.mp4", poses, bar=cv2.blur(bar, (3, 3)))
    assert diagnose(video, poses_json(tmp_path, poses, None, camera=CAMERA)).candidates == ["c2w/opencv/matrix"]


def test_a_part_of_the_video_is_looked_at_and_the_rest_is_not(tmp_path):
    still, moving = path_of([0, 0, 0], [0, 0, 0]), path_of([1.2, 1.5, 0.8], [0.05, -0.03, 0.06])
    poses = np.concatenate([np.tile(moving[:1], (len(still), 1, 1)), moving])
    video = film(tmp_path / "v.mp4", poses)
    path = poses_json(tmp_path, poses, None, camera=CAMERA)
    assert diagnose(video, path, seconds=COUNT / 30).verdict == "cannot be told apart"
    assert diagnose(video, path, start_s=COUNT / 30).candidates == ["c2w/opencv/matrix"]


def test_a_folder_of_stills_in_no_order_is_a_video(tmp_path):
    poses = path_of([4, 6, 3], [0.15, -0.1, 0.1])[:8]
    (tmp_path / "stills").mkdir()
    names = [f"{i:02d}" for i in np.random.default_rng(2).permutation(8)]
    for name, pose in zip(names, poses, strict=True):
        cv2.imwrite(str(tmp_path / "stills" / f"{name}.png"), draw(wall(), pose))
    matrices = from_canonical(poses[[*range(8), 0]], "c2w/opengl/matrix").tolist()
    frames = [{"file_path": f"images/{name}.png", "transform_matrix": matrix}
              for name, matrix in zip([*names, "absent"], matrices, strict=True)]
    path = tmp_path / "transforms.json"
    path.write_text(json.dumps({"fl_x": FOCAL, "fl_y": FOCAL, "cx": 160, "cy": 120, "w": 320, "h": 240,
                                "frames": frames}))
    found = diagnose(tmp_path / "stills", path)
    assert (found.verdict, found.candidates) == ("holds", ["c2w/opengl/matrix"])


def test_pictures_named_by_their_time_are_matched_to_poses_by_it(tmp_path):
    poses = path_of([4, 6, 3], [0.15, -0.1, 0.1])[:9]
    stamps = [1403715273262142976 + i * 50_000_000 for i in range(9)]
    for stamp, pose in list(zip(stamps, poses, strict=True))[1:-1]:
        cv2.imwrite(str(tmp_path / f"{stamp}.png"), draw(wall(), pose))
    rows = from_canonical(poses, "c2w/opencv/quat_xyzw")
    (tmp_path / "tum.txt").write_text(
        "\n".join(" ".join(map(repr, (stamp * 1e-9, *row.tolist()))) for stamp, row in zip(stamps, rows, strict=True)))
    np.testing.assert_allclose(read_pictures(tmp_path, 0.0, 30.0).times_s, np.array(stamps[1:-1]) * 1e-9, atol=1e-6)
    found = diagnose(tmp_path, tmp_path / "tum.txt", hfov_deg=77.3)
    assert (found.verdict, found.candidates) == ("holds", ["c2w/opencv/quat_xyzw"])


def test_the_extrinsic_of_a_camera_on_a_body_is_applied_first(handheld, tmp_path):
    video, poses = handheld
    mount = P.compose(P.so3_exp(np.array([[0.9, -0.4, 1.3]])), np.array([[0.1, 0.02, -0.05]]))[0]
    (tmp_path / "sensor.yaml").write_text(
        "%YAML:1.0\nT_BS:\n  cols: 4\n  rows: 4\n  data: " + json.dumps(mount.ravel().tolist()))
    path = poses_json(tmp_path, poses @ P.invert(mount[None]), None, camera=CAMERA)
    assert diagnose(video, path).verdict == "none holds"
    found = diagnose(video, path, body_from_cam_44=read_extrinsic(tmp_path / "sensor.yaml"))
    assert found.candidates == ["c2w/opencv/matrix"]


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


def test_a_note_that_leaves_the_convention_open_is_answered(handheld, tmp_path):
    video, poses = handheld
    np.save(tmp_path / "v.npy", from_canonical(poses, "w2c/opengl/matrix"))
    (tmp_path / "v.json").write_text(json.dumps({"file": "v.npy", "axes": "opengl", "pose": None, "camera": CAMERA}))
    found = diagnose(video, tmp_path / "v.json")
    assert (found.candidates, found.declared) == (["w2c/opengl/matrix"], None)
    (tmp_path / "v.json").write_text(json.dumps({"pose": "c2w", "axes": "opengl", "camera": CAMERA}))
    found = diagnose(video, tmp_path / "v.json")
    assert (found.declared, found.declared_holds) == ("c2w/opengl/matrix", False)


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
        diagnose(video, poses_json(tmp_path, poses, None, camera={**CAMERA, "model": "yshear"}), hfov_deg=90)
    with pytest.raises(DataError, match="0 pictures from 9 s on"):
        diagnose(video, poses_json(tmp_path, poses, None), start_s=9.0)
    with pytest.raises(DataError, match="camera cannot be used"):
        diagnose(video, poses_json(tmp_path, poses, None, camera={"fx": 1.0}))
    with pytest.raises(DataError, match="mirrored"):
        diagnose(video, poses_json(tmp_path, poses @ np.diag([1.0, -1, 1, 1]), None))
    with pytest.raises(DataError, match="shape"):
        diagnose(video, poses_json(tmp_path, poses[:, 0], None))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        read_pose_file(tmp_path / "broken.json")
    dark = film(tmp_path / "dark.mp4", poses, bar=np.zeros((240, 320), np.uint8))
    with pytest.raises(DataError, match="0 pairs of pictures show the same points"):
        diagnose(dark, poses_json(tmp_path, poses, None))


def test_the_command_says_the_verdict_and_exits_by_it(handheld, tmp_path):
    video, poses = handheld
    wrong = poses_json(tmp_path, from_canonical(poses, "w2c/opengl/matrix"), "c2w/opencv/matrix", camera=CAMERA)
    shown = CliRunner().invoke(camera_app, ["doctor", str(video), str(wrong)])
    assert shown.exit_code == 0 and "holds: w2c/opengl/matrix (confidence" in shown.stdout
    assert "declares c2w/opencv/matrix, which does not hold" in shown.stdout
    blender = poses_json(tmp_path, from_canonical(poses, "c2w/blender/matrix"), "c2w/blender/matrix", camera=CAMERA)
    shown = CliRunner().invoke(camera_app, ["doctor", str(video), str(blender)])
    assert "holds: c2w/opengl/matrix" in shown.stdout and "declares" not in shown.stdout       # one camera, other world
    wrong = poses_json(tmp_path, from_canonical(poses, "w2c/opengl/matrix"), "a guess", camera=CAMERA)
    as_json = CliRunner().invoke(camera_app, ["doctor", str(video), str(wrong), "--json", "--hfov", "77.3"])
    facts = json.loads(as_json.stdout)
    assert facts["candidates"] == ["w2c/opengl/matrix"] and facts["declared_holds"] is False
    assert len(facts["hypotheses"]) == len(MATRIX)
    turn = path_of([0, 1.5, 0], [0, 0, 0])
    level = film(tmp_path / "turn.mp4", turn)
    assert CliRunner().invoke(
        camera_app, ["doctor", str(level), str(poses_json(tmp_path, turn, None, camera=CAMERA))]).exit_code == 2


def test_numbers_of_every_text_format_are_read(tmp_path):
    (tmp_path / "tum.txt").write_text(
        "# t x y z qx qy qz qw\n1403715273.5 1 2 3 0 0 0 1\n1403715273.75 1 2 4 0 0 0 1\n")
    found = read_pose_file(tmp_path / "tum.txt")
    assert found.times_s.tolist() == [1403715273.5, 1403715273.75] and found.rows[1].tolist() == [1, 2, 4, 0, 0, 0, 1]
    (tmp_path / "names.txt").write_text("#timestamp,file\n1403715273262142976,a.png\n1403715273312143104.png\n")
    np.testing.assert_allclose(np.diff(read_frame_times(tmp_path / "names.txt")), 0.05, atol=1e-6)
    line = "0.5 0.9 0.5 0.5 0 0 1 0 0 {} 0 1 0 0 0 0 1 0"
    (tmp_path / "re.txt").write_text("https://a.b/c\n" + "\n".join(f"{i} {line.format(i)}" for i in range(3)))
    found = read_pose_file(tmp_path / "re.txt")
    assert found.rows[2].tolist() == [1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert (found.camera["fx"], found.camera["fy"], found.camera["width"]) == (0.5, 0.9, 1.0)


# ---------------------------------------------------------------- real posed data: the file as it is, then rewritten


def real(name):
    """Video, pose file and convention of a posed item."""
    if name in REALESTATE:
        return POSED / f"re10k/{name}.mp4", POSED / f"re10k/{name}.txt", "w2c/opencv/matrix"
    return {
        "fox": (POSED / "fox_nerf/images", POSED / "fox_nerf/transforms.json", "c2w/opengl/matrix"),
        "slambook": (POSED / "slambook_ch5_rgbd/color", POSED / "slambook_ch5_rgbd/pose.txt", "c2w/opencv/quat_xyzw"),
        "sevenscenes": (POSED / "sevenscenes_rgbd/color_000000_000239.mp4", POSED / "sevenscenes_rgbd/pose",
                        "c2w/opencv/matrix"),
        "euroc": (POSED / "euroc_v101_micro/cam0.mp4", POSED / "euroc_v101_micro/V1_01_easy.txt",
                  "c2w/opencv/quat_xyzw")}[name]


def verdicts(name, **how):
    """Convention -> verdict and candidates, for the file as it is and rewritten into the others."""
    video, path, convention = real(name)
    given, body = read_pose_file(path), how.pop("body_from_cam_44", None)
    evidence = gather(given, read_pictures(video, 0.0, 30.0), **how)
    poses, form = to_canonical(given.rows, convention, body_from_cam_44=body), convention.split("/")[2]
    found = {convention: judge(evidence, body_from_cam_44=body)}
    for other in sorted({f"{eight}/{form}" for eight in EIGHT} - {convention}):
        rows = from_canonical(poses, other, body_from_cam_44=body).reshape(len(poses), -1)
        rewritten = dataclasses.replace(evidence, given=dataclasses.replace(given, rows=rows, convention=None))
        found[other] = judge(rewritten, body_from_cam_44=body)
    assert len(found) == 8
    return found


@pytest.mark.skipif(not POSED.exists(), reason="the posed real data is not here")
@pytest.mark.parametrize("name", [*REALESTATE, "fox", "slambook", "sevenscenes"])
def test_real_poses_are_named_as_given_and_in_the_seven_other_conventions(name):
    for convention, found in verdicts(name).items():
        assert (found.verdict, found.candidates) == ("holds", [convention])
        assert found.confidence > 0.75 and found.margin > 2


@pytest.mark.skipif(not POSED.exists(), reason="the posed real data is not here")
def test_a_drone_that_stands_still_names_no_convention():
    folder = POSED / "euroc_v101_micro"
    how = {"hfov_deg": 78.7, "body_from_cam_44": read_extrinsic(folder / "cam0/sensor.yaml"),
           "frame_times_s": read_frame_times(folder / "frame_list.txt")}
    for convention, found in verdicts("euroc", **how).items():
        assert found.verdict == "cannot be told apart" and convention in found.candidates
        assert set(found.candidates) == set(QUATERNION)
