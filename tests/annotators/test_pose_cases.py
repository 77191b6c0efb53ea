import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from worldloom.annotators.actions import grammar, latents
from worldloom.annotators.actions.stage import ActionTruthStage
from worldloom.annotators.camera.given import poses_of_clip, read_sidecar
from worldloom.annotators.camera.stage import TruthStage
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Context
from worldloom.schemas import UNCERTAIN, Clip, DataError, Video

MAKER = Path(__file__).resolve().parents[2] / "../shared/cases/make_cases.py"
STEPS = slice(1, None)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Folder with the generated groups pose/ and actions/, and the facts of each case."""
    out, facts = tmp_path_factory.mktemp("cases"), {}
    if not MAKER.exists():
        pytest.skip("the maker of the awkward inputs is not here")
    programs = tmp_path_factory.mktemp("bin")
    (programs / "ffmpeg").symlink_to(imageio_ffmpeg.get_ffmpeg_exe())        # the only program these groups need
    for group in ("pose/", "actions/"):
        subprocess.run([sys.executable, str(MAKER), str(out), "--only", group], check=True,
                       env={**os.environ, "PATH": str(programs)})
        facts.update({row["case"]: row["facts"] for row in json.loads((out / "manifest.json").read_text())})
    return out, facts


def clip_of(frames, fps=24.0):
    count = len(frames)
    return Clip(
        clip_id="c", video_id="v", source_id="s", start_frame=frames[0], stop_frame=frames[-1] + 1,
        start_s=frames[0] / fps, stop_s=(frames[-1] + 1) / fps, num_frames=count, fps=fps, width=160, height=96,
        source_frames=list(frames), frame_times_s=[f / fps for f in frames], scale_x=1.0, scale_y=1.0, crop_x_px=0.0,
        crop_y_px=0.0, media="clip.mp4", media_bytes=1, media_sha256="0", cut_by="start", split="train")


def video_of(name, count):
    return Video(
        video_id="v", source_id="s", name="video.mp4", bytes=1, container="mp4", codec="h264", pix_fmt="yuv420p",
        stream_index=0, width=160, height=96, rotation_deg=0, sample_aspect_ratio=1.0, num_frames=count,
        header_frames=count, start_s=0.0, duration_s=count / 24, fps=24.0, is_variable_rate=False, is_interlaced=False,
        backend="pyav", notes=[], sidecar=name)


def run(cases, name, frames=range(48), count=48):
    """Camera and action of a clip of a case, through the stages that a plan runs."""
    folder = cases[0]
    item = {"clip": clip_of(frames), "video": video_of(name, count)}
    stages = TruthStage(), ActionTruthStage()
    for stage in stages:
        stage.setup(Context(folder, {"s": str(folder)}))
    camera = next(iter(stages[0].process(item)))
    return camera, next(iter(stages[1].process({**item, "camera_truth": camera})))


def centres(camera):
    return camera.world_from_cam_T44.reshape(-1, 4, 4)[:, :3, 3]


def same_labels(a, b):
    for track in ("longitudinal", "lateral", "jump"):
        np.testing.assert_array_equal(getattr(a, track), getattr(b, track))
    np.testing.assert_allclose(a.yaw_deg, b.yaw_deg, atol=1e-4)
    np.testing.assert_allclose(a.pitch_deg, b.pitch_deg, atol=1e-4)


def assert_turn(action, yaw=0.0, pitch=0.0, atol=1e-3):
    np.testing.assert_allclose(action.yaw_deg[STEPS], yaw, atol=atol)
    np.testing.assert_allclose(action.pitch_deg[STEPS], pitch, atol=atol)


def assert_moves(action, longitudinal=0, lateral=0):
    assert set(action.longitudinal[STEPS]) == {longitudinal} and set(action.lateral[STEPS]) == {lateral}


def assert_walks_and_turns(camera, action, forward_m, yaw_deg):
    assert_turn(action, yaw=yaw_deg)
    assert_moves(action, longitudinal=1)
    np.testing.assert_allclose(np.linalg.norm(np.diff(centres(camera), axis=0), axis=1), forward_m, atol=1e-4)


def test_both_directions_and_opengl_axes_give_the_same_labels(cases):
    names = "pose/c2w_w2c_pair/c2w", "pose/c2w_w2c_pair/w2c", "pose/opengl_axes"
    found = [run(cases, f"{name}/poses.json") for name in names]
    for camera, action in found:
        assert_walks_and_turns(camera, action, 0.05, 1.0)
        same_labels(action, found[0][1])


def test_both_orders_of_a_quaternion_give_the_same_turns(cases):
    found = [run(cases, f"pose/quat_wxyz/{order}/poses.json")[1] for order in ("xyzw", "wxyz")]
    assert_turn(found[0], yaw=2.0)
    same_labels(*found)


def test_a_note_that_contradicts_the_quaternion_columns_is_refused(cases, tmp_path):
    folder = shutil.copytree(cases[0] / "pose/quat_wxyz/wxyz", tmp_path / "case")
    note = json.loads((folder / "poses.json").read_text())
    (folder / "poses.json").write_text(json.dumps({**note, "quaternion": "xyzw"}))
    with pytest.raises(DataError, match="wxyz and the note says xyzw"):
        read_sidecar(folder / "poses.json")


def test_colmap_images_are_put_in_frame_order_at_their_centres(cases):
    camera, action = run(cases, "pose/colmap_images_txt/images.txt", range(12), 12)
    np.testing.assert_allclose(centres(camera), cases[1]["pose/colmap_images_txt"]["centres"], atol=1e-6)
    assert_moves(action, longitudinal=1)
    assert_turn(action)
    assert camera.intrinsics_T4[0].tolist() == [120, 120, 80, 48] and camera.scale_status == "unknown"


def test_centimetres_are_read_as_metres(cases):
    camera, action = run(cases, "pose/scale_cm/poses.json")
    assert_walks_and_turns(camera, action, 0.05, 0.0)
    assert camera.metres_per_unit == 1.0


def test_an_unknown_unit_is_refused_with_a_question(cases, tmp_path):
    folder = shutil.copytree(cases[0] / "pose/scale_cm", tmp_path / "case")
    note = json.loads((folder / "poses.json").read_text())
    (folder / "poses.json").write_text(json.dumps({**note, "unit": "ells"}))
    with pytest.raises(DataError, match="which length is unit 'ells'"):
        read_sidecar(folder / "poses.json")


def test_a_frame_after_the_last_pose_is_refused_and_the_frames_before_keep_theirs(cases):
    name = "pose/fewer_poses/poses.json"
    with pytest.raises(DataError, match="no pose is repeated"):
        run(cases, name)
    camera, _ = run(cases, name, range(47))
    np.testing.assert_allclose(centres(camera)[:, 2], 0.05 * np.arange(47), atol=1e-5)


def test_poses_at_ten_hertz_are_brought_to_frame_times(cases):
    camera, _ = run(cases, "pose/pose_10hz_video_24/poses.json")
    heading = P.heading_deg(camera.world_from_cam_T44.reshape(-1, 4, 4))
    np.testing.assert_allclose(centres(camera)[:, 2], np.arange(48) / 24, atol=1e-5)
    np.testing.assert_allclose(heading, 30 * np.arange(48) / 24, atol=1e-3)
    assert (centres(camera)[12, 2], heading[12]) == pytest.approx((0.5, 15.0), abs=1e-4)


def test_an_uneven_clock_is_matched_by_time(cases):
    camera, action = run(cases, "pose/jittered_clock/poses.json")
    np.testing.assert_allclose(centres(camera)[:, 2], np.arange(48) / 24, atol=1e-5)
    assert_moves(action, longitudinal=1)


@pytest.mark.parametrize(("name", "rows"), [
    ("non_monotonic", "row 21, 31"), ("nan_rows", "row 10 holds NaN.*row 25 holds a zero quaternion"),
    ("non_orthonormal", "row 40-47 is up to 2"), ("mirrored", "row 12-20 is mirrored")])
def test_bad_rows_are_refused_by_number(cases, name, rows):
    with pytest.raises(DataError, match=rows):
        run(cases, f"pose/{name}/poses.json")


def test_a_little_shear_is_mended_to_the_nearest_rotation(cases, tmp_path):
    folder = shutil.copytree(cases[0] / "pose/non_orthonormal", tmp_path / "case")
    np.save(folder / "poses.npy", np.load(folder / "poses.npy")[:40])
    rotation = read_sidecar(folder / "poses.json").world_from_cam_N44[:, :3, :3]
    np.testing.assert_allclose(rotation @ np.swapaxes(rotation, 1, 2), np.tile(np.eye(3), (40, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(rotation, np.tile(np.eye(3), (40, 1, 1)), atol=0.01)


def test_no_label_is_made_across_a_hole_and_both_sides_of_it_are_usable(cases):
    name = "pose/gap/poses.json"
    for frames in (range(48), range(10, 20), range(18, 30), [17, 30], range(25, 40)):
        with pytest.raises(DataError, match="row 17.*hole is not filled"):
            run(cases, name, frames)
    for frames in (range(18), range(30, 48)):
        camera, action = run(cases, name, frames)
        np.testing.assert_allclose(centres(camera)[:, 2], 0.05 * np.array(frames), atol=1e-5)
        assert_moves(action, longitudinal=1)


def test_yaw_goes_on_across_the_half_turn(cases):
    assert_turn(run(cases, "pose/yaw_wrap/poses.json")[1], yaw=1.0)


def test_looking_up_is_pitch_alone(cases):
    action = run(cases, "pose/pure_rotation/poses.json")[1]
    assert_turn(action, pitch=0.5)
    assert_moves(action)


def test_sliding_to_the_right_is_lateral_alone(cases):
    action = run(cases, "pose/pure_translation/poses.json")[1]
    assert_turn(action)
    assert_moves(action, lateral=1)


def test_measuring_noise_is_still(cases):
    action = run(cases, "pose/static/poses.json")[1]
    assert_turn(action, atol=0.05)
    assert_moves(action)
    assert not action.jump.any()


def test_a_jump_in_the_path_is_neither_movement_nor_turn(cases):
    action = run(cases, "pose/teleport/poses.json")[1]
    after = cases[1]["pose/teleport"]["jump_after_frame"] + 1
    assert action.longitudinal[after] == action.lateral[after] == UNCERTAIN
    assert action.yaw_deg[after] == action.pitch_deg[after] == 0 and action.yaw_se_deg[after] > 100
    assert np.abs(action.yaw_deg).max() < 0.01
    _, certain = latents.per_latent(action)
    assert np.flatnonzero(~certain[:, 1]).tolist() == [after // 4] and not certain[after // 4, 0]


def test_walking_and_turning_in_one_step_are_both_labelled(cases):
    assert_walks_and_turns(*run(cases, "pose/forward_and_turn/poses.json"), 0.06, 1.5)


def test_an_undeclared_direction_is_refused_with_a_question(cases):
    with pytest.raises(DataError, match="camera-to-world or world-to-camera"):
        run(cases, "pose/missing_convention/poses.json")


def test_roll_is_no_label(cases):
    action = run(cases, "pose/roll_only/poses.json")[1]
    assert_turn(action)
    assert_moves(action)


def test_flipped_quaternion_signs_change_nothing_also_half_way(cases):
    assert_turn(run(cases, "pose/quat_sign_flips/poses.json")[1], yaw=1.0)
    given = read_sidecar(cases[0] / "pose/quat_sign_flips/poses.json")
    half = P.interpolate_poses(given.world_from_cam_N44, given.times_s, (np.arange(47) + 0.5) / 24)
    np.testing.assert_allclose(P.heading_deg(half), np.arange(47) + 0.5, atol=1e-3)


def test_a_pose_after_the_last_frame_is_left_out_and_said(cases, caplog):
    with caplog.at_level(logging.WARNING):
        camera, _ = run(cases, "pose/more_poses/poses.json")
    np.testing.assert_allclose(centres(camera)[:, 2], 0.05 * np.arange(48), atol=1e-5)
    assert "row 48 is after the last frame and left out" in caplog.text


def test_an_arc_is_one_jump_and_stairs_are_none(cases, tmp_path):
    jump = run(cases, "pose/jump_arc/poses.json")[1].jump
    inside = np.flatnonzero(jump == 1)
    assert abs(inside[0] - 16) <= 1 and abs(inside[-1] - 31) <= 1 and len(inside) == inside[-1] - inside[0] + 1
    folder = cases[0] / "pose/jump_arc"
    note = {**json.loads((folder / "poses.json").read_text()), "file": "stairs.csv"}
    (folder / "stairs.poses.json").write_text(json.dumps(note))
    assert not run(cases, "pose/jump_arc/stairs.poses.json")[1].jump.any()


def test_latents_take_the_first_row_alone_and_then_four_and_give_them_back(cases):
    rows = np.load(cases[0] / "actions/latent_alignment/actions.npy")
    found = latents.rows_of_latents(rows)
    assert len(found) == 21 and found[0][:, 0].tolist() == [0]
    assert all(found[k][:, 0].tolist() == list(range(4 * k - 3, 4 * k + 1)) for k in range(1, 21))
    np.testing.assert_array_equal(np.concatenate(found), rows)


def test_all_unknown_names_of_a_script_are_reported(cases):
    script = json.loads((cases[0] / "actions/unknown_name/script.json").read_text())
    with pytest.raises(DataError, match="unknown 'attack', 'jmp'"):
        grammar.script_rows(script, 48, perspective=1)


def test_overlap_is_refused_holes_are_none_and_the_excess_is_cut(cases):
    script = json.loads((cases[0] / "actions/overlap_and_holes/script.json").read_text())
    with pytest.raises(DataError, match="segment 2 overlaps segment 1 .* frames 15 to 19"):
        grammar.script_rows(script, 48, perspective=1)
    script[2]["frames"] = [20, 24]
    rows, notes = grammar.script_rows(script, 48, perspective=1)
    assert not rows[25:30, [0, 1, 2, 3, 5]].any() and rows[19, 3] == -1 and rows[20, 3] == 1
    assert rows.shape == (48, 6) and rows[47].tolist() == [0, 3, 1, 0, 1, 0]
    assert notes == ["segment 3: frames 48 to 60 lie past the end and are cut"]


def test_rows_between_frames_lead_into_the_next_one_and_undeclared_are_refused(cases):
    rows = np.load(cases[0] / "actions/one_row_short/actions.npy")
    declared = json.loads((cases[0] / "actions/one_row_short/between.json").read_text())
    assert latents.rows_of_frames(rows, 81, **declared)[:, 0].tolist() == [0, *range(80)]
    with pytest.raises(DataError, match="80 action rows for 81 frames"):
        latents.rows_of_frames(rows, 81)


def test_a_jump_in_one_fast_row_is_kept_once_at_frame_rate(cases):
    lines = (cases[0] / "actions/jump_pulse/actions.jsonl").read_text().splitlines()
    table = [json.loads(line) for line in lines]
    rows = np.array([[0, row["yaw_deg"], "w" in row["keys"], 0, 1, "space" in row["keys"]] for row in table], float)
    found = latents.to_frame_rate([row["t"] for row in table], rows, 20.0, 40)
    assert np.flatnonzero(found[:, 5]).tolist() == [cases[1]["actions/jump_pulse"]["jump_frame"]]
    assert found[:, 2].tolist() == [0] * 4 + [1] * 36
    np.testing.assert_allclose(found[:, 1], 0.3, atol=1e-6)


def test_a_clip_without_times_takes_pose_i_for_frame_i(cases):
    given = read_sidecar(cases[0] / "pose/opengl_axes/poses.json")
    poses = poses_of_clip(given, clip_of(range(5, 20)), 48)
    np.testing.assert_array_equal(poses, given.world_from_cam_N44[5:20])
    with pytest.raises(DataError, match="48 poses for a video of 47 frames"):
        poses_of_clip(given, clip_of(range(5, 20)), 47)
