"""The lowest of several groups: an interval of the true lowest, and an estimate with most of the downward bias removed.

If groups are alike, the lowest is low by chance: with 12 groups of 50 items, all at 0.5, the minimum is 0.39 on
average. A bootstrap draws the minimum of what is already noisy and lies lower still: its 95 % interval holds the truth
in 1 % of such cases.

**The interval.** Group g has X_g ~ Binomial(n_g, p_g), and θ = min_g p_g is sought. Let l_g(e) and u_g(e) be Clopper's
and Pearson's one-sided limits, each wrong with probability e at most, and a = (1 − level) / 2.

    low  = min_g l_g(a)
    high = the largest t with  t ≤ u_g((1 − level^(1 / K(t))) / 2)  for every group that is in at t.

A group is in at t where l_g(½) < t, so that it looks no better than t, and K(t) counts them. Only groups that are in
can refuse t, and the correction is Šidák's for their number. It keeps the level in samples of any size, for independent
groups of any sizes,

    P(low ≤ θ ≤ high) ≥ level.

Let g be the group with p_g = θ. (1) No other group is in at θ: then only g can refuse θ, with K = 1, and low > θ only
if l_g(a) > θ, each with probability a at most. (2) Others are in: then low < θ. Let F_p be the distribution function of
X_h, k the first number with F_θ(k) ≥ ½ and j the last with F_θ(j) ≤ c / 2, for c = 1 − level^(1 / K). Group h is in
where X_h ≤ k and refuses where X_h ≤ j. Given that it is in, it refuses with probability F_p(j) / F_p(k) ≤
F_θ(j) / F_θ(k) ≤ c, as p_h ≥ θ and the ratio falls in p (monotone likelihood ratio). So given which K groups are in,
some group refuses with probability 1 − (1 − c)^K = 1 − level at most. (Such conditioning is Zhao, Small & Su's, 2019,
and Ellis, Pecanka & Goeman's, 2020; that the two ends share their error is ours.)

It is never longer than Bonferroni's: (1 − level^(1 / K)) / 2 ≥ a / K ≥ a / G, so [low, high] lies within
[min_g l_g(a / G), min_g u_g(a / G)]. A group that is clearly the worst keeps its own interval, however many others
there are. Where groups overlap they are not independent: *high* is then Bonferroni's, which no dependence breaks, and
*low* is the same. Limits of means are Student's, and the level holds as far as they do. How often all this holds the
truth, and how long it is: python bench/intervals.py

**The estimate** inverts the law of the minimum. With m the lowest rate seen,

    S(θ) = P(min_g X_g / n_g > m) + ½ P(min_g X_g / n_g = m) = ½,

where the group seen lowest has θ and the others max(θ, their own rate); it is moved into the interval.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.scoring.intervals import (
    LAWS,
    LEVEL,
    Estimate,
    Measured,
    checked,
    estimate,
    normal_quantile,
    over_runs,
    sizes_of,
    student,
    take_apart,
)

REACH = 9.0
"""Standard errors of the smallest group within which the estimate is sought."""
NEGLIGIBLE = 30.0
"""A group counts in the estimate only if the logarithm of its chance to be the lowest is above minus this."""


class Lowest(NamedTuple):
    """The interval ends of each run, and the corrected estimate between them."""

    low: Floats
    middle: Floats
    high: Floats


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

    def measured(
        self, metric: str, groups: Sequence[str], sizes: Ints, *, of: int = 0, compared: bool = False
    ) -> Measured:
        """The metric of these groups' worst, see `Measured`."""
        return Measured(metric, groups, sizes, self.estimate, worst=self, of=of, compared=compared)

    @property
    def items(self) -> Floats:
        """Runs × items: contributions to each run's own worst; nothing where it has no interval."""
        return np.zeros((0, 0)) if self.contributions is None else self.contributions()

    @cached_property
    def unsure(self) -> Floats:
        """Methods: the variance of the interval beyond that of `items`, which comes from the bias of the minimum."""
        if self.contributions is None or self.level is None:
            return np.full(len(self.code), np.nan)
        half = (self.estimate.below + self.estimate.above) / 2 / student(np.inf, self.level)
        return np.asarray(np.maximum(half**2 - take_apart(self.items, self.owner).items, 0)[:, 0])


