"""Intervals for answers that are not independent: one annotator's are alike, and so are those to one pair."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.stats import LEVEL, student, wilson
from shiftbench.stats.proportion import normal_quantile


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
