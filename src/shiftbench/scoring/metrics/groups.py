"""Any metric over any groups, disjoint or overlapping, and the worst of them."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring.metrics.classification import Metric, Table, accuracy, error, macro_f1, macro_recall
from shiftbench.scoring.metrics.tally import tally


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


def unfold(member: Bools) -> tuple[Ints, Ints]:
    """Overlapping groups as disjoint ones: (rows, group) in which an item stands once for every group it is in.

    `member[i, g]` says whether item i is in group g. Any group-wise metric of label[rows], scores[rows] and group then
    has an item in each of its groups, and an item of no group in none.
    """
    group, rows = np.nonzero(member.T)
    return rows, group


def mean_over_groups(values: Floats) -> float:
    """Mean over the groups that have a value, each of the same weight; NaN where none has.

    >>> mean_over_groups(np.array([0.5, math.nan, 1.0]))
    0.75
    """
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def mean_of_worst(values: Floats, *, lower_is_better: bool = False) -> float:
    """Mean over folds of the worst group of each; `values` is folds × groups, and an empty group is NaN.

    PovertyMap's headline: r over urban and rural places apart, the lower of the two, averaged over five folds.
    """
    return float(np.mean([worst(fold, lower_is_better=lower_is_better) for fold in values]))
