"""A meta-graph as a picture: communities coloured, edges as wide as overlaps, and its embedding beside it.

`picture` says where nodes and labels go and how they look, in pixels. `draw_png` writes it as a PNG file, `draw_html`
as one HTML page with inline SVG (`picture.html`) and sample images that loads nothing from a network.
"""

import base64
import hashlib
import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text, writing
from shiftbench.data.collection import Collection
from shiftbench.metagraph.graph import MetaGraph, distances, heaviest, layout
from shiftbench.metagraph.subsets import subset, subset_name

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
    edges = np.argwhere(np.triu(graph.weights, 1))
    weight = graph.weights[edges[:, 0], edges[:, 1]]
    order = np.argsort(weight, kind="stable")
    edges, weight = edges[order], weight[order]
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
    boxes = np.concatenate([points - radii[:, None], points + radii[:, None]], axis=1)
    tall = 0.9 * font
    for node in np.argsort(-radii, kind="stable").tolist():
        (x, y), r, wide = points[node], radii[node] + 2, lengths[node] * LETTER * font
        s = 0.7 * r
        for left, top in ((x + r, y - tall / 2), (x - r - wide, y - tall / 2), (x - wide / 2, y + r),
                          (x - wide / 2, y - r - tall), (x + s, y + s), (x + s, y - s - tall), (x - s - wide, y + s),
                          (x - s - wide, y - s - tall)):
            box = np.asarray([left, top, left + wide, top + tall])
            inside = left >= 0 and top >= 0 and box[2] <= size[0] and box[3] <= size[1]
            if inside and ((box[:2] >= boxes[:, 2:]) | (box[2:] <= boxes[:, :2])).any(axis=1).all():
                anchor[node] = left, top + tall * 0.85
                labelled[node] = True
                boxes = np.concatenate([boxes, box[None]])
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


SAMPLES = 8
PAGE = 500
"""Subsets in one list of those that are not drawn."""
THUMB = 72  # pixels


