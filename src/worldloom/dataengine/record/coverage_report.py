"""A coverage as lines of text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from worldloom.dataengine.record.cells import CELLS, Cell
from worldloom.dataengine.record.coverage import Coverage, thin

KEYS = {(1, 0): "forward", (1, 1): "forward right", (0, 1): "right", (-1, 1): "back right", (-1, 0): "back",
        (-1, -1): "back left", (0, -1): "left", (1, -1): "forward left", (0, 0): "no key"}
TURNS, LOOKS = {-1: "left", 0: "straight", 1: "right"}, {1: "up", 0: "level", -1: "down"}
SHOWN_CELLS = 12


def cell_name(cell: Cell) -> str:
    longitudinal, lateral, turn, look = cell
    return f"{KEYS[longitudinal, lateral]}, turning {TURNS[turn]}, looking {LOOKS[look]}"


def lines_of(coverage: Coverage, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The report. `known` names the places, events and perspectives that could be there, under these words."""
    few = coverage.thin_cells()
    yield f"{coverage.videos} videos, {coverage.frames} frames"
    yield f"action cells: {len(CELLS) - len(few)} of {len(CELLS)} well covered; thin:"
    yield from (f"  {coverage.cells[cell]:>8}  {cell_name(cell)}" for cell in few[:SHOWN_CELLS])
    if len(few) > SHOWN_CELLS:
        yield f"            and {len(few) - SHOWN_CELLS} more"
    for word, counts in (("events", coverage.events), ("places", coverage.places),
                         ("perspectives", coverage.perspectives)):
        names = sorted({*counts, *known.get(word, ())})
        short = set(thin(counts, names))
        yield f"{word}:"
        yield from (f"  {counts[name]:>8}  {name}{'  THIN' if name in short else ''}"
                    for name in sorted(names, key=lambda name: (-counts[name], name)))


def draw(coverage: Coverage, path: Path, known: Mapping[str, Sequence[str]]) -> None:
    """A picture: frames of every action cell (turn across, keys down, one panel a look), and bars of the rest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 1)
    above, below = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
    axes = above.subplots(1, 3, sharey=True)
    top = max(1.0, np.log10(1 + max(coverage.cells.values(), default=0)))
    for axis, (look, name) in zip(axes, LOOKS.items(), strict=True):
        counts_KT = np.array([[coverage.cells[(*keys, turn, look)] for turn in TURNS] for keys in KEYS])
        image = axis.imshow(np.log10(1 + counts_KT), vmin=0, vmax=top, cmap="viridis", aspect="auto")
        for (row, column), count in np.ndenumerate(counts_KT):
            axis.text(column, row, f"{count}", ha="center", va="center", fontsize=8,
                      color="white" if np.log10(1 + count) < 0.6 * top else "black")
        axis.set(title=f"looking {name}", xticks=range(3), xticklabels=list(TURNS.values()), xlabel="turning",
                 yticks=range(len(KEYS)), yticklabels=list(KEYS.values()))
    above.colorbar(image, ax=axes, label="log10(1 + frames)")
    for axis, (word, counts) in zip(below.subplots(1, 3, width_ratios=(3, 3, 1)), (
            ("events", coverage.events), ("places", coverage.places), ("perspectives", coverage.perspectives)),
            strict=True):
        names = sorted({*counts, *known.get(word, ())}, key=lambda name: (counts[name], name))
        short = set(thin(counts, names))
        axis.barh(names, [counts[name] for name in names], color=["C3" if n in short else "C0" for n in names])
        axis.set(title=word + (" (red: thin)" if short else ""), xlabel="times" if word == "events" else "frames")
        axis.tick_params(axis="y", labelsize=8 if len(names) < 25 else 5)
    figure.savefig(path, dpi=100)
