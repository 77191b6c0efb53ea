import json
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from test_camera import LENS, SHEAR, film, video_row, walls, write_clip, write_truth  # noqa: F401 (walls is a fixture)

from worldloom.annotators.camera import auto
from worldloom.annotators.camera.builtin import Odometry
from worldloom.annotators.camera.estimator import Footage, Track, found_track
from worldloom.annotators.camera.evidence import evidence
from worldloom.annotators.camera.learned import convert
from worldloom.annotators.camera.learned.models import Vggt, fitted, fitted_size
from worldloom.annotators.camera.learned.outputs import (
    DepthAnything3Output,
    MegaSamOutput,
    OutputParams,
    VipeOutput,
    megasam_size,
)
from worldloom.annotators.camera.perspective import seen_perspective
from worldloom.annotators.camera.sfm import Sfm, between, keyframes, rejoined
from worldloom.annotators.camera.sfm_model import SfmParams
from worldloom.annotators.camera.stage import CameraParams, CameraStage, levelled
from worldloom.annotators.camera.stitch import Windows, align
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video.read import read_frames
from worldloom.schemas import Clip, ConfigError, DataError

rng = np.random.default_rng(0)


def clip_of(frames, *, width=320, height=240, scale=1.0, crop=(0.0, 0.0), fps=17.5):
    count = len(frames)
    return Clip(
        clip_id="c0ffee", video_id="v", source_id="s", start_frame=frames[0], stop_frame=frames[-1] + 1,
        start_s=frames[0] / 35, stop_s=(frames[-1] + 1) / 35, num_frames=count, fps=fps, width=width, height=height,
        source_frames=list(frames), frame_times_s=[f / 35 for f in frames], scale_x=scale, scale_y=scale,
        crop_x_px=crop[0], crop_y_px=crop[1], media="clip.mp4", media_bytes=1, media_sha256="0", cut_by="start",
        split="train")


def footage_of(frames, folder=None, *, video_frames=40, sidecar=None, **clip):
    return Footage(clip=clip_of(frames, **clip), video=video_row(video_frames, None), folder=folder, sidecar=sidecar)


def wander(count):
    """A walk that looks about: poses (count, 4, 4) in a world of their own."""
    time = np.arange(count)
    return P.compose(P.look(12 * np.sin(time / 7), 6 * np.cos(time / 5)),
                     np.stack([np.sin(time / 9), 0.2 * np.cos(time / 4), 0.1 * time], 1))


def same_path(found_T44, true_T44, atol):
    """Both start at their own first camera."""
    np.testing.assert_allclose(found_T44, P.invert(true_T44[:1]) @ true_T44, atol=atol)


# ---------------------------------------------------------------- choice


class Reader:
    def __init__(self, holds):
        self.answer = holds

    def holds(self, footage):
        return self.answer


@pytest.mark.parametrize(("mode", "sidecar", "use", "holds", "count", "name", "because"), [
    ("auto", "a.json", True, True, 20, "given", "pose file beside the video"),
    ("auto", "a.json", False, True, 20, "vipe", "output of vipe holds the clip"),
    ("auto", None, True, True, 20, "vipe", "output of vipe holds the clip"),
    ("auto", None, True, False, 20, "odometry", "no pose file, no output of vipe for it"),
    ("auto", None, True, None, 20, "odometry", "no pose file"),
    ("auto", "a.json", False, None, 20, "odometry", "pose files are not used"),
    ("auto", None, True, None, 40, "odometry", "no pose file; 40 frames, so in windows"),
    ("sfm", "a.json", True, True, 20, "sfm", "mode: sfm")])
def test_the_choice_goes_by_what_there_is_and_says_why(tmp_path, mode, sidecar, use, holds, count, name, because):
    footage = footage_of(range(count), sidecar=None if sidecar is None else tmp_path / sidecar)
    readers = {} if holds is None else {"vipe": Reader(holds)}
    choice = auto.choose(mode, footage, readers, use_sidecar=use, long_above=30)
    assert (choice.name, choice.because) == (name, because)


