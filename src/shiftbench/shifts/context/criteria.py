"""A criterion gives every item a label, a domain and a kind, and facts for the card (Madras & Zemel, 2021).

By areas (§3.1.1, see `cues`), by gist (§3.1.2: captions unlike those of a class's usual scenes), by the published
lists, or by a question about factors.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.shifts.context.challenge_sets import SIZES, kinds_by_list, read_lists
from shiftbench.shifts.context.cues import (
    HARD_NEGATIVE,
    HARD_POSITIVE,
    KINDS,
    Codes,
    alike,
    areas,
    cues,
    cues_of,
    members,
    strengths,
    words,
)
from shiftbench.shifts.context.expression import holds

if TYPE_CHECKING:
    from shiftbench.shifts.context.out_of_context import Context

DIGITS = 6  # further ones differ from machine to machine; rounded, they are ties, and the items' order decides
BLOCK = 1 << 15  # captions at a time
Vectors = npt.NDArray[np.float32]


class Judged(NamedTuple):
    """One value per item of the collection."""

    label: Strs
    domain: Strs
    kind: Strs
    facts: dict[str, Any]
    notes: list[str]


class _CueTask(NamedTuple):
    """A binary task by the CE criterion."""

    carried: Bools
    kind: Codes
    domain: Strs
    beta: float
    facts: dict[str, Any]
    note: str


def by_areas(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The CE criterion: cues by_cues on the training items, hard items by their areas."""
    by_cues = _by_cues(shift, collection, split)
    return Judged(_two(shift.label, by_cues.carried), by_cues.domain, words(by_cues.kind), {
        "positive": shift.label, "criterion": {"name": "ce", "alpha": shift.alpha, "beta": by_cues.beta},
        **by_cues.facts}, [by_cues.note])


