"""In this process, one part after the other: for tests, debuggers and stages that cost nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from worldloom.dataengine.executors.work import Job, items, make_stage, run_item
from worldloom.dataengine.stage import Context


def run_inline(jobs: Sequence[Job], context: Context) -> Iterator[tuple[int, str, list[Any] | None]]:
    """Yields (job, item key, results) as items end, and (job, "", None) as a part ends."""
    for number, job in enumerate(jobs):
        stage = make_stage(job, context)
        for key, item in items(job, stage, context.corpus):
            yield number, key, run_item(stage, key, item)
        yield number, "", None
