"""Means over items and over runs: how much of their variance comes from each, and the interval of a share.

A metric that is a mean over items, or is one to first order, is a table of contributions: c[r, i] of item i to run r.
Items and seeds are crossed, every run of a method sees the same items, so

    c[r, i] = method + item i + seed r + their own rest,    Var(mean) = σ²_item / n + σ²_seed / k + σ²_rest / (n k).

The spread between k runs shows σ²_seed + σ²_rest / n: much of it may come from the finite number of items alone
(Jordan, 2024). Resampling items and runs at once counts the rest up to three times (Owen, 2007); here each part is
counted once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.rng import child

LEVEL = 0.95


class Means(NamedTuple):
    """Means of contributions over the items of each group, by run and by method."""

    runs: Floats  # runs × groups
    value: Floats  # methods × groups: the mean over a method's runs
    items: Floats  # methods × groups: variance of `value` through the items
    noise: Floats  # methods × groups: variance of a single run's mean through σ²_rest
    of: Ints  # methods: how many runs


def over_runs(values: Floats, method: Sequence[int] | Ints) -> Floats:
    """Runs × anything -> methods × anything: the means over each method's runs."""
    owner = np.asarray(method, np.int64)
    if np.array_equal(owner, np.arange(len(owner))):
        return values  # single runs, of which there may be many
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner)
    summed = np.add.reduceat(values[order], np.cumsum(count) - count, axis=0)
    return np.asarray(summed / count.reshape(-1, *[1] * (values.ndim - 1)))


def means(values: npt.NDArray[np.generic], method: Sequence[int] | Ints, start: Ints | None = None) -> Means:
    """Take contributions apart; `values` is runs × items, `method[r]` the method of run r.

    Items lie group by group, and `start` has the first item of each group; without it there is one.
    """
    table = np.asarray(values, np.float64)
    first = np.zeros(1, np.int64) if start is None else start
    size = np.diff(np.append(first, table.shape[1]))
    count = np.bincount(np.asarray(method, np.int64))
    with np.errstate(invalid="ignore", divide="ignore"):
        runs = np.add.reduceat(table, first, axis=1) / size
        value = over_runs(runs, method)
        squares = np.add.reduceat(over_runs(table, method) ** 2, first, axis=1)
        items = np.maximum(squares / size - value**2, 0) / size
        if len(count) == len(table):
            return Means(runs, value, items, np.zeros_like(items), count)
        rest = count[:, None] * (over_runs(np.add.reduceat(table**2, first, axis=1), method) - squares
                                 - size * (over_runs(runs**2, method) - value**2))
        freedom = (count[:, None] - 1) * (size - 1)
        noise = np.where(freedom > 0, np.maximum(rest, 0) / np.maximum(freedom, 1) / size, 0.0)
    return Means(runs, value, items, noise, count)


class Seeds(NamedTuple):
    """The variance of each method's mean through its seeds, and the degrees of freedom that it was estimated with."""

    variance: Floats  # methods × groups
    freedom: float

    def half_width(self, level: float) -> Floats:
        """t √variance: how far seeds alone take the ends of an interval."""
        return student(self.freedom, level) * np.sqrt(self.variance)


