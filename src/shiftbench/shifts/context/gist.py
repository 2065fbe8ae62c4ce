"""The gist criterion: captions unlike those of a class's usual scenes (Madras & Zemel, 2021, §3.1.2)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.shifts.context.cues import HARD_NEGATIVE, HARD_POSITIVE, KINDS, Codes

DIGITS = 6  # further ones differ from machine to machine; rounded, they are ties, and the items' order decides
BLOCK = 1 << 15  # captions at a time


class Gists(NamedTuple):
    """One vector per item, and which items have one; those without captions have none."""

    vectors: Floats
    known: Bools


def gists(item: Ints, vectors: npt.ArrayLike, n_items: int) -> Gists:
    """The mean vector of each item's captions: row r of `vectors` belongs to item number `item[r]`."""
    rows = np.asanyarray(vectors)  # maybe a file that is mapped into memory: it is read block by block
    if rows.ndim != 2 or len(rows) != len(item):
        raise ShiftBenchError(f"Gists need one vector per row: {len(item)} items, but vectors of shape {rows.shape}.")
    count = np.bincount(item, minlength=n_items)
    total = np.zeros((n_items, rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        block = np.asarray(rows[start:start + BLOCK], np.float64)
        if not np.isfinite(block).all():
            raise ShiftBenchError("A caption's vector has NaN or infinite numbers. Check the sentence encoder.")
        np.add.at(total, item[start:start + BLOCK], block)
    total /= np.maximum(count, 1)[:, None]
    return Gists(total, count > 0)


def similarities(gist: Gists, carried: Bools, train: Bools) -> Floats:
    """Cosine of each item's vector to the mean vector of the training items with Y = 1; NaN without captions.

    `carried` is one class's column or items × tasks; the answer has its shape. Our reading: the mean is over training
    positives that have captions. A class without such positives is an error.
    """
    many = carried if carried.ndim == 2 else carried[:, None]
    usual = (many & (train & gist.known)[:, None]).astype(np.float64)
    count = usual.sum(axis=0)
    for task in np.flatnonzero(count == 0)[:1]:
        raise ShiftBenchError(f"No training item of class {task} has a caption, so its usual gist is unknown. Read "
                              "captions for the training items, or choose another label.")
    mean = usual.T @ gist.vectors / count[:, None]
    near = gist.vectors @ (mean / _length(mean)).T / _length(gist.vectors)
    near = np.where(gist.known[:, None], np.round(near, DIGITS), np.nan)
    return near if carried.ndim == 2 else near[:, 0]


def below_above(similarity: Floats, carried: Bools, tau: float) -> Codes:
    """tau-hard positives, Y = 1 and similarity < tau, and tau-hard negatives, Y = 0 and similarity > tau."""
    if not np.isfinite(tau):
        raise ShiftBenchError(f"tau is {tau}, but it must be a cosine, from -1 to 1.")
    kind: Codes = np.where(carried & (similarity < tau), HARD_POSITIVE,
                           np.where(~carried & (similarity > tau), HARD_NEGATIVE, 0)).astype(np.int8)
    return kind


class Matched(NamedTuple):
    """Kinds with as many hard items as another criterion's, the thresholds that gave them, and what could not be."""

    kind: Codes
    tau: Mapping[str, Mapping[str, float]]  # split -> kind -> similarity of the last item that is in
    short: int  # hard items that are lacking, for want of captions


def matched(similarity: Floats, carried: Bools, split: Strs, like: Codes) -> Matched:
    """As many hard positives and negatives in each split as `like` has: the least similar positives, the most similar
    negatives; of equals the first item. The published lists are matched so, split by split."""
    kind: Codes = np.zeros(len(similarity), np.int8)
    tau: dict[str, dict[str, float]] = {}
    short = 0
    for part in np.unique(split).tolist():
        for code, side, sign in ((HARD_POSITIVE, carried, 1.0), (HARD_NEGATIVE, ~carried, -1.0)):
            here = split == part
            n = int((like[here] == code).sum())
            rows = np.flatnonzero(here & side & ~np.isnan(similarity))
            taken = rows[np.argsort(sign * similarity[rows], kind="stable")[:n]]
            kind[taken] = code
            short += n - len(taken)
            if taken.size:
                tau.setdefault(part, {})[KINDS[code]] = float(similarity[taken[-1]])
    return Matched(kind, tau, short)


def _length(vectors: Floats) -> Floats:
    """The length of each vector as a column; 1 for one of length 0, which so is at a right angle to all others."""
    length: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(length > 0, length, 1.0)
