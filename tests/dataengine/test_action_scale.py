"""The action-scale table and clip speeds, on hand-made tables whose distances are known exactly."""

import json

import numpy as np
import pytest

from worldloom.dataengine.catalog import open_catalog, publish_catalog
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.scale import retime_stride, speed_bucket
from worldloom.dataengine.store import update_manifest, write_part
from worldloom.schemas import Action, Camera, Clip, Source

FPS = 16.0


def source(name):
    return Source(source_id=name, name=name, kind="posed", licence=None, url=None, perspective="fps",
                  pose_mode="given", convention="c2w/opencv/matrix", scale_status="metric")


def clip(clip_id, source_id, count):
    return Clip(
        clip_id=clip_id, video_id="v", source_id=source_id, start_frame=0, stop_frame=count, start_s=0.0,
        stop_s=count / FPS, num_frames=count, fps=FPS, width=320, height=240, source_frames=list(range(count)),
        frame_times_s=[i / FPS for i in range(count)], scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0,
        media="m", media_bytes=1, media_sha256="0", cut_by="start", split="train")


def camera(clip_id, position, status="metric", unit_m=1.0):
    count = len(position)
    zeros = np.zeros(count, np.float32)
    return Camera(
        clip_id=clip_id, estimator="given/1", chosen_because="test", pose_source="file", camera_model="pinhole",
        num_frames=count, world_from_cam_T44=P.compose(np.tile(np.eye(3), (count, 1, 1)), position).reshape(-1, 16),
        intrinsics_T4=np.full((count, 4), 160.0), confidence=zeros + 1, yaw_se_deg=zeros, pitch_se_deg=zeros,
        travel_se_deg=zeros, parallax_px=zeros, is_calibrated=True, focal_source="file", focal_spread=None,
        perspective_seen="fps", scale_status=status, metres_per_unit=unit_m, scale_spread=None,
        gravity_source="engine", gravity_confidence=1.0)


def action(clip_id, forward, yaw=None, yaw_se=None, lateral=None):
    count = len(forward)
    zeros = np.zeros(count, np.float32)
    return Action(
        clip_id=clip_id, labeller="test/1", num_frames=count, yaw_deg=zeros if yaw is None else yaw.astype(np.float32),
        pitch_deg=zeros, yaw_se_deg=zeros if yaw_se is None else yaw_se.astype(np.float32), pitch_se_deg=zeros,
        longitudinal=forward.astype(np.int8), lateral=np.zeros(count, np.int8) if lateral is None else lateral,
        longitudinal_confidence=zeros, lateral_confidence=zeros, jump=np.zeros(count, np.int8), perspective="fps",
        intent_longitudinal=None, intent_lateral=None, blocked=None, residual=None, certain_share=1.0)


def walk(step_m, count, first_moving=1):
    """Positions that go forward by step_m into every frame from `first_moving` on."""
    ahead = np.where(np.arange(count) >= first_moving, step_m, 0.0)
    return np.stack([np.zeros(count), np.zeros(count), np.cumsum(ahead)], 1)


def moving(count, first_moving=1):
    return (np.arange(count) >= first_moving).astype(int)


def made(path, rows):
    for table, row_type in (("source", Source), ("clip", Clip), ("camera", Camera), ("action", Action)):
        write_part(path, table, "p", [r for r in rows if isinstance(r, row_type)], row_type)
    update_manifest(path, {name: ["p"] for name in ("source", "clip", "camera", "action")})
    return open_catalog(path)


def rows_of(con, query):
    answer = con.sql(query)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def three_sources(path):
    """Walks of 0.35 and 0.5 m a latent in metres (the second in units of 0.5 m), and one without metres."""
    count = 17
    return made(path, [
        source("walk"), clip("a", "walk", count), camera("a", walk(0.35 / 4, count)),
        action("a", moving(count), yaw=np.where(np.arange(count) > 8, 0.5, 0.0)),
        source("run"), clip("b", "run", count), camera("b", walk(0.5 / 4 / 0.5, count), unit_m=0.5),
        action("b", moving(count), yaw=np.full(count, -0.5)),
        source("free"), clip("c", "free", count), camera("c", walk(7.0, count), "relative", None),
        action("c", moving(count))])


