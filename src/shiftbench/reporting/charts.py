"""The charts of a page: scatter, lines, and rows of bars or dots, on one kind of axis and under one kind of legend.

Numbers in, panels of marks out, and a panel as SVG. A cell is a mapping with value, low and high, as
`score_tables.pivot` gives it; low and high may be NaN, and then there is no error bar. Lengths are pixels, y goes down.

A mark names a style; STYLES defines how it looks, and both painters read it: SVG here, PNG in `figures`. SVG takes its
colours from the page's variables, so that one drawing serves light and dark; PNG is light.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

WIDTH, HEIGHT = 360.0, 330.0
"""Size of a panel beside others."""
LEGENDS = (1120.0, 760.0, 360.0)
"""Widths of a legend: over three panels, over one wide panel, and on a phone."""
LEFT, RIGHT, TOP, BOTTOM = 58.0, 12.0, 34.0, 46.0
"""Margins of a panel's frame: tick labels, none, the title, and tick labels with the name of the axis."""
SPACING = 15.0
"""Least distance between the names of two lines."""

Cell = Mapping[str, Any]


def cell(value: float, low: float = math.nan, high: float = math.nan) -> Cell:
    """A number that is not a score, with its interval if it has one."""
    return {"value": value, "low": low, "high": high}


class Look(NamedTuple):
    """The colour and the marker that a method has in all figures of a section."""

    colour: int = 0
    marker: int = 0


def numbers(cell: Cell) -> tuple[float, float, float]:
    """The value and the ends of its interval, for the table of a figure."""
    return cell["value"], cell["low"], cell["high"]


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    return {name: Look(number, number) for number, name in enumerate(names)}


# Marks

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


# Axes

class Scale(NamedTuple):
    """The range of an axis, from low to high, and its ticks."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def between(self, start: float, end: float) -> Callable[[float], float]:
        """A function from a number to its position; a number beyond the axis is put at its end."""
        low, high = self._bent(self.low), self._bent(self.high)

        def at(value: float) -> float:
            inside = min(high, max(low, self._bent(value)))
            return (start + end) / 2 if high == low else start + (inside - low) / (high - low) * (end - start)

        return at

    def _bent(self, value: float) -> float:
        return math.log10(max(value, 0.5)) if self.log else value


def scale(values: Iterable[float], *, write: Callable[[float, int], str], least: float = -math.inf,
          most: float = math.inf, ticks: int = 6) -> Scale:
    """An axis around all values that ends at round numbers, but not beyond `least` and `most`.

    `write` takes a number and the number of decimals of the step between two ticks.

    >>> scale([0.13, 0.48], write=plain).ticks
    ((0.1, '0.1'), (0.2, '0.2'), (0.3, '0.3'), (0.4, '0.4'), (0.5, '0.5'))
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = max(least, min(finite)), min(most, max(finite))
    if high - low < 1e-9:
        half = max(0.01, 0.05 * abs(high))
        low, high = max(least, low - half), min(most, high + half)
    step = next(size * 10.0**power for power in range(-12, 300) for size in (1, 2, 5)
                if (high - low) / (size * 10.0**power) <= ticks - 1)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    places = [round(step * number, 12) for number in range(first, last + 1)]
    low, high = max(least, places[0]), min(most, places[-1])
    return Scale(low, high, tuple((tick, write(tick, digits)) for tick in places if low <= tick <= high))


def shares(cells: Iterable[Cell] | None = None, *, ticks: int = 6) -> Scale:
    """An axis in per cent: around these shares, or from 0 to 1."""
    if cells is None:
        return scale([0.0, 1.0], write=hundredths, ticks=ticks)
    return scale(around(cells), write=hundredths, least=0.0, most=1.0, ticks=ticks)


def plain(value: float, digits: int) -> str:
    return f"{value + 0.0:.{digits}f}".replace("-", "−")


