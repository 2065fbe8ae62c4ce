"""The conflict matrix as a heatmap: training subsets down, evaluation subsets across, the two kinds apart."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.arrays import Strs
from shiftbench.conflict.result import Conflicts
from shiftbench.conflict.sides import IN, OUT
from shiftbench.files import writing

DPI = 200
CELLS = (0.2, 0.4)  # smallest and largest side of a cell; all lengths are in inches
HEADING = 1.6  # room for the title of a panel
LETTER = 0.055  # of a subset's name
INK, PALE, FAINT = "#202124", "#5f6368", "#8a9097"
TITLES = {IN: "in-domain evaluation", OUT: "out-of-domain evaluation"}


def draw(conflicts: Conflicts, path: Path | str) -> Path:
    """Write the heatmap as a PNG file. Blue helps, red hurts: a pair that the colour-blind can tell apart."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train, evaluation = conflicts.train, conflicts.evaluation
    kinds = [kind for kind in (IN, OUT) if (evaluation.kind == kind).any()]
    cell = min(CELLS[1], max(CELLS[0], 4 / len(evaluation.names)))
    widths = [cell * int((evaluation.kind == kind).sum()) for kind in kinds]
    left, bottom = (0.25 + LETTER * max(map(len, names)) for names in (train.names, evaluation.names))
    gap, top, right = 0.3, 1.05, 1.15
    tall = cell * len(train.names)
    wide = max(4.2, left + sum(max(width, HEADING) for width in widths[:-1]) + widths[-1] + gap * (len(kinds) - 1)
               + max(right, HEADING - widths[-1]))
    high = top + max(tall, 1.6) + bottom
    figure = Figure(figsize=(wide, high), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)

    def place(x: float, y: float, width: float, height: float) -> Any:
        """Axes whose upper left corner is x to the right and y down."""
        return figure.add_axes((x / wide, 1 - (y + height) / high, width / wide, height / high))

    # One cell far above the others would leave them pale: the scale ends where 2 % of the cells lie beyond.
    limit = float(np.quantile(np.abs(conflicts.effect.value), 0.98)) or 1.0
    x, end, image = left, left, None
    for kind, width in zip(kinds, widths, strict=True):
        image = _panel(place(x, top, width, tall), conflicts, kind, limit, named=kind == kinds[0])
        x, end = x + max(width, HEADING) + gap, x + width
    _scale(figure, image, place(end + 0.2, top + 0.2, 0.13, min(2.6, max(tall, 1.6) - 0.4)), limit)
    figure.text(0.15 / wide, 1 - 0.2 / high, f"Training conflicts in {conflicts.benchmark}", va="center", fontsize=11,
                color=INK, weight="bold")
    figure.text(0.15 / wide, 1 - 0.33 / high, "what a step on the row's subset does to the loss of the column's\n"
                "dot: the 95 % interval holds 0   grey name: little contribution", va="top", fontsize=8, color=PALE)
    with writing(path) as hidden:
        figure.savefig(hidden, format="png")
    return Path(path)


def _panel(axes: Any, conflicts: Conflicts, kind: str, limit: float, named: bool) -> Any:
    """The columns of one kind; the rows are named at the first panel."""
    mine = conflicts.evaluation.kind == kind
    names = [name for name, here in zip(conflicts.evaluation.names, mine, strict=True) if here]
    value, low, high = (part[:, mine] for part in conflicts.effect)
    image = axes.imshow(value, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    row, column = np.nonzero((low <= 0) & (high >= 0))
    axes.scatter(column, row, s=1.6, c=PALE, linewidths=0)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=INK)
    axes.set_yticks(range(len(conflicts.train.names)), conflicts.train.names if named else [], fontsize=7, color=INK)
    axes.tick_params(length=0, pad=2)
    for text in axes.get_yticklabels():
        if text.get_text() in conflicts.little:
            text.set_color(FAINT)
    for edge in _edges(conflicts.train.label)[1:-1]:
        axes.axhline(edge - 0.5, color=INK, linewidth=0.9)
    label = conflicts.evaluation.label[mine]
    for start, stop in pairwise(_edges(label)):
        if start:
            axes.axvline(start - 0.5, color=INK, linewidth=0.9)
        axes.annotate(label[start], ((start + stop - 1) / 2, -0.5), (0, 3), textcoords="offset points", fontsize=7.5,
                      color=PALE, ha="center", va="bottom")
    axes.set_title(TITLES[kind], fontsize=8.5, color=INK, pad=16, loc="left")
    _frame(axes.spines.values())
    return image


def _edges(label: Strs) -> list[int]:
    """Where each class begins, and the end."""
    return [0, *(np.flatnonzero(label[1:] != label[:-1]) + 1).tolist(), len(label)]


def _scale(figure: Any, image: Any, axes: Any, limit: float) -> None:
    """The colours and what they mean."""
    bar = figure.colorbar(image, cax=axes, extend="both" if limit < 1 else "neither")
    _frame([bar.outline])
    axes.tick_params(labelsize=7, length=2, colors=PALE)
    for y, text, at in ((1.07, "lowers the loss", "bottom"), (-0.07, "raises it: conflict", "top")):
        axes.text(-0.4, y, text, transform=axes.transAxes, fontsize=7, color=INK, ha="left", va=at)


def _frame(lines: Any) -> None:
    for line in lines:
        line.set_edgecolor(PALE)
        line.set_linewidth(0.6)