@pytest.mark.parametrize(("text", "name", "because"), [
    ('{"keys": {"longitudinal": [1, 0]}}', "odometry", "recorded keys without poses"),
    ('{"keys": {"longitudinal": [1, 0]}, "poses": []}', "given", "pose file beside the video"),
    ('{"keys": {"longitudinal": [1, 0]}, "pose": "c2w"}', "given", "pose file beside the video"),
    ("{", "given", "pose file beside the video")])
def test_a_file_of_recorded_keys_alone_is_no_pose_file_and_a_broken_one_is_read_to_say_why(
        tmp_path, text, name, because):
    (tmp_path / "a.json").write_text(text)
    footage = footage_of(range(9), sidecar=tmp_path / "a.json")
    choice = auto.choose("auto", footage, {}, use_sidecar=True, long_above=30)
    assert (choice.name, choice.because) == (name, because)


def test_every_built_in_estimator_loads_and_keeps_the_interface():
    for name in auto.BUILT_IN:
        estimator = auto.load_estimator(name, {})
        assert estimator.name == name and estimator.version >= 1 and estimator.pictures in ("none", "gray", "rgb")
        assert isinstance(estimator.needs_lens, bool)


@pytest.mark.parametrize(("name", "options", "words"), [
    ("odometri", {}, "did you mean 'odometry'"), ("sfm", {"mapper": "fast"}, "options.sfm.mapper"),
    ("vipe", {"folder": "../other"}, "leaves the source"), ("odometry", {"window": {}}, "fields: windows")])
def test_a_wrong_name_or_option_is_refused_in_one_line(name, options, words):
    with pytest.raises(ConfigError, match=words) as error:
        auto.load_estimator(name, options)
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match=words):
        CameraParams(mode=name, options={name: options} if options else {})


def test_an_estimator_of_another_package_is_found_by_its_entry_point_and_cannot_replace_a_built_in(monkeypatch):
    points = [EntryPoint("mine", f"{__name__}:Mine", "worldloom.estimators"),
              EntryPoint("sfm", f"{__name__}:Mine", "worldloom.estimators"),
              EntryPoint("gone", "no_such_package:Model", "worldloom.estimators")]
    monkeypatch.setattr(auto, "entry_points", lambda group: points)
    assert type(auto.load_estimator("mine", {})).__name__ == "Mine" and type(auto.load_estimator("sfm", {})) is Sfm
    with pytest.raises(ConfigError, match="no_such_package"):
        auto.load_estimator("gone", {})


class Mine(Odometry):
    name = "mine"


def test_a_track_needs_one_entry_a_frame_in_each_field():
    with pytest.raises(DataError, match="'confidence': 4"):
        found_track("x/1", wander(5), np.ones((5, 4)), 30.0, confidence=np.ones(4))


# ---------------------------------------------------------------- structure from motion


@pytest.fixture(scope="module")
def tour(walls):  # noqa: F811
    """40 pictures of a walk through the textured room and their exact poses."""
    time = np.arange(40)
    heading, elevation = 15 * np.sin(time / 11), 5 * np.sin(time / 9)
    position = np.stack([1.8 * np.sin(time / 14), 0.4 * np.sin(time / 11), -3.0 + 0.08 * time], 1)
    return film(walls, LENS, heading, elevation, position), P.compose(P.look(heading, elevation), position)


def sfm_track(tour, lens, **params):
    footage = Footage(clip=clip_of(range(len(tour[0]))), video=video_row(40, None), gray_THW=tour[0])
    return Sfm(SfmParams(features=500, every_frames=4, **params)).estimate(footage, lens)


def off_deg(found_T44, true_T44):
    """Angle between each found and true camera after putting the worlds onto each other."""
    found = align(true_T44, found_T44).poses(found_T44)
    return np.degrees(np.linalg.norm(P.so3_log(np.swapaxes(found[:, :3, :3], 1, 2) @ true_T44[:, :3, :3]), axis=1))


