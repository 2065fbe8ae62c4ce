"""What a classifier's scores are worth: each metric is a function (label, scores, weight) -> float.

`scores[i, c]` is a logit or log-probability of class c for item i. `weight` counts item i `weight[i]` times, so a
bootstrap replicate is the metric at the times each item was drawn. No items, or a value that is not defined: NaN.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints
from shiftbench.scoring.metrics.tally import tally

Metric = Callable[..., float]
Table = npt.NDArray[np.floating]
BLOCK = 1 << 18
"""Scores that are looked at in one go: 2 MB of 64 bits stay in a processor's cache."""


def accuracy(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Share of items whose largest score is their label. Higher is better."""
    return _mean((scores.argmax(axis=1) == label).astype(np.float64), weight)


def error(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Share of items whose largest score is not their label. Lower is better."""
    return 1.0 - accuracy(label, scores, weight)


def macro_f1(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean over the classes in the truth of F1 = 2 TP / (2 TP + FP + FN). Higher is better."""
    return float(tally(label, scores.argmax(axis=1), n_classes=scores.shape[1], weight=weight).macro_f1[0])


def macro_recall(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean over the classes in the truth of TP / (TP + FN). Higher is better."""
    return float(tally(label, scores.argmax(axis=1), n_classes=scores.shape[1], weight=weight).macro_recall[0])


def nll(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean of −log p(label), p = softmax(scores). Lower is better; infinite where a label was ruled out."""
    return _mean(losses(label, scores), weight)


def losses(label: Ints, scores: Table) -> Floats:
    """−log p(label) of every item, p = softmax(scores).

    A block of items at a time: the whole table in 64 bits, several times over, would be most of the memory of a score.
    """
    each = np.empty(len(label))
    rows = max(1, BLOCK // max(1, scores.shape[1]))
    for start in range(0, len(label), rows):
        part = slice(start, start + rows)
        logs = _log_softmax(scores[part])
        each[part] = -logs[np.arange(len(logs)), label[part]]
    return each


def has_probabilities(scores: Table) -> bool:
    """Whether scores say more than which class is chosen: some item has a finite score for more than one class.

    A model that gives only its choice rules every other class out; its log-loss would be infinite at the first mistake
    and says nothing.
    """
    rows = max(1, BLOCK // max(1, scores.shape[1]))
    return any(int(np.isfinite(part).sum()) > len(part)
               for part in (scores[start:start + rows] for start in range(0, len(scores), rows)))


def auc(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) for a class against the rest, s its log-odds or log-probability. Higher is better.

    With two classes this is the usual AUC; with more it is the mean over the classes that have items on both sides.
    """
    if scores.shape[1] == 2:
        with np.errstate(invalid="ignore"):
            return _one_auc(label == 1, np.asarray(scores[:, 1] - scores[:, 0], np.float64), weight)  # keeps ties exact
    ranks = _log_softmax(scores)
    each = np.asarray([_one_auc(label == code, ranks[:, code], weight) for code in range(scores.shape[1])])
    return float(np.mean(each[~np.isnan(each)])) if not np.isnan(each).all() else math.nan


METRICS: Mapping[str, Metric] = {
    "accuracy": accuracy, "error": error, "macro_f1": macro_f1, "macro_recall": macro_recall, "nll": nll, "auc": auc,
}


def _mean(values: Floats, weight: Floats | None) -> float:
    if not len(values):
        return math.nan
    if weight is None:
        return float(np.mean(values))
    total = float(weight.sum())
    taken = weight > 0  # 0 × inf is not a number, but an item drawn 0 times is simply absent
    return float(values[taken] @ weight[taken]) / total if total else math.nan


def _log_softmax(scores: Table) -> Floats:
    peak = scores.max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        shifted = np.asarray(scores - np.where(np.isfinite(peak), peak, 0.0), np.float64)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _one_auc(positive: npt.NDArray[np.bool_], rank: Floats, weight: Floats | None) -> float:
    _, place = np.unique(rank, return_inverse=True)
    share = np.ones(len(rank)) if weight is None else weight
    above = np.bincount(place, share * positive)
    below = np.bincount(place, share * ~positive)
    pairs = above.sum() * below.sum()
    return float(above @ (np.cumsum(below) - below / 2) / pairs) if pairs else math.nan
