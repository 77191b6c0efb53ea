"""The same work by a peer, run by the Python that has it: find shots, cut, scale to 320x180, encode, write.

    PYTHON video_peers.py                                  # prints which of the peers this Python has
    PYTHON video_peers.py video2dataset|data-juicer VIDEOS OUT

Each peer does it in its own way with its own defaults, on as many processes as there are cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CORES = os.cpu_count() or 1
WIDTH, HEIGHT = 320, 180
PACKAGES = {"video2dataset": "video2dataset", "data-juicer": "data_juicer"}


def _config(num_videos: int) -> dict[str, Any]:
    """Shots as clips at exact cuts, 180 rows, one shard for each process."""
    return {
        "subsampling": {
            "CutDetectionSubsampler": {"cuts_are_clips": True, "args": {"cut_detection_mode": "all", "threshold": 27}},
            "ClippingSubsampler": {"args": {"max_length": 10.0, "precision": "exact"}},
            "ResolutionSubsampler": {"args": {"resize_mode": ["scale"], "height": HEIGHT}},
        },
        "reading": {"yt_args": {}, "timeout": 60, "sampler": None},
        "storage": {"number_sample_per_shard": -(-num_videos // CORES), "oom_shard_count": 5,
                    "captions_are_subtitles": False},
        "distribution": {"processes_count": CORES, "thread_count": 1, "subjob_size": 1000,
                         "distributor": "multiprocessing"},
    }


def run_video2dataset(videos: list[Path], out: Path) -> int:
    """Number of clips in the tars that video2dataset writes."""
    from video2dataset import video2dataset

    listed, settings, made = out / "videos.csv", out / "config.yaml", out / "dataset"
    listed.write_text("url\n" + "".join(f"{path}\n" for path in videos))
    settings.write_text(json.dumps(_config(len(videos))))       # JSON is YAML
    video2dataset(url_list=str(listed), output_folder=str(made), output_format="files", input_format="csv",
                  config=str(settings), tmp_dir=str(out))
    return len(list(made.rglob("*.mp4")))


def _repair_video2dataset() -> None:
    """1.3.0 asks its scaler for a field that it lacks; without it no video comes out, and the exit status is 0."""
    from video2dataset.subsamplers import ResolutionSubsampler

    ResolutionSubsampler.encode_formats = {"video": "mp4"}


def run_data_juicer(videos: list[Path], out: Path) -> int:
    """Number of clips that Data-Juicer writes."""
    listed, settings, made = out / "videos.jsonl", out / "config.yaml", out / "dataset"
    listed.write_text("".join(json.dumps({"text": "<__dj__video>", "videos": [str(path)]}) + "\n" for path in videos))
    settings.write_text(json.dumps({
        "project_name": "bench", "dataset_path": str(listed), "export_path": str(out / "out.jsonl"), "np": CORES,
        "skip_op_error": False, "use_cache": False, "open_monitor": False,
        "process": [
            {"video_split_by_scene_mapper": {"detector": "ContentDetector", "threshold": 27.0,
                                             "save_dir": str(out / "cut")}},
            {"video_resize_resolution_mapper": {"max_width": WIDTH, "max_height": HEIGHT, "save_dir": str(made)}}]}))
    subprocess.run([str(Path(sys.executable).with_name("dj-process")), "--config", str(settings)], check=True)
    return len(list(made.rglob("*.mp4")))


def main() -> int:
    if len(sys.argv) == 1:
        print(" ".join(name for name, module in PACKAGES.items() if importlib.util.find_spec(module)))
        return 0
    name, videos = sys.argv[1], sorted(Path(sys.argv[2]).resolve().glob("*.mp4"))
    out = Path(sys.argv[3]).resolve()
    clips = (run_video2dataset if name == "video2dataset" else run_data_juicer)(videos, out)
    print(f"{name}: {clips} clips")
    return 0 if clips >= len(videos) else 1


if "video2dataset" in sys.argv or __name__ == "__mp_main__":
    _repair_video2dataset()
if __name__ == "__main__":
    sys.exit(main())
