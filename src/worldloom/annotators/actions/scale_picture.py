"""The plot of the action-scale table: distance of a W latent and degrees of a turning latent, by source."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FITS, _FLAGGED, _APART, _BAND = "#2f81c7", "#d6453d", "#9aa3ad", "#2f81c722"
_BAND_SHARE = 0.25


def draw_scale(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write the plot of `action_scale` rows: median and quartiles, flagged sources in red, the rest's band behind.

    Sources without metres are drawn hollow, each over its own median: their distances compare with nothing.
    """
    figure = Figure(figsize=(11, 1.6 + 0.42 * max(len(rows), 3)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    names = [_name(row) for row in rows]
    _distances(left, rows)
    _turns(right, rows)
    left.set_yticks(range(len(rows)), names, parse_math=False)
    left.set_ylim(len(rows) - 0.5, -0.5)
    for ax in (left, right):
        ax.grid(axis="x", color="#e3e7ec")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlim(left=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")      # drawn as a box
        figure.savefig(out, dpi=120)


def _name(row: Mapping[str, Any]) -> str:
    shown = "".join(c if c.isprintable() else "�" for c in str(row["source"]))
    return f"{shown if len(shown) <= 32 else shown[:31] + '…'} ({row['scale_status']})"


def _distances(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    usual = _usual([(r["w_median"], r["w_off"]) for r in rows if r["w_is_comparable"]])
    _behind(ax, usual)
    for y, row in enumerate(rows):
        if row["w_median"] is None:
            ax.text(0.01, y, "  no forward latent", transform=ax.get_yaxis_transform(), va="center", color=_APART)
            continue
        if row["w_is_comparable"]:
            _mark(ax, y, *(row[k] for k in ("w_median", "w_q25", "w_q75")), _FLAGGED if row["w_flagged"] else _FITS)
            continue
        shown = usual or 1.0
        low, high = (shown * row[k] / row["w_median"] if row["w_median"] else shown for k in ("w_q25", "w_q75"))
        _mark(ax, y, shown, low, high, _APART, face="white")
    ax.set_xlabel("metres per W latent (hollow: no metres, own median on the line)")


def _turns(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    _behind(ax, _usual([(r["turn_median_deg"], r["turn_off"]) for r in rows]))
    for y, row in enumerate(rows):
        if row["turn_median_deg"] is None:
            ax.text(0.01, y, "  no turning latent", transform=ax.get_yaxis_transform(), va="center", color=_APART)
            continue
        colour = _FLAGGED if row["turn_flagged"] else _FITS
        _mark(ax, y, row["turn_median_deg"], row["turn_q25_deg"], row["turn_q75_deg"], colour,
              face=None if row["is_calibrated"] else "white")
    ax.set_xlabel("degrees per turning latent (hollow: focal length not known)")


def _usual(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The median that sources are compared with, from any of them and how far it is off."""
    return next((m / (1 + off) for m, off in pairs if m is not None and off is not None), None)


def _behind(ax: Axes, usual: float | None) -> None:
    if usual:
        ax.axvspan(usual * (1 - _BAND_SHARE), usual * (1 + _BAND_SHARE), color=_BAND, lw=0)
        ax.axvline(usual, color=_FITS, lw=1, ls="--")


def _mark(ax: Axes, y: float, middle: float, low: float, high: float, colour: str, face: str | None = None) -> None:
    ax.plot([low, high], [y, y], color=colour, lw=5, alpha=0.45, solid_capstyle="butt")
    ax.plot([middle], [y], "o", color=colour, mfc=face or colour, ms=8)
