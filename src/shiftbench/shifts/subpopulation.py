"""Mixtures of the same groups with other weights: subpopulation shift."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import parse_subset, subset_name, union
from shiftbench.shifts.shift import (
    SHIFTS,
    Names,
    against_expected,
    ambiguous,
    ambiguous_note,
    card,
    cell_names,
    check_sizes,
    crossed,
    deal,
    lacking_note,
    largest,
    quota,
    remainder,
    share,
    together,
)

# Two distributions over the cells of label × factor, one for training and a uniform one for test.


def mixture(
    shift: Any, collection: Collection, seed: int, classes: Sequence[str], shares: Callable[[Names, Names], Floats],
    others: Sequence[str] = (), n_others: int = 0, place: Strs | None = None, notes: Sequence[str] = (),
    expected: Mapping[str, int] | None = None,
) -> Benchmark:
    """Deal `train`, `id_val` and `id_test` by `shares(label names, factor values)` and `test` uniformly over the cells.

    The shift names its `label`, its `factor`, the factor's `values` to keep (none: all) and its sizes: `n_train` (0: as
    many as the cells allow), `n_test` (0: a third of n_train), `n_ood` for val, which is drawn as test is, and `n_val`
    for id_val and id_test each (0: a quarter of n_train). Test is dealt first, so that it stays the same when other
    sizes change. Where train and test leave a cell fewer items than id_val and id_test ask for, these two share what is
    left, and a note says so. Classes in `others` are trained on, `n_others` items each (0: three fifths of what there
    is), and not tested. `place` is the factor's value of each item, '' for none, where the collection has no such
    factor.
    """
    check_sizes(shift)
    values = collection.factor(shift.label).astype(np.str_)
    factor = collection.factor(shift.factor).astype(np.str_) if place is None else place
    known = np.unique(values).tolist()
    for name in (*classes, *others):
        if name not in known:
            raise unknown("class", name, known, f"Factor '{shift.label}'")
    tested = list(classes or known)
    kept = np.isin(factor, shift.values) if shift.values else np.ones(len(collection), np.bool_)
    if place is not None:
        kept &= place != ""
    dropped = ambiguous(collection, [*tested, *others])
    chosen = np.flatnonzero(np.isin(values, tested) & kept)
    rows = np.setdiff1d(chosen, dropped)
    cell, names = crossed((shift.label, values[rows]), (shift.factor, factor[rows]))
    cells = cell_names(*names)
    available = np.bincount(cell, minlength=len(cells))
    skewed, uniform = shares(*names).ravel(), np.full(len(cells), 1 / len(cells))

    def wanted(n: int) -> dict[str, Ints]:
        inside = quota(shift.n_val or n // 4, skewed)
        return {"test": quota(shift.n_test or n // 3, uniform), "val": quota(shift.n_ood, uniform), "id_test": inside,
                "id_val": inside, "train": quota(n, skewed)}

    n_train = shift.n_train or largest(lambda n: bool((sum(wanted(n).values()) <= available).all()), len(rows))
    if (wanted(n_train)["test"] == 0).any():
        empty = cells[int(available.argmin())]
        raise ShiftBenchError(f"Group '{empty}' has {available.min()} items, too few to train and test on. Choose "
                              "other classes or another factor, or use a larger collection.")
    sizes = wanted(n_train)
    asked, left = sizes["id_val"], available - sizes["test"] - sizes["val"] - sizes["train"]
    sizes["id_val"] = sizes["id_test"] = np.where(left >= 0, np.minimum(asked, left // 2), asked)
    fewer = [f"Group '{cells[number]}' has {max(left[number], 0)} items left for id_val and id_test, which ask for "
             f"{asked[number]} each." for number in np.flatnonzero(sizes["id_val"] < asked).tolist()]
    picked, split = deal(rows, cell, sizes, seed, cells)
    if others:
        more = np.setdiff1d(np.flatnonzero(np.isin(values, others) & kept), dropped)
        code, other_names = encode(values[more])
        there = np.bincount(code, minlength=len(other_names))
        train = np.full(len(other_names), n_others) if n_others else there * 3 // 5
        further = deal(more, code, remainder(np.maximum(there, train), train), seed, other_names)
        picked, split = together((picked, split), further)
    published = against_expected(expected or {}, dict(zip(cells, available, strict=True)))
    return Benchmark.of(collection, shift, seed, picked, split, label=values[picked], domain=factor[picked],
                        card=card(collection, picked, split,
                                  [ambiguous_note(len(chosen) - len(rows)), *fewer, *notes],
                                  **({"sizes": published} if published else {})))


def mate(value: str, values: Names, factor: str) -> int:
    """The code of a factor value that a recipe names."""
    if value not in values:
        raise unknown("value", value, values, f"Factor '{factor}'")
    return values.index(value)


@register(SHIFTS, "subpopulation")
@dataclass(frozen=True)
class Subpopulation(Lists):
    """Train on a mixture in which minority groups have the share p, test on a balanced one (Liang & Zou, 2022, §4.2).

    For every class y one value m(y) of the factor is the majority's:

        p_train(y, a) = (1 − p) / |Y|                where a = m(y)
                        p / (|Y| (|A| − 1))          elsewhere
        p_test(y, a)  = 1 / (|Y| |A|)

    The total n_train is the same whatever p is, and so are the test items. Classes in `others` are trained on as they
    are and not tested, as in the paper's ten-class task (B.2.2).

    With `merged`, the values of the factor are unions of object subsets, as in the authors' code: an item is outdoors
    if it lies in one of the subsets that are merged into `cat(outdoors)`, and the first listed of two wins. `factor` is
    then a name for them.
    """

    label: str
    factor: str
    majority: Mapping[str, str]  # class -> m(y)
    p: float = 0.12
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    n_train: int = 0  # 0: as many as the cells allow
    n_test: int = 0  # 0: a third of n_train
    n_val: int = 0  # id_val and id_test each; 0: a quarter of n_train
    n_ood: int = 0  # val, drawn as test is: for choosing among runs after the shift
    others: tuple[str, ...] = ()  # classes that are in training only
    n_others: int = 0  # training items of each of them; 0: three fifths of what there is
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # {"cat(outdoors)": ("car", "fence", …), …}
    expected: Mapping[str, int] = field(default_factory=dict)  # published sizes of cells, kept on the card

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if not self.majority:
            raise ShiftBenchError("subpopulation: 'majority' names no class. Give the factor's value for each class "
                                  "that is tested.")
        place, lacking = self._place(collection) if self.merged else (None, [])
        return mixture(self, collection, seed, tuple(self.majority), self._shares, self.others, self.n_others, place,
                       lacking_note(lacking), self.expected)

    def _place(self, collection: Collection) -> tuple[Strs, list[str]]:
        """The value of each item by its merged subset, the first listed where it lies in two; the contexts missing."""
        code: Ints = np.full(len(collection), len(self.merged))
        values, lacking = [], list[str]()
        for number, (name, contexts) in enumerate(self.merged.items()):
            cls, value = parse_subset(name)
            if len(value) != 1:
                raise ShiftBenchError(f"merged names '{name}'. Write class(value), as cat(outdoors).")
            rows, missing = union(collection, cls, contexts)
            code[rows] = np.minimum(code[rows], number)
            values.append(value[0])
            lacking += [subset_name(cls, [context]) for context in missing]
        return np.asarray([*values, ""], np.str_)[code], lacking

    def _shares(self, y_names: Names, a_names: Names) -> Floats:
        p = share("p", self.p)
        table = np.full((len(y_names), len(a_names)), p / (len(y_names) * (len(a_names) - 1)))
        for code, name in enumerate(y_names):
            table[code, mate(self.majority[name], a_names, self.factor)] = (1 - p) / len(y_names)
        return table


# A spurious correlation between the label and one other factor.

@register(SHIFTS, "correlation")
@dataclass(frozen=True)
class Correlation(Lists):
    """A spurious correlation between the label y and one other factor a (after Wiles et al., 2022).

        p_train(y, a) = rho · 1[a = pair(y)] / |Y|  +  (1 − rho) / (|Y| |A|)
        p_test(y, a)  = 1 / (|Y| |A|)

    rho = 0 is no shift; at rho = 1 the factor predicts the label perfectly in training. Our reading: where `pairs` is
    silent, the k-th label value goes with the k-th factor value, in the order of their names.
    """

    label: str
    factor: str
    rho: float = 0.95
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    pairs: Mapping[str, str] = field(default_factory=dict)  # label value -> its factor value in training
    n_train: int = 0  # 0: as many as the cells allow
    n_test: int = 0  # 0: a third of n_train
    n_val: int = 0  # id_val and id_test each; 0: a quarter of n_train
    n_ood: int = 0  # val, drawn as test is: for choosing among runs after the shift

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        return mixture(self, collection, seed, self.classes, self._shares)

    def _shares(self, y_names: Names, a_names: Names) -> Floats:
        rho = share("rho", self.rho)
        for name in self.pairs:
            if name not in y_names:
                raise unknown("class", name, y_names, "pairs")
        table = np.full((len(y_names), len(a_names)), (1 - rho) / (len(y_names) * len(a_names)))
        for code, name in enumerate(y_names):
            pair = mate(self.pairs[name], a_names, self.factor) if name in self.pairs else code % len(a_names)
            table[code, pair] += rho / len(y_names)
        return table
