"""Accuracy of a detector of one kind of thing, image by image; the metric of GlobalWheat.

The predicted boxes of an image with a score above ½ are kept. Each goes to the true box with which it shares most
(the first of equals), if their intersection over union is at least ½; no box looks for a second best. With TP the true
boxes that are found so, P the boxes kept and T the true ones:

    accuracy = TP / (P + T − TP)        (TP / (TP + FP + FN): a second box on the same thing is a false positive),

and 1 for an image with nothing to find in which nothing is found.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.target import Boxes, boxes_of

Reals = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.number]
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
    """The accuracy of every image; boxes are (left, top, right, bottom), one array of them per image.

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


def intersection_over_union(a: Numbers, b: Numbers) -> Reals:
    """Pair by pair, as 32-bit floats unless the boxes are 64-bit; 0 where neither box has an area."""
    kind = np.float64 if np.float64 in (a.dtype, b.dtype) else np.float32
    a, b = a.astype(kind), b.astype(kind)
    sides = np.maximum(np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2]), 0)
    inner = sides[:, 0] * sides[:, 1]
    union = _area(a) + _area(b) - inner
    return np.asarray(np.divide(inner, union, out=np.zeros(len(a), kind), where=union > 0))


def box_lists(column: Strs) -> list[Boxes]:
    """The true boxes of every item, M × 4."""
    row, box = boxes_of(column)
    return np.split(box, np.searchsorted(row, np.arange(1, len(column)))) if len(column) else []


def domain_items(values: Floats, domain: Ints) -> Floats:
    """Contributions to the mean over domains of each one's mean; their mean over all items is that mean.

        c_i = M + n / (D n_d) √(n_d / (n_d − 1)) (v_i − m_d)

    Domains are taken as given, so only what items vary within them counts; the one item of a domain varies as much as
    it differs from M.
    """
    codes, code, size = np.unique(domain, return_inverse=True, return_counts=True)
    many = np.bincount(code)[code]
    within = np.stack([np.bincount(code, one) / size for one in values])
    mean = within.mean(axis=1, keepdims=True)
    apart = values - np.where(many > 1, within[:, code], mean)
    apart *= values.shape[1] / (len(codes) * many) * np.sqrt(many / np.maximum(many - 1, 1))
    return np.asarray(mean + apart - apart.mean(axis=1, keepdims=True))


def _accuracy(truth: Sequence[Numbers], kept: Sequence[Numbers], overlap: float) -> Floats:
    n_true, n_kept = _lengths(truth), _lengths(kept)
    image = np.repeat(np.arange(len(truth)), n_kept)
    choices = n_true[image]  # true boxes that each predicted box may go to
    pair = np.repeat(np.arange(len(image)), choices)
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(choices) - choices, choices)
    other = (np.cumsum(n_true) - n_true)[image[pair]] + nth
    share = intersection_over_union(_stack(truth)[other], _stack(kept)[pair])
    begin = np.flatnonzero(nth == 0)  # a predicted box's choices lie side by side
    most = np.repeat(np.maximum.reduceat(share, begin), choices[choices > 0]) if len(begin) else share
    best = np.flatnonzero((share == most) & (share >= overlap))
    best = best[np.unique(pair[best], return_index=True)[1]]  # the first of equals
    matched = np.unique(other[best])
    hits = np.bincount(np.repeat(np.arange(len(truth)), n_true)[matched], minlength=len(truth))
    either = n_true + n_kept - hits
    return np.asarray(np.where(either > 0, hits / np.maximum(either, 1), 1.0))


def _lengths(parts: Sequence[Numbers]) -> Ints:
    return np.asarray([len(part) for part in parts], np.int64)


def _stack(parts: Sequence[Numbers]) -> Numbers:
    filled = [part.reshape(-1, 4) for part in parts if len(part)]
    return np.concatenate(filled) if filled else np.zeros((0, 4), np.float32)


def _area(boxes: Numbers) -> Numbers:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
