"""What every shift shares: the table of shifts, their interface, and what a card says of train and test."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from shiftbench.arrays import Ints, Strs
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.metagraph.explain import differences

SHIFTS: dict[str, Any] = {}


class Shift(Protocol):
    """The rule by which training and test items are drawn from a collection: frozen parameters and one verb."""

    def build(self, collection: Collection, seed: int = 0) -> Benchmark: ...


def card(collection: Collection, rows: Ints, split: Strs, notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The part of a card that needs the collection: which tags differ most between train and test."""
    train, test = rows[split == "train"], rows[split == "test"]
    explained = differences(collection, train, test) if len(train) and len(test) and len(collection.tags.tag) else []
    return {"explanation": explained, "notes": list(notes), **more}


def ambiguous(collection: Collection, classes: Sequence[str]) -> Ints:
    """Numbers of the items that carry the tags of two or more of the classes: their label would be a guess."""
    known = [name for name in classes if name in collection.tags.names]
    times = np.zeros(len(collection), np.int64)
    for name in known:
        times[collection.with_tag(name)] += 1
    return np.flatnonzero(times > 1)