@pytest.mark.parametrize("mapper", ["incremental", "global"])
def test_sfm_finds_the_cameras_and_the_focal_length_of_a_rendered_walk(tour, mapper):
    """0.3 degrees over a tour of 30, 2 percent of the focal length and of the path: what 500 corners give."""
    track, true = sfm_track(tour, None, mapper=mapper), tour[1]
    assert off_deg(track.world_from_cam_T44, true).max() < 0.3
    found = align(true, track.world_from_cam_T44).poses(track.world_from_cam_T44)
    path = np.linalg.norm(np.diff(true[:, :3, 3], axis=0), axis=1).sum()
    assert np.linalg.norm(found[:, :3, 3] - true[:, :3, 3], axis=1).max() < 0.02 * path
    assert track.focal_source == "found" and track.is_calibrated and 0 < track.focal_spread < 0.05
    assert track.intrinsics_T4[0, 0] == pytest.approx(160, rel=0.02)
    assert (track.confidence[1:] > 0.3).all() and (track.travel_se_deg[1:] < 10).all()


def test_sfm_with_a_known_lens_keeps_it_and_comes_out_the_same_twice(tour):
    first, second = sfm_track(tour, LENS), sfm_track(tour, LENS)
    np.testing.assert_array_equal(first.world_from_cam_T44, second.world_from_cam_T44)
    assert first.intrinsics_T4[7].tolist() == pytest.approx([160, 160, 160, 120]) and first.focal_source == "assumed"
    assert off_deg(first.world_from_cam_T44, tour[1]).max() < 0.3


def test_frames_outside_of_the_model_are_not_trusted(tour):
    pictures = tour[0].copy()
    pictures[24:] = 90                                   # nothing to see from the seventh keyframe on
    track = sfm_track((pictures, None), LENS)
    assert not track.confidence[24:].any() and (track.yaw_se_deg[25:] == 180).all()
    assert (track.confidence[1:18] > 0.3).all() and np.isfinite(track.world_from_cam_T44).all()
    assert off_deg(track.world_from_cam_T44[:20], tour[1][:20]).max() < 0.3


def test_a_clip_that_no_model_places_fails_alone_in_one_line(tour):
    with pytest.raises(DataError, match="places 0 of .* keyframes") as error:
        sfm_track((np.repeat(tour[0][:1], 12, 0), None), LENS)
    assert "\n" not in str(error.value)


def test_a_clip_that_only_turns_is_refused(walls):  # noqa: F811
    """Either nothing is placed, or what is placed does not travel."""
    with pytest.raises(DataError, match="sfm places"):
        sfm_track((film(walls, LENS, 2.0 * np.arange(24)), None), LENS)


def test_keyframes_begin_and_end_with_the_clip():
    assert keyframes(11, 5).tolist() == [0, 5, 10]
    assert keyframes(13, 5).tolist() == [0, 5, 12]       # 10 gives way: it nearly meets the last
    assert keyframes(14, 5).tolist() == [0, 5, 10, 13]
    assert keyframes(3, 5).tolist() == [0, 2]


def test_frames_between_keyframes_turn_as_the_chain_and_end_on_the_keyframes():
    true = wander(31)
    drift = P.so3_exp(np.radians(0.02) * np.arange(31)[:, None] * np.ones(3))
    chain = P.compose(true[:, :3, :3] @ drift, 3 * true[:, :3, 3])      # turns off by 0.02 degrees a step, another unit
    keys = np.array([5, 10, 15, 20])
    found = between(keys, true[keys], chain)
    np.testing.assert_allclose(found[keys], true[keys], atol=1e-12)
    assert off_deg(found[5:21], true[5:21]).max() < 0.01
    assert np.linalg.norm(found[5:21, :3, 3] - true[5:21, :3, 3], axis=1).max() < 0.01
    assert np.linalg.norm(found[:, :3, 3] - true[:, :3, 3], axis=1).max() < 0.2     # the ends go on along the chain


