"""Intervals of what is no plain share: r, average precision, accuracy of tokens that come file by file.

Every metric here is a mean of contributions of items, to first order: c_i = value + n ∂value/∂w_i, w_i the weight of
item i. Their variance over n is that of the value (the infinitesimal jackknife), so items, seeds and paired differences
are taken apart as for accuracy, see `intervals.parts`. What differs is the scale on which the interval is symmetric.
"""

from collections.abc import Callable, Sequence

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.estimates import Estimate, Worst, bare, sizes_of, worst_estimate
from shiftbench.scoring.intervals import Lowest, lowest_mean, student, wilson
from shiftbench.scoring.intervals import means as take_apart
from shiftbench.scoring.intervals.proportion import normal_quantile

Make = Callable[[Floats, Sequence[int], float | None, Ints | None], Estimate]
"""Contributions (runs × items, group by group), the method of each run, the level, the first item of each group.

Without a level there is no interval."""


def correlation(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """Pearson's r on Fisher's scale: the wider of his interval for a normal law and of what the items show.

        atanh r ± max(z / √(n − 3), t s / (√n (1 − r²))),    s the standard deviation of contributions

    t is Student's with n − 2 degrees of freedom. No interval below four items, nor of a perfect line. Tails that are
    heavier than normal are in s, which is too small where items are few: hence the first. Of 95 % intervals
    95 to 97 hold, 91 with heavy tails.
    """
    if level is None:
        return bare(values, owner, start)
    found = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = student(size - 2, level) * np.sqrt(found.items * size / (size - 2)) / (1 - found.value**2)
        half = np.maximum(half, normal_quantile(level) / np.sqrt(size - 3))
        # Numbers that lie on a line give 1 but for rounding, of which an interval would be made.
        half = np.where((size > 3) & (np.abs(found.value) < 1 - 1e-12), half, np.nan)
        middle = np.arctanh(found.value)
    low, high = np.tanh(middle - half), np.tanh(middle + half)
    return Estimate(found.runs, found.value, found.value, found.value - low, high - found.value, found.noise, -1.0)


def precision(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """Mean average precision A on the scale of the logit: logit A ± t √V / (A (1 − A)); none where A is 0 or 1.

    It is about other samples of this size: with few positives average precision is higher in small samples than in
    large ones, which no interval mends.
    """
    if level is None:
        return bare(values, owner, start)
    found = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    value = found.value
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = student(size - 1, level) * np.sqrt(found.items * size / (size - 1)) / (value * (1 - value))
        odds = np.log(value / (1 - value))
        inside = (value > 0) & (value < 1)
        low = np.where(inside, 1 / (1 + np.exp(reach - odds)), np.nan)
        high = np.where(inside, 1 / (1 + np.exp(-reach - odds)), np.nan)
    return Estimate(found.runs, value, value, value - low, high - value, found.noise)


def shares(values: Floats, owner: Sequence[int], level: float | None, start: Ints | None = None) -> Estimate:
    """A mean of contributions that lies in [0, 1] while they may not: Wilson's interval.

    Its size is that of a plain sample of right and wrong with the variance that the items show, less for few items as
    Student's t is wider; where they show none, it is their number.
    """
    if level is None:
        return bare(values, owner, start)
    found = take_apart(values, owner, start)
    size = sizes_of(values.shape[1], start)
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = (student(size - 1, level) / normal_quantile(level)) ** 2
        alike = found.value * (1 - found.value) / (found.items * size / (size - 1) * wider)
    alike = np.where((found.items > 1e-18) & (size > 1) & (alike > 0), alike, size)
    low, high = wilson(found.value, alike, level)
    return Estimate(found.runs, found.value, found.value, found.value - low, high - found.value, found.noise)


def worst_of(
    values: Floats, start: Ints, *, owner: Sequence[int], level: float | None, make: Make, fisher: bool = False
) -> Worst:
    """The lowest value over groups, corrected for the downward bias of a minimum as in `intervals.lowest_mean`.

    A group's standard error is half its interval over z: on Fisher's scale for r. No interval where a group has none.
    """
    size = sizes_of(values.shape[1], start)
    mean = np.add.reduceat(values, start, axis=1) / size
    ends = None
    if level:
        one = make(values, range(len(values)), level, start)
        there, back = (np.arctanh, np.tanh) if fisher else (np.positive, np.positive)
        with np.errstate(divide="ignore", invalid="ignore"):
            width = there(one.value + one.above) - there(one.value - one.below)
        if np.isfinite(width).all():
            found = lowest_mean(there(one.value), width / 2 / normal_quantile(level), level)
            ends = Lowest(*(np.asarray(back(end)) for end in found))
    made = worst_estimate(values, size, mean, owner, level, ends)
    return made._replace(estimate=made.estimate._replace(least=-1.0)) if fisher else made
