"""Panels of marks, painted twice: as SVG for a page and as PNG for a slide; and images of items inside a page.

Lengths are pixels, y goes down.

A mark names a style; STYLES defines how it looks, and both painters read it. SVG takes its colours
from the page's variables, so that one drawing serves light and dark; PNG is light. matplotlib paints PNG alone: its own
SVG has fixed colours, no titles and ids that clash on a page, and is four to six times as large (`docs/reports.md`).
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

Point = tuple[float, float]

LIGHT = {
    "paper": "#fcfbf8", "sheet": "#ffffff", "ink": "#1d1e22", "soft": "#54575e", "faint": "#70737b", "line": "#e5e2da",
    "tint": "#f3f1eb", "mark": "#e7f0f7", "link": "#0a5c99", "warn": "#a3263b", "warned": "#fbf1f1", "m0": "#312b31",
    "m1": "#0277ca", "m2": "#a63a00", "m3": "#006343", "m4": "#a5248b", "m5": "#ba820d", "m6": "#093255",
    "m7": "#94834f",
}
DARK = {
    "paper": "#131519", "sheet": "#1a1d22", "ink": "#e9eaed", "soft": "#b3b7bf", "faint": "#8f949e", "line": "#2c3037",
    "tint": "#20242a", "mark": "#1d3142", "link": "#7cbcf0", "warn": "#ff9dab", "warned": "#28191d", "m0": "#eaeff0",
    "m1": "#3199da", "m2": "#f28b4c", "m3": "#58d9a4", "m4": "#c4729f", "m5": "#ffc63d", "m6": "#a6d7fc",
    "m7": "#a08660",
}
PRINT = LIGHT | {"paper": "#fff", "sheet": "#fff", "ink": "#000", "soft": "#444", "faint": "#666", "line": "#ccc",
                 "tint": "#f2f2f2"}
"""The page's colours by name; m0 to m7 are for methods, and `c` in a style means the colour of the mark's group.

People who are colour-blind tell any two of m0 to m7 apart: they differ in lightness where their hues look alike (a test
simulates it).
"""
COLOURS = 8
PNG_SCALE = 2
ALIGNED: Mapping[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
GAP, MARGIN = 24, 16
"""Room between the panels of a figure, and around them."""


class Style(NamedTuple):
    """How a mark looks: names of colours, and widths in pixels. A style with a size is for text."""

    fill: str = ""
    stroke: str = ""
    width: float = 0.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    size: float = 0.0
    bold: bool = False


STYLES: Mapping[str, Style] = {
    "text": Style("soft", size=12.5), "title": Style("ink", size=12.5, bold=True),
    "name": Style("c", size=13, bold=True), "small": Style("faint", size=11), "warning": Style("warn", size=11),
    "grid": Style(stroke="line", width=1), "axis": Style(stroke="soft", width=1),
    "chance": Style(stroke="faint", width=1, dash=(1, 4)), "before": Style(stroke="faint", width=1.5, dash=(5, 4)),
    "same": Style(stroke="soft", width=1.5, dash=(5, 4)), "drop": Style(stroke="faint", width=4, opacity=0.45),
    "line": Style(stroke="c", width=2), "pale-line": Style(stroke="c", width=1.25, opacity=0.36),
    "whisker": Style(stroke="c", width=1.5, opacity=0.55), "dot": Style("c", "paper", 1.5),
    "pale-dot": Style("c", "paper", 1.5, opacity=0.36), "hollow-dot": Style("paper", "c", 1.8),
    "bridge": Style(stroke="c", width=2, opacity=0.45), "extent": Style("c", opacity=0.2),
    "median": Style(stroke="ink", width=3), "bar": Style("c", opacity=0.82), "pale-bar": Style("c", opacity=0.36),
    "band": Style("ink", opacity=0.28), "reach": Style(stroke="ink", width=1.25), "warned": Style("warned"),
}
MARKERS = {
    "circle": ("", "o"),
    "square": ("m-4.2 -4.2h8.4v8.4h-8.4z", "s"),
    "triangle": ("m0 -5.4l5.2 9h-10.4z", "^"),
    "diamond": ("m0 -5.8l5.8 5.8l-5.8 5.8l-5.8 -5.8z", "D"),
    "wedge": ("m0 5.4l5.2 -9h-10.4z", "v"),
    "plus": ("m-2 -5.4h4v3.4h3.4v4h-3.4v3.4h-4v-3.4h-3.4v-4h3.4z", "P"),
}
"""Name -> its outline around a point as an SVG path, and matplotlib's name of it; a circle is an element of its own."""
LARGER = {"triangle": 1.2, "diamond": 0.9, "wedge": 1.2, "plus": 1.25}
"""Factors that make matplotlib's markers as large as ours."""


