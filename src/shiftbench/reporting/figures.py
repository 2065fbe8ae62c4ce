"""The geometry of the page's figures: numbers in, places in a drawing out. The templates draw them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

SHAPES = 6
"""Marker shapes that the template can draw; colours and shapes repeat together after as many methods."""
LINE = 15.0
"""Least distance between two labels, in units of the drawing."""

Figure = dict[str, Any]


def ladder(table: Mapping[str, Any], *, baseline: Sequence[float | None], chance: float, width: int, height: int,
           right: int) -> Figure:
    """Accuracy against distance: a line per method with its intervals, and its name at the end of the line.

    `table` is a family's table; `baseline` is the accuracy before the shift at each distance; `right` is the room for
    the names. Methods stand side by side at each distance, so that their intervals do not hide each other.
    """
    left, top, bottom = 44.0, 14.0, 46.0
    xs = [float(column["x"]) for column in table["columns"]]
    cells = [cell for row in table["rows"] for cell in row["cells"] if cell]
    ends = [end for cell in cells for end in (cell["low"], cell["high"], cell["value"]) if math.isfinite(end)]
    floor = max(0.0, math.floor((min([*ends, *(b for b in baseline if b is not None)], default=0.0) - 0.02) * 10) / 10)
    pad = (max(xs) - min(xs)) * 0.06 or 0.1
    low, high = min(xs) - pad, max(xs) + pad

    def at_x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    def at_y(value: float) -> float:
        return height - bottom - (value - floor) / (1 - floor) * (height - bottom - top)

    apart = min(5.0, 0.1 * (width - left - right) / max(1, len(table["rows"])))
    lines = []
    for place, row in enumerate(table["rows"]):
        aside = (place - (len(table["rows"]) - 1) / 2) * apart
        points = [
            {"x": at_x(x) + aside, "y": at_y(cell["value"]), "low": at_y(_or(cell["low"], cell["value"])),
             "high": at_y(_or(cell["high"], cell["value"])), "cell": cell, "distance": x}
            for x, cell in zip(xs, row["cells"], strict=True) if cell and math.isfinite(cell["value"])]
        if points:
            lines.append({"method": row["method"], "place": place, "shape": place % SHAPES, "points": points,
                          "label": points[-1]["y"]})
    before = [(at_x(x), at_y(value)) for x, value in zip(xs, baseline, strict=True) if value is not None]
    labels = [*lines]
    if before:
        labels.append({"label": before[-1][1]})
    for label, y in zip(labels, set_apart([label["label"] for label in labels], top, height - bottom), strict=True):
        label["label"] = y
    step = 0.1 if 1 - floor <= 0.6 else 0.2
    ticks = [floor + step * k for k in range(round((1 - floor) / step) + 1)]
    return {
        "width": width, "height": height, "left": left, "right": width - right, "top": top, "bottom": height - bottom,
        "lines": lines, "before": before, "before_label": labels[-1]["label"] if before else None,
        "y": [{"at": at_y(tick), "text": f"{100 * tick:.0f}"} for tick in ticks if tick <= 1.0001],
        "x": [{"at": at_x(x), "text": f"{x:.2f}"} for x in _spaced(xs, at_x)],
        "chance": at_y(chance) if chance > floor else None,
    }


def _or(value: float, other: float) -> float:
    return value if math.isfinite(value) else other


def _spaced(xs: Sequence[float], at_x: Any) -> list[float]:
    """The distances whose labels do not run into the one before."""
    kept: list[float] = []
    for x in sorted(set(xs)):
        if not kept or at_x(x) - at_x(kept[-1]) > 30:
            kept.append(x)
    return kept


def set_apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Label places near the wanted ones, at least LINE apart: pushed down in order, then up from the bottom."""
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    placed = list(wanted)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + LINE)
    limit = bottom
    for place in reversed(order):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - LINE
    return [max(top, y) for y in placed] if len(wanted) * LINE < bottom - top else placed


def panels(table: Mapping[str, Any]) -> Figure:
    """Average and worst group of every method, a panel per share, places in per cent of a common axis."""
    half = len(table["columns"]) // 2
    ends = [end for row in table["rows"] for cell in row["cells"] if cell
            for end in (cell["low"], cell["value"]) if math.isfinite(end)]
    floor = max(0.0, math.floor((min(ends, default=0.0) - 0.02) * 5) / 5)

    def at(value: float) -> float:
        return 100 * (min(1.0, max(floor, value)) - floor) / (1 - floor)

    drawn = []
    for place, column in enumerate(table["columns"][:half]):
        rows = []
        for row in table["rows"]:
            average, worst = row["cells"][place], row["cells"][place + half]
            if average and worst:
                low, high = at(_or(worst["low"], worst["value"])), at(_or(worst["high"], worst["value"]))
                rows.append({"method": row["method"], "average": average, "worst": worst, "low": low, "high": high,
                             "at_average": at(average["value"]), "at_worst": at(worst["value"])})
        drawn.append({"head": column["head"], "rows": rows})
    ticks = [floor + 0.2 * k for k in range(round((1 - floor) / 0.2) + 1)]
    return {"panels": drawn, "ticks": [{"at": at(tick), "text": f"{100 * tick:.0f}"} for tick in ticks]}


def dumbbells(explanation: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Share of each tag in train and in test, as places on a common scale that ends at the largest share."""
    rows = [part for part in explanation if _share(part, "train") is not None and _share(part, "test") is not None]
    most = max((max(part["train"], part["test"]) for part in rows), default=0.0) or 1.0
    return [{**part, "at_train": 100 * part["train"] / most, "at_test": 100 * part["test"] / most,
             "times": _times(part)} for part in rows]


def _share(part: Mapping[str, Any], key: str) -> float | None:
    value = part.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _times(part: Mapping[str, Any]) -> str:
    """The lift in words: what only one side has is told so, since no factor says it.

    >>> _times({"train": 0.1, "test": 0.3, "lift": 3.0}), _times({"train": 0.0, "test": 0.3, "lift": 260.0})
    ('× 3.0', 'new')
    """
    lift = part.get("lift")
    if not part["train"] or not part["test"]:
        return "new" if part["test"] else "gone"
    if not isinstance(lift, int | float) or not math.isfinite(lift):
        return ""
    return f"× {lift:.0f}" if lift >= 10 else f"× {lift:.1f}" if lift >= 1 else f"× {lift:.2f}"
