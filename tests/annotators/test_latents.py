import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from worldloom.annotators.actions import grammar, hy_worldplay, latents
from worldloom.annotators.actions.cli import labels_app
from worldloom.annotators.actions.hy_worldplay import ORDERS, Signs
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.store import write_table
from worldloom.schemas import UNCERTAIN, Action, ConfigError, DataError

HY_FILE = Path(__file__).resolve().parents[2] / "../shared/data/traj/hy_worldplay/test_forward_32_latents.json"
alignments = st.sampled_from([*latents.ALIGNMENTS, (5,), (1, 2)])
tri = st.sampled_from([-1, 0, 1])


def action(longitudinal, lateral=None, yaw=0.0, **tracks):
    count = len(longitudinal)
    zeros = np.zeros(count, np.float32)
    whole = np.zeros(count, np.int8)
    row = Action(
        clip_id="c", labeller="test", num_frames=count, yaw_deg=zeros + np.float32(yaw), pitch_deg=zeros,
        yaw_se_deg=zeros, pitch_se_deg=zeros, longitudinal=np.array(longitudinal, np.int8),
        lateral=whole if lateral is None else np.array(lateral, np.int8), longitudinal_confidence=zeros,
        lateral_confidence=zeros, jump=whole, perspective="fps", intent_longitudinal=None, intent_lateral=None,
        blocked=None, residual=None, certain_share=1.0)
    return dataclasses.replace(row, **tracks)


@given(st.integers(1, 200), st.sampled_from([1, 4, 8, 17]), alignments, st.integers(0, 20))
def test_groups_tile_the_window_and_their_map_says_so(num_frames, stride, alignment, start):
    lead = latents.ALIGNMENTS.get(alignment, alignment)
    room = num_frames - start
    if room < 1 or room < (lead[0] if lead else stride):
        with pytest.raises(DataError):
            latents.groups(num_frames, stride, alignment, start=start)
        return
    found = latents.groups(num_frames, stride, alignment, start=start)
    assert found[0][0] == start and all(a[1] == b[0] for a, b in zip(found, found[1:], strict=False))
    assert found[-1][1] - start == latents.frames_of(len(found), stride, alignment)
    held = latents.latent_map(num_frames, stride, alignment, start=start)
    assert held.dtype == np.int32 and [(a, b + 1) for a, b, _ in held.tolist()] == found
    assert (held[:, 2] == held[:, 1]).all()


def test_the_field_s_alignments_have_their_known_anchors():
    assert latents.latent_map(13)[:, 2].tolist() == [0, 4, 8, 12]
    assert latents.latent_map(17, 8)[:, 2].tolist() == [0, 8, 16]
    assert latents.latent_map(10, 4, "first_two")[:, 2].tolist() == [0, 1, 5, 9]
    assert latents.latent_map(39, 17, (5,))[:, :2].tolist() == [[0, 4], [5, 21], [22, 38]]
    assert latents.latent_map(30, 4, start=8)[:, 0].tolist() == [8, 9, 13, 17, 21, 25]
    assert latents.frames_of(21) == 81


def test_there_and_back_inside_a_latent_is_none_where_a_majority_would_say_forward():
    rows, certain = latents.per_latent(action([0, 1, 1, -1, -1, 1, 1, 1, -1]))
    assert rows[:, 2].tolist() == [0, 0, 1] and certain[:, 2].all()


def test_walking_round_a_corner_is_where_it_ends_up_seen_from_where_it_began():
    rows, certain = latents.per_latent(action([0] + [1] * 8, yaw=22.5), 8)      # half a circle in eight steps
    assert rows[1, 2:4].tolist() == [0, 1] and certain[1, 3] and rows[1, 1] == pytest.approx(180)


def test_uncertain_frames_spoil_a_latent_only_where_they_can_change_it():
    unsure = action([0, 1, 1, 1, UNCERTAIN, 1, UNCERTAIN, UNCERTAIN, 0])
    rows, certain = latents.per_latent(unsure)
    assert rows[:, 2].tolist() == [0, 1, 0] and certain[:, 2].tolist() == [True, True, False]
    assert not certain[2, 3] and certain[1, 3]


