from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tiny import ffmpeg, picture, read_number, tiny_video, two_rate_video, write_video

from worldloom.dataengine.sources import FileEntry
from worldloom.dataengine.sources.ingest import VideoStage
from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video.cadence import exact_rate
from worldloom.dataengine.video.read import read_frames
from worldloom.schemas import Clip, ConfigError, DataError, Drop, Video, ids

BIKES = Path(__file__).resolve().parents[2] / "../shared/data/video/curation/bikes.mp4"


def split(path: Path, corpus: Path, **params: object) -> tuple[Video, list[Clip | Drop]]:
    """The video row and what the clip stage gives for it; every frame must be accounted for once."""
    (video,) = VideoStage().process({"file": FileEntry(path.name, str(path), "s")})
    stage = SplitStage(SplitParams(**params))  # type: ignore[arg-type]
    stage.setup(Context(corpus, {"s": str(path.parent)}))
    rows = list(stage.process({"video": video}))
    ranges = [frame_range(row) for row in rows]
    assert ranges[0][0] == 0 and ranges[-1][1] == video.num_frames
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert not list((corpus / "tmp").iterdir())
    return video, rows


def frame_range(row: Clip | Drop) -> tuple[int, int]:
    if isinstance(row, Clip):
        return row.start_frame, row.stop_frame
    start, stop = row.row_key.rpartition(":")[2].split("-")
    return int(start), int(stop)


def shown(corpus: Path, clip: Clip) -> list[int]:
    return [read_number(frame) for frame in read_frames(corpus / clip.media)]


def test_clips_are_cut_at_hard_cuts_and_hold_no_frame_of_a_neighbour(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 60, looks=((0, 0), (20, 3), (41, 1)), extra=("-g", "250", "-bf", "3"))
    _, rows = split(path, tmp_path / "c", min_s=0.5)
    assert [frame_range(row) for row in rows] == [(0, 20), (20, 41), (41, 60)]
    assert [row.cut_by for row in rows if isinstance(row, Clip)] == ["start", "histogram", "histogram"]
    for row in rows:
        assert isinstance(row, Clip)
        assert shown(tmp_path / "c", row) == row.source_frames == list(range(row.start_frame, row.stop_frame))


def test_without_shots_only_windows_cut(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 60, looks=((0, 0), (20, 3)))
    _, rows = split(path, tmp_path / "c", shots=False)
    assert [frame_range(row) for row in rows] == [(0, 60)]


def test_a_remainder_is_dropped_by_name_and_lengths_add_up(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 100)
    video, rows = split(path, tmp_path / "c", max_s=2.0)
    assert [frame_range(row) for row in rows] == [(0, 48), (48, 96), (96, 100)]
    drop = rows[-1]
    assert isinstance(drop, Drop) and drop.reason == "too_short" and drop.row_key == f"{video.video_id}:96-100"
    assert sum(stop - start for start, stop in map(frame_range, rows)) == 100
    media = sorted(p.relative_to(tmp_path / "c").as_posix() for p in (tmp_path / "c" / "media").rglob("*.mp4"))
    assert media == sorted(row.media for row in rows if isinstance(row, Clip))


def test_one_frame_is_dropped_as_too_short(tmp_path: Path) -> None:
    _, (drop,) = split(tiny_video(tmp_path / "v.mp4", 1), tmp_path / "c")
    assert isinstance(drop, Drop) and drop.reason == "too_short"


def test_a_lower_rate_takes_the_latest_frame_due_and_keeps_its_own_time(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 48)
    _, (first, second) = split(path, tmp_path / "c", fps=8, max_s=1.0)
    assert isinstance(first, Clip) and isinstance(second, Clip)
    assert frame_range(first) == (0, 24) and frame_range(second) == (24, 48)
    assert (first.fps, first.num_frames) == (8.0, 8)
    assert first.source_frames == shown(tmp_path / "c", first)
    assert np.allclose(first.frame_times_s, np.array(first.source_frames) / 24)
    for tick, time in enumerate(first.frame_times_s):
        assert tick / 8 - 1 / 24 <= time <= tick / 8 + 0.5 / 8 + 1e-6


def test_a_rate_over_the_source_keeps_the_source_rate(tmp_path: Path) -> None:
    _, (clip,) = split(tiny_video(tmp_path / "v.mp4", 30), tmp_path / "c", fps=60)
    assert isinstance(clip, Clip) and clip.fps == 24.0 and clip.source_frames == list(range(30))


