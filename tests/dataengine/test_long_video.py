"""Long videos: made by repeating the packets of a short one, so that only reading them takes time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import pytest
from tiny import tiny_video

from worldloom.dataengine.sources import FileEntry
from worldloom.dataengine.sources.ingest import VideoStage
from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
from worldloom.schemas import Clip

WORKER = """
import sys
from pathlib import Path
from worldloom.dataengine.executors.work import run_item
from worldloom.dataengine.sources import FileEntry
from worldloom.dataengine.sources.ingest import VideoStage
from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
path, corpus = Path(sys.argv[1]), Path(sys.argv[2])
(video,) = VideoStage().process({"file": FileEntry(path.name, str(path), "s")})
stage = SplitStage(SplitParams(max_s=10))
stage.setup(Context(corpus, {"s": str(path.parent)}))
rows = run_item(stage, "v", {"video": video})
peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(sum(row.num_frames for row in rows), int(peak_kib) // 1024)
"""


def repeated(path: Path, once: Path, times: int) -> Path:
    """The packets of a video without B frames `times` over, with rising times."""
    with av.open(str(once)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        packets = [(bytes(p), p.pts, p.duration, p.is_keyframe) for p in source.demux(stream) if p.size]
        copy = target.add_stream_from_template(stream)
        for turn in range(times):
            for data, pts, duration, is_key in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base, packet.is_keyframe = copy, stream.time_base, is_key
                packet.pts = packet.dts = pts + turn * len(packets) * duration
                packet.duration = duration
                target.mux(packet)
    return path


@pytest.fixture(scope="module")
def ten_seconds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_video(tmp_path_factory.mktemp("once") / "v.mp4", 240, width=96, height=64, extra=("-bf", "0"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_worker_needs_no_more_memory_for_twenty_minutes_than_for_two(tmp_path: Path, ten_seconds: Path) -> None:
    peak_mib = {}
    for minutes in (2, 20):
        path = repeated(tmp_path / f"{minutes}.mp4", ten_seconds, 6 * minutes)
        done = subprocess.run([sys.executable, "-c", WORKER, path, tmp_path / f"c{minutes}"], check=True,
                              capture_output=True, text=True)
        frames, peak_mib[minutes] = map(int, done.stdout.split())
        assert frames == minutes * 60 * 24
    assert peak_mib[20] < 400
    assert peak_mib[20] - peak_mib[2] < 16        # rows of 26,000 frames more take 2 MiB; the rest is the allocator


@pytest.mark.slow
def test_the_first_clip_is_there_before_the_rest_is_decoded(tmp_path: Path, ten_seconds: Path) -> None:
    path = repeated(tmp_path / "v.mp4", ten_seconds, 30)
    (video,) = VideoStage().process({"file": FileEntry(path.name, str(path), "s")})
    stage = SplitStage(SplitParams(max_s=10))
    stage.setup(Context(tmp_path / "c", {"s": str(tmp_path)}))
    rows = stage.process({"video": video})
    first = next(rows)
    assert isinstance(first, Clip) and (first.start_frame, first.stop_frame) == (0, 240) and video.num_frames == 7200
    assert [p.name for p in (tmp_path / "c" / "media").rglob("*.mp4")] == [Path(first.media).name]
    rows.close()
    assert not list((tmp_path / "c" / "tmp").iterdir())