def test_a_short_move_is_uncertain_and_a_shorter_one_is_none():
    assert not latents.per_latent(action([0, 1, 0, 0, 0]))[1][1, 2]                       # a quarter of the group
    rows, certain = latents.per_latent(action([0, 1] + [0] * 7), 8)
    assert rows[1, 2] == 0 and certain[1, 2]                                              # an eighth


def test_given_poses_decide_a_diagonal_by_their_own_direction():
    angle = np.radians(24.0)                                  # lateral share 0.41: between the cones
    travel = np.tile([np.sin(angle), 0, np.cos(angle)], (5, 1)) * [[0], [1], [1], [1], [1]]
    unsure = action([0, 1, 1, 1, 1], [0, UNCERTAIN, UNCERTAIN, UNCERTAIN, UNCERTAIN])
    assert latents.per_latent(unsure, travel_T3=travel)[1][1].tolist() == [True, True, True, False, True, True]
    straight = np.tile([np.sin(angle / 2), 0, np.cos(angle / 2)], (5, 1))
    rows, certain = latents.per_latent(unsure, travel_T3=straight)
    assert rows[1, 2:4].tolist() == [1, 0] and certain[1, 2:4].all()


def test_the_step_into_a_window_belongs_to_no_latent():
    track = action([0, 1, 1, 1, 1, 1, 1], yaw=2.0, jump=np.array([0, 0, 1, 0, 0, 0, 0], np.int8))
    rows, _ = latents.per_latent(track, start=2)
    assert rows[0].tolist() == [0, 0, 0, 0, 1, 0] and rows[1].tolist() == [0, 8, 1, 0, 1, 0]
    uniform, _ = latents.per_latent(track, 4, "uniform", start=2)
    assert uniform[0].tolist() == [0, 6, 1, 0, 1, 0]


def test_a_lost_turn_makes_turn_and_movement_uncertain():
    lost = action([0, 1, 1, 1, 1], yaw_se_deg=np.array([0, 0, 90, 0, 0], np.float32))
    assert latents.per_latent(lost)[1][1].tolist() == [True, False, False, False, True, True]


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(-20, 20), tri, tri), min_size=1, max_size=20))
def test_a_row_sequence_and_its_inverse_sum_to_zero_and_undo_each_other(steps):
    rows = np.zeros((len(steps) + 1, 6), np.float32)
    rows[1:, :4] = steps
    back = latents.inverse(rows)
    np.testing.assert_allclose(np.concatenate([rows, back]).sum(0), 0, atol=1e-4)
    np.testing.assert_array_equal(latents.inverse(back), rows)


# ---------------------------------------------------------------- the action strings of WorldPlay2


steps = st.builds(grammar.Step, st.integers(1, 30), tri, tri, tri, tri, st.integers(0, 1))


@given(st.lists(steps, min_size=1, max_size=8))
def test_every_step_is_written_and_read_back(found):
    assert grammar.parse(grammar.render(found)) == found


@given(st.lists(steps, min_size=1, max_size=8), st.sampled_from([0, 1]))
def test_rows_of_steps_give_the_same_rows_back(found, perspective):
    rows = grammar.to_rows(found, perspective=perspective, yaw_deg=3.0, pitch_deg=1.0)
    assert rows.dtype == np.float32 and len(rows) == sum(step.latents for step in found)
    again = grammar.to_rows(grammar.from_rows(rows, yaw_deg=3.0, pitch_deg=1.0), perspective=perspective,
                            yaw_deg=3.0, pitch_deg=1.0)
    np.testing.assert_array_equal(again, rows)


@pytest.mark.parametrize("text", ["attack-3", "w+jmp-2,s-4", "w", "w-0", "w--3", "w-1.5", "", "w+s-2", "none+w-2",
                                  "left+right-2", "aw-3", "W-3", "w-٣"])
