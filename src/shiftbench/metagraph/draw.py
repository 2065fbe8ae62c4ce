"""A meta-graph as a picture: communities coloured, edges as wide as overlaps, and its embedding beside it."""

from pathlib import Path
from typing import Any

from shiftbench.core.files import writing
from shiftbench.data.collection import Collection
from shiftbench.metagraph.graph import MetaGraph, heaviest
from shiftbench.metagraph.graph_page import page
from shiftbench.metagraph.picture import Panel, Picture, picture

DPI = 150
DRAWN = 300
"""Subsets that are drawn: the largest. More discs than that hide each other, and laying them out takes minutes."""


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


def draw_html(graph: MetaGraph, path: Path | str, collection: Collection | None = None, seed: int = 0) -> Path:
    """Write one HTML file that needs nothing else: hover over a node for its facts and, with images, sample items."""
    shown = heaviest(graph, DRAWN)
    text = page(graph, shown, picture(shown, seed, width=760, height=680), collection, seed)
    with writing(path) as hidden:
        hidden.write_text(text, encoding="utf-8")
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
