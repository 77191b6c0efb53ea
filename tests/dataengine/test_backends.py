"""Other decoders than PyAV: the same frames, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_split import shown
from tiny import picture, read_number, tiny_video, two_rate_video, write_video

from worldloom.dataengine.sources import FileEntry
from worldloom.dataengine.sources.ingest import VideoParams, VideoStage
from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video import backends
from worldloom.dataengine.video.probe import probe
from worldloom.dataengine.video.read import iter_frames, read_frames
from worldloom.schemas import Clip, ConfigError, DecodeError, Video

REAL = "video/curation/bikes.mp4"
DAMAGED = "awkward/decord_corrupted.mp4"
EDIT_LIST = "awkward/elst_ends_betn_b_and_i.mp4"
OVERLAP = "awkward/frag_overlap.mp4"


@pytest.fixture(params=backends.OTHERS)
def other(request: pytest.FixtureRequest) -> str:
    """Each other decoder that can be loaded here."""
    try:
        backends.need(request.param)
    except ConfigError as error:
        assert request.param in str(error) and "install worldloom" in str(error)
        pytest.skip(str(error))
    return request.param


def row(path: Path, backend: str) -> Video:
    stage = VideoStage(VideoParams(backend=backend))  # type: ignore[arg-type]
    stage.setup(Context(path.parent))
    (video,) = stage.process({"file": FileEntry(path.name, str(path), "s")})
    return video


def test_another_decoder_gives_the_same_frames_at_the_same_times(tmp_path: Path, other: str) -> None:
    path = tiny_video(tmp_path / "v.mp4", 60, extra=("-g", "250", "-bf", "3"))
    for start in (0, 37):
        ours, theirs = list(iter_frames(path, start=start)), list(iter_frames(path, start=start, backend=other))
        assert [f.index for f in theirs] == [read_number(f.rgb_HWC) for f in theirs] == list(range(start, 60))
        assert np.allclose([f.time_s for f in theirs], [f.time_s for f in ours], atol=1e-9)
        for a, b in zip(ours, theirs, strict=True):
            assert np.abs(a.rgb_HWC.astype(int) - b.rgb_HWC).mean() < 4
    small = read_frames(path, width=80, gray=True, backend=other)
    assert small.shape == (60, 48, 80) and read_number(small[13]) == 13


def test_a_real_video_has_the_same_frames(shared_data: Path, other: str) -> None:
    path = shared_data / REAL
    assert backends.choose(other, path, probe(path)) == (other, None)
    ours, theirs = read_frames(path, width=160), read_frames(path, width=160, backend=other)
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs).mean(axis=(1, 2, 3)).max() < 6     # other scalers


def test_the_row_says_which_decoder_and_the_clips_are_numbered_right(tmp_path: Path, other: str) -> None:
    path = tiny_video(tmp_path / "v.mp4", 60, looks=((0, 0), (20, 3)), extra=("-bf", "3"))
    clips = {}
    for backend in ("pyav", other):
        video = row(path, backend)
        assert video.backend == backend and not video.notes
        stage = SplitStage(SplitParams(min_s=0.5, crop_bars=True))
        stage.setup(Context(tmp_path / "c", {"s": str(tmp_path)}))
        clips[backend] = [clip for clip in stage.process({"video": video}) if isinstance(clip, Clip)]
        assert [shown(tmp_path / "c", clip) for clip in clips[backend]] == [list(range(20)), list(range(20, 60))]
    assert not {c.clip_id for c in clips["pyav"]} & {c.clip_id for c in clips[other]}


def test_unusual_files_are_left_to_pyav_and_the_row_says_why(tmp_path: Path, other: str) -> None:
    pictures = [picture(i) for i in range(24)]
    cases = {
        two_rate_video(tmp_path / "vfr.mp4"): "variable frame rate",
        tiny_video(tmp_path / "sar.mp4", extra=("-vf", "setsar=4/3")): "pixels",
        write_video(tmp_path / "m.avi", pictures, codec=("-c:v", "mpeg4")): "mpeg4 in yuv420p",
        write_video(tmp_path / "444.mp4", pictures, codec=("-c:v", "libx264", "-pix_fmt", "yuv444p")): "yuv444p",
    }
    for path, words in cases.items():
        video = row(path, other)
        assert video.backend == "pyav" and f"{other} not used: " in video.notes[-1] and words in video.notes[-1]
        assert not any("not used" in note for note in row(path, "pyav").notes)


def test_a_decoder_that_counts_other_frames_is_not_used(shared_data: Path, other: str) -> None:
    assert row(shared_data / EDIT_LIST, other).backend == "pyav"
    if other == "decord":
        video = row(shared_data / OVERLAP, other)
        assert video.backend == "pyav" and "decord not used: it counts 108 frames of 96" in video.notes


def test_damage_is_an_error_and_no_shorter_film(shared_data: Path, other: str) -> None:
    with pytest.raises(DecodeError, match=other):
        list(iter_frames(shared_data / DAMAGED, backend=other))


def test_an_unknown_or_absent_decoder_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="pyav, decord, torchcodec"):
        list(iter_frames(tmp_path / "v.mp4", backend="gstreamer"))
    monkeypatch.setattr(backends.backend("decord"), "PACKAGE", "decord_that_is_absent")
    with pytest.raises(ConfigError, match="video backend decord_that_is_absent cannot be loaded.*install worldloom"):
        VideoStage(VideoParams(backend="decord")).setup(Context(tmp_path))
