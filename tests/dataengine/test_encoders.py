"""Which encoder writes a clip: x264 unless hardware is asked for and really encodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_split import shown, split
from tiny import tiny_video

from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video import encoders
from worldloom.dataengine.video.encoders import HARDWARE, X264, Encoder, find_encoder, refusal
from worldloom.schemas import Clip, ConfigError


@pytest.fixture
def soft_hardware(monkeypatch: pytest.MonkeyPatch) -> Iterator[Encoder]:
    """An encoder on the list of hardware that encodes everywhere: x264 again, at another quality."""
    soft = Encoder("libx264", {"preset": "ultrafast", "crf": "30", "bf": "0"}, pix_fmt="yuv444p")
    monkeypatch.setattr(encoders, "HARDWARE", {"qsv": Encoder("h264_of_nobody"), "nvenc": soft})
    refusal.cache_clear()
    yield soft
    refusal.cache_clear()


def test_each_hardware_encoder_encodes_or_says_why_not() -> None:
    for name in HARDWARE:
        if (reason := refusal(name)) is None:
            assert find_encoder(name) is HARDWARE[name]
            continue
        assert "\n" not in reason
        with pytest.raises(ConfigError, match=f"encoder {name} does not encode here: .*use auto or x264"):
            find_encoder(name)


def test_auto_takes_the_first_that_encodes_and_else_x264(
    soft_hardware: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_encoder("x264") is X264
    assert find_encoder("auto") is soft_hardware
    assert refusal("qsv") == "this FFmpeg has no h264_of_nobody"
    monkeypatch.setattr(encoders, "HARDWARE", {"qsv": Encoder("h264_of_nobody")})
    assert find_encoder("auto") is X264


def test_the_row_says_which_encoder_wrote_the_clip(tmp_path: Path, soft_hardware: Encoder) -> None:
    path = tiny_video(tmp_path / "v.mp4", 30)
    _, (usual,) = split(path, tmp_path / "c")
    _, (hard,) = split(path, tmp_path / "c", encoder="nvenc")
    assert isinstance(usual, Clip) and isinstance(hard, Clip)
    assert usual.encoder == X264.codec and hard.encoder == soft_hardware.codec
    assert usual.clip_id != hard.clip_id and hard.media_bytes < usual.media_bytes
    assert shown(tmp_path / "c", hard) == list(range(30))


def test_asking_for_hardware_that_is_not_there_stops_before_any_work(tmp_path: Path) -> None:
    missing = [name for name in HARDWARE if refusal(name)]
    assert missing                          # no machine has the encoders of all makers
    with pytest.raises(ConfigError, match="does not encode here"):
        SplitStage(SplitParams(encoder=missing[0])).setup(Context(tmp_path))  # type: ignore[arg-type]
