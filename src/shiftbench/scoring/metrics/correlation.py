"""Pearson's r and squared error, group by group; the metrics of PovertyMap.

    r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)

NaN where a group has fewer than two items or one of the two does not vary.
"""

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints

Reals = npt.NDArray[np.floating]


def pearson(target: Reals, predicted: Reals) -> float:
    """r of all items. Higher is better."""
    return float(pearson_by_group(target, predicted, np.zeros(len(target), np.int64), 1)[0])


def pearson_by_group(target: Reals, predicted: Reals, group: Ints, n_groups: int) -> Floats:
    """r within each group 0..n_groups − 1, all in one pass.

    >>> pearson_by_group(np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 7.0]), np.array([0, 0, 2]), 3).round(9)
    array([-1., nan, nan])
    """
    x, y = _centred(target, group, n_groups), _centred(predicted, group, n_groups)
    spread = np.sqrt(np.bincount(group, x * x, n_groups)) * np.sqrt(np.bincount(group, y * y, n_groups))
    r = np.full(n_groups, np.nan)
    np.divide(np.bincount(group, x * y, n_groups), spread, out=r, where=spread != 0)
    return np.asarray(np.clip(r, -1.0, 1.0))


def squared_errors(target: Reals, predicted: Reals) -> Floats:
    """(target − predicted)² of every item, the mean over its outputs where it has several. Lower is better."""
    errors = np.asarray((target - predicted) ** 2)
    return np.asarray(errors.mean(axis=tuple(range(1, errors.ndim))), np.float64)


def _centred(values: Reals, group: Ints, n_groups: int) -> Floats:
    """Less the group's mean, taken from the group's first value on: what does not vary is then exactly 0."""
    first = np.zeros(n_groups)
    first[group[::-1]] = values[::-1]
    moved = np.asarray(values, np.float64) - first[group]
    count = np.maximum(np.bincount(group, minlength=n_groups), 1)
    return np.asarray(moved - (np.bincount(group, moved, n_groups) / count)[group])
