"""The report page, on a small corpus drawn here: a textured wall that slides as the camera turns."""

from __future__ import annotations

import io
import json
import re
import tarfile
from html.parser import HTMLParser
from pathlib import Path

import av
import cv2
import duckdb
import numpy as np
import pytest

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.store import write_table
from worldloom.report import confusion, write_report, yaw_agreement
from worldloom.report.sections import path_from_above
from worldloom.report.training import checks, find_figure
from worldloom.schemas import (
    TABLES,
    Action,
    Camera,
    Caption,
    Clip,
    Drop,
    Failure,
    Mix,
    Run,
    Score,
    Selection,
    Video,
    to_table,
)

NUM_FRAMES, WIDTH, HEIGHT, FPS = 24, 160, 120, 24.0
EVIL = "<script>alert(1)</script>"
ROW_TYPES = TABLES | {"action_truth": Action, "camera_truth": Camera}
VIEWS = {"drop": "drops", "failure": "failures"}


def draw_media(path: Path, yaw_deg: np.ndarray) -> None:
    rng = np.random.default_rng(len(path.name))
    wall = cv2.resize(rng.integers(40, 220, (12, 64, 3), np.uint8), (WIDTH * 4, HEIGHT), interpolation=cv2.INTER_CUBIC)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=int(FPS), options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for shift in np.cumsum(yaw_deg) * 3:
            picture = np.roll(wall, -round(float(shift)), axis=1)[:, :WIDTH]
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def make_clip(i: int) -> Clip:
    return Clip(
        clip_id=f"c{i:03d}", video_id=f"v{i:03d}", source_id=f"s{i % 2}", start_frame=0, stop_frame=NUM_FRAMES,
        start_s=0.0, stop_s=NUM_FRAMES / FPS, num_frames=NUM_FRAMES, fps=FPS, width=WIDTH, height=HEIGHT,
        source_frames=list(range(NUM_FRAMES)), frame_times_s=[k / FPS for k in range(NUM_FRAMES)], scale_x=1.0,
        scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0, media=f"media/c{i % 100:02d}/c{i:03d}.mp4", media_bytes=1,
        media_sha256="0", cut_by="start", split="train")


def make_video(i: int) -> Video:
    return Video(
        video_id=f"v{i:03d}", source_id=f"s{i % 2}", name=f"walks/{EVIL if i == 0 else i}.mp4", bytes=1,
        container="mp4", codec="h264", pix_fmt="yuv420p", stream_index=0, width=WIDTH, height=HEIGHT, rotation_deg=0,
        sample_aspect_ratio=1.0, num_frames=NUM_FRAMES, header_frames=None, start_s=0.0,
        duration_s=NUM_FRAMES / FPS, fps=FPS, is_variable_rate=False, is_interlaced=False, backend="pyav", notes=[],
        sidecar=None)


def make_action(i: int, yaw_deg: np.ndarray, longitudinal: np.ndarray) -> Action:
    zeros, whole = np.zeros(NUM_FRAMES, np.float32), np.zeros(NUM_FRAMES, np.int8)
    return Action(
        clip_id=f"c{i:03d}", labeller="test/1", num_frames=NUM_FRAMES, yaw_deg=yaw_deg.astype(np.float32),
        pitch_deg=zeros, yaw_se_deg=zeros, pitch_se_deg=zeros, longitudinal=longitudinal.astype(np.int8), lateral=whole,
        longitudinal_confidence=zeros, lateral_confidence=zeros, jump=whole, perspective="fps",
        intent_longitudinal=None, intent_lateral=None, blocked=None, residual=None, certain_share=1.0)


