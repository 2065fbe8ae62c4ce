"""Metrics of targets that are not classes: numbers (PovertyMap), tasks (OGB-MolPCBA), boxes (GlobalWheat) and tokens
(Py150), and means over groups.

Functions that end in `_items` return what each item contributes to a metric: the mean of the contributions is the
metric, and their spread is its error to first order.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.target import NO_LABEL, TOKENS, Boxes, boxes_of, kinds_of, tokens_of

Reals = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.number]

# Numbers: PovertyMap

def pearson_by_group(target: Reals, predicted: Reals, group: Ints, n_groups: int) -> Floats:
    """Pearson's r within each group 0..n_groups − 1, all in one pass.

        r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)

    NaN where a group has fewer than two items or one of the two does not vary.

    >>> pearson_by_group(np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 7.0]), np.array([0, 0, 2]), 3).round(9)
    array([-1., nan, nan])
    """
    x, y = _centred(target, group, n_groups), _centred(predicted, group, n_groups)
    spread = np.sqrt(np.bincount(group, x * x, n_groups)) * np.sqrt(np.bincount(group, y * y, n_groups))
    r = np.full(n_groups, np.nan)
    np.divide(np.bincount(group, x * y, n_groups), spread, out=r, where=spread != 0)
    return np.asarray(np.clip(r, -1.0, 1.0))


def squared_errors(target: Reals, predicted: Reals) -> Floats:
    """(target − predicted)² of every item, the mean over its outputs where it has several. Lower is better."""
    errors = np.asarray((target - predicted) ** 2)
    return np.asarray(errors.mean(axis=tuple(range(1, errors.ndim))), np.float64)


def r_items(truth: Reals, predicted: Reals, group: Ints) -> Floats:
    """What each item contributes to r of its group; the mean over the group is r. Outputs are averaged.

        c_i = r + u v − r (u² + v²) / 2,    u, v the two numbers, less their means and over their standard deviations

    An item without a label contributes r to that output; those that have one n / n_labelled as much.
    """
    total = np.zeros(len(truth))
    for column in range(truth.shape[1]):
        has = ~np.isnan(truth[:, column])
        total += _r_items(truth[:, column], predicted[:, column], group, has)
    return np.asarray(total / truth.shape[1])


def _r_items(truth: Reals, predicted: Reals, group: Ints, has_label: Bools) -> Floats:
    n_groups = int(group.max(initial=-1)) + 1
    labelled = group[has_label]
    r = pearson_by_group(truth[has_label], predicted[has_label], labelled, n_groups)
    u, v = (_standard(values[has_label], labelled, n_groups) for values in (truth, predicted))
    items = r[group]
    share = np.bincount(group, minlength=n_groups) / np.maximum(np.bincount(labelled, minlength=n_groups), 1)
    items[has_label] += share[labelled] * (u * v - r[labelled] * (u * u + v * v) / 2)
    return items


def _standard(values: Reals, group: Ints, n_groups: int) -> Floats:
    centred = values - group_means(np.asarray(values, np.float64), group, n_groups).value[group]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(centred / np.sqrt(group_means(centred**2, group, n_groups).value)[group])


def _centred(values: Reals, group: Ints, n_groups: int) -> Floats:
    """Values minus their group's mean, computed relative to its first value, so that constant groups are exactly 0."""
    first = np.zeros(n_groups)
    first[group[::-1]] = values[::-1]
    shifted = np.asarray(values, np.float64) - first[group]
    count = np.maximum(np.bincount(group, minlength=n_groups), 1)
    return np.asarray(shifted - (np.bincount(group, shifted, n_groups) / count)[group])


# Tasks: OGB-MolPCBA

ENTRIES = 4_000_000
"""Labels that are sorted at once; more tasks than that go in turns, so that memory stays bounded."""


class Precision(NamedTuple):
    """Mean average precision of one run, how many tasks it is a mean of, and the contribution of every item."""

    value: float
    tasks: int
    items: Floats


