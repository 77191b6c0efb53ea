"""Sound of clips: clicks that were laid beside known pictures are heard beside them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_split import frame_range, shown, split
from tiny import ffmpeg, tiny_video

from worldloom.dataengine.video.sound import RATE_HZ, Sound
from worldloom.schemas import Clip, ids

FPS = 24
CLICKS = (7, 30, 52, 71, 95)
ONE_AAC_FRAME = 1024
REAL = ("video/curation/sintel_bbb_30s.webm", "video/curation/chaplin.mp4")


def clicks(path: Path, frames: tuple[int, ...], *, seconds: float, rate: int, fps: float = FPS) -> Path:
    """A WAV of silence with 2 ms of a loud tone at the times of these frames."""
    wave = np.zeros(int(seconds * rate), np.int16)
    burst = (20000 * np.sin(np.arange(rate // 500) * 2 * np.pi * 2000 / rate)).astype(np.int16)
    for frame in frames:
        at = round(frame / fps * rate)
        wave[at:at + len(burst)] = burst
    ffmpeg("-f", "s16le", "-ar", str(rate), "-ac", "1", "-i", "-", path, data=wave.tobytes())
    return path


def film(folder: Path, *, codec: tuple[str, ...] = ("-c:a", "aac"), name: str = "v.mp4", rate: int = 44100,
         offset_s: float = 0.0, seconds: float = 4.0) -> Path:
    """A numbered video of 96 frames with a click at each frame of CLICKS; its sound begins `offset_s` late."""
    pictures = tiny_video(folder / "silent.mp4", 96)
    sound = clicks(folder / "s.wav", tuple(c for c in CLICKS if c / FPS < seconds), seconds=seconds, rate=rate)
    ffmpeg("-i", pictures, "-ss", str(offset_s), "-itsoffset", str(offset_s), "-i", sound, "-map", "0:v", "-map", "1:a",
           "-c:v", "copy", *codec, folder / name)
    return folder / name


def heard(path: Path) -> np.ndarray:
    """Samples (N,) of a clip's sound at 48 kHz from its time 0 on, as PyAV gives them."""
    out = np.zeros(RATE_HZ * 60, np.float32)
    end = 0
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            at, samples = round(frame.time * RATE_HZ), frame.to_ndarray()[0]
            assert frame.sample_rate == RATE_HZ and at >= 0
            out[at:at + samples.size], end = samples, at + samples.size
    return out[:end]


