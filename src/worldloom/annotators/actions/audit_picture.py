"""The picture of an audit: the worst clips, each with frames, keys, compass and flow, and a strip of its checks.

Amber is what the label says, blue what the flow shows; green agrees, red disagrees, grey cannot be told.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrow, FancyBboxPatch, Rectangle

from worldloom.annotators.actions.audit import AXES
from worldloom.annotators.actions.flow_check import Flow
from worldloom.schemas import UNCERTAIN, Action, Audit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRAMES = 4
_PAGE, _INK, _FAINT, _PANEL = "#14171c", "#e6e9ee", "#8b93a0", "#1d2229"
_SAID, _SEEN, _GOOD, _BAD, _NONE = "#ffb020", "#4db8ff", "#3fb950", "#f85149", "#3a414b"
_VERDICTS = {"agrees": _GOOD, "disagrees": _BAD, "shifted": _BAD, "cannot be told": _FAINT}
_NAMES = {"yaw": "yaw", "pitch": "pitch", "longitudinal": "forward / back", "lateral": "right / left",
          "still": "no movement"}
_SHORT = {"yaw": "yaw", "pitch": "pitch", "longitudinal": "fwd", "lateral": "side", "still": "still"}
_SIGNS = {1: ("✓", _GOOD), 0: ("✗", _BAD)}
_COMPASS_TIMES = 12                    # the needle leans so many times the turn of one frame, so that a degree shows


@dataclass(frozen=True)
class Shot:
    """A frame of a clip and the flow into it from the frame before, in its own pixels."""
    frame: int
    rgb_HWC: np.ndarray
    flow: Flow


@dataclass(frozen=True)
class Audited:
    """A clip to be judged by eye. Names are text of others and are drawn as they stand."""
    name: str
    source: str
    fps: float
    action: Action
    audit: Audit
    shots: tuple[Shot, ...]


def frames_to_show(audit: Audit) -> list[int]:
    """Rising frames: those where most checks disagree, filled up with ones spread over the clip."""
    chosen: list[int] = []
    spread = np.linspace(1, max(audit.num_frames - 2, 1), FRAMES).round().astype(int).tolist()
    for frame in [*audit.worst_frames, *spread, *range(1, audit.num_frames)]:
        near = any(abs(frame - other) < audit.num_frames // 20 for other in chosen)
        if 0 < frame < audit.num_frames and not near and len(chosen) < FRAMES:
            chosen.append(frame)
    return sorted(chosen)


def draw(clips: Sequence[Audited], out: Path) -> None:
    """Write the picture; its format is the one of the file's suffix."""
    figure = Figure(figsize=(16, 4.1 * len(clips) + 0.7), facecolor=_PAGE)
    FigureCanvasAgg(figure)
    rows = figure.add_gridspec(len(clips), 1, left=0.018, right=0.988, top=1 - 0.7 / figure.get_figheight(),
                               bottom=0.25 / figure.get_figheight(), hspace=0.13)
    _legend(figure)
    for row, clip in zip(rows, clips, strict=True):
        _clip(figure, row, clip)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")      # drawn as a box
        figure.savefig(out, dpi=100, facecolor=_PAGE)


