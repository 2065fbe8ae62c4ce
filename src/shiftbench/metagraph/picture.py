"""A meta-graph as a picture: communities coloured, edges as wide as overlaps, and its embedding beside it.

`picture` says where nodes and labels go and how they look, in pixels, for the PNG file here and for `graph_page`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.files import writing
from shiftbench.metagraph.graph import MetaGraph, heaviest, layout

DPI = 150
DRAWN = 300
"""Subsets that are drawn: the largest. More discs than that hide each other, and laying them out takes minutes."""
COLOURS = ("#3b6fb6", "#e07b39", "#4a9d5f", "#b5478a", "#8a6bbf", "#c9a227", "#3aa6a6", "#c0504d", "#7d8f3a", "#6f5b4b")
ALONE = "#9aa0a6"  # a community of one node
LETTER = 0.56  # width of a letter as a share of the font's size, on average


class Panel(NamedTuple):
    """Nodes as discs in a panel of width × height pixels; `anchor` is the left end of each label's base line."""

    points: Floats
    radii: Floats
    anchor: Floats
    labelled: Bools


class Picture(NamedTuple):
    """A meta-graph ready to be drawn: the graph panel, the embedding panel, colours, edges from weak to strong."""

    graph: Panel
    embedding: Panel
    explained: tuple[float, float]
    colours: tuple[str, ...]
    edges: Ints
    widths: Floats
    width: float
    height: float
    font: float


def picture(graph: MetaGraph, seed: int = 0, width: float = 900, height: float = 800, font: float = 13) -> Picture:
    """Lay out a meta-graph; the same graph and seed give the same picture."""
    radii = 4 + 16 * np.sqrt(graph.sizes / graph.sizes.max()) * min(1.0, np.sqrt(40 / len(graph)))
    flat, explained = main_axes(graph.embedding, graph.sizes)
    one, other = np.nonzero(np.triu(graph.weights, 1))
    order = np.argsort(graph.weights[one, other], kind="stable")
    edges = np.stack([one, other], axis=1)[order]
    weight = graph.weights[edges[:, 0], edges[:, 1]]
    numbers = np.bincount(graph.communities)
    return Picture(
        graph=_panel(layout(graph.weights, seed), radii, graph, (width, height), font),
        embedding=_panel(flat, radii * 0.6, graph, (width, height), font, true=True),
        explained=explained,
        colours=tuple(COLOURS[c % len(COLOURS)] if numbers[c] > 1 else ALONE for c in graph.communities.tolist()),
        edges=edges.astype(np.int64),
        widths=0.3 + 3.2 * weight**1.5,
        width=width, height=height, font=font,
    )


def main_axes(points: Floats, sizes: Ints) -> tuple[Floats, tuple[float, float]]:
    """The two directions in which points spread most, and their shares of the variance.

    Weighted by size: the axes of a spectral embedding all have the same plain variance, and none would come first.
    """
    centred = points - np.average(points, axis=0, weights=sizes) if points.shape[1] else np.zeros((len(points), 1))
    _, length, axes = np.linalg.svd(centred * np.sqrt(sizes)[:, None], full_matrices=False)
    flat, share = np.zeros((len(points), 2)), np.zeros(2)
    kept = min(2, len(length))
    flat[:, :kept] = centred @ axes[:kept].T
    flat *= np.where(np.abs(flat.min(axis=0)) > flat.max(axis=0), -1, 1)  # the far end is right or top
    share[:kept] = length[:kept] ** 2 / max(float((length**2).sum()), 1e-300)
    return flat, (float(share[0]), float(share[1]))


def place_labels(
    points: Floats, radii: Floats, lengths: Ints, size: tuple[float, float], font: float,
) -> tuple[Floats, Bools]:
    """Where each label begins, and whether there is room for it: larger nodes choose first, right side first.

    A label may not touch a disc, a label that is already placed or the border; where no side is free there is none.
    """
    anchor, labelled = np.zeros((len(points), 2)), np.zeros(len(points), np.bool_)
    # boxes are (left, top, right, bottom), y downwards
    taken = np.concatenate([points - radii[:, None], points + radii[:, None]], axis=1)
    tall = 0.9 * font
    for node in np.argsort(-radii, kind="stable").tolist():
        (x, y), r, wide = points[node], radii[node] + 2, lengths[node] * LETTER * font
        s = 0.7 * r
        for left, top in ((x + r, y - tall / 2), (x - r - wide, y - tall / 2), (x - wide / 2, y + r),
                          (x - wide / 2, y - r - tall), (x + s, y + s), (x + s, y - s - tall), (x - s - wide, y + s),
                          (x - s - wide, y - s - tall)):
            box = np.asarray([left, top, left + wide, top + tall])
            inside = left >= 0 and top >= 0 and box[2] <= size[0] and box[3] <= size[1]
            if inside and ((box[:2] >= taken[:, 2:]) | (box[2:] <= taken[:, :2])).any(axis=1).all():
                anchor[node] = left, top + tall * 0.85
                labelled[node] = True
                taken = np.concatenate([taken, box[None]])
                break
    return anchor, labelled


