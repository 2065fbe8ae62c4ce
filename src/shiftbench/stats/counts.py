"""Whether two shares of counts differ beyond chance."""

import numpy as np

from shiftbench.arrays import Floats, Ints


def fisher(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test: the p-value of `first` of `of_first` items against `second` of `of_second`, two-sided.

    Given how many items there are in all, and with the tag, X of the first ones have it by the hypergeometric law; p is
    the probability of all X that are no likelier than the one seen.

    >>> round(fisher(0, 30, 3, 30), 3), round(fisher(2, 200, 40, 200), 12)
    (0.237, 0.0)
    """
    from scipy.special import gammaln

    def log_ways(n: int, k: Ints) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    tagged = first + second
    x = np.arange(max(0, tagged - of_second), min(tagged, of_first) + 1)
    log = log_ways(of_first, x) + log_ways(of_second, tagged - x)
    chance = np.exp(log - log.max())
    return float(chance[chance <= chance[first - x[0]] * (1 + 1e-9)].sum() / chance.sum())
