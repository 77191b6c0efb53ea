"""Charts of the report as PNG bytes, each drawn once for a light and once for a dark page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

matplotlib.rcParams["axes.formatter.useoffset"] = False

EST, TRUE = "#e8871e", "#2f81c7"
_THEMES = {"light": ("#ffffff", "#30363d", "#d5dae0"), "dark": ("#171b21", "#c9d1d9", "#343b44")}
_MAX_POINTS = 8000


@dataclass(frozen=True)
class Chart:
    """One chart in two colour schemes, PNG bytes, and the text read in place of it."""
    light: bytes
    dark: bytes
    alt: str


def chart(draw: Callable[[Figure], None], size_in: tuple[float, float], alt: str) -> Chart:
    return Chart(alt=alt, **{name: _render(draw, size_in, *colours) for name, colours in _THEMES.items()})


def _render(draw: Callable[[Figure], None], size_in: tuple[float, float], page: str, ink: str, grid: str) -> bytes:
    style = {"axes.facecolor": page, "figure.facecolor": page, "text.color": ink, "axes.labelcolor": ink,
             "axes.edgecolor": grid, "xtick.color": ink, "ytick.color": ink, "grid.color": grid, "axes.grid": True,
             "font.size": 9, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size_in, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110)
    return data.getvalue()


def plain(text: str) -> str:
    """Text that matplotlib draws as it stands: a dollar sign opens no formula."""
    return text.replace("$", r"\$")


def trajectory(title: str, est_T2: np.ndarray, true_T2: np.ndarray | None) -> Chart:
    """A path from above, right and ahead of the first camera, with the true one under it where it is known."""
    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        if true_T2 is not None:
            ax.plot(*true_T2.T, color=TRUE, lw=4, alpha=0.55, label="true", solid_capstyle="round")
        ax.plot(*est_T2.T, color=EST, lw=1.6, label="camera" if true_T2 is None else "estimated")
        ax.plot(*est_T2[0], "o", color=EST, ms=6)
        ax.set_title(plain(title), fontsize=9)
        ax.set_aspect("equal", "datalim")
        ax.legend(fontsize=8)
    return chart(draw, (3.6, 3.2), f"camera path of {title} from above")


def yaw_scatter(est: np.ndarray, true: np.ndarray) -> Chart:
    step = max(1, len(est) // _MAX_POINTS)

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.axline((0, 0), slope=1, color=TRUE, lw=1, label="equal")
        ax.plot(true[::step], est[::step], ".", color=EST, ms=3, alpha=0.5, label="one frame")
        ax.set_xlabel("true yaw (deg a frame)")
        ax.set_ylabel("estimated yaw (deg a frame)")
        ax.legend(fontsize=8)
    return chart(draw, (4.2, 3.8), "estimated against true yaw of every frame")


def yaw_lines(est: np.ndarray, true: np.ndarray, title: str) -> Chart:
    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.plot(true, color=TRUE, lw=3.5, alpha=0.55, label="true")
        ax.plot(est, color=EST, lw=1.4, label="estimated")
        ax.set_xlabel("frame")
        ax.set_ylabel("yaw (deg a frame)")
        ax.set_title(plain(title), fontsize=9)
        ax.legend(fontsize=8)
    return chart(draw, (6.8, 3.8), "yaw of one clip by frame, estimated and true")


def losses(steps: Sequence[float], curves: dict[str, Sequence[float]]) -> Chart:
    """Loss by step; `curves` by name, None or NaN where a step has no value."""
    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for colour, (name, values) in zip((EST, TRUE, "#5a9e4b"), curves.items(), strict=False):
            y = np.array(values, float)
            many = len(y) >= 60
            ax.plot(steps, y, color=colour, lw=1, alpha=0.3 if many else 1, label=None if many else plain(name))
            if many:
                ax.plot(steps, _smooth(y), color=colour, lw=2, label=plain(name) + ", smoothed")
        finite = np.concatenate([np.array(v, float) for v in curves.values()])
        finite = finite[np.isfinite(finite)]
        if len(finite) and finite.min() > 0 and finite.max() > 10 * finite.min():
            ax.set_yscale("log")
        ax.set_xlabel("step")
        ax.set_ylabel("loss")
        ax.legend(fontsize=8)
    return chart(draw, (8.0, 3.4), "loss by training step")


def _smooth(values: np.ndarray) -> np.ndarray:
    """Running mean over a thirtieth of the values, ends shortened; unknown values are left out."""
    width = max(3, len(values) // 30) | 1
    known, kernel = np.isfinite(values), np.ones(width)
    total = np.convolve(np.where(known, values, 0), kernel, "same")
    count = np.convolve(known.astype(float), kernel, "same")
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
