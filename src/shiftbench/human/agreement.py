"""How far annotators agree with each other, independent of the truth."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.rng import child
from shiftbench.scoring.intervals import LEVEL, REPLICATES, interval, student, wilson
from shiftbench.scoring.intervals.means import normal_quantile


class Agreement(NamedTuple):
    """Raw agreement and kappa with their intervals, over `n` images that two annotators or more have sorted."""

    n: int
    raw: tuple[float, float, float]
    kappa: tuple[float, float, float]


def agreement(
    counts: Ints, task: Ints, *, level: float = LEVEL, replicates: int = REPLICATES, seed: int = 0
) -> Agreement:
    """Agreement over the images of several tasks; `counts[i, j]` annotators put image i of `task[i]` into group j.

        P_i = Σ_j n_ij (n_ij − 1) / (n_i (n_i − 1)),    p_j = Σ_i n_ij / Σ_i n_i
        κ = (mean P_i − mean Σ_j p_j²) / (1 − mean Σ_j p_j²)

    The two groups of one task have nothing to do with those of another, so chance (Σ_j p_j²) is computed within each
    task and averaged over images: with one task this is the kappa of Fleiss (1971), and it does not matter which group
    comes first. Images need not all have the same number of annotators; those with fewer than two are left out. NaN
    where only one group was ever chosen: then chance alone agrees. Intervals are percentiles of a bootstrap over tasks,
    NaN with one task.
    """
    several = counts.sum(axis=1) > 1
    counts, task = counts[several], np.unique(task[several], return_inverse=True)[1]
    if not len(counts):
        return Agreement(0, (math.nan,) * 3, (math.nan,) * 3)
    n = np.bincount(task).astype(np.float64)
    raw = np.bincount(task, _agreeing(counts)).astype(np.float64)
    chosen = np.stack([np.bincount(task, counts[:, side]) for side in range(counts.shape[1])], axis=1)
    chance = n * ((chosen / chosen.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    values = _both(np.ones((1, len(n))), n, raw, chance)[0]
    times = child(seed, "annotation", "agreement").multinomial(
        len(n), np.full(len(n), 1 / len(n)), size=replicates if len(n) > 1 else 0)
    low, high = interval(_both(times.astype(np.float64), n, raw, chance), level)
    first, second = ((float(values[one]), float(low[one]), float(high[one])) for one in (0, 1))
    return Agreement(len(counts), first, second)


def _both(weight: Floats, n: Floats, raw: Floats, chance: Floats) -> Floats:
    """Raw agreement and kappa for each row of weights over tasks."""
    with np.errstate(invalid="ignore", divide="ignore"):
        observed, expected = (weight @ raw) / (weight @ n), (weight @ chance) / (weight @ n)
        return np.stack([observed, np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)], axis=1)


def _agreeing(counts: Ints) -> Floats:
    """The share of an item's annotator pairs that agree, for every item."""
    each = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (each * (each - 1)))


# Intervals for answers that are not independent: one annotator's are alike, and so are those to one pair.

class Spread(NamedTuple):
    """The variance of an estimate whose answers are clustered, and the degrees of freedom it was estimated with."""

    variance: float
    freedom: float


def two_way(influence: Floats, annotator: Ints, pair: Ints) -> Spread:
    """Variance of Σ influence with answers clustered by annotator and by pair (Cameron, Gelbach and Miller, 2011).

        V = V_annotator + V_pair − V_both,    V_C = G / (G − 1) Σ_g (Σ_{i in g} influence_i)²,   G clusters of kind C

    It counts for no less than either kind alone. With one annotator V is V_pair, and the interval is about other pairs
    for this annotator; with one pair the other way round. Degrees of freedom are Satterthwaite's.
    """
    parts = [_one_way(influence, annotator), _one_way(influence, pair)]
    both = _one_way(influence, annotator * (int(pair.max(initial=0)) + 1) + pair)
    known = [part for part in parts if part.freedom > 0]
    if not known:
        return Spread(0.0, 0.0)
    total = sum(part.variance for part in known) - (both.variance if len(known) > 1 else 0.0)
    variance = max(total, *(part.variance for part in known))
    weight = sum(part.variance**2 / part.freedom for part in known)
    freedom = sum(part.variance for part in known) ** 2 / weight if weight > 0 else max(part.freedom for part in known)
    return Spread(variance, freedom)


def clustered(right: Bools, annotator: Ints, pair: Ints, question: Ints, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval at the number of independent answers that would vary as much as these do.

    With few clusters the normal quantile is too short: the number is lowered by (z / t)². It is never above the number
    of answers; where all are right, or there is one cluster, it is the number of different questions.
    """
    n, value = len(right), float(right.mean()) if len(right) else math.nan
    spread = two_way((right - value) / max(n, 1), annotator, pair)
    size = float(len(np.unique(question)))
    if spread.variance > 0:
        plain = min(value * (1 - value) / spread.variance, float(n))
        size = plain * (normal_quantile(level) / float(student(spread.freedom, level))) ** 2
    low, high = wilson(value, size, level)
    return float(low), float(high)


def _one_way(influence: Floats, cluster: Ints) -> Spread:
    codes = np.unique(cluster, return_inverse=True)[1]
    groups = int(codes.max(initial=-1)) + 1
    if groups < 2:
        return Spread(0.0, 0.0)
    return Spread(groups / (groups - 1) * float((np.bincount(codes, influence) ** 2).sum()), groups - 1.0)