def test_the_distance_of_a_w_latent_is_measured_in_metres_by_source(tmp_path):
    table = {r["source"]: r for r in rows_of(three_sources(tmp_path), "SELECT * FROM action_scale")}
    assert [table[s]["w_latents"] for s in ("walk", "run", "free")] == [4, 4, 4]
    assert table["walk"]["w_median"] == pytest.approx(0.35) and table["run"]["w_median"] == pytest.approx(0.5)
    assert table["walk"]["w_q25"] == pytest.approx(0.35) == table["walk"]["w_q75"]
    assert table["walk"]["unit"] == "m" and table["run"]["clips"] == 1


def test_a_source_without_metres_is_listed_and_not_compared(tmp_path):
    free = rows_of(three_sources(tmp_path), "SELECT * FROM action_scale WHERE source = 'free'")[0]
    assert (free["unit"], free["w_is_comparable"], free["w_flagged"]) == ("unit", False, False)
    assert free["scale_status"] == "relative" and free["w_median"] == pytest.approx(28.0)


def test_a_source_further_than_a_quarter_from_the_median_is_flagged(tmp_path):
    count, rows = 41, []
    for name, step_m in (("one", 0.35), ("two", 0.36), ("three", 0.34), ("fast", 0.46), ("near", 0.43)):
        rows += [source(name), clip(name, name, count), camera(name, walk(step_m / 4, count)),
                 action(name, moving(count))]
    table = rows_of(made(tmp_path, rows), "SELECT source, w_flagged, w_off FROM action_scale")
    assert {r["source"]: r["w_flagged"] for r in table} == {
        "one": False, "two": False, "three": False, "fast": True, "near": False}
    assert {r["source"]: r["w_off"] for r in table}["fast"] == pytest.approx(0.46 / 0.36 - 1)


def test_a_turning_latent_counts_the_degrees_of_its_frames(tmp_path):
    table = {r["source"]: r for r in rows_of(three_sources(tmp_path), "SELECT * FROM action_scale")}
    assert (table["walk"]["turn_latents"], table["run"]["turn_latents"], table["free"]["turn_latents"]) == (2, 4, 0)
    assert table["walk"]["turn_median_deg"] == pytest.approx(2.0) == table["run"]["turn_median_deg"]
    assert table["free"]["turn_median_deg"] is None and not table["free"]["turn_flagged"]


def test_a_turn_within_twice_its_error_and_a_cut_are_no_turning_latents(tmp_path):
    count = 17
    noisy = action("n", moving(count), yaw=np.full(count, 0.1), yaw_se=np.full(count, 0.15))
    cut_se = np.where(np.arange(count) == 6, 120.0, 0.0)
    cut = action("k", moving(count), yaw=np.full(count, 1.0), yaw_se=cut_se)
    con = made(tmp_path, [source("noisy"), clip("n", "noisy", count), camera("n", walk(0.1, count)), noisy,
                          source("cut"), clip("k", "cut", count), camera("k", walk(0.1, count)), cut])
    table = {r["source"]: r for r in rows_of(con, "SELECT * FROM action_scale")}
    assert table["noisy"]["turn_latents"] == 0 and table["noisy"]["latents"] == 4
    assert table["cut"]["turn_latents"] == 3 == table["cut"]["latents"]


def test_a_latent_is_w_when_most_of_its_frames_are_and_the_rest_of_a_clip_is_left_out(tmp_path):
    forward = np.array([0, 1, 1, 1, 0, 1, 1, 0, 0, 2, 2, 1, 1, 1, 1])      # latents of 3, 2 and 2 of 4; 2 frames over
    con = made(tmp_path, [source("s"), clip("a", "s", 15), camera("a", walk(0.1, 15)), action("a", forward)])
    row = rows_of(con, "SELECT * FROM action_scale")[0]
    assert (row["latents"], row["w_latents"]) == (3, 1)