def make_camera(i: int, yaw_deg: np.ndarray, pose_source: str, unit: float) -> Camera:
    heading = np.radians(np.cumsum(yaw_deg))
    poses = np.tile(np.eye(4), (NUM_FRAMES, 1, 1))
    poses[:, 0, 0], poses[:, 0, 2], poses[:, 2, 0], poses[:, 2, 2] = (
        np.cos(heading), np.sin(heading), -np.sin(heading), np.cos(heading))
    poses[:, 0, 3], poses[:, 2, 3] = unit * np.cumsum(np.sin(heading)), unit * np.cumsum(np.cos(heading))
    ones = np.ones(NUM_FRAMES, np.float32)
    return Camera(
        clip_id=f"c{i:03d}", estimator="test/1", chosen_because="test", pose_source=pose_source, camera_model="pinhole",
        num_frames=NUM_FRAMES, world_from_cam_T44=poses, intrinsics_T4=np.ones((NUM_FRAMES, 4)), confidence=ones,
        yaw_se_deg=ones, pitch_se_deg=ones, parallax_px=ones, travel_se_deg=ones, is_calibrated=True,
        focal_source="declared", focal_spread=None, perspective_seen="uncertain", scale_status="relative",
        metres_per_unit=None, scale_spread=None, gravity_source="assumed", gravity_confidence=0.5)


