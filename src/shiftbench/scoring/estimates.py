"""One number per method with its interval: the uncertainty from items, and what seeds add to it.

Every metric here is a mean of contributions of items, exactly or to first order: c_i = value + n ∂value/∂w_i, w_i the
weight of item i. Their variance over n is that of the value (the infinitesimal jackknife), so items, seeds and paired
differences are taken apart in one way for all metrics, see `intervals.means`. What differs is the law of the interval:
LAWS has them by the names that `metrics.Metric.interval` uses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.data.scores import ALL, Measure
from shiftbench.scoring.intervals import (
    Lowest,
    at_lowest,
    effective,
    lowest,
    lowest_mean,
    over_runs,
    seeds,
    student,
    wilson,
)
from shiftbench.scoring.intervals import means as take_apart
from shiftbench.scoring.intervals.means import normal_quantile

CORRECTED = "_corrected"
"""The suffix of a worst-group metric that is corrected for the bias of a minimum."""


class Estimate(NamedTuple):
    """A metric over one or more groups. A half-width is √(items² + seeds²); items' are `below` and `above`."""

    runs: Floats  # runs × groups: each run's value
    value: Floats  # methods × groups: the mean over a method's runs
    centre: Floats  # methods × groups: the value, or its correction where it is biased
    below: Floats  # methods × groups: how far items take the lower end from the centre
    above: Floats
    noise: Floats  # methods × groups: variance between runs that items explain, see `intervals.means`
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


@dataclass(frozen=True, eq=False)
class Worst:
    """The worst group of each method: its estimate, which group it is on average, and what a comparison needs.

    Values that only a comparison of methods needs are computed on demand: thousands of single runs never need them.
    """

    estimate: Estimate
    code: Ints  # methods
    n: Ints  # methods: items of that group
    fewest: Floats  # methods: items of the smallest group that is some run's worst
    owner: Sequence[int] = ()
    level: float | None = None
    contributions: Callable[[], Floats] | None = None

    @property
    def items(self) -> Floats:
        """Runs × items: contributions to each run's own worst; nothing where it has no interval."""
        return np.zeros((0, 0)) if self.contributions is None else self.contributions()

    @cached_property
    def unsure(self) -> Floats:
        """Methods: what the interval has beyond the variance of `items`, which is how biased the minimum is."""
        if self.contributions is None or self.level is None:
            return np.full(len(self.code), np.nan)
        half = (self.estimate.below + self.estimate.above) / 2 / student(np.inf, self.level)
        return np.asarray(np.maximum(half**2 - take_apart(self.items, self.owner).items, 0)[:, 0])


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
    worst: Worst | None = None
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
    assert lowest.worst is not None
    centred = lowest.estimate._replace(value=lowest.estimate.centre)
    return lowest._replace(metric=lowest.metric + CORRECTED, estimate=centred, compared=False,
                           worst=replace(lowest.worst, estimate=centred))


def within(measured: Measured, least: float, most: float) -> Measured:
    """The same with other bounds of what the metric can be."""
    estimate = measured.estimate._replace(least=least, most=most)
    worst = measured.worst and replace(measured.worst, estimate=estimate)
    return measured._replace(estimate=estimate, worst=worst)


def values_of(measured: Iterable[Measured]) -> dict[str, float]:
    """The numbers of a single run, over all items or of the worst group, as `Measure` writes them; NaN if undefined."""
    return {str(Measure(one.metric, one.by)): float(one.estimate.value[0, 0]) for one in measured if one.is_whole}


# Laws of intervals. Each takes contributions (runs × items, group by group), the method of each run, the level, and the
# first item of each group; without a level there is no interval.

Law = Callable[[Floats, Sequence[int], float | None, Ints | None], Estimate]


def bare(values: Bools | Floats, owner: Sequence[int], start: Ints | None = None) -> Estimate:
    """Means over the items of each group without an interval, as every evaluation during training needs them."""
    first = np.zeros(1, np.int64) if start is None else start
    runs = np.add.reduceat(np.asarray(values, np.float64), first, axis=1) / sizes_of(values.shape[1], start)
    value = over_runs(runs, owner)
    nothing = np.full_like(value, np.nan)
    return Estimate(runs, value, value, nothing, nothing, nothing)


def share(
    values: Bools | Floats, owner: Sequence[int], level: float | None, start: Ints | None = None
) -> Estimate:
    """A mean over items that lies in [0, 1]: Wilson's interval with the size that the items' variance is worth."""
    if level is None:
        return bare(values, owner, start)
    parts = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    low, high = wilson(parts.value, effective(parts.value, parts.items, size, parts.of[:, None]), level)
    return Estimate(parts.runs, parts.value, parts.value, parts.value - low, high - parts.value, parts.noise)


