"""Average precision over many tasks at once, each with its missing labels; the metric of OGB-MolPCBA.

With the items of a task sorted by score, thresholds t at its distinct scores (equal scores enter together), P_t the
precision and R_t the recall of what lies at or above t:

    AP = Σ_t (R_t − R_{t+1}) P_t,    t + 1 the next higher threshold, R = 0 above the highest.

There is no interpolation. A task counts only where it has a positive and a negative label; NaN is a missing label.
"""

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError

Reals = npt.NDArray[np.floating]
ENTRIES = 4_000_000
"""Labels that are sorted at once; more tasks than that go in turns, so that memory stays bounded."""


def average_precisions(label: Reals, score: Reals) -> Floats:
    """AP of each task, items × tasks in; NaN where a task lacks positives or negatives. Higher is better.

    >>> average_precisions(np.array([[1.0], [0.0], [1.0]]), np.array([[3.0], [2.0], [1.0]])).round(4).tolist()
    [0.8333]
    """
    return np.asarray(_by_cell(label, score, np.zeros(len(label), np.int64), 1)[0])


def mean_average_precision(label: Reals, score: Reals) -> float:
    """Mean of AP over the tasks that have one; NaN where none has. Higher is better."""
    return float(_mean(average_precisions(label, score)[None])[0])


def mean_average_precision_by_group(label: Reals, score: Reals, group: Ints, n_groups: int) -> Floats:
    """The mean over tasks within each group; NaN where no task has both labels in the group."""
    return _mean(_by_cell(label, score, group, n_groups))


def _by_cell(label: Reals, score: Reals, group: Ints, n_groups: int) -> Floats:
    """Groups × tasks."""
    step = max(1, ENTRIES // max(1, len(label)))
    turns = [slice(at, at + step) for at in range(0, label.shape[1], step)]
    return np.concatenate([_sorted(label[:, mine], score[:, mine], group, n_groups) for mine in turns], axis=1)


def _sorted(label: Reals, score: Reals, group: Ints, n_groups: int) -> Floats:
    """One sort over all labelled entries, then sums between the ends of runs of equal scores."""
    n_tasks = label.shape[1]
    size = n_groups * n_tasks
    row, task = np.nonzero(~np.isnan(label))
    cell = group[row] * n_tasks + task
    rank = score[row, task]
    if np.isnan(rank).any():
        raise ShiftBenchError(f"{int(np.isnan(rank).sum())} scores of labelled entries are not numbers (NaN), so items "
                              "have no order. The model that gave them has diverged.")
    order = np.lexsort((-rank, cell))
    cell, rank, hit = cell[order], rank[order], label[row, task][order] > 0
    total, positive = np.bincount(cell, minlength=size), np.bincount(cell, hit, size)
    found = np.cumsum(hit)
    last = np.flatnonzero(np.append((cell[1:] != cell[:-1]) | (rank[1:] != rank[:-1]), True)[:len(cell)])
    where = cell[last]
    taken = last + 1 - (np.cumsum(total) - total)[where]
    right = found[last] - (np.cumsum(positive) - positive)[where]
    gained = np.diff(found[last], prepend=0)  # runs of two tasks never mix, so the run before ends where this begins
    area = np.asarray(np.bincount(where, gained * right / taken, size), np.float64)  # whole numbers of no entries
    area[(positive == 0) | (positive == total)] = np.nan
    return np.asarray(area / np.maximum(positive, 1)).reshape(n_groups, n_tasks)


def _mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    mean = np.full(len(values), np.nan)
    np.divide(np.where(known, values, 0.0).sum(axis=1), count, out=mean, where=count > 0)
    return mean
