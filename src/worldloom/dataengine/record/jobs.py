"""What every recorder needs: videos that are whole or absent, worker processes that end with their parent, progress."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from worldloom.dataengine.record.truth import read_meta, sidecar_path
from worldloom.schemas import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PR_SET_PDEATHSIG = 1                    # of Linux: a signal to a process when its parent ends
SHORT_LETTERS = 60
CRF = 10
"""Quality of recordings: what an encoder smears at 18 doubles the error of turns estimated in rooms of plain walls."""
Job = TypeVar("Job")


def recorded(out_dir: Path, jobs: Sequence[Job], record: Callable[[Path, Job], Path],
             workers: int) -> Iterator[tuple[Job, Path]]:
    """Record every job, several at the same time, and give each with its video as it is done."""
    if min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, record(out_dir, job)
        return
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=multiprocessing.get_context("spawn"),
                             initializer=_end_with_parent, initargs=(os.getpid(),)) as pool:
        running = {pool.submit(record, out_dir, job): job for job in jobs}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent(parent_pid: int) -> None:
    """End this worker when its parent is killed (Linux); elsewhere it finishes the episodes in its queue."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent_pid:          # it was killed before the line above
            os._exit(1)


def is_finished(video: Path, params: DataclassInstance) -> bool:
    """Whether the video and its truth are there. Options that it was recorded without had their defaults.

    Raises:
        ConfigError: they are, and were recorded with other options.
    """
    if not video.exists() or not sidecar_path(video).exists():
        return False
    before = read_meta(sidecar_path(video)).get("params")
    wanted, defaults = (json.loads(json.dumps(values)) for values in (
        asdict(params), {field.name: field.default for field in fields(params)}))
    if before is not None and (before := defaults | before) != wanted:
        changed = sorted(key for key in {*before, *wanted} if before.get(key) != wanted.get(key))
        values = ", ".join(f"{key} {_short(before.get(key))} and not {_short(wanted.get(key))}" for key in changed)
        raise ConfigError(f"{video} is there with {values}; record into another folder or remove it")
    return True


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHORT_LETTERS else f"{text[:SHORT_LETTERS]}..."


@contextlib.contextmanager
def scratch_file(out_dir: Path, name: str) -> Iterator[Path]:
    """An empty hidden file beside the video, known to be in use while this process lives, removed at the end.

    What killed recorders left of the same episode is removed first.
    """
    for left in out_dir.glob(f".{glob.escape(name)}.*.tmp"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    path = out_dir / f".{name}.{os.getpid()}.tmp"
    try:
        with path.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield path
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def encoder(path: Path, width: int, height: int, fps: int) -> Iterator[Callable[[np.ndarray], None]]:
    """A function that appends an RGB picture (H, W, 3) to an H.264 file of constant rate."""
    import av

    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(CRF), "preset": "veryfast", "threads": "1"}

        def encode(rgb_HWC: np.ndarray) -> None:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb_HWC), format="rgb24")))

        yield encode
        out.mux(stream.encode())