def test_what_the_grammar_does_not_know_is_refused_before_anything_runs(text):
    with pytest.raises(DataError, match="action string"):
        grammar.parse(text)


def test_all_unknown_names_are_reported_at_once():
    with pytest.raises(DataError, match="'attack'.*'jmp'"):
        grammar.parse("attack-3,w+jmp-2")


@given(st.lists(steps, min_size=1, max_size=8))
def test_the_way_back_is_the_steps_undone_in_reverse(found):
    back = grammar.inverse(found)
    assert [s.latents for s in back] == [s.latents for s in found][::-1]
    total = sum(np.array(grammar.to_rows(part, perspective=0), float)[:, :4].sum(0) for part in (found, back))
    np.testing.assert_allclose(total, 0, atol=1e-9)
    assert grammar.render(grammar.inverse(grammar.parse("w+right-8,s+up-4"))) == "w+down-4,s+left-8"


# ---------------------------------------------------------------- the 81 classes of HY-WorldPlay


@pytest.mark.parametrize("order", list(ORDERS))
def test_every_class_is_decoded_and_encoded_back(order):
    signs = [hy_worldplay.decode(label, order) for label in range(81)]
    assert [hy_worldplay.encode(s, order) for s in signs] == list(range(81)) and len(set(signs)) == 81


@pytest.mark.parametrize(("label", "signs"), [
    (0, Signs(0, 0, 0, 0)), (9, Signs(1, 0, 0, 0)), (18, Signs(-1, 0, 0, 0)), (27, Signs(0, 1, 0, 0)),
    (36, Signs(0, -1, 0, 0)), (45, Signs(1, 1, 0, 0)), (54, Signs(1, -1, 0, 0)), (63, Signs(-1, 1, 0, 0)),
    (72, Signs(-1, -1, 0, 0)), (1, Signs(0, 0, 1, 0)), (2, Signs(0, 0, -1, 0)), (3, Signs(0, 0, 0, 1)),
    (4, Signs(0, 0, 0, -1)), (5, Signs(0, 0, 1, 1)), (8, Signs(0, 0, -1, -1)), (80, Signs(-1, -1, -1, -1))])
def test_classes_mean_what_its_dataset_code_says(label, signs):
    assert hy_worldplay.decode(label) == signs


def test_other_trainers_number_sideways_and_looks_otherwise():
    assert hy_worldplay.encode(Signs(0, -1, 0, 0), "minwm_strings") == 27
    assert hy_worldplay.encode(Signs(0, 0, 0, 1), "biwm") == 1 and hy_worldplay.encode(Signs(0, 0, 1, 0), "biwm") == 3
    with pytest.raises(DataError, match="wanted one of hy_worldplay"):
        hy_worldplay.decode(3, "other")
    with pytest.raises(DataError, match="wanted 0 to 80"):
        hy_worldplay.decode(81)


@given(st.lists(st.integers(0, 80), min_size=1, max_size=12), st.sampled_from(list(ORDERS)))
def test_classes_become_rows_and_poses_and_come_back(labels, order):
    rows = hy_worldplay.to_rows(labels, perspective=1, order=order)
    assert hy_worldplay.from_rows(rows, order).tolist() == labels
    poses = hy_worldplay.to_poses([0, *labels], order=order)
    assert hy_worldplay.from_poses(poses, order=order).tolist() == [0, *labels]


def test_thresholds_are_those_of_training_and_of_inference():
    poses = np.tile(np.eye(4), (3, 1, 1))
    poses[1:, 2, 3] = 0.005
    assert hy_worldplay.from_poses(poses).tolist() == [0, 0, 0]
    assert hy_worldplay.from_poses(poses, least_units=hy_worldplay.INFERENCE_UNITS).tolist() == [0, 9, 0]
    turn = P.compose(P.look([0.0, 0.04, 3.0], [0.0, 0.0, 0.0]), np.array([[0, 0, 0.0], [0, 0, 1], [0, 0, 2]]))
    assert hy_worldplay.from_poses(turn).tolist() == [0, 9, 10]
    assert hy_worldplay.from_poses(turn, is_third_person=True).tolist() == [0, 9, 1]
    wedge = np.tile(np.eye(4), (2, 1, 1))
    for degrees, label in ((29, 9), (31, 45), (59, 45), (61, 27), (90, 27), (121, 63)):
        wedge[1, :3, 3] = [np.sin(np.radians(degrees)), 0, np.cos(np.radians(degrees))]
        assert hy_worldplay.from_poses(wedge)[1] == label


