"""Ten minutes of training, then command following on maps never trained on, against gates; one seed.

    python benchmarks/bench_train.py --demo demo --out bench_train

Prints a table and exits with 1 when a gate fails. The figures depend on how many steps the machine manages in the time,
so the table names the steps.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from worldloom.demo.pipeline import TRAIN_STRIDE, Demo
from worldloom.train import TrainConfig, evaluate_following, train_model

GATES = {  # figure: smallest value that passes
    "yaw_r": 0.85, "yaw_slope": 0.6, "counterfactual_spread_deg": 8.0, "worst position r": 0.5,
    "psnr - copy dB": 0.0, "psnr - negated dB": 0.0,
}


def figures_against_gates(figures: dict[str, Any]) -> list[tuple[str, float, float]]:
    """(name, value, gate) of every gate."""
    values = figures | {"worst position r": min(figures["per_position_r"]),
                        "psnr - copy dB": figures["psnr"] - figures["psnr_copy"],
                        "psnr - negated dB": figures["psnr"] - figures["psnr_negated"]}
    return [(name, values[name], gate) for name, gate in GATES.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"), help="the demo's folder; made where it is missing")
    parser.add_argument("--out", type=Path, default=Path("bench_train"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    demo = Demo(args.demo)
    demo.record()
    demo.label()
    shards, held = demo.pack("train"), demo.pack("heldout")
    assert shards is not None and held is not None
    checkpoint = train_model(TrainConfig(shards=shards, out=args.out, minutes=args.minutes, seed=args.seed,
                                         frame_stride=TRAIN_STRIDE))
    from worldloom.train.checkpoint import load_checkpoint

    steps = load_checkpoint(checkpoint).step
    figures = evaluate_following(checkpoint, held)
    rows = figures_against_gates(figures)
    print(f"{args.minutes:g} min, {steps} steps, {figures['clips']} clips of {figures['frames']} frames, "
          f"estimator r on true frames {figures['estimator_r']:.3f}, shuffled r {figures['shuffled_r']:.3f}")
    print(f"{'figure':28}{'value':>9}{'gate':>8}")
    for name, value, gate in rows:
        print(f"{name:28}{value:9.3f}{gate:8.2f}  {'pass' if value >= gate else 'FAIL'}")
    print("counterfactual", {key: round(value, 2) for key, value in figures["counterfactual_deg"].items()})
    return int(any(value < gate for _, value, gate in rows))


if __name__ == "__main__":
    sys.exit(main())