def corpus_rows(corpus: Path, num_clips: int) -> dict[str, list]:
    """Rows of every table, of clips with media under `corpus`."""
    rows: dict[str, list] = {name: [] for name in ROW_TYPES}
    rng = np.random.default_rng(5)
    for i in range(num_clips):
        true = np.concatenate([[0], 4 * np.sin(np.linspace(0, 6, NUM_FRAMES - 1) + i)])
        est = true + rng.normal(0, 0.2, NUM_FRAMES)
        walking = (np.arange(NUM_FRAMES) // 6) % 3 - 1
        unsure = np.where(np.arange(NUM_FRAMES) % 5 == 2, 2, walking)
        draw_media(corpus / make_clip(i).media, true)
        rows["video"].append(make_video(i))
        rows["clip"].append(make_clip(i))
        rows["action"].append(make_action(i, est, unsure))
        rows["action_truth"].append(make_action(i, true, walking))
        rows["camera"].append(make_camera(i, est, "estimated", 0.3))
        rows["camera_truth"].append(make_camera(i, true, "engine", 12.0))
        rows["score"].append(Score(clip_id=f"c{i:03d}", name="blur", value=0.1 * i, unit="", frames=[1]))
        events = [{"start_s": 0.0, "end_s": 0.5, "text": f"a door opens {EVIL}", "kind": "door"},
                  {"start_s": 0.5, "end_s": 1.0, "text": None, "kind": None}]
        rows["caption"].append(Caption(clip_id=f"c{i:03d}", captioner="rules/1", basis="engine", character=None,
                                       scene="A long hall with brown walls.", ui="health counter", events=events))
        reasons = [{"reason": "static", "rule": "motion < 0.5", "value": 0.1}] if i % 3 == 2 else []
        rows["selection"].append(Selection(clip_id=f"c{i:03d}", selection="clean", kept=not reasons, reasons=reasons))
    rows["drop"] = [Drop(stage="clip", row_key="v9", reason="too_short", detail="3 frames, 16 are wanted")]
    rows["failure"] = [Failure(stage="video", row_key=f"{EVIL}.mp4", error="DecodeError", detail="no video stream")]
    rows["run"] = [Run(run_id="r", stage="clip", part="p", version=1, rows_in=9, done=8, dropped=1, failed=0,
                       rows_out=12)]
    rows["mix"] = [Mix(name="even", digest="d1", component=name, unit="frames", weight=w, available=100, allotted=n,
                       realised=n, clips=n // NUM_FRAMES, repeats=1.0)
                   for name, w, n in (("halls", 0.75, 72), ("caves", 0.25, 24))]
    return rows


def connect(rows: dict[str, list]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name, made in rows.items():
        con.register(VIEWS.get(name, name), to_table(made, ROW_TYPES[name]))
    return con


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, duckdb.DuckDBPyConnection]:
    return tmp_path / "corpus", connect(corpus_rows(tmp_path / "corpus", 6))


def write_tar(folder: Path, samples: list[tuple[str, int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "000000.tar", "w") as tar:
        for i, (component, frames) in enumerate(samples):
            data = json.dumps({"component": component, "num_frames": frames}).encode()
            info = tarfile.TarInfo(f"{i:08d}_c{i:03d}.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_training(folder: Path) -> Path:
    (folder / "evaluation").mkdir(parents=True)
    lines = [json.dumps({"step": s, "loss": 1 / (s + 1) + 0.05, "copy_loss": 0.4, "seconds": s}) for s in range(100)]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, "{half a li"]))
    (folder / "evaluation" / "evaluation.json").write_text(json.dumps({"checkpoint": EVIL, "step": 900, "metrics": {
        "clips": 64, "estimator_r": 0.99, "estimator_slope": 1.0, "yaw_r": 0.83, "yaw_slope": 0.71,
        "per_frame_r": [0.9, 0.8], "per_position_r": [0.9, 0.4], "shuffled_r": 0.01, "psnr_negated": 20.5,
        "counterfactual_deg": {"-6": -5.0, "6": 5.1}, "counterfactual_spread_deg": 10.1, "psnr": 24.1,
        "psnr_copy": 22.0}}))
    strip = np.random.default_rng(0).integers(0, 255, (48, 480, 3), np.uint8)
    cv2.imwrite(str(folder / "evaluation" / "turn_right_6_deg.png"), strip)
    return folder


class Seen(HTMLParser):
    """Tags, ids and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.ids, self.addresses = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids |= {value for name, value in attrs if name == "id"}
        self.addresses += [value for name, value in attrs if name in ("src", "srcset", "href", "poster", "data")]


SECTIONS = {"summary", "actions", "paths", "truth", "selection", "captions", "mix", "training", "timings"}


def test_the_report_of_a_corpus_has_every_section_and_loads_nothing_from_outside(made, tmp_path):
    corpus, con = made
    shards = tmp_path / "shards" / "d1"
    write_tar(shards, [("halls", 24)] * 3 + [("caves", 24)])
    path = write_report(tmp_path, con, corpus, title=f"Walks {EVIL}", training_dir=write_training(tmp_path / "train"),
                        timings=[("record", 3.0), ("label", 5.5)], shards_dir=shards)
    text = path.read_text()
    seen = Seen(text)
    assert path == tmp_path / "report.html" and SECTIONS <= seen.ids
    assert all(a.startswith(("data:image/", "#")) for a in seen.addresses)
    assert not seen.tags & {"script", "link", "iframe", "object", "embed", "form"}
    assert "url(" not in text and "@import" not in text and "default-src 'none'" in text
    assert text.count("data:image/jpeg") == 4 * 8    # four clips were kept, eight frames each
    assert "too_short" in text and "static" in text and "no video stream" in text and "a door opens" in text
    assert ">agree</span>" in text and ">differ</span>" not in text
    assert re.search(r"On the 138 frames whose own standard error is at most\s1&deg;", text)
    assert "8.5 s" in text and "missed" in text and text.count(">passed<") == 5 and "r 0.83" in text


def test_the_report_is_the_same_from_the_catalog_on_disk(tmp_path):
    corpus = tmp_path / "corpus"
    rows = corpus_rows(corpus, 3)
    for name, made in rows.items():
        write_table(corpus, name, "part", made, ROW_TYPES[name])
    pages = [write_report(tmp_path / f"{i}", con, corpus, title="Walks", training_dir=None, timings=[],
                          shards_dir=None).read_bytes() for i, con in enumerate((connect(rows), open_catalog(corpus)))]
    assert pages[0] == pages[1]


def test_text_from_data_is_escaped_everywhere(made, tmp_path):
    corpus, con = made
    text = write_report(tmp_path, con, corpus, title=EVIL, training_dir=None, timings=[(EVIL, 1.0)],
                        shards_dir=None).read_text()
    assert "<script" not in text and "alert(1)" in text
    assert text.count("&lt;script&gt;") >= 5


def test_a_report_of_an_empty_catalog_says_what_is_missing(tmp_path):
    con = duckdb.connect()
    text = write_report(tmp_path / "new" / "page.html", con, tmp_path, title="Nothing yet",
                        training_dir=tmp_path / "no", timings=[], shards_dir=tmp_path / "no").read_text()
    assert SECTIONS <= Seen(text).ids and "data:image" not in text
    for sentence in ("There is no truth", "No selection has been made", "There are no captions", "No mix has been",
                     "No model has been trained", "There are no drops", "There are no failures", "No run has been"):
        assert sentence in text


def test_empty_tables_and_missing_media_do_not_stop_the_report(made, tmp_path):
    corpus, con = made
    for name in ("selection", "action_truth", "caption", "mix"):
        con.register(name, to_table([], ROW_TYPES[name]))
    (corpus / make_clip(0).media).unlink()
    (corpus / make_clip(1).media).write_bytes(b"not a video")
    text = write_report(tmp_path, con, corpus, title="Half", training_dir=None, timings=[], shards_dir=None).read_text()
    assert text.count("Its pictures could not be read") == 2 and text.count("data:image/jpeg") == 3 * 8
    assert "There is no truth" in text


def test_tars_that_hold_other_counts_than_the_mix_are_said_to_differ(made, tmp_path):
    corpus, con = made
    write_tar(tmp_path / "d1", [("halls", 24)] * 2 + [("caves", 24), ("pits", 24)])
    (tmp_path / "d1" / "000001.tar").write_bytes(b"torn")
    text = write_report(tmp_path, con, corpus, title="Torn", training_dir=None, timings=[],
                        shards_dir=tmp_path / "d1").read_text()
    assert ">differ</span>" in text and "do not agree" in text and "pits" in text and "000001.tar" in text


def test_given_poses_are_not_compared_with_themselves(made, tmp_path):
    corpus, con = made
    con.register("camera", to_table([make_camera(i, np.zeros(NUM_FRAMES), "engine", 1.0) for i in range(6)], Camera))
    text = write_report(tmp_path, con, corpus, title="Given", training_dir=None, timings=[],
                        shards_dir=None).read_text()
    assert "There is no truth" in text


def test_yaw_agreement_is_exact_on_constructed_arrays():
    true = np.array([0.0, 2.0, -2.0, 4.0, -4.0, 0.5])
    assert yaw_agreement(2 * true, true) == {"correlation": pytest.approx(1.0), "sign_agreement": 1.0,
                                             "median_error_deg": 2.0, "frames": 6}
    assert yaw_agreement(-true, true)["correlation"] == pytest.approx(-1.0)
    half = yaw_agreement(np.array([0.0, 1.0, 1.0, 1.0, -1.0, np.nan]), true)
    assert half["sign_agreement"] == 0.75 and half["frames"] == 5 and half["median_error_deg"] == 3.0


def test_yaw_agreement_of_still_frames_is_unknown():
    assert yaw_agreement(np.zeros(3), np.zeros(3)) == {"correlation": None, "sign_agreement": None,
                                                       "median_error_deg": 0.0, "frames": 3}
    assert yaw_agreement(np.zeros(0), np.zeros(0))["median_error_deg"] is None
    with pytest.raises(ValueError, match="2 estimated and 3 true"):
        yaw_agreement(np.zeros(2), np.zeros(3))


def test_confusion_counts_true_states_down_and_estimated_across():
    counts = confusion(np.array([1, 0, 2, -1, -1]), np.array([1, 1, 0, -1, 2]))
    assert counts.tolist() == [[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0]]


def test_a_path_from_above_starts_ahead_whatever_its_heading_and_scale():
    heading = np.radians(70)
    pose = np.tile(np.eye(4), (3, 1, 1))
    pose[:, 0, 0], pose[:, 0, 2], pose[:, 2, 0], pose[:, 2, 2] = (
        np.cos(heading), np.sin(heading), -np.sin(heading), np.cos(heading))
    for t, (ahead, right) in enumerate([(0, 0), (3, 0), (3, 4)]):
        pose[t, :3, 3] = ahead * pose[0, :3, 2] + right * pose[0, :3, 0] + [7, 0, 9]
    assert np.allclose(path_from_above(pose), np.array([[0, 0], [0, 3], [4, 3]]) / 5)
    assert path_from_above(np.tile(np.eye(4), (3, 1, 1))) is None


def test_bounds_find_their_figures_by_name_and_are_unknown_without_them():
    figures = {"yaw.r": 0.7, "yaw.slope": 0.5, "estimator.r": 0.99, "shuffled_r": 0.1, "psnr": 21.0, "psnr_copy": 20.0}
    assert find_figure(figures, "psnr") == 21.0 and find_figure(figures, "copy") == 20.0
    assert [c.passed for c in checks(figures)] == [True, True, None, None, True, None]
    assert re.fullmatch("above not measured", checks(figures)[-1].bound)
