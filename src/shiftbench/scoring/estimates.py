"""One number per method with its interval: what the items alone leave open, and what the seeds add to it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
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


class Estimate(NamedTuple):
    """A metric over one or more groups. A half-width is √(items² + seeds²); items' are `below` and `above`."""

    runs: Floats  # runs × groups: each run's value
    value: Floats  # methods × groups: the mean over a method's runs
    centre: Floats  # methods × groups: the value, or its correction where it is biased
    below: Floats  # methods × groups: how far items take the lower end from the centre
    above: Floats
    noise: Floats  # methods × groups: variance between runs that items explain, see `intervals.parts`
    least: float = 0.0
    most: float = 1.0

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference of what was measured on different items by the same runs."""
        return Estimate(self.runs - other.runs, self.value - other.value, self.centre - other.centre,
                        np.hypot(self.below, other.above), np.hypot(self.above, other.below),
                        self.noise + other.noise, self.least - other.most, self.most - other.least)

    def ends(self, owner: Sequence[int], level: float) -> tuple[Floats, Floats]:
        """Low and high, methods × groups; a value beside its correction's interval stretches it to itself."""
        more = seeds(self.runs, self.noise, owner).half_width(level)
        low = np.minimum(self.centre - np.hypot(self.below, more), self.value)
        high = np.maximum(self.centre + np.hypot(self.above, more), self.value)
        return np.clip(low, self.least, self.most), np.clip(high, self.least, self.most)


class Worst(NamedTuple):
    """The worst group of each method: its estimate, which it is on average, and what a comparison of methods needs."""

    estimate: Estimate
    code: Ints  # methods
    n: Ints  # methods: items of that group
    items: Floats  # runs × items: contributions to each run's own worst; nothing for a single run
    fewest: Floats  # methods: items of the smallest group that is some run's worst
    unsure: Floats  # methods: what the interval has beyond the variance of `items`: how biased the minimum is


def bare(values: Bools | Floats, owner: Sequence[int], start: Ints | None = None) -> Estimate:
    """Means over the items of each group without an interval: what is asked for at every evaluation of training."""
    first = np.zeros(1, np.int64) if start is None else start
    runs = np.add.reduceat(np.asarray(values, np.float64), first, axis=1) / sizes_of(values.shape[1], start)
    value = over_runs(runs, owner)
    nothing = np.full_like(value, np.nan)
    return Estimate(runs, value, value, nothing, nothing, nothing)


def share(values: Bools | Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """A mean over items that lies in [0, 1]: Wilson's interval with the size that the items' variance is worth."""
    if level is None:
        return bare(values, owner, start)
    found = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    low, high = wilson(found.value, effective(found.value, found.items, size, found.of[:, None]), level)
    return Estimate(found.runs, found.value, found.value, found.value - low, high - found.value, found.noise)


def loss(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """A mean over items without bounds: Student's interval, unknown where a group has a single item."""
    if level is None:
        return bare(values, owner, start)
    found = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = student(size - 1, level) * np.sqrt(found.items * size / (size - 1))
    return Estimate(found.runs, found.value, found.value, half, half, found.noise, 0.0, np.inf)


def worst_share(
    hits: Bools, start: Ints, owner: Sequence[int], level: float | None, rows: Ints | None = None
) -> Worst:
    """The lowest accuracy over groups: the mean over runs of each run's lowest, corrected as in `intervals.lowest`.

    Items lie group by group; or `rows` has their numbers so, an item once for every group that it is in.

    Where groups overlap they are not independent, and the estimate is not corrected.
    """
    laid = hits if rows is None else hits[:, rows]
    size = sizes_of(laid.shape[1], start)
    right = np.add.reduceat(laid, start, axis=1, dtype=np.int64)
    rate = right / size
    overlap = rows is not None and int(np.bincount(rows).max(initial=0)) > 1
    ends = lowest(right, size, level, overlap=overlap) if level else None
    if rows is None or not overlap:
        return worst_estimate(laid, size, rate, owner, level, ends)
    return worst_estimate(hits, size, rate, owner, level, ends, np.split(rows, start[1:]))


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
        found = lowest_mean(-mean, error, level, freedom=size - 1)
        ends = Lowest(-found.high, -found.middle, -found.low)
    made = worst_estimate(values, size, -mean, owner, level, ends)
    estimate = made.estimate
    return made._replace(estimate=estimate._replace(runs=-estimate.runs, value=-estimate.value, most=np.inf))


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
    value, nothing = over_runs(runs, owner), np.full((len(average), 1), np.nan)
    if level is None or ends is None:
        estimate = Estimate(runs, value, nothing, nothing, nothing, nothing)
        return Worst(estimate, average, size[average], np.zeros((0, 0)), nothing[:, 0], nothing[:, 0])
    low, middle, high = (over_runs(end[:, None], owner) for end in ends)
    if len(owner) == 1:
        estimate = Estimate(runs, value, middle, middle - low, high - middle, np.zeros((1, 1)))
        return Worst(estimate, average, size[average], np.zeros((0, 0)), nothing[:, 0], nothing[:, 0])
    if members:
        mine = np.zeros(values.shape, np.int64)
        for run, code in enumerate(which):
            mine[run, members[code]] = 1
        items = at_lowest(values, mine, np.ones(len(values), np.int64))
    else:
        items = at_lowest(values, np.repeat(np.arange(len(size)), size), which)
    found = take_apart(items, owner)
    single = over_runs(take_apart(items, range(len(values))).items, owner)
    shared = np.sqrt(np.divide(found.items, single, out=np.ones_like(single), where=single > 0)).clip(0, 1)
    above = (1 + shared) / 2 * (high - middle)  # how biased a minimum is, is as unsure for all runs as for one
    below = shared * (middle - low)
    unsure = np.maximum(((below + above) / 2 / student(np.inf, level)) ** 2 - found.items, 0)
    estimate = Estimate(runs, value, middle, below, above, found.noise)
    mine = np.asarray(owner)
    fewest = np.asarray([size[which[mine == method]].min() for method in range(len(average))], np.float64)
    return Worst(estimate, average, size[average], items, fewest, unsure[:, 0])


def sizes_of(n: int, start: Ints | None) -> Ints:
    """How many of n items each group has, by the first item of each."""
    if start is None:
        return np.asarray([n])
    size = np.empty(len(start), np.int64)
    size[:-1], size[-1:] = start[1:] - start[:-1], n - start[-1:]
    return size
