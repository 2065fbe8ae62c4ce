"""The bootstrap: the interval of a statistic that has no formula. A replicate draws n of n items with replacement."""

from collections.abc import Callable

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.rng import child
from shiftbench.scoring.intervals.means import LEVEL, checked

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
