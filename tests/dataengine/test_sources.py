from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError
from tiny import ffmpeg, tiny_video

from worldloom.dataengine.plan import load_plan, stage_params
from worldloom.dataengine.sources import FileEntry, SourceParams, open_source
from worldloom.dataengine.sources.ingest import VideoStage
from worldloom.dataengine.stage import Context, decode_name
from worldloom.schemas import ConfigError, DecodeError, Video, ids


def listed(root: Path, **params: object) -> list[FileEntry]:
    return list(open_source(SourceParams(name="s", path=str(root), **params)).entries())  # type: ignore[arg-type]


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def test_videos_are_listed_by_name_and_hidden_or_other_files_are_not(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.MKV", "a.mp4", "b/1.gif", ".hidden/c.mp4", ".d.mp4", "notes.txt", "-dash.webm", "sp ace.mov")
    assert [entry.name for entry in listed(tmp_path)] == ["-dash.webm", "a.mp4", "b/1.gif", "b/2.MKV", "sp ace.mov"]


def test_link_loops_end_and_a_dangling_link_is_still_listed(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.mp4")
    (tmp_path / "in" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone.mp4").symlink_to(tmp_path / "nowhere.mp4")
    entries = {entry.name: entry for entry in listed(tmp_path)}
    assert sorted(entries) == ["gone.mp4", "in/a.mp4"]
    with pytest.raises(DecodeError, match="no such file"):
        list(VideoStage().process({"file": entries["gone.mp4"]}))


def test_undecodable_file_names_come_back_byte_for_byte(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/bad\xff\\name.mp4"
    tiny_video(tmp_path / "v.mp4", 4)
    os.rename(tmp_path / "v.mp4", raw)
    (entry,) = listed(tmp_path)
    assert os.fsencode(decode_name(entry.name)) == b"bad\xff\\name.mp4"
    (video,) = VideoStage().process({"file": entry})
    assert video.num_frames == 4 and video.name == entry.name


def test_sidecars_are_attached_only_where_they_are_asked_for(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "a.truth.parquet", "b.mp4", "b.poses.json", "c.mp4")
    assert [e.sidecar for e in listed(tmp_path)] == [None, None, None]
    assert [e.sidecar for e in listed(tmp_path, sidecars=True)] == ["a.truth.parquet", "b.poses.json", None]
    assert [e.sidecar for e in listed(tmp_path, kind="vizdoom")] == ["a.truth.parquet", None, None]
    assert [e.sidecar for e in listed(tmp_path, kind="posed")] == [None, "b.poses.json", None]


def test_a_source_row_holds_the_terms_and_no_path(tmp_path: Path) -> None:
    params = SourceParams(name="doom", kind="vizdoom", path=str(tmp_path), licence="BSD-3-Clause", perspective="fps")
    row = open_source(params).source_row()
    assert row.source_id == ids.source_id("vizdoom", "doom")
    assert (row.licence, row.perspective, row.pose_mode, row.scale_status) == ("BSD-3-Clause", "fps", "engine", "exact")


def test_wrong_sources_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kinds: 7scenes, .*folder, .*posed"):
        open_source(SourceParams(name="s", path=str(tmp_path), kind="ftp"))
    with pytest.raises(ConfigError, match="is not a folder"):
        open_source(SourceParams(name="s", path=str(tmp_path / "none")))
    with pytest.raises(ValidationError):
        SourceParams(name="s", path="x", perspectve="fps")  # type: ignore[call-arg]


def test_a_video_row_says_what_decodes(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "a.mp4", 24)
    stage = VideoStage()
    stage.setup(Context(tmp_path))
    (video,) = stage.process({"file": listed(tmp_path)[0]})
    assert isinstance(video, Video)
    assert video.video_id == ids.file_sha256(path) and video.bytes == path.stat().st_size
    assert (video.width, video.height, video.num_frames, video.fps) == (160, 96, 24, 24.0)
    assert video.duration_s == pytest.approx(1.0) and not video.is_variable_rate and video.codec == "h264"


def test_sound_longer_than_the_picture_does_not_lengthen_the_video(tmp_path: Path) -> None:
    picture = tiny_video(tmp_path / "p.mp4", 24)
    (tmp_path / "in").mkdir()
    ffmpeg("-i", picture, "-f", "lavfi", "-i", "sine=duration=4", "-map", "0:v", "-map", "1:a", "-c:v", "copy",
           "-c:a", "aac", tmp_path / "in" / "v.mp4")
    (video,) = VideoStage().process({"file": listed(tmp_path / "in")[0]})
    assert video.num_frames == 24 and video.duration_s == pytest.approx(1.0)


def test_a_format_is_probed_whatever_the_extension_says(tmp_path: Path) -> None:
    tiny_video(tmp_path / "v.mkv", 6)
    shutil.move(tmp_path / "v.mkv", tmp_path / "v.mp4")
    (video,) = VideoStage().process({"file": listed(tmp_path)[0]})
    assert video.container == "matroska,webm" and video.num_frames == 6


def test_a_declared_lens_reaches_the_camera_stage(tmp_path: Path) -> None:
    document = tmp_path / "plan.yaml"
    document.write_text("sources: [{name: a, path: ., camera: {hfov_deg: 80.0, camera_model: yshear}}]\n"
                        "params: {camera: {find_focal: false}}\n")
    params = stage_params(load_plan(document), "camera")
    assert params["find_focal"] is False
    assert list(params["declared"].values()) == [{"hfov_deg": 80.0, "camera_model": "yshear"}]