def worst_by(
    law: str, values: Floats, start: Ints, owner: Sequence[int], level: float | None, *, lower: bool
) -> Worst:
    """The worst group of contributions, runs × items, that lie group by group, under the law of the metric.

    It is the highest if `lower` is better, else the lowest; each law computes one of the two and mirrors the other.
    """
    if law == "student":
        return worst_loss(values, start, owner, level) if lower else mirrored(
            worst_loss(-values, start, owner, level), about=0.0)
    if lower:
        return mirrored(worst_of(law, 1 - values, start, owner, level), about=1.0)
    return worst_of(law, values, start, owner, level)


def mirrored(worst: Worst, about: float) -> Worst:
    """The worst group of `about` minus the contributions that `worst` was made of."""
    old, items = worst.estimate, worst.contributions
    estimate = Estimate(about - old.runs, about - old.value, about - old.centre, old.above, old.below, old.noise,
                        about - old.most, about - old.least)
    return replace(worst, estimate=estimate, contributions=items and (lambda: about - items()))


def worst_share(
    hits: Bools, start: Ints, owner: Sequence[int], level: float | None, rows: Ints | None = None
) -> Worst:
    """The lowest accuracy over groups: the mean over runs of each run's lowest, corrected as in `lowest`.

    Items lie group by group; or `rows` lists them group by group, an item once for every group that it is in. Groups
    that overlap are not independent, and the estimate is then not corrected.
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
    """The highest mean loss over groups, corrected for the upward bias of a maximum as in `lowest_mean`.

    No interval where a loss is infinite or a group has a single item.
    """
    size = sizes_of(values.shape[1], start)
    mean = np.add.reduceat(values, start, axis=1) / size
    ends = None
    if level and size.min() > 1 and np.isfinite(mean).all():
        squares = (values - np.repeat(mean, size, axis=1)) ** 2
        error = np.sqrt(np.add.reduceat(squares, start, axis=1) / (size - 1) / size)
        below = lowest_mean(-mean, error, level, freedom=size - 1)
        ends = Lowest(-below.high, -below.middle, -below.low)
    worst = worst_estimate(values, size, -mean, owner, level, ends)
    estimate = worst.estimate
    return replace(worst, estimate=estimate._replace(runs=-estimate.runs, value=-estimate.value, most=np.inf))


def worst_of(law: str, values: Floats, start: Ints, owner: Sequence[int], level: float | None) -> Worst:
    """The lowest value over groups, corrected for the downward bias of a minimum as in `lowest_mean`.

    A group's standard error is half its interval over z: on Fisher's scale for r. No interval where a group has none.
    """
    size = sizes_of(values.shape[1], start)
    mean = np.add.reduceat(values, start, axis=1) / size
    ends = None
    if level:
        each = estimate(law, values, range(len(values)), level, start)
        forward, back = LAWS[law].scale
        with np.errstate(divide="ignore", invalid="ignore"):
            width = forward(each.value + each.above) - forward(each.value - each.below)
        if np.isfinite(width).all():
            limits = lowest_mean(forward(each.value), width / 2 / normal_quantile(level), level)
            ends = Lowest(*(np.asarray(back(end)) for end in limits))
    worst = worst_estimate(values, size, mean, owner, level, ends)
    return replace(worst, estimate=worst.estimate._replace(least=LAWS[law].least))


def worst_estimate(
    values: Bools | Floats, size: Ints, mean: Floats, owner: Sequence[int], level: float | None, ends: Lowest | None,
    members: Sequence[Ints] = (),
) -> Worst:
    """Means over runs of each run's own lowest of `mean`, runs × groups; `ends` are those of each run.

    Items lie group by group, or `members` has the items of each group.

    Runs share their items: if all runs of a method err alike, their mean is known no better than one run; if they err
    independently, much better. A half-width is that of one run times √(variance of the mean / mean variance).
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