def test_a_variable_rate_becomes_constant_and_shows_no_frame_twice(tmp_path: Path) -> None:
    _, rows = split(two_rate_video(tmp_path / "v.mp4"), tmp_path / "c", shots=False)
    (clip,) = rows
    assert isinstance(clip, Clip) and clip.fps == 8.0
    assert all(a < b for a, b in pairwise(clip.source_frames))
    assert clip.source_frames[-23:] == list(range(25, 48))
    assert shown(tmp_path / "c", clip) == clip.source_frames


def test_clips_are_upright_square_and_even_with_their_geometry_recorded(tmp_path: Path) -> None:
    odd = write_video(tmp_path / "odd.mp4", [picture(i, 161, 121) for i in range(30)], codec=(
        "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv444p"))
    _, (clip,) = split(odd, tmp_path / "c")
    assert isinstance(clip, Clip) and (clip.width, clip.height, clip.scale_x) == (160, 120, 1.0)
    wide = tiny_video(tmp_path / "wide.mp4", 30, extra=("-vf", "setsar=4/3"))
    _, (clip,) = split(wide, tmp_path / "c")
    assert isinstance(clip, Clip) and (clip.width, clip.height) == (212, 96)
    _, (clip,) = split(wide, tmp_path / "c", width=96, height=64)
    assert isinstance(clip, Clip) and (clip.width, clip.height) == (96, 64)
    assert clip.scale_x == 142 / 213 and clip.scale_y == 64 / 96 and clip.crop_x_px == 22 / (142 / 213)
    assert read_frames(tmp_path / "c" / clip.media).shape == (30, 64, 96, 3)


def test_the_same_video_gives_the_same_ids_bytes_and_split(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 30)
    video, (first,) = split(path, tmp_path / "c1")
    _, (second,) = split(path, tmp_path / "c2")
    assert isinstance(first, Clip) and isinstance(second, Clip)
    assert (first.clip_id, first.media_sha256, first.split) == (second.clip_id, second.media_sha256, second.split)
    assert first.media_sha256 == ids.file_sha256(tmp_path / "c1" / first.media)
    assert first.split == ("test" if ids.unit_interval(video.video_id, "split") < 0.1 else "train")
    _, (smaller,) = split(path, tmp_path / "c1", width=80, height=48)
    assert isinstance(smaller, Clip) and smaller.clip_id != first.clip_id


