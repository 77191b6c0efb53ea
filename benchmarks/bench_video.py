"""CPU cost of making canonical clips against the least that could do it: one ffmpeg a core, decode + scale + encode.

Sixty ten-second 640x360 videos of three scenes each become 320x180 clips. The floor uses our encoder settings and cuts
nothing. The sides run in turn; ratios are of CPU seconds (user + system, children included) and of peak memory (all
processes of a side together) in one round. video2dataset and Data-Juicer join where a Python that has them is named:
they find shots, cut and scale in their own way (video_peers.py). Any other command joins by --peer.

    python benchmarks/bench_video.py [--videos DIR] [--rounds 3] [--peer-python PATH]... [--peer "NAME=COMMAND"]
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
from threading import Event, Thread

import imageio_ffmpeg

COUNT, SECONDS, WIDTH, HEIGHT, RATE = 60, 10, 640, 360, 24
FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
SCENES = ("testsrc2=s={s}:r={r}", "mandelbrot=s={s}:r={r}:start_scale={z}",
          "life=s=160x90:r={r}:seed={n}:mold=10:life_color=0xc0ff60:death_color=0x602010,scale={s}",
          "gradients=s={s}:r={r}:seed={n}:speed=0.05,noise=alls=8:allf=t:all_seed={n}")
LENGTHS_S = (4, 3, 3)
PEERS = Path(__file__).with_name("video_peers.py")


def film(n: int) -> str:
    """Filter graph of film `n`: three scenes, with a hard cut after 4 and after 7 seconds."""
    size = f"{WIDTH}x{HEIGHT}"
    parts = [SCENES[(n + k) % len(SCENES)].format(s=size, r=RATE, n=3 * n + k + 1, z=3.0 - 0.04 * n)
             + f",trim=duration={length_s},format=yuv420p,setsar=1[v{k}]" for k, length_s in enumerate(LENGTHS_S)]
    return ";".join(parts) + ";" + "".join(f"[v{k}]" for k in range(len(parts))) + f"concat=n={len(parts)}"


def make_videos(folder: Path) -> None:
    """Sixty synthetic films of charts, zooms, cells and moving gradients with noise, each different."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(COUNT):
        out = folder / f"{n:02d}.mp4"
        if not out.exists():
            part = out.with_suffix(".part")
            subprocess.run([FFMPEG, "-v", "error", "-y", "-filter_complex", film(n), "-t", str(SECONDS), "-c:v",
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


def command(text: str) -> Callable[[Path, Path], None]:
    """A side that is a command line with {videos} and {out} in it."""
    def run(videos: Path, out: Path) -> None:
        out.mkdir(parents=True)
        words = [word.format(videos=videos.resolve(), out=out) for word in shlex.split(text)]
        with (out.parent / f"{out.name}.log").open("w") as log:
            subprocess.run(words, check=True, stdout=log, stderr=log, env=_with_ffmpeg(out.parent))
    return run


def _with_ffmpeg(folder: Path) -> dict[str, str]:
    """The environment with an ffmpeg on its path: peers call it by name."""
    if shutil.which("ffmpeg"):
        return dict(os.environ)
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin/ffmpeg").exists():
        (folder / "bin/ffmpeg").symlink_to(FFMPEG)
    return os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def peers(python: str) -> dict[str, Callable[[Path, Path], None]]:
    """The peers that a Python has."""
    found = subprocess.run([python, str(PEERS)], check=True, capture_output=True, text=True).stdout.split()
    return {name: command(f"{shlex.quote(python)} {shlex.quote(str(PEERS))} {name} {{videos}} {{out}}")
            for name in found}


def _tree(root: int) -> list[int]:
    """Processes started by `root`, and by those (Linux; empty elsewhere)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            continue
    found, todo = [], [root]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _memory_mib(pids: list[int]) -> float:
    """Proportional set size of processes together: what they share counts once."""
    total_kib = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kib / 1024


class PeakMemory(Thread):
    """Watches all children of this process, five times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done, self.peak_mib = Event(), 0.0

    def run(self) -> None:
        while not self.done.wait(0.2):
            self.peak_mib = max(self.peak_mib, _memory_mib(_tree(os.getpid())))


def measured(run: Callable[[Path, Path], None], videos: Path, out: Path) -> tuple[float, float, float]:
    """(CPU seconds, wall seconds, peak MiB) of one run and all its processes."""
    before, began, memory = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), PeakMemory()
    memory.start()
    try:
        run(videos, out)
    finally:
        memory.done.set()
        memory.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(out)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began,
            memory.peak_mib)


def report(cpu: dict[str, list[float]], peak_mib: dict[str, list[float]]) -> None:
    """Ratios of each round, by side; ours over the best peer where there is one."""
    for name in cpu:
        ratios = [mine / least for mine, least in zip(cpu[name], cpu["floor"], strict=True)]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:<14} {median(ratios):.2f} times the floor's CPU seconds (rounds: {rounds}), "
              f"{max(peak_mib[name]):.0f} MiB at most")
    others = [name for name in cpu if name not in ("floor", "worldloom")]
    if others:
        best = min(others, key=lambda name: median(cpu[name]))
        least = min(others, key=lambda name: max(peak_mib[name]))
        print(f"worldloom takes {median(cpu['worldloom']) / median(cpu[best]):.2f} of the CPU seconds of {best} and "
              f"{max(peak_mib['worldloom']) / max(max(peak_mib[least]), 1):.2f} of the memory of {least}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, help="MP4 files to use; made when left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", action="append", default=[], metavar="PATH",
                        help="a Python with video2dataset or py-data-juicer (scenedetect, opencv, ffmpeg-python)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-video-"))
    videos = options.videos or Path(tempfile.gettempdir()) / "worldloom-bench-films"
    if options.videos is None:
        make_videos(videos)
    sides = {"floor": floor, "worldloom": worldloom}
    sides |= {name: command(text) for name, _, text in (given.partition("=") for given in options.peer)}
    for python in options.peer_python:
        sides |= peers(python)
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    peak_mib: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds):
        for name, run in sides.items():
            seconds, wall, memory = measured(run, videos, scratch / f"{name}-{number}")
            cpu[name].append(seconds)
            peak_mib[name].append(memory)
            print(f"round {number + 1} {name:<14} {seconds:7.1f} CPU s {wall:7.1f} s {memory:7.0f} MiB", flush=True)
    report(cpu, peak_mib)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
