"""Labels against pixels: right labels agree, and every common way to be wrong is found."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from test_camera import LENS, SHEAR, clip_row, film, walls  # noqa: F401

from worldloom.annotators.actions.audit import AXES, AuditStage, at_most, audit, judge, measured
from worldloom.annotators.actions.audit_picture import Audited, Shot, draw, frames_to_show
from worldloom.annotators.actions.consistency import consistency
from worldloom.annotators.actions.flow_check import (
    Flow,
    FlowMeter,
    View,
    cone,
    turned,
    unexplained_px,
    without_static,
)
from worldloom.annotators.actions.label import label
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.record.truth import read_truth, sidecar_path
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video.read import read_frames
from worldloom.schemas import Camera, DataError

FPS = 17.5
TRACKS = ("yaw_deg", "pitch_deg", "longitudinal", "lateral", "jump")


def camera_row(poses_T44, lens, metres_per_unit=1.0):
    count = len(poses_T44)
    zeros = np.zeros(count, np.float32)
    return Camera(
        clip_id="c", estimator="given/1", chosen_because="test", pose_source="engine", camera_model=lens.model,
        num_frames=count, world_from_cam_T44=poses_T44.reshape(-1, 16),
        intrinsics_T4=np.tile((lens.fx, lens.fy, lens.cx, lens.cy), (count, 1)), confidence=zeros + 1,
        yaw_se_deg=zeros, pitch_se_deg=zeros, travel_se_deg=zeros, parallax_px=zeros, is_calibrated=True,
        focal_source="file", focal_spread=None, perspective_seen="fps", scale_status="exact",
        metres_per_unit=metres_per_unit, scale_spread=None, gravity_source="engine", gravity_confidence=1.0)


def clip_of(count, fps=FPS):
    return replace(clip_row(range(0, 2 * count, 2)), fps=fps)


def backed(signs):
    return np.where(np.isin(signs, (-1, 1)), -signs, signs).astype(np.int8)


def late(action, frames):
    return replace(action, **{name: np.roll(getattr(action, name), frames) for name in TRACKS})


def scene(walls, lens, seed=0, count=66):  # noqa: F811
    """Frames, camera and exact labels of a walk in a room: turns, looks, and legs forward, back, right and left."""
    rng, time = np.random.default_rng(seed), np.arange(count)
    turn = np.convolve(rng.normal(0, 5, count + 8), np.ones(9) / 9, "valid")
    look = np.convolve(rng.normal(0, 1.5, count + 8), np.ones(9) / 9, "valid") * (lens.model == "pinhole")
    turn, look = turn * (time % 22 < 16), look * (time % 22 < 16)
    heading, elevation = np.cumsum(turn), np.cumsum(look)
    elevation -= elevation.mean()
    legs = np.array([(0, 0.1), (0.09, 0), (0, -0.1), (-0.09, 0), (0, 0)])[time // 6 % 5]
    sin, cos = np.sin(np.radians(heading)), np.cos(np.radians(heading))
    step = np.stack([cos * legs[:, 0] + sin * legs[:, 1], 0 * cos, cos * legs[:, 1] - sin * legs[:, 0]], 1)
    place = np.cumsum(step, 0)
    frames = film(walls, lens, heading, elevation, place - place.mean(0))
    camera = camera_row(P.compose(P.look(heading, elevation), place), lens)
    return frames, camera, label(camera, FPS)


@pytest.fixture(scope="module", params=[LENS, SHEAR], ids=["pinhole", "yshear"])
def walked(request, walls):  # noqa: F811
    return scene(walls, request.param)


def test_exact_labels_agree_on_every_axis(walked):
    frames, camera, action = walked
    found = audit(frames, camera, action, clip_of(len(frames)))
    assert found.verdict == "agrees" and found.lag_frames == 0
    assert found.checked > 60 and found.agreement > 0.95
    assert min(found.yaw_checked, found.longitudinal_checked, found.lateral_checked) > 10
    assert np.nanmedian(np.abs(found.yaw_seen_deg - action.yaw_deg)) < 1.0     # mean flow, so with its parallax


@pytest.mark.parametrize(("axis", "flip"), [
    ("yaw", lambda a: replace(a, yaw_deg=-a.yaw_deg)),
    ("longitudinal", lambda a: replace(a, longitudinal=backed(a.longitudinal))),
    ("lateral", lambda a: replace(a, lateral=backed(a.lateral)))], ids=["yaw", "longitudinal", "lateral"])
def test_a_flipped_sign_is_found_on_its_axis(walked, axis, flip):
    frames, camera, action = walked
    found = audit(frames, camera, flip(action), clip_of(len(frames)))
    assert found.verdict == "disagrees"
    assert getattr(found, f"{axis}_agreement") <= 0.1 and getattr(found, f"{axis}_checked") > 10
    wrong = np.stack([getattr(found, f"{name}_check") == 0 for name in AXES])
    assert len(found.worst_frames) == 8 and wrong[:, found.worst_frames].any(0).all()


def test_labels_five_frames_late_agree_clearly_less(walked):
    frames, camera, action = walked
    steps, clip = measured(frames, FPS), clip_of(len(frames))
    shares = []
    for labels in (action, late(action, 5)):
        checks = np.stack([getattr(judge(steps, frames.shape[1:], camera, labels, clip), f"{a}_check") for a in AXES])
        shares.append((checks == 1).sum() / (checks != 2).sum())
    assert shares[0] >= 0.95 and shares[1] < shares[0] - 0.1


def test_a_flipped_look_is_found(walls):  # noqa: F811
    elevation = 12 * np.sin(np.arange(40) / 5)
    camera = camera_row(P.compose(P.look(np.zeros(40), elevation), np.zeros((40, 3))), LENS)
    frames, action = film(walls, LENS, np.zeros(40), elevation), label(camera, FPS)
    right = audit(frames, camera, action, clip_of(40))
    assert (right.verdict, right.pitch_agreement, right.still_agreement) == ("agrees", 1.0, 1.0)
    assert right.pitch_checked > 20 and right.yaw_checked == right.lateral_checked == 0
    flipped = audit(frames, camera, replace(action, pitch_deg=-action.pitch_deg), clip_of(40))
    assert flipped.verdict == "disagrees" and flipped.pitch_agreement == 0.0


@pytest.mark.parametrize("frames_late", [12, -7])
def test_labels_that_are_shifted_say_by_how_many_frames(walked, frames_late):
    frames, camera, action = walked
    found = audit(frames, camera, late(action, frames_late), clip_of(len(frames)))
    assert found.verdict == "shifted" and abs(found.lag_frames - frames_late) <= 1 and found.lag_gain > 0.1


def test_labels_of_another_clip_disagree(walls, walked):  # noqa: F811
    frames, camera, action = walked
    other = scene(walls, LENS, seed=7)[2]
    foreign = replace(action, **{name: getattr(other, name) for name in TRACKS})
    found = audit(frames, camera, foreign, clip_of(len(frames)))
    assert found.verdict == "disagrees" and found.agreement < 0.6


def test_a_still_camera_agrees_with_no_movement_and_not_with_turns(walls):  # noqa: F811
    noise = np.random.default_rng(0).normal(0, 3, (30, 240, 320))
    frames = np.clip(film(walls, LENS, np.zeros(1))[0] + noise, 0, 255).astype(np.uint8)
    camera = camera_row(P.compose(P.look(np.zeros(30), np.zeros(30)), np.zeros((30, 3))), LENS)
    action = label(camera, FPS)
    found = audit(frames, camera, action, clip_of(30))
    assert (found.verdict, found.agreement, found.still_checked) == ("agrees", 1.0, 29)
    turning = audit(frames, camera, replace(action, yaw_deg=np.full(30, 3, np.float32)), clip_of(30))
    assert turning.verdict == "disagrees" and turning.yaw_agreement == 0.0


def test_movement_where_the_label_says_none_is_found(walls):  # noqa: F811
    place = np.arange(30)[:, None] * np.array([0.0, 0, 0.12]) - [0, 0, 2]
    camera = camera_row(P.compose(P.look(np.zeros(30), np.zeros(30)), place), LENS)
    still = replace(label(camera, FPS), longitudinal=np.zeros(30, np.int8))
    found = audit(film(walls, LENS, np.zeros(30), position=place), camera, still, clip_of(30))
    assert found.verdict == "disagrees" and found.still_agreement < 0.2


def test_nothing_is_said_of_a_black_clip():
    camera = camera_row(P.compose(P.look(np.arange(20) * 2.0, np.zeros(20)), np.zeros((20, 3))), LENS)
    found = audit(np.zeros((20, 240, 320), np.uint8), camera, label(camera, FPS), clip_of(20))
    assert (found.verdict, found.agreement, found.checked, found.worst_frames) == ("cannot be told", None, 0, [])
    assert np.isnan(found.yaw_seen_deg).all()


def test_tracks_that_differ_in_length_are_refused():
    camera = camera_row(P.compose(P.look(np.zeros(20), np.zeros(20)), np.zeros((20, 3))), LENS)
    with pytest.raises(DataError, match="19 frames, 20 poses and 20 labels"):
        audit(np.zeros((19, 24, 32), np.uint8), camera, label(camera, FPS), clip_of(19))


def test_flow_of_a_turn_is_explained_by_that_turn_alone(walls):  # noqa: F811
    a, b = film(walls, LENS, np.array([0.0, 3.0]), np.array([5.0, 7.0]))
    flow = FlowMeter(np.full(a.shape, 255, np.uint8)).between(a, b)
    intrinsics = np.array([LENS.fx, LENS.fy, LENS.cx, LENS.cy])
    before, after = View(intrinsics, "pinhole", 5.0, 0.0), View(intrinsics, "pinhole", 7.0, 0.0)
    nowhere = np.zeros((1, 3))
    assert unexplained_px(flow, turned(flow, before, after, 3.0), after, nowhere) < 0.4
    assert unexplained_px(flow, turned(flow, before, after, 0.0), after, nowhere) > 4
    assert np.abs(turned(flow, before, after, 3.0) - flow.b_N2).mean() < 0.4


def striped(shift_px=0.0, height=240, width=320):
    """Bright level stripes with the noise of a codec that does not move, beside a rough wall that is moved right."""
    rng, (x, y) = np.random.default_rng(3), np.meshgrid(np.arange(width), np.arange(height))
    wall = cv2.resize(rng.integers(40, 200, (60, 80)).astype(np.float32), (width, height))
    wall = cv2.warpAffine(wall, np.float32([[1, 0, shift_px], [0, 1, 0]]), (width, height), borderMode=cv2.BORDER_WRAP)
    stripes = 60 + 120 * (y // 6 % 2) + cv2.GaussianBlur(rng.normal(0, 20, (height, width)), (5, 5), 0)
    return np.where(x < width // 2, wall, stripes).astype(np.uint8)


def test_flow_along_an_edge_is_not_held_against_a_turn():
    a, b = striped(), striped(-6.0)
    flow = FlowMeter(np.full(a.shape, 255, np.uint8)).between(a, b)
    on_stripes, on_wall = flow.a_N2[:, 0] > 176, flow.a_N2[:, 0] < 144
    assert on_stripes.sum() > 30 and np.median(flow.moved_N2[on_stripes, 0]) > -3      # the flow there is wrong
    assert np.mean(np.abs(flow.across_N2[on_stripes, 1]) > 0.99) > 0.9 and flow.across_N2[on_wall].any(1).mean() < 0.3
    turned_N2 = flow.a_N2 + [-6.0, 0.0]
    level = View(np.array([160.0, 160, 159.5, 119.5]), "pinhole", 0.0, 0.0)
    assert unexplained_px(flow, turned_N2, level, np.zeros((1, 3))) < 0.3
    known_everywhere = Flow(flow.a_N2, flow.b_N2, 0 * flow.across_N2)
    assert unexplained_px(known_everywhere, turned_N2, level, np.zeros((1, 3))) > 1


def test_places_that_change_their_brightness_or_do_not_flow_back_are_left_out(walls):  # noqa: F811
    a, b = film(walls, LENS, np.array([0.0, 2.0]))
    meter = FlowMeter(np.full(a.shape, 255, np.uint8))
    before = meter.between(a, b)
    covered = b.copy()
    covered[60:180, 100:220] = np.random.default_rng(0).integers(0, 255, (120, 120))
    after = meter.between(a, covered)
    inside = np.all((after.b_N2 > [104, 64]) & (after.b_N2 < [216, 176]), 1)
    was_inside = np.all((before.b_N2 > [104, 64]) & (before.b_N2 < [216, 176]), 1)
    assert inside.sum() < 0.4 * was_inside.sum() and len(after.a_N2) > 0.7 * (len(before.a_N2) - was_inside.sum())


def test_a_weapon_that_no_mask_has_found_is_left_out_of_every_step():
    rng, place = np.random.default_rng(0), np.stack(np.meshgrid(np.arange(10), np.arange(10)), -1).reshape(-1, 2) * 8.0
    weapon = (place[:, 0] >= 24) & (place[:, 0] < 48) & (place[:, 1] > 48)
    flows = []
    for turn_px in (*rng.uniform(4, 9, 10), 0.0):
        moved = np.where(weapon[:, None], 0.0, [turn_px, 0.0])
        flows.append(Flow(place, place + moved, np.zeros_like(place)))
    found = without_static(flows)
    assert all(len(flow.a_N2) == (~weapon).sum() for flow in found)
    assert [len(flow.a_N2) for flow in without_static(flows[-1:])] == [100]      # nothing moves, nothing is said


def test_a_cone_holds_its_own_directions_and_not_the_opposite_ones():
    ahead = cone((1,), (0,))
    assert (ahead[:, 2] > 0.5).all() and np.allclose(np.linalg.norm(ahead, axis=1), 1)
    assert np.allclose(np.sort(cone((-1,), (0,))[:, 2]), np.sort(-ahead[:, 2]))
    assert (cone((1,), (1,))[:, 0] > 0).all() and len(cone((0,), (0,))) == 0


def test_few_checks_do_not_condemn_a_clip():
    assert at_most(7 / 10, 10) > 0.85 > at_most(70 / 100, 100) and at_most(0.0, 8) < 0.3


# ---------------------------------------------------------------- recorded games


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    """Clips of real gameplay at 17.5 frames a second: (frames, camera, exact labels)."""
    from worldloom.dataengine.record.vizdoom import record_many

    out, clips = tmp_path_factory.mktemp("games"), []
    for more in ({"pinhole": True}, {"hud": True, "weapon": True}):
        for video in record_many(out / str(len(clips)), maps=("map04",), episodes=1, seed=77, tics=200, policy="mixed",
                                 **more):
            truth = read_truth(sidecar_path(video))
            lens = replace(LENS, **{k: truth.meta["camera"][k] for k in ("fx", "fy", "cx", "cy", "model")})
            camera = camera_row(truth.world_from_cam_T44[::2], lens, truth.meta["metres_per_unit"])
            clips.append((read_frames(video, gray=True)[::2], camera, label(camera, FPS)))
    return clips


def pooled(rows):
    """Agreeing and all checks over clips, and those of the yaw."""
    def count(axis):
        return (sum(round((getattr(r, f"{axis}_agreement") or 0) * getattr(r, f"{axis}_checked")) for r in rows),
                sum(getattr(r, f"{axis}_checked") for r in rows))
    every = [count(axis) for axis in AXES]
    return sum(a for a, _ in every) / sum(n for _, n in every), sum(n for _, n in every), count


def test_the_engines_own_labels_agree_in_recorded_gameplay(games):
    rows = [audit(*one, clip_of(len(one[0]))) for one in games]
    share, checks, _ = pooled(rows)
    assert share >= 0.95 and checks > 250
    assert [r.verdict for r in rows] == ["agrees", "agrees"]


@pytest.mark.parametrize(("axis", "flip"), [
    ("yaw", lambda a: replace(a, yaw_deg=-a.yaw_deg)),
    ("longitudinal", lambda a: replace(a, longitudinal=backed(a.longitudinal)))], ids=["yaw", "longitudinal"])
def test_flipped_labels_disagree_in_recorded_gameplay(games, axis, flip):
    rows = [audit(frames, camera, flip(action), clip_of(len(frames))) for frames, camera, action in games]
    right, checked = pooled(rows)[2](axis)
    assert right / checked <= 0.1 and checked > 40
    assert [r.verdict for r in rows] == ["disagrees", "disagrees"]


def test_shifted_and_foreign_labels_are_found_in_recorded_gameplay(games):
    for frames, camera, action in games:
        shifted = audit(frames, camera, late(action, 12), clip_of(len(frames)))
        assert shifted.verdict == "shifted" and abs(shifted.lag_frames - 12) <= 1
        backwards = replace(action, **{name: getattr(action, name)[::-1] for name in TRACKS})
        assert audit(frames, camera, backwards, clip_of(len(frames))).verdict in ("disagrees", "shifted")


# ---------------------------------------------------------------- picture, command, keys


def test_the_picture_draws_text_of_others_as_it_stands(tmp_path, walked):
    frames, camera, action = walked
    found = audit(frames, camera, action, clip_of(len(frames)))
    meter = FlowMeter(np.full(frames.shape[1:], 255, np.uint8))
    shots = tuple(Shot(t, np.repeat(frames[t][..., None], 3, 2), meter.between(frames[t - 1], frames[t]))
                  for t in frames_to_show(found))
    draw([Audited(r"$\frac{$ \x1b[31m 雪.mp4", "a_b^c$", FPS, action, found, shots)], tmp_path / "a.png")
    import matplotlib.image

    picture = matplotlib.image.imread(tmp_path / "a.png")
    assert picture.shape[1] == 1600 and picture[..., :3].std() > 0.1


def test_the_worst_frames_are_shown_first_and_never_too_close(walked):
    frames, camera, action = walked
    found = audit(frames, camera, replace(action, yaw_deg=-action.yaw_deg), clip_of(len(frames)))
    chosen = frames_to_show(found)
    assert len(chosen) == 4 and found.worst_frames[0] in chosen and chosen == sorted(chosen)
    assert np.diff(chosen).min() >= len(frames) // 20


def test_the_stage_reads_the_clip_and_gives_a_row(corpus):
    from worldloom.dataengine.store import read_manifest, read_part
    from worldloom.schemas import Action, Clip

    manifest = read_manifest(corpus)
    rows = [{r.clip_id: r for key in manifest[table] for r in read_part(corpus, table, key, kind)}
            for table, kind in (("clip", Clip), ("camera_truth", Camera), ("action_truth", Action))]
    stage = AuditStage()
    stage.setup(Context(corpus))
    clip_id = sorted(rows[0])[0]
    found = next(stage.process(dict(zip(("clip", "camera", "action"), (r[clip_id] for r in rows), strict=True))))
    assert found.clip_id == clip_id and found.num_frames == rows[0][clip_id].num_frames and found.checked > 0


def run_labels(*options):
    return subprocess.run([sys.executable, "-m", "worldloom.cli", "labels", *map(str, options)], capture_output=True,
                          text=True)


def test_the_command_lists_clips_worst_first_and_writes_the_picture(corpus, tmp_path):
    import json

    done = run_labels("audit", "--corpus", corpus, "--clips", 3, "--truth", "--json", "--out", tmp_path / "a.png")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    shares = [r["agreement"] for r in rows if r["agreement"] is not None]
    assert len(rows) == 3 and shares == sorted(shares) and (tmp_path / "a.png").stat().st_size > 50_000


def test_the_scale_command_prints_the_table_and_writes_the_plot(corpus, tmp_path):
    done = run_labels("scale", "--corpus", corpus, "--out", tmp_path / "s.png")
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout and (tmp_path / "s.png").stat().st_size > 5_000


def test_no_corpus_is_one_line(tmp_path):
    for command in ("audit", "scale"):
        done = run_labels(command, "--corpus", tmp_path)
        assert done.returncode == 1 and done.stderr.count("\n") == 1


def path_of_keys(forward, right, count=60):
    """A path that follows its keys, seen by a camera that turns."""
    heading = np.arange(count) * 2.0
    sin, cos = np.sin(np.radians(heading)), np.cos(np.radians(heading))
    step = np.stack([cos * right + sin * forward, 0 * cos, cos * forward - sin * right], 1)
    return P.compose(P.look(heading, np.full(count, -10.0)), np.cumsum(np.roll(step, 1, 0), 0))


def test_keys_that_move_the_camera_their_way_hold_in_any_world():
    time = np.arange(60)
    forward, right = np.where(time < 30, 1, 0), np.where(time >= 30, -1, 0)
    keys = {"longitudinal": np.roll(forward, 1), "lateral": np.roll(right, 1), "yaw": np.full(60, 1)}
    poses = path_of_keys(forward, right)
    for world in (np.eye(3), P.so3_exp(np.array([1.1, -0.4, 2.0]))):
        moved = P.compose(world @ poses[:, :3, :3], poses[:, :3, 3] @ world.T + 5)
        found = consistency(moved, **keys)
        assert found.holds and found.agreement == 1.0
        assert {h.direction for h in found.held} == {"forward", "left", "turn right"}
    swapped = consistency(poses, longitudinal=-keys["longitudinal"], lateral=keys["lateral"])
    assert swapped.holds is False and "backward" in swapped.reason


def test_blocked_keys_and_short_presses_are_not_judged():
    poses = path_of_keys(np.where(np.arange(60) < 5, 1, 0), np.zeros(60))
    found = consistency(poses, longitudinal=np.ones(60), lateral=np.zeros(60))
    assert found.holds is None and found.held[0].steps == 5
    with pytest.raises(DataError, match="59 longitudinal keys for 60 poses"):
        consistency(poses, longitudinal=np.ones(59), lateral=np.zeros(60))


@pytest.mark.parametrize(("item", "holds"), [("00", True), ("03", False), ("04", True)])
def test_released_keys_and_poses_are_told_apart_by_whether_they_fit(shared_data: Path, item, holds):
    folder = shared_data / "traj" / "lingbot_world" / item
    keys_N4 = np.load(folder / "wasd_action.npy")                     # W A S D of the step that begins at a pose
    keys_N4 = np.concatenate([np.zeros((1, 4)), keys_N4[:-1]])
    found = consistency(np.load(folder / "poses.npy"), longitudinal=keys_N4[:, 0] - keys_N4[:, 2],
                        lateral=keys_N4[:, 3] - keys_N4[:, 1])
    assert found.holds is holds, found.reason
