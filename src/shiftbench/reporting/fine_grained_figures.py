"""The geometry of a fine-grained study's figures: numbers in, places in a drawing out; `fine_grained_svg.html` draws.

Places are units of the drawing; a family has one colour and one shape in all of them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from shiftbench.methods.presets import NINETEEN
from shiftbench.reporting.figures import set_apart
from shiftbench.reporting.fine_grained import FAMILIES, ONLY
from shiftbench.reporting.fine_grained_numbers import Ablated, Estimate, Line, Panel, Ranked

COLOURS = dict(zip(FAMILIES, (3, 2, 4, 1, 0, 5), strict=True))
"""Family -> the page's method colour; architectures are green and heuristic augmentations orange, as in the paper."""
KEY = 190
"""Width of one entry of the legend."""
ROW = 17
"""Height of a bar with its name."""

Figure = dict[str, Any]


def lines(found: Sequence[Line], width: int, right: int, unit: str, words: str, log: bool) -> Figure:
    """Percentage change against N, p or n: the best of each family in full, with intervals and name, others pale."""
    key = legend([line.family for line in found], width)
    left, top, bottom, height = 54.0, 20.0 + float(key["height"]), 46.0, 380.0 + float(key["height"])
    xs = sorted({x for line in found for x in line.points})
    low, high = _frame(found)
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    across = _scale(xs, left + 14, width - right - 14, log)

    def at_y(value: float) -> float:
        return height - bottom - (min(high, max(low, value)) - low) / (high - low) * (height - bottom - top)

    best = [line for line in found if line.best]
    names = set_apart([at_y(list(line.points.values())[-1].value) for line in best], top, height - bottom)
    drawn = []
    for line in sorted(found, key=lambda one: one.best):
        aside = (best.index(line) - (len(best) - 1) / 2) * min(5.0, (width - left - right) / 12 / len(best)) \
            if line.best else 0.0
        points = [{"x": across(x) + aside, "y": at_y(one.value), "low": at_y(one.low), "high": at_y(one.high),
                   "sure": one.seeds > 1, "out": -1 if one.value < low else int(one.value > high),
                   "text": f"{_full(line.method)}, {unit} = {_short(x)}: {_change(one)}"}
                  for x, one in line.points.items()]
        drawn.append({"method": line.method, "best": line.best, **_look(line.family), "points": points,
                      "label": names[best.index(line)] if line.best else None, "title": _full(line.method)})
    return {"kind": "lines", "width": width, "height": height, "left": left, "right": width - right,
            "bottom": height - bottom, "zero": at_y(0.0), "lines": drawn, "key": key, "x_name": words,
            "y": [{"at": at_y(tick), "text": _signed(tick)} for tick in ticks],
            "x": [{"at": across(x), "text": _short(x)} for x in _spaced(xs, across)]}


def _frame(found: Sequence[Line]) -> tuple[float, float]:
    """From the lowest to the highest of what is drawn in full; what is far beyond is cut, not the figure stretched.

    Pale points count up to the span of the others away, intervals (of few seeds they may be wide) up to a third of it.
    """
    full = [one for line in found if line.best for one in line.points.values()]
    low, high = min(-0.5, *(one.value for one in full)), max(0.5, *(one.value for one in full))
    span = high - low
    near = [one.value for line in found for one in line.points.values() if low - span <= one.value <= high + span]
    ends = [end for one in full for end in (one.low, one.high) if low - span / 3 <= end <= high + span / 3]
    return min([low, *near, *ends]), max([high, *near, *ends])