def test_a_join_that_odometry_contradicts_is_made_as_odometry_saw_it():
    true, keys = wander(41), np.arange(0, 41, 5)
    turn = np.eye(4)
    turn[:3, :3] = P.so3_exp(np.array([[0.0, 0.3, 0.1]]))[0]
    model = true[keys].copy()
    model[4:] = true[keys[4]] @ turn @ P.invert(true[keys[4]][None])[0] @ model[4:]
    np.testing.assert_allclose(rejoined(keys, model, true, np.full(8, 1.0)), true[keys], atol=1e-9)
    np.testing.assert_array_equal(rejoined(keys, model, true, np.full(8, 60.0)), model)


# ---------------------------------------------------------------- outputs of learned models


def write_vipe(folder, name, frames, poses, lens=(160.0, 160.0, 160.0, 120.0), kind="PINHOLE"):
    for kept, data in (("pose", poses.astype(np.float32)), ("intrinsics", np.tile(np.float32(lens), (len(frames), 1)))):
        (folder / kept / name).parent.mkdir(parents=True, exist_ok=True)
        np.savez(folder / kept / f"{name}.npz", data=data, inds=np.array(frames))
    (folder / "intrinsics" / f"{name}_camera.txt").write_text("".join(f"{f}: {kind}\n" for f in frames))


def test_vipe_output_is_read_at_the_frames_of_the_clip(tmp_path):
    true = wander(40)
    write_vipe(tmp_path / "vipe", "walk", range(40), true)
    footage = footage_of(range(4, 34, 2), tmp_path, width=160, height=100, scale=0.5, crop=(0.0, 20.0))
    reader = VipeOutput(OutputParams(folder="vipe"))
    assert reader.holds(footage)
    track = reader.estimate(footage, None)
    same_path(track.world_from_cam_T44, true[4:34:2], 1e-5)              # the file is single precision
    assert track.intrinsics_T4[3].tolist() == pytest.approx([80, 80, 80, 50])
    assert (track.focal_source, track.scale_status, track.pose_source) == ("found", "relative", "estimated")


def test_vipe_output_with_a_pose_every_fourth_frame_is_interpolated_and_a_hole_is_refused(tmp_path):
    true = P.compose(P.look(2.0 * np.arange(41), np.zeros(41)), np.arange(41)[:, None] * [0.0, 0, 0.1])
    write_vipe(tmp_path, "walk", range(0, 41, 4), true[::4])
    same_path(VipeOutput().estimate(footage_of(range(3, 30), tmp_path), None).world_from_cam_T44, true[3:30], 1e-5)
    write_vipe(tmp_path, "walk", [0, 4, 8, 32, 36, 40], true[[0, 4, 8, 32, 36, 40]])
    with pytest.raises(DataError, match="no pose between"):
        VipeOutput().estimate(footage_of(range(3, 30), tmp_path), None)


def test_output_that_was_made_from_the_canonical_clip_is_found_by_its_id(tmp_path):
    true = wander(10)
    write_vipe(tmp_path, "c0ffee", range(10), true, lens=(80.0, 80.0, 80.0, 50.0))
    footage = footage_of(range(4, 24, 2), tmp_path, width=160, height=100, scale=0.5, crop=(0.0, 20.0))
    track = VipeOutput(OutputParams(metres_per_unit=2.0)).estimate(footage, None)
    same_path(track.world_from_cam_T44, true, 1e-5)
    assert track.intrinsics_T4[0].tolist() == [80, 80, 80, 50]
    assert (track.scale_status, track.metres_per_unit) == ("metric", 2.0)


def test_a_declared_lens_stands_over_the_models_own(tmp_path):
    write_vipe(tmp_path, "walk", range(40), wander(40))
    track = VipeOutput().estimate(footage_of(range(10), tmp_path), LENS)
    assert track.focal_source == "assumed" and track.intrinsics_T4[0].tolist() == [160, 160, 160, 120]


