"""The interval of a share, honest where everything is right or everything is wrong."""

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.intervals.bootstraps import LEVEL, checked


def wilson(value: Floats | float, n: Floats | Ints | float, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Wilson's interval: every p that a test with its own variance does not refuse, |value − p| ≤ z √(p (1 − p) / n).

    A percentile bootstrap of a group that is all right is [1, 1], whatever its size; this one is [n / (n + z²), 1]. An
    `n` that is no whole number is the size of a plain sample with the same variance, see `effective`.

    >>> [round(float(end), 3) for end in wilson(1.0, 20)]
    [0.839, 1.0]
    """
    z = normal_quantile(level)
    share, size = np.asarray(value, np.float64), np.asarray(n, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
        low, high = centre - half, centre + half
    low, high = np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)  # and not 1e-17
    return np.where(size > 0, low, np.nan), np.where(size > 0, high, np.nan)


def effective(value: Floats, variance: Floats, n: Ints | int, runs: Ints | int = 1) -> Floats:
    """The size of a plain sample in which a share has this variance: value (1 − value) / variance.

    A mean over `runs` that agree on every item is worth n items, one over runs that err independently `runs` × n; more
    is not believed. Where everything is right there is no variance to see, and it is n.
    """
    spread = value * (1 - value)
    size = np.broadcast_to(np.asarray(n, np.float64), spread.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, np.minimum(spread / variance, size * runs), size)


def normal_quantile(level: float) -> float:
    """z with P(|Z| ≤ z) = level for a standard normal Z."""
    from scipy.special import ndtri

    return float(ndtri((1 + checked(level)) / 2))