def precision_items(label: Reals, score: Reals) -> Precision:
    """Mean average precision and what each item contributes to it, see `intervals`.

    With thresholds t at the distinct scores of a task (equal scores enter together), P_t the precision and R_t the
    recall of what lies at or above t, average precision (the metric of OGB-MolPCBA) is

        AP = Σ_t (R_t − R_{t+1}) P_t,    t + 1 the next higher threshold, R = 0 above the highest.

    There is no interpolation. A task counts only where it has a positive and a negative label; NaN is a missing label.

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


# Boxes: GlobalWheat

BLOCK = 256
"""Images whose pairs of boxes are in memory at once."""


def detection_accuracy(
    truth: Sequence[Numbers],
    boxes: Sequence[Numbers],
    scores: Sequence[Numbers],
    *,
    overlap: float = 0.5,
    confidence: float = 0.5,
) -> Floats:
    """The accuracy of a detector of one kind of object, for every image.

    Boxes are (left, top, right, bottom), one array of them per image. Predicted boxes with a score above `confidence`
    are kept. Each is matched with the true box that it overlaps most (the first of equals), if their intersection over
    union is at least `overlap`; no box looks for a second best. With TP the true boxes that are matched, P the boxes
    kept and T the true ones:

        accuracy = TP / (P + T − TP)        (TP / (TP + FP + FN): a second box on the same object is a false positive),

    and 1 for an image without true boxes in which none is kept.

    >>> wheat = [np.array([[0.0, 0.0, 10.0, 10.0]])]
    >>> detection_accuracy(wheat, [np.array([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 9.0, 10.0]])], [np.array([0.9, 0.8])])
    array([0.5])
    """
    if not len(truth) == len(boxes) == len(scores):
        raise ShiftBenchError(f"Detections need true boxes, boxes and scores per image; got {len(truth)}, {len(boxes)} "
                              f"and {len(scores)} images.")
    kept = [box[score > confidence] for box, score in zip(boxes, scores, strict=True)]
    parts = [_accuracy(truth[at:at + BLOCK], kept[at:at + BLOCK], overlap) for at in range(0, len(truth), BLOCK)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _accuracy(truth: Sequence[Numbers], kept: Sequence[Numbers], overlap: float) -> Floats:
    n_true, n_kept = _lengths(truth), _lengths(kept)
    image = np.repeat(np.arange(len(truth)), n_kept)
    choices = n_true[image]  # true boxes that each predicted box may go to
    pair = np.repeat(np.arange(len(image)), choices)
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(choices) - choices, choices)
    true_box = (np.cumsum(n_true) - n_true)[image[pair]] + nth
    overlaps = intersection_over_union(_stack(truth)[true_box], _stack(kept)[pair])
    firsts = np.flatnonzero(nth == 0)  # a predicted box's choices lie side by side
    most = np.repeat(np.maximum.reduceat(overlaps, firsts), choices[choices > 0]) if len(firsts) else overlaps
    best = np.flatnonzero((overlaps == most) & (overlaps >= overlap))
    best = best[np.unique(pair[best], return_index=True)[1]]  # the first of equals
    matched = np.unique(true_box[best])
    hits = np.bincount(np.repeat(np.arange(len(truth)), n_true)[matched], minlength=len(truth))
    union = n_true + n_kept - hits
    return np.asarray(np.where(union > 0, hits / np.maximum(union, 1), 1.0))


def intersection_over_union(a: Numbers, b: Numbers) -> Reals:
    """Pair by pair, as 32-bit floats unless the boxes are 64-bit; 0 where neither box has an area."""
    dtype = np.float64 if np.float64 in (a.dtype, b.dtype) else np.float32
    a, b = a.astype(dtype), b.astype(dtype)
    sides = np.maximum(np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2]), 0)
    inner = sides[:, 0] * sides[:, 1]
    union = _area(a) + _area(b) - inner
    return np.asarray(np.divide(inner, union, out=np.zeros(len(a), dtype), where=union > 0))


def _area(boxes: Numbers) -> Numbers:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def _lengths(lists: Sequence[Numbers]) -> Ints:
    return np.asarray([len(boxes) for boxes in lists], np.int64)


def _stack(lists: Sequence[Numbers]) -> Numbers:
    filled = [boxes.reshape(-1, 4) for boxes in lists if len(boxes)]
    return np.concatenate(filled) if filled else np.zeros((0, 4), np.float32)


def box_lists(column: Strs) -> list[Boxes]:
    """The true boxes of every item, M × 4."""
    row, box = boxes_of(column)
    return np.split(box, np.searchsorted(row, np.arange(1, len(column)))) if len(column) else []


def domain_items(values: Floats, domain: Ints) -> Floats:
    """Contributions to the mean over domains of each one's mean; their mean over all items is that mean.

        c_i = M + n / (D n_d) √(n_d / (n_d − 1)) (v_i − m_d)

    Domains are fixed, so only the variation of items within them counts; the single item of a domain varies by its
    difference from M.
    """
    codes, code, size = np.unique(domain, return_inverse=True, return_counts=True)
    domain_size = np.bincount(code)[code]
    within = np.stack([np.bincount(code, run) / size for run in values])
    mean = within.mean(axis=1, keepdims=True)
    deviation = values - np.where(domain_size > 1, within[:, code], mean)
    deviation *= values.shape[1] / (len(codes) * domain_size) * np.sqrt(domain_size / np.maximum(domain_size - 1, 1))
    return np.asarray(mean + deviation - deviation.mean(axis=1, keepdims=True))


# Tokens: Py150

KINDS = ("class", "method", "punctuation", "keyword", "builtin", "literal", "other_identifier")
"""Py150's kinds of token, in the order of their codes."""
HEADLINE = (0, 1)
"""The kinds that the headline pools: names of classes and of methods."""


