"""What a criterion says of every item: its label, its domain, its kind, and what the card is to tell of it."""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.shifts.context.cues import Codes, areas, cues, cues_of, members, strengths, words
from shiftbench.shifts.context.expression import holds
from shiftbench.shifts.context.gist import below_above, gists, matched, similarities
from shiftbench.shifts.context.nooch import kinds_by_list, read_lists

if TYPE_CHECKING:
    from shiftbench.shifts.context.out_of_context import Context

Vectors = npt.NDArray[np.float32]


class Judged(NamedTuple):
    """One value per item of the collection."""

    label: Strs
    domain: Strs
    kind: Strs
    facts: dict[str, Any]
    notes: list[str]


class _Found(NamedTuple):
    """A binary task by the CE criterion."""

    carried: Bools
    kind: Codes
    domain: Strs
    facts: dict[str, Any]
    note: str


def by_areas(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The CE criterion: cues found on the training items, hard items by their areas."""
    found = _found(shift, collection, split)
    return Judged(_two(shift.label, found.carried), found.domain, words(found.kind), {
        "positive": shift.label, "criterion": {"name": "ce", "alpha": shift.alpha, "beta": shift.beta},
        **found.facts}, [found.note])


def by_gist(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The gist criterion: captions near to, or far from, those of training positives."""
    if not len(collection.texts.item):
        raise ShiftBenchError(f"Collection '{collection.name}' has no captions, so its items have no gist. Read a "
                              "captions file beside the others, or choose criterion 'ce'.")
    found: _Found | None = None
    if shift.tau is None or not shift.cue:  # with both, tau says what is hard and cue what the domains are
        try:
            found = _found(shift, collection, split)
        except ShiftBenchError:
            if shift.tau is None:  # the sizes of the CE sets are needed; with tau the domains alone
                raise
    carried, train = found.carried if found else _tag(collection, shift.label), split == "train"
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
        assert found is not None
        made = matched(near, carried, split, found.kind)
        kind, tau = words(made.kind), made.tau
        if made.short:
            notes.append(f"{made.short} hard items fewer than criterion 'ce' has, for want of captions.")
    facts: dict[str, Any] = {"positive": shift.label, "criterion": {
        "name": "gist", "tau": tau, "encoder": shift.encoder or "all-minilm-l6-v2"}, "without_captions": silent}
    if found:
        facts["criterion"] |= {"alpha": shift.alpha, "beta": shift.beta}
        facts |= found.facts
        notes.insert(0, found.note)
    domain = found.domain if found else np.where(kind == "easy", "easy", "hard")
    if shift.tau is not None and shift.cue:
        domain, facts["environment"] = _two(shift.cue, _tag(collection, shift.cue)), shift.cue
    return Judged(_two(shift.label, carried), domain, kind, facts, notes)


def by_lists(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """The published lists say what is hard in validation and test. They are silent on training, where CE is ours."""
    found, notes = None, []
    try:
        found = _found(shift, collection, split)
        notes.append(found.note)
    except ShiftBenchError as problem:
        if shift.cue:
            raise
        notes.append(f"No environments: {problem}")
    carried = found.carried if found else _tag(collection, shift.label)
    ours = found is not None and shift.criterion == "ce"
    kind = words(found.kind) if found and ours else np.full(len(split), "easy", "U13")
    if not ours:
        notes.append("The lists are silent on training, so all its rows are easy.")
    absent = 0
    for part, phase in (("id_val", "valid"), ("test", "test")):
        ids = read_lists(shift.lists, shift.criterion, shift.label, phase)
        listed = kinds_by_list(collection.items, ids)
        for row in np.flatnonzero((listed != "easy") & (split != part))[:1]:
            raise ShiftBenchError(f"{shift.lists}: image {collection.items[row]} is listed for {phase}, but it is not "
                                  "in that split. Name the lists' own: split = 'cocostuff_split_image_ids.npz'.")
        kind = np.where(split == part, listed, kind)
        absent += sum(map(len, ids)) - int((listed != "easy").sum())
    odd = int((((kind == "hard_positive") & ~carried) | ((kind == "hard_negative") & carried)).sum())
    notes += [f"{absent} listed images are not in the collection."] if absent else []
    notes += [f"{odd} listed images have another label than their list says."] if odd else []
    return Judged(_two(shift.label, carried), found.domain if found else np.where(kind == "easy", "easy", "hard"), kind,
                  {"positive": shift.label, "criterion": {"name": f"published {shift.criterion}"},
                   **(found.facts if found else {})}, notes)


def by_expression(shift: "Context", collection: Collection, split: Strs) -> Judged:
    """A question about factors: φ = 1 is hard. Of a label with two values, the second in order is the positive."""
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


def _found(shift: "Context", collection: Collection, split: Strs) -> _Found:
    table = areas(collection, shift.kinds, shift.without, shift.label)
    label = table.code(shift.label)
    strength = strengths(table, split == "train")
    listed = cues_of(table, strength, label, shift.alpha)
    kind = members(table, cues(strength, shift.alpha), shift.beta, np.asarray([label]))[:, 0]
    strongest = shift.cue or listed[0].tag
    domain = np.where(table.present(table.code(strongest)), strongest, f"no {strongest}")
    said = ", ".join(f"{cue.tag} ({cue.strength:.3f})" for cue in listed[:12])
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    return _Found(table.carried(label), kind, domain,
                  {"environment": strongest, "cues": [cue._asdict() for cue in listed]},
                  f"Cues of '{shift.label}' with A(C, Y): {said}{more}.")


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