def ranked(found: Sequence[Ranked], width: int) -> Figure:
    """A row per method sorted by its median rank, a dot per benchmark and seed, the median as a bar."""
    key = legend([one.family for one in found], width)
    left, right, row, top = 136.0, 14.0, 22.0, 26.0 + key["height"]
    most = max([float(len(found)), *(rank for one in found for *_, rank in one.ranks)])
    across = _scale([1.0, max(2.0, most)], left + 12, width - right - 8, log=False)
    drawn = []
    for place, one in enumerate(found):
        y = top + row * (place + 0.5)
        dots = [{"x": across(rank), "y": y + (at - (len(one.ranks) - 1) / 2) * min(3.0, 15 / len(one.ranks)),
                 "text": f"{_full(one.method)}, {benchmark}, seed {seed}: rank {rank:g}"}
                for at, (benchmark, seed, rank) in enumerate(one.ranks)]
        drawn.append({"method": one.method, **_look(one.family), "y": y, "dots": dots, "median": across(one.median),
                      "title": f"{_full(one.method)}: median rank {one.median:g} of {len(one.ranks)}"})
    bottom = top + row * len(found)
    ticks = [tick for tick in range(1, int(most) + 1) if tick == 1 or tick % (5 if most > 10 else 2) == 0]
    return {"kind": "ranks", "width": width, "height": bottom + 40, "left": left, "right": width - right, "top": top,
            "bottom": bottom, "row": row, "rows": drawn, "key": key,
            "x": [{"at": across(tick), "text": str(tick)} for tick in ticks]}


def panel(one: Panel, title: str) -> Figure:
    """Sorted bars of one benchmark, from 0 to 1, with the deviation as a band and the interval as a line."""
    left, right, top, width = 130.0, 78.0, 26.0, 360
    across = _scale([0.0, 1.0], left, width - right, log=False)
    drawn = []
    for place, bar in enumerate(one.bars):
        mean, sure = bar.mean, bar.mean.seeds > 1
        ends = [across(min(1.0, max(0.0, end))) if sure else 0.0 for end in (
            mean.low, mean.high, mean.value - bar.deviation, mean.value + bar.deviation)]
        told = f"{100 * mean.value:.1f}" + (f" ± {100 * bar.deviation:.1f}" if sure else "")
        whole = (f"standard deviation {100 * bar.deviation:.1f}, interval {100 * mean.low:.1f} to "
                 f"{100 * mean.high:.1f} over {mean.seeds} seeds" if sure else "one seed, no interval")
        drawn.append({"method": bar.method, **_look(bar.family), "y": top + ROW * place, "to": across(mean.value),
                      "low": ends[0], "high": ends[1], "from_band": ends[2], "to_band": ends[3], "sure": sure,
                      "told": told, "text": f"{_full(bar.method)}: {100 * mean.value:.1f}, {whole}"})
    bottom = top + ROW * len(one.bars)
    return {"kind": "bars", "width": width, "height": bottom + 24, "left": left, "right": width - right, "top": top,
            "bottom": bottom, "bars": drawn, "title": title, "told": width,
            "x": [{"at": across(tick / 4), "text": f"{25 * tick}"} for tick in range(0, 5, 2)]}


def ablated(found: Sequence[Ablated], titles: Sequence[str]) -> list[Figure]:
    """A panel per benchmark: points from the mean of all operations, in one order and on one axis for all panels."""
    ends = [abs(end) for one in found for told in (*one.operations.values(), one.baseline)
            for end in (told.value, *((told.low, told.high) if told.seeds > 1 else ())) if math.isfinite(end)]
    values = [abs(told.value) for one in found for told in one.operations.values() if told.benchmarks]
    far = min(max(ends, default=1.0), 2.5 * max(values, default=1.0)) or 1.0
    names = {name for one in found for name in one.operations}
    order = sorted(names, key=lambda name: (-sum(one.operations[name].value for one in found
                                                 if name in one.operations and one.operations[name].benchmarks), name))
    left, right, top, width = 124.0, 62.0, 26.0, 360
    across = _scale([-far, far], left, width - right, log=False)

    def at(value: float) -> float:
        return across(min(far, max(-far, value)))

    made = []
    for one, title in zip(found, titles, strict=True):
        rows = [(name, one.operations[name]) for name in order
                if name in one.operations and one.operations[name].benchmarks]
        drawn = [{"method": name, **_look("heuristic augmentation"), "y": top + ROW * place, "to": at(told.value),
                  "low": at(told.low), "high": at(told.high), "sure": told.seeds > 1, "told": _signed(told.value, 1),
                  "text": f"{ONLY}{name}: {_points(told)}"} for place, (name, told) in enumerate(rows)]
        bottom = top + ROW * len(rows)
        made.append({"kind": "ablation", "width": width, "height": bottom + 24, "left": left, "right": width - right,
                     "top": top, "bottom": bottom, "zero": across(0.0), "bars": drawn, "title": title, "told": width,
                     "baseline": at(one.baseline.value) if one.baseline.benchmarks else None,
                     "baseline_text": f"without augmentation: {_points(one.baseline)}",
                     "x": [{"at": across(tick), "text": _signed(tick)} for tick in _ticks(-far, far, 4)
                           if abs(tick) <= far]})
    return made


