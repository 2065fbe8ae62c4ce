"""Any metric over any groups, and the worst of them."""

import math

import numpy as np

from shiftbench.arrays import Floats, Ints
from shiftbench.errors import ShiftBenchError
from shiftbench.metrics.classification import Metric, Table, accuracy, error, macro_f1, macro_recall
from shiftbench.metrics.tally import tally


def by_group(metric: Metric, label: Ints, scores: Table, group: Ints, n_groups: int) -> Floats:
    """The metric over the items of each group 0..n_groups − 1; NaN where a group is empty.

    What follows from counts is counted once for all groups; any other metric sees each group's items in turn.
    """
    if metric in (accuracy, error, macro_f1, macro_recall):
        counts = tally(label, scores.argmax(axis=1), group, n_groups, n_classes=scores.shape[1])
        if metric is macro_f1:
            return counts.macro_f1
        if metric is macro_recall:
            return counts.macro_recall
        return counts.accuracy if metric is accuracy else 1.0 - counts.accuracy
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(n_groups + 1))
    values = np.full(n_groups, math.nan)
    for code in np.flatnonzero(np.diff(start)):
        rows = order[start[code]:start[code + 1]]
        values[code] = metric(label[rows], scores[rows])
    return values


def worst(values: Floats, *, lower_is_better: bool = False) -> float:
    """The minimum over the groups that have a value, or the maximum of an error or a loss."""
    if np.isnan(values).all():
        raise ShiftBenchError(f"None of the {len(values)} groups has a value, so none is the worst. "
                              "Score a split that has items.")
    return float(np.nanmax(values) if lower_is_better else np.nanmin(values))
