"""Estimates: the mean of what items contribute, by run and by method, and its interval.

Every metric here is a mean of contributions of items, exactly or to first order: c_i = value + n ∂value/∂w_i, w_i the
weight of item i. Their variance over n is that of the value (the infinitesimal jackknife), so items, seeds and paired
differences are taken apart in one way for all metrics. What differs is the law of the interval: LAWS has them by the
names that `metrics.Metric.interval` uses.

Contributions are a table c[r, i] of item i to run r. Items and seeds are crossed, every run of a method sees the same
items, so

    c[r, i] = method + item i + seed r + their own rest,    Var(mean) = σ²_item / n + σ²_seed / k + σ²_rest / (n k).

The spread between k runs shows σ²_seed + σ²_rest / n: much of it may come from the finite number of items alone
(Jordan, 2024). Resampling items and runs at once counts the rest up to three times (Owen, 2007); here each part is
counted once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.scores import ALL, Measure

if TYPE_CHECKING:
    from shiftbench.scoring.worst import Worst

LEVEL = 0.95
REPLICATES = 1000
CORRECTED = "_corrected"
"""The suffix of a worst-group metric that is corrected for the bias of a minimum."""


class Estimate(NamedTuple):
    """A metric over one or more groups. A half-width is √(items² + seeds²); items' are `below` and `above`."""

    runs: Floats  # runs × groups: each run's value
    value: Floats  # methods × groups: the mean over a method's runs
    centre: Floats  # methods × groups: the value, or its correction where it is biased
    below: Floats  # methods × groups: how far items take the lower end from the centre
    above: Floats
    noise: Floats  # methods × groups: variance between runs that items explain, see `Means`
    least: float = 0.0
    most: float = 1.0

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference of two estimates of the same runs on different items."""
        return Estimate(self.runs - other.runs, self.value - other.value, self.centre - other.centre,
                        np.hypot(self.below, other.above), np.hypot(self.above, other.below),
                        self.noise + other.noise, self.least - other.most, self.most - other.least)

    def ends(self, owner: Sequence[int], level: float) -> tuple[Floats, Floats]:
        """Low and high, methods × groups; a value beside its correction's interval stretches it to itself."""
        more = seeds(self.runs, self.noise, owner).half_width(level)
        low = np.minimum(self.centre - np.hypot(self.below, more), self.value)
        high = np.maximum(self.centre + np.hypot(self.above, more), self.value)
        return np.clip(low, self.least, self.most), np.clip(high, self.least, self.most)


class Measured(NamedTuple):
    """A metric with one value per group and method, or, with `worst`, of each method's worst group.

    `table` has the contributions by which methods are compared where higher is better, runs × items. With `start` they
    lie group by group, and methods are compared in each group.
    """

    metric: str
    groups: Sequence[str]
    n: Ints
    estimate: Estimate
    table: Bools | Floats | None = None
    worst: "Worst | None" = None
    start: Ints | None = None
    of: int = 0  # items of the comparison; 0: the sum of `n`
    compared: bool = False  # of a worst group: whether methods are compared by it
    by: str = ""  # the grouping, "" for the benchmark's own groups

    @property
    def items(self) -> Bools | Floats | None:
        """The contributions by which methods are compared; None where they are not."""
        return self.table if self.worst is None else self.worst.items if self.compared else None

    @property
    def is_whole(self) -> bool:
        """Whether a run has one number: over all items, or for the worst group."""
        return self.worst is not None or list(self.groups) == [ALL]


def corrected(lowest: Measured) -> Measured:
    """The same worst group without the downward bias of a minimum; methods are not compared by it."""
    centred = lowest.estimate._replace(value=lowest.estimate.centre)
    return lowest._replace(metric=lowest.metric + CORRECTED, estimate=centred, compared=False)


def values_of(measured: Iterable[Measured]) -> dict[str, float]:
    """The numbers of a single run, over all items or of the worst group, as `Measure` writes them; NaN if undefined."""
    return {str(Measure(score.metric, score.by)): float(score.estimate.value[0, 0])
            for score in measured if score.is_whole}


# Laws of intervals

def estimate(
    law: "str | Law", values: Bools | Floats, owner: Sequence[int], level: float | None, start: Ints | None = None
) -> Estimate:
    """The mean of contributions, runs × items, with the interval of a law; `owner[r]` is the method of run r.

    Items lie group by group, and `start` has the first item of each group; without it there is one. Without a level
    there is no interval, as in every evaluation during training.
    """
    law = LAWS[law] if isinstance(law, str) else law
    size = sizes_of(values.shape[1], start)
    if level is None:
        first = np.zeros(1, np.int64) if start is None else start
        return without_interval(np.add.reduceat(np.asarray(values, np.float64), first, axis=1) / size, owner)
    parts = take_apart(values, owner, start)
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = law.reach(parts, size, level)
    return Estimate(parts.runs, parts.value, parts.value, below, above, parts.noise, law.least, law.most)


def without_interval(runs: Floats, owner: Sequence[int]) -> Estimate:
    """The value of each run and of each method, from runs × groups, without intervals."""
    value = over_runs(runs, owner)
    nothing = np.full_like(value, np.nan)
    return Estimate(runs, value, value, nothing, nothing, nothing)


class Law(NamedTuple):
    """How far items take the ends of an interval: (parts, sizes of groups, level) -> below and above the value."""

    reach: "Callable[[Means, Ints, float], tuple[Floats, Floats]]"
    least: float = 0.0  # what the metric can be
    most: float = 1.0
    scale: tuple[np.ufunc, np.ufunc] = (np.positive, np.positive)  # to where the value is nearly normal, and back