# The law of the lowest

def lowest(right: Ints, size: Ints, level: float = LEVEL, *, overlap: bool = False) -> Lowest:
    """The lowest true rate of groups in which `right[r, g]` of `size[g]` items are right, for each run r.

    Groups that `overlap` share items; the estimate is then the plain minimum. One group has Clopper's and Pearson's
    interval.
    """
    error = (1 - checked(level)) / 2
    low = _limit(right, size, error).min(axis=1)
    if overlap:
        return Lowest(low, (right / size).min(axis=1), 1 - _limit(size - right, size, error / len(size)).max(axis=1))
    high = _highest(_limit(right, size, 0.5), level, lambda runs, each: 1 - _limit(size - right[runs], size, each))
    return Lowest(low, np.clip(_middle(right, size), low, high), high)


def lowest_mean(
    mean: Floats, error: Floats, level: float = LEVEL, *, freedom: Floats | Ints | float = np.inf
) -> Lowest:
    """The same for means with standard errors, runs × groups, on so many degrees of freedom: the lowest true mean.

    Of losses, the highest is minus the lowest of minus the means.
    """
    from scipy.special import log_ndtr, stdtrit

    error = np.maximum(error, 1e-9 * (1 + np.abs(mean)))
    low = (mean + stdtrit(freedom, (1 - checked(level)) / 2) * error).min(axis=1)
    high = _highest(mean, level, lambda runs, each: mean[runs] - stdtrit(freedom, each) * error[runs])
    seen, worst = mean.min(axis=1), mean.argmin(axis=1)
    others = np.where(np.arange(mean.shape[1]) == worst[:, None], -np.inf, mean)

    def above(theta: Floats) -> Floats:
        standard = (np.maximum(others, theta[:, None]) - seen[:, None]) / error
        return np.asarray(np.exp(log_ndtr(standard).sum(axis=1)))

    reach = REACH * error.max(axis=1)
    middle = _invert(above, seen - reach, seen + reach, np.zeros(len(seen), np.bool_))
    return Lowest(low, np.clip(middle, low, high), high)


def at_lowest(values: Bools | Floats, group: Ints, worst: Ints) -> Floats:
    """Contributions of items to each run's mean in its group `worst[r]`: their mean is that mean, to first order.

    c[r, i] = mean + (n / n_g) (values[r, i] − mean) for the items of group g, and the mean for all others.
    """
    inside = group == worst[:, None]
    n_group = inside.sum(axis=1, keepdims=True)
    mean = (values * inside).sum(axis=1, keepdims=True) / n_group
    return np.asarray(mean + inside * (values - mean) * (values.shape[1] / n_group))


def _highest(enters: Floats, level: float, upper: Callable[[Ints, Floats], Floats]) -> Floats:
    """The largest t that no group in at t refuses; group g is in where `enters[r, g]` < t.

    `upper(runs, each)` has the limits of some runs' groups, each wrong with probability `each`. What all groups
    together allow bounds t; at that bound fewer groups are in, which allow less, and so on: the bounds fall, and never
    below the largest t. The group that sets a bound stays in.
    """
    high, runs = np.empty(len(enters)), np.arange(len(enters))
    inside = np.ones(enters.shape, np.bool_)
    while runs.size:
        each = -np.expm1(np.log(level) / inside.sum(axis=1)) / 2
        high[runs] = np.where(inside, upper(runs, each[:, None]), np.inf).min(axis=1)
        fewer = inside & (enters[runs] < high[runs, None])
        again = (fewer != inside).any(axis=1)
        runs, inside = runs[again], fewer[again]
    return high


