"""Items by subclass: which one each belongs to, on which side it stands, and how its items are dealt to splits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.hierarchies.superclasses import Superclasses
from shiftbench.shifts.shift import deal

TRAINED, TESTED = ("train",), ("val", "valid", "validation", "test")
"""The words for a split of the data's own."""


class Side(NamedTuple):
    """For every subclass: its superclass, its domain's number from 1, and whether it is of the source, the target or
    both."""

    superclass: Ints
    domain: Ints
    source: Bools
    target: Bools
    names: tuple[str, ...]

    @property
    def word(self) -> Strs:
        return np.where(self.source, "source", "target")

    @staticmethod
    def of(chosen: Superclasses) -> "Side":
        """Where one superclass has more subclasses than another, several of its own share a domain."""
        n = len(chosen.subclasses)
        number = {node: code for code, node in enumerate(chosen.subclasses)}
        made = Side(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.bool_),
                    tuple(chosen.title(node) for node in chosen.subclasses))
        both = not any(chosen.target)
        for sides, flag in ((chosen.source, made.source), (chosen.target, made.target)):
            fewest = max(1, min(map(len, sides)))
            for code, side in enumerate(sides):
                for place, node in enumerate(side):
                    made.superclass[number[node]] = code
                    made.domain[number[node]] = place % fewest + 1
                    flag[number[node]] = True
        return made._replace(target=made.source) if both else made


def known_classes(collection: Collection, label: str) -> Strs:
    """The classes a collection has: the values of a factor, or its tags."""
    if label:
        return np.unique(collection.factor(label).astype(np.str_))
    if not len(collection.tags.tag):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tags. Name the factor that holds its classes "
                              f"with 'label'; its factors: {', '.join(collection.factors) or 'none'}.")
    return np.asarray(sorted(collection.tags.names), np.str_)


def subclass_of(
    collection: Collection, label: str, ids: Mapping[str, str], subclasses: Sequence[str], sides: Side
) -> tuple[Ints, int]:
    """For every item the number of its subclass, -1 where it has none, and how many are ambiguous and so have none.

    An item with several tags is ambiguous when they are of two superclasses or of both sides; else the first counts.
    """
    wanted = np.asarray(subclasses, np.str_)

    def numbers(words: Sequence[str]) -> Ints:
        return positions(np.asarray([ids.get(word, "\0") for word in words], np.str_), wanted)

    if label:
        values, codes = np.unique(collection.factor(label).astype(np.str_), return_inverse=True)
        return numbers(values.tolist())[codes], 0
    tags = collection.tags
    number = numbers(tags.names)[tags.tag]
    rows = np.flatnonzero(number >= 0)
    rows = rows[np.lexsort((-number[rows], tags.item[rows]))]
    item, own = tags.item[rows], number[rows]
    cells = np.unique(item * (2 * len(wanted)) + sides.superclass[own] * 2 + sides.source[own])
    times = np.bincount(cells // (2 * len(wanted)), minlength=len(collection))
    leaf = np.full(len(collection), -1, np.int64)
    leaf[item] = own  # of one item the last is written last, and that is its first
    leaf[times > 1] = -1
    return leaf, int((times > 1).sum())


def dealt(
    collection: Collection, leaf: Ints, sides: Side, given: str, held: float, seed: int
) -> tuple[Ints, Strs]:
    """Rows and their splits. With a split of the data's own, its training items are held back from alone.

    A share `held` of every subclass goes to each held-out split, one item at least.
    """
    rows = np.flatnonzero(leaf >= 0)
    if not given:
        n = np.bincount(leaf[rows], minlength=len(sides.names))
        _enough(n, 4 if (sides.source & sides.target).any() else 3, sides.names, "items")
        part = np.maximum(1, (n * held).astype(np.int64))
        return deal(rows, leaf[rows], _wanted(n, part, part, sides), seed, sides.names)
    word = collection.factor(given).astype(np.str_)[rows]
    for strange in np.setdiff1d(word, (*TRAINED, *TESTED))[:1]:
        raise unknown("split", str(strange), (*TRAINED, *TESTED), f"Factor '{given}'")
    trained = np.isin(word, TRAINED)
    n, tested = (np.bincount(leaf[rows[where]], minlength=len(sides.names)) for where in (trained, ~trained))
    _enough(n, 2, sides.names, "training items")
    _enough(tested, 2 if (sides.source & sides.target).any() else 1, sides.names, "validation items")
    part = np.maximum(1, (n * held).astype(np.int64))
    nothing = np.zeros_like(n)
    parts = [deal(rows[where], leaf[rows[where]], wanted, seed, sides.names) for where, wanted in (
        (trained, _wanted(n, part, nothing, sides)), (~trained, _wanted(tested, nothing, tested, sides)))]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _wanted(n: Ints, val: Ints, test: Ints, sides: Side) -> dict[str, Ints]:
    """How many of each subclass go to each split. Where source and target are the same, their test items are halved
    when they come from one pool of test items, and there is nothing to adapt with."""
    both = sides.source & sides.target
    if both.any():
        out = np.where(test == n, test // 2, test)
        inside = np.where(test == n, test - test // 2, test)
        return {"test": out, "id_test": inside, "id_val": val, "train": np.maximum(0, n - out - inside - val)}
    source, target = sides.source.astype(np.int64), sides.target.astype(np.int64)
    left = n - val - test
    return {"test": test * target, "val": val * target, "id_test": test * source, "id_val": val * source,
            "train": left * source, "target_train": left * target}


def _enough(n: Ints, least: int, names: Sequence[str], what: str) -> None:
    few = np.flatnonzero(n < least)
    if few.size:
        listed = ", ".join(f"{names[code]} ({n[code]})" for code in few[:20].tolist())
        more = f" and {len(few) - 20} more" if len(few) > 20 else ""
        raise ShiftBenchError(f"Fewer than {least} {what} have the subclasses {listed}{more}. Add items, or leave "
                              "these classes out of the hierarchy.")