def test_a_sheared_lens_is_refused_by_what_only_knows_pinholes(tmp_path):
    write_vipe(tmp_path, "walk", range(40), wander(40))
    for estimator in (VipeOutput(), Sfm(), Vggt()):
        with pytest.raises(DataError, match=f"{estimator.name} wants a pinhole camera"):
            estimator.estimate(footage_of(range(10), tmp_path), SHEAR)


@pytest.mark.parametrize(("change", "words"), [
    ({"kind": "PANORAMA"}, "only PINHOLE"), ({"lens": (300.0, 300.0, 640.0, 360.0)}, "saw another size"),
    ({"lens": (0.0, 160.0, 160.0, 120.0)}, "positive focal"), ({"frames": [3, 3, 4]}, "must ascend"),
    ({"poses": np.full((40, 4, 4), np.nan)}, "NaN"), ({"poses": np.zeros((40, 3, 3))}, r"wanted \(N, 3, 4\)")])
def test_vipe_output_that_does_not_fit_is_refused_by_what_is_wrong(tmp_path, change, words):
    frames = change.get("frames", range(40))
    write_vipe(tmp_path, "walk", **{"frames": frames, "poses": wander(len(frames)), **change})
    with pytest.raises(DataError, match=words):
        VipeOutput().estimate(footage_of(range(10), tmp_path), None)


def test_a_broken_or_missing_output_is_refused_with_its_name(tmp_path):
    with pytest.raises(DataError, match="looked for .*pose/walk.npz"):
        VipeOutput().estimate(footage_of(range(10), tmp_path), None)
    assert not VipeOutput().holds(footage_of(range(10), None))
    (tmp_path / "pose").mkdir()
    (tmp_path / "pose" / "walk.npz").write_bytes(b"PK not a zip")
    with pytest.raises(DataError, match="walk.npz is no output of vipe"):
        VipeOutput().estimate(footage_of(range(10), tmp_path), None)


@pytest.mark.parametrize("name", ["walk_droid.npz", "outputs_cvd/walk_sgd_cvd_hr.npz"])
def test_megasam_output_gives_poses_and_the_lens_of_the_uncut_picture(tmp_path, name):
    true, (width, height) = wander(20), megasam_size(320, 240)
    matrix = np.array([[200.0, 0, width / 2], [0, 200.0, height / 2], [0, 0, 1]])
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    np.savez(path, images=np.zeros((20, height - height % 8, width - width % 8, 3), np.uint8), intrinsic=matrix,
             depths=np.ones((20, 2, 2), np.float32), cam_c2w=true.astype(np.float32))
    track = MegaSamOutput(OutputParams(every_frames=2)).estimate(footage_of(range(2, 36), tmp_path), None)
    same_path(track.world_from_cam_T44[::2], true[1:18], 1e-5)
    assert track.intrinsics_T4[0].tolist() == pytest.approx([200 * 320 / width, 200 * 240 / height, 160, 120])
    with pytest.raises(DataError, match="set every_frames"):
        MegaSamOutput().estimate(footage_of(range(2, 36), tmp_path), None)
    with pytest.raises(DataError, match="makes others of"):
        video = video_row(40, None)
        wide = Footage(clip=clip_of(range(10)), video=type(video)(**{**vars_of(video), "width": 640}), folder=tmp_path)
        MegaSamOutput(OutputParams(every_frames=2)).estimate(wide, None)


