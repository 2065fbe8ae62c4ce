"""A meta-graph as a picture: communities coloured, edges as wide as overlaps, and its embedding beside it.

`picture` says where nodes and labels go and how they look, in pixels. `draw_png` writes it as a PNG file, `draw_html`
as one HTML page with inline SVG and sample images that loads nothing from a network.
"""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text, writing
from shiftbench.core.rng import child
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

SCRIPT = """
const facts = JSON.parse(document.getElementById("facts").textContent), card = document.getElementById("card");
const plates = [...document.querySelectorAll("svg")];
function line(tag, text) { const e = document.createElement(tag); e.textContent = text; return e; }
function show(event) {
  const i = +event.currentTarget.dataset.i, node = facts.nodes[i], near = new Set(node.near);
  plates.forEach(svg => {
    svg.classList.add("busy");
    svg.querySelectorAll("g.node").forEach(g => { const j = +g.dataset.i;
      g.classList.toggle("near", j === i || near.has(j)); g.classList.toggle("here", j === i); });
    svg.querySelectorAll("line").forEach(l => l.classList.toggle("near", +l.dataset.a === i || +l.dataset.b === i));
  });
  card.replaceChildren(line("b", node.name), line("small", `${node.size} items, community ${node.community}`),
    line("small", `nearest: ${node.nearest}`), line("small", `farthest: ${node.farthest}`),
    ...node.images.map(k => { const e = new Image(); e.src = facts.images[k]; return e; }));
  card.style.display = "block"; move(event);
}
function move(event) {
  const x = event.clientX + 18, y = event.clientY + 18;
  card.style.left = Math.max(4, x + card.offsetWidth > innerWidth ? event.clientX - card.offsetWidth - 18 : x) + "px";
  card.style.top = Math.max(4, Math.min(y, innerHeight - card.offsetHeight - 8)) + "px";
}
function hide() { card.style.display = "none"; plates.forEach(svg => svg.classList.remove("busy")); }
document.querySelectorAll("g.node").forEach(g => {
  g.addEventListener("mouseenter", show); g.addEventListener("mousemove", move);
  g.addEventListener("mouseleave", hide); });
"""

POLICY = ("default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
          f"script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'")