class Mark(NamedTuple):
    """One thing that is drawn: a line through `points`, a box between two corners, a marker or a text at a point."""

    shape: str  # "line", "box", "text" or one of MARKERS
    points: tuple[Point, ...]
    style: str
    text: str = ""
    anchor: str = "start"  # of a text: start, middle or end
    upright: bool = False  # rotated by 90 degrees, read from below
    radius: float = 4.6  # of a circle


class Group(NamedTuple):
    """Marks of one colour that belong together; `title` is the tooltip of the group."""

    marks: tuple[Mark, ...]
    title: str = ""
    colour: int = 0


class Panel(NamedTuple):
    width: float
    height: float
    groups: tuple[Group, ...]
    title: str = ""


class Figure(NamedTuple):
    """Panels under one legend, with the table of the numbers in them."""

    name: str  # of its files, and its anchor on a page
    head: str
    definition: str
    panels: tuple[Panel, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    narrow: tuple[Panel, ...] = ()  # the same for a phone, where one panel is as wide as the page
    legends: tuple[Panel, ...] = ()  # the same legend from wide to narrow


def line(points: Sequence[Point], style: str) -> Mark:
    return Mark("line", tuple(points), style)


def box(left: float, top: float, right: float, bottom: float, style: str) -> Mark:
    return Mark("box", ((left, top), (right, bottom)), style)


def text(x: float, y: float, words: str, style: str = "text", anchor: str = "start", upright: bool = False) -> Mark:
    return Mark("text", ((x, y),), style, words, anchor, upright)


def marker(number: int, x: float, y: float, style: str = "dot", radius: float = 4.6) -> Mark:
    """The marker with this number; numbers wrap around after the last marker."""
    return Mark(list(MARKERS)[number % len(MARKERS)], ((x, y),), style, radius=radius)


# SVG

def drawn(panel: Panel) -> str:
    """The content of a panel's <svg> element."""
    return "\n".join(map(_svg_group, panel.groups))


def _svg_group(group: Group) -> str:
    colour = f' style="--c: var(--m{group.colour % COLOURS})"' if any(
        "c" in STYLES[mark.style][:2] for mark in group.marks) else ""
    title = f"<title>{escape(group.title)}</title>" if group.title else ""
    inside = title + "".join(map(_svg_mark, group.marks))
    return f"<g{colour}>{inside}</g>" if colour or title else inside


def _svg_mark(mark: Mark) -> str:
    (x, y), style = mark.points[0], f'class="{mark.style}"'
    if mark.shape == "line":
        return f'<path {style} d="M{"L".join(f"{_short(x)} {_short(y)}" for x, y in mark.points)}"/>'
    if mark.shape == "box":
        right, bottom = mark.points[1]
        return (f'<rect {style} x="{_short(min(x, right))}" y="{_short(min(y, bottom))}" '
                f'width="{_short(abs(right - x))}" height="{_short(abs(bottom - y))}"/>')
    if mark.shape == "circle":
        return f'<circle {style} cx="{_short(x)}" cy="{_short(y)}" r="{mark.radius:g}"/>'
    if mark.shape != "text":
        return f'<path {style} d="M{_short(x)} {_short(y)}{MARKERS[mark.shape][0]}"/>'
    position = f'transform="translate({_short(x)} {_short(y)}) rotate(-90)"' if mark.upright else \
        f'x="{_short(x)}" y="{_short(y)}"'
    style = "" if mark.style == "text" else f" {style}"
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    return f"<text {position}{style}{anchor}>{escape(mark.text)}</text>"


def _short(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"


def css() -> str:
    """The colours of light, dark and print, and every style of a mark."""
    rules = [f":root {{ {_variables(LIGHT)} }}",
             f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}",
             f"@media print {{ :root {{ {_variables(PRINT)} }} }}"]
    for name, style in STYLES.items():
        parts = [f"fill: {_variable(style.fill)}"]
        parts += [f"stroke: {_variable(style.stroke)}; stroke-width: {style.width:g}"] if style.stroke else []
        parts += [f"stroke-dasharray: {' '.join(f'{length:g}' for length in style.dash)}"] if style.dash else []
        parts += [f"opacity: {style.opacity:g}"] if style.opacity < 1 else []
        parts += [f"font-size: {style.size:g}px"] if style.size else []
        parts += ["font-weight: 600"] if style.bold else []
        rules.append(f"svg {'text' if name == 'text' else '.' + name} {{ {'; '.join(parts)}; }}")
    return "\n".join([*rules, "svg path { stroke-linejoin: round; }", ""])


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _variable(colour: str) -> str:
    return f"var(--{colour})" if colour else "none"


def to_svg(figure: Figure, most: int = 3) -> str:
    """A figure as a standalone SVG file, with its light and dark colours, and at most so many panels side by side."""
    placed, width, height = _laid_out(figure, most)
    inside = "\n".join(f'<g transform="translate({_short(x)} {_short(y)})">\n{drawn(panel)}\n</g>'
                       for x, y, panel in placed)
    letters = "svg text { font-family: ui-sans-serif, system-ui, sans-serif; font-variant-numeric: tabular-nums; }"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_short(width)} {_short(height)}" '
            f'width="{_short(width)}" height="{_short(height)}" role="img">\n<title>{escape(figure.head)}</title>\n'
            f"<desc>{escape(figure.definition)}</desc>\n<style>\n{css()}{letters}\n"
            f'svg .paper {{ fill: var(--paper); }}\n</style>\n<rect class="paper" width="100%" height="100%"/>\n'
            f"{inside}\n</svg>\n")