def shares(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """A mean m of contributions that lies in [0, 1] while they may not: Wilson's interval, of the size

        n' = m (1 − m) / (V n / (n − 1) (t / z)²),    V the variance of m through its n items

    of a plain sample of right and wrong that is as sure. Where the items do not vary it is their number n.
    """
    if level is None:
        return bare(values, owner, start)
    parts = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = (student(size - 1, level) / normal_quantile(level)) ** 2
        alike = parts.value * (1 - parts.value) / (parts.items * size / (size - 1) * wider)
    alike = np.where((parts.items > 1e-18) & (size > 1) & (alike > 0), alike, size)
    low, high = wilson(parts.value, alike, level)
    return Estimate(parts.runs, parts.value, parts.value, parts.value - low, high - parts.value, parts.noise)


def loss(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """A mean m over n items without an upper bound, m ± t s / √n: Student's, unknown where a group has a single item.

    s is the standard deviation of the items, each averaged over the runs; t has n − 1 degrees of freedom.
    """
    if level is None:
        return bare(values, owner, start)
    parts = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = student(size - 1, level) * np.sqrt(parts.items * size / (size - 1))
    return Estimate(parts.runs, parts.value, parts.value, half, half, parts.noise, 0.0, np.inf)


def correlation(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """Pearson's r on Fisher's scale: the wider of his interval for a normal law and of what the items show.

        atanh r ± max(z / √(n − 3), t s / (√n (1 − r²))),    s the standard deviation of contributions

    t is Student's with n − 2 degrees of freedom. No interval below four items, nor of a perfect line. Tails that are
    heavier than normal are in s, which is too small where items are few: hence the first. Of 95 % intervals
    95 to 97 hold, 91 with heavy tails.
    """
    if level is None:
        return bare(values, owner, start)
    parts = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = student(size - 2, level) * np.sqrt(parts.items * size / (size - 2)) / (1 - parts.value**2)
        half = np.maximum(half, normal_quantile(level) / np.sqrt(size - 3))
        # Points on a line give 1 up to rounding, and an interval must not be made from the rounding error.
        half = np.where((size > 3) & (np.abs(parts.value) < 1 - 1e-12), half, np.nan)
        middle = np.arctanh(parts.value)
    low, high = np.tanh(middle - half), np.tanh(middle + half)
    return Estimate(parts.runs, parts.value, parts.value, parts.value - low, high - parts.value, parts.noise, -1.0)


def precision(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """Mean average precision A on the scale of the logit: logit A ± t √V / (A (1 − A)); none where A is 0 or 1.

    It is about other samples of this size: with few positives average precision is higher in small samples than in
    large ones, which no interval can repair.
    """
    if level is None:
        return bare(values, owner, start)
    parts = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = student(size - 1, level) * np.sqrt(parts.items * size / (size - 1))
    low, high = on_the_logit_scale(parts.value, error)
    return Estimate(parts.runs, parts.value, parts.value, parts.value - low, high - parts.value, parts.noise)


def on_the_logit_scale(value: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The ends of value ± half where the interval is symmetric on the scale of the logit; NaN at 0 and at 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach, odds = half / (value * (1 - value)), np.log(value / (1 - value))
        inside = (value > 0) & (value < 1)
        return (np.where(inside, 1 / (1 + np.exp(reach - odds)), np.nan),
                np.where(inside, 1 / (1 + np.exp(-reach - odds)), np.nan))


LAWS: Mapping[str, Law] = {"wilson": share, "wilson of contributions": shares, "student": loss,
                           "fisher z": correlation, "jackknife logit": precision}


# The worst of several groups.

def worst_by(
    law: str, values: Floats, start: Ints, owner: Sequence[int], level: float | None, *, lower: bool
) -> Worst:
    """The worst group of contributions, runs × items, that lie group by group, under the law of the metric.

    It is the highest where `lower` is better, else the lowest; each law knows one of the two, and mirrors the other.
    """
    if law == "student":
        return worst_loss(values, start, owner, level) if lower else mirrored(
            worst_loss(-values, start, owner, level), about=0.0)
    if lower:
        return mirrored(worst_of(1 - values, start, owner, level, LAWS[law]), about=1.0)
    return worst_of(values, start, owner, level, LAWS[law], fisher=law == "fisher z")


def mirrored(worst: Worst, about: float) -> Worst:
    """The worst group of `about` minus the contributions that `worst` was made of."""
    old, items = worst.estimate, worst.contributions
    estimate = Estimate(about - old.runs, about - old.value, about - old.centre, old.above, old.below, old.noise,
                        about - old.most, about - old.least)
    return replace(worst, estimate=estimate, contributions=items and (lambda: about - items()))


def worst_share(
    hits: Bools, start: Ints, owner: Sequence[int], level: float | None, rows: Ints | None = None
) -> Worst:
    """The lowest accuracy over groups: the mean over runs of each run's lowest, corrected as in `intervals.lowest`.

    Items lie group by group; or `rows` has their numbers so, an item once for every group that it is in. Where groups
    overlap they are not independent, and the estimate is not corrected.
    """
    laid = hits if rows is None else hits[:, rows]
    size = sizes_of(laid.shape[1], start)
    right = np.add.reduceat(laid, start, axis=1, dtype=np.int64)
    overlap = rows is not None and int(np.bincount(rows).max(initial=0)) > 1
    ends = None
    if level:  # the law is costly to invert; runs that are right equally often in every group share it
        counts, same = np.unique(right, axis=0, return_inverse=True)
        ends = Lowest(*(end[same.ravel()] for end in lowest(counts, size, level, overlap=overlap)))
    if rows is None or not overlap:
        return worst_estimate(laid, size, right / size, owner, level, ends)
    return worst_estimate(hits, size, right / size, owner, level, ends, np.split(rows, start[1:]))


def worst_loss(values: Floats, start: Ints, owner: Sequence[int], level: float | None) -> Worst:
    """The highest mean loss over groups, corrected for the upward bias of a maximum as in `intervals.lowest_mean`.

    No interval where a loss is infinite or a group has a single item.
    """
    size = sizes_of(values.shape[1], start)
    mean = np.add.reduceat(values, start, axis=1) / size
    ends = None
    if level and size.min() > 1 and np.isfinite(mean).all():
        rest = (values - np.repeat(mean, size, axis=1)) ** 2
        error = np.sqrt(np.add.reduceat(rest, start, axis=1) / (size - 1) / size)
        below = lowest_mean(-mean, error, level, freedom=size - 1)
        ends = Lowest(-below.high, -below.middle, -below.low)
    worst = worst_estimate(values, size, -mean, owner, level, ends)
    estimate = worst.estimate
    return replace(worst, estimate=estimate._replace(runs=-estimate.runs, value=-estimate.value, most=np.inf))


def worst_of(
    values: Floats, start: Ints, owner: Sequence[int], level: float | None, law: Law, *, fisher: bool = False
) -> Worst:
    """The lowest value over groups, corrected for the downward bias of a minimum as in `intervals.lowest_mean`.

    A group's standard error is half its interval over z: on Fisher's scale for r. No interval where a group has none.
    """
    size = sizes_of(values.shape[1], start)
    mean = np.add.reduceat(values, start, axis=1) / size
    ends = None
    if level:
        each = law(values, range(len(values)), level, start)
        there, back = (np.arctanh, np.tanh) if fisher else (np.positive, np.positive)
        with np.errstate(divide="ignore", invalid="ignore"):
            width = there(each.value + each.above) - there(each.value - each.below)
        if np.isfinite(width).all():
            limits = lowest_mean(there(each.value), width / 2 / normal_quantile(level), level)
            ends = Lowest(*(np.asarray(back(end)) for end in limits))
    worst = worst_estimate(values, size, mean, owner, level, ends)
    return replace(worst, estimate=worst.estimate._replace(least=-1.0)) if fisher else worst


def worst_estimate(
    values: Bools | Floats, size: Ints, mean: Floats, owner: Sequence[int], level: float | None, ends: Lowest | None,
    members: Sequence[Ints] = (),
) -> Worst:
    """Means over runs of each run's own lowest of `mean`, runs × groups; `ends` are those of each run.

    Items lie group by group, or `members` has the items of each group.

    Runs share their items: where all runs of a method err alike a mean over them is known no better than one run, where
    they err independently much better. A half-width is that of one run times √(variance of the mean / mean variance).
    """
    which, average = mean.argmin(axis=1), over_runs(mean, owner).argmin(axis=1)
    runs = np.take_along_axis(mean, which[:, None], axis=1)
    value, n = over_runs(runs, owner), size[average]
    fewest = np.full(len(average), np.inf)
    np.minimum.at(fewest, np.asarray(owner), size[which])
    if level is None or ends is None:
        nothing = np.full((len(average), 1), np.nan)
        return Worst(Estimate(runs, value, nothing, nothing, nothing, nothing), average, n, nothing[:, 0])
    low, middle, high = (over_runs(end[:, None], owner) for end in ends)
    items = cache(partial(_items_of_worst, values, size, which, members))
    if len(average) == len(owner):  # single runs: there may be many
        estimate = Estimate(runs, value, middle, middle - low, high - middle, np.zeros_like(value))
        return Worst(estimate, average, n, fewest, owner, level, items)
    over_items = take_apart(items(), owner)
    single = over_runs(take_apart(items(), range(len(values))).items, owner)
    shared = np.sqrt(np.divide(over_items.items, single, out=np.ones_like(single), where=single > 0)).clip(0, 1)
    above = (1 + shared) / 2 * (high - middle)  # the bias of a minimum is as uncertain for all runs as for one
    estimate = Estimate(runs, value, middle, shared * (middle - low), above, over_items.noise)
    return Worst(estimate, average, n, fewest, owner, level, items)


def _items_of_worst(values: Bools | Floats, size: Ints, which: Ints, members: Sequence[Ints]) -> Floats:
    """Runs × items: contributions to the mean of each run's group `which[r]`."""
    if not members:
        return at_lowest(values, np.repeat(np.arange(len(size)), size), which)
    inside = np.zeros(values.shape, np.int64)
    for run, code in enumerate(which):
        inside[run, members[code]] = 1
    return at_lowest(values, inside, np.ones(len(values), np.int64))


def sizes_of(n: int, start: Ints | None) -> Ints:
    """The size of each group, from the first item of each and the number of items n."""
    if start is None:
        return np.asarray([n])
    size = np.empty(len(start), np.int64)
    size[:-1], size[-1:] = start[1:] - start[:-1], n - start[-1:]
    return size