@pytest.mark.skipif(not HY_FILE.exists(), reason="the real trajectory files are not here")
def test_its_own_example_walks_forward():
    rows = json.loads(HY_FILE.read_text())
    poses = np.array([rows[key]["extrinsic"] for key in rows])
    assert hy_worldplay.from_poses(poses).tolist() == [0] + [9] * (len(poses) - 1)


# ---------------------------------------------------------------- the commands


@pytest.fixture
def corpus(tmp_path):
    """A corpus of two labelled clips: one certain, one with an uncertain latent."""
    walk = action([0] + [1] * 8, yaw=np.array([0] + [0.75] * 4 + [0] * 4, np.float32))
    unsure = dataclasses.replace(walk, clip_id="d", longitudinal=np.array([0] + [UNCERTAIN] * 8, np.int8))
    write_table(tmp_path, "action", "k", [walk, unsure], Action)
    return tmp_path


def ran(*arguments, code=0):
    found = CliRunner().invoke(labels_app, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found


def test_latents_are_printed_as_json_lines_and_as_csv_with_null_where_uncertain(corpus):
    rows = [json.loads(line) for line in ran("latents", "--corpus", corpus).stdout.splitlines()]
    assert [(row["clip_id"], row["anchor_frame"]) for row in rows] == [(c, a) for c in "cd" for a in (0, 4, 8)]
    assert rows[1] == {"clip_id": "c", "latent": 1, "first_frame": 1, "last_frame": 4, "anchor_frame": 4,
                       "pitch_deg": 0.0, "yaw_deg": 3.0, "longitudinal": 1, "lateral": 0, "perspective": 1, "jump": 0}
    assert rows[4]["longitudinal"] is None and rows[4]["yaw_deg"] == 3.0
    table = ran("latents", "--corpus", corpus, "--clip", "c", "--stride", 8, "--csv").stdout.splitlines()
    assert table[0].startswith("clip_id,latent,first_frame") and table[2] == "c,1,1,8,8,0.0,3.0,1,0,1,0"


def test_strings_and_classes_are_printed_and_uncertain_latents_refused_or_taken_as_none(corpus):
    assert ran("string", "--corpus", corpus, "--clip", "c").stdout == "w+right-1,w-1\n"
    refused = CliRunner().invoke(labels_app, ["string", "--corpus", str(corpus)])
    assert isinstance(refused.exception, DataError) and "2 of 3 latents are uncertain" in str(refused.exception)
    shown = ran("string", "--corpus", corpus, "--uncertain", "none").stdout
    assert shown == "c\tw+right-1,w-1\nd\tright-1,none-1\n"
    rows = [json.loads(x) for x in ran("hy81", "--corpus", corpus, "--uncertain", "none").stdout.splitlines()]
    assert [row["classes"] for row in rows] == [[0, 10, 9], [0, 1, 0]]
    high = json.loads(ran("hy81", "--corpus", corpus, "--clip", "c", "--least-turn", 4).stdout)
    assert high["classes"] == [0, 9, 9]


def test_a_corpus_without_labels_and_an_unknown_clip_are_said(corpus, tmp_path_factory):
    for arguments in (["--corpus", str(tmp_path_factory.mktemp("empty"))], ["--corpus", str(corpus), "--clip", "zz"]):
        found = CliRunner().invoke(labels_app, ["latents", *arguments])
        assert isinstance(found.exception, ConfigError) and "no action row" in str(found.exception)