def _laid_out(figure: Figure, most: int = 3) -> tuple[list[tuple[float, float, Panel]], float, float]:
    """The position of each panel (the legend, then rows of panels), and the size of the figure."""
    rows = [figure.panels[start:start + most] for start in range(0, len(figure.panels), most)]
    wide = max((sum(panel.width + GAP for panel in row) - GAP for row in rows), default=0.0)
    fitting = [key for key in figure.legends if key.width <= wide + GAP] or list(figure.legends[-1:])
    placed, y, right = [], float(MARGIN), 0.0
    for row in [fitting[:1], *rows] if fitting else rows:
        x = float(MARGIN)
        for panel in row:
            placed.append((x, y, panel))
            x += panel.width + GAP
        right, y = max(right, x - GAP), y + max(panel.height for panel in row) + GAP
    return placed, right + MARGIN, y - GAP + MARGIN


# PNG

def write_png(figure: Figure, path: Path) -> None:
    """Paint a figure's panels, in the colours of light, at twice their size in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    placed, width, height = _laid_out(figure)
    canvas = Canvas(figsize=(width / 100, height / 100), dpi=100 * PNG_SCALE, facecolor=LIGHT["paper"])
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    order = 0
    for x, y, panel in placed:
        for group in panel.groups:
            for artist in _artists(group, x, y):
                order += 1
                artist.set_zorder(order)
                axes.add_artist(artist)
    canvas.savefig(path, format="png", metadata={"Software": None})


def _artists(group: Group, left: float, top: float) -> Iterator[Any]:
    """A group's marks for matplotlib, whose lengths are points: 100 pixels are 72 of them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    def colour(name: str) -> str:
        return "none" if not name else LIGHT[f"m{group.colour % COLOURS}" if name == "c" else name]

    for mark in group.marks:
        style, xs, ys = STYLES[mark.style], *([start + point[side] for point in mark.points]
                                              for side, start in ((0, left), (1, top)))
        if mark.shape == "text":
            yield Text(xs[0], ys[0], mark.text, color=colour(style.fill), fontsize=0.72 * style.size,
                       fontweight="bold" if style.bold else "normal", parse_math=False, verticalalignment="baseline",
                       horizontalalignment=ALIGNED[mark.anchor],
                       rotation=90 if mark.upright else 0, rotation_mode="anchor")
        elif mark.shape == "box":
            yield Rectangle((xs[0], ys[0]), xs[1] - xs[0], ys[1] - ys[0], facecolor=colour(style.fill),
                            edgecolor="none", alpha=style.opacity)
        elif mark.shape == "line":
            drawn_line = Line2D(xs, ys, color=colour(style.stroke), linewidth=0.72 * style.width, alpha=style.opacity,
                                solid_joinstyle="round", solid_capstyle="butt")
            if style.dash:
                drawn_line.set_linestyle((0, [length / style.width for length in style.dash]))
            yield drawn_line
        else:
            yield Line2D(xs, ys, marker=MARKERS[mark.shape][1], 
                         markersize=0.72 * 2 * mark.radius * LARGER.get(mark.shape, 1.0), linestyle="none",
                         markerfacecolor=colour(style.fill), markeredgecolor=colour(style.stroke),
                         markeredgewidth=0.72 * style.width, alpha=style.opacity)