"""The page loads nothing and runs its own script alone, known by its digest."""

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<title>{{ graph.cls }}: meta-graph</title>
<style>
  body { font: 14px/1.45 system-ui, sans-serif; color: #202124; margin: 24px; background: #fff; }
  h1 { font-size: 20px; margin: 0 0 2px; } p { margin: 0 0 14px; color: #5f6368; max-width: 72em; }
  main { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
  figure { margin: 0; flex: 1 1 480px; } figcaption { color: #5f6368; margin-bottom: 4px; }
  svg { width: 100%; height: auto; border: 1px solid #dadce0; border-radius: 6px; display: block; }
  line { stroke-linecap: round; } text { font-size: {{ picture.font }}px; pointer-events: none; paint-order: stroke;
    stroke: #fff; stroke-width: 3px; stroke-linejoin: round; fill: #202124; }
  circle { stroke: #fff; cursor: pointer; }
  svg.busy g.node { opacity: .15; } svg.busy line { opacity: .03; }
  svg.busy g.node.near { opacity: 1; } svg.busy line.near { opacity: .7; } g.node text.spare { display: none; }
  svg.busy g.node.here text.spare { display: inline; }
  #card { position: fixed; display: none; width: 324px; padding: 10px 12px; background: #fff; border-radius: 8px;
    border: 1px solid #dadce0; box-shadow: 0 4px 18px #0003; pointer-events: none; }
  #card b { font-size: 15px; } #card img { width: 72px; height: 72px; margin: 4px 4px 0 0; border-radius: 3px; }
  #card small { color: #5f6368; display: block; }
</style></head><body>
<h1>{{ graph.cls }}: {{ graph.names|length }} subsets</h1>
{%- if rest %}
<p>The {{ shown }} largest are drawn; the other {{ rest|length }} are listed below.</p>
{%- endif %}
<p>Each disc is the subset of {{ graph.cls }} items in one context; its area grows with its size. Lines join subsets
that share items: overlap ≥ {{ graph.threshold }}, {{ graph.edges }} edges, wider where the overlap is larger. Colours
are communities. Point at a disc.</p>
<main>
<figure><figcaption>Meta-graph</figcaption>{{ svg(picture.graph, true) }}</figure>
<figure><figcaption>Embedding, main directions ({{ percent(picture.explained[0]) }} and
{{ percent(picture.explained[1]) }} of the variance): the farther apart, the larger the shift</figcaption>
{{ svg(picture.embedding, false) }}</figure>
</main>
{%- for page in pages %}
<details>
<summary>Subsets {{ page.first }} to {{ page.last }} by size: {{ page.most }} to {{ page.fewest }} items</summary>
<p>{% for name, size in page.rows %}{{ name }} ({{ size }}){{ ", " if not loop.last }}{% endfor %}</p></details>
{%- endfor %}
<div id="card"></div>
<script type="application/json" id="facts">{{ facts }}</script>
<script>{{ script }}</script></body></html>
"""

PLATE = """<svg viewBox="0 0 {{ width }} {{ height }}" role="img">
{%- for one, other, x1, y1, x2, y2, thick, colour, faint in lines %}
<line data-a="{{ one }}" data-b="{{ other }}" x1="{{ x1 }}" y1="{{ y1 }}" x2="{{ x2 }}" y2="{{ y2 }}"
 stroke="{{ colour }}" stroke-width="{{ thick }}" opacity="{{ faint }}"/>
{%- endfor %}
{%- for node in nodes %}
<g class="node" data-i="{{ node.i }}">
<circle cx="{{ node.x }}" cy="{{ node.y }}" r="{{ node.r }}" fill="{{ node.colour }}"/>
<text x="{{ node.tx }}" y="{{ node.ty }}"{% if not node.labelled %} class="spare"{% endif %}>{{ node.name }}</text></g>
{%- endfor %}
</svg>"""


def draw_html(graph: MetaGraph, path: Path | str, collection: Collection | None = None, seed: int = 0) -> Path:
    """Write one HTML file that needs nothing else: hover over a node for its facts and, with images, sample items."""
    drawn = heaviest(graph, DRAWN)
    return write_text(path, page(graph, drawn, picture(drawn, seed, width=760, height=680), collection, seed))


def page(
    whole: MetaGraph, graph: MetaGraph, picture: Picture, collection: Collection | None = None, seed: int = 0
) -> str:
    """The page as text: `graph` is drawn, what `whole` has beyond it is listed.

    With a collection that has images, up to eight items of each subset show on hover.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    environment = Environment(autoescape=True)

    def svg(panel: Panel, with_edges: bool) -> Markup:
        drawn = environment.from_string(PLATE).render(
            width=round(picture.width), height=round(picture.height), nodes=_node_marks(graph, panel, picture),
            lines=_lines(graph, panel, picture) if with_edges else [])
        return Markup(drawn)  # noqa: S704 - rendered with autoescape just above

    drawn = set(graph.names)
    rest = [(name, int(size)) for name, size in zip(whole.names, whole.sizes, strict=True) if name not in drawn]
    rest.sort(key=lambda row: -row[1])
    facts = json.dumps(_facts(graph, collection, seed), ensure_ascii=False).replace("<", "\\u003c")
    return environment.from_string(TEMPLATE).render(
        graph=whole, shown=len(graph), rest=rest, pages=_pages(rest, len(graph)), picture=picture, svg=svg,
        percent=lambda share: f"{share:.0%}",
        policy=Markup(POLICY), script=Markup(SCRIPT),  # noqa: S704 - texts of ours
        facts=Markup(facts))  # noqa: S704 - JSON in a script element, where only "<" could end it


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
