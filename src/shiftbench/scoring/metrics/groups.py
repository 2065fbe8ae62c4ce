"""Values of groups, means within them, and the mean and a percentile over them."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints


class Grouped(NamedTuple):
    """A value per group and the items it is made of: NaN and 0 where a group is empty."""

    value: Floats
    size: Ints


def group_means(values: Floats, group: Ints, n_groups: int) -> Grouped:
    """Mean of per-item values in each group 0..n_groups − 1.

    >>> group_means(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 2]), 3)
    Grouped(value=array([0.5, nan, 1. ]), size=array([2, 0, 1]))
    """
    size = np.bincount(group, minlength=n_groups)
    mean = np.full(n_groups, math.nan)
    np.divide(np.bincount(group, values, n_groups), size, out=mean, where=size > 0)
    return Grouped(mean, size)


def mean_over_groups(values: Floats) -> float:
    """Mean over the groups that have a value, each of the same weight; NaN where none has.

    >>> mean_over_groups(np.array([0.5, math.nan, 1.0]))
    0.75
    """
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def percentile_over_groups(values: Floats, q: float = 10.0) -> float:
    """The q-th percentile of the groups that have a value, instead of the worst; NaN where none has (Amazon's users).

    With G groups the minimum falls as G grows, whatever the model; a percentile does not. Every group weighs the same,
    be it of one item or of a thousand; between two groups the value is interpolated linearly, as numpy does.

    >>> percentile_over_groups(np.array([0.0, math.nan, 0.5, 1.0]))
    0.1
    """
    known = values[~np.isnan(values)]
    return float(np.percentile(known, q)) if len(known) else math.nan
