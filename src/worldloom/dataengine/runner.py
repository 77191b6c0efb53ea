"""Runs a plan: finds the parts that are missing, makes them, keeps the row accounts."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldloom.dataengine.executors.inline import run_inline
from worldloom.dataengine.executors.pool import run_pool
from worldloom.dataengine.executors.work import Job
from worldloom.dataengine.ingest_groups import SourceFile, grouped, source_files
from worldloom.dataengine.plan import Plan, ordered_stages
from worldloom.dataengine.progress import Progress
from worldloom.dataengine.sources import open_source
from worldloom.dataengine.stage import Context, params_json
from worldloom.dataengine.store import (
    clear_scratch,
    corpus_lock,
    part_metadata,
    part_path,
    publish,
    read_manifest,
    scratch_path,
    share,
    update_manifest,
    write_part,
)
from worldloom.schemas import ConfigError, Drop, Failure, Run, Source, ids

FAILURES_IN_A_ROW = 100
"""So many failed rows without one that is done mean that the stage is at fault, not the data."""


@dataclass
class StageReport:
    """What a stage did: parts found finished, parts made, and the row account over both."""
    stage: str
    parts: int = 0
    made: int = 0
    why: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    key: str = ""

    def line(self) -> str:
        c = self.counts
        text = f"{self.stage:<13} {'ran ' if self.made else 'done'} {c['rows_in']:,} in: {c['done']:,} done"
        text += f", {c['dropped']:,} dropped" if c["dropped"] else ""
        text += f" ({', '.join(f'{r} {n:,}' for r, n in self.reasons.most_common())})" if self.reasons else ""
        text += f", {c['failed']:,} failed" if c["failed"] else ""
        text += f"; {c['rows_out']:,} rows"
        if self.made:
            text += f"; {self.seconds:.1f} s, {self.made} of {self.parts} parts"
        return f"{text}  key {self.key}"


@dataclass
class RunReport:
    run_id: str
    stages: list[StageReport]
    dry: bool = False

    @property
    def failed(self) -> int:
        return sum(s.counts["failed"] for s in self.stages)


def run_plan(plan: Plan, corpus: Path, *, executor: str = "pool", workers: int | None = None, dry_run: bool = False,
             quiet: bool = False, say: Callable[[str], None] = lambda line: None) -> RunReport:
    """Compute what is missing of a plan's tables in `corpus`; a second run finds everything done.

    Args:
        executor: inline or pool.
        dry_run: say what would run and why, and write nothing but the cache of file hashes and the videos and pose
            files that pose formats are brought in as.
    Raises:
        ConfigError: the plan, a parameter or the corpus is not usable; nothing was made.
        RuntimeError: a stage met something that is not data; finished parts stay.
    """
    if executor not in ("inline", "pool"):
        raise ConfigError(f"no executor {executor!r}; executors: inline, pool")
    readers = [open_source(source) for source in plan.sources]
    stages = ordered_stages(plan)
    with corpus_lock(corpus):
        run = _Run(corpus, readers, stages, workers or plan.workers, executor, quiet, plan.videos_per_part)
        if not dry_run:
            clear_scratch(corpus)
            run.write_sources()
        report = RunReport(run.run_id, [], dry_run)
        for reference, stage in stages:
            done = run.plan_stage(reference, stage) if dry_run else run.run_stage(reference, stage)
            report.stages.append(done)
            say(_dry_line(done) if dry_run else done.line())
        if not dry_run:
            run.write_account(plan, report)
    return report


def _dry_line(report: StageReport) -> str:
    if not report.made:
        return f"{report.stage:<13} done  all {report.parts} parts are there  key {report.key}"
    why = ", ".join(f"{count} {reason}" for reason, count in report.why.most_common())
    return f"{report.stage:<13} would run  {report.made} of {report.parts} parts: {why}  key {report.key}"


class _Run:
    def __init__(self, corpus: Path, readers: Sequence[Any], stages: Sequence[tuple[str, Any]], workers: int,
                 executor: str, quiet: bool, size: int) -> None:
        self.corpus, self.readers, self.workers, self.executor, self.quiet = corpus, readers, workers, executor, quiet
        for reader in readers:
            reader.prepare(corpus.resolve())
        self.sources: list[Source] = [reader.source_row() for reader in readers]
        roots = {s.source_id: str(r.root) for s, r in zip(self.sources, readers, strict=True)}
        self.context = Context(corpus=corpus.resolve(), locations=roots)
        self.groups = grouped(source_files(readers, corpus), corpus, size)
        self.keys: dict[str, list[str]] = {}
        self.types = {stage.name: stage.writes for _, stage in stages}
        self.takers = {stage.name: stage.takes for _, stage in stages if hasattr(stage, "takes")}
        spec = [[s.name, s.version, params_json(s)] for _, s in stages]
        self.run_id = ids.digest([spec, [[f.identity() for f in g] for g in self.groups]])

    def write_sources(self) -> None:
        key = ids.digest([[getattr(s, f) for f in Source.__dataclass_fields__] for s in self.sources])
        if not part_path(self.corpus, "source", key).exists():
            write_part(self.corpus, "source", key, self.sources, Source)
        update_manifest(self.corpus, {"source": [key]})

    def jobs(self, reference: str, stage: Any) -> list[Job]:
        """The part of this stage for every group of files, from the keys of the parts it reads."""
        jobs = []
        for number, files in enumerate(self.groups):
            tables = [t for t in stage.reads if t in self.keys]
            inputs = {t: self.keys[t][number] for t in tables}
            identities = [f.identity() for f in files] if stage.reads[0] == "file" else []
            taken = self._taken(stage, files) if identities else ()
            entered = identities if len(taken) == len(files) else [identities, [f.identity() for f in taken]]
            lineage = inputs | ({"files": ids.digest(entered)} if identities else {})
            jobs.append(Job(
                reference=reference, params=params_json(stage),
                key=ids.stage_key(stage.name, stage.version, params_json(stage), lineage), inputs=inputs,
                row_types={t: self.types[t] for t in tables}, files=taken,
                metadata={"stage": stage.name, "version": stage.version, "params": params_json(stage),
                          "inputs": inputs, "files": identities}))
        return jobs

    def _taken(self, stage: Any, files: tuple[SourceFile, ...]) -> tuple[SourceFile, ...]:
        """The files that are this stage's: those it takes, or those that no other stage of the plan takes."""
        if stage.name in self.takers:
            return tuple(file for file in files if stage.takes(file))
        return tuple(file for file in files if not any(takes(file) for takes in self.takers.values()))

    def plan_stage(self, reference: str, stage: Any) -> StageReport:
        jobs = self.jobs(reference, stage)
        report = self._report(stage, jobs)
        before = {json.dumps(m["inputs"], sort_keys=True) + str(m.get("files")): m for m in self._current(stage.name)}
        for job in jobs:
            if not part_path(self.corpus, stage.name, job.key).exists():
                report.made += 1
                report.why[_why(job, stage, before)] += 1
        return report

    def _current(self, table: str) -> Iterator[dict[str, Any]]:
        for key in read_manifest(self.corpus).get(table, []):
            if part_path(self.corpus, table, key).exists():
                yield part_metadata(self.corpus, table, key)

    def _report(self, stage: Any, jobs: Sequence[Job]) -> StageReport:
        self.keys[stage.name] = [job.key for job in jobs]
        return StageReport(stage.name, parts=len(jobs), key=ids.digest(self.keys[stage.name], 8))

    def run_stage(self, reference: str, stage: Any) -> StageReport:
        jobs, began = self.jobs(reference, stage), time.monotonic()
        report = self._report(stage, jobs)
        missing = [job for job in jobs if not part_path(self.corpus, stage.name, job.key).exists()]
        report.made = len(missing)
        if missing:
            self._make(missing, stage)
        report.seconds = time.monotonic() - began
        for job in jobs:
            meta = part_metadata(self.corpus, stage.name, job.key)
            report.counts.update(meta["counts"])
            report.reasons.update(meta["reasons"])
        self._list(stage.name)
        return report

    def _list(self, table: str) -> None:
        """Put the stage's parts in the manifest, with the drops, failures and accounts that came with them."""
        listed = {table: self.keys[table]}
        current = [f"{name}-{key}" for name, keys in self.keys.items() for key in keys]
        for extra in ("drop", "failure", "run"):
            listed[extra] = [key for key in current if part_path(self.corpus, extra, key).exists()]
        update_manifest(self.corpus, listed)

    def _make(self, jobs: list[Job], stage: Any) -> None:
        total = sum(len(j.files) for j in jobs) if stage.reads[0] == "file" else self._rows(jobs, stage)
        progress = Progress(stage.name, total, quiet=self.quiet)
        results: dict[int, list[list[Any]]] = {}
        streak = 0
        for number, _, rows in self._execute(jobs, stage):
            if rows is None:
                self._commit(jobs[number], stage, results.pop(number, []))
                continue
            results.setdefault(number, []).append(rows)
            failed = any(isinstance(row, Failure) for row in rows)
            streak = streak + 1 if failed else 0
            progress.advance(failed=int(failed))
            if streak >= FAILURES_IN_A_ROW:
                progress.finish()
                raise RuntimeError(f"stage {stage.name}: {streak} failures in a row, the last: {rows[-1].detail}")
        progress.finish()

    def _rows(self, jobs: Sequence[Job], stage: Any) -> int:
        table = stage.reads[0]
        return sum(part_metadata(self.corpus, table, j.inputs[table])["counts"]["rows_out"] for j in jobs)

    def _execute(self, jobs: list[Job], stage: Any) -> Iterator[tuple[int, str, list[Any] | None]]:
        if self.executor == "inline":
            return run_inline(jobs, self.context)
        return run_pool(jobs, self.context, workers=self.workers, budget_s=stage.budget_s, stage_name=stage.name)

    def _commit(self, job: Job, stage: Any, results: list[list[Any]]) -> None:
        """Write the part; its own file comes last, so that it is there only when all of it is."""
        drops = [row for rows in results for row in rows if isinstance(row, Drop)]
        failures = [row for rows in results for row in rows if isinstance(row, Failure)]
        out = [row for rows in results for row in rows if not isinstance(row, Drop | Failure)]
        counts = _account(results, len(out))
        name = f"{stage.name}-{job.key}"
        if drops:
            write_part(self.corpus, "drop", name, drops, Drop)
        if failures:
            write_part(self.corpus, "failure", name, failures, Failure)
        account = Run(run_id=self.run_id, stage=stage.name, part=job.key, version=stage.version, **counts)
        write_part(self.corpus, "run", name, [account], Run)
        reasons = dict(Counter(d.reason for d in drops))
        write_part(self.corpus, stage.name, job.key, out, stage.writes,
                   dict(job.metadata) | {"counts": counts, "reasons": reasons})

    def write_account(self, plan: Plan, report: RunReport) -> None:
        """runs/<run_id>/run.json: the resolved plan and what each stage did."""
        document = {
            "run_id": self.run_id, "plan": json.loads(plan.model_dump_json(exclude={"sources": {"__all__": {"path"}}})),
            "stages": [{"stage": s.stage, "parts": self.keys[s.stage], **s.counts} for s in report.stages]}
        scratch = scratch_path(self.corpus, "run.json")
        scratch.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
        name = f"runs/{self.run_id}/run.json"
        publish(scratch, self.corpus / name)
        share(self.corpus, name)


def _account(results: Sequence[Sequence[Any]], rows_out: int) -> dict[str, int]:
    """rows_in = done + dropped + failed, by item: one that gave a row is done, whatever else it left out."""
    counts = {"rows_in": len(results), "done": 0, "dropped": 0, "failed": 0, "rows_out": rows_out}
    for rows in results:
        if any(isinstance(row, Failure) for row in rows):
            counts["failed"] += 1
        elif rows and all(isinstance(row, Drop) for row in rows):
            counts["dropped"] += 1
        else:
            counts["done"] += 1
    return counts


def _why(job: Job, stage: Any, before: Mapping[str, Mapping[str, Any]]) -> str:
    same = before.get(json.dumps(job.metadata["inputs"], sort_keys=True) + str(job.metadata["files"]))
    if same is None:
        return "new input"
    if same["version"] != stage.version:
        return f"version {same['version']} -> {stage.version}"
    changed = [k for k, v in job.metadata["params"].items() if same["params"].get(k) != v]
    return f"changed {', '.join(changed)}" if changed else "missing"