def _text(ax: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Text of others: no formula is read out of it, and what cannot be printed shows as a box."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    ax.text(x, y, shown, parse_math=False, **{"color": _INK, "fontsize": 9, "va": "center"} | style)


def _legend(figure: Figure) -> None:
    y, size = 1 - 0.2 / figure.get_figheight(), 10.5
    words = (("what the label says", _SAID), ("what the flow shows", _SEEN), ("pixels agree", _GOOD),
             ("pixels disagree", _BAD), ("cannot be told", _FAINT))
    figure.text(0.018, y, "labels against pixels", color=_INK, fontsize=13, weight="bold", va="center")
    for place, (word, colour) in enumerate(words):
        figure.text(0.21 + 0.135 * place, y, f"■ {word}", color=colour, fontsize=size, va="center")


def _clip(figure: Figure, row: Any, clip: Audited) -> None:
    upper, lower = row.subgridspec(2, 1, height_ratios=[2.7, 1.0], hspace=0.07)
    grid = upper.subgridspec(1, FRAMES + 1, width_ratios=[0.92] + [1] * FRAMES, wspace=0.03)
    _card(figure.add_subplot(grid[0]), clip)
    for place, shot in enumerate(clip.shots):
        _shot(figure.add_subplot(grid[place + 1]), clip, shot)
    left, right = lower.subgridspec(1, 2, width_ratios=[3, 2], wspace=0.06)
    _turns(figure.add_subplot(left), clip)
    _checks(figure.add_subplot(right), clip)


def _card(ax: Axes, clip: Audited) -> None:
    """Name, verdict, and the share of each axis."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
    audit = clip.audit
    _text(ax, 0, 0.97, _cut(clip.name, 34), fontsize=10.5, weight="bold")
    _text(ax, 0, 0.89, _cut(f"{clip.source} · {audit.clip_id[:12]}", 40), color=_FAINT)
    late = "late" if audit.lag_frames > 0 else "early"
    verdict = f"shifted: {abs(audit.lag_frames)} frames {late}" if audit.lag_frames else audit.verdict
    _text(ax, 0, 0.77, verdict, color=_VERDICTS[audit.verdict], fontsize=14, weight="bold")
    for line, axis in enumerate(AXES):
        share, count = getattr(audit, f"{axis}_agreement"), getattr(audit, f"{axis}_checked")
        y = 0.62 - 0.125 * line
        _text(ax, 0, y, _NAMES[axis])
        ax.add_patch(Rectangle((0.4, y - 0.03), 0.3, 0.06, color=_NONE, lw=0))
        if share is not None:
            ax.add_patch(Rectangle((0.4, y - 0.03), 0.3, 0.06, color=_BAD, lw=0))
            ax.add_patch(Rectangle((0.4, y - 0.03), 0.3 * share, 0.06, color=_GOOD, lw=0))
        _text(ax, 0.73, y, "not checked" if share is None else f"{share:.0%} of {count}",
              color=_FAINT if share is None else _INK)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else "…" + text[-(length - 1):]


def _shot(ax: Axes, clip: Audited, shot: Shot) -> None:
    height, width = shot.rgb_HWC.shape[:2]
    ax.imshow(shot.rgb_HWC, interpolation="bilinear")
    ax.set(xlim=(0, width), ylim=(height, 0), anchor="N")
    ax.axis("off")
    times = _arrows(ax, shot.flow, width)
    _keys(ax, clip.action, shot.frame, width, height)
    _compass(ax, clip, shot.frame, width, height)
    flow = f"flow ×{times:.1f}" if times else "no flow"
    ax.set_title(f"frame {shot.frame} · {shot.frame / clip.fps:.2f} s · {flow}", color=_FAINT, fontsize=8.5, pad=4)
    for place, axis in enumerate(AXES):
        sign, colour = _SIGNS.get(int(getattr(clip.audit, f"{axis}_check")[shot.frame]), ("·", _FAINT))
        ax.text(width * (0.1 + 0.2 * place), height * 1.045, f"{_SHORT[axis]} {sign}", color=colour, fontsize=9.5,
                ha="center", va="center", weight="bold")


def _arrows(ax: Axes, flow: Flow, width: int) -> float:
    """Draws every third place's flow, longer than it is, and returns how many times."""
    start, moved = flow.a_N2[::3], flow.moved_N2[::3]
    if not len(start):
        return 0.0
    longest = max(float(np.quantile(np.linalg.norm(moved, axis=1), 0.9)), 0.02 * width / 12)
    times = float(np.clip(0.07 * width / longest, 1, 12))
    tips = start + times * moved
    for line_width, colour in ((2.6, "#000000a0"), (1.3, _SEEN)):
        ax.add_collection(LineCollection(np.stack([start, tips], 1), colors=colour, linewidths=line_width))
    ax.plot(*tips.T, ".", color=_SEEN, ms=2.5)
    return times


def _keys(ax: Axes, action: Action, frame: int, width: int, height: int) -> None:
    """W A S D, lit as labelled; a question mark where movement is uncertain."""
    size = 0.085 * width
    forward, right = int(action.longitudinal[frame]), int(action.lateral[frame])
    left, top = 0.025 * width, height - 2.3 * size - 0.025 * height
    for letter, column, row, value, on in (("W", 1, 0, forward, 1), ("A", 0, 1, right, -1), ("S", 1, 1, forward, -1),
                                           ("D", 2, 1, right, 1)):
        x, y = left + column * 1.12 * size, top + row * 1.12 * size
        fill = "#6b7380" if value == UNCERTAIN else _SAID if value == on else "#14171cc0"
        ax.add_patch(FancyBboxPatch((x, y), size, size, boxstyle="round,pad=0,rounding_size=3", fc=fill, ec=_INK,
                                    lw=0.8, zorder=4))
        ax.text(x + size / 2, y + size / 2, "?" if value == UNCERTAIN else letter, ha="center", va="center", zorder=5,
                fontsize=10, weight="bold", color="#14171c" if fill == _SAID else _INK)


def _compass(ax: Axes, clip: Audited, frame: int, width: int, height: int) -> None:
    """Needles that lean as far as the turn, twelve times: amber as labelled, blue as the mean flow shows."""
    radius = 0.085 * width
    x, y = width - 1.9 * radius, height - 2.5 * radius
    ax.add_patch(Rectangle((x - 1.8 * radius, y - 1.2 * radius), 3.6 * radius, 3.6 * radius, color="#14171cc0", lw=0,
                           zorder=4))
    ax.add_patch(Circle((x, y), radius, fill=False, ec=_FAINT, lw=0.9, zorder=5))
    said = (clip.action.yaw_deg[frame], clip.action.pitch_deg[frame])
    seen = (clip.audit.yaw_seen_deg[frame], clip.audit.pitch_seen_deg[frame])
    for (yaw, _), colour, size in ((seen, _SEEN, 0.85), (said, _SAID, 0.95)):
        if np.isfinite(yaw):
            lean = np.radians(np.clip(_COMPASS_TIMES * yaw, -170, 170))
            ax.add_patch(FancyArrow(x, y, size * radius * np.sin(lean), -size * radius * np.cos(lean), color=colour,
                                    width=0.06 * radius, head_width=0.3 * radius, length_includes_head=True, zorder=5))
    for row, (name, place) in enumerate((("yaw", 0), ("pitch", 1))):
        line = y + (1.45 + 0.6 * row) * radius
        ax.text(x - 1.7 * radius, line, name, color=_FAINT, fontsize=7, va="center", zorder=5)
        for value, colour, at in ((said[place], _SAID, 0.5), (seen[place], _SEEN, 1.72)):
            ax.text(x + at * radius, line, _degrees(value), color=colour, fontsize=7.5, va="center", ha="right",
                    zorder=5)


def _degrees(value: float) -> str:
    return f"{round(float(value), 1) + 0.0:+.1f}" if np.isfinite(value) else "–"


def _turns(ax: Axes, clip: Audited) -> None:
    """Yaw of every frame, as labelled and as seen."""
    time_s = np.arange(clip.audit.num_frames) / clip.fps
    _strip(ax, "yaw, ° a frame, by second", clip)
    known = np.flatnonzero(np.isfinite(clip.audit.yaw_seen_deg))
    usual = int(np.median(np.diff(known))) if len(known) > 1 else 1
    for part in np.split(known, np.flatnonzero(np.diff(known) > 2 * usual) + 1):
        ax.plot(time_s[part], np.asarray(clip.audit.yaw_seen_deg)[part], color=_SEEN, lw=1.1)
    ax.plot(time_s, clip.action.yaw_deg, color=_SAID, lw=1.6)
    reach = 1.15 * max(float(np.abs(clip.action.yaw_deg).max()), 1.0)
    ax.set_ylim(-reach, reach)
    ax.axhline(0, color=_NONE, lw=0.8, zorder=0)
    ax.tick_params(axis="y", colors=_FAINT, labelsize=7.5, pad=2, direction="in")


def _checks(ax: Axes, clip: Audited) -> None:
    """Every check of the clip, one row an axis."""
    _strip(ax, "", clip)
    table = np.stack([np.asarray(getattr(clip.audit, f"{axis}_check")) for axis in AXES])
    ax.imshow(table, aspect="auto", interpolation="nearest", cmap=ListedColormap([_BAD, _GOOD, _PANEL]), vmin=0, vmax=2,
              extent=(0, clip.audit.num_frames / clip.fps, len(AXES), 0))
    ax.set_yticks(np.arange(len(AXES)) + 0.5, [_SHORT[a] for a in AXES], color=_FAINT, fontsize=8)
    ax.tick_params(axis="y", length=0, pad=3)


def _strip(ax: Axes, title: str, clip: Audited) -> None:
    ax.set_facecolor(_PANEL)
    ax.set_xlim(0, clip.audit.num_frames / clip.fps)
    ax.tick_params(axis="x", colors=_FAINT, labelsize=7.5, direction="in", pad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
    for shot in clip.shots:
        ax.axvline(shot.frame / clip.fps, color=_FAINT, lw=0.7, ls=":")
    ax.text(0.006, 0.97, title, transform=ax.transAxes, color=_FAINT, fontsize=8, va="top", zorder=5)
