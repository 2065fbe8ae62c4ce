"""The geometry of NOOCh's figures: points with intervals both ways; `nooch_svg.html` draws."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from shiftbench.reporting.nooch import Point

WIDTH, HEIGHT = 360, 330
LEFT, RIGHT, TOP, BOTTOM = 58.0, 12.0, 34.0, 44.0

Figure = dict[str, Any]


def scatter(
    points: Sequence[Point], title: str, names: tuple[str, str], looks: Mapping[str, Figure], *, share: bool = False,
    square: bool = False,
) -> Figure:
    """One number against another, with the line on which both are the same; `share` keeps the axes within 0 and 1.

    An interval of few items may be wide: the frame holds all points, and intervals up to as far again. `square` makes
    both axes the same.
    """
    across, up = [one.x for one in points], [one.y for one in points]
    x = _axis([*across, *up] if square else across, LEFT, WIDTH - RIGHT, share)
    y = _axis([*across, *up] if square else up, HEIGHT - BOTTOM, TOP, share)
    low, high = max(x.low, y.low), min(x.high, y.high)
    spots = [{"x": x.at(one.x["value"]), "y": y.at(one.y["value"]), **looks[one.name],
              "left": x.at(_or(one.x["low"], one.x["value"])), "right": x.at(_or(one.x["high"], one.x["value"])),
              "low": y.at(_or(one.y["low"], one.y["value"])), "high": y.at(_or(one.y["high"], one.y["value"])),
              "hollow": False, "text": f"{one.name}: {names[0]} {_told(one.x)}, {names[1]} {_told(one.y)}"}
             for one in points]
    return {"kind": "scatter", "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP,
            "bottom": HEIGHT - BOTTOM, "title": title, "x_name": names[0], "y_name": names[1], "x": x.ticks(),
            "y": y.ticks(), "spots": spots,
            "same": [(x.at(end), y.at(end)) for end in (low, high)] if low < high else []}


class _Axis:
    """From a number to a place, and back to round numbers."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.step = next(size * 10.0**power for power in range(-6, 9) for size in (1, 2, 5)
                         if (high - low) / (size * 10.0**power) <= 5)
        self.low = math.floor(low / self.step + 1e-9) * self.step
        self.high = math.ceil(high / self.step - 1e-9) * self.step
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        inside = min(self.high, max(self.low, value))
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[Figure]:
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        first = round(self.low / self.step)
        return [{"at": self.at(self.step * k), "text": f"{self.step * k:.{digits}f}"}
                for k in range(first, round(self.high / self.step) + 1)]


def _axis(found: Sequence[Mapping[str, Any]], start: float, end: float, share: bool) -> _Axis:
    values = [cell["value"] for cell in found]
    low, high = min(values), max(values)
    span = max(high - low, 0.02, 0.05 * abs(high))
    ends = [end for cell in found for end in (cell["low"], cell["high"]) if math.isfinite(end)]
    low = min([low - 0.1 * span, *(max(end, low - span) for end in ends)])
    high = max([high + 0.1 * span, *(min(end, high + span) for end in ends)])
    return _Axis(max(0.0, low), min(1.0, high) if share else high, start, end)


def _told(cell: Mapping[str, Any]) -> str:
    ends = f" ({cell['low']:.3f} to {cell['high']:.3f})" if math.isfinite(cell["low"]) else ""
    return f"{cell['value']:.3f}{ends}"


def _or(value: float, other: float) -> float:
    return value if math.isfinite(value) else other