def vars_of(row):
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@pytest.mark.parametrize("rows", [3, 4])
def test_depth_anything_3_output_is_read_from_its_export(tmp_path, rows):
    true = wander(40)
    path = tmp_path / "walk" / "exports" / "mini_npz" / "results.npz"
    path.parent.mkdir(parents=True)
    matrix = np.array([[252.0, 0, 252], [0, 252.0, 189], [0, 0, 1]])
    np.savez_compressed(path, depth=np.ones((40, 378, 504), np.float32), conf=np.ones((40, 378, 504), np.float32),
                        extrinsics=P.invert(true)[:, :rows].astype(np.float32),
                        intrinsics=np.tile(np.float32(matrix), (40, 1, 1)))
    track = DepthAnything3Output().estimate(footage_of(range(5, 25), tmp_path), None)
    same_path(track.world_from_cam_T44, true[5:25], 1e-5)
    assert track.intrinsics_T4[0].tolist() == pytest.approx([160, 160, 160, 120])


# ---------------------------------------------------------------- what running models give


def test_a_vggt_pose_encoding_becomes_poses_and_intrinsics():
    true = wander(6)
    cam = P.invert(true)
    quat = P.to_quaternion(cam[:, :3, :3], order="xyzw")
    fov = np.tile([2 * np.arctan(392 / 2 / 300), 2 * np.arctan(518 / 2 / 320)], (6, 1))     # vertical, horizontal
    encoded = np.concatenate([cam[:, :3, 3], 1.7 * quat, fov], 1)[None].astype(np.float32)
    found = convert.from_vggt(encoded, (518, 392))
    np.testing.assert_allclose(found.world_from_cam_N44, true, atol=1e-5)
    np.testing.assert_allclose(found.intrinsics_N4, np.tile([320, 300, 259, 196], (6, 1)), rtol=1e-6)
    with pytest.raises(DataError, match="9"):
        convert.from_vggt(encoded[..., :8], (518, 392))
    with pytest.raises(DataError, match="field of view"):
        convert.from_vggt(np.where(np.arange(9) == 8, 0.0, encoded), (518, 392))
    with pytest.raises(DataError, match="zero quaternion"):
        convert.from_vggt(np.zeros((1, 2, 9)), (518, 392))


def test_pi3_points_give_the_focal_length_even_with_a_third_of_them_wrong():
    true, (width, height), fx, fy = wander(3), (70, 56), 61.0, 58.0
    row, column = np.mgrid[0:height, 0:width] + 0.5
    depth = rng.uniform(1, 5, (3, height, width))
    points = np.stack([(column - width / 2) / fx * depth, (row - height / 2) / fy * depth, depth], -1)
    wrong = rng.random(depth.shape) < 0.3
    points[wrong] *= rng.uniform(0.3, 3, (wrong.sum(), 3))
    logits = np.where(wrong, -4.0, 4.0)[..., None]
    found = convert.from_pi3(true[None], points[None], logits[None], 1.0)
    np.testing.assert_allclose(found.intrinsics_N4, np.tile([fx, fy, 35, 28], (3, 1)), rtol=1e-6)
    np.testing.assert_allclose(found.world_from_cam_N44, true, atol=1e-12)
    assert found.metres_per_unit == 1.0
    with pytest.raises(DataError, match="positive focal"):
        convert.from_pi3(true[None], points[None] * [-1.0, 1, 1], logits[None])
    with pytest.raises(DataError, match="no focal length"):
        convert.from_pi3(true[None], np.tile([0.0, 0, 1], (1, 3, 4, 4, 1)), np.zeros((1, 3, 4, 4, 1)))


def test_single_precision_poses_become_exact_rotations_and_others_are_refused():
    true = wander(4)
    found = convert.rigid(true[:, :3].astype(np.float32))
    np.testing.assert_allclose(found[:, :3, :3] @ np.swapaxes(found[:, :3, :3], 1, 2), np.tile(np.eye(3), (4, 1, 1)),
                               atol=1e-14)
    mirrored = true.copy()
    mirrored[2, :3, 0] *= -1
    with pytest.raises(DataError, match="row 2 is mirrored"):
        convert.rigid(mirrored)
    with pytest.raises(DataError, match="wanted"):
        convert.intrinsics_N4(np.ones((2, 3, 3)), 5)


