"""What every shift shares: the table of shifts, their interface, and what a card says of train and test."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.rng import uniform
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
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


# Dealing items to splits: how many of each cell, and which. Shared by every shift that draws.

def quota(n: int, shares: Floats) -> Ints:
    """n places by shares that sum to 1, by largest remainder: whole numbers that sum to n, each within one of n·share.

    >>> quota(10, np.array([0.55, 0.45])).tolist()
    [6, 4]
    """
    exact = n * np.asarray(shares, np.float64)
    floor = np.floor(exact + 1e-9).astype(np.int64)
    # Rounding the remainders makes ties exact, so that the earlier cell wins them on every machine.
    order = np.argsort(-np.round(exact - floor, 9), kind="stable")
    floor[order[: n - int(floor.sum())]] += 1
    return floor


def spread(n: int, available: Ints) -> Ints:
    """n places as evenly as the available numbers allow: what one cell lacks, the others make up.

    >>> spread(10, np.array([2, 9, 9])).tolist()
    [2, 4, 4]
    """
    level = largest(lambda height: int(np.minimum(available, height).sum()) <= n, int(available.max(initial=0)))
    taken = np.minimum(available, level)
    taken[np.flatnonzero(available > level)[: n - int(taken.sum())]] += 1
    return taken


def deal(rows: Ints, cell: Ints, wanted: Mapping[str, Ints], seed: int, names: tuple[str, ...]) -> tuple[Ints, Strs]:
    """Deal each row at most once: `wanted[split][c]` rows of cell c go to each split, in the order of `wanted`.

    A row's place in the queue is a number of its own, `uniform(seed, "deal", row)`: asking for one more item, or adding
    a cell, moves no other item. Splits listed first are served first and stay the same when later ones grow.
    """
    bounds = np.cumsum(np.stack([np.asarray(counts, np.int64) for counts in wanted.values()]), axis=0)
    available = np.bincount(cell, minlength=bounds.shape[1])
    short = np.flatnonzero(available < bounds[-1])
    if short.size:
        worst = short[np.argmax((bounds[-1] - available)[short])]
        asked = " + ".join(f"{counts[worst]} for {split}" for split, counts in wanted.items())
        raise ShiftBenchError(f"Group '{names[worst]}' has {available[worst]} items, but {asked} are asked for. "
                              "Lower the sizes, or use a larger collection.")
    order = np.lexsort((rows, uniform(seed, "deal", rows), cell))
    start = np.searchsorted(cell[order], np.arange(bounds.shape[1]))
    rank = np.arange(len(order)) - start[cell[order]]
    place = (bounds[:, cell[order]] <= rank).sum(axis=0)
    kept = place < len(wanted)
    return rows[order[kept]], np.asarray(list(wanted), np.str_)[place[kept]]


def remainder(available: Ints, train: Ints) -> dict[str, Ints]:
    """What to deal when training takes a part of each cell: the rest goes in halves to `id_val` and `id_test`."""
    left = available - train
    return {"train": train, "id_val": left // 2, "id_test": left - left // 2}


def largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest n up to `most` for which `fits(n)`, where fitting n means fitting every smaller number."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
