"""The lowest of several groups: its interval, and an estimate without the downward bias of a minimum.

Of groups that are alike the lowest is low by chance: with 12 groups of 50 items, all at 0.5, the minimum is 0.39 on
average. A bootstrap draws the minimum of what is already noisy and lies lower still: its 95 % interval holds the truth
in 1 % of such cases. Here the law of the minimum itself is inverted. Given the true rates p_g,

    S = P(min_g X_g / n_g > m) + ½ P(min_g X_g / n_g = m),    X_g ~ Binomial(n_g, p_g),

with m the lowest rate seen. Let θ be the true lowest: the group seen lowest gets θ, the others max(θ, their own rate).
θ with S = ½ is the corrected estimate, those with S = (1 ∓ level) / 2 are the ends. For the ends the others' rates are
moved the way that makes the interval wider, by one standard error at the lower end and half a one at the upper
(Wilson's bounds): a rate as seen would be believed too much. The half at equality is the mid-p; without it intervals of
small groups are needlessly wide. How often this holds the truth: python bench/intervals.py
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.stats.proportion import wilson
from shiftbench.stats.replicates import LEVEL, checked

LOWER, UPPER = 0.6826894921370859, 0.3829249225480262
"""Levels of Wilson's bounds for the other groups: one standard error at the lower end, half a one at the upper."""
REACH = 9.0
"""Standard errors of the smallest group within which an end is sought."""
NEGLIGIBLE = 30.0
"""A group counts only if the logarithm of its chance to be the lowest is above minus this."""


class Lowest(NamedTuple):
    """Of each run: the ends, and the corrected estimate between them."""

    low: Floats
    middle: Floats
    high: Floats


def lowest(right: Ints, size: Ints, level: float = LEVEL) -> Lowest:
    """The lowest true rate of groups in which `right[r, g]` of `size[g]` items are right, for each run r.

    Groups have no item in common. With a single group this is close to Wilson's interval.
    """
    from scipy.special import betainc, expit, xlog1py, xlogy

    rate = right / size
    seen = rate.min(axis=1)
    worst = rate.argmin(axis=1)
    others = np.stack([wilson(rate, size, LOWER)[1], rate, wilson(rate, size, UPPER)[0]]).clip(0, 1)
    forced = np.arange(len(size)) == worst[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # Chernoff: P(X / n ≤ m) ≤ exp(−n KL(m, p)) for m < p
        apart = xlogy(seen, seen)[:, None] + xlogy(1 - seen, 1 - seen)[:, None] - (
            xlogy(seen[:, None], others) + xlog1py(1 - seen[:, None], -others))
    matters = forced | (others <= seen[:, None]) | ~(size * apart > NEGLIGIBLE)
    end, run, group = np.nonzero(matters)
    own, n, m = others[end, run, group], size[group], seen[run]
    own[forced[run, group]] = 0.0
    above = np.floor(m * n + 1e-9)  # X > above: better than the lowest seen
    equal = np.abs(m * n - above) < 1e-6  # the group can be exactly as low
    above = above.astype(np.float64)
    log_ways = _log_ways(n, above)

    def tail(logit: Floats) -> Floats:
        p = np.maximum(own, expit(logit)[end, run])
        better = np.where(above < n, betainc(above + 1, np.maximum(n - above, 1), p), 0.0)
        same = np.where(equal, np.exp(log_ways + xlogy(above, p) + xlog1py(n - above, -p)), 0.0)
        place, many = end * len(seen) + run, logit.size
        with np.errstate(divide="ignore"):
            strict = np.bincount(place, np.log(better), many)
            loose = np.bincount(place, np.log(np.minimum(better + same, 1.0)), many)
        return ((np.exp(strict) + np.exp(loose)) / 2).reshape(logit.shape)

    start = (seen * size[worst] + 1) / (size[worst] + 2)
    middle = np.log(start / (1 - start))
    reach = REACH / np.sqrt(size.min() * start * (1 - start))
    # S is ½ at least where nothing is right, and ½ at most where everything is.
    zero, one = np.zeros((3, len(seen)), np.bool_), np.zeros((3, len(seen)), np.bool_)
    zero[:2], one[1:] = seen == 0, seen == 1
    found = expit(_invert(tail, _levels(level), middle - reach, middle + reach, zero | one))
    return Lowest(*np.where(zero, 0.0, np.where(one, 1.0, found)))


def lowest_mean(mean: Floats, error: Floats, level: float = LEVEL) -> Lowest:
    """The same for means with known standard errors, runs × groups, taken as normal: the lowest true mean.

    Of losses, the highest is minus the lowest of minus the means.
    """
    from scipy.special import log_ndtr

    error = np.maximum(error, 1e-9 * (1 + np.abs(mean)))
    seen, worst = mean.min(axis=1), mean.argmin(axis=1)
    others = np.stack([mean + error, mean, mean - error / 2])
    others[:, np.arange(mean.shape[1]) == worst[:, None]] = -np.inf

    def tail(theta: Floats) -> Floats:
        standard = (np.maximum(others, theta[..., None]) - seen[:, None]) / error
        return np.asarray(np.exp(log_ndtr(standard).sum(axis=2)))

    reach = REACH * error.max(axis=1)
    return Lowest(*_invert(tail, _levels(level), seen - reach, seen + reach, np.zeros((3, len(seen)), np.bool_)))


def at_lowest(values: Bools | Floats, group: Ints, worst: Ints) -> Floats:
    """Contributions of items to each run's mean in its group `worst[r]`: their mean is that mean, to first order.

    c[r, i] = mean + (n / n_g) (values[r, i] − mean) for the items of group g, and the mean for all others.
    """
    mine = group == worst[:, None]
    n_group = mine.sum(axis=1, keepdims=True)
    mean = (values * mine).sum(axis=1, keepdims=True) / n_group
    return np.asarray(mean + mine * (values - mean) * (values.shape[1] / n_group))


def _levels(level: float) -> Floats:
    return np.asarray([(1 - checked(level)) / 2, 0.5, (1 + level) / 2])


def _log_ways(n: Ints, k: Floats) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _invert(tail: Callable[[Floats], Floats], levels: Floats, low: Floats, high: Floats, known: Bools) -> Floats:
    """Levels × runs: where the growing `tail` reaches each level between low and high, REACH standard errors off.

    False position on the normal scale, where a tail is nearly a line, with the Illinois rule against a stuck end. What
    is `known` need not be found.
    """
    from scipy.special import ndtri

    wanted = ndtri(levels)[:, None]
    a, b = (np.broadcast_to(x, (len(levels), len(x))) for x in (low, high))
    f, g = -REACH - wanted + 0 * a, REACH - wanted + 0 * b  # as a line would have it
    x, before = a, np.zeros(a.shape)
    for _ in range(50):
        x = b - g * (b - a) / (g - f)
        h = np.asarray(ndtri(np.clip(tail(x), 1e-300, 1 - 1e-16)) - wanted)
        if (known | (np.abs(h) < 1e-4)).all():
            break
        side = np.sign(h)
        stuck = np.where(side == before, 0.5, 1.0)  # the other end has not moved twice in a row
        f, g = np.where(side < 0, h, f * stuck), np.where(side < 0, g * stuck, h)
        a, b, before = np.where(side < 0, x, a), np.where(side < 0, b, x), side
    return x
