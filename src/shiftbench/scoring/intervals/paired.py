"""Which methods differ, judged on the same items and over their seeds, and corrected for the number of pairs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.scoring.intervals.means import LEVEL, checked, means, over_runs, seeds


class Compared(NamedTuple):
    """Pairs of methods; `low` and `high` hold for all pairs at once, and are above 0 just where `adjusted` is small."""

    first: Ints
    second: Ints
    difference: Floats  # first − second
    low: Floats
    high: Floats
    p: Floats  # of each pair alone
    adjusted: Floats  # p times the number of pairs and looks, 1 at most: Bonferroni's; Holm's is never larger


def compare(
    values: npt.NDArray[np.generic],
    method: Sequence[int] | Ints,
    *,
    against: int | None = None,
    centre: Floats | None = None,
    size: Floats | None = None,
    unsure: Floats | None = None,
    level: float = LEVEL,
    looks: int = 1,
) -> Compared:
    """Test every pair of methods on the items they share; `values[r, i]` is the contribution of item i to run r.

        t = δ / √V,    V = (Var_i(d_i) + δ²) / n + V_seeds(first) + V_seeds(second)

    d_i is the difference of the two methods' means over their runs at item i, δ its mean. With δ² in it, the variance
    is that under equal methods: two single runs give McNemar's z = (b − c) / √(b + c).
    Of single runs that are right or wrong (`values` of bools) p is McNemar's exact one,
    and an interval reaches 0 where that does not refuse equality. V_seeds is `means.seeds`', and the degrees of freedom
    are Satterthwaite's.

    `against` leaves only the pairs of that method. The correction is for all pairs all the same, since the method to
    compare against is as a rule the best, chosen by the same numbers; and for the number of `looks`, such as the groups
    that are compared side by side. Where means are biased, `centre` replaces them,
    `unsure` is the variance of each correction, and `size` the number of items behind each.
    """
    from scipy.special import stdtr, stdtrit

    parts = means(values, method)
    n_methods, n = len(parts.value), values.shape[1]
    if against is None:
        first, second = np.triu_indices(n_methods, 1)
    else:
        second = np.flatnonzero(np.arange(n_methods) != against)
        first = np.full(len(second), against)
    by_item = over_runs(np.asarray(values, np.float64), method) - parts.value
    squares = (by_item**2).sum(axis=1)
    spread = squares[first] + squares[second] - 2 * _products(by_item, first, second, against)
    spread[spread < 1e-12 * (squares[first] + squares[second])] = 0.0  # equal, up to rounding
    value = parts.value[:, 0] if centre is None else centre
    difference = value[first] - value[second]
    fewest = np.full(len(first), n) if size is None else np.minimum(size[first], size[second])
    between = seeds(parts.runs, parts.noise, method)
    seed = between.variance[first, 0] + between.variance[second, 0]
    variance = spread / n**2 + difference**2 / fewest + seed
    if unsure is not None:
        variance = variance + unsure[first] + unsure[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(seed > 0, np.minimum(between.freedom * (variance / seed) ** 2, 1e9), 1e9)
        p = np.where(variance > 0, 2 * stdtr(freedom, -np.abs(difference) / np.sqrt(variance)), 1.0)
    pairs = looks * n_methods * (n_methods - 1) // 2
    half = stdtrit(freedom, 1 - (1 - checked(level)) / 2 / max(1, pairs)) * np.sqrt(variance)
    low, high = difference - half, difference + half
    if values.dtype == np.bool_ and len(values) == n_methods:
        p = np.asarray([mcnemar(values[one], values[two]) for one, two in zip(first, second, strict=True)])
        same = p * pairs > 1 - level
        low, high = np.where(same, np.minimum(low, 0.0), low), np.where(same, np.maximum(high, 0.0), high)
    return Compared(first, second, difference, low, high, p, np.minimum(1.0, p * pairs))


def mcnemar(first: Bools, second: Bools) -> float:
    """McNemar's exact test of two single runs: the p-value of b and c items that only one of them is right about.

        p = 2 P(X ≤ min(b, c)),    X ~ Binomial(b + c, ½)

    The answer is about these two runs, not about their methods.
    """
    from scipy.special import bdtr

    b, c = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0


def _products(by_item: Floats, first: Ints, second: Ints, against: int | None) -> Floats:
    if against is not None:
        return np.asarray(by_item[second] @ by_item[against])
    return np.asarray((by_item @ by_item.T)[first, second])
