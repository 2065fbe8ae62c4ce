"""The conflict matrix as a heatmap: training subsets down, evaluation subsets across, the two kinds apart."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.conflict.matrix import IN, KINDS, LEFT_OUT, OUT, Conflicts, Side
from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.core.files import writing

DPI = 200
CELLS = (0.2, 0.4)  # smallest and largest side of a cell; all lengths are in inches
HEADING = 1.6  # room for the title of a panel
LETTER = 0.055  # of a subset's name
INK, PALE, FAINT = "#202124", "#5f6368", "#8a9097"
TITLES = {IN: "in-domain evaluation", OUT: "out-of-domain evaluation", LEFT_OUT: "left out of training"}


def draw(conflicts: Conflicts, path: Path | str) -> Path:
    """Write the heatmap as a PNG file. Blue helps, red hurts: a pair that the colour-blind can tell apart."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train, evaluation = conflicts.train, conflicts.evaluation
    kinds = [kind for kind in KINDS if (evaluation.kind == kind).any()]
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

    def axes_at(x: float, y: float, width: float, height: float) -> Any:
        """Axes whose upper left corner is x to the right and y down."""
        return figure.add_axes((x / wide, 1 - (y + height) / high, width / wide, height / high))

    # One cell far above the others would leave them pale: the scale ends where 2 % of the cells lie beyond.
    limit = float(np.quantile(np.abs(conflicts.effect.value), 0.98)) or 1.0
    x, end, image = left, left, None
    for kind, width in zip(kinds, widths, strict=True):
        image = _panel(axes_at(x, top, width, tall), conflicts, kind, limit, named=kind == kinds[0])
        x, end = x + max(width, HEADING) + gap, x + width
    _scale(figure, image, axes_at(end + 0.2, top + 0.2, 0.13, min(2.6, max(tall, 1.6) - 0.4)), limit)
    figure.text(0.15 / wide, 1 - 0.2 / high, f"Training conflicts in {conflicts.benchmark}", va="center", fontsize=11,
                color=INK, weight="bold")
    figure.text(0.15 / wide, 1 - 0.33 / high, "what a step on the row's subset does to the loss of the column's\n"
                "dot: the 95 % interval holds 0   grey name: little contribution", va="top", fontsize=8, color=PALE)
    with writing(path) as hidden:
        figure.savefig(hidden, format="png")
    return Path(path)


def _panel(axes: Any, conflicts: Conflicts, kind: str, limit: float, named: bool) -> Any:
    """The columns of one kind; the rows are named at the first panel."""
    of_kind = conflicts.evaluation.kind == kind
    names = [name for name, selected in zip(conflicts.evaluation.names, of_kind, strict=True) if selected]
    value, low, high = (values[:, of_kind] for values in conflicts.effect)
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
    label = conflicts.evaluation.label[of_kind]
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
    for y, text, alignment in ((1.07, "lowers the loss", "bottom"), (-0.07, "raises it: conflict", "top")):
        axes.text(-0.4, y, text, transform=axes.transAxes, fontsize=7, color=INK, ha="left", va=alignment)


def _frame(lines: Any) -> None:
    for line in lines:
        line.set_edgecolor(PALE)
        line.set_linewidth(0.6)


# Rows and columns in an order that shows what belongs together: classes apart, similar subsets side by side


def order(value: Floats, train: Side, evaluation: Side) -> tuple[Ints, Ints]:
    """Places of the training subsets, and of the evaluation subsets: in-domain, out-of-domain, left out.

    Within a class, average linkage of Euclidean distances between profiles, leaves ordered so that neighbours are as
    near as can be (Bar-Joseph et al., 2001). The profile of a training subset is its row and, where it is evaluated in
    domain, its column; its in-domain column stands where its row does, so that the diagonal is one. Out-of-domain
    subsets are ordered by their columns. Each class is ordered in that of its two directions which brings strong
    effects nearer to the diagonal of their block.
    """
    inside = {name: column for column, (name, kind) in enumerate(zip(evaluation.names, evaluation.kind, strict=True))
              if kind == IN}
    diagonal = np.asarray([inside.get(name, -1) for name in train.names])
    received = np.where(diagonal >= 0, value[:, diagonal], 0.0)
    profile = np.concatenate([value, received.T], axis=1)
    rows: list[Ints] = []
    for places in _classes(train, np.arange(len(train.names))):
        leaves = places[_leaves(profile[places])]
        rows.append(_facing(received[:, leaves], leaves, rows[:1]))
    columns: list[Ints] = []
    for kind in (OUT, LEFT_OUT):
        for places in _classes(evaluation, np.flatnonzero(evaluation.kind == kind)):
            leaves = places[_leaves(value.T[places])]
            columns.append(_facing(value[:, leaves], leaves, rows))
    ordered = np.concatenate(rows)
    in_domain = diagonal[ordered]
    return ordered, np.concatenate([in_domain[in_domain >= 0], *columns])


def _classes(side: Side, places: Ints) -> list[Ints]:
    """The places of each class, classes in alphabetical order."""
    return [places[side.label[places] == label] for label in np.unique(side.label[places])]


def _leaves(profile: Floats) -> Ints:
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(profile) < 3:
        return np.arange(len(profile))
    return np.asarray(leaves_list(linkage(profile, "average", optimal_ordering=True)), np.int64)


def _facing(value: Floats, leaves: Ints, rows: list[Ints]) -> Ints:
    """The leaves or their reverse, by where their columns' strong effects lie among the rows of each class."""
    across = np.linspace(-1, 1, len(leaves))
    lean = sum(float(np.linspace(-1, 1, len(row)) @ np.abs(value[row]) @ across) for row in rows)
    return leaves[::-1] if lean < 0 else leaves