def test_pictures_for_a_model_keep_the_whole_view_and_fit_its_patches():
    assert fitted_size(1280, 720, 518) == (518, 294) and fitted_size(240, 320, 518) == (392, 518)
    assert fitted(np.zeros((2, 72, 128, 3), np.uint8), 112).shape == (2, 56, 112, 3)


@pytest.mark.parametrize("name", ["vggt", "depth_anything_3", "pi3"])
def test_a_model_whose_package_is_absent_stops_the_run_in_one_line(monkeypatch, name):
    import importlib

    def absent(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    estimator = auto.load_estimator(name, {})
    monkeypatch.setattr(importlib, "import_module", absent)
    footage = Footage(clip=clip_of(range(2)), video=video_row(40, None), rgb_THWC=np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(ConfigError, match=f"{name} needs") as error:
        estimator.estimate(footage, None)
    assert "install" in str(error.value) and "\n" not in str(error.value)


def test_weights_that_cannot_be_had_stop_the_run(tmp_path):
    torch = pytest.importorskip("torch")
    estimator = Vggt(Vggt.Params(checkpoint=str(tmp_path / "none.pt"), device="cpu"))
    with pytest.raises(ConfigError, match="none.pt"):
        estimator._weighted(lambda: torch.nn.Linear(2, 2))
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "none.pt")
    assert isinstance(estimator._weighted(lambda: torch.nn.Linear(2, 2)), torch.nn.Linear)


# ---------------------------------------------------------------- evidence and the stage


def test_the_pixels_tell_parallax_and_trust_of_poses_that_have_none(tour):
    pictures, true = tour[0][:14], tour[1][:14]
    lens_T4 = np.tile([160.0, 160, 160, 120], (14, 1))
    everywhere = np.full(pictures.shape[1:], 255, np.uint8)
    parallax, trust = evidence(pictures, true, lens_T4, everywhere)
    assert (trust[1:] > 0.8).all() and 0.3 < np.median(parallax[1:]) < 20 and parallax[0] == 0
    wrong = P.compose(P.look(P.heading_deg(true) + 3.0 * np.arange(14), P.elevation_deg(true)), true[:, :3, 3])
    assert (evidence(pictures, wrong, lens_T4, everywhere)[1][1:] < 0.3).all()
    turning = P.compose(true[:, :3, :3], np.zeros((14, 3)))
    assert np.median(evidence(pictures, turning, lens_T4, everywhere)[1][1:]) < np.median(trust[1:])


def test_long_odometry_in_windows_stays_close_to_odometry_at_once(tour):
    footage = Footage(clip=clip_of(range(40)), video=video_row(40, None), gray_THW=tour[0])
    whole = Odometry().estimate(footage, LENS)
    windows = Odometry(Odometry.Params(windows=Windows(frames=20, overlap=6, above_frames=30))).estimate(footage, LENS)
    assert len(windows) == 40 and windows.scale_status == "relative"
    assert off_deg(whole.world_from_cam_T44, tour[1]).max() < 0.5
    assert off_deg(windows.world_from_cam_T44, tour[1]).max() < 2.0     # a window takes its first frame as level


def run(stage, folder, item):
    stage.setup(Context(folder, {"s": str(folder)}))
    return next(iter(stage.process(item)))


def test_auto_reads_a_models_output_and_measures_the_rest_in_the_pixels(tmp_path, tour):
    write_clip(tmp_path / "clip.mp4", tour[0][:16])
    write_vipe(tmp_path / "vipe", "walk", range(40), tour[1])
    item = {"clip": clip_of(range(16)), "video": video_row(40, None)}
    camera = run(CameraStage(CameraParams(options={"vipe": {"folder": "vipe"}})), tmp_path, item)
    assert (camera.estimator, camera.pose_source) == ("vipe/1", "estimated")
    assert camera.chosen_because == "output of vipe holds the clip" and camera.focal_source == "found"
    assert (camera.confidence[1:] > 0.7).all() and np.median(camera.parallax_px[1:]) > 0.3
    assert camera.perspective_seen == seen_perspective(read_frames(tmp_path / "clip.mp4", gray=True), 17.5)
    missing = run(CameraStage(CameraParams(options={"vipe": {"folder": "elsewhere"}})), tmp_path, item)
    assert missing.estimator.startswith("odometry/") and "no output of vipe" in missing.chosen_because


def test_a_failure_names_the_video_and_its_frames(tmp_path, tour):
    write_clip(tmp_path / "clip.mp4", np.repeat(tour[0][:1], 12, 0))
    item = {"clip": clip_of(range(8, 20)), "video": video_row(40, None)}
    with pytest.raises(DataError, match=r"video walk.mp4 frames \[8, 20\): sfm places 0"):
        run(CameraStage(CameraParams(mode="sfm")), tmp_path, item)


def test_a_lens_that_the_turns_show_is_found_in_the_pixels_of_the_clip(tmp_path, walls):  # noqa: F811
    write_clip(tmp_path / "clip.mp4", film(walls, LENS, 3.0 * np.arange(12)))
    item = {"clip": clip_of(range(12), scale=0.5), "video": video_row(40, None)}
    camera = run(CameraStage(), tmp_path, item)
    assert camera.focal_source == "found" and camera.is_calibrated and 0 < camera.focal_spread < 0.1
    assert camera.intrinsics_T4[0, 0] == pytest.approx(160, rel=0.03) and "focal length" in camera.chosen_because
    guessed = run(CameraStage(CameraParams(find_focal=False)), tmp_path, item)
    assert (guessed.focal_source, guessed.is_calibrated, guessed.focal_spread) == ("assumed", False, None)


def test_a_mode_that_wants_a_pose_file_drops_a_clip_without_one(tmp_path):
    item = {"clip": clip_of(range(8)), "video": video_row(40, None)}
    drop = run(CameraStage(CameraParams(mode="given")), tmp_path, item)
    assert drop.reason == "no_truth"


def test_a_tilted_world_is_put_upright_where_the_cameras_tell_and_engine_truth_is_left_alone(tmp_path):
    level = P.compose(P.look(6.0 * np.arange(40), 10 * np.sin(np.arange(40))), np.arange(40)[:, None] * [0.1, 0, 0.2])
    tilt = P.so3_exp(np.array([[0.3, 0.1, -0.4]]))[0]
    tilted = P.compose(tilt @ level[:, :3, :3], level[:, :3, 3] @ tilt.T)
    facts = {"convention": "c2w/opencv/matrix", "camera": None, "perspective": "fps",
             "poses": tilted.reshape(40, 16).tolist()}
    (tmp_path / "walk.poses.json").write_text(json.dumps(facts))
    item = {"clip": clip_of(range(40)), "video": video_row(40, "walk.poses.json")}
    camera = run(CameraStage(), tmp_path, item)
    found = camera.world_from_cam_T44.reshape(-1, 4, 4)
    assert camera.gravity_source == "estimated" and camera.gravity_confidence > 0.5
    np.testing.assert_allclose(P.elevation_deg(found), 10 * np.sin(np.arange(40)), atol=0.05)
    np.testing.assert_allclose(np.diff(P.heading_deg(found))[:5], 6.0, atol=0.05)
    write_truth(tmp_path / "walk.truth.parquet", tilted)
    camera = run(CameraStage(), tmp_path, {**item, "video": video_row(40, "walk.truth.parquet")})
    np.testing.assert_allclose(camera.world_from_cam_T44.reshape(-1, 4, 4), tilted, atol=1e-12)
    assert camera.gravity_source == "engine"


def test_a_track_whose_roll_was_held_says_nothing_of_the_vertical():
    poses = P.compose(P.look(6.0 * np.arange(40), np.zeros(40)), np.zeros((40, 3)))
    track = found_track("x/1", poses, np.ones((40, 4)), 30.0, has_roll=False)
    assert levelled(track) is track and isinstance(track, Track)