def _panel(
    positions: Floats, radii: Floats, graph: MetaGraph, size: tuple[float, float], font: float, true: bool = False,
) -> Panel:
    """Places scaled into the panel with room for labels at the border, y downwards; `true` scales both axes alike."""
    room = np.asarray(size) - np.asarray([140.0, 60.0])
    span = np.ptp(positions, axis=0)
    scale = room / np.where(span > 0, span, np.inf)
    if true:
        scale = np.full(2, scale[scale > 0].min() if (scale > 0).any() else 0.0)
    middle = (positions.min(axis=0) + positions.max(axis=0)) / 2
    points = np.asarray(size) / 2 + (positions - middle) * scale * [1, -1]
    lengths = np.asarray([len(name) for name in graph.names], np.int64)
    return Panel(points, radii, *place_labels(points, radii, lengths, size, font))


def draw_png(graph: MetaGraph, path: Path | str, seed: int = 0) -> Path:
    """Write the graph and its embedding, side by side, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    count, subsets, edges = int(graph.communities.max()) + 1, len(graph), graph.edges
    graph = heaviest(graph, DRAWN)
    drawn = picture(graph, seed)
    figure = Figure(figsize=(2 * drawn.width / 100 + 0.3, drawn.height / 100 + 1.0), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    frame = {"wspace": 0.02, "left": 0.01, "right": 0.99, "bottom": 0.06, "top": 0.9}
    left, right = figure.subplots(1, 2, gridspec_kw=frame)
    points = drawn.graph.points
    same = graph.communities[drawn.edges[:, 0]] == graph.communities[drawn.edges[:, 1]]
    shades = [drawn.colours[one] if inside else "#8b9098" for one, inside in zip(drawn.edges[:, 0], same, strict=True)]
    faint = min(1.0, 60 / max(len(same), 1) ** 0.7)
    if len(same):
        left.add_collection(LineCollection(
            points[drawn.edges].tolist(), linewidths=drawn.widths * 0.8, colors=shades,
            alpha=[max(0.08, faint) * (1.0 if inside else 0.6) for inside in same], zorder=1))
    for axes, panel in ((left, drawn.graph), (right, drawn.embedding)):
        _nodes(axes, panel, graph, drawn)
    figure.suptitle(f"{graph.cls}: {subsets} subsets in {count} communit{'y' if count == 1 else 'ies'}, "
                    f"{edges} edges of overlap ≥ {graph.threshold:g}", fontsize=15, x=0.01, ha="left", y=0.965)
    left.set_title("meta-graph" if subsets == len(graph) else f"meta-graph, its {len(graph)} largest subsets",
                   fontsize=11, color="#5f6368", loc="left")
    right.set_title("embedding, main directions: the farther apart, the larger the shift", fontsize=11, loc="left",
                    color="#5f6368")
    right.set_xlabel(f"main direction ({drawn.explained[0]:.0%} of the variance)", fontsize=9, color="#5f6368")
    right.set_ylabel(f"second direction ({drawn.explained[1]:.0%})", fontsize=9, color="#5f6368", labelpad=-12)
    with writing(path) as hidden:
        figure.savefig(hidden, format="png")
    return Path(path)


def _nodes(axes: Any, panel: Panel, graph: MetaGraph, drawn: Picture) -> None:
    """Discs and labels in pixels of the panel, y downwards."""
    from matplotlib.patheffects import withStroke

    axes.set_xlim(0, drawn.width)
    axes.set_ylim(drawn.height, 0)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#dadce0")
    area = (2 * panel.radii * 72 / 100) ** 2  # a disc's size is its diameter in points, squared; 100 pixels are an inch
    axes.scatter(panel.points[:, 0], panel.points[:, 1], s=area, c=list(drawn.colours), edgecolors="white",
                 linewidths=0.8, zorder=2)
    for node, name in enumerate(graph.names):
        if panel.labelled[node]:
            axes.text(*panel.anchor[node], name, fontsize=drawn.font * 72 / 100, color="#202124", zorder=3,
                      path_effects=[withStroke(linewidth=2, foreground="white", alpha=0.8)])