def _share(parts: "Means", size: Ints, level: float) -> tuple[Floats, Floats]:
    """A mean over items that lies in [0, 1]: Wilson's interval with the size that the items' variance is worth."""
    low, high = wilson(parts.value, effective(parts.value, parts.items, size, parts.of[:, None]), level)
    return parts.value - low, high - parts.value


def _share_of_contributions(parts: "Means", size: Ints, level: float) -> tuple[Floats, Floats]:
    """A mean m of contributions that lies in [0, 1] while they may not: Wilson's interval, of the size

        n' = m (1 − m) / (V n / (n − 1) (t / z)²),    V the variance of m through its n items

    of a plain sample of right and wrong that is as sure. Where the items do not vary it is their number n.
    """
    wider = (student(size - 1, level) / normal_quantile(level)) ** 2
    alike = parts.value * (1 - parts.value) / (parts.items * size / (size - 1) * wider)
    alike = np.where((parts.items > 1e-18) & (size > 1) & (alike > 0), alike, size)
    low, high = wilson(parts.value, alike, level)
    return parts.value - low, high - parts.value


def _loss(parts: "Means", size: Ints, level: float) -> tuple[Floats, Floats]:
    """A mean m over n items without an upper bound, m ± t s / √n: Student's, unknown where a group has a single item.

    s is the standard deviation of the items, each averaged over the runs; t has n − 1 degrees of freedom.
    """
    half = student(size - 1, level) * np.sqrt(parts.items * size / (size - 1))
    return half, half


def _correlation(parts: "Means", size: Ints, level: float) -> tuple[Floats, Floats]:
    """Pearson's r on Fisher's scale: the wider of his interval for a normal law and of what the items show.

        atanh r ± max(z / √(n − 3), t s / (√n (1 − r²))),    s the standard deviation of contributions

    t is Student's with n − 2 degrees of freedom. No interval below four items, nor of a perfect line. Tails that are
    heavier than normal are in s, which is too small where items are few: hence the first. Of 95 % intervals
    95 to 97 hold, 91 with heavy tails.
    """
    half = student(size - 2, level) * np.sqrt(parts.items * size / (size - 2)) / (1 - parts.value**2)
    half = np.maximum(half, normal_quantile(level) / np.sqrt(size - 3))
    # Points on a line give 1 up to rounding, and an interval must not be made from the rounding error.
    half = np.where((size > 3) & (np.abs(parts.value) < 1 - 1e-12), half, np.nan)
    middle = np.arctanh(parts.value)
    return parts.value - np.tanh(middle - half), np.tanh(middle + half) - parts.value


def _precision(parts: "Means", size: Ints, level: float) -> tuple[Floats, Floats]:
    """Mean average precision A on the scale of the logit: logit A ± t √V / (A (1 − A)); none where A is 0 or 1.

    It is about other samples of this size: with few positives average precision is higher in small samples than in
    large ones, which no interval can repair.
    """
    low, high = on_the_logit_scale(parts.value, _loss(parts, size, level)[0])
    return parts.value - low, high - parts.value


LAWS: Mapping[str, Law] = {
    "wilson": Law(_share), "wilson of contributions": Law(_share_of_contributions), "student": Law(_loss, 0.0, np.inf),
    "fisher z": Law(_correlation, -1.0, scale=(np.arctanh, np.tanh)), "jackknife logit": Law(_precision)}


# What contributions are made of

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


def take_apart(values: npt.NDArray[np.generic], method: Sequence[int] | Ints, start: Ints | None = None) -> Means:
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

    With few runs a method's own estimate is often too low by chance, so it is never taken below the pooled estimate of
    all methods, which also serves a method with a single run; t has the degrees of freedom of the pooled estimate. With
    only single runs nothing is known about seeds: the variance is 0, and an interval is about these runs alone.
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


def sizes_of(n: int, start: Ints | None) -> Ints:
    """The size of each group, from the first item of each and the number of items n."""
    if start is None:
        return np.asarray([n])
    size = np.empty(len(start), np.int64)
    size[:-1], size[-1:] = start[1:] - start[:-1], n - start[-1:]
    return size


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

    A mean over `runs` that agree on every item is worth n items, one over runs that err independently `runs` × n, which
    is the upper limit. If everything is right there is no variance to see, and the size is n.
    """
    spread = value * (1 - value)
    size = np.broadcast_to(np.asarray(n, np.float64), spread.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, np.minimum(spread / variance, size * runs), size)


def on_the_logit_scale(value: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The ends of value ± half where the interval is symmetric on the scale of the logit; NaN at 0 and at 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach, odds = half / (value * (1 - value)), np.log(value / (1 - value))
        inside = (value > 0) & (value < 1)
        return (np.where(inside, 1 / (1 + np.exp(reach - odds)), np.nan),
                np.where(inside, 1 / (1 + np.exp(-reach - odds)), np.nan))


def normal_quantile(level: float) -> float:
    """z with P(|Z| ≤ z) = level for a standard normal Z."""
    from scipy.special import ndtri

    return float(ndtri((1 + checked(level)) / 2))


def checked(level: float) -> float:
    """The level, after checking that it is a share: 0.95, not 95."""
    if not 0 < level < 1:
        raise ShiftBenchError(f"level = {level}, but the level of an interval lies between 0 and 1, such as 0.95.")
    return level


# The bootstrap: the interval of a statistic that has no formula. A replicate draws n of n items with replacement.

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

    For metrics that are not a function of a few counts: `bootstrap(lambda w: auc(label, scores, w), len(label))`. The
    weights of one replicate are in memory at a time.
    """
    rng = child(seed, "bootstrap", "items", purpose)
    return np.asarray([
        statistic(np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)) for _ in range(replicates)])
