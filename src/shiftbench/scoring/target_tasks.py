"""Targets that are yes/no tasks with gaps: average precision, the mean over the tasks that have both labels."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats
from shiftbench.scoring.estimates import Estimate
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.metrics.average_precision import ENTRIES
from shiftbench.scoring.target_estimates import precision, worst_of
from shiftbench.scoring.target_measures import Part, grouped, over_all

Reals = npt.NDArray[np.floating]
GROUPS = 100
"""Groups of a split up to which each has its own value: of thousands, hardly one has both labels of many tasks."""


class Precision(NamedTuple):
    """Mean average precision of one run, how many tasks it is a mean of, and the contribution of every item."""

    value: float
    tasks: int
    items: Floats


def measure_tasks(
    part: Part, truth: Reals, predicted: Sequence[Reals], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`mean_ap` over tasks with both labels, and `tasks_judged`, how many these are; NaN is a missing label.

    In a split of at most GROUPS groups also of each, over the tasks that have both labels there, and of the worst.
    """
    kept = np.flatnonzero(~np.isnan(truth).all(axis=1))
    part, truth, predicted = part.take(kept), truth[kept], [np.asarray(one, np.float64)[kept] for one in predicted]
    every = [precision_items(truth, one) for one in predicted]
    whole = np.stack([one.items for one in every])
    tasks = np.full((max(owner) + 1, 1), float(every[0].tasks))
    none = np.full_like(tasks, np.nan)
    counted = Measured("tasks_judged", ["all"], np.asarray([len(kept)]),
                       Estimate(np.full((len(owner), 1), tasks[0, 0]), tasks, tasks, none, none, none, most=np.inf))
    if len(np.unique(part.group)) > GROUPS:
        return [over_all("mean_ap", whole, len(kept), owner, level, precision), counted]
    values = np.empty_like(whole)
    for code in np.unique(part.group):
        mine = part.group == code
        values[:, mine] = [precision_items(truth[mine], one[mine]).items for one in predicted]
    return [*grouped(part, "mean_ap", whole, values, owner, level, precision,
                     partial(worst_of, owner=owner, level=level, make=precision)), counted]


def precision_items(label: Reals, score: Reals) -> Precision:
    """Mean average precision and what each item contributes to it, see `target_estimates`.

    With N_i and P_i the number and the precision of what scores at least as high as item i, and P positives, the
    weight of item k enters a task's AP as

        ∂AP / ∂w_k = ([k positive] (P_k − AP) + Σ_{positive i, s_i ≤ s_k} ([k positive] − P_i) / N_i) / P.
    """
    positive, labelled = (label > 0).sum(axis=0), (~np.isnan(label)).sum(axis=0)
    judged = np.flatnonzero((positive > 0) & (positive < labelled))
    if not len(judged):
        return Precision(np.nan, 0, np.full(len(label), np.nan))
    total, slope = 0.0, np.zeros(len(label))
    step = max(1, ENTRIES // len(label))
    for at in range(0, len(judged), step):
        mine = judged[at:at + step]
        average, added = _slopes(label[:, mine], score[:, mine])
        total, slope = total + average, slope + added
    value = total / len(judged)
    return Precision(value, len(judged), value + len(label) / len(judged) * slope)


def _slopes(label: Reals, score: Reals) -> tuple[float, Floats]:
    """The sum of AP over tasks, and that of ∂AP / ∂w of every item: one sort, as in `metrics.average_precision`."""
    task, row = np.nonzero(~np.isnan(label.T))
    rank = score[row, task]
    order = np.lexsort((-rank, task))
    task, row, rank = task[order], row[order], rank[order]
    positive = (label[row, task] > 0).astype(np.float64)
    total = np.bincount(task)
    begin, stop = np.cumsum(total) - total, np.cumsum(total)
    ends = np.append((task[1:] != task[:-1]) | (rank[1:] != rank[:-1]), True)
    run = np.cumsum(ends) - ends  # equal scores enter together: number of the run of an entry
    last = np.flatnonzero(ends)[run]
    first = np.append(0, np.flatnonzero(ends)[:-1] + 1)[run]
    above = np.append(0.0, np.cumsum(positive))
    many = last + 1 - begin[task]
    share = (above[last + 1] - above[begin[task]]) / many
    # Sums over the positives from an entry's run to its task's end.
    inverse, part = (np.append(0.0, np.cumsum(positive * values / many)) for values in (np.ones(len(task)), share))
    below = positive * (inverse[stop[task]] - inverse[first]) - (part[stop[task]] - part[first])
    found = np.bincount(task, positive)
    average = np.bincount(task, positive * share) / found
    slope = (positive * (share - average[task]) + below) / found[task]
    return float(average.sum()), np.asarray(np.bincount(row, slope, len(label)), np.float64)