class Places(NamedTuple):
    """The next token at every place and its kind, items × places; NO_LABEL where there is none or it is masked.

    A token without a label is masked: it is of no kind. Tokens count alike, whichever snippet they stand in.
    """

    label: Ints
    kind: Ints
    kinds: bool = True  # whether tokens have a kind; else all count

    @staticmethod
    def of(tokens: Strs, kinds: Strs | None) -> "Places":
        label = tokens_of(tokens)[:, 1:]
        if kinds is None:
            return Places(label, np.where(label == NO_LABEL, NO_LABEL, HEADLINE[0]), kinds=False)
        width = label.shape[1]
        kind = np.full(label.shape, NO_LABEL)
        known = kinds_of(kinds)[:, 1:1 + width]
        kind[:, :known.shape[1]] = known
        return Places(np.where(kind == NO_LABEL, NO_LABEL, label), np.where(label == NO_LABEL, NO_LABEL, kind))

    def hits(self, answers: Answers) -> Bools:
        """Where the answer is right; answers beyond the last label are ignored."""
        flat, start = answers.values[TOKENS]
        width = self.label.shape[1]
        asked = (width - (self.label != NO_LABEL)[:, ::-1].argmax(axis=1)) * (self.label != NO_LABEL).any(axis=1)
        for row in np.flatnonzero(np.diff(start) < asked)[:1]:
            raise ShiftBenchError(f"Item '{answers.item[row]}' has {start[row + 1] - start[row]} answers but labels at "
                                  f"{asked[row]} places. Give the next token at every place.")
        if not len(flat):
            return np.zeros(self.label.shape, np.bool_)
        position = np.minimum(start[:-1, None] + np.arange(width), len(flat) - 1)
        return np.asarray((flat[position] == self.label) & (self.label != NO_LABEL))


def token_hits(label: Numbers, predicted: Numbers) -> Floats:
    """1 where the token is right, 0 where it is wrong, NaN where there is no label."""
    return np.where(np.isnan(label), np.nan, label == predicted)


def ratio_items(right: Floats, count: Ints, group: Ints) -> Floats:
    """Contributions to R = Σ right / Σ count within each group: c_i = R + (right_i − R count_i) / mean count."""
    n_groups = int(group.max(initial=-1)) + 1
    tokens, files = np.bincount(group, count, n_groups), np.bincount(group, minlength=n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.stack([np.bincount(group, run, n_groups) / tokens for run in right])[:, group]
        return np.asarray(rate + (right - rate * count) / (tokens / files)[group])


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


def percentile_over_groups(values: Floats, q: float = 10.0) -> float:
    """The q-th percentile of the groups that have a value, instead of the worst; NaN where none has (Amazon's users).

    With G groups the minimum falls as G grows, whatever the model; a percentile does not. Every group weighs the same,
    be it of one item or of a thousand; between two groups the value is interpolated linearly, as numpy does.

    >>> percentile_over_groups(np.array([0.0, math.nan, 0.5, 1.0]))
    0.1
    """
    defined = values[~np.isnan(values)]
    return float(np.percentile(defined, q)) if len(defined) else math.nan
