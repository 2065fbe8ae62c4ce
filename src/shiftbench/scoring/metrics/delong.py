"""The area under the ROC curve as a mean over items, so that its variance is DeLong's and runs can be paired.

With m positives, k negatives and ψ(x, y) = 1 where x > y, ½ where x = y:

    A = P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) = mean of V over the positives = mean of V over the negatives,
    V(positive) = mean of ψ(it, y) over the negatives y,    V(negative) = mean of ψ(x, it) over the positives x,
    Var(A) = Var_positives(V) / m + Var_negatives(V) / k        (DeLong, DeLong & Clarke-Pearson, 1988).

V comes from midranks, so that the cost is that of sorting (Sun & Xu, 2014).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats


class Area(NamedTuple):
    """AUC of each run, and its variance through the items; NaN where there is one polarity, or one item of it."""

    value: Floats
    variance: Floats


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
    found = np.empty(score.shape)
    found[:, above] = (ranks[:, above] - midranks(score[:, above])) / max(1, len(below))
    found[:, below] = 1 - (ranks[:, below] - midranks(score[:, below])) / max(1, len(above))
    return found


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
    each = np.where(positive, _worth(n, m), _worth(n, n - m))
    items = area + each * (value - area)
    items[np.isnan(score).any(axis=1)] = np.nan
    return np.asarray(items)


def delong(positive: Bools, score: npt.NDArray[np.floating]) -> Area:
    """AUC and DeLong's variance of every run.

    >>> found = delong(np.array([True, True, False, False]), np.array([[3.0, 1.0, 2.0, 0.0]]))
    >>> found.value.tolist(), found.variance.tolist()
    ([0.75], [0.125])
    """
    items = auc_items(positive, score)
    value = items.mean(axis=1)
    variance = ((items - value[:, None]) ** 2).sum(axis=1) / len(positive) ** 2
    few = min(int(positive.sum()), int((~positive).sum())) < 2
    return Area(value, np.full_like(variance, np.nan) if few else variance)


def _worth(n: int, mine: int) -> float:
    """A single item of a polarity has no spread to enlarge."""
    return n / mine * np.sqrt(mine / (mine - 1)) if mine > 1 else float(n)
