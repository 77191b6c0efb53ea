"""The label bench's outcome for people: a table, a Markdown page and a picture of each clip's errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import labels_score as S
from labels_lines import Line
from labels_score import Scored

_VERDICT = {True: "pass", False: "MISS", None: "-"}


def table(lines: Sequence[Line]) -> str:
    width = max(len(line.what) for line in lines)
    rows = [f"{'#':2} {'what':{width}}  {'measured':>34}  {'wanted':>18}"]
    rows += [f"{line.hold:2} {line.what:{width}}  {line.measured:>34}  {line.wanted:>18}  {_VERDICT[line.passed]}"
             for line in lines]
    return "\n".join(rows)


def markdown(lines: Sequence[Line], scored: Sequence[Scored], title: str) -> str:
    rows = [f"# {title}", "", "| # | what | measured | wanted | |", "| --- | --- | --- | --- | --- |"]
    rows += ["| " + " | ".join((line.hold, line.what, line.measured, line.wanted, _VERDICT[line.passed])) + " |"
             for line in lines]
    rows += ["", "| clip | yaw median | yaw RMSE | pitch median | pitch RMSE | F1 along, across | certain | model |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*rows, *(_clip_row(s) for s in scored)]) + "\n"


def _clip_row(s: Scored) -> str:
    f1 = [S.macro_f1(axis.truth, axis.forced) for axis in (s.longitudinal, s.lateral)]
    camera = s.clip.camera
    focal = f"{camera.camera_model} {camera.focal_source}, focal {100 * S.focal_error(s):+.1f} %"
    errors = (S.median(s.yaw), S.rmse(s.yaw), S.median(s.pitch), S.rmse(s.pitch))
    angles = " | ".join(f"{value:.3f}" for value in errors)
    return f"| {_name(s)} | {angles} | {f1[0]:.2f}, {f1[1]:.2f} | {s.clip.action.certain_share:.2f} | {focal} |"


def _name(s: Scored) -> str:
    plan = s.clip.plan
    return f"{plan.group} {plan.kind} {plan.place}"


def picture(scored: Sequence[Scored], path: Path) -> None:
    """Yaw and pitch RMSE and certain share of every clip, and how yaw errors compare with their standard error."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 0.24 * len(scored) + 1.6), sharey=True,
                                                 width_ratios=(3, 2, 2), layout="constrained")
    at = np.arange(len(scored))[::-1]
    for values, mark, name in (([S.rmse(s.yaw) for s in scored], "o", "yaw RMSE"),
                               ([S.rmse(s.pitch) for s in scored], "s", "pitch RMSE"),
                               ([S.median(s.yaw) for s in scored], ".", "yaw median")):
        left.plot(np.maximum(values, 1e-3), at, mark, label=name)
    left.set(xscale="log", xlabel="degrees a frame", yticks=at, yticklabels=[_name(s) for s in scored])
    left.tick_params(axis="y", labelsize=7)
    left.set_ylim(-1, len(scored))
    middle.barh(at, [s.clip.action.certain_share for s in scored], color="#9ab")
    wrong = [np.mean([np.mean(a.label[a.certain] != a.truth[a.certain]) if a.certain.any() else 0.0
                      for a in (s.longitudinal, s.lateral)]) for s in scored]
    middle.plot(wrong, at, "x", color="#b33", label="wrong among certain")
    middle.set(xlabel="share of frames with certain movement", xlim=(0, 1))
    for times, colour in ((1, "#284"), (2, "#48c")):
        right.plot([S.within([s], times) for s in scored], at, "o", color=colour, label=f"within {times} se")
    for low, high, colour in ((0.60, 0.75, "#284"), (0.90, 0.98, "#48c")):
        right.axvspan(low, high, color=colour, alpha=0.12)
    right.set(xlabel="share of yaw errors", xlim=(0, 1.02))
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="upper right")
    figure.savefig(path, dpi=110)
    plt.close(figure)