# Images of items, as data inside the page

PER_CELL, CLASSES, SIZE = 5, 4, 128
"""Images per class and split, classes shown, and the largest side of an image."""


def samples(benchmark: Benchmark, collection: Collection) -> list[dict[str, Any]]:
    """For each class, the pictures of a few training and test items: {"label", "train": [picture…], "test": […]}.

    The choice depends on the benchmark alone, so the page is the same each time. Classes that are in both splits come
    first; only the first CLASSES are shown.
    """
    names = benchmark.names["label"]
    rows = {split: benchmark.rows(split) for split in ("train", "test")}
    times = np.stack([np.bincount(benchmark.label[in_split], minlength=len(names)) for in_split in rows.values()])
    order = sorted(np.flatnonzero(times.sum(axis=0)), key=lambda code: (times[:, code].min() == 0, code))[:CLASSES]
    classes = [{"label": names[code], **{
        split: pictures_of(benchmark, collection,
                           _few(in_split[benchmark.label[in_split] == code], f"{split} {names[code]}"))
        for split, in_split in rows.items()}} for code in sorted(order)]
    return [pair for pair in classes if pair["train"] or pair["test"]]


def _few(rows: Ints, purpose: str) -> Ints:
    chosen = child(0, "report", "pictures", purpose).permutation(len(rows))[:PER_CELL]
    return rows[np.sort(chosen)]


def pictures_of(benchmark: Benchmark, collection: Collection, rows: Ints) -> list[dict[str, str]]:
    """The pictures of these rows; none where the collection has no pixels, or has arrays of many channels (.npz)."""
    if not len(rows) or collection.pixels is None:
        return []
    sources = thumbnails(collection, collection.index(benchmark.items[rows]))
    group = [benchmark.names["group"][code] for code in benchmark.group[rows]]
    return [{"item": str(item), "group": name, "source": source}
            for item, name, source in zip(benchmark.items[rows], group, sources, strict=False)]


def thumbnails(collection: Collection, rows: Ints) -> list[str]:
    """Small images of these items of a collection, as sources of <img>; none where it has none to show."""
    from shiftbench.images.decode import images

    if not len(rows) or collection.pixels is None:
        return []
    drawn = collection.pixels.dtype.kind != "U"
    if not drawn and str(collection.pixels[0]).endswith(".npz"):
        return []
    small = drawn and max(collection.pixels.shape[1:3]) <= SIZE
    return [_inline(picture) for picture in images(collection, rows, None if small else SIZE)]


def _inline(picture: Any) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "WEBP", quality=88, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
