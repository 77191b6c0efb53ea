"""WebDataset, video2dataset, Hugging Face and LeRobot folders: the right videos with what is said of them, and a line

for each row that has none.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
import yaml
from format_samples import WALK
from hypothesis import given, settings
from hypothesis import strategies as st
from object_store import S3Server
from packed_samples import (
    CAMERA,
    LENGTHS,
    TASKS,
    lerobot_info,
    lerobot_pictures,
    lerobot_v2,
    lerobot_v3,
    video,
    video2dataset,
    video2dataset_rows,
    write_json,
    write_parquet,
    write_tar,
)
from tiny import read_number, tiny_video
from typer.testing import CliRunner

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.sources import FileEntry, SourceParams, open_source
from worldloom.dataengine.sources.about import MOST_CHARACTERS, about_text
from worldloom.dataengine.sources.cli import sources_app
from worldloom.dataengine.sources.dataset_card import card_licence
from worldloom.dataengine.sources.lerobot_meta import filled
from worldloom.dataengine.sources.remux import copy_range, cut_range
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import ConfigError, DataError, Source
from worldloom.shards.loader import Loader
from worldloom.shards.pack import pack


def opened(kind: str, path: Path | str, corpus: Path, **more: Any) -> tuple[list[FileEntry], Source]:
    reader = open_source(SourceParams(name="s", kind=kind, path=str(path), **more))
    reader.prepare(corpus)
    return sorted(reader.entries(), key=lambda entry: entry.name), reader.source_row()


def good(entries: list[FileEntry]) -> dict[str, dict[str, Any]]:
    """What is said of each video that can be used."""
    return {entry.name: json.loads(entry.about or "{}") for entry in entries if entry.problem is None}


def bad(entries: list[FileEntry]) -> dict[str, str]:
    return {entry.name: entry.problem for entry in entries if entry.problem is not None}


def numbers(entries: list[FileEntry]) -> dict[str, list[int]]:
    """The numbers that the frames of each video show."""
    return {entry.name: shown(Path(entry.path)) for entry in entries if entry.problem is None}


def shown(path: Path) -> list[int]:
    return [read_number(frame.rgb_HWC) for frame in iter_frames(path)]


def counted(first: int, count: int = 8) -> list[int]:
    return list(range(first, first + count))


# WebDataset

def test_members_of_one_key_are_a_sample_and_what_is_beside_the_video_is_kept(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "in.tar")) as tar:
        tar.write({"__key__": "a/one", "mp4": video(0), "txt": "a long walk", "flow.npy": np.zeros(3),
                   "json": {"url": "https://example.org/1", "license": "cc by 4.0", "width": 160, "nan": [1, None]}})
        tar.write({"__key__": "two", "webm": video(8, ending="webm"), "json": {"caption": "a drive", "txt": "again"}})
    entries, row = opened("webdataset", tmp_path / "in.tar", tmp_path / "corpus")
    assert good(entries) == {
        "in.tar/a/one.mp4": {"text": "a long walk", "url": "https://example.org/1", "key": "a/one",
                         "licence": "cc by 4.0", "facts": {"beside": ["flow.npy"], "nan": [1, None], "width": 160}},
        "in.tar/two.webm": {"text": "a drive", "key": "two", "facts": {"txt": "again"}}}
    assert numbers(entries) == {"in.tar/a/one.mp4": counted(0), "in.tar/two.webm": counted(8)}
    assert (row.licence, row.pose_mode, row.scale_status, row.convention) == (None, "none", "unknown", None)


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz")])
def test_a_folder_of_shards_is_read_whatever_the_order_of_members_and_the_dots_in_keys(
        tmp_path: Path, ending: str, mode: str) -> None:
    members = {"b.json": b'{"caption": "b"}', "v1.2.mp4": video(0), "b.mp4": video(8), "v1.2.txt": b"dots",
               "b.side.mp4": video(16)}
    write_tar(tmp_path / f"in/train/0.{ending}", {f"./{name}": data for name, data in members.items()}, mode)
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    place = f"train/0.{ending}"
    assert bad(entries) == {}
    assert {name: (about["key"], about.get("text")) for name, about in good(entries).items()} == {
        f"{place}/b.mp4": ("b", "b"), f"{place}/b.side.mp4": ("b", "b"), f"{place}/v1.2.mp4": ("v1.2", "dots")}
    assert list(numbers(entries).values()) == [counted(8), counted(16), counted(0)]


@pytest.mark.parametrize("cut_in", ["its data", "a header"])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_of_a_truncated_tar_the_samples_before_the_cut_are_kept_and_one_line_says_so(
        tmp_path: Path, cut_in: str, mode: str) -> None:
    ending = "tar" if mode == "w" else "tgz"
    whole = write_tar(tmp_path / f"in/0.{ending}", {
        "a.mp4": video(0), "a.json": b'{"caption": "a"}', "b.mp4": video(8), "b.json": b'{"caption": "b"}'}, mode)
    if mode == "w":
        with tarfile.open(whole) as tar:
            last = tar.getmember("b.mp4" if cut_in == "its data" else "b.json")
        whole.write_bytes(whole.read_bytes()[:last.offset_data - (-100 if cut_in == "its data" else 300)])
    else:
        data = whole.read_bytes()
        whole.write_bytes(data[:int(len(data) * (0.8 if cut_in == "its data" else 0.97))])
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert numbers(entries) == {f"0.{ending}/a.mp4": counted(0)}
    (name, line), = bad(entries).items()
    assert name == f"0.{ending}"
    assert line.startswith(f"0.{ending}: cut short or damaged in or after b.") and "1 videos before it are kept" in line
    assert not list((tmp_path / "corpus").rglob("b.*")) and not list((tmp_path / "corpus").rglob("*.part"))


MEMBERS = {f"{name}.{end}": bytes([65 + i]) * 700 if end == "mp4" else b'{"caption": "x"}'
           for i, name in enumerate("abc") for end in ("mp4", "json")}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_a_tar_no_video_that_is_kept_is_another(
        tmp_path_factory: pytest.TempPathFactory, mode: str, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("broken")
    path = write_tar(folder / "in/0.tar", MEMBERS, mode)
    raw = bytearray(path.read_bytes())
    stop = data.draw(st.integers(0, len(raw)))
    del raw[stop:]
    path.write_bytes(raw)
    entries, _ = opened("webdataset", folder / "in", folder / "corpus")
    kept = {entry.name for entry in entries if entry.problem is None}
    for name in kept:
        assert next((folder / "corpus/incoming").glob(f"*/{name}")).read_bytes() == MEMBERS[name.removeprefix("0.tar/")]
    assert bad(entries) or len(kept) == 3 or stop % tarfile.BLOCKSIZE == 0      # a tar may lack its last, empty blocks
    assert not list(folder.rglob("*.part"))


def test_names_and_json_of_strangers_do_no_harm(tmp_path: Path) -> None:
    deep = b'{"caption": "deep", "x": ' + b"[" * 400 + b"]" * 400 + b"}"
    write_tar(tmp_path / "in/0.tar", {"a\udcff'\";--.mp4": video(0), "b.mp4": video(8), "b.json": deep,
                                      "c.mp4": video(16), "c.json": b"[" * 100_000, "d.mp4": video(24),
                                      "d.json": b'{"url": 7, "text": "\\ud800\\u0000<script>"}'})
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert bad(entries) == {} and len(numbers(entries)) == 4
    said = {name[6:]: about for name, about in good(entries).items()}
    assert said["b.mp4"]["text"] == "deep" and "recursion" in said["c.mp4"]["facts"]["unreadable"]
    assert said["d.mp4"]["text"] == "\\ud800<script>" and said["d.mp4"]["facts"] == {"url": 7}


def test_nothing_leaves_the_folder_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").write_bytes(video(0))
    path = write_tar(tmp_path / "in/0.tar", [("../../up.mp4", video(0)), ("/root.mp4", video(0)), ("a.mp4", video(8)),
                                             ("a.mp4", video(16)), ("._a.mp4", b"resource fork"), ("c.json", b"{}")])
    with tarfile.open(path, "a") as tar:
        info = tarfile.TarInfo("link.mp4")
        info.type, info.linkname = tarfile.SYMTYPE, str(tmp_path / "secret.mp4")
        tar.addfile(info)
    before = {p for p in tmp_path.rglob("*") if "corpus" not in p.parts}
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert numbers(entries) == {"0.tar/a.mp4": counted(8)}
    lines = bad(entries)
    assert len(lines) == 5
    assert all("leads out of the folder" in lines[f"0.tar/{name}"] for name in ("../../up.mp4", "/root.mp4"))
    assert "twice; the first is taken" in lines["0.tar/a.mp4 (again)"]
    assert "not followed" in lines["0.tar/link.mp4"] and lines["0.tar/c"] == "0.tar: no video of key c"
    assert {p for p in tmp_path.rglob("*") if "corpus" not in p.parts} == before


def test_a_tar_without_videos_and_text_that_is_no_json_each_get_a_line(tmp_path: Path) -> None:
    write_tar(tmp_path / "in/0.tar", {"a.jpg": b"x", "b.jpg": b"x", "b.json": b"{}"})
    write_tar(tmp_path / "in/1.tar", {"a.mp4": video(0), "a.json": b"{broken"})
    (tmp_path / "in/2.tar").write_bytes(b"no tar at all")
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert good(entries)["1.tar/a.mp4"]["facts"]["unreadable"].startswith("json: ")
    assert bad(entries)["0.tar"] == "0.tar: no video in it (holds jpg, json)"
    assert bad(entries)["2.tar"].startswith("2.tar: cut short or damaged in or after its first member")


def test_a_shard_is_unpacked_once_and_again_when_it_changes(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "in/0.tar", {"a.mp4": video(0), "b.mp4": video(8)})
    (first, _), _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    made = Path(first.path).stat().st_mtime_ns
    (second, _), _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert Path(second.path).stat().st_mtime_ns == made
    Path(second.path).unlink()                                      # what is lost is brought again
    assert numbers(opened("webdataset", tmp_path / "in", tmp_path / "corpus")[0])["0.tar/a.mp4"] == counted(0)
    write_tar(path, {"b.mp4": video(16)})
    entries, _ = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert numbers(entries) == {"0.tar/b.mp4": counted(16)} and not Path(first.path).exists()
    path.unlink()
    assert opened("webdataset", tmp_path / "in", tmp_path / "corpus")[0] == []
    assert not list((tmp_path / "corpus").rglob("*.mp4"))


def test_the_plan_s_licence_is_not_put_on_a_sample_that_states_another(tmp_path: Path) -> None:
    write_tar(tmp_path / "in/0.tar", {"a.mp4": video(0), "a.json": b'{"license": "CC-BY-NC-4.0"}',
                                      "b.mp4": video(8), "b.json": b'{"license": "cc_by 4.0"}', "c.mp4": video(16)})
    entries, row = opened("webdataset", tmp_path / "in", tmp_path / "corpus", licence="CC-BY-4.0")
    assert sorted(good(entries)) == ["0.tar/b.mp4", "0.tar/c.mp4"] and row.licence == "CC-BY-4.0"
    assert bad(entries) == {"0.tar/a.mp4": "its licence is CC-BY-NC-4.0, the plan's for the whole source CC-BY-4.0; "
                                           "leave licence out of the plan to keep each its own"}
    (tmp_path / "in/README.md").write_text(CARD.format("cc-by-4.0"))
    entries, row = opened("webdataset", tmp_path / "in", tmp_path / "corpus")
    assert row.licence is None and good(entries)["0.tar/a.mp4"]["licence"] == "CC-BY-NC-4.0"
    assert opened("webdataset", tmp_path / "in", tmp_path / "corpus", only="none")[1].licence is None
    write_tar(tmp_path / "in/0.tar", {"b.mp4": video(8), "b.json": b'{"license": "cc_by 4.0"}', "c.mp4": video(16)})
    assert opened("webdataset", tmp_path / "in", tmp_path / "corpus")[1].licence == "CC-BY-4.0"


def posed_plan(folder: Path, source: dict[str, Any]) -> Path:
    document = {"sources": [{"name": "s", "licence": "CC0-1.0", "perspective": "fps"} | source], "workers": 1,
                "stages": ["video", "clip", "camera", "action"],
                "params": {"clip": {"fps": 8.0, "min_s": 0.5, "max_s": 3.0, "shots": False}}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.yaml").write_text(yaml.safe_dump(document))
    return folder / "plan.yaml"


def test_shards_that_pack_wrote_come_back_with_their_frames_cameras_and_labels(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        tiny_video(tmp_path / f"in/v{number}.mp4", 12, fps=8, looks=((0, number),))
        poses = WALK if number else np.linalg.inv(WALK[0]) @ WALK[::-1]
        write_json(tmp_path / f"in/v{number}.poses.json", {
            "convention": "c2w/opencv/matrix", "unit_m": 0.5, "poses": poses.reshape(-1, 16).tolist(),
            "camera": {"model": "pinhole", "fx": 120, "fy": 110, "cx": 80, "cy": 48, "width": 160, "height": 96}})
    run_plan(load_plan(posed_plan(tmp_path / "one", {"kind": "posed", "path": str(tmp_path / "in")})),
             tmp_path / "one/corpus", executor="inline", quiet=True)
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump({
        "name": "all", "selection": None, "unit": "frames", "total": 21, "seed": 3,
        "components": [{"name": "all", "weight": 1.0, "where": "num_frames > 0"}]}))
    packed = pack(tmp_path / "one/corpus", tmp_path / "mix.yaml").dir
    run_plan(load_plan(posed_plan(tmp_path / "two", {"kind": "webdataset", "path": str(packed)})),
             tmp_path / "two/corpus", executor="inline", quiet=True)
    samples = list(Loader(packed))
    assert sorted(sample["num_frames"] for sample in samples) == [9, 12]        # one is cut to its first frames
    con = open_catalog(tmp_path / "two/corpus")
    assert con.sql("SELECT pose_mode, convention FROM source").fetchall() == [("given", "c2w/opencv/matrix")]
    rows = con.sql("""SELECT v.about->>'key', a.yaw_deg, a.pitch_deg, a.longitudinal, a."lateral", c.num_frames,
                      m.world_from_cam_T44, m.intrinsics_T4, m.metres_per_unit
                      FROM action a JOIN clip c USING (clip_id) JOIN camera m USING (clip_id)
                      JOIN video v ON v.video_id = c.video_id""").fetchall()
    by_key = {row[0]: row[1:] for row in rows}
    assert sorted(by_key) == sorted(sample["key"] for sample in samples)
    for sample in samples:
        yaw, pitch, longitudinal, lateral, count, poses, lens, unit_m = by_key[sample["key"]]
        assert count == sample["num_frames"] and unit_m == 1.0                  # canonical poses are in metres
        np.testing.assert_allclose(np.array(poses, float).reshape(-1, 4, 4), sample["camera_T44"], atol=1e-8)
        np.testing.assert_allclose(np.array(lens, float), sample["intrinsics_T4"], atol=1e-6)
        np.testing.assert_allclose([pitch, yaw], sample["actions_T6"][:, :2].T, atol=1e-5)      # float32
        if count == 12:                                # the label of a frame looks at frames after it, too
            certain = sample["certain_T6"][:, 2:4].T
            assert np.array_equal(np.array([longitudinal, lateral])[certain], sample["actions_T6"][:, 2:4].T[certain])


# video2dataset

@pytest.mark.parametrize("layout", ["tar", "files"])
def test_video2dataset_rows_come_with_caption_url_and_key_and_failed_ones_are_a_line_each(
        tmp_path: Path, layout: str) -> None:
    entries, _ = opened("video2dataset", video2dataset(tmp_path / "in", layout), tmp_path / "corpus")
    assert good(entries) == {
        f"00000/{i:09d}.mp4": {"text": text, "url": f"https://example.org/{i}", "key": f"{i:09d}",
                               "facts": {"width": 160}} for i, text in enumerate(("a walk", "a drive"))}
    assert list(numbers(entries).values()) == [counted(0), counted(8)]
    assert bad(entries) == {
        "00000/000000002": "row 000000002: failed_to_download: HTTP 404 not found (https://example.org/2)"}


def test_video2dataset_without_tables_or_with_rows_that_lack_their_video(tmp_path: Path) -> None:
    root = video2dataset(tmp_path / "in", "tar")
    (root / "00000.parquet").write_bytes(b"PAR1 stopped here")          # as of a shard that was being written
    entries, _ = opened("video2dataset", root, tmp_path / "corpus")
    assert len(good(entries)) == 2 and "failed_to_download" in bad(entries)["00000/000000002"]
    assert "was its shard finished?" in bad(entries)["00000.parquet"]
    write_parquet(root / "00000.parquet", [*video2dataset_rows(), video2dataset_rows()[0] | {"key": "000000003"}])
    assert bad(opened("video2dataset", root, tmp_path / "corpus")[0])["00000/000000003"] == (
        "row 000000003: status success, and no video is there")


def test_videos_inside_video2dataset_s_own_tables_are_read_as_a_hugging_face_dataset(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/00000.parquet", [row | {"mp4": video(8 * i), "txt": row["caption"]}
                                                  for i, row in enumerate(video2dataset_rows()[:2])])
    entries, _ = opened("video2dataset", tmp_path / "in", tmp_path / "corpus")
    assert bad(entries) == {
        "00000.parquet": "00000.parquet holds its videos inside the table; kind huggingface reads it"}
    entries, _ = opened("huggingface", tmp_path / "in", tmp_path / "corpus")
    assert list(numbers(entries).values()) == [counted(0), counted(8)]
    assert [about["text"] for about in good(entries).values()] == ["a walk", "a drive"]


# Hugging Face

CARD = "---\nlicense: {}\npretty_name: Tours\n---\n# Tours\n\n---\n"


def video_folder(root: Path, metadata: str) -> Path:
    for number, name in enumerate(("a.mp4", "far/b.mp4", "c.mp4")):
        (root / "train" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "train" / name).write_bytes(video(8 * number))
    rows = [{"file_name": "a.mp4", "text": "a walk", "id": 1}, {"file_name": "far/b.mp4", "text": "a drive", "id": 2},
            {"file_name": "gone.mp4", "text": "not there", "id": 3}]
    if metadata == "csv":
        (root / "train/metadata.csv").write_text(
            "file_name,text,id\n" + "".join(f"{r['file_name']},{r['text']},{r['id']}\n" for r in rows))
    elif metadata == "jsonl":
        (root / "train/metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{no json\n")
    else:
        write_parquet(root / "train/metadata.parquet", rows)
    return root


@pytest.mark.parametrize("metadata", ["csv", "jsonl", "parquet"])
def test_a_video_folder_comes_with_its_metadata_and_the_card_s_licence(tmp_path: Path, metadata: str) -> None:
    root = video_folder(tmp_path / "in", metadata)
    (root / "README.md").write_text(CARD.format("cc-by-nc-sa-4.0"))
    entries, row = opened("huggingface", root, tmp_path / "corpus")
    number = str if metadata == "csv" else int
    assert good(entries) == {"train/a.mp4": {"text": "a walk", "facts": {"id": number(1)}},
                             "train/far/b.mp4": {"text": "a drive", "facts": {"id": number(2)}}, "train/c.mp4": {}}
    assert list(numbers(entries).values()) == [counted(0), counted(16), counted(8)]
    assert all(Path(entry.path).is_symlink() for entry in entries if entry.problem is None)     # nothing is copied
    assert bad(entries)["train/gone.mp4"] == (
        f"train/metadata.{metadata} row 3 names train/gone.mp4, which is not there")
    assert (len(bad(entries)) == 2) == (metadata == "jsonl")
    assert row.licence == "CC-BY-NC-SA-4.0"
    assert opened("huggingface", root, tmp_path / "corpus", licence="MIT")[1].licence == "MIT"
    only, _ = opened("huggingface", root, tmp_path / "corpus", only="train/a*")
    assert sorted(good(only)) == ["train/a.mp4"]


def test_metadata_may_name_videos_in_several_columns_and_none_outside_of_the_dataset(tmp_path: Path) -> None:
    root = video_folder(tmp_path / "in", "csv")
    rows = [{"left_file_name": "a.mp4", "right_file_name": "c.mp4", "views_file_names": ["far/b.mp4"], "text": "both"},
            {"left_file_name": "../../secret.mp4"}, {"left_file_name": "a.mp4", "text": "again"}]
    (root / "train/metadata.csv").unlink()
    (root / "train/metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    entries, _ = opened("huggingface", root, tmp_path / "corpus")
    assert good(entries) == {
        "train/a.mp4": {"text": "both", "facts": {"column": "left", "rows": [{"column": "left", "text": "again"}]}},
        "train/c.mp4": {"text": "both", "facts": {"column": "right"}},
        "train/far/b.mp4": {"text": "both", "facts": {"column": "views"}}}
    assert "cannot be a file of the dataset" in bad(entries)["train/metadata.jsonl row 2"]


@pytest.mark.parametrize("is_declared", [True, False])
def test_videos_inside_tables_are_brought_out_under_their_own_names(tmp_path: Path, is_declared: bool) -> None:
    note = {"video": {"_type": "Video"}, "picture": {"_type": "Image"}, "label": {"_type": "Value"}}
    (tmp_path / "in/clips").mkdir(parents=True)
    (tmp_path / "in/clips/far.mp4").write_bytes(video(24))
    picture = {"bytes": b"\x89PNG", "path": "a.png"}
    write_parquet(tmp_path / "in/data/train-00000-of-00001.parquet", [
        {"video": {"bytes": video(0), "path": "walk.mp4"}, "picture": picture, "label": "a walk"},
        {"video": {"bytes": video(8), "path": None}, "picture": picture, "label": "a drive"},
        {"video": {"bytes": video(16, ending="webm"), "path": "../../../walk.mp4"}, "picture": picture, "label": "up"},
        {"video": {"bytes": None, "path": "clips/far.mp4"}, "picture": picture, "label": "far"},
        {"video": {"bytes": None, "path": "/etc/passwd"}, "picture": picture, "label": "gone"},
        {"video": None, "picture": picture, "label": "none"}], note if is_declared else None)
    entries, _ = opened("huggingface", tmp_path / "in", tmp_path / "corpus", only="data/*")
    place = "data/train-00000-of-00001.parquet"
    assert numbers(entries) == {f"{place}/walk.mp4": counted(0), f"{place}/000001.mp4": counted(8),
                                f"{place}/000002-walk.mp4": counted(16), f"{place}/far.mp4": counted(24)}
    assert good(entries)[f"{place}/walk.mp4"]["facts"] == {"label": "a walk", "path": "walk.mp4", "row": 0}
    lines = bad(entries)
    assert "row 4: video holds no bytes, and '/etc/passwd' is no file of this folder" in lines[f"{place}/000004.mp4"]
    assert "row 5: video holds no video" in lines[f"{place}/000005.mp4"] and len(lines) == 2


def test_arrow_files_and_tars_of_a_dataset_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = pa.Table.from_pylist([{"clip": {"bytes": video(0), "path": None}, "prompt": "a walk"}])
    with pa.OSFile(str(tmp_path / "in/data-00000-of-00001.arrow"), "wb") as file, \
            pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    write_tar(tmp_path / "in/0.tar", {"b.mp4": video(8)})
    write_parquet(tmp_path / "in/words.parquet", [{"text": "no video here", "raw": b"nor here"}])
    (tmp_path / "in/broken.parquet").write_bytes(b"PAR1")
    entries, _ = opened("huggingface", tmp_path / "in", tmp_path / "corpus")
    assert numbers(entries) == {"0.tar/b.mp4": counted(8), "data-00000-of-00001.arrow/000000.mp4": counted(0)}
    assert good(entries)["data-00000-of-00001.arrow/000000.mp4"]["text"] == "a walk"
    assert list(bad(entries)) == ["broken.parquet"]


@pytest.mark.parametrize(("card", "licence"), [
    (CARD.format("mit"), "MIT"), (CARD.format("other\nlicense_name: deepseek"), "deepseek"),
    (CARD.format("[cc0-1.0, odbl]"), "CC0-1.0, ODbL-1.0"), (CARD.format("unknown"), None), ("# no front matter", None),
    ("---\nlicense: [\n---\n", None), ("---\nlicense: mit\n", None)])
def test_a_card_states_its_licence_in_its_front_matter(tmp_path: Path, card: str, licence: str | None) -> None:
    (tmp_path / "README.md").write_text(card)
    assert card_licence(tmp_path) == licence


# LeRobot

def test_lerobot_v2_gives_a_row_an_episode_and_camera_with_task_and_robot(tmp_path: Path) -> None:
    root = lerobot_v2(tmp_path / "in")
    (root / "README.md").write_text(CARD.format("apache-2.0"))
    entries, row = opened("lerobot", root, tmp_path / "corpus")
    assert numbers(entries) == {f"{CAMERA}/episode_{i:06d}.mp4": counted(20 * i, n) for i, n in enumerate(LENGTHS)}
    assert good(entries)[f"{CAMERA}/episode_000002.mp4"] == {
        "text": "open the door", "key": f"{CAMERA}/2",
        "facts": {"camera": CAMERA, "codebase_version": "v2.1", "data": "data/chunk-001/episode_000002.parquet",
                  "episode_index": 2, "fps": 8.0, "length": 11, "robot_type": "so101"}}
    assert bad(entries) == {} and row.licence == "Apache-2.0"
    (root / f"videos/chunk-000/{CAMERA}/episode_000001.mp4").unlink()
    assert bad(opened("lerobot", root, tmp_path / "corpus")[0]) == {
        f"{CAMERA}/episode_000001.mp4":
            f"episode 1: videos/chunk-000/{CAMERA}/episode_000001.mp4 is not there"}


@pytest.mark.parametrize("codec", [{}, {"extra": ("-bf", "2")},
                                   {"codec": ("-c:v", "libsvtav1", "-preset", "10", "-pix_fmt", "yuv420p")}])
def test_lerobot_v3_episodes_are_cut_at_their_timestamps_without_encoding_again(
        tmp_path: Path, codec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    root = lerobot_v3(tmp_path / "in", **codec)
    monkeypatch.setattr("worldloom.dataengine.sources.remux.cut", lambda *_: pytest.fail("encoded again"))
    entries, _ = opened("lerobot", root, tmp_path / "corpus")
    assert bad(entries) == {}
    assert numbers(entries) == {f"{CAMERA}/episode_{i:06d}.mp4": counted(20 * i, n) for i, n in enumerate(LENGTHS)}
    times = [frame.time_s for frame in iter_frames(Path(entries[1].path))]
    np.testing.assert_allclose(times, np.arange(LENGTHS[1]) / 8, atol=1e-9)
    facts = good(entries)[f"{CAMERA}/episode_000001.mp4"]["facts"]
    assert (facts["data"], facts["data_rows"]) == ("data/chunk-000/file-000.parquet", [8, 13])
    assert [about["text"] for about in good(entries).values()] == list(TASKS)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot_pictures_inside_the_tables_become_a_video_an_episode(tmp_path: Path, version: str) -> None:
    root = lerobot_pictures(tmp_path / "in", version)
    entries, _ = opened("lerobot", root, tmp_path / "corpus")
    assert bad(entries) == {} and [about["text"] for about in good(entries).values()] == list(TASKS)
    assert numbers(entries) == {f"{CAMERA}/episode_{i:06d}.mp4": counted(sum(LENGTHS[:i]), n)
                                for i, n in enumerate(LENGTHS)}
    times = [frame.time_s for frame in iter_frames(Path(entries[1].path))]
    np.testing.assert_allclose(times, np.arange(LENGTHS[1]) / 8, atol=1e-5)
    made = [Path(entry.path).stat().st_mtime_ns for entry in entries]
    again, _ = opened("lerobot", root, tmp_path / "corpus")
    assert [Path(entry.path).stat().st_mtime_ns for entry in again] == made
    table = next(root.glob("data/*/*000.parquet"))
    rows = pq.read_table(table).to_pylist()
    rows[2][CAMERA]["bytes"] = b"no picture"
    write_parquet(table, rows[:-1])
    lines = bad(opened("lerobot", root, tmp_path / "corpus")[0])
    assert "cannot be read as a picture" in lines[f"{CAMERA}/episode_000000.mp4"] if version == "v3.0" else (
        "7 pictures; its length is 8" in lines[f"{CAMERA}/episode_000000.mp4"])
    assert not list((tmp_path / "corpus").rglob(".pictures-*"))


def test_pointers_of_git_lfs_are_named_as_such(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    root = lerobot_v2(tmp_path / "in")
    (root / f"videos/chunk-000/{CAMERA}/episode_000001.mp4").write_bytes(pointer)
    (line,) = bad(opened("lerobot", root, tmp_path / "one")[0]).values()
    assert line.endswith("is a Git LFS pointer; fetch the file itself (git lfs pull)")
    (root / "data.parquet").write_bytes(pointer)
    lines = bad(opened("huggingface", root, tmp_path / "two")[0])
    assert len(lines) == 2 and all("Git LFS pointer" in line for line in lines.values())


def test_lerobot_rows_that_do_not_fit_their_video_fail_alone(tmp_path: Path) -> None:
    root = lerobot_v3(tmp_path / "in")
    table = root / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(table).to_pylist()
    rows[0]["length"] = 9
    rows[1][f"videos/{CAMERA}/from_timestamp"] = None
    write_parquet(table, rows)
    entries, _ = opened("lerobot", root, tmp_path / "corpus")
    assert sorted(good(entries)) == [f"{CAMERA}/episode_000002.mp4"]
    lines = bad(entries)
    assert lines[f"{CAMERA}/episode_000000.mp4"].startswith("episode 0: 8 frames in [0, 1.00001) s of videos/")
    assert lines[f"{CAMERA}/episode_1"] == f"episode 1 lacks videos/{CAMERA}/from_timestamp in meta/episodes"


def test_a_folder_of_lerobot_datasets_is_read_and_what_cannot_be_is_one_line_each(tmp_path: Path) -> None:
    lerobot_v2(tmp_path / "in/ann/tour")
    write_json(tmp_path / "in/bob/old/meta/info.json", lerobot_info("v1.6"))
    stills = lerobot_info("v2.0", features={"depth": {"dtype": "video", "info": {"video.is_depth_map": True}},
                                            "../up": {"dtype": "video"}})
    write_json(tmp_path / "in/bob/stills/meta/info.json", stills)
    (tmp_path / "in/bob/stills/meta/episodes.jsonl").write_text('{"episode_index": 0, "tasks": ["x"], "length": 3}\n')
    entries, _ = opened("lerobot", tmp_path / "in", tmp_path / "corpus")
    assert len(good(entries)) == 3 and f"ann/tour/{CAMERA}/episode_000000.mp4" in good(entries)
    lines = bad(entries)
    assert "codebase_version v1.6; wanted v2.x or v3.x" in lines["bob/old/meta/info.json"]
    assert "cannot be a folder's name" in lines["bob/stills/../up"]
    assert "holds depth" in lines["bob/stills/depth"] and len(lines) == 3


@pytest.mark.parametrize("template", ["../{video_key}.mp4", "/etc/{video_key}", "{video_key.__class__}.mp4",
                                      "{other}.mp4", "{episode_index:0999d}.mp4"])
def test_paths_of_info_json_stay_inside_the_dataset(template: str) -> None:
    with pytest.raises(DataError, match="leads out of the dataset|has a field"):
        filled(template, {"video_key": "front", "episode_index": 3})
    assert filled("v/{video_key}/e_{episode_index:04d}.mp4", {"video_key": "f", "episode_index": 3}) == "v/f/e_0003.mp4"


# What all share

@pytest.mark.parametrize("extra", [("-bf", "0"), ("-bf", "2")])
@settings(max_examples=12, deadline=None)
@given(bounds=st.tuples(st.integers(0, 23), st.integers(1, 12)))
def test_a_range_has_exactly_its_frames_copied_where_it_can_be(
        tmp_path_factory: pytest.TempPathFactory, extra: tuple[str, ...], bounds: tuple[int, int]) -> None:
    folder = tmp_path_factory.getbasetemp() / f"range{extra[1]}"
    whole = folder / "whole.mp4"
    if not whole.exists():
        folder.mkdir(exist_ok=True)
        tiny_video(whole, 24, fps=8, extra=extra)
    first, stop = bounds[0], min(24, sum(bounds))
    start_s, end_s = (first - 0.5) / 8, (stop - 0.5) / 8
    assert cut_range(whole, folder / "part.mp4", start_s, end_s) == stop - first
    assert shown(folder / "part.mp4") == counted(first, stop - first)
    copied = copy_range(whole, folder / "copy.mp4", start_s, end_s)
    assert copied == (stop - first if first % 12 == 0 and (extra[1] == "0" or stop % 12 == 0) else copied)
    if copied:
        assert shown(folder / "copy.mp4") == counted(first, stop - first)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                    max_leaves=8)


@given(st.dictionaries(st.sampled_from(("caption", "url", "key", "license", "x", "y")) | st.text(), JSON, max_size=6))
def test_what_is_said_of_a_video_is_valid_json_of_bounded_values(facts: dict[str, Any]) -> None:
    text = about_text(facts)
    if text is not None:
        document = json.loads(text)
        assert set(document) <= {"text", "url", "key", "licence", "facts"} and "\0" not in text
        text.encode("utf-8")
        json.dumps(document, allow_nan=False)


def test_values_that_are_too_long_are_named_and_left_out() -> None:
    long = "x" * (MOST_CHARACTERS + 1)
    assert json.loads(about_text({"caption": long, "notes": [long], "id": 7}) or "") == {
        "facts": {"id": 7, "left_out": ["notes", "text"]}}


def test_packed_sources_run_through_the_stages_and_their_bad_rows_fail_alone(tmp_path: Path) -> None:
    video2dataset(tmp_path / "v2d", "tar")
    lerobot_v3(tmp_path / "robot")
    document = {"sources": [{"name": "web", "kind": "video2dataset", "path": str(tmp_path / "v2d")},
                            {"name": "robot", "kind": "lerobot", "path": str(tmp_path / "robot"), "licence": "MIT"}],
                "stages": ["video", "clip"], "workers": 1, "videos_per_part": 2,
                "params": {"clip": {"fps": 8.0, "min_s": 0.5, "max_s": 3.0, "shots": False}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    first = run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    assert first.stages[0].counts["failed"] == 1
    con = open_catalog(tmp_path / "corpus")
    texts = con.sql("SELECT about->>'text' AS t, about->>'$.facts.robot_type' FROM video ORDER BY name").fetchall()
    assert texts == [("a walk", None), ("a drive", None), *((task, "so101") for task in TASKS)]
    assert con.sql("SELECT detail FROM failure").fetchall() == [(
        "00000/000000002: row 000000002: failed_to_download: HTTP 404 not found (https://example.org/2)",)]
    rows = con.sql("SELECT num_frames, fps FROM clip ORDER BY num_frames").fetchall()
    assert rows == [(5, 8.0), (8, 8.0), (8, 8.0), (8, 8.0), (11, 8.0)]
    again = run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    assert all(stage.made == 0 for stage in again.stages)


def test_packed_data_in_a_bucket_is_read_as_the_same_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    try:
        for kind, folder in (("video2dataset", video2dataset(tmp_path / "v2d", "tar")),
                             ("lerobot", lerobot_v3(tmp_path / "robot"))):
            local, _ = opened(kind, folder, tmp_path / "local")
            remote, row = opened(kind, server.bucket(kind, folder), tmp_path / "remote")
            assert (good(remote), bad(remote)) == (good(local), bad(local)) and good(remote)
            assert [Path(e.path).read_bytes() for e in remote if not e.problem] == [
                Path(e.path).read_bytes() for e in local if not e.problem]
            assert row.url == f"s3://{kind}/data"
    finally:
        server.stop()


def test_parts_written_before_videos_had_facts_are_read_beside_new_ones(tmp_path: Path) -> None:
    from worldloom.dataengine.store import part_path, read_manifest

    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.mp4").write_bytes(video(0))
    sources = [{"name": "old", "kind": "folder", "path": str(tmp_path / "in")}]
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump({"sources": sources, "stages": ["video"], "workers": 1}))
    run_plan(load_plan(plan), tmp_path / "corpus", executor="inline", quiet=True)
    (key,) = read_manifest(tmp_path / "corpus")["video"]
    old = part_path(tmp_path / "corpus", "video", key)
    table = pq.read_table(old)
    pq.write_table(table.drop_columns(["about"]), old)
    assert open_catalog(tmp_path / "corpus").sql("SELECT name, about FROM video").fetchall() == [("a.mp4", None)]
    write_tar(tmp_path / "tars/0.tar", {"b.mp4": video(8), "b.txt": b"a drive"})
    sources.append({"name": "new", "kind": "webdataset", "path": str(tmp_path / "tars")})
    plan.write_text(yaml.safe_dump({"sources": sources, "stages": ["video"], "workers": 1}))
    run_plan(load_plan(plan), tmp_path / "corpus", executor="inline", quiet=True)
    found = open_catalog(tmp_path / "corpus").sql("SELECT name, about->>'text' FROM video ORDER BY 1").fetchall()
    assert found == [("0.tar/b.mp4", "a drive"), ("a.mp4", None)]


@pytest.mark.parametrize("kind", ["webdataset", "video2dataset", "huggingface", "lerobot"])
def test_a_path_that_is_not_there_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        open_source(SourceParams(name="s", kind=kind, path=str(tmp_path / "none")))


def test_videos_without_poses_open_from_the_command_line_without_a_problem(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "in.tar")) as tar:
        tar.write({"__key__": "one", "mp4": video(0)})
    command = ["open", "webdataset", str(tmp_path), "--out", str(tmp_path / "o"), "--json"]
    done = CliRunner().invoke(sources_app, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"name": "in.tar/one.mp4", "problem": None, "poses": 0}