def by_gist(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The gist criterion: captions near to, or far from, those of training positives."""
    if not len(collection.texts.item):
        raise ShiftBenchError(f"Collection '{collection.name}' has no captions, so its items have no gist. Read a "
                              "captions file beside the others, or choose criterion 'ce'.")
    by_cues: _CueTask | None = None
    if shift.tau is None or not shift.cue:  # with both, tau says what is hard and cue what the domains are
        try:
            by_cues = _by_cues(shift, collection, split)
        except ShiftBenchError:
            if shift.tau is None:  # the sizes of the CE sets are needed; with tau the domains alone
                raise
    carried, train = by_cues.carried if by_cues else _tag(collection, shift.label), split == "train"
    gist = gists(*_vectors(shift, collection), len(collection))
    if not (carried & train & gist.known).any():
        raise ShiftBenchError(f"No training item that carries '{shift.label}' has a caption, so its usual gist is "
                              "unknown. Read captions for them, or choose another label.")
    near = similarities(gist, carried, train)
    silent = int((~gist.known).sum())
    notes = [f"{silent} items have no captions and are in neither hard set."] if silent else []
    tau: Any = shift.tau
    if shift.tau is not None:
        kind = words(below_above(near, carried, shift.tau))
    else:
        assert by_cues is not None
        same_size = matched(near, carried, split, by_cues.kind)
        kind, tau = words(same_size.kind), same_size.tau
        if same_size.short:
            notes.append(f"{same_size.short} hard items fewer than criterion 'ce' has: too few items have captions.")
    facts: dict[str, Any] = {"positive": shift.label, "criterion": {
        "name": "gist", "tau": tau, "encoder": shift.encoder or "all-minilm-l6-v2"}, "without_captions": silent}
    if by_cues:
        facts["criterion"] |= {"alpha": shift.alpha, "beta": by_cues.beta}
        facts |= by_cues.facts
        notes.insert(0, by_cues.note)
    domain = by_cues.domain if by_cues else np.where(kind == "easy", "easy", "hard")
    if shift.tau is not None and shift.cue:
        domain, facts["environment"] = _two(shift.cue, _tag(collection, shift.cue)), shift.cue
    return Judged(_two(shift.label, carried), domain, kind, facts, notes)


def by_lists(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The published lists say what is hard in validation and test. They are silent on training, where CE is ours."""
    by_cues, notes = None, []
    try:
        by_cues = _by_cues(shift, collection, split)
        notes.append(by_cues.note)
    except ShiftBenchError as problem:
        if shift.cue:
            raise
        notes.append(f"No environments: {problem}")
    carried = by_cues.carried if by_cues else _tag(collection, shift.label)
    ours = by_cues is not None and shift.criterion == "ce"
    kind = words(by_cues.kind) if by_cues and ours else np.full(len(split), "easy", "U13")
    if not ours:
        notes.append("The lists are silent on training, so all its rows are easy.")
    absent = 0
    for name, phase in (("id_val", "valid"), ("test", "test")):
        ids = read_lists(shift.lists, shift.criterion, shift.label, phase)
        sizes = SIZES.get(shift.label, ())[2 * (phase == "test"):][:2]
        if sizes and sizes != (len(ids.positive), len(ids.negative)):
            notes.append(f"The lists for {phase} have {len(ids.positive)} hard positives and {len(ids.negative)} hard "
                         f"negatives; the published ones have {sizes[0]} and {sizes[1]}.")
        by_list = kinds_by_list(collection.items, ids)
        for row in np.flatnonzero((by_list != "easy") & (split != name))[:1]:
            raise ShiftBenchError(f"{shift.lists}: image {collection.items[row]} is listed for {phase}, but it is not "
                                  "in that split. Name the lists' own: split = 'cocostuff_split_image_ids.npz'.")
        kind = np.where(split == name, by_list, kind)
        absent += sum(map(len, ids)) - int((by_list != "easy").sum())
    odd = int((((kind == "hard_positive") & ~carried) | ((kind == "hard_negative") & carried)).sum())
    notes += [f"{absent} listed images are not in the collection."] if absent else []
    notes += [f"{odd} listed images have another label than their list says."] if odd else []
    domain = by_cues.domain if by_cues else np.where(kind == "easy", "easy", "hard")
    return Judged(_two(shift.label, carried), domain, kind,
                  {"positive": shift.label, "criterion": {"name": f"published {shift.criterion}"},
                   **(by_cues.facts if by_cues else {})}, notes)


def by_expression(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """A question about factors: φ = 1 is hard. The positive of a label with two values is the second in order."""
    if re.fullmatch(r"\w+", shift.criterion) and shift.criterion not in collection.factors:
        raise unknown("criterion", shift.criterion, ["ce", "gist", *collection.factors], "Write ce, gist or a question")
    hard = holds(collection, shift.criterion)
    if not hard.any() or hard.all():
        raise ShiftBenchError(f"Criterion '{shift.criterion}' is true of {'all' if hard.all() else 'none'} of the "
                              f"{len(hard)} items. It must part them in easy and hard ones.")
    if shift.label in collection.factors or ":" in shift.label:
        label = collection.factor(shift.label).astype(np.str_)
        names = np.unique(label).tolist()
        positive = names[1] if len(names) == 2 else ""
    else:
        label, positive = _two(shift.label, _tag(collection, shift.label)), shift.label
    sides = np.where(label == positive, "hard_positive", "hard_negative") if positive else np.full(len(label), "hard")
    return Judged(label, np.where(hard, "hard", "easy"), np.where(hard, sides, "easy"),
                  {"positive": positive or None, "criterion": {"name": "factors", "question": shift.criterion}}, [])


def _by_cues(shift: "Context", collection: Collection, split: Strs) -> _CueTask:
    table = areas(collection, shift.kinds, shift.without, shift.label)
    label = table.code(shift.label)
    strength = strengths(table, split == "train")
    strong = cues_of(table, strength, label, shift.alpha)
    cue, carried = cues(strength, shift.alpha), table.carried(label)
    beta = shift.beta if isinstance(shift.beta, float) else alike(table, cue[label], carried, split == "train")
    kind = members(table, cue, beta, np.asarray([label]))[:, 0]
    strongest = shift.cue or strong[0].tag
    domain = np.where(table.present(table.code(strongest)), strongest, f"no {strongest}")
    listed = in_short((f"{cue.tag} ({cue.strength:.3f})" for cue in strong), 12)
    return _CueTask(carried, kind, domain, beta,
                    {"environment": strongest, "cues": [cue._asdict() for cue in strong]},
                    f"Cues of '{shift.label}' with A(C, Y): {listed}.")


def _tag(collection: Collection, name: str) -> Bools:
    carried = np.zeros(len(collection), np.bool_)
    carried[collection.with_tag(name)] = True
    return carried


def _two(name: str, carried: Bools) -> Strs:
    return np.where(carried, name, f"no {name}")


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


def matched(similarity: Floats, carried: Bools, split: Strs, like: Codes) -> Matched:
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
