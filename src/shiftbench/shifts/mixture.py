"""Two distributions over the cells of label × factor, one for training and a uniform one for test."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shiftbench.arrays import Floats, Ints, encode
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.shifts.base import ambiguous, card
from shiftbench.shifts.deal import deal, largest, quota, remainder

Names = tuple[str, ...]


def mixture(
    shift: Any, collection: Collection, seed: int, classes: Sequence[str], shares: Callable[[Names, Names], Floats],
    others: Sequence[str] = (), n_others: int = 0,
) -> Benchmark:
    """Deal `train`, `id_val` and `id_test` by `shares(label names, factor values)` and `test` uniformly over the cells.

    The shift names its `label`, its `factor`, the factor's `values` to keep (none: all) and its sizes: `n_train` (0: as
    many as the cells allow), `n_test` (0: a third of n_train), `n_ood` for val, which is drawn as test is, and `n_val`
    for id_val and id_test each (0: a quarter of n_train). Test is dealt first, so that it stays the same when other
    sizes change. Classes in `others` are trained on, `n_others` items each (0: three fifths of what there is), and not
    tested.
    """
    values = collection.factor(shift.label).astype(np.str_)
    factor = collection.factor(shift.factor).astype(np.str_)
    known = np.unique(values).tolist()
    for name in (*classes, *others):
        if name not in known:
            raise unknown("class", name, known, f"Factor '{shift.label}'")
    told = list(classes or known)
    kept = np.isin(factor, shift.values) if shift.values else np.ones(len(collection), np.bool_)
    dropped = ambiguous(collection, [*told, *others])
    chosen = np.flatnonzero(np.isin(values, told) & kept)
    rows = np.setdiff1d(chosen, dropped)
    y, y_names = encode(values[rows])
    a, a_names = encode(factor[rows])
    if len(a_names) < 2 or len(y_names) < 2:
        few = shift.factor if len(a_names) < 2 else shift.label
        raise ShiftBenchError(f"Factor '{few}' has one value among these {len(rows)} items; a shift needs two.")
    cell = y * len(a_names) + a
    cells = tuple(f"{one}, {other}" for one in y_names for other in a_names)
    available = np.bincount(cell, minlength=len(cells))
    skewed, uniform = shares(y_names, a_names).ravel(), np.full(len(cells), 1 / len(cells))

    def wanted(n: int) -> dict[str, Ints]:
        inside = quota(shift.n_val or n // 4, skewed)
        return {"test": quota(shift.n_test or n // 3, uniform), "val": quota(shift.n_ood, uniform), "id_test": inside,
                "id_val": inside, "train": quota(n, skewed)}

    n_train = shift.n_train or largest(lambda n: bool((sum(wanted(n).values()) <= available).all()), len(rows))
    if (wanted(n_train)["test"] == 0).any():
        empty = cells[int(available.argmin())]
        raise ShiftBenchError(f"Group '{empty}' has {available.min()} items, too few to train and test on. Choose "
                              "other classes or another factor, or use a larger collection.")
    picked, split = deal(rows, cell, wanted(n_train), seed, cells)
    if others:
        more = np.setdiff1d(np.flatnonzero(np.isin(values, others) & kept), dropped)
        code, names = encode(values[more])
        there = np.bincount(code, minlength=len(names))
        train = np.full(len(names), n_others) if n_others else there * 3 // 5
        further, part = deal(more, code, remainder(np.maximum(there, train), train), seed, names)
        picked, split = np.concatenate([picked, further]), np.concatenate([split, part])
    notes = [f"{len(chosen) - len(rows)} items carry the tags of two of the classes and were dropped."]
    return Benchmark.of(collection, shift, seed, picked, split, label=values[picked], domain=factor[picked],
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
