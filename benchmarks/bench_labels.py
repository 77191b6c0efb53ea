"""Camera and action labels against engine truth, on recordings with seeds that nothing was tuned on.

    python benchmarks/bench_labels.py --out bench_labels            # records, labels, scores: a quarter of an hour
    python benchmarks/bench_labels.py --out bench_labels --score    # scores what is there
    python benchmarks/bench_labels.py --seed 7 --only vizdoom --quick

Draws a seed and prints it; prints one table and writes it, with a row for each clip, to OUT/labels.md and .png.
Exits with 1 when a line misses. A folder keeps its seed: run again, and it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from labels_corpus import label_all, read_labelled  # noqa: E402
from labels_lines import all_lines  # noqa: E402
from labels_record import clip_plans, read_plans, record_all  # noqa: E402
from labels_report import markdown, picture, table  # noqa: E402
from labels_score import score  # noqa: E402


def main() -> int:
    args = parsed()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.score:
        record_and_label(args)
    facts = json.loads((args.out / "bench.json").read_text())
    plans = read_plans(args.out)
    scored = [score(clip) for clip in read_labelled(args.out, plans)]
    lines = all_lines(scored, len(plans))
    title = f"Label bench, seed {facts['seed']}: {len(scored)} clips of {facts['seconds']:g} s"
    (args.out / "labels.md").write_text(markdown(lines, scored, title))
    picture(scored, args.out / "labels.png")
    print(f"{title}\n{table(lines)}")
    missed = sum(line.passed is False for line in lines)
    held = sum(line.passed is True for line in lines)
    print(f"{held} lines hold, {missed} miss; more in {args.out / 'labels.md'} and labels.png")
    return int(missed > 0)


def record_and_label(args: argparse.Namespace) -> None:
    facts_path = args.out / "bench.json"
    if facts_path.exists() and args.seed is None:
        args.seed = json.loads(facts_path.read_text())["seed"]
    seed = secrets.randbelow(10**9) if args.seed is None else args.seed
    seconds = args.seconds or (5.0 if args.quick else 12.0)
    print(f"seed {seed}", file=sys.stderr, flush=True)
    facts_path.write_text(json.dumps({"seed": seed, "seconds": seconds}))
    engines = (args.only,) if args.only else ("vizdoom", "world")
    began = time.monotonic()
    plans = record_all(args.out, clip_plans(seed, engines, args.quick), seconds, args.workers)
    recorded = time.monotonic()
    label_all(args.out, plans, seconds, args.workers, args.mode)
    print(f"recorded in {recorded - began:.0f} s, labelled in {time.monotonic() - recorded:.0f} s", file=sys.stderr)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench_labels"))
    parser.add_argument("--seed", type=int, help="repeat this run's recordings; drawn at random otherwise")
    parser.add_argument("--only", choices=("vizdoom", "world"))
    parser.add_argument("--quick", action="store_true", help="four short clips of each group")
    parser.add_argument("--score", action="store_true", help="only score what the folder holds")
    parser.add_argument("--seconds", type=float, help="length of a clip: 12, or 5 with --quick")
    parser.add_argument("--mode", default="odometry", help="mode of the camera stage")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
