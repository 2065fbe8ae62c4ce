"""Numbers as intervals: quantiles, and cut points at which the loss changes most on the exploring items."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shiftbench.auditing.predicates import Interval
from shiftbench.core.arrays import Bools, Floats

MOST_CUTS = 3
LEAST_GAIN = 4.0
"""The smallest gain of a cut: the means on its sides differ by two standard errors."""


def intervals(
    x: Floats, loss: Floats, explore: Bools, *, bins: int, least: int, rounded: bool = True
) -> list[Interval]:
    """Intervals of numbers: between quantiles, between cut points, and below and above each cut point.

    Quantiles are those of all items, since they do not depend on the loss. Cut points are found on the items `explore`.
    """
    known = np.isfinite(x)
    cuts = cut_points(x[known & explore], loss[known & explore], least=least, rounded=rounded)
    every = [*_between(quantile_cuts(x[known], bins, rounded)), *_between(cuts)]
    every += [half for cut in cuts for half in (Interval(-np.inf, cut), Interval(cut, np.inf))]
    return sorted(set(every))


def quantile_cuts(x: Floats, bins: int, rounded: bool = True) -> list[float]:
    """Numbers that cut the items into `bins` of as many each, as far as ties allow.

    >>> quantile_cuts(np.arange(8.0), 4)
    [2.0, 4.0, 6.0]
    """
    order = np.sort(x)
    cuts = set()
    for k in range(1, bins):
        high = order[k * len(order) // bins] if len(order) else np.nan
        at = int(np.searchsorted(order, high, side="left"))
        if at > 0:
            cuts.add(_number(float(order[at - 1]), float(high)) if rounded else float(high))
    return sorted(cuts)


def cut_points(
    x: Floats, loss: Floats, *, most: int = MOST_CUTS, least: int = 1, rounded: bool = True
) -> list[float]:
    """Up to `most` numbers at which the mean loss changes most, found one after another as by a regression tree.

    A cut of n items into n_1 below and n_0 from it has the gain, with s² the variance of all losses,

        g = (n_1 n_0 / n) (mean loss below − mean loss from it)² / s².

    The cut with the largest gain in any of the present intervals comes next, while both sides have at least `least`
    items and g ≥ 4. (Breiman et al., 1984: Classification and Regression Trees.)

    >>> cut_points(np.arange(100.0), np.arange(100) >= 70)
    [70.0]
    """
    order = np.argsort(x, kind="stable")
    x, loss = x[order], loss[order].astype(np.float64)
    spread = float(loss.var()) if len(loss) else 0.0
    if spread <= 0:
        return []
    total = np.concatenate([[0.0], np.cumsum(loss - loss.mean())])
    open_segments = [_best(0, len(x), x, total, spread, least)]
    cuts: list[float] = []
    while open_segments and len(cuts) < most:
        best = max(open_segments)
        if best.gain < LEAST_GAIN:
            break
        open_segments.remove(best)
        low, high = float(x[best.at - 1]), float(x[best.at])
        cuts.append(_number(low, high) if rounded else high)
        open_segments += [_best(best.start, best.at, x, total, spread, least),
                          _best(best.at, best.stop, x, total, spread, least)]
    return sorted(cuts)


class _Cut(NamedTuple):
    """The best cut of the sorted items from `start` to `stop`: before item `at`."""

    gain: float
    start: int
    stop: int
    at: int


def _best(start: int, stop: int, x: Floats, total: Floats, spread: float, least: int) -> _Cut:
    at = np.arange(start + max(least, 1), stop - max(least, 1) + 1)
    at = at[x[at - 1] < x[at]] if len(at) else at
    if not len(at):
        return _Cut(-np.inf, start, stop, start)
    below, n = at - start, stop - start
    inside = total[at] - total[start] - (total[stop] - total[start]) * below / n
    gain = inside**2 * n / (below * (n - below)) / spread
    best = int(gain.argmax())
    return _Cut(float(gain[best]), start, stop, int(at[best]))


def _number(low: float, high: float) -> float:
    """The number with the fewest digits that is above `low` and at most `high`; between whole numbers a whole one.

    >>> _number(42.0, 43.0), _number(0.1234, 0.1299), _number(1.0, 700.0)
    (43.0, 0.127, 400.0)
    """
    middle, whole = low + (high - low) / 2, low.is_integer() and high.is_integer()
    for digits in range(1, 17):
        number = float(f"{middle:.{digits}g}")
        if low < number <= high and (number.is_integer() or not whole):
            return number
    return high


def _between(cuts: list[float]) -> Iterator[Interval]:
    if cuts:
        for low, high in pairwise([-np.inf, *cuts, np.inf]):
            yield Interval(low, high)
