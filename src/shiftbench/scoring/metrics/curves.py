"""Areas under curves: AUC under the ROC curve, with DeLong's contributions, and average precision over many tasks.

With m positives, k negatives and ψ(x, y) = 1 where x > y, ½ where x = y, the area under the ROC curve is

    A = P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) = mean of V over the positives = mean of V over the negatives,
    V(positive) = mean of ψ(it, y) over the negatives y,    V(negative) = mean of ψ(x, it) over the positives x,
    Var(A) = Var_positives(V) / m + Var_negatives(V) / k        (DeLong, DeLong & Clarke-Pearson, 1988).

V comes from midranks, so that the cost is that of sorting (Sun & Xu, 2014).

With thresholds t at the distinct scores of a task (equal scores enter together), P_t the precision and R_t the recall
of what lies at or above t, average precision (the metric of OGB-MolPCBA) is

    AP = Σ_t (R_t − R_{t+1}) P_t,    t + 1 the next higher threshold, R = 0 above the highest.

There is no interpolation. A task counts only where it has a positive and a negative label; NaN is a missing label.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring.metrics.classification import Table, log_softmax

Reals = npt.NDArray[np.floating]
ENTRIES = 4_000_000
"""Labels that are sorted at once; more tasks than that go in turns, so that memory stays bounded."""


def auc(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) for a class against the rest, s its log-odds or log-probability. Higher is better.

    With two classes this is the usual AUC; with more it is the mean over the classes that have items on both sides.
    """
    if scores.shape[1] == 2:
        with np.errstate(invalid="ignore"):
            return _one_auc(label == 1, np.asarray(scores[:, 1] - scores[:, 0], np.float64), weight)  # keeps ties exact
    ranks = log_softmax(scores)
    areas = np.asarray([_one_auc(label == code, ranks[:, code], weight) for code in range(scores.shape[1])])
    return float(np.mean(areas[~np.isnan(areas)])) if not np.isnan(areas).all() else math.nan


def midranks(values: npt.NDArray[np.floating]) -> Floats:
    """Ranks from 1 within each row; equal values share the mean of their ranks."""
    rows, n = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    new = np.ones((rows, n), np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(new)  # no tie goes over the end of a row, since a row begins anew
    size = np.diff(np.append(first, rows * n))
    middle = np.repeat(first + (size + 1) / 2, size).reshape(rows, n) - np.arange(rows)[:, None] * n
    ranks = np.empty((rows, n))
    np.put_along_axis(ranks, order, middle, axis=1)
    return ranks


def placements(positive: Bools, score: npt.NDArray[np.floating]) -> Floats:
    """V of every item: the share of the other polarity that it is on the right side of; runs × items."""
    above, below = np.flatnonzero(positive), np.flatnonzero(~positive)
    ranks = midranks(score)
    shares = np.empty(score.shape)
    shares[:, above] = (ranks[:, above] - midranks(score[:, above])) / max(1, len(below))
    shares[:, below] = 1 - (ranks[:, below] - midranks(score[:, below])) / max(1, len(above))
    return shares


def auc_items(positive: Bools, score: npt.NDArray[np.floating]) -> Floats:
    """Runs × items: contributions whose mean over the items is AUC, and whose spread over n is DeLong's variance.

        c_i = A + (n / m) √(m / (m − 1)) (V_i − A) for a positive, and the same with k for a negative.

    `score[r, i]` is run r's for item i, the larger the likelier positive; infinite ones are scores like others. NaN
    throughout where all items have one polarity, or where a run has a score that is not a number.
    """
    m, n = int(positive.sum()), len(positive)
    if not 0 < m < n:
        return np.full(score.shape, np.nan)
    value = placements(positive, np.asarray(score, np.float64))
    area = value[:, positive].mean(axis=1, keepdims=True)
    weight = np.where(positive, _worth(n, m), _worth(n, n - m))
    items = area + weight * (value - area)
    items[np.isnan(score).any(axis=1)] = np.nan
    return np.asarray(items)


class Precision(NamedTuple):
    """Mean average precision of one run, how many tasks it is a mean of, and the contribution of every item."""

    value: float
    tasks: int
    items: Floats


def precision_items(label: Reals, score: Reals) -> Precision:
    """Mean average precision and what each item contributes to it, see `estimates`.

    With N_i and P_i the number and the precision of what scores at least as high as item i, and P positives, the
    weight of item k enters a task's AP as

        ∂AP / ∂w_k = ([k positive] (P_k − AP) + Σ_{positive i, s_i ≤ s_k} ([k positive] − P_i) / N_i) / P.
    """
    positive, labelled = (label > 0).sum(axis=0), (~np.isnan(label)).sum(axis=0)
    if (wrong := np.isnan(score) & ~np.isnan(label)).any():
        raise ShiftBenchError(f"{int(wrong.sum())} scores of labelled entries are not numbers (NaN), so items have no "
                              "order. The model that gave them has diverged.")
    judged = np.flatnonzero((positive > 0) & (positive < labelled))
    if not len(judged):
        return Precision(np.nan, 0, np.full(len(label), np.nan))
    total, slope = 0.0, np.zeros(len(label))
    step = max(1, ENTRIES // len(label))
    for at in range(0, len(judged), step):
        tasks = judged[at:at + step]
        average, added = _slopes(label[:, tasks], score[:, tasks])
        total, slope = total + average, slope + added
    value = total / len(judged)
    return Precision(value, len(judged), value + len(label) / len(judged) * slope)


def _slopes(label: Reals, score: Reals) -> tuple[float, Floats]:
    """The sum of AP over tasks, and that of ∂AP / ∂w of every item: one sort over all labelled entries."""
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
    n_above = last + 1 - begin[task]
    share = (above[last + 1] - above[begin[task]]) / n_above
    # Sums over the positives from an entry's run to its task's end.
    inverse, weighted = (np.append(0.0, np.cumsum(positive * values / n_above))
                         for values in (np.ones(len(task)), share))
    below = positive * (inverse[stop[task]] - inverse[first]) - (weighted[stop[task]] - weighted[first])
    positives = np.bincount(task, positive)
    average = np.bincount(task, positive * share) / positives
    slope = (positive * (share - average[task]) + below) / positives[task]
    return float(average.sum()), np.asarray(np.bincount(row, slope, len(label)), np.float64)


def _worth(n: int, of_polarity: int) -> float:
    """A single item of a polarity has no spread to enlarge."""
    return n / of_polarity * np.sqrt(of_polarity / (of_polarity - 1)) if of_polarity > 1 else float(n)


def _one_auc(positive: npt.NDArray[np.bool_], rank: Floats, weight: Floats | None) -> float:
    _, code = np.unique(rank, return_inverse=True)
    share = np.ones(len(rank)) if weight is None else weight
    above = np.bincount(code, share * positive)
    below = np.bincount(code, share * ~positive)
    pairs = above.sum() * below.sum()
    return float(above @ (np.cumsum(below) - below / 2) / pairs) if pairs else math.nan
