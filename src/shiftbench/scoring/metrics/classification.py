"""Metrics of classification: each is a function (label, scores, weight) -> float.

`scores[i, c]` is a logit or log-probability of class c for item i. `weight` counts item i `weight[i]` times, so a
bootstrap replicate is the metric at the times each item was drawn. No items, or a value that is not defined: NaN.
`losses`, `f1_items` and `calibration` return what each item contributes to a metric, for many runs at once.

Below them: counts of groups and classes (`tally`), calibration, the accuracy of a classifier of many classes when only
two are asked for (`pairwise`; BREEDS, A.7.2), and means over groups.
"""

import math
from collections.abc import Sequence
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
    item_losses = np.empty(scores.shape[:-1])
    for block in _blocks(scores):
        logs = log_softmax(scores[..., block, :])
        labels = np.broadcast_to(label[block], logs.shape[:-1])[..., None]
        item_losses[..., block] = -np.take_along_axis(logs, labels, axis=-1)[..., 0]
    return item_losses


def has_probabilities(scores: Table) -> bool:
    """Whether scores say more than which class is chosen: some item of every run has finite scores for two classes.

    A model that gives only its choice rules every other class out; its log-loss would be infinite at the first mistake
    and says nothing.
    """
    several = np.zeros(scores.shape[:-2], np.bool_)
    for block in _blocks(scores):
        table = scores[..., block, :]
        several |= np.isfinite(table).sum(axis=(-2, -1)) > table.shape[-2]
        if several.all():
            return True
    return False


def log_softmax(scores: Table) -> Floats:
    """log softmax over the last axis, in 64 bits."""
    peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        shifted = np.asarray(scores - np.where(np.isfinite(peak), peak, 0.0), np.float64)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


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
    drawn = weight > 0  # 0 × inf is not a number, but an item drawn 0 times is simply absent
    return float(values[drawn] @ weight[drawn]) / total if total else math.nan


# Counts of groups and classes

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
    has_cell = cells[position] == guess  # a class predicted where the group's truth lacks it has no cell
    truth = _count(true, weight, len(cells))
    hits = _count(true[hit], None if weight is None else weight[hit], len(cells))
    guesses = _count(position[has_cell], None if weight is None else weight[has_cell], len(cells))
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
    deviation = (predicted == label) * per_item[:, label] - penalty[:, label] - of_predicted
    return np.asarray(f1.mean(axis=1, keepdims=True) + deviation * (n / len(classes)))


def _count(cells: Ints, weight: Floats | None, size: int) -> Floats:
    return np.asarray(np.bincount(cells, weight, size), np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    filled: Floats = np.full(len(above), math.nan)
    np.divide(above, below, out=filled, where=below > 0)
    return filled


# Calibration

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


# Pairs of classes

class Pairwise(NamedTuple):
    """`wins[a, b]`: items of class a with a higher score for a than for b, a tie counts half; `size[a]`: its items."""

    wins: Floats
    size: Floats

    def accuracy(self, balanced: bool = False) -> Floats:
        """Class × class: the share of the two classes' items that are right when only these two are asked for.

            A[a, b] = (wins[a, b] + wins[b, a]) / (size[a] + size[b])

        `balanced` counts both classes alike whatever their sizes, as a task does that asks for equally many of each:
        A[a, b] = (wins[a, b] / size[a] + wins[b, a] / size[b]) / 2. NaN on the diagonal and where a class is empty.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            if balanced:
                share = self.wins / self.size[:, None]
                table = (share + share.T) / 2
            else:
                table = (self.wins + self.wins.T) / (self.size[:, None] + self.size)
        empty = self.size == 0
        table[empty | empty[:, None]] = math.nan
        np.fill_diagonal(table, math.nan)
        return np.asarray(table)


class PairMean(NamedTuple):
    """A mean over pairs of classes, its variance through the items, and how many comparisons it is made of."""

    value: float
    variance: float
    n: int


def pairwise(label: Ints, scores: Table, weight: Floats | None = None) -> Pairwise:
    """All pairs of classes at once: each item's own score against every other class's."""
    n_classes = scores.shape[1]
    wins = np.zeros((n_classes, n_classes))
    np.add.at(wins, label, _beats(label, scores) * (1.0 if weight is None else weight[:, None]))
    np.fill_diagonal(wins, 0.0)
    return Pairwise(wins, np.bincount(label, weight, n_classes).astype(np.float64))


def pairwise_accuracy(label: Ints, scores: Table, weight: Floats | None = None) -> float:
    """Mean of the pairwise accuracy over all pairs of classes that have items. Higher is better.

    The paper estimates it from random pairs; here every pair counts once. With two classes it is accuracy.
    """
    table = pairwise(label, scores, weight).accuracy()
    return float(np.nanmean(table)) if not np.isnan(table).all() else math.nan


def over_pairs(label: Ints, scores: Table, pairs: Sequence[tuple[int, int]], *, balanced: bool = False) -> PairMean:
    """Mean of the pairwise accuracy over these pairs, each once.

    An item takes part in every pair of its class, so its parts are summed before their spread is taken:

        mean = Σ_i c_i,   Var = Σ_a n_a / (n_a − 1) Σ_{i in a} (c_i − mean over a)².
    """
    n_classes = scores.shape[1]
    chosen = np.zeros((n_classes, n_classes))
    for a, b in pairs:
        chosen[a, b] = chosen[b, a] = 1.0
    size = np.bincount(label, minlength=n_classes).astype(np.float64)
    chosen[size == 0] = chosen[:, size == 0] = 0.0
    if not chosen.any():
        return PairMean(math.nan, math.nan, 0)
    weight = chosen / (2 * size[:, None] if balanced else size[:, None] + size).clip(1) / (chosen.sum() / 2)
    contribution = (_beats(label, scores) * weight[label]).sum(axis=1)
    centre = np.bincount(label, contribution, n_classes) / size.clip(1)
    spread = np.bincount(label, (contribution - centre[label]) ** 2, n_classes)
    return PairMean(float(contribution.sum()), float((spread * size / (size - 1).clip(1)).sum()),
                    int((chosen.sum(axis=1) * size).sum()))


def _beats(label: Ints, scores: Table) -> Floats:
    """Items × classes: 1 where the item's own class has the higher score, ½ where both have the same."""
    true_score = scores[np.arange(len(label)), label][:, None]
    return np.asarray((true_score > scores) + 0.5 * (true_score == scores), np.float64)


# Means over groups

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


def mean_over_groups(values: Floats) -> float:
    """Mean over the groups that have a value, each of the same weight; NaN where none has.

    >>> mean_over_groups(np.array([0.5, math.nan, 1.0]))
    0.75
    """
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def percentile_over_groups(values: Floats, q: float = 10.0) -> float:
    """The q-th percentile of the groups that have a value, instead of the worst; NaN where none has (Amazon's users).

    With G groups the minimum falls as G grows, whatever the model; a percentile does not. Every group weighs the same,
    be it of one item or of a thousand; between two groups the value is interpolated linearly, as numpy does.

    >>> percentile_over_groups(np.array([0.0, math.nan, 0.5, 1.0]))
    0.1
    """
    defined = values[~np.isnan(values)]
    return float(np.percentile(defined, q)) if len(defined) else math.nan
