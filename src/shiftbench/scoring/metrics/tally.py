"""Counts per group and class, from which accuracy, recall and F1 of every group follow at once."""

import math
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints


class Tally(NamedTuple):
    """Cell k is a class that occurs in the truth of group `group[k]`; only such cells are kept.

    In it `truth[k]` items have the class, `predicted[k]` are given it, `hits[k]` both; with weights, their sums.
    """

    group: Ints
    truth: Floats
    predicted: Floats
    hits: Floats
    n_groups: int

    @property
    def accuracy(self) -> Floats:
        """Per group, the share of items whose prediction is their label; NaN where a group is empty."""
        return _ratio(self._sum(self.hits), self._sum(self.truth))

    @property
    def macro_recall(self) -> Floats:
        """Per group, the mean of hits / truth over the classes in its truth."""
        return self._mean(self.hits / self.truth)

    @property
    def macro_f1(self) -> Floats:
        """Per group, the mean of F1 = 2 hits / (truth + predicted) over the classes in its truth.

        A class that is predicted but absent from the truth is no term of the mean, as in WILDS; it costs the recall of
        the classes it is mistaken for.
        """
        return self._mean(2 * self.hits / (self.truth + self.predicted))

    def _sum(self, values: Floats) -> Floats:
        return _count(self.group, values, self.n_groups)

    def _mean(self, values: Floats) -> Floats:
        return _ratio(self._sum(values), _count(self.group, None, self.n_groups))


def tally(
    label: Ints,
    predicted: Ints,
    group: Ints | None = None,
    n_groups: int = 1,
    *,
    n_classes: int | None = None,
    weight: Floats | None = None,
) -> Tally:
    """Count truth, predictions and hits per group and class in one pass over the items; without `group`, over all.

    The table groups × classes is dense while it is about as small as the data, and compact where it would not be: never
    more than a few numbers per item, whatever the number of groups and classes.
    """
    classes = n_classes or 1 + int(max(label.max(initial=0), predicted.max(initial=0)))
    base = np.zeros(len(label), np.int64) if group is None else group * classes
    true, given = base + label, base + predicted
    hit = true == given
    size = n_groups * classes
    if size <= 4 * len(label) + 1024:
        truth = _count(true, weight, size)
        cells = np.flatnonzero(truth)
        hits = _count(true[hit], None if weight is None else weight[hit], size)[cells]
        return Tally(cells // classes, truth[cells], _count(given, weight, size)[cells], hits, n_groups)
    cells, true = np.unique(true, return_inverse=True)
    place = np.searchsorted(cells, given)
    place[place == len(cells)] = 0
    known = cells[place] == given  # a class predicted where the group's truth lacks it has no cell
    truth = _count(true, weight, len(cells))
    hits = _count(true[hit], None if weight is None else weight[hit], len(cells))
    guesses = _count(place[known], None if weight is None else weight[known], len(cells))
    kept = truth > 0  # weights may be 0
    return Tally(cells[kept] // classes, truth[kept], guesses[kept], hits[kept], n_groups)


def _count(cells: Ints, weight: Floats | None, size: int) -> Floats:
    return np.asarray(np.bincount(cells, weight, size), np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    filled: Floats = np.full(len(above), math.nan)
    np.divide(above, below, out=filled, where=below > 0)
    return filled
