"""From a mix document and the catalog to an exact list of samples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb

from worldloom.schemas import ConfigError, Mix
from worldloom.schemas.ids import digest, unit_interval
from worldloom.shards.mix import Component, MixDocument, allot
from worldloom.shards.order import interleave

LATENT_STRIDE = 4
MIXABLE = """
CREATE OR REPLACE TEMP VIEW mixable AS
SELECT c.clip_id, c.video_id, s.name AS source, s.licence, c.split, c.num_frames, c.fps, c.width, c.height,
       CASE WHEN a.perspective IN ('fps', 'tps') THEN a.perspective ELSE s.perspective END AS perspective,
       sel.kept, a.certain_share,
       list_avg(list_transform(a.yaw_deg, lambda y: abs(y))) AS yaw_abs_deg_mean,
       coalesce(len(list_filter(cap.events, lambda e: e."text" IS NOT NULL)) > 0, false) AS has_event,
       a.clip_id IS NOT NULL AND cam.clip_id IS NOT NULL AS has_labels
FROM clip c JOIN source s USING (source_id)
LEFT JOIN action a ON a.clip_id = c.clip_id LEFT JOIN (SELECT clip_id FROM camera) cam ON cam.clip_id = c.clip_id
LEFT JOIN caption cap ON cap.clip_id = c.clip_id
LEFT JOIN (SELECT clip_id, bool_and(kept) AS kept FROM selection WHERE {selection} GROUP BY clip_id) sel
  ON sel.clip_id = c.clip_id"""


@dataclass(frozen=True)
class MixItem:
    """One sample: `num_frames` frames of a clip from `start_frame`; `repeat` is 0 the first time."""
    ordinal: int
    clip_id: str
    component: str
    repeat: int
    start_frame: int
    num_frames: int


@dataclass(frozen=True)
class CompiledMix:
    """The list of samples in the mix's order, its digest, and what was asked, available and realised."""
    name: str
    digest: str
    rows: list[MixItem]
    report: dict[str, Any]

    def mix_rows(self) -> list[Mix]:
        return [Mix(name=self.name, digest=self.digest, **{k: part[k] for k in MIX_COLUMNS})
                for part in self.report["components"]]


MIX_COLUMNS = ("component", "unit", "weight", "available", "allotted", "realised", "clips", "repeats")


@dataclass(frozen=True)
class Candidate:
    """A clip that a component may use."""
    clip_id: str
    num_frames: int
    fps: float


@dataclass(frozen=True)
class Measure:
    """How a unit counts frames, as integers: hours are counted in milliseconds."""
    unit: str

    @property
    def label(self) -> str:
        return "ms" if self.unit == "hours" else self.unit

    def size(self, num_frames: int, fps: float) -> int:
        if self.unit == "clips":
            return 1
        if self.unit == "latents":
            return 1 + (num_frames - 1) // LATENT_STRIDE
        return num_frames if self.unit == "frames" else round(num_frames * 1000 / fps)

    def frames(self, size: int, fps: float) -> int:
        """Frames that make up `size` units of a clip that is cut."""
        if self.unit == "latents":
            return LATENT_STRIDE * (size - 1) + 1
        return size if self.unit == "frames" else max(1, round(size * fps / 1000))

    def total(self, asked: int | float) -> int:
        return round(asked * 3_600_000) if self.unit == "hours" else int(asked)


def compile_mix(con: duckdb.DuckDBPyConnection, document: MixDocument) -> CompiledMix:
    """Choose clips so that every component has exactly its allotment; the same catalog gives the same list.

    Clips are taken in an order fixed by the seed and the clip alone, so a smaller total uses a subset of a larger one.

    Raises:
        ConfigError: an unknown source or condition, too few clips, or a clip in two components.
    """
    con.execute(MIXABLE.format(selection=_selection(con, document)))
    measure = Measure(document.unit)
    found = [_candidates(con, document, c) if c.weight else ([], 0) for c in document.components]
    pools = _one_component_each(document, [clips for clips, _ in found])
    _check_held_out(con, document, pools)
    available = [sum(measure.size(c.num_frames, c.fps) for c in pool) for pool in pools]
    allotted = _allotments(document, measure, available)
    chosen = [_take(pool, amount, component, measure, document.seed)
              for pool, amount, component in zip(pools, allotted, document.components, strict=True)]
    rows = _in_order(document, measure, chosen)
    realised = [sum(size for _, size in part) for part in chosen]
    components = [
        {"component": c.name, "unit": measure.label, "weight": float(share), "available": have, "allotted": want,
         "realised": got, "clips": len(part), "repeats": want / have if have else 0.0, "without_labels": bare,
         "frames": sum(item.num_frames for item, _ in part)}
        for c, share, have, want, got, part, (_, bare) in zip(
            document.components, document.shares, available, allotted, realised, chosen, found, strict=True)]
    key = digest([[r.clip_id, r.component, r.repeat, r.start_frame, r.num_frames] for r in rows])
    report = {"name": document.name, "digest": key, "samples": len(rows), "total": sum(allotted),
              "unit": measure.label, "components": components}
    return CompiledMix(document.name, key, rows, report)


