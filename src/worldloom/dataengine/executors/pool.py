"""Worker processes that can be killed: one that hangs or dies costs its item, and the rest of its part goes on."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from worldloom.dataengine.executors.work import Job, items, make_stage, one_line, run_item
from worldloom.dataengine.stage import Context
from worldloom.schemas import ConfigError, Failure

_START_S = 120.0  # a fresh worker may import heavy libraries before its first item


def _serve(pipe: Connection, context: Context) -> None:
    """A worker: takes (job number, job, first item), answers item by item."""
    try:
        while (task := pipe.recv()) is not None:
            number, job, skip = task
            stage = make_stage(job, context)
            for index, (key, item) in enumerate(items(job, stage, context.corpus)):
                if index < skip:
                    continue
                pipe.send(("start", number, index, key))
                beat = partial(pipe.send, ("beat", number, index, key))
                pipe.send(("item", number, key, run_item(stage, key, item, beat)))
            pipe.send(("end", number, None, None))
    except ConfigError as error:
        pipe.send(("refused", None, None, str(error)))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return
    except OSError as error:
        pipe.send(("refused", None, None, one_line(error)))
    except BaseException:
        pipe.send(("crash", None, None, traceback.format_exc()))


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    number: int = -1                       # job in hand
    index: int = -1                        # item in hand
    key: str = ""
    since: float = field(default_factory=time.monotonic)


def _start(context: Context) -> _Worker:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, context), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def run_pool(jobs: Sequence[Job], context: Context, *, workers: int, budget_s: float,
             stage_name: str) -> Iterator[tuple[int, str, list[Any] | None]]:
    """Like `run_inline`, over `workers` processes; a part's items come in order, parts interleave.

    Raises:
        ConfigError: a worker refused its parameters.
        RuntimeError: a fault that is not data; its traceback is the message.
    """
    todo = list(range(len(jobs)))[::-1]
    crew = [_start(context) for _ in range(min(workers, len(jobs)))]
    try:
        for worker in crew:
            _hand_out(worker, jobs, todo.pop())
        while any(w.number >= 0 for w in crew):
            busy = [w for w in crew if w.number >= 0]
            ready = wait([w.pipe for w in busy], timeout=0.5)
            for place, worker in enumerate(crew):
                if worker.pipe in ready:
                    yield from _receive(worker, crew, place, jobs, todo, context, stage_name)
                elif worker.number >= 0 and _overdue(worker, budget_s):
                    yield from _replace(crew, place, jobs, context, stage_name, f"took longer than {budget_s:g} s")
    finally:
        for worker in crew:
            worker.process.kill()


def _overdue(worker: _Worker, budget_s: float) -> bool:
    return time.monotonic() - worker.since > (budget_s if worker.index >= 0 else max(budget_s, _START_S))


def _hand_out(worker: _Worker, jobs: Sequence[Job], number: int, skip: int = 0) -> None:
    worker.number, worker.index, worker.key, worker.since = number, -1, "", time.monotonic()
    worker.pipe.send((number, jobs[number], skip))


def _receive(worker: _Worker, crew: list[_Worker], place: int, jobs: Sequence[Job], todo: list[int],
             context: Context, stage_name: str) -> Iterator[tuple[int, str, list[Any] | None]]:
    try:
        kind, number, key, payload = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        yield from _replace(crew, place, jobs, context, stage_name, "ended its worker process")
        return
    if kind in ("start", "beat"):
        worker.index, worker.key, worker.since = key, payload, time.monotonic()
    elif kind == "item":
        yield number, key, payload
    elif kind == "end":
        yield number, "", None
        worker.number = -1
        if todo:
            _hand_out(worker, jobs, todo.pop())
    elif kind == "refused":
        raise ConfigError(payload)
    else:
        raise RuntimeError(f"stage {stage_name}, {worker.key or 'before its first item'}:\n{payload}")


def _replace(crew: list[_Worker], place: int, jobs: Sequence[Job], context: Context, stage_name: str,
             why: str) -> Iterator[tuple[int, str, list[Any] | None]]:
    """Kill a worker, fail the item it had in hand, and let a fresh one take up the rest of the part."""
    lost = crew[place]
    lost.process.kill()
    lost.process.join()
    if lost.index < 0:
        raise RuntimeError(f"stage {stage_name}: a worker {why} before its first item (exit {lost.process.exitcode})")
    yield lost.number, lost.key, [Failure(stage=stage_name, row_key=lost.key, error="Killed",
                                          detail=f"{lost.key}: {why}; it was killed and left out")]
    crew[place] = _start(context)
    _hand_out(crew[place], jobs, lost.number, skip=lost.index + 1)
