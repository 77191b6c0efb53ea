"""One plan over a folder of handed data, and a table of what came out of every item of its MANIFEST.csv.

    python benchmarks/every_item.py DATA --corpus OUT --page docs/every-item.md

Clips are cut to 144 lines and videos labelled from their first `--seconds`, so that the run takes minutes.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import RunReport, run_plan
from worldloom.dataengine.sources import SourceParams, open_source
from worldloom.dataengine.sources.formats.reader import POSES
from worldloom.dataengine.stage import decode_name

SOURCES = [
    ("folder", "awkward", None), *(("folder", f"video/{name}", None) for name in (
        "curation", "first_person_real", "gameplay", "generated", "third_person_real")),
    ("owa-mcap", "video/desktop_input", None), ("7scenes", "posed/sevenscenes_rgbd", None),
    ("re10k", "posed/re10k", None), ("euroc", "posed/euroc_v101_micro", None), ("nerf", "posed/fox_nerf", None),
    ("slambook", "posed/slambook_ch5_rgbd", None), ("sekai", "traj/sekai_yume", None),
    ("lingbot", "traj/lingbot_world", None), ("hy-worldplay", "traj/hy_worldplay", None),
    ("motionctrl", "traj/motionctrl", None), ("uzh-fpv", "traj/uzhfpv", None),
    ("tartanair", "traj/tartanair_eval", None), ("comma2k19", "traj/comma2k19", None), ("aria", "traj/aria", None),
    ("colmap", "traj/colmap_text_crane_mast", None), ("kitti", "traj/evo", "KITTI*"), ("tum", "traj/evo", "fr2*"),
    ("tum", "traj/evo", "V102*"), ("tum", "traj/evo", "*.tum"), ("vpt", "traj/vpt_actions", None)]
"""(kind, folder, pattern of files), all that the plan reads."""
BESIDE = [
    ("*/depth/*", "depth picture; no stage reads depth"), ("*/original_frames/*", "still of the video beside it"),
    ("*LICENSE*", "terms of the data"), ("*/points3D.txt", "points; only cameras and poses are read"),
    ("*/test_case.csv", "pictures and captions to generate from, no footage"),
    ("*/global_pose__frame_velocities.npy", "velocities; poses are read"),
    ("*/processed_log__CAN__*", "car bus log; poses are read"),
    ("*/frame_list.txt", "list of the stills it was cut to"),
    ("*/V1_01_easy.txt", "calibration of another tool; the sensor's own yaml is read"),
    ("*/body.yaml", "body frame of the rig"), ("*/sensor.yaml", "calibration of a sensor that is not read"),
    ("*.mp3", "sound alone; a folder's videos are read"), ("*.wav", "sound alone; a folder's videos are read"),
    ("traj/lingbot_world/*/action.npy", "another array of the keys; wasd_action and ijkl_action are read"),
    ("traj/lingbot_world/*/image.jpg", "first picture to generate from"), ("*/prompt.txt", "text to generate from"),
    ("*/camera-intrinsics.txt", "calibration; 7-Scenes states its own")]
"""Items that no reader needs, and why."""


@dataclass(frozen=True)
class Outcome:
    """What came out of one item of the manifest."""
    item: str
    kind: str
    result: str                    # clips, trajectory, part, dropped, failed or beside; missing: not accounted for
    detail: str


def source_name(folder: str, only: str | None) -> str:
    return folder + (f":{only}" if only else "")


def make_corpus(data: Path, folder: Path, *, seconds: float = 2.0, height: int = 144) -> RunReport:
    """Run the plan over everything in `data`; the corpus is folder/corpus."""
    sources = [{"kind": kind, "name": source_name(path, only), "path": str(data / path), "licence": "see the manifest",
                **({"only": only} if only else {})} for kind, path, only in SOURCES]
    plan = {"sources": sources, "stages": ["video", "trajectory", "clip", "camera", "action"], "videos_per_part": 8,
            "params": {"clip": {"height": height, "max_s": seconds, "min_s": 0.1, "shots": False},
                       "camera": {"mode": "auto"}}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    return run_plan(load_plan(folder / "plan.yaml"), folder / "corpus", executor="inline", quiet=True, say=print)


def outcomes(data: Path, folder: Path) -> list[Outcome]:
    """One outcome for each item of the manifest, in its order."""
    found = _by_file(folder / "corpus")
    made_of = dict(_files(data, folder / "corpus"))
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as stream:
        return [_outcome(row["path"], found, made_of) for row in csv.DictReader(stream)]


def _outcome(item: str, found: dict[tuple[str, str], tuple[str, str]], made_of: dict[str, Any]) -> Outcome:
    if item in made_of:
        kind, source, entry, main = made_of[item]
        result, detail = found.get((source, entry), ("missing", f"nothing of {entry}"))
        return Outcome(item, kind, result, detail) if item == main else Outcome(item, kind, "part", f"of `{main}`")
    why = next((reason for pattern, reason in BESIDE if fnmatch(item, pattern)), None)
    return Outcome(item, "-", "beside", why) if why else Outcome(item, "-", "missing", "no reader lists it")


def _files(data: Path, corpus: Path) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    """(item, (kind, source, name of the entry, the item that stands for it)) of every file that a reader uses."""
    for kind, path, only in SOURCES:
        reader = open_source(SourceParams(kind=kind, name=source_name(path, only), path=str(data / path), only=only))
        if not hasattr(reader, "recordings"):
            for entry in reader.entries():
                item = f"{path}/{decode_name(entry.name)}"
                yield item, (kind, reader.params.name, entry.name, item)
            continue
        reader.prepare(corpus.resolve())
        entries = {_stem(decode_name(entry.name)): entry.name for entry in reader.entries()}
        for recording in reader.recordings():
            used = [f for f in (recording.video, *recording.files, *recording.pictures) if f is not None]
            items = [f.resolve().relative_to(data.resolve()).as_posix() for f in dict.fromkeys(used)]
            for item in items:
                yield item, (kind, reader.params.name, entries[recording.name], items[0])


def _stem(name: str) -> str:
    """The recording of a file that a reader made: its name without .poses.json or a video's ending."""
    return name.removesuffix(POSES) if name.endswith(POSES) else name.rpartition(".")[0]


