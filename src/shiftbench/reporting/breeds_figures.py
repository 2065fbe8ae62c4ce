"""The geometry of BREEDS' figures: numbers in, places in a drawing out; `breeds_svg.html` draws.

All figures are panels of one width, a benchmark or a measure each, under one legend; a model has one colour and one
shape in all of them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from shiftbench.reporting.breeds import Point
from shiftbench.reporting.breeds_numbers import Classed, constant_drop, frontier
from shiftbench.reporting.figures import SHAPES
from shiftbench.reporting.tables import percent

WIDTH, HEIGHT = 360, 330
LEFT, RIGHT, TOP, BOTTOM = 54.0, 12.0, 34.0, 44.0
ROW = 30.0
"""Height of a pair of bars with their name."""

Figure = dict[str, Any]


def scatter(points: Sequence[Point], title: str, looks: Mapping[str, Figure]) -> Figure:
    """Target accuracy against source accuracy, before and after the last layer was trained on the target (Figure 5)."""
    xs = [end for one in points for end in _ends(one.source)]
    ys = [end for one in points for cell in (one.target, one.rt) if cell for end in _ends(cell)]
    x, y = _axis(xs, LEFT, WIDTH - RIGHT), _axis([*ys, max(xs)], HEIGHT - BOTTOM, TOP)
    weakest, kept = constant_drop([one.source["value"] for one in points], [one.target["value"] for one in points])
    spots = [_spot(one.name, x, y, one.source, cell, hollow, looks,
                   f"{one.name}: source {_told(one.source)}, {word} {_told(cell)}")
             for cells in ("rt", "target") for one in points
             for cell, hollow, word in [(getattr(one, cells), cells == "rt",
                                         "target-RT" if cells == "rt" else "target")] if cell]
    return {**_frame(title, x, y, "source accuracy", "target accuracy"), "spots": spots, "lines": [
        line for line in (_through(1.0, x, y, "same", "identity: no drop"),
                          _through(kept, x, y, "drop", f"constant drop: what {points[weakest].name} keeps, "
                                                       f"{percent(kept)} % of its source accuracy")) if line]}


def pareto(points: Sequence[Point], title: str, looks: Mapping[str, Figure]) -> Figure:
    """Relative accuracy against source accuracy, with the Pareto frontier dashed (Figure 6)."""
    known = [(one, one.relative) for one in points if one.relative]
    cells = [relative._asdict() for _, relative in known]
    x = _axis([end for one, _ in known for end in _ends(one.source)], LEFT, WIDTH - RIGHT)
    y = _axis([end for cell in cells for end in _ends(cell)], HEIGHT - BOTTOM, TOP)
    best = frontier([one.source["value"] for one, _ in known], [relative.value for _, relative in known])
    line = [(x.at(known[place][0].source["value"]), y.at(known[place][1].value)) for place in best]
    line = [(LEFT, line[0][1]), *line, (line[-1][0], HEIGHT - BOTTOM)]  # what lies inside is beaten
    spots = [_spot(one.name, x, y, one.source, cell, False, looks,
                   f"{one.name}: source {_told(one.source)}, relative {_told(cell)}"
                   f"{', on the frontier' if place in best else ''}")
             for place, ((one, _), cell) in enumerate(zip(known, cells, strict=True))]
    return {**_frame(title, x, y, "source accuracy", "relative accuracy"), "spots": spots,
            "lines": [{"kind": "same", "points": line, "text": "Pareto frontier"}]}


def steps(rows: Mapping[str, Sequence[Mapping[str, Any] | None]], ticks: Sequence[tuple[str, str]], title: str,
          within: Sequence[float], looks: Mapping[str, Figure]) -> Figure:
    """One accuracy of every model from the nearest split to the farthest, evenly spaced; `within` is on all panels."""
    y = _axis(within, HEIGHT - BOTTOM, TOP)
    room = (WIDTH - RIGHT - LEFT) / len(ticks)
    places = [LEFT + room * (place + 0.5) for place in range(len(ticks))]
    drawn = []
    for number, (name, cells) in enumerate(rows.items()):
        aside = (number - (len(rows) - 1) / 2) * min(6.0, 0.6 * room / max(1, len(rows)))
        spots = [{"x": at + aside, "y": y.at(cell["value"]), "left": None, "hollow": False, **looks[name],
                  "low": y.at(_or(cell["low"], cell["value"])), "high": y.at(_or(cell["high"], cell["value"])),
                  "text": f"{name}, {word}: {_told(cell)}"}
                 for at, cell, (word, _) in zip(places, cells, ticks, strict=True) if cell]
        drawn.append({**looks[name], "spots": spots, "title": name})
    return {**_frame(title, None, y, "", ""), "kind": "steps", "rows": drawn,
            "x": [{"at": at, "text": word, "under": under} for at, (word, under) in zip(places, ticks, strict=True)]}


def bars(rows: Sequence[Classed], title: str, colour: str, *, names: float = 118.0) -> Figure:
    """Two bars per row, source pale and target full, with their intervals (Figures 16 to 18, and 4)."""
    left, right = names, 88.0
    across = _Axis(0.0, 1.0, left, WIDTH - right)
    drawn = [{"name": _cut(row.name, names), "y": TOP + ROW * place, "text": f"{row.name}: source {_told(row.source)}, "
              f"target {_told(row.target)}", "told": f"{percent(row.source['value'])} → {percent(row.target['value'])}",
              "sides": [{"to": across.at(cell["value"]), "low": across.at(_or(cell["low"], cell["value"])),
                         "high": across.at(_or(cell["high"], cell["value"])), "pale": place == 0}
                        for place, cell in enumerate((row.source, row.target))]}
             for place, row in enumerate(rows)]
    bottom = TOP + ROW * len(rows)
    return {"kind": "bars", "width": WIDTH, "height": bottom + 24, "left": left, "right": WIDTH - right, "top": TOP,
            "bottom": bottom, "title": title, "rows": drawn, "colour": colour, "told": WIDTH,
            "x": [{"at": across.at(tick / 2), "text": str(50 * tick)} for tick in range(3)]}


def looks_of(names: Sequence[str]) -> dict[str, Figure]:
    """A colour and a shape for every model, as the page's other figures give them."""
    return {name: {"colour": f"--c: var(--m{place % 8})", "shape": place % SHAPES} for place, name in enumerate(names)}