def _limit(right: Ints, size: Ints, error: Floats | float) -> Floats:
    """Clopper's and Pearson's lower limit p of `right` of `size` items: P(X ≥ right | p) = error.

    Solved once for each pair of counts and error: of many runs on the same groups most are alike.
    """
    from scipy.special import betaincinv

    x, n, wrong = np.broadcast_arrays(right, size, error)
    errors, which = np.unique(wrong, return_inverse=True)
    base = int(n.max(initial=0)) + 1
    codes, inverse = np.unique((which.reshape(x.shape) * base + n) * base + x, return_inverse=True)
    hits, items, of = codes % base, codes // base % base, errors[codes // base**2]
    limit = np.where(hits > 0, betaincinv(np.maximum(hits, 1), items - hits + 1.0, of), 0.0)
    return np.asarray(limit[inverse.reshape(x.shape)])


def _middle(right: Ints, size: Ints) -> Floats:
    """θ with S(θ) = ½."""
    from scipy.special import betainc, expit, xlog1py, xlogy

    rate = right / size
    seen, worst = rate.min(axis=1), rate.argmin(axis=1)
    forced = np.arange(len(size)) == worst[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # Chernoff: P(X / n ≤ m) ≤ exp(−n KL(m, p)) for m < p
        apart = xlogy(seen, seen)[:, None] + xlogy(1 - seen, 1 - seen)[:, None] - (
            xlogy(seen[:, None], rate) + xlog1py(1 - seen[:, None], -rate))
    run, group = np.nonzero(forced | (rate <= seen[:, None]) | ~(size * apart > NEGLIGIBLE))
    own, n, m = rate[run, group], size[group], seen[run]
    own[forced[run, group]] = 0.0
    above = np.floor(m * n + 1e-9)  # X > above: better than the lowest seen
    equal = np.abs(m * n - above) < 1e-6  # the group can be exactly as low
    log_ways = _log_ways(n, above)

    def tail(logit: Floats) -> Floats:
        p = np.maximum(own, expit(logit)[run])
        better = np.where(above < n, betainc(above + 1, np.maximum(n - above, 1), p), 0.0)
        same = np.where(equal, np.exp(log_ways + xlogy(above, p) + xlog1py(n - above, -p)), 0.0)
        with np.errstate(divide="ignore"):
            strict = np.bincount(run, np.log(better), len(seen))
            loose = np.bincount(run, np.log(np.minimum(better + same, 1.0)), len(seen))
        return np.asarray((np.exp(strict) + np.exp(loose)) / 2)

    start = (seen * size[worst] + 1) / (size[worst] + 2)
    centre = np.log(start / (1 - start))
    reach = REACH / np.sqrt(size.min() * start * (1 - start))
    # S is ½ at least where nothing is right, and ½ at most where everything is.
    final = (seen == 0) | (seen == 1)
    return np.asarray(np.where(final, seen, expit(_invert(tail, centre - reach, centre + reach, final))))


def _log_ways(n: Ints, k: Floats) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _invert(tail: Callable[[Floats], Floats], low: Floats, high: Floats, known: Bools) -> Floats:
    """The point, for each run, where the growing `tail` reaches ½ between low and high, REACH standard errors off.

    False position on the normal scale, where a tail is nearly a line, with the Illinois rule against a stuck end. Runs
    that are `known` are not solved; a solved run stays as it is, so that it does not depend on the others.
    """
    from scipy.special import ndtri

    a, b = low, high
    f, g = np.full(len(a), -REACH), np.full(len(b), REACH)  # as a line would have it
    x, before, solved = a, np.zeros(len(a)), known
    for _ in range(50):
        x = np.where(solved, x, b - g * (b - a) / (g - f))
        h = np.asarray(ndtri(np.clip(tail(x), 1e-300, 1 - 1e-16)))
        solved = solved | (np.abs(h) < 1e-4)
        if solved.all():
            break
        side = np.sign(h)
        stuck = np.where(side == before, 0.5, 1.0)  # the other end has not moved twice in a row
        f, g = np.where(side < 0, h, f * stuck), np.where(side < 0, g * stuck, h)
        a, b, before = np.where(side < 0, x, a), np.where(side < 0, b, x), side
    return x
