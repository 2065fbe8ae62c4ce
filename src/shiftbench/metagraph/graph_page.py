"""A meta-graph as one HTML page with inline SVG, sample images and no network."""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text
from shiftbench.core.rng import child
from shiftbench.data.collection import Collection
from shiftbench.metagraph.graph import MetaGraph, distances, heaviest
from shiftbench.metagraph.picture import DRAWN, Panel, Picture, picture
from shiftbench.metagraph.subsets import subset, subset_name

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
    shown = heaviest(graph, DRAWN)
    text = page(graph, shown, picture(shown, seed, width=760, height=680), collection, seed)
    return write_text(path, text)


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
            width=round(picture.width), height=round(picture.height), nodes=_nodes(graph, panel, picture),
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
    starts = range(0, len(rest), PAGE)
    parts = [(start, rest[start:start + PAGE]) for start in starts]
    return [{"first": before + start + 1, "last": before + start + len(rows), "rows": rows, "most": rows[0][1],
             "fewest": rows[-1][1]} for start, rows in parts]


def _nodes(graph: MetaGraph, panel: Panel, picture: Picture) -> list[dict[str, Any]]:
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
