"""Benchmarks that keep every item: the data say which side of the shift an item is on, chance only what is held out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.rng import uniform
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.asked import truth_of
from shiftbench.shifts.parts import pick
from shiftbench.shifts.shift import ambiguous, card

TRAIN, VAL, TEST = "train", "val", "test"


def candidates(shift: Any, collection: Collection) -> tuple[Ints, list[str]]:
    """The items of the classes that are kept, less those that carry the tags of two of them, and a note on these."""
    rows = np.arange(len(collection))
    if shift.target != "class":
        if shift.classes:
            raise ShiftBenchError(f"{shift.name}: 'classes' keeps values of a label, but the target is {shift.target}. "
                                  "Leave it out.")
        return rows, []
    label = collection.factor(shift.label).astype(np.str_)
    names = tuple(np.unique(label).tolist())
    kept = [names[code] for code in pick(shift.classes, names, shift.label)] if shift.classes else list(names)
    rows = rows[np.isin(label, kept)]
    left = np.setdiff1d(rows, ambiguous(collection, kept))
    two = len(rows) - len(left)
    return left, [f"{two} items carry the tags of two of the classes and were dropped."] if two else []


def dealt(shift: Any, collection: Collection, seed: int, rows: Ints, side: Strs, domain: Values,
          notes: Sequence[str] = (), **facts: Any) -> Benchmark:
    """A benchmark of all rows, each of which is on the side `train`, `val` or `test` of the shift.

    `held` of the items on the side of training become id_val, as many id_test; `ood` of those on the side of test
    become val. Each item goes by chance, by a number that depends on the seed and its place in the collection alone: it
    is held out in every benchmark in whose training domains it is, and a larger share adds items and moves none.
    """
    if not 0 <= shift.held < 0.5:
        raise ShiftBenchError(f"{shift.name}: 'held' is {shift.held}, but two such shares must leave items to train "
                              "on. Give 0 or more, and less than 0.5.")
    if not 0 <= shift.ood < 1:
        raise ShiftBenchError(f"{shift.name}: 'ood' is {shift.ood}, but it is a share of the test items. Give 0 or "
                              "more, and less than 1.")
    place = uniform(seed, "held", rows)
    inside, after = side == TRAIN, side == TEST
    split = side.astype("U8")
    split[inside & (place >= 1 - shift.held)] = "id_test"
    split[inside & (place < shift.held)] = "id_val"
    split[after & (place < shift.ood)] = VAL
    label, target, extra = truth_of(collection, rows, shift.target, shift.label)
    for part, least in ((TRAIN, 1 if target else 2), (TEST, 1)):
        if len(np.unique(label[split == part])) < least:
            what = "a single class" if (split == part).any() else "no items"
            raise ShiftBenchError(f"{shift.name}: '{part}' has {what}. Choose another {shift.moves}, or smaller "
                                  "shares.")
    lost = np.setdiff1d(label[split == TEST], label[split == TRAIN]).tolist()
    said = [*notes, *(f"Class '{name}' is tested, but training has none of it." for name in lost)]
    return Benchmark.of(collection, shift, seed, rows, split, label=label, domain=domain, extra=extra, target=target,
                        card=card(collection, rows, split, said, **facts))
