"""What a classifier's scores are worth: each metric is a function (label, scores, weight) -> float.

`scores[i, c]` is a logit or log-probability of class c for item i. `weight` counts item i `weight[i]` times, so a
bootstrap replicate is the metric at the times each item was drawn. No items, or a value that is not defined: NaN.
What each item contributes to a metric, of many runs at once, stands below: `losses`, `f1_items`, `calibration`.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints

Table = npt.NDArray[np.floating]
BLOCK = 1 << 18
"""Scores that are looked at in one go: 2 MB of 64 bits stay in a processor's cache."""
BINS = 15
SURE = 2.0
"""Standard errors from which on the side to which a bin errs is taken as known."""


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
    """−log p(label) of every item, p = softmax(scores); scores are items × classes, or runs × items × classes.

    A block of items at a time: the whole table in 64 bits, several times over, would be most of the memory of a score.
    """
    each = np.empty(scores.shape[:-1])
    for block in _blocks(scores):
        logs = log_softmax(scores[..., block, :])
        labels = np.broadcast_to(label[block], logs.shape[:-1])[..., None]
        each[..., block] = -np.take_along_axis(logs, labels, axis=-1)[..., 0]
    return each


def has_probabilities(scores: Table) -> bool:
    """Whether scores say more than which class is chosen: some item of every run has finite scores for two classes.

    A model that gives only its choice rules every other class out; its log-loss would be infinite at the first mistake
    and says nothing.
    """
    several = np.zeros(scores.shape[:-2], np.bool_)
    for block in _blocks(scores):
        part = scores[..., block, :]
        several |= np.isfinite(part).sum(axis=(-2, -1)) > part.shape[-2]
        if several.all():
            return True
    return False


def log_softmax(scores: Table) -> Floats:
    """log softmax over the last axis, in 64 bits."""
    peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        shifted = np.asarray(scores - np.where(np.isfinite(peak), peak, 0.0), np.float64)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