def _by_file(corpus: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """(source, file) -> (result, detail): rows of a file are its clips and labels, its drop or its failure."""
    con = open_catalog(corpus)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    refused = {name: (result, why) for result, table in (("dropped", "drop"), ("failed", "failure"))
               for name, why in con.sql(f"SELECT row_key, detail FROM \"{table}\" "
                                        "WHERE stage IN ('video', 'trajectory')").fetchall()}
    for source, in con.sql("SELECT name FROM source").fetchall():
        found |= {(source, name): said for name, said in refused.items()}
    for source, name, video, codec, width, height, frames in con.sql(
            "SELECT s.name, v.name, v.video_id, codec, width, height, num_frames FROM video v JOIN source s "
            "USING (source_id)").fetchall():
        found[source, name] = _of_video(con, video, f"{codec} {width}x{height}, {frames} frames")
    for source, name, frames, forward, backward, turning in con.sql(
            "SELECT s.name, t.name, num_frames, forward_frames, backward_frames, turning_frames FROM trajectory t "
            "JOIN source s USING (source_id)").fetchall():
        found[source, name] = ("trajectory", f"{frames} poses: {forward} forward, {backward} back, {turning} turning")
    return found


def _of_video(con: Any, video_id: str, facts: str) -> tuple[str, str]:
    ids = "(SELECT clip_id FROM clip WHERE video_id = $1)"
    clips, labelled = con.execute(
        f"SELECT (SELECT count(*) FROM clip WHERE video_id = $1), (SELECT count(*) FROM action WHERE clip_id IN {ids})",
        [video_id]).fetchone()
    lost = con.execute(
        "SELECT stage || ': ' || detail FROM (SELECT stage, row_key, detail FROM \"drop\" UNION ALL SELECT stage, "
        f"row_key, detail FROM failure) WHERE row_key = $1 OR row_key LIKE $1 || ':%' OR row_key IN {ids}",
        [video_id]).fetchall()
    why = f"; {len(lost)} left out, such as {lost[0][0]}" if lost else ""
    return ("clips" if clips else "dropped"), f"{facts}; {clips} clips, {labelled} labelled{why}"


def page(rows: list[Outcome], minutes: float) -> str:
    """The table as a Markdown page; items of one recording that follow each other take one line."""
    counts = {result: sum(row.result == result for row in rows) for result in dict.fromkeys(r.result for r in rows)}
    head = ["# What comes out of every handed item", "",
            f"One plan over {len(rows)} items, made by `python benchmarks/every_item.py DATA --corpus OUT --page "
            f"docs/every-item.md` in {minutes:.1f} minutes on one core: clips of at most two seconds, 144 lines, "
            "labels from given poses where there are any, else from the pixels.", "",
            "| result | items |", "| --- | --- |", *(f"| {name} | {count} |" for name, count in counts.items()), "",
            "`part`: a file that belongs to a recording; `beside`: a file that no reader needs.", "",
            "| item | kind | result | what |", "| --- | --- | --- | --- |"]
    lines = [f"| `{item}` | {kind} | {result} | {_cell(detail)} |" for item, kind, result, detail in _folded(rows)]
    return "\n".join([*head, *lines, ""])


def _folded(rows: list[Outcome]) -> Iterator[tuple[str, str, str, str]]:
    """Rows, those of one folder that say the same folded into one with their number."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        folder = row.item.rpartition("/")[0] if row.result in ("part", "beside") else row.item
        groups.setdefault((folder, row.kind, row.result, row.detail), []).append(row.item)
    for (folder, kind, result, detail), items in groups.items():
        yield (items[0] if len(items) == 1 else f"{folder}/* ({len(items)} files)"), kind, result, detail


def _cell(text: str) -> str:
    short = " ".join(text.split())
    return (short if len(short) <= 240 else short[:239] + "…").replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    began = time.monotonic()
    make_corpus(args.data, args.corpus, seconds=args.seconds)
    rows = outcomes(args.data, args.corpus)
    if args.page:
        args.page.write_text(page(rows, (time.monotonic() - began) / 60), encoding="utf-8")
    print(*(row for row in rows if row.result == "missing"), sep="\n")


if __name__ == "__main__":
    main()