@pytest.mark.parametrize(("stride", "latents", "metres"), [(1, 16, 0.0875), (4, 4, 0.35), (8, 2, 0.7)])
def test_the_stride_of_latents_is_a_parameter(tmp_path, stride, latents, metres):
    rows = rows_of(three_sources(tmp_path), f"SELECT * FROM action_scale_at({stride}) WHERE source = 'walk'")
    assert rows[0]["w_latents"] == latents and rows[0]["w_median"] == pytest.approx(metres)


def test_the_published_snapshot_holds_the_views_and_their_macros(tmp_path):
    import duckdb

    ours = three_sources(tmp_path)
    theirs = duckdb.connect(str(publish_catalog(tmp_path)), read_only=True)
    for query in ("SELECT * FROM action_scale ORDER BY ALL", "SELECT * FROM clip_speed_at(2.0) ORDER BY ALL"):
        assert theirs.sql(query).fetchall() == ours.sql(query).fetchall()


# ---------------------------------------------------------------- clip_speed


def speeds(path, cases):
    rows = []
    for name, (position, forward, status, unit_m) in cases.items():
        rows += [source(name), clip(name, name, len(position)), camera(name, position, status, unit_m),
                 action(name, forward)]
    return {r["source"]: r for r in rows_of(made(path, rows), "SELECT * FROM clip_speed")}


def test_a_clip_has_its_speed_bucket_and_stride_from_where_it_moves(tmp_path):
    count = 33
    still, half = np.zeros((count, 3)), moving(count, 17)
    climb = walk(5 / FPS, count)
    climb[:, 1] = -np.arange(count) * 0.3
    found = speeds(tmp_path, {
        "walk": (walk(1.4 / FPS, count, 17), half, "metric", 1.0),
        "slow": (walk(0.7 / FPS, count), moving(count), "metric", 1.0),
        "run": (walk(4.0 / FPS / 0.01, count), moving(count), "exact", 0.01),
        "drive": (walk(15 / FPS, count), moving(count), "metric", 1.0),
        "rise": (climb, moving(count), "metric", 1.0),
        "stand": (still, np.zeros(count, int), "metric", 1.0),
        "free": (walk(3.0, count), moving(count), "relative", None)})
    assert {k: r["bucket"] for k, r in found.items()} == {
        "walk": "walk", "slow": "walk", "run": "run", "drive": "vehicle", "rise": "drone", "stand": "still",
        "free": "unknown"}
    assert {k: r["retime_stride"] for k, r in found.items()} == {
        "walk": 1, "slow": 2, "run": None, "drive": None, "rise": None, "stand": None, "free": None}
    assert found["walk"]["speed_m_s"] == pytest.approx(1.4) and found["walk"]["moving_share"] == pytest.approx(16 / 33)
    assert found["slow"]["speed_ratio"] == pytest.approx(0.5) and found["free"]["speed_m_s"] is None


@pytest.mark.parametrize("speed_m_s", [0.1, 0.25, 0.3, 0.62, 0.9, 1.1, 1.74, 1.76, 2.5, 6.9, 7.5, 99.0, 400.0])
def test_the_view_says_what_the_functions_say(tmp_path, speed_m_s):
    row = speeds(tmp_path, {"s": (walk(speed_m_s / FPS, 33), moving(33), "metric", 1.0)})["s"]
    assert row["bucket"] == speed_bucket(speed_m_s) and row["retime_stride"] == retime_stride(speed_m_s / 1.4)


def test_a_real_corpus_has_its_scale_and_speeds(corpus):
    con = open_catalog(corpus)
    table = rows_of(con, "SELECT * FROM action_scale")
    assert {r["source"] for r in table} == {"train"} and all(r["latents"] > 0 for r in table)
    clips = con.sql("SELECT count(*) FROM action").fetchall()[0][0]
    assert con.sql("SELECT count(*) FROM clip_speed").fetchall()[0][0] == clips
    assert con.sql("SELECT count(label_agreement) FROM clips").fetchall() == [(0,)]
    assert json.dumps(table, default=str)