def _selection(con: duckdb.DuckDBPyConnection, document: MixDocument) -> str:
    if document.selection is None:
        return "true"
    known = [row[0] for row in con.sql("SELECT DISTINCT selection FROM selection ORDER BY 1").fetchall()]
    if document.selection not in known:
        raise ConfigError(f"mix {document.name}: no selection {document.selection!r} (known: "
                          f"{', '.join(known) or 'none'}); run a policy, or set selection: null to take every clip")
    return "selection = '" + document.selection.replace("'", "''") + "'"


def _query(con: duckdb.DuckDBPyConnection, where: str, place: str) -> list[tuple[Any, ...]]:
    """Rows of `mixable` that meet one condition a user wrote."""
    _check_condition(con, where, place)
    query = (f"SELECT clip_id, num_frames, fps, has_labels FROM mixable "
             f"WHERE clip_id IN (SELECT clip_id FROM mixable WHERE (\n{where}\n)) ORDER BY clip_id")
    try:
        if len(con.extract_statements(query)) != 1:
            raise ConfigError(f"{place}: the condition must be one SQL expression")
        return con.execute(query).fetchall()
    except duckdb.Error as error:
        raise ConfigError(f"{place}: {' '.join(str(error).split())}") from None


def _check_condition(con: duckdb.DuckDBPyConnection, where: str, place: str) -> None:
    """Raises ConfigError unless `where` is one condition that gives the same answer every time."""
    try:
        parsed = con.execute("SELECT json_serialize_sql(?)", [f"SELECT 1 FROM mixable WHERE {where}"]).fetchall()[0][0]
    except duckdb.Error as error:
        raise ConfigError(f"{place}: {' '.join(str(error).split())}") from None
    tree = json.loads(parsed)
    if tree.get("error"):
        raise ConfigError(f"{place}: {where!r} is not one SQL condition: {tree['error_message']}")
    volatile = {row[0] for row in con.execute(
        "SELECT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'").fetchall()}
    found = sorted(_functions(tree) & volatile)
    if found:
        raise ConfigError(f"{place}: {found[0]}() gives another answer each time; a mix must always be the same list")


def _functions(tree: Any) -> set[str]:
    if isinstance(tree, list):
        return set().union(*(_functions(part) for part in tree))
    if not isinstance(tree, dict):
        return set()
    own = {tree["function_name"]} if isinstance(tree.get("function_name"), str) else set()
    return own.union(*(_functions(part) for part in tree.values()))


def _candidates(con: duckdb.DuckDBPyConnection, document: MixDocument,
                component: Component) -> tuple[list[Candidate], int]:
    """(clips that the component may use, clips left out for want of labels)."""
    place = f"mix {document.name}, component {component.name}"
    sources = [row[0] for row in con.sql("SELECT name FROM source ORDER BY 1").fetchall()]
    if component.source is not None and component.source not in sources:
        raise ConfigError(f"{place}: unknown source {component.source!r} (known: {', '.join(sources)})")
    rows = _query(con, component.where, place)
    allowed = "true" if document.selection is None else "kept"
    if component.source is not None:
        allowed += " AND source = '" + component.source.replace("'", "''") + "'"
    ids = {row[0] for row in con.sql(f"SELECT clip_id FROM mixable WHERE {allowed}").fetchall()}
    rows = [row for row in rows if row[0] in ids]
    clips = [Candidate(*row[:3]) for row in rows if row[3]]
    if not clips:
        raise ConfigError(f"{place}: no clip with labels meets {component.where!r} "
                          f"({len(rows)} without labels; known sources: {', '.join(sources) or 'none'})")
    return clips, len(rows) - len(clips)