class Tally(NamedTuple):
    """Cell k is a class that occurs in the truth of group `group[k]`; only such cells are kept.

    In it `truth[k]` items have the class, `predicted[k]` are predicted as it, `hits[k]` are both; with weights,
    their sums.
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
    true, guess = base + label, base + predicted
    hit = true == guess
    size = n_groups * classes
    if size <= 4 * len(label) + 1024:
        truth = _count(true, weight, size)
        cells = np.flatnonzero(truth)
        hits = _count(true[hit], None if weight is None else weight[hit], size)[cells]
        return Tally(cells // classes, truth[cells], _count(guess, weight, size)[cells], hits, n_groups)
    cells, true = np.unique(true, return_inverse=True)
    position = np.searchsorted(cells, guess)
    position[position == len(cells)] = 0
    known = cells[position] == guess  # a class predicted where the group's truth lacks it has no cell
    truth = _count(true, weight, len(cells))
    hits = _count(true[hit], None if weight is None else weight[hit], len(cells))
    guesses = _count(position[known], None if weight is None else weight[known], len(cells))
    kept = truth > 0  # weights may be 0
    return Tally(cells[kept] // classes, truth[kept], guesses[kept], hits[kept], n_groups)


def f1_items(label: Ints, predicted: Ints, n_classes: int) -> Floats:
    """Runs × items: contributions whose mean over the items is macro F1, and whose spread is its error to first order.

    With F_c = 2 h_c / d_c, h_c the hits and d_c the items of class c plus those predicted as c, C classes in the truth:

        c_i = F + (n / C) (2 · 1[ŷ_i = y_i] / d_y − F_y / d_y − F_ŷ / d_ŷ),    F = mean of F_c.

    A class that is predicted but absent from the truth has no term. `predicted` is runs × items.
    """
    runs, n = predicted.shape
    run = np.repeat(np.arange(runs), n)
    truth = np.tile(label, runs)
    counts = tally(truth, predicted.ravel(), run, runs, n_classes=n_classes)
    classes = np.unique(label)
    both = (counts.truth + counts.predicted).reshape(runs, len(classes))
    f1 = 2 * counts.hits.reshape(runs, len(classes)) / both
    per_item, penalty = np.zeros((runs, n_classes)), np.zeros((runs, n_classes))
    per_item[:, classes], penalty[:, classes] = 2 / both, f1 / both
    of_predicted = np.take_along_axis(penalty, predicted, axis=1)
    each = (predicted == label) * per_item[:, label] - penalty[:, label] - of_predicted
    return np.asarray(f1.mean(axis=1, keepdims=True) + each * (n / len(classes)))


class Calibration(NamedTuple):
    """ECE of each run as the mean over its items, and what its absolute values may owe to chance.

    Our reading of "ECE" is the one that NOOCh cites (Guo et al., 2017): the predicted class's probability, also with
    two classes, in 15 bins of equal width, each with its upper end:

        ECE = Σ_b n_b / n |accuracy of b − mean probability of b|.
    """

    items: Floats  # runs × items: ± (probability − right), its bin's sign
    lifted: Floats  # runs


def calibration(hits: Bools, confidence: Floats, bins: int = BINS) -> Calibration:
    """Contributions of every item: their mean is ECE, their spread its error while no bin changes sides.

    An absolute value is never below 0: a model that is calibrated has an ECE above 0. With e_b the sum of a bin's
    deviations d and δ_b its expectation, |e_b| − |δ_b| is at most |e_b − δ_b|, whose mean is √(2/π) of its standard
    error. `lifted` sums that over the bins whose side is unknown, |e_b| ≤ 2 √Σd²: how much too high ECE may be.
    """
    runs, n = confidence.shape
    deviation = confidence - hits
    # A third of fifteen bins is an edge, and rounding must not decide on which side of it an item lies.
    bin_index = np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)
    cell = bin_index + np.arange(runs)[:, None] * bins
    total = np.bincount(cell.ravel(), deviation.ravel(), runs * bins)
    error = np.sqrt(np.bincount(cell.ravel(), (deviation**2).ravel(), runs * bins))
    items = deviation * np.where(total < 0, -1.0, 1.0)[cell]
    unsure = np.where(np.abs(total) <= SURE * error, error, 0.0).reshape(runs, bins).sum(axis=1)
    return Calibration(items, math.sqrt(2 / math.pi) * unsure / max(1, n))


def confidences(scores: npt.NDArray[np.floating]) -> Floats:
    """The predicted class's probability; `scores` is runs × classes × items."""
    shifted = np.asarray(scores - scores.max(axis=1, keepdims=True), np.float64)
    return np.asarray(1 / np.exp(shifted).sum(axis=1))


def ece(label: Ints, scores: Table, bins: int = BINS) -> float:
    """Expected calibration error. Lower is better; NaN without items.

    >>> round(ece(np.array([0, 1]), np.log([[0.75, 0.25], [0.75, 0.25]])), 6)
    0.25
    """
    if not len(label):
        return math.nan
    confidence = confidences(scores.T[None])
    return float(calibration((scores.argmax(axis=1) == label)[None], confidence, bins).items.mean())


def _blocks(scores: Table) -> list[slice]:
    """Slices of the items of a table, ... × items × classes, each of about BLOCK scores."""
    n = scores.shape[-2]
    rows = max(1, BLOCK * n // max(1, scores.size))
    return [slice(at, at + rows) for at in range(0, n, rows)]


def _mean(values: Floats, weight: Floats | None) -> float:
    if not len(values):
        return math.nan
    if weight is None:
        return float(np.mean(values))
    total = float(weight.sum())
    taken = weight > 0  # 0 × inf is not a number, but an item drawn 0 times is simply absent
    return float(values[taken] @ weight[taken]) / total if total else math.nan


def _count(cells: Ints, weight: Floats | None, size: int) -> Floats:
    return np.asarray(np.bincount(cells, weight, size), np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    filled: Floats = np.full(len(above), math.nan)
    np.divide(above, below, out=filled, where=below > 0)
    return filled
