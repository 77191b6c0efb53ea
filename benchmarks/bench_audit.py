"""How right the audit is: exact labels of the label bench's recordings, and the same labels made wrong.

    python benchmarks/bench_audit.py bench_labels           # the folder of bench_labels.py; some two seconds a clip

Flow is measured once a clip and held against the engine's own labels, against those with one sign flipped, and against
those 5 frames late. Of the checks that decide, exact labels must agree in 95 %, a flipped axis in 10 % at most, and
late labels in 5 % fewer than exact ones. Exits with 1 where a group of clips misses.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from labels_corpus import Labelled, read_labelled  # noqa: E402
from labels_record import read_plans  # noqa: E402

from worldloom.annotators.actions.audit import AXES, clip_frames, judge, measured  # noqa: E402
from worldloom.dataengine.stage import Context  # noqa: E402
from worldloom.dataengine.store import read_manifest, read_part  # noqa: E402
from worldloom.schemas import Action, Audit, Clip  # noqa: E402

LATE_FRAMES = 5
LEAST_RIGHT, MOST_FLIPPED, LEAST_LOST = 0.95, 0.10, 0.05
_TRACKS = ("yaw_deg", "pitch_deg", "longitudinal", "lateral", "jump")


def _flipped(name: str) -> Callable[[Action], Action]:
    def flip(action: Action) -> Action:
        track = np.asarray(getattr(action, name))
        return replace(action, **{name: np.where(np.isin(track, (-1, 1)), -track, track) if name in AXES else -track})
    return flip


def _late(action: Action) -> Action:
    return replace(action, **{name: np.roll(getattr(action, name), LATE_FRAMES) for name in _TRACKS})


WRONG: dict[str, Callable[[Action], Action]] = {
    "exact": lambda action: action, "yaw": _flipped("yaw_deg"), "pitch": _flipped("pitch_deg"),
    "longitudinal": _flipped("longitudinal"), "lateral": _flipped("lateral"), "late": _late}


@dataclass
class Group:
    """Checks of a group of clips by how its labels were made wrong and by axis: [disagree, agree, undecided]."""
    clips: int = 0
    checks: dict[tuple[str, str], np.ndarray] = field(default_factory=lambda: defaultdict(lambda: np.zeros(3, int)))
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, wrong: str, row: Audit, places: list[int]) -> None:
        for axis in AXES:
            self.checks[wrong, axis] += np.bincount(getattr(row, f"{axis}_check")[places], minlength=3)
        self.verdicts[wrong][row.verdict] += 1

    def share(self, wrong: str, axes: Iterable[str] = AXES) -> tuple[float, int, int]:
        """Share of decided checks that agree, how many decided, and how many did not."""
        no, yes, undecided = sum((self.checks[wrong, axis] for axis in axes), np.zeros(3, int))
        return yes / max(1, yes + no), int(yes + no), int(undecided)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, nargs="?", default=Path("bench_labels"))
    groups = _audited(parser.parse_args().bench)
    missed = 0
    for name, group in groups.items():
        missed += not _holds(group)
        print(f"{name}, {group.clips} clips" + ("" if _holds(group) else "  MISSED"))
        for wrong in WRONG:
            print("  " + _line(group, wrong))
    return int(missed > 0 or not groups)


def _audited(bench: Path) -> dict[str, Group]:
    groups: dict[str, Group] = defaultdict(Group)
    clips = {engine: _clips(bench / engine / "corpus") for engine in ("vizdoom", "world")}
    for labelled in read_labelled(bench, read_plans(bench)):
        engine, group = labelled.plan.engine, groups[labelled.plan.group]
        _audit_one(labelled, clips[engine][labelled.camera.clip_id], Context(bench / engine / "corpus"), group)
    return groups


def _clips(corpus: Path) -> dict[str, Clip]:
    keys = read_manifest(corpus).get("clip", []) if corpus.exists() else []
    return {row.clip_id: row for key in keys for row in read_part(corpus, "clip", key, Clip)}


def _audit_one(labelled: Labelled, clip: Clip, context: Context, group: Group) -> None:
    gray_THW = clip_frames(context.media_path(clip), clip)
    steps = measured(gray_THW, clip.fps)
    group.clips += 1
    for wrong, spoil in WRONG.items():
        row = judge(steps, gray_THW.shape[1:], labelled.camera_truth, spoil(labelled.action_truth), clip)
        group.add(wrong, row, [last for _, last, _ in steps])


def _holds(group: Group) -> bool:
    exact, late = group.share("exact")[0], group.share("late")[0]
    flips = [group.share(axis, (axis,)) for axis in WRONG if axis in AXES]
    return (exact >= LEAST_RIGHT and late <= exact - LEAST_LOST
            and all(share <= MOST_FLIPPED for share, decided, _ in flips if decided))


def _line(group: Group, wrong: str) -> str:
    """One line of the table: agreement on the axis that was flipped, or on all of them and on each."""
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(group.verdicts[wrong].items()))
    flipped = wrong in AXES
    share, decided, undecided = group.share(wrong, (wrong,) if flipped else AXES)
    each = "" if flipped else "  ".join("{} {:.3f} of {}".format(axis, *group.share(wrong, (axis,))) for axis in AXES)
    name = f"{wrong} flipped" if flipped else f"{LATE_FRAMES} frames late" if wrong == "late" else wrong
    return f"{name:22s} {share:6.1%} of {decided:5d} agree, {undecided:5d} undecided; {verdicts}  {each}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
