from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace
from tiny import H264, ffmpeg, picture, read_number, tiny_video, two_rate_video, write_video

from worldloom.dataengine.stage import ALIVE
from worldloom.dataengine.video import index
from worldloom.dataengine.video.encode import ClipWriter
from worldloom.dataengine.video.framing import framing
from worldloom.dataengine.video.nal import holds_no_picture
from worldloom.dataengine.video.probe import probe, probing
from worldloom.dataengine.video.read import iter_frames, read_frames
from worldloom.schemas import DataError, DecodeError

AWKWARD = Path(__file__).resolve().parents[2] / "../shared/data/awkward"


def turned_video(path: Path, degrees: int) -> Path:
    """Stored pictures turned counter-clockwise by `degrees`, and a display matrix that turns them back."""
    flat = path.with_name("flat.mp4")
    write_video(flat, [np.ascontiguousarray(np.rot90(picture(i), degrees // 90)) for i in range(24)])
    ffmpeg("-display_rotation", str(-degrees), "-i", flat, "-c", "copy", path)
    return path


def test_variable_rate_times_come_from_the_file(tmp_path: Path) -> None:
    found = probe(two_rate_video(tmp_path / "v.mp4"))
    want = [i / 24 for i in range(24)] + [1 + i / 8 for i in range(24)]
    assert np.allclose(found.timing.times_s, want, atol=1e-6)
    assert found.timing.is_variable_rate and found.num_frames == 48
    assert found.timing.fps == pytest.approx(24.0)
    assert found.duration_s == pytest.approx(3.875 + 1 / 24, abs=1e-6)


def test_a_time_range_is_half_open(tmp_path: Path) -> None:
    path = two_rate_video(tmp_path / "v.mp4")
    frames = list(iter_frames(path, start_s=1.0, stop_s=2.0))
    assert [f.index for f in frames] == list(range(24, 32))
    assert [read_number(f.rgb_HWC) for f in frames] == list(range(24, 32))


def test_a_range_inside_one_long_gop_is_exact(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 96, extra=("-g", "250", "-bf", "3"))
    assert [read_number(f) for f in read_frames(path, start=36, stop=60)] == list(range(36, 60))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_display_rotation_is_applied_once(tmp_path: Path, degrees: int) -> None:
    path = turned_video(tmp_path / "v.mp4", degrees)
    found = probe(path)
    assert (found.width, found.height) == (160, 96)
    assert found.geometry.rotation_deg == degrees
    frames = read_frames(path)
    assert [read_number(f) for f in frames] == list(range(24))
    red = frames[0][84:92, 4:12].astype(float).mean((0, 1))
    assert red[0] > 180 and red[1] < 80


@pytest.mark.parametrize("degrees", [0, 90])
def test_a_mirrored_display_agrees_with_ffmpeg(tmp_path: Path, degrees: int) -> None:
    flat, path, want = tmp_path / "flat.mp4", tmp_path / "v.mp4", tmp_path / "want.mp4"
    tiny_video(flat, 4)
    ffmpeg("-display_rotation", str(degrees), "-display_hflip", "-i", flat, "-c", "copy", path)
    ffmpeg("-i", path, "-c:v", "libx264", "-crf", "4", "-map_metadata", "-1", want)
    assert probe(path).geometry.is_flipped
    assert np.abs(read_frames(path).astype(int) - read_frames(want)).mean() < 4


def test_non_square_pixels_are_made_square(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", extra=("-vf", "setsar=4/3"))
    found = probe(path)
    assert (found.width, found.height) == (213, 96)
    frames = read_frames(path)
    assert frames.shape == (24, 96, 213, 3)
    assert read_number(frames[11]) == 11


@pytest.mark.parametrize("is_full", [True, False])
def test_full_and_limited_range_give_the_same_greys(tmp_path: Path, is_full: bool) -> None:
    greys = (0, 64, 128, 192, 255)
    bars = np.repeat(np.array(greys, np.uint8), 32)[None, :, None].repeat(96, 0).repeat(3, 2)
    path = write_video(tmp_path / "v.mp4", [np.ascontiguousarray(bars)] * 4, extra=(
        "-vf", f"scale=out_color_matrix=bt709:out_range={'pc' if is_full else 'tv'}",
        "-colorspace", "bt709", "-color_range", "pc" if is_full else "tv"))
    shown = read_frames(path)[0][48, 16::32].astype(int)
    assert np.abs(shown - np.array(greys)[:, None]).max() <= 4


def test_ten_bit_pictures_are_rounded_to_eight(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", [picture(i) for i in range(24)], codec=(
        "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p10le"))
    assert probe(path).pix_fmt == "yuv420p10le"
    assert [read_number(f) for f in read_frames(path)] == list(range(24))


def test_a_truncated_file_is_used_up_to_its_last_good_frame(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 96, extra=("-movflags", "+faststart"))
    raw = path.read_bytes()
    path.write_bytes(raw[:len(raw) * 6 // 10])
    found = probe(path)
    assert 20 < found.num_frames < 96 and found.header_frames == 96
    assert any(note.startswith(f"damaged: {found.num_frames} of 96") for note in found.notes)
    numbers = [read_number(f) for f in read_frames(path, damaged="stop")]
    assert numbers == list(range(found.num_frames))
    with pytest.raises(DecodeError, match="breaks off"):
        read_frames(path)


def test_files_without_pictures_fail_with_one_clear_line(tmp_path: Path) -> None:
    sound = tmp_path / "sound.mp4"
    ffmpeg("-f", "lavfi", "-i", "sine=duration=0.5", "-c:a", "aac", sound)
    text, empty = tmp_path / "text.mp4", tmp_path / "empty.mp4"
    text.write_text("a note, not a video\n" * 20)
    empty.write_bytes(b"")
    for path, words in ((sound, "no video stream"), (text, "not a readable video"), (empty, "empty file"),
                        (tmp_path / "gone.mp4", "no such file")):
        with pytest.raises(DecodeError, match=words) as caught:
            probe(path)
        assert path.name in str(caught.value) and "\n" not in str(caught.value)


def test_a_playlist_under_a_video_name_opens_no_other_file(tmp_path: Path) -> None:
    tiny_video(tmp_path / "v.mp4", 4)
    playlist = tmp_path / "list.mp4"
    playlist.write_text("ffconcat version 1.0\nfile v.mp4\n")
    with pytest.raises(DecodeError, match="not a readable video"):
        probe(playlist)


def test_the_film_is_chosen_and_not_its_cover(tmp_path: Path) -> None:
    film = tiny_video(tmp_path / "film.mp4")
    ffmpeg("-f", "lavfi", "-i", "color=red:s=64x64", "-frames:v", "1", tmp_path / "cover.jpg")
    path = tmp_path / "v.mp4"
    ffmpeg("-i", tmp_path / "cover.jpg", "-i", film, "-map", "0", "-map", "1", "-c", "copy", "-disposition:v:0",
           "attached_pic", path)
    found = probe(path)
    assert (found.width, found.num_frames) == (160, 24)
    assert any("cover" in note for note in found.notes)


def test_a_live_matroska_file_gets_its_count_and_length_by_reading(tmp_path: Path) -> None:
    found = probe(tiny_video(tmp_path / "v.mkv", extra=("-f", "matroska", "-live", "1")))
    assert found.num_frames == 24 and found.header_frames is None
    assert found.duration_s == pytest.approx(1.0, abs=0.003)
    assert found.timing.fps == pytest.approx(24.0, abs=0.05)


def test_frames_past_the_end_are_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="24 there|asked"):
        read_frames(tiny_video(tmp_path / "v.mp4"), start=20, stop=30)


def test_gray_and_resized_frames_keep_their_numbers(tmp_path: Path) -> None:
    frames = read_frames(tiny_video(tmp_path / "v.mp4"), width=80, gray=True)
    assert frames.shape == (24, 48, 80) and frames.dtype == np.uint8
    assert read_number(frames[13]) == 13


def canonical(rgb_HWC: np.ndarray) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(rgb_HWC, format="rgb24").reformat(
        format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG)


def write_clip(path: Path, rate: Fraction = Fraction(24)) -> Path:
    with ClipWriter(path.with_suffix(".part"), width=160, height=96, rate=rate) as writer:
        for i in range(24):
            writer.write(canonical(picture(i)))
        writer.close(path)
    return path


def test_equal_pictures_give_equal_bytes(tmp_path: Path) -> None:
    assert write_clip(tmp_path / "a.mp4").read_bytes() == write_clip(tmp_path / "b.mp4").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]


def test_a_canonical_clip_keeps_colours_rate_and_numbers(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", Fraction(30000, 1001))
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.average_rate == Fraction(30000, 1001)
        assert (stream.codec_context.colorspace, stream.codec_context.color_range) == (1, 1)
        assert stream.codec_context.pix_fmt == "yuv420p"
    assert path.read_bytes()[:64].find(b"moov") > 0   # playable before it is all there
    frames = read_frames(path)
    assert [read_number(f) for f in frames] == list(range(24))
    error = np.abs(frames[5].astype(int) - picture(5).astype(int))[20:76].mean()
    assert error < 6


def test_a_failed_clip_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the clip takes"):
        with ClipWriter(tmp_path / "a.part", width=160, height=96, rate=Fraction(24)) as writer:
            writer.write(canonical(np.zeros((10, 10, 3), np.uint8)))
    assert list(tmp_path.iterdir()) == []


def test_cropping_covers_the_frame_from_the_middle() -> None:
    frame = framing((1920, 1080), 320, 240)
    assert (frame.scaled_width, frame.scaled_height) == (427, 240)
    assert (frame.left, frame.top) == (52, 0)
    assert frame.scale_x == 427 / 1920 and frame.scale_y == 240 / 1080
    assert frame.crop_x_px == pytest.approx(52 * 1920 / 427) and frame.crop_y_px == 0
    odd = framing((161, 121), None, None)
    assert (odd.width, odd.height, odd.scale_x, odd.crop_x_px) == (160, 120, 1.0, 0.0)
    one = framing((160, 90), None, 60)
    assert (one.width, one.height) == (106, 60) and one.scale_x == 106 / 160
    with pytest.raises(DataError, match="too small"):
        framing((1, 1), None, None)


def test_reading_parameters_loads_no_decoder() -> None:
    code = ("import sys, worldloom.dataengine.split, worldloom.dataengine.sources.ingest;"
            "sys.exit(any(m in sys.modules for m in ('av', 'cv2', 'torch')))")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_film_that_must_be_decoded_to_be_counted_says_that_it_gets_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a beat for every frame: one that is decoded gives as many as frames, one known by its packets none."""
    monkeypatch.setattr(index, "ALIVE_EVERY_S", -1.0)
    for name, codec, beats in (("v.avi", ("-c:v", "mpeg4"), 24), ("v.mp4", H264, 0)):
        path = write_video(tmp_path / name, [picture(i) for i in range(24)], codec=codec)
        assert list(probing(path)) == [ALIVE] * beats
        assert probe(path).num_frames == 24


def test_packets_that_only_say_something_about_pictures_are_known() -> None:
    avcc, notes, field = b"\x01\x64\x00\x1f\xff", b"\0\0\0\x02\x09\xf0", b"\0\0\0\x03\x41\x9a\x00"
    assert holds_no_picture("h264", avcc, notes) and holds_no_picture("h264", avcc, notes + b"\0\0\0\x02\x06\x01")
    assert not holds_no_picture("h264", avcc, notes + field) and not holds_no_picture("h264", avcc, b"")
    assert not holds_no_picture("h264", avcc, notes + b"\0\0\0\x01\x65")
    assert holds_no_picture("h264", b"", b"\0\0\0\x01\x09\xf0\0\0\x01\x67\x42")
    assert not holds_no_picture("h264", b"", b"\0\0\x01\x09\xf0\0\0\x01\x21\x42")
    assert holds_no_picture("hevc", b"", b"\0\0\x01\x40\x01") and not holds_no_picture("hevc", b"", b"\0\0\x01\x26\x01")
    assert not holds_no_picture("vp9", avcc, notes)


def test_fields_and_notes_in_packets_of_their_own_give_whole_frames_at_the_times_of_the_file(shared_data: Path) -> None:
    """H.264 fields, each in a sample and its SEI in another: FFmpeg shows 163 frames, 4 or 5 samples apart."""
    path = shared_data / "awkward" / "attachment631-small.mp4"
    found = probe(path)
    ticks = np.round(found.timing.times_s * 60).astype(int)
    assert found.num_frames == 163 and (ticks[0], ticks[-1]) == (6, 655)
    assert set(np.diff(ticks)) == {4, 5} and not found.is_counted_by_packets
    frames = list(iter_frames(path, width=90))
    assert [f.time_s for f in frames] == found.timing.times_s.tolist()
    steps = [np.abs(a.rgb_HWC.astype(int) - b.rgb_HWC).mean() for a, b in zip(frames, frames[1:], strict=False)]
    assert min(steps) > 0.05                             # every frame is a picture of its own


@pytest.mark.skipif(not AWKWARD.is_dir(), reason="the shared files are not here")
def test_every_awkward_file_is_read_or_refused_in_one_line() -> None:
    read = refused = 0
    for path in sorted(AWKWARD.iterdir()):
        if path.stat().st_size > 2_000_000:
            continue
        try:
            assert probe(path).num_frames > 0
            read += 1
        except DecodeError as error:
            assert "\n" not in str(error)
            refused += 1
    assert read >= 36 and refused >= 7