def hundredths(value: float, digits: int) -> str:
    """A share as per cent, without the sign."""
    return plain(100 * value, max(0, digits - 2))


def signed(value: float, digits: int) -> str:
    return "0" if not round(value, digits) else f"{value:+.{digits}f}".replace("-", "−")


def steps(names: Sequence[str]) -> Scale:
    """An axis of words, evenly spaced."""
    return Scale(-0.5, len(names) - 0.5, tuple((float(step), name) for step, name in enumerate(names)))


def around(cells: Iterable[Cell], *, far: float = 1.0) -> list[float]:
    """The numbers that an axis must cover: all values, and their intervals up to `far` times the values' span away.

    An interval of few items or seeds may be wide; it is cut at the frame instead of stretching the axis.
    """
    finite = [cell for cell in cells if math.isfinite(cell["value"])]
    values = [cell["value"] for cell in finite]
    if not values:
        return []
    span = max(max(values) - min(values), 0.02, 0.05 * abs(max(values)))
    ends = [end for cell in finite for end in (cell["low"], cell["high"]) if math.isfinite(end)]
    return [*values, *(min(max(values) + far * span, max(min(values) - far * span, end)) for end in ends)]


# Scatter and lines

class Spot(NamedTuple):
    """A point with its error bars and its tooltip."""

    x: Cell
    y: Cell
    look: Look
    title: str
    style: str = "dot"


class Guide(NamedTuple):
    """A line to compare with: y = slope · x, or through points."""

    style: str
    title: str
    slope: float = math.nan
    points: tuple[Point, ...] = ()


def scatter(title: str, spots: Sequence[Spot], x: Scale, y: Scale, names: tuple[str, str], guides: Sequence[Guide] = ()
            ) -> Panel:
    """One number against another."""
    at_x, at_y = x.between(LEFT, WIDTH - RIGHT), y.between(HEIGHT - BOTTOM, TOP)
    drawn = []
    for guide in guides:
        ends = guide.points
        if guide.slope > 0:
            low, high = max(x.low, y.low / guide.slope), min(x.high, y.high / guide.slope)
            ends = ((low, guide.slope * low), (high, guide.slope * high)) if low < high else ()
        if ends:
            drawn.append(Group((line([(at_x(a), at_y(b)) for a, b in ends], guide.style),), guide.title))
    for spot in spots:
        here = at_x(spot.x["value"]), at_y(spot.y["value"])
        bars = [line([(at_x(end), here[1]) for end in ends_of(spot.x)], "whisker"),
                line([(here[0], at_y(end)) for end in ends_of(spot.y)], "whisker")]
        drawn.append(Group((*(bar for bar in bars if bar.points), marker(
            spot.look.marker, *here, spot.style)), spot.title, spot.look.colour))
    return Panel(WIDTH, HEIGHT, (*_frame(title, x, y, names, WIDTH, HEIGHT), *drawn), title)


class Series(NamedTuple):
    """A line through cells at x; a pale one has no error bars and no name, a dashed one no dots."""

    name: str
    look: Look
    points: Sequence[tuple[float, Cell, str]]  # x, cell, title
    style: str = "line"  # line, pale-line or before
    title: str = ""


