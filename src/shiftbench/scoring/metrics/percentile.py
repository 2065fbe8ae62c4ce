"""A low percentile over groups instead of the worst of them; the metric of Amazon (users, the 10th).

With G groups the minimum falls as G grows, whatever the model; a percentile does not. Every group weighs the same,
be it of one item or of a thousand; between two groups the value is interpolated linearly, as numpy does.
"""

import math

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.scoring.metrics.groups import group_means


def percentile_over_groups(values: Floats, q: float = 10.0) -> float:
    """The q-th percentile of the groups that have a value; NaN where none has.

    >>> percentile_over_groups(np.array([0.0, math.nan, 0.5, 1.0]))
    0.1
    """
    known = values[~np.isnan(values)]
    return float(np.percentile(known, q)) if len(known) else math.nan


def percentile_accuracy(hits: Bools, group: Ints, n_groups: int, q: float = 10.0) -> float:
    """The q-th percentile over groups of their accuracies. Higher is better."""
    return percentile_over_groups(group_means(hits.astype(np.float64), group, n_groups).value, q)
