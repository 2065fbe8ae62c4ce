"""Two distributions over the cells of label × factor, one for training and a uniform one for test."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shiftbench.arrays import Floats, Ints, encode
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.shifts.base import ambiguous, card
from shiftbench.shifts.deal import deal, largest, quota

Names = tuple[str, ...]


def mixture(
    shift: Any, collection: Collection, seed: int, classes: Sequence[str], shares: Callable[[Names, Names], Floats]
) -> Benchmark:
    """Deal `train`, `id_val` and `id_test` by `shares(label names, factor values)` and `test` uniformly over the cells.

    The shift names its `label`, `factor` and sizes: `n_train` (0: as many as the cells allow), `n_test` (0: a third of
    n_train), `n_val` for id_val and id_test each (0: a quarter of n_train). Test is dealt first, so that it stays the
    same when the training shares change.
    """
    values = collection.factor(shift.label).astype(np.str_)
    known = np.unique(values).tolist()
    for name in classes:
        if name not in known:
            raise unknown("class", name, known, f"Factor '{shift.label}'")
    chosen = np.flatnonzero(np.isin(values, classes or known))
    rows = np.setdiff1d(chosen, ambiguous(collection, classes or known))
    y, y_names = encode(values[rows])
    a, a_names = encode(collection.factor(shift.factor)[rows])
    if len(a_names) < 2 or len(y_names) < 2:
        few = shift.factor if len(a_names) < 2 else shift.label
        raise ShiftBenchError(f"Factor '{few}' has one value among these {len(rows)} items; a shift needs two.")
    cell = y * len(a_names) + a
    cells = tuple(f"{one}, {other}" for one in y_names for other in a_names)
    available = np.bincount(cell, minlength=len(cells))
    skewed, uniform = shares(y_names, a_names).ravel(), np.full(len(cells), 1 / len(cells))

    def wanted(n: int) -> dict[str, Ints]:
        inside = quota(shift.n_val or n // 4, skewed)
        return {"test": quota(shift.n_test or n // 3, uniform), "id_test": inside, "id_val": inside,
                "train": quota(n, skewed)}

    n_train = shift.n_train or largest(lambda n: bool((sum(wanted(n).values()) <= available).all()), len(rows))
    if (wanted(n_train)["test"] == 0).any():
        empty = cells[int(available.argmin())]
        raise ShiftBenchError(f"Group '{empty}' has {available.min()} items, too few to train and test on. Choose "
                              "other classes or another factor, or use a larger collection.")
    picked, split = deal(rows, cell, wanted(n_train), seed, cells)
    notes = [f"{len(chosen) - len(rows)} items carry the tags of two of the classes and were dropped."]
    return Benchmark.of(collection, shift, seed, picked, split, label=values[picked],
                        domain=collection.factor(shift.factor)[picked].astype(np.str_),
                        card=card(collection, picked, split, notes))


def mate(value: str, values: Names, factor: str) -> int:
    """The code of a factor value that a recipe names."""
    if value not in values:
        raise unknown("value", value, values, f"Factor '{factor}'")
    return values.index(value)


def share(name: str, value: float) -> float:
    """A parameter that must lie in [0, 1]."""
    if not 0 <= value <= 1:
        raise ShiftBenchError(f"{name} = {value}, but it is a share: give a number from 0 to 1.")
    return value