def lines(
    title: str, series: Sequence[Series], x: Scale, y: Scale, names: tuple[str, str], *, width: float = WIDTH,
    height: float = HEIGHT, room: float = 0.0, unders: Sequence[str] = (), level: tuple[float, str, str] | None = None,
) -> Panel:
    """Lines against an axis; `room` is for their names at the right, `unders` are texts below the ticks of x.

    Full lines stand side by side at each x, so that their error bars do not hide each other. A value beyond the frame
    is a triangle at its edge. `level` is a horizontal line: its value, its style and its name.
    """
    right = room or RIGHT
    at_x, at_y = x.between(LEFT, width - right), y.between(height - BOTTOM, TOP)
    drawn = list(_frame(title, x, y, names, width, height, right, unders))
    if level and y.low <= level[0] <= y.high:
        name = [text(LEFT + 6, at_y(level[0]) - 5, level[2])] if level[2] else []
        drawn.append(Group((line([(LEFT, at_y(level[0])), (width - right, at_y(level[0]))], level[1]), *name)))
    full = [curve for curve in series if curve.style == "line"]
    apart = min(5.0, 0.1 * (width - LEFT - right) / max(1, len(full)))
    ends = [(curve, at_y(curve.points[-1][1]["value"])) for curve in series
            if curve.style != "pale-line" and curve.points]
    heights = dict(zip((curve.name for curve, _ in ends), set_apart([end for _, end in ends], TOP, height - BOTTOM),
                       strict=True))
    for curve in sorted(series, key=lambda curve: curve.style != "pale-line"):
        aside = (full.index(curve) - (len(full) - 1) / 2) * apart if curve in full else 0.0
        points = [(at_x(across) + aside, cell, tooltip) for across, cell, tooltip in curve.points]
        drawn += _series(curve, points, y, at_y)
        if room and curve.name in heights and curve.style != "pale-line":
            style = "text" if curve.style == "before" else "name"
            name_mark = text(width - room + 9, heights[curve.name] + 4, curve.name, style)
            drawn.append(Group((name_mark,), "", curve.look.colour))
    return Panel(width, height, tuple(drawn), title)


def _series(curve: Series, points: Sequence[tuple[float, Cell, str]], y: Scale, at_y: Callable[[float], float]
            ) -> list[Group]:
    whole = [(across, at_y(cell["value"])) for across, cell, _ in points]
    drawn = [Group((line(whole, curve.style),), curve.title, curve.look.colour)] if len(whole) > 1 else []
    if curve.style == "before":
        return drawn
    for across, cell, tooltip in points:
        value, colour = cell["value"], curve.look.colour
        if curve.style == "line":
            ends = ends_of(cell)
            bar = [line([(across, at_y(end)) for end in ends], "whisker")] if ends else []
            drawn.append(Group((*bar, marker(curve.look.marker, across, at_y(value))), tooltip, colour))
        elif y.low <= value <= y.high:
            drawn.append(Group((marker(0, across, at_y(value), "pale-dot", 3),), tooltip, colour))
        else:
            drawn.append(Group((marker(2 if value > y.high else 4, across, at_y(value), "pale-dot"),), tooltip, colour))
    return drawn


def set_apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Label positions near the wanted ones, at least SPACING apart: pushed down in order, then up from the bottom."""
    order = sorted(range(len(wanted)), key=lambda label: wanted[label])
    placed = list(wanted)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + SPACING)
    limit = bottom
    for label in reversed(order):
        placed[label] = min(placed[label], limit)
        limit = placed[label] - SPACING
    return [max(top, y) for y in placed] if len(wanted) * SPACING < bottom - top else placed


# Rows of bars and dots

class Bar(NamedTuple):
    """A bar from `start` to the cell's value, with its error bar; `band` is a darker stretch of it."""

    cell: Cell
    style: str = "bar"
    start: float = 0.0
    band: tuple[float, float] | None = None


class Dot(NamedTuple):
    value: float
    title: str = ""
    look: Look | None = None  # default: the look of its row
    style: str = "dot"


class Entry(NamedTuple):
    """A name, what is drawn beside it, and a number at the right end of the line."""

    name: str
    look: Look = Look()
    bars: Sequence[Bar] = ()
    dots: Sequence[Dot] = ()
    title: str = ""
    number: str = ""
    under: str = ""  # a second line below the name
    median: float | None = None
    extent: tuple[float, float] | None = None
    bridge: tuple[float, float] | None = None
    warned: bool = False


