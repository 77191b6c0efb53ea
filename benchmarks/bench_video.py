"""CPU cost of making canonical clips against the least that could do it: one ffmpeg a core, decode + scale + encode.

Sixty ten-second 640x360 videos become 320x180 clips. Both sides use the same encoder settings and run in turn; the
ratio is of CPU seconds (user + system, children included) in one run. video2dataset and Data-Juicer join where they
are installed: name a command with {videos} and {out} by --peer.

    python benchmarks/bench_video.py [--videos DIR] [--rounds 3] [--peer "NAME=COMMAND"]
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import imageio_ffmpeg

COUNT, SECONDS, WIDTH, HEIGHT, RATE = 60, 10, 640, 360, 24
FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
SCENES = ("testsrc2=s={s}:r={r}", "mandelbrot=s={s}:r={r}:start_scale={z}",
          "life=s=160x90:r={r}:seed={n}:mold=10,scale={s}",
          "gradients=s={s}:r={r}:seed={n}:speed=0.05,noise=alls=8:allf=t:all_seed={n}")


def make_videos(folder: Path) -> None:
    """Sixty synthetic films: charts, zooms, cells and moving gradients with noise, each different."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(COUNT):
        scene = SCENES[n % len(SCENES)].format(s=f"{WIDTH}x{HEIGHT}", r=RATE, n=n + 1, z=3.0 - 0.04 * n)
        out = folder / f"{n:02d}.mp4"
        if not out.exists():
            part = out.with_suffix(".part")
            subprocess.run([FFMPEG, "-v", "error", "-y", "-f", "lavfi", "-i", scene, "-t", str(SECONDS), "-c:v",
                            "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p", "-f", "mp4",
                            str(part)], check=True)
            part.rename(out)
        print(f"\rvideos {n + 1}/{COUNT}", end="", file=sys.stderr)
    print(file=sys.stderr)


def floor(videos: Path, out: Path) -> None:
    """One single-threaded ffmpeg a core."""
    out.mkdir(parents=True)

    def one(path: Path) -> None:
        subprocess.run([FFMPEG, "-v", "error", "-nostdin", "-y", "-threads", "1", "-i", str(path), "-an",
                        "-filter_threads", "1", "-vf", "scale=320:180", "-c:v", "libx264", "-preset", "veryfast",
                        "-crf", "18", "-bf", "0", "-g", "48", "-threads", "1", "-movflags", "+faststart",
                        str(out / path.name)], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, sorted(videos.glob("*.mp4"))))


def worldloom(videos: Path, out: Path) -> None:
    """The real command: probe, shots, clips, catalog; a process of its own, start-up included."""
    out.mkdir(parents=True)
    plan = out / "plan.yaml"
    plan.write_text(f"sources:\n  - {{name: bench, kind: folder, path: {videos.resolve()}}}\n"
                    f"workers: {os.cpu_count()}\n"
                    "stages: [video, clip]\nparams:\n  clip: {width: 320, height: 180, max_s: 10}\n")
    subprocess.run([sys.executable, "-m", "worldloom.cli", "run", str(plan), "--corpus", str(out / "corpus")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def peer(command: str) -> Callable[[Path, Path], None]:
    def run(videos: Path, out: Path) -> None:
        out.mkdir(parents=True)
        words = [word.format(videos=videos.resolve(), out=out) for word in shlex.split(command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return run


def measured(run: Callable[[Path, Path], None], videos: Path, out: Path) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of one run and all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(videos, out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(out)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, help="MP4 files to use; made when left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-video-"))
    videos = options.videos or Path(tempfile.gettempdir()) / "worldloom-bench-videos"
    if options.videos is None:
        make_videos(videos)
    sides = {"floor": floor, "worldloom": worldloom}
    sides |= {name: peer(command) for name, _, command in (text.partition("=") for text in options.peer)}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds):
        for name, run in sides.items():
            seconds, wall = measured(run, videos, scratch / f"{name}-{number}")
            cpu[name].append(seconds)
            print(f"round {number + 1} {name:<12} {seconds:7.1f} CPU s {wall:7.1f} s", flush=True)
    for name in sides:
        ratios = [mine / least for mine, least in zip(cpu[name], cpu["floor"], strict=True)]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:<12} {median(ratios):.2f} times the floor's CPU seconds (rounds: {rounds})")
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