def student(freedom: Floats | Ints | float, level: float) -> Floats:
    """t with P(|T| ≤ t) = level for Student's T; NaN without degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, (1 + checked(level)) / 2))


def seeds(runs: Floats, noise: Floats, method: Sequence[int] | Ints) -> Seeds:
    """What seeds add: the variance between a method's runs beyond `noise`, over their number.

    With few runs a method's own estimate is often too low by chance, so it counts for no less than the pooled one of
    all methods, which also stands in for a method with a single run. Of that many degrees of freedom is then t. With
    single runs only nothing is known of seeds: the variance is 0, and an interval is about these runs and no others.
    """
    count = np.bincount(np.asarray(method, np.int64))[:, None]
    freedom = int((count - 1).sum())
    if not freedom:
        return Seeds(np.zeros_like(noise), np.inf)
    with np.errstate(invalid="ignore"):
        apart = (runs - over_runs(runs, method)[np.asarray(method)]) ** 2
        spread = over_runs(apart, method) * count / np.maximum(count - 1, 1)
        excess = spread - noise
        pooled = ((count - 1) * excess).sum(axis=0) / freedom
        return Seeds(np.maximum(np.where(count > 1, np.maximum(excess, pooled), pooled), 0) / count, float(freedom))


def seeds_half_width(values: Floats, level: float = LEVEL) -> float:
    """How far seeds take the ends of an interval of their mean: t₍k−1₎ sd / √k. One seed alone says nothing: 0.

    >>> round(seeds_half_width(np.asarray([0.7, 0.8, 0.9])), 3), seeds_half_width(np.asarray([0.7]))
    (0.248, 0.0)
    """
    return float(seeds(values[:, None], np.zeros((1, 1)), np.zeros(len(values), np.int64)).half_width(level)[0, 0])


def wilson(value: Floats | float, n: Floats | Ints | float, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Wilson's interval: every p that a test with its own variance does not refuse, |value − p| ≤ z √(p (1 − p) / n).

    A percentile bootstrap of a group that is all right is [1, 1], whatever its size; this one is [n / (n + z²), 1]. An
    `n` that is no whole number is the size of a plain sample with the same variance, see `effective`.

    >>> [round(float(end), 3) for end in wilson(1.0, 20)]
    [0.839, 1.0]
    """
    z = normal_quantile(level)
    share, size = np.asarray(value, np.float64), np.asarray(n, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
        low, high = centre - half, centre + half
    low, high = np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)  # and not 1e-17
    return np.where(size > 0, low, np.nan), np.where(size > 0, high, np.nan)


def effective(value: Floats, variance: Floats, n: Ints | int, runs: Ints | int = 1) -> Floats:
    """The size of a plain sample in which a share has this variance: value (1 − value) / variance.

    A mean over `runs` that agree on every item is worth n items, one over runs that err independently `runs` × n; more
    is not believed. Where everything is right there is no variance to see, and it is n.
    """
    spread = value * (1 - value)
    size = np.broadcast_to(np.asarray(n, np.float64), spread.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, np.minimum(spread / variance, size * runs), size)


def normal_quantile(level: float) -> float:
    """z with P(|Z| ≤ z) = level for a standard normal Z."""
    from scipy.special import ndtri

    return float(ndtri((1 + checked(level)) / 2))


def checked(level: float) -> float:
    """A level as it should be: 0.95, not 95."""
    if not 0 < level < 1:
        raise ShiftBenchError(f"level = {level}, but the level of an interval lies between 0 and 1, such as 0.95.")
    return level


# The bootstrap: the interval of a statistic that has no formula. A replicate draws n of n items with replacement.

REPLICATES = 1000


def interval(replicates: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The percentile interval along the first axis: its (1 − level) / 2 and (1 + level) / 2 quantiles.

    Replicates in which the statistic is not defined (NaN: a group that was not drawn) are left out.
    """
    checked(level)
    if not len(replicates):
        nothing = np.full(replicates.shape[1:], np.nan)
        return nothing, nothing.copy()
    ordered = np.sort(replicates, axis=0)  # NaN sorts last
    known = (~np.isnan(ordered)).sum(axis=0)
    low, high = (_quantile(ordered, known, q) for q in ((1 - level) / 2, (1 + level) / 2))
    return low, high


def _quantile(ordered: Floats, known: Ints, q: float) -> Floats:
    """The quantile of the first `known` of each sorted column, linear between neighbours."""
    position = np.maximum(known - 1, 0) * q
    under = np.floor(position).astype(np.int64)
    over = np.minimum(under + 1, np.maximum(known - 1, 0))
    lower = np.take_along_axis(ordered, under[None], axis=0)[0]
    upper = np.take_along_axis(ordered, over[None], axis=0)[0]
    return np.asarray(lower + (upper - lower) * (position - under))


def bootstrap(
    statistic: Callable[[Floats], float], n: int, *, replicates: int = REPLICATES, seed: int = 0, purpose: str = ""
) -> Floats:
    """Replicates of any statistic of n items: `statistic(weight)` sees how often each item was drawn.

    The way for metrics that are no function of few counts: `bootstrap(lambda w: auc(label, scores, w), len(label))`.
    One replicate's weights are held at a time.
    """
    rng = child(seed, "bootstrap", "items", purpose)
    return np.asarray([
        statistic(np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)) for _ in range(replicates)])
