import pytest

from worldloom.dataengine.policy import (
    SCORE_NAMES,
    Rule,
    SelectionParams,
    SelectionStage,
    parse_rule,
    selection_report,
)
from worldloom.dataengine.stage import Context
from worldloom.schemas import Clip, ConfigError, Score, from_table, to_table

GOOD = {"blur": 900.0, "luma_mean": 90.0, "clipped_share": 0.01, "static_share": 0.0, "duplicate_share": 0.0,
        "cut_score": 0.05, "flow_px": 2.0, "black_share": 0.0, "saturation_mean": 0.3, "colour_entropy": 2.5,
        "letterbox_share": 0.0}
CLIP = Clip(
    clip_id="c", video_id="v", source_id="s", start_frame=0, stop_frame=32, start_s=0.0, stop_s=2.0, num_frames=32,
    fps=16.0, width=320, height=240, source_frames=list(range(32)), frame_times_s=[i / 16 for i in range(32)],
    scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0, media="c.mp4", media_bytes=1, media_sha256="",
    cut_by="start", split="train")


class Labels:
    certain_share = 0.8


def select(rules=None, scores=GOOD, action=Labels, **params):
    if rules is not None:
        params["rules"] = tuple(Rule(reason=f"r{i}", drop_when=text) for i, text in enumerate(rules))
    stage = SelectionStage(SelectionParams(**params))
    stage.setup(Context("unused"))
    rows = [Score(clip_id="c", name=k, value=v, unit="", frames=[]) for k, v in scores.items()]
    item = {"clip": CLIP, "score": rows} | ({"action": action} if action else {})
    (row,) = stage.process(item)
    return row


def reasons(row):
    return [reason["reason"] for reason in row.reasons]


def test_a_good_clip_is_kept_by_the_default_policy():
    row = select()
    assert row.kept and row.reasons == []


def test_every_failed_rule_is_a_reason_in_order_with_the_value_found():
    row = select(scores=GOOD | {"flow_px": 0.1, "static_share": 0.95, "cut_score": 0.7})
    assert not row.kept
    assert reasons(row) == ["frozen", "still", "cut"]
    assert row.reasons[2] == {"reason": "cut", "rule": "cut_score > 0.35", "value": 0.7}


def test_a_missing_or_null_or_nan_score_fails_closed_once_for_each_name():
    gone = {k: v for k, v in GOOD.items() if k != "blur"}
    rules = ["blur < 1", "blur < 2", "flow_px < 0.1"]
    for scores in (gone, GOOD | {"blur": None}, GOOD | {"blur": float("nan")}):
        row = select(rules, scores)
        assert not row.kept and reasons(row) == ["missing_blur"]
        assert row.reasons[0]["value"] is None


def test_a_clip_without_actions_fails_a_rule_on_actions():
    assert reasons(select(["certain_share < 0.1"], action=None)) == ["missing_certain_share"]
    assert select(["certain_share < 0.1"]).kept


@pytest.mark.parametrize(("rule", "dropped"), [
    ("flow_px < 2", False), ("flow_px <= 2", True), ("flow_px > 2", False), ("flow_px >= 2.0", True),
    ("flow_px == 2", True), ("flow_px != 2", False), ("flow_px<2e1", True), ("luma_mean > -1", True),
    ("flow_px < 1 or blur > 100 and num_frames == 32", True),
    ("flow_px > 1 and blur < 100 or fps > 60", False),
    ("width < 640 and height < 480", True),
])
def test_rules_mean_what_they_say_and_and_binds_before_or(rule, dropped):
    assert select([rule]).kept is not dropped


@pytest.mark.parametrize("rule", [
    "", "flow_px", "flow_px <", "flow_px < x", "flow_px < nan", "0.5 > flow_px", "flow_px < 1 or", "and flow_px < 1",
    "(flow_px < 1)", "flow_px < 1; import os", "__import__('os') < 1", "flow_px = 1", "flow_px < 1 < 2",
])
def test_what_is_not_a_rule_stops_before_any_work(rule):
    with pytest.raises(ConfigError, match="wanted NAME OP NUMBER"):
        parse_rule(rule, SCORE_NAMES)


def test_an_unknown_name_is_refused_and_the_nearest_is_named():
    with pytest.raises(ConfigError, match="no number 'flow'; did you mean 'flow_px'"):
        SelectionStage(SelectionParams(rules=(Rule(reason="still", drop_when="flow < 1"),)))


def test_a_bound_without_end_is_refused():
    with pytest.raises(ConfigError, match="too large"):
        parse_rule("flow_px < 1e999", SCORE_NAMES)


def test_scores_of_other_annotators_can_be_declared():
    assert reasons(select(["aesthetic < 4"], GOOD | {"aesthetic": 3.0}, extra_scores=("aesthetic",))) == ["r0"]
    with pytest.raises(ConfigError, match="not a score"):
        select(extra_scores=("fps",))


def test_a_verdict_survives_its_table():
    from worldloom.schemas import Selection
    row = select(scores=GOOD | {"flow_px": None})
    assert from_table(to_table([row], Selection), Selection)[0].reasons == row.reasons


def test_a_report_counts_clips_under_all_and_under_first_reasons():
    cut = GOOD | {"cut_score": 1.0}
    rows = [select(), select(scores=cut | {"flow_px": 0.0}), select(scores=cut)]
    assert selection_report(rows) == {"clips": 3, "kept": 1, "dropped": 2, "reasons": {"cut": 2, "still": 1},
                                      "first": {"still": 1, "cut": 1}}
    assert selection_report([]) == {"clips": 0, "kept": 0, "dropped": 0, "reasons": {}, "first": {}}