def test_a_damaged_video_gives_clips_up_to_its_last_good_frame(tmp_path: Path) -> None:
    path = tiny_video(tmp_path / "v.mp4", 96, extra=("-movflags", "+faststart"))
    raw = path.read_bytes()
    path.write_bytes(raw[:len(raw) * 7 // 10])
    video, rows = split(path, tmp_path / "c")
    (clip,) = rows
    assert isinstance(clip, Clip) and clip.stop_frame == video.num_frames < 96
    assert shown(tmp_path / "c", clip) == list(range(video.num_frames))


def test_a_flash_and_a_fast_turn_are_not_cuts(tmp_path: Path) -> None:
    pictures = [np.roll(picture(i, 160, 96, 2), 14 * i, axis=1) for i in range(60)]
    pictures[30] = np.full_like(pictures[30], 255)
    path = write_video(tmp_path / "v.mp4", [np.ascontiguousarray(p) for p in pictures])
    _, rows = split(path, tmp_path / "c")
    assert [frame_range(row) for row in rows] == [(0, 60)]


def test_a_sudden_tint_over_the_picture_is_not_a_cut(tmp_path: Path) -> None:
    pictures = [picture(i, 160, 96, 2) for i in range(40)]
    for age, i in enumerate(range(20, 40)):
        amber = np.array([200, 160, 0]) * 0.6 ** (age / 3 + 1)
        pictures[i] = (pictures[i] * (1 - 0.5 * 0.8**age) + amber).clip(0, 255).astype(np.uint8)
    _, rows = split(write_video(tmp_path / "v.mp4", pictures), tmp_path / "c")
    assert [frame_range(row) for row in rows] == [(0, 40)]


def test_a_picture_of_one_pixel_fails_alone(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", [np.zeros((1, 1, 3), np.uint8)] * 3, codec=(
        "-c:v", "libx264", "-pix_fmt", "yuv444p"))
    with pytest.raises(DataError, match="too small"):
        split(path, tmp_path / "c")


def barred(top: int, bottom: int, left: int, right: int) -> list[np.ndarray]:
    """30 numbered pictures of 160x96 between black bars; the first five are black."""
    inner = [picture(i, 160, 96) * (i >= 5) for i in range(30)]
    return [np.pad(p, ((top, bottom), (left, right), (0, 0))).astype(np.uint8) for p in inner]


@pytest.mark.parametrize(("top", "bottom", "left", "right"), [(24, 24, 0, 0), (0, 0, 40, 42), (16, 16, 8, 8)])
def test_black_bars_are_cut_off_to_the_pixel_and_recorded(
    tmp_path: Path, top: int, bottom: int, left: int, right: int
) -> None:
    path = write_video(tmp_path / "v.mp4", barred(top, bottom, left, right))
    _, (clip,) = split(path, tmp_path / "c", crop_bars=True, shots=False)
    assert isinstance(clip, Clip) and (clip.width, clip.height) == (160, 96)
    assert (clip.crop_x_px, clip.crop_y_px, clip.scale_x, clip.scale_y) == (left, top, 1.0, 1.0)
    assert shown(tmp_path / "c", clip)[5:] == list(range(5, 30))
    pictures = read_frames(tmp_path / "c" / clip.media)
    assert np.abs(pictures[20].astype(int) - picture(20)).mean() < 6        # the loss of two H.264 encodings
    _, (half,) = split(path, tmp_path / "c", crop_bars=True, shots=False, width=80, height=40)
    assert isinstance(half, Clip) and half.scale_x == half.scale_y == 0.5
    assert (half.crop_x_px, half.crop_y_px) == (left, top + 8)
    _, (whole,) = split(path, tmp_path / "c", shots=False)
    assert isinstance(whole, Clip) and whole.clip_id != clip.clip_id
    assert (whole.width, whole.height, whole.crop_y_px) == (160 + left + right, 96 + top + bottom, 0)


def test_bars_of_a_turned_picture_are_recorded_as_displayed(tmp_path: Path) -> None:
    stored = [np.ascontiguousarray(np.rot90(p)) for p in barred(24, 26, 0, 0)]
    write_video(tmp_path / "flat.mp4", stored)
    ffmpeg("-display_rotation", "-90", "-i", tmp_path / "flat.mp4", "-c", "copy", tmp_path / "v.mp4")
    _, (clip,) = split(tmp_path / "v.mp4", tmp_path / "c", crop_bars=True, shots=False)
    assert isinstance(clip, Clip) and (clip.width, clip.height, clip.crop_x_px, clip.crop_y_px) == (160, 96, 0, 24)
    assert shown(tmp_path / "c", clip)[5:] == list(range(5, 30))


def test_a_dark_sky_or_a_bar_that_is_lit_later_is_no_bar(tmp_path: Path) -> None:
    sky = write_video(tmp_path / "sky.mp4", barred(40, 0, 0, 0))
    lit = barred(24, 24, 0, 0)
    for frame in lit[24:]:
        frame[:20] = frame[-20:] = 180
    later = write_video(tmp_path / "later.mp4", lit)
    for path, height in ((sky, 136), (later, 144)):
        _, (clip,) = split(path, tmp_path / "c", crop_bars=True, shots=False)
        assert isinstance(clip, Clip) and (clip.width, clip.height, clip.crop_y_px) == (160, height, 0)


def test_parameters_that_contradict_are_refused() -> None:
    for wrong in ({"min_s": 5, "max_s": 2}, {"width": 161}, {"fps": 0}, {"hieght": 96}):
        with pytest.raises((ValueError, ConfigError)):
            SplitParams(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fps", "want"), [
    (30000 / 1001, "30000/1001"), (25.0, "25"), (12.5, "25/2"), (24000 / 1001, "24000/1001")])
def test_rates_are_stored_as_exact_fractions(fps: float, want: str) -> None:
    assert str(exact_rate(fps)) == want


@pytest.mark.skipif(not BIKES.is_file(), reason="the shared files are not here")
def test_the_cuts_of_a_real_video_are_found(tmp_path: Path) -> None:
    _, rows = split(BIKES, tmp_path / "c", width=160, height=96)
    starts = [frame_range(row)[0] for row in rows][1:]
    assert len(starts) == 5
    assert all(abs(a - b) <= 1 for a, b in zip(starts, (29, 75, 136, 186, 241), strict=True))