def draw_html(graph: MetaGraph, path: Path | str, collection: Collection | None = None, seed: int = 0) -> Path:
    """Write one HTML file that needs nothing else: hover over a node for its facts and, with images, sample items.

    The page loads nothing and runs its own script alone, known by its digest. The largest subsets are drawn, the others
    listed; with a collection that has images, up to eight items of each subset show on hover.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    folder = files(__package__)
    script = "\n" + folder.joinpath("picture.js").read_text(encoding="utf-8")
    policy = ("default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
              f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'")
    shown = heaviest(graph, DRAWN)
    drawn = picture(shown, seed, width=760, height=680)
    names = set(shown.names)
    rest = [(name, int(size)) for name, size in zip(graph.names, graph.sizes, strict=True) if name not in names]
    rest.sort(key=lambda row: -row[1])
    facts = json.dumps(_facts(shown, collection, seed), ensure_ascii=False).replace("<", "\\u003c")
    page = Environment(autoescape=True).from_string(folder.joinpath("picture.html").read_text(encoding="utf-8"))
    return write_text(path, page.render(
        graph=graph, shown=len(shown), rest=rest, pages=_pages(rest, len(shown)), picture=drawn,
        graph_nodes=_node_marks(shown, drawn.graph, drawn), lines=_lines(shown, drawn.graph, drawn),
        embedding_nodes=_node_marks(shown, drawn.embedding, drawn),
        policy=Markup(policy), script=Markup(script),  # noqa: S704 - texts of ours
        facts=Markup(facts)))  # noqa: S704 - JSON in a script element, where only "<" could end it


def _pages(rest: list[tuple[str, int]], before: int) -> list[dict[str, Any]]:
    """What is not drawn, from the largest, some hundreds to a page."""
    pages = [(start, rest[start:start + PAGE]) for start in range(0, len(rest), PAGE)]
    return [{"first": before + start + 1, "last": before + start + len(rows), "rows": rows, "most": rows[0][1],
             "fewest": rows[-1][1]} for start, rows in pages]


def _node_marks(graph: MetaGraph, panel: Panel, picture: Picture) -> list[dict[str, Any]]:
    nodes = []
    for i in np.argsort(-panel.radii, kind="stable").tolist():  # small discs lie on top of large ones
        (x, y), labelled = panel.points[i].round(1).tolist(), bool(panel.labelled[i])
        tx, ty = panel.anchor[i].round(1).tolist() if labelled else (x + round(float(panel.radii[i])) + 3, y + 4)
        nodes.append({"i": i, "x": x, "y": y, "r": round(float(panel.radii[i]), 1), "colour": picture.colours[i],
                      "tx": tx, "ty": ty, "labelled": labelled, "name": graph.names[i]})
    return nodes


def _lines(graph: MetaGraph, panel: Panel, picture: Picture) -> list[tuple[Any, ...]]:
    ends = panel.points[picture.edges].round(1)
    faint = round(max(0.1, min(0.8, 60 / max(len(ends), 1) ** 0.7)), 3)
    lines = []
    drawn = zip(picture.edges.tolist(), ends.tolist(), picture.widths.tolist(), strict=True)
    for (one, other), (start, end), thick in drawn:
        inside = graph.communities[one] == graph.communities[other]
        lines.append((one, other, *start, *end, round(thick, 2), picture.colours[one] if inside else "#8b9098", faint))
    return lines


def _facts(graph: MetaGraph, collection: Collection | None, seed: int) -> dict[str, Any]:
    """The card's entry for each node, and each sample image once."""
    images: dict[int, int] = {}
    nodes = []
    for i, name in enumerate(graph.names):
        far = distances(graph, [name])
        order = [j for j in np.argsort(far, kind="stable").tolist() if j != i]
        rows = sample_rows(collection, subset_name(graph.cls, [name]), seed)
        nodes.append({
            "name": subset_name(graph.cls, [name]), "size": int(graph.sizes[i]), "community": int(graph.communities[i]),
            "near": np.flatnonzero(graph.weights[i]).tolist(),
            "nearest": ", ".join(f"{graph.names[j]} ({far[j]:.2f})" for j in order[:3]),
            "farthest": ", ".join(f"{graph.names[j]} ({far[j]:.2f})" for j in order[::-1][:3]),
            "images": [images.setdefault(row, len(images)) for row in rows.tolist()],
        })
    return {"nodes": nodes, "images": [] if collection is None else [_thumbnail(collection, row) for row in images]}


def sample_rows(collection: Collection | None, name: str, seed: int) -> Ints:
    """Some items of a subset to show. A file that is not on this disk is no sample."""
    if collection is None or collection.pixels is None or collection.foreign:
        return np.zeros(0, np.int64)
    rows = child(seed, "samples", name).permutation(subset(collection, name))
    if collection.pixels.dtype.kind == "U":
        first = rows[:4 * SAMPLES]
        rows = first[[collection.path(int(row)).is_file() for row in first]]
    return np.sort(rows[:SAMPLES])


def _thumbnail(collection: Collection, row: int) -> str:
    """An item's image as a data URL."""
    from PIL import Image

    assert collection.pixels is not None
    if collection.pixels.dtype.kind == "U":
        path = collection.path(row)
        try:
            with Image.open(path) as file:
                file.draft("RGB", (2 * THUMB, 2 * THUMB))  # a JPEG is decoded at a fraction of its size
                image = file.convert("RGB")
        except (OSError, Image.DecompressionBombError) as problem:
            raise ShiftBenchError(f"{path}: the image of item '{collection.items[row]}' cannot be read "
                                  f"({problem}). Replace the file or drop the item.") from problem
    else:
        image = Image.fromarray(np.asarray(collection.pixels[row]))
    image.thumbnail((THUMB, THUMB))
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
