"""Scores over one grouping: accuracy of every group, of the worst, the mean over groups and their tenth percentile.

With groups g of n_g items, a_g the accuracy of each and G groups that have items:

    accuracy of g                a_g, Wilson's interval
    worst_group_accuracy         min_g a_g
    mean_group_accuracy          Σ_g a_g / G: every group weighs the same (GlobalWheat's sessions)
    tenth_percentile_accuracy    of the a_g, linear between neighbours (Amazon's users)

The interval of the worst is `estimates.worst_share`'s, that of the mean is about other items of the same groups. That
of the percentile is about other groups like these, each of as many items: the order statistics between which the true
one lies, B ~ Binomial(G, 0.1), whatever the law of the a_g. Of fewer than 36 groups none bounds it from below at 95 %,
and the lower end is 0.
"""

from collections.abc import Sequence

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.data.groupings import Grouping, titled
from shiftbench.data.scores import ALL
from shiftbench.scoring.estimates import Estimate, bare, share, worst_share
from shiftbench.scoring.intervals import over_runs
from shiftbench.scoring.measured import Measured, corrected
from shiftbench.scoring.metrics.groups import mean_over_groups

WORST, MEAN_OVER, TENTH = "worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy"
Q = 0.1
COMPARED = 1000
"""Groups up to which methods are compared in each; of more nobody reads them, and none would be told apart."""


def by_grouping(hits: Bools, part: Grouping, owner: Sequence[int], level: float | None) -> list[Measured]:
    """Every score over the grouping of a split's items; `hits` is runs × items, `owner[r]` the method of run r.

    Nothing where no item is in a group. Where groups overlap there is no corrected worst group, see `worst_share`.
    """
    if not part.names:
        return []
    size, times, n = part.size, part.times, hits.shape[1]
    disjoint = int(times.max()) == 1
    each = share(hits[:, part.rows], owner, level, part.start)
    worst = worst_share(hits, part.start, owner, level, part.rows)
    items = contributions(hits, part, each.runs, times)
    inside = np.asarray([items.shape[1]])
    many = len(part.names) > COMPARED
    measured = [Measured("accuracy", part.names, size, each, None if many else hits[:, part.rows],
                         start=None if many else part.start),
                Measured(WORST, part.names, size, worst.estimate, worst.items, worst, of=n)]
    if disjoint:
        measured.append(corrected(measured[-1]))
    measured += [Measured(MEAN_OVER, [ALL], inside, share(items, owner, level), items, of=n),
                 Measured(TENTH, [ALL], inside, percentile(each.runs, owner, level))]
    return [one._replace(metric=titled(one.metric, part.said)) for one in measured]


def contributions(hits: Bools, part: Grouping, accuracy: Floats, times: Ints) -> Floats:
    """What each item that is in a group adds to the mean over groups: its mean is that mean, its spread its error.

        c_i = A + N / G Σ_{g ∋ i} (h_i − a_g) / n_g √(n_g / (n_g − 1)),    A = Σ_g a_g / G, N items in groups.
    """
    inside = np.flatnonzero(times)
    place = np.cumsum(times > 0)[part.rows] - 1
    size = part.size
    weight = np.repeat(np.sqrt(size / np.maximum(size - 1, 1)) / size, size)
    spread = (hits[:, part.rows] - np.repeat(accuracy, size, axis=1)) * weight
    moved = np.zeros((len(hits), len(inside)))
    if len(inside) == len(place):
        moved[:, place] = spread
    else:
        for run, values in enumerate(spread):
            moved[run] = np.bincount(place, values, len(inside))
    mean = np.asarray([mean_over_groups(values) for values in accuracy])
    return np.asarray(mean[:, None] + moved * (len(inside) / len(size)))


def percentile(accuracy: Floats, owner: Sequence[int], level: float | None) -> Estimate:
    """The tenth percentile over groups of each run, runs × groups in, and the order statistics around it."""
    many = accuracy.shape[1]
    ordered = np.sort(accuracy, axis=1)
    runs = np.percentile(ordered, 100 * Q, axis=1)[:, None]
    if level is None:
        return bare(runs, owner)
    from scipy.special import bdtr

    below = bdtr(np.arange(many + 1), many, Q)  # P(B ≤ k)
    under = int((below <= (1 - level) / 2).sum()) - 1
    over = int((below < (1 + level) / 2).sum())
    low = ordered[:, under:under + 1] if under >= 0 else np.zeros_like(runs)
    high = ordered[:, over:over + 1] if over < many else np.ones_like(runs)
    value, least, most = (over_runs(end, owner) for end in (runs, low, high))
    return Estimate(runs, value, value, np.maximum(value - least, 0), np.maximum(most - value, 0),
                    np.zeros_like(value))
