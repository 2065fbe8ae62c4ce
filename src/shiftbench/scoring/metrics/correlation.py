"""Pearson's r and squared error, group by group; the metrics of PovertyMap.

    r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)

NaN where a group has fewer than two items or one of the two does not vary.
"""

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.scoring.metrics.groups import group_means

Reals = npt.NDArray[np.floating]


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


def r_items(truth: Reals, predicted: Reals, group: Ints) -> Floats:
    """What each item contributes to r of its group; the mean over the group is r. Outputs are averaged.

        c_i = r + u v − r (u² + v²) / 2,    u, v the two numbers, less their means and over their standard deviations

    An item without a label contributes r to that output; those that have one n / n_labelled as much.
    """
    total = np.zeros(len(truth))
    for column in range(truth.shape[1]):
        has = ~np.isnan(truth[:, column])
        total += _r_items(truth[:, column], predicted[:, column], group, has)
    return np.asarray(total / truth.shape[1])


def _r_items(truth: Reals, predicted: Reals, group: Ints, has: Bools) -> Floats:
    many = int(group.max(initial=-1)) + 1
    known = group[has]
    r = pearson_by_group(truth[has], predicted[has], known, many)
    u, v = (_standard(values[has], known, many) for values in (truth, predicted))
    items = r[group]
    share = np.bincount(group, minlength=many) / np.maximum(np.bincount(known, minlength=many), 1)
    items[has] += share[known] * (u * v - r[known] * (u * u + v * v) / 2)
    return items


def _standard(values: Reals, group: Ints, many: int) -> Floats:
    apart = values - group_means(np.asarray(values, np.float64), group, many).value[group]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(apart / np.sqrt(group_means(apart**2, group, many).value)[group])


def _centred(values: Reals, group: Ints, n_groups: int) -> Floats:
    """Less the group's mean, taken from the group's first value on: what does not vary is then exactly 0."""
    first = np.zeros(n_groups)
    first[group[::-1]] = values[::-1]
    moved = np.asarray(values, np.float64) - first[group]
    count = np.maximum(np.bincount(group, minlength=n_groups), 1)
    return np.asarray(moved - (np.bincount(group, moved, n_groups) / count)[group])
