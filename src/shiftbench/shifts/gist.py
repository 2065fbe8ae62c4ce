"""The gist criterion (Madras & Zemel, 2021, §3.1.2): captions unlike those of a class's usual scenes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.shifts.cues import (
    HARD_NEGATIVE,
    HARD_POSITIVE,
    KINDS,
    Codes,
    Judged,
    by_areas,
    carrying,
    words,
    yes_or_no,
)

if TYPE_CHECKING:
    from shiftbench.shifts.out_of_context import Context

DIGITS = 6  # further ones differ from machine to machine; rounded, they are ties, and the items' order decides
BLOCK = 1 << 15  # captions at a time
Vectors = npt.NDArray[np.float32]


def by_gist(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The gist criterion: captions near to, or far from, those of training positives."""
    if not len(collection.texts.item):
        raise ShiftBenchError(f"Collection '{collection.name}' has no captions, so its items have no gist. Read a "
                              "captions file beside the others, or choose criterion 'ce'.")
    ce: Judged | None = None
    if shift.tau is None or not shift.cue:  # with both, tau says what is hard and cue what the domains are
        try:
            ce = by_areas(shift, collection, split)
        except ShiftBenchError:
            if shift.tau is None:  # the sizes of the CE sets are needed; with tau the domains alone
                raise
    carried = carrying(collection, shift.label) if ce is None else ce.label == shift.label
    train = split == "train"
    gist = gists(*_vectors(shift, collection), len(collection))
    if not (carried & train & gist.known).any():
        raise ShiftBenchError(f"No training item that carries '{shift.label}' has a caption, so its usual gist is "
                              "unknown. Read captions for them, or choose another label.")
    near = similarities(gist, carried, train)
    silent = int((~gist.known).sum())
    notes = [*(ce.notes if ce else []),
             *([f"{silent} items have no captions and are in neither hard set."] if silent else [])]
    tau: Any = shift.tau
    if shift.tau is not None:
        kind = words(below_above(near, carried, shift.tau))
    else:
        assert ce is not None
        same_size = matched(near, carried, split, positions(ce.kind, np.asarray(KINDS)))
        kind, tau = words(same_size.kind), same_size.tau
        if same_size.short:
            notes.append(f"{same_size.short} hard items fewer than criterion 'ce' has: too few items have captions.")
    facts: dict[str, Any] = {"positive": shift.label, "criterion": {
        "name": "gist", "tau": tau, "encoder": shift.encoder or "all-minilm-l6-v2"}, "without_captions": silent}
    domain = np.where(kind == "easy", "easy", "hard")
    if ce:
        domain, criterion = ce.domain, {**facts["criterion"], **ce.facts["criterion"], "name": "gist"}
        facts = {**facts, **ce.facts, "criterion": criterion}
    if shift.tau is not None and shift.cue:
        domain, facts["environment"] = yes_or_no(shift.cue, carrying(collection, shift.cue)), shift.cue
    return Judged(yes_or_no(shift.label, carried), domain, kind, facts, notes)


_LAST: dict[tuple[str, str], tuple[Ints, Vectors]] = {}
"""The captions that were embedded last: a suite asks for the same ones twelve times."""


def _vectors(shift: "Context", collection: Collection) -> tuple[Ints, Vectors]:
    """The mean caption vector of each item that has captions, kept beside a collection that knows its folder."""
    from shiftbench.text import DEFAULT, embed_texts, encoder

    chosen = encoder(shift.encoder or DEFAULT)
    key = (collection.digest, chosen.key)
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = embed_texts(collection, chosen, collection.home)
    return _LAST[key]


# The gist: mean caption vectors, and how near each is to that of a class's usual scenes.

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
    short: int  # hard items that are missing because too few items have captions


def matched(similarity: Floats, carried: Bools, split: Strs, like: npt.NDArray[np.integer]) -> Matched:
    """As many hard positives and negatives in each split as `like` has: the least similar positives, the most similar
    negatives; of equals the first item. The published lists are matched so, split by split."""
    kind: Codes = np.zeros(len(similarity), np.int8)
    tau: dict[str, dict[str, float]] = {}
    short = 0
    for name in np.unique(split).tolist():
        here = split == name
        for code, side, sign in ((HARD_POSITIVE, carried, 1.0), (HARD_NEGATIVE, ~carried, -1.0)):
            n = int((like[here] == code).sum())
            rows = np.flatnonzero(here & side & ~np.isnan(similarity))
            hard = rows[np.argsort(sign * similarity[rows], kind="stable")[:n]]
            kind[hard] = code
            short += n - len(hard)
            if hard.size:
                tau.setdefault(name, {})[KINDS[code]] = float(similarity[hard[-1]])
    return Matched(kind, tau, short)


def _length(vectors: Floats) -> Floats:
    """The length of each vector as a column; 1 for one of length 0, which is then at a right angle to all."""
    length: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(length > 0, length, 1.0)