def click_starts(samples: np.ndarray) -> list[int]:
    """Where the sound rises above a tenth of full scale after 20 ms below it."""
    loud = np.flatnonzero(np.abs(samples) > 0.1)
    return [int(at) for i, at in enumerate(loud) if i == 0 or at - loud[i - 1] > RATE_HZ // 50]


def assert_in_sync(corpus: Path, clip: Clip, frames: tuple[int, ...] = CLICKS) -> int:
    """Each click begins within one AAC frame of its picture; returns how many there were."""
    wanted = [clip.source_frames.index(f) / clip.fps * RATE_HZ for f in frames if f in clip.source_frames]
    starts = click_starts(heard(corpus / clip.media))
    assert len(starts) == len(wanted)
    assert all(abs(a - b) <= ONE_AAC_FRAME for a, b in zip(starts, wanted, strict=True)), (starts, wanted)
    return len(starts)


@pytest.mark.parametrize(("name", "codec", "rate"), [
    ("v.mp4", ("-c:a", "aac"), 44100), ("v.mp4", ("-c:a", "aac"), 48000), ("v.mkv", ("-c:a", "libopus"), 48000),
    ("v.mkv", ("-c:a", "libmp3lame"), 22050), ("v.mov", ("-c:a", "pcm_s16le"), 16000),
    ("v.mp4", ("-c:a", "aac"), 96000),
])
def test_a_click_stays_beside_its_picture(tmp_path: Path, name: str, codec: tuple[str, ...], rate: int) -> None:
    _, rows = split(film(tmp_path, codec=codec, name=name, rate=rate), tmp_path / "c", audio=True, max_s=1.5)
    clips = [row for row in rows if isinstance(row, Clip)]
    assert [frame_range(clip) for clip in clips] == [(0, 36), (36, 72), (72, 96)]
    assert sum(assert_in_sync(tmp_path / "c", clip) for clip in clips) == len(CLICKS)
    for clip in clips:
        assert clip.has_audio and shown(tmp_path / "c", clip) == clip.source_frames


def test_a_lower_rate_and_latents_keep_sound_and_pictures_together(tmp_path: Path) -> None:
    _, rows = split(film(tmp_path), tmp_path / "c", audio=True, fps=12, num_frames=17, latent_stride=4)
    clips = [row for row in rows if isinstance(row, Clip)]
    assert len(clips) == 2
    for clip in clips:
        want = [tick for tick, frame in enumerate(clip.source_frames) if any(abs(frame - c) <= 1 for c in CLICKS)]
        starts = click_starts(heard(tmp_path / "c" / clip.media))
        assert starts and all(min(abs(s - tick * RATE_HZ / 12) for tick in want) <= RATE_HZ / 12 for s in starts)


def test_the_track_is_as_long_as_the_pictures_and_padded_with_silence(tmp_path: Path) -> None:
    _, (clip,) = split(film(tmp_path, seconds=2.5), tmp_path / "c", audio=True)
    assert isinstance(clip, Clip) and clip.has_audio and clip.num_frames == 96
    samples = heard(tmp_path / "c" / clip.media)
    assert 0 <= samples.size - 4 * RATE_HZ < ONE_AAC_FRAME
    assert np.abs(samples[int(2.6 * RATE_HZ):]).max() < 1e-3
    with av.open(str(tmp_path / "c" / clip.media)) as container:
        assert container.streams.video[0].start_time == 0
        assert float(container.duration / av.time_base) == pytest.approx(4.0, abs=ONE_AAC_FRAME / RATE_HZ)


def test_sound_that_begins_late_is_silent_before(tmp_path: Path) -> None:
    _, (clip,) = split(film(tmp_path, offset_s=1.0), tmp_path / "c", audio=True)
    assert isinstance(clip, Clip)
    assert assert_in_sync(tmp_path / "c", clip, CLICKS[1:]) == 4
    assert np.abs(heard(tmp_path / "c" / clip.media)[:RATE_HZ * 9 // 10]).max() < 1e-3


def test_a_video_without_sound_and_clips_not_asked_for_it_have_none(tmp_path: Path) -> None:
    silent, loud = tiny_video(tmp_path / "q.mp4", 30), film(tmp_path)
    for path, audio in ((silent, True), (loud, False)):
        _, (clip,) = split(path, tmp_path / "c", audio=audio)
        assert isinstance(clip, Clip) and not clip.has_audio
        with av.open(str(tmp_path / "c" / clip.media)) as container:
            assert [stream.type for stream in container.streams] == ["video"]


def test_the_same_sound_gives_the_same_bytes_and_another_id(tmp_path: Path) -> None:
    path = film(tmp_path)
    runs = [split(path, tmp_path / f"c{n}", audio=True)[1][0] for n in range(2)]
    _, (without,) = split(path, tmp_path / "c0")
    assert isinstance(runs[0], Clip) and isinstance(runs[1], Clip) and isinstance(without, Clip)
    assert runs[0].media_sha256 == runs[1].media_sha256 == ids.file_sha256(tmp_path / "c0" / runs[0].media)
    assert without.clip_id != runs[0].clip_id


@pytest.mark.parametrize("name", REAL)
def test_the_sound_of_a_real_film_is_where_ffmpeg_plays_it(tmp_path: Path, shared_data: Path, name: str) -> None:
    _, rows = split(shared_data / name, tmp_path / "c", audio=True, width=96, height=64, max_s=3.0, shots=False)
    clip = [row for row in rows if isinstance(row, Clip)][1]
    made = heard(tmp_path / "c" / clip.media)
    ffmpeg("-i", shared_data / name, "-vn", "-af", "aresample=48000:async=1:first_pts=0", "-ac", "2", "-f", "f32le",
           tmp_path / "s.raw")
    played = np.fromfile(tmp_path / "s.raw", np.float32)[::2]
    at = round(clip.start_s * RATE_HZ)
    fits = {lag: np.corrcoef(made, played[at + lag:at + lag + made.size])[0, 1] for lag in range(-1024, 1025, 4)}
    best = max(fits, key=fits.get)          # type: ignore[arg-type]
    assert fits[best] > 0.9 and abs(best) <= RATE_HZ // 1000        # WebM times are whole milliseconds
    assert clip.has_audio and at > RATE_HZ


@given(starts=st.lists(st.integers(0, 400), min_size=1, max_size=12), cuts=st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 200)), min_size=1, max_size=6))
def test_any_cut_of_any_pieces_is_those_samples_or_silence(starts: list[int], cuts: list[tuple[int, int]]) -> None:
    """Sample number i has the value i, so that each says where it came from."""
    pieces = [(first, np.tile(np.arange(first, first + 32, dtype=np.float32), (2, 1))) for first in sorted(starts)]
    there = {i for first in starts for i in range(first, first + 32)}
    sound = Sound(piece for piece in pieces)
    for start, count in sorted(cuts):
        got = [*sound.cut(start / RATE_HZ, count), np.zeros((2, 0), np.float32)]
        want = [i if i in there else 0 for i in range(start, start + count)]
        assert np.concatenate(got, axis=1)[1].tolist() == want


def test_a_rate_with_no_whole_number_of_samples_a_frame_does_not_drift() -> None:
    from worldloom.dataengine.video.encode import ClipWriter

    writer = ClipWriter.__new__(ClipWriter)
    writer.rate, writer.num_frames = Fraction(30000, 1001), 3001
    assert writer.num_samples == round(3001 * 1001 * 48000 / 30000)
