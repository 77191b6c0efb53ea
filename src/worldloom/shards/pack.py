"""Shards of a mix: tars, index, dataset card; finished shards are kept when packing goes on after a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.store import corpus_lock, present, write_table
from worldloom.schemas import Action, Camera, Caption, Clip, ConfigError, DataError, Mix, Sample, from_table
from worldloom.schemas.ids import digest, file_sha256
from worldloom.shards.compile import CompiledMix, MixItem, compile_mix
from worldloom.shards.index import INDEX_NAME
from worldloom.shards.mix import MixDocument, load_mix
from worldloom.shards.sample import label_members, sample_key
from worldloom.shards.writer import finished, tar_bytes, write_tar, write_text

SHARD_BYTES = 32 * 2**20
BATCH = 64
FORMAT = 1


@dataclass(frozen=True)
class PackResult:
    """Where the shards are; `reused` of the `shards` were finished before."""
    dir: Path
    digest: str
    samples: int
    shards: int
    reused: int


@dataclass(frozen=True)
class Ready:
    """A sample whose labels are made and whose video is still on disk."""
    item: MixItem
    key: str
    clip: Clip
    labels: dict[str, bytes]

    @property
    def bytes(self) -> int:
        return tar_bytes([self.clip.media_bytes, *map(len, self.labels.values())])


def pack(corpus: Path, mix_path: Path, shard_bytes: int = SHARD_BYTES) -> PackResult:
    """Compile the mix and write its shards; the same catalog and mix give the same bytes.

    Raises:
        ConfigError: the mix cannot be carried out, or the corpus is in use.
        DataError: a clip's media file is not what the catalog says.
    """
    document = load_mix(mix_path)
    with corpus_lock(corpus):
        con = open_catalog(corpus)
        compiled = compile_mix(con, document)
        folder = corpus / "shards" / document.name / compiled.digest
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob("*.tmp"):
            leftover.unlink()
        notes, reused = _write_shards(corpus, con, compiled, folder, shard_bytes)
        con.close()
        _write_index(folder, compiled, notes)
        _write_documents(corpus, folder, document, compiled)
        write_table(corpus, "mix", compiled.digest, compiled.mix_rows(), Mix)
        write_table(corpus, "sample", compiled.digest, _sample_rows(compiled, notes), Sample)
    return PackResult(folder, compiled.digest, len(compiled.rows), len(notes), reused)


def _write_shards(corpus: Path, con: duckdb.DuckDBPyConnection, compiled: CompiledMix, folder: Path,
                  shard_bytes: int) -> tuple[list[dict[str, Any]], int]:
    notes: list[dict[str, Any]] = []
    group: list[Ready] = []
    reused, size = 0, 0
    for ready in _ready(con, compiled):
        if group and size + ready.bytes > shard_bytes:
            reused += _write_shard(corpus, folder, group, notes)
            group, size = [], 0
        group.append(ready)
        size += ready.bytes
    reused += _write_shard(corpus, folder, group, notes)
    keep = {note["name"] for note in notes}
    for path in folder.glob("*.tar"):
        if path.name not in keep:
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)
    return notes, reused


def _write_shard(corpus: Path, folder: Path, group: list[Ready], notes: list[dict[str, Any]]) -> bool:
    """Append the note of the shard; True when it was there already, with this content."""
    tar = folder / f"shard-{len(notes):06d}.tar"
    side, fingerprint = tar.with_suffix(".json"), _fingerprint(group)
    note = finished(tar, side, fingerprint)
    reused = note is not None
    if note is None:
        side.unlink(missing_ok=True)
        entries = write_tar(tar, [(r.key, r.labels | {"mp4": _media(corpus, r.clip)}) for r in group])
        for entry, r in zip(entries, group, strict=True):
            entry |= {"clip_id": r.clip.clip_id, "component": r.item.component, "num_frames": r.item.num_frames}
        note = {"name": tar.name, "bytes": tar.stat().st_size, "sha256": file_sha256(tar),
                "fingerprint": fingerprint, "samples": entries}
        write_text(side, json.dumps(note, sort_keys=True))
    notes.append(note)
    return reused


def _fingerprint(group: list[Ready]) -> str:
    """Hash of everything that goes into a shard, without reading media."""
    return digest([[r.key, r.clip.media_sha256, {k: hashlib.sha256(v).hexdigest() for k, v in r.labels.items()}]
                   for r in group], length=64)


def _media(corpus: Path, clip: Clip) -> bytes:
    path = corpus / clip.media
    if not path.resolve().is_relative_to(corpus.resolve()):
        raise DataError(f"clip {clip.clip_id}: media path {clip.media!r} leaves the corpus")
    try:
        data = present(corpus, clip.media).read_bytes()
    except OSError as error:
        raise DataError(f"clip {clip.clip_id}: {clip.media}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != clip.media_sha256:
        raise DataError(f"clip {clip.clip_id}: {clip.media} has other bytes than the catalog says")
    return data


def _ready(con: duckdb.DuckDBPyConnection, compiled: CompiledMix) -> Iterator[Ready]:
    """Samples in order, a batch of catalog rows in memory at a time."""
    sources = dict(con.sql("SELECT source_id, name FROM source").fetchall())
    for start in range(0, len(compiled.rows), BATCH):
        items = compiled.rows[start:start + BATCH]
        ids = sorted({item.clip_id for item in items})
        clips, actions, cameras, captions = (_rows(con, table, row_type, ids) for table, row_type in (
            ("clip", Clip), ("action", Action), ("camera", Camera), ("caption", Caption)))
        for item in items:
            clip, action, camera = clips[item.clip_id], actions[item.clip_id], cameras[item.clip_id]
            meta = _meta(item, clip, action, camera, captions.get(item.clip_id), sources[clip.source_id])
            labels = label_members(action, camera, item.num_frames, meta | {"mix": compiled.digest})
            yield Ready(item, sample_key(item.ordinal, item.clip_id), clip, labels)


def _rows(con: duckdb.DuckDBPyConnection, table: str, row_type: type[Any], ids: list[str]) -> dict[str, Any]:
    query = f'SELECT * FROM "{table}" WHERE clip_id IN (SELECT unnest(?))'
    data = con.sql(query, params=[ids]).to_arrow_table()
    rows = {row.clip_id: row for row in from_table(data, row_type)}
    if len(rows) != data.num_rows:
        raise ConfigError(f"table {table} holds a clip twice; run the plan again")
    return rows


def _meta(item: MixItem, clip: Clip, action: Action, camera: Camera, caption: Caption | None,
          source: str) -> dict[str, Any]:
    words = None if caption is None else {
        "scene": caption.scene, "character": caption.character, "ui": caption.ui, "events": caption.events,
        "captioner": caption.captioner, "basis": caption.basis}
    return {
        "clip_id": clip.clip_id, "component": item.component, "fps": clip.fps, "width": clip.width,
        "height": clip.height, "num_frames": item.num_frames, "clip_frames": clip.num_frames, "repeat": item.repeat,
        "split": clip.split, "source": source, "caption": words, "video_id": clip.video_id, "start_s": clip.start_s,
        "stop_s": clip.stop_s, "media_sha256": clip.media_sha256, "labeller": action.labeller,
        "perspective": action.perspective, "estimator": camera.estimator, "pose_source": camera.pose_source,
        "camera_model": camera.camera_model, "scale_status": camera.scale_status,
        "metres_per_unit": camera.metres_per_unit,
    }


def _write_index(folder: Path, compiled: CompiledMix, notes: list[dict[str, Any]]) -> None:
    shards = [{"name": n["name"], "bytes": n["bytes"], "sha256": n["sha256"], "samples": len(n["samples"])}
              for n in notes]
    samples = [sample | {"shard": i} for i, note in enumerate(notes) for sample in note["samples"]]
    write_text(folder / INDEX_NAME, json.dumps(
        {"format": FORMAT, "name": compiled.name, "mix": compiled.digest, "shards": shards, "samples": samples},
        sort_keys=True) + "\n")


def _write_documents(corpus: Path, folder: Path, document: MixDocument, compiled: CompiledMix) -> None:
    place = corpus / "mixes" / document.name / compiled.digest
    place.mkdir(parents=True, exist_ok=True)
    asked = json.loads(document.model_dump_json()) | {"digest": compiled.digest}
    write_text(place / "mix.json", json.dumps(asked, indent=1, sort_keys=True) + "\n")
    write_text(place / "report.json", json.dumps(compiled.report, indent=1, sort_keys=True) + "\n")
    write_text(folder / "README.md", card(compiled))


def card(compiled: CompiledMix) -> str:
    """Dataset card: what was asked, what is there."""
    lines = [f"# {compiled.name}", "", f"Mix `{compiled.digest}`: {compiled.report['samples']} samples.", "",
             "| component | weight | unit | available | allotted | realised | clips | frames | without labels |",
             "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for c in compiled.report["components"]:
        lines.append(f"| {c['component']} | {c['weight']:.4g} | {c['unit']} | {c['available']} | {c['allotted']} | "
                     f"{c['realised']} | {c['clips']} | {c['frames']} | {c['without_labels']} |")
    return "\n".join([*lines, "", "Each sample is `KEY.mp4` (the whole clip; use the first `num_frames` frames), "
                      "`KEY.actions.npy`, `KEY.certain.npy`, `KEY.camera.npy`, `KEY.intrinsics.npy`, `KEY.json`.", ""])


def _sample_rows(compiled: CompiledMix, notes: list[dict[str, Any]]) -> list[Sample]:
    places = [(note["name"], sample) for note in notes for sample in note["samples"]]
    return [Sample(mix=compiled.digest, shard=shard, sample_key=sample["key"], clip_id=item.clip_id,
                   component=item.component, ordinal=item.ordinal, repeat=item.repeat, start_frame=item.start_frame,
                   num_frames=item.num_frames, offset=sample["offset"], bytes=sample["bytes"])
            for item, (shard, sample) in zip(compiled.rows, places, strict=True)]


def catalog_samples(corpus: Path, mix: str) -> int:
    """Samples that the catalog lists for a mix."""
    con = open_catalog(corpus)
    row = con.execute("SELECT count(*) FROM sample WHERE mix = ?", [mix]).fetchone()
    assert row is not None  # count(*) always gives a row
    return row[0]