def rows(
    title: str, entries: Sequence[Entry], x: Scale, *, width: float = WIDTH, left: float = 118.0, right: float = 12.0,
    height: float = 18.0, x_name: str = "", level: tuple[float, str] | None = None, coloured: bool = False,
    spread: float = 0.0,
) -> Panel:
    """A row per entry on one axis; `level` is a dashed upright line with its title, `spread` sets dots apart."""
    top = TOP if title else 10.0
    bottom = top + height * len(entries)
    at = x.between(left, width - right)
    grid = [line([(at(tick), top - 3), (at(tick), bottom)], "grid") for tick, _ in x.ticks]
    labels = [text(at(tick), bottom + 17, label, anchor="middle") for tick, label in x.ticks]
    heads = [text(0, 14, cut(title, width, 14), "title")] if title else []
    names = [text((left + width - right) / 2, bottom + 36, x_name, anchor="middle")] if x_name else []
    drawn = [Group((*heads, *grid, line([(left, bottom), (width - right, bottom)], "axis"), *labels, *names))]
    if x.low < 0 < x.high:
        drawn.append(Group((line([(at(0), top), (at(0), bottom)], "axis"),)))
    for number, entry in enumerate(entries):
        drawn += _entry(entry, at, top + height * number, left, width, width - right, height, coloured, spread)
    if level is not None:
        drawn.append(Group((line([(at(level[0]), top), (at(level[0]), bottom)], "before"),), level[1]))
    return Panel(width, bottom + (44 if x_name else 24), tuple(drawn), title)


def _entry(
    row: Entry, at: Callable[[float], float], y: float, left: float, width: float, right: float, height: float,
    coloured: bool, spread: float,
) -> list[Group]:
    middle, colour = y + height / 2, row.look.colour
    style = "name" if coloured else "text"
    marks: list[Mark] = [box(left, y, right, y + height, "warned")] if row.warned else []
    marks.append(text(left - 7, middle + (-2 if row.under else 4.2), cut(row.name, left - 7), style, "end"))
    if row.under:
        style = "warning" if row.warned else "small"
        marks.append(text(left - 7, middle + 11, cut(row.under, left - 7, 11), style, "end"))
    if row.extent:
        marks.append(box(at(row.extent[0]), middle - 4, at(row.extent[1]), middle + 4, "extent"))
    if row.bridge:
        marks.append(line([(at(end), middle) for end in row.bridge], "bridge"))
    thick = min(11.0, (height - 5) / max(1, len(row.bars)))
    for number, bar in enumerate(row.bars):
        over = middle + (number - len(row.bars) / 2) * (thick + 1)
        marks.append(box(at(bar.start), over, at(bar.cell["value"]), over + thick, bar.style))
        if bar.band:
            marks.append(box(at(bar.band[0]), over + 0.25 * thick, at(bar.band[1]), over + 0.75 * thick, "band"))
        marks += [line([(at(end), over + thick / 2) for end in ends], "reach") for ends in [ends_of(bar.cell)] if ends]
    if row.number:
        marks.append(text(width, middle + 4.2, row.number, anchor="end"))
    drawn = [Group(tuple(marks), row.title, colour)]
    for number, dot in enumerate(row.dots):
        look = dot.look or row.look
        aside = (number - (len(row.dots) - 1) / 2) * min(spread, (height - 6) / len(row.dots))
        drawn.append(Group((marker(0, at(dot.value), middle + aside, dot.style, 4 if spread else 4.6),), dot.title,
                           look.colour))
    if row.median is not None:
        drawn.append(Group((line([(at(row.median), middle - 9), (at(row.median), middle + 9)], "median"),), row.title))
    return drawn


# Frame, legend, words