def legend(families: Sequence[str], width: int) -> Figure:
    """The families that are there, in as many columns as there is room for."""
    there = [family for family in FAMILIES if family in families]
    columns = max(1, width // KEY)
    return {"height": 19.0 * math.ceil(len(there) / columns), "entries": [
        {"name": family, **_look(family), "x": 6.0 + (place % columns) * KEY, "y": 8.0 + 19.0 * (place // columns)}
        for place, family in enumerate(there)]}


def _look(family: str) -> Figure:
    return {"colour": f"--c: var(--m{COLOURS[family]})", "shape": FAMILIES.index(family), "family": family}


def _scale(xs: Sequence[float], start: float, end: float, log: bool) -> Callable[[float], float]:
    """A place for every x between the ends; one x alone stands in the middle."""
    bend: Callable[[float], float] = (lambda x: math.log10(max(x, 0.5))) if log else float
    low, high = bend(min(xs)), bend(max(xs))
    return lambda x: (start + end) / 2 if low == high else start + (bend(x) - low) / (high - low) * (end - start)


def _ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers from below to above, at most about as many as there is room for.

    >>> _ticks(-3, 21), _ticks(-0.2, 0.3, 4)
    ([-5.0, 0.0, 5.0, 10.0, 15.0, 20.0, 25.0], [-0.2, 0.0, 0.2, 0.4])
    """
    step = next(size * 10.0**power for power in range(-9, 300) for size in (1, 2, 5)
                if (high - low) / (size * 10.0**power) <= most - 1)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * k, 10) for k in range(first, last + 1)]


def _spaced(xs: Sequence[float], across: Callable[[float], float]) -> list[float]:
    """The x whose labels do not run into the one before."""
    kept: list[float] = []
    for x in xs:
        if not kept or across(x) - across(kept[-1]) > 4 + 4 * (len(_short(x)) + len(_short(kept[-1]))):
            kept.append(x)
    return kept


def _short(x: float) -> str:
    """
    >>> _short(100000.0), _short(0.1), _short(1000.0)
    ('100,000', '0.1', '1,000')
    """
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:g}"


def _signed(value: float, digits: int | None = None) -> str:
    text = f"{value + 0.0:+g}" if digits is None else f"{round(value, digits) + 0.0:+.{digits}f}"
    return ("0" if float(text) == 0 and digits is None else text).replace("-", "−")


def _full(method: str) -> str:
    """A method with its name in the paper, where that is another word."""
    paper = NINETEEN.get(method, method)
    return method if paper.lower().replace("-", "_") == method else f"{method} (in the paper: {paper})"


def _change(one: Estimate) -> str:
    sure = f"{_signed(one.low, 1)} to {_signed(one.high, 1)} over {one.seeds} seeds" if one.seeds > 1 \
        else "one seed, no interval"
    return f"{_signed(one.value, 1)} % ({sure}; {one.collections} data set{'s' if one.collections > 1 else ''})"


def _points(one: Estimate) -> str:
    sure = f"{_signed(one.low, 1)} to {_signed(one.high, 1)} over {one.seeds} seeds" if one.seeds > 1 \
        else "one seed, no interval"
    return f"{_signed(one.value, 1)} points ({sure})"