def legend(names: Sequence[str], looks: Mapping[str, Figure], width: int, more: Sequence[Figure] = ()) -> Figure:
    """All models and what else needs a word, in as many columns as there is room for."""
    entries = [*({"name": name, **looks[name], "sign": "spot"} for name in names), *more]
    columns = max(1, int(width // (34 + 7.2 * max(len(entry["name"]) for entry in entries))))
    each = width / columns
    return {"kind": "legend", "width": width, "height": 6 + 20.0 * math.ceil(len(entries) / columns), "entries": [
        {**entry, "x": 10 + (place % columns) * each, "y": 9 + 20.0 * (place // columns)}
        for place, entry in enumerate(entries)]}


class _Axis:
    """From a number to a place, and back to round numbers."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value: float) -> float:
        inside = min(self.high, max(self.low, value))
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[Figure]:
        span = self.high - self.low
        step = next((size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0) if span / size <= 6.5), span / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [{"at": self.at(step * k), "text": f"{100 * step * k:.0f}", "under": ""}
                for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    """Round ends around all values: to 5 points, or to 2 where they lie close; an accuracy is at least 0."""
    low, high = min(values), max(values)
    unit = 0.02 if high - low < 0.12 else 0.05
    low, high = max(0.0, math.floor(low / unit - 0.2) * unit), math.ceil(high / unit + 0.2) * unit
    return _Axis(low, min(1.0, high) if max(values) <= 1 else high, start, end)


def _frame(title: str, x: _Axis | None, y: _Axis, x_name: str, y_name: str) -> Figure:
    return {"kind": "scatter", "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP,
            "bottom": HEIGHT - BOTTOM, "title": title, "x_name": x_name, "y_name": y_name,
            "x": x.ticks() if x else [], "y": y.ticks()}


def _spot(name: str, x: _Axis, y: _Axis, across: Mapping[str, Any], up: Mapping[str, Any], hollow: bool,
          looks: Mapping[str, Figure], text: str) -> Figure:
    """A point with its intervals both ways."""
    return {"x": x.at(across["value"]), "left": x.at(_or(across["low"], across["value"])),
            "right": x.at(_or(across["high"], across["value"])), "y": y.at(up["value"]),
            "low": y.at(_or(up["low"], up["value"])), "high": y.at(_or(up["high"], up["value"])), "hollow": hollow,
            **looks[name], "text": text}


def _through(slope: float, x: _Axis, y: _Axis, kind: str, text: str) -> Figure | None:
    """The part of y = slope · x that is in the frame; None where none of it is."""
    if not slope > 0:
        return None
    low, high = max(x.low, y.low / slope), min(x.high, y.high / slope)
    return {"kind": kind, "text": text, "ends": (low, high), "points": [
        (x.at(low), y.at(slope * low)), (x.at(high), y.at(slope * high))]} if low < high else None


def _ends(cell: Mapping[str, Any]) -> list[float]:
    return [value for value in (cell["value"], cell["low"], cell["high"]) if math.isfinite(value)]


def _told(cell: Mapping[str, Any]) -> str:
    ends = f" ({percent(cell['low'])} to {percent(cell['high'])})" if math.isfinite(cell["low"]) else ""
    return f"{percent(cell['value'])} %{ends}"


def _or(value: float, other: float) -> float:
    return value if math.isfinite(value) else other


def _cut(name: str, room: float) -> str:
    most = int(room / 6.6)
    return name if len(name) <= most else name[: most - 1] + "…"