def legend(entries: Sequence[tuple[str, Look | str]], width: float) -> Panel:
    """Names with their marker, or with the style of their line, in as many columns as there is room for."""
    columns = max(1, int(width // (34 + 7.2 * max((len(name) for name, _ in entries), default=1))))
    drawn = []
    for number, (name, look) in enumerate(entries):
        x, y = 10 + (number % columns) * width / columns, 9 + 20.0 * (number // columns)
        label = text(x + 15, y + 4.2, name)
        if isinstance(look, Look):
            drawn.append(Group((marker(look.marker, x, y), label), "", look.colour))
        else:
            drawn.append(Group((_sign(look, x, y), label)))
    return Panel(width, 6 + 20.0 * math.ceil(len(entries) / columns), tuple(drawn))


def _sign(style: str, x: float, y: float) -> Mark:
    if style == "median":
        return line([(x, y - 7), (x, y + 7)], style)
    return marker(0, x, y, style) if style.endswith("dot") else line([(x - 9, y), (x + 9, y)], style)


def legends(entries: Sequence[tuple[str, Look | str]]) -> tuple[Panel, ...]:
    return tuple(legend(entries, width) for width in LEGENDS) if entries else ()


def _frame(title: str, x: Scale, y: Scale, names: tuple[str, str], width: float, height: float, right: float = RIGHT,
           unders: Sequence[str] = ()) -> list[Group]:
    """Title, grid, ticks and the names of both axes."""
    bottom, end = height - BOTTOM, width - right
    at_x, at_y = x.between(LEFT, end), y.between(bottom, TOP)
    marks = [text(0, 14, cut(title, width, 14), "title")] if title else []
    for tick, label in y.ticks:
        marks += [line([(LEFT, at_y(tick)), (end, at_y(tick))], "grid"),
                  text(LEFT - 8, at_y(tick) + 4.2, label, anchor="end")]
    marks.append(line([(LEFT, bottom), (end, bottom)], "axis"))
    last = -math.inf
    for number, (tick, label) in enumerate(x.ticks):
        half = 3.5 * len(label) + 4
        marks.append(line([(at_x(tick), bottom), (at_x(tick), bottom + 5)], "axis"))
        if at_x(tick) - half > last:  # leave out a label that would overlap the one before
            marks.append(text(at_x(tick), bottom + 18, label, anchor="middle"))
            last = at_x(tick) + half
        if unders:
            marks.append(text(at_x(tick), bottom + 34, unders[number], anchor="middle"))
    marks += [text((LEFT + end) / 2, height - 6, names[0], anchor="middle")] if names[0] else []
    marks += [text(12, (TOP + bottom) / 2, names[1], anchor="middle", upright=True)] if names[1] else []
    return [Group(tuple(marks))]


def ends_of(cell: Cell) -> list[float]:
    """The ends of an interval; an empty list where there is none."""
    return [cell["low"], cell["high"]] if math.isfinite(cell["low"]) and math.isfinite(cell["high"]) else []


def cut(name: str, room: float, size: float = 12.5) -> str:
    """A name, shortened to the room there is."""
    most = max(2, int(room / (0.53 * size)))
    return name if len(name) <= most else name[:most - 1] + "…"


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
        return f'<path {style} d="M{"L".join(f"{short(x)} {short(y)}" for x, y in mark.points)}"/>'
    if mark.shape == "box":
        right, bottom = mark.points[1]
        return (f'<rect {style} x="{short(min(x, right))}" y="{short(min(y, bottom))}" '
                f'width="{short(abs(right - x))}" height="{short(abs(bottom - y))}"/>')
    if mark.shape == "circle":
        return f'<circle {style} cx="{short(x)}" cy="{short(y)}" r="{mark.radius:g}"/>'
    if mark.shape != "text":
        return f'<path {style} d="M{short(x)} {short(y)}{MARKERS[mark.shape][0]}"/>'
    position = f'transform="translate({short(x)} {short(y)}) rotate(-90)"' if mark.upright else \
        f'x="{short(x)}" y="{short(y)}"'
    style = "" if mark.style == "text" else f" {style}"
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    return f"<text {position}{style}{anchor}>{escape(mark.text)}</text>"


def short(value: float) -> str:
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