def _one_component_each(document: MixDocument, pools: list[list[Candidate]]) -> list[list[Candidate]]:
    owner: dict[str, int] = {}
    shared: dict[tuple[str, str], int] = {}
    out: list[list[Candidate]] = []
    for i, pool in enumerate(pools):
        for clip in pool:
            if owner.setdefault(clip.clip_id, i) != i:
                pair = document.components[owner[clip.clip_id]].name, document.components[i].name
                shared[pair] = shared.get(pair, 0) + 1
        out.append([clip for clip in pool if owner[clip.clip_id] == i])
    if shared and document.overlap == "refuse":
        pairs = "; ".join(f"{a} and {b} share {n} clips" for (a, b), n in shared.items())
        raise ConfigError(f"mix {document.name}: {pairs}; tell them apart, or set overlap: first")
    return out


def _check_held_out(con: duckdb.DuckDBPyConnection, document: MixDocument, pools: list[list[Candidate]]) -> None:
    if document.held_out is None:
        return
    held = {row[0] for row in _query(con, document.held_out, f"mix {document.name}, held_out")}
    both = sorted(clip.clip_id for pool in pools for clip in pool if clip.clip_id in held)
    if both:
        more = f" and {len(both) - 10} more" if len(both) > 10 else ""
        raise ConfigError(f"mix {document.name}: {len(both)} clips are held out: {', '.join(both[:10])}{more}")


def _allotments(document: MixDocument, measure: Measure, available: list[int]) -> list[int]:
    limits = [have * c.passes for have, c in zip(available, document.components, strict=True)]
    if document.total == "max":
        return _largest(document, limits)
    allotted = allot(measure.total(document.total), document.shares)
    for component, want, have, limit in zip(document.components, allotted, available, limits, strict=True):
        if want > limit:
            hint = f"max_repeats is {component.max_repeats}" if component.repeat else "or set repeat: true"
            raise ConfigError(f"mix {document.name}: component {component.name} asks for {want} {measure.label}, "
                              f"{have} available; ask for less, {hint}")
    return allotted


def _largest(document: MixDocument, limits: list[int]) -> list[int]:
    pairs = list(zip(document.shares, limits, strict=True))
    total = min(int((limit + 1) / share) for share, limit in pairs if share)
    while any(want > limit for want, limit in zip(allot(total, document.shares), limits, strict=True)):
        total -= 1
    if total == 0:
        raise ConfigError(f"mix {document.name}: nothing is available")
    return allot(total, document.shares)


def _take(pool: list[Candidate], amount: int, component: Component, measure: Measure,
          seed: int) -> list[tuple[MixItem, int]]:
    """(item, units) until the units are `amount`, pass after pass over the pool; the last clip may be cut.

    Where that would leave less than half of it, it and the one before are cut to equal lengths.
    """
    queue = sorted(pool, key=lambda c: (unit_interval(c.clip_id, f"mix {seed}"), c.clip_id))
    taken: list[tuple[Candidate, int, int]] = []
    while amount:
        repeat, place = divmod(len(taken), len(queue))
        size = min(measure.size(queue[place].num_frames, queue[place].fps), amount)
        taken.append((queue[place], repeat, size))
        amount -= size
    _balance(taken, measure)
    return [(_item(clip, repeat, size, component.name, measure), size) for clip, repeat, size in taken]


def _balance(taken: list[tuple[Candidate, int, int]], measure: Measure) -> None:
    if len(taken) < 2:
        return
    (first, r1, size1), (last, r2, size2) = taken[-2:]
    whole = measure.size(last.num_frames, last.fps)
    half = (size1 + size2) // 2
    if size2 * 2 < whole and size2 < half <= whole:
        taken[-2:] = [(first, r1, size1 + size2 - half), (last, r2, half)]


def _item(clip: Candidate, repeat: int, size: int, component: str, measure: Measure) -> MixItem:
    cut = size < measure.size(clip.num_frames, clip.fps)
    frames = min(clip.num_frames, measure.frames(size, clip.fps)) if cut else clip.num_frames
    return MixItem(0, clip.clip_id, component, repeat, 0, frames)


def _in_order(document: MixDocument, measure: Measure, chosen: list[list[tuple[MixItem, int]]]) -> list[MixItem]:
    queues = [iter(part) for part in chosen]
    rows = []
    for ordinal, i in enumerate(interleave([[size for _, size in part] for part in chosen])):
        item, _ = next(queues[i])
        rows.append(MixItem(ordinal, item.clip_id, item.component, item.repeat, item.start_frame, item.num_frames))
    return rows
