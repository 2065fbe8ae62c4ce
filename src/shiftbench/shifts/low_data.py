"""Few, no or correlated training items of some values of a factor (Wiles et al., 2022): training in two parts.

`low_data` and `unseen`: all items of some values, few or none of the others. `spurious`: all items of the correlated
cells of label × factor, and N that know nothing of the correlation. The test is uniform over the cells.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, child, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import CODED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.shift import (
    SHIFTS,
    Names,
    ambiguous_note,
    card,
    cell_names,
    check_sizes,
    crossed,
    deal,
    labelled_items,
    pick,
    quota,
    share,
    spread,
    together,
)

Where = Mapping[str, tuple[str, ...]]
"""Factors and values: which items are meant, {"source": ("testing",)}."""
Regions = Callable[[Names, Names, Ints], tuple[Bools, Bools]]
"""Label names, factor values, items per cell -> which cells are trained on whole, and from which the N items come."""
PAIRINGS = ("order", "commonest")
RESAMPLINGS = ("parts", "importance")
"""How the weights of training items are set: `parts` as in the authors' released code, where a share `drawn` of the
draws goes to the N items; `importance` as in the paper (§2.1), W = p / p_train with p uniform over the cells."""


@dataclass(frozen=True)
class TwoParts(Lists):
    """What the three shifts share: the cells of label × factor, and the sizes of the splits."""

    label: str
    factor: str
    _: KW_ONLY
    classes: tuple[str, ...] = ()  # label values to keep, by name or place (#1, #2..4, #5..); default: all
    values: tuple[str, ...] = ()  # factor values to keep; default: all
    balanced: bool = True  # False: test and N items at random, not uniform over cells
    n_test: int = 0  # 0: a fifth of the smallest cell from each
    n_val: int = 0  # id_val and id_test each; 0: a tenth of training
    n_ood: int = 0  # val, drawn as test is
    test_where: Where = field(default_factory=dict)  # items for test and val alone, {source = ["testing"]}
    resampling: str = "parts"  # or "importance": every cell that training has is drawn equally often (see RESAMPLINGS)


@register(SHIFTS, "low_data")
@dataclass(frozen=True)
class LowData(TwoParts):
    """Shift 2 of Wiles et al. (2022, D.2): N items in all of the values A_c of factor a, all items of its other values.

        train = {i : a_i ∉ A_c}  ∪  N items of {i : a_i ∈ A_c},     p_test(y, a) = 1 / (|Y| |A|)

    Test items are none of training's. Our reading: the N items are spread evenly over the cells of A_c, and which they
    are depends on the seed and the replicate. At N = 0 this is `unseen`.
    """

    low: tuple[str, ...] = ()  # A_c, by name or place (#3, #2..4, #5..)
    low_where: Where = field(default_factory=dict)  # or: the values that such items have, {split = ["val", "test"]}
    n_low: int = 10  # N
    drawn: float = 0.5  # share of the draws in training that go to the N items; 0: every item alike
    draw: int = 0  # number of the replicate: another one takes other N items, and moves nothing else

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        regions = _apart(collection, self.factor, "low", self.low, self.low_where)
        return two_parts(self, collection, seed, self.n_low, self.drawn, regions, self.draw)


@register(SHIFTS, "unseen")
@dataclass(frozen=True)
class Unseen(TwoParts):
    """Shift 3 of Wiles et al. (2022, D.2): no training item has one of the values A_c of factor a; `low_data` at N = 0.

        train = {i : a_i ∉ A_c},     p_test(y, a) = 1 / (|Y| |A|)

    The paper wants two seen values or more (its equation 2), so that there is something to learn invariance from. A
    test that is uniform over cells is as large as the smallest cell allows; the card says how many items of A_c it has.
    `leave_one_domain_out` tests all of them.
    """

    unseen: tuple[str, ...] = ()  # A_c, by name or place (#3, #2..4, #5..)
    unseen_where: Where = field(default_factory=dict)  # or: the values that such items have, {split = ["test"]}

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        regions = _apart(collection, self.factor, "unseen", self.unseen, self.unseen_where)
        benchmark = two_parts(self, collection, seed, 0, 0.0, regions)
        seen = np.unique(benchmark.domain[benchmark.rows("train")])
        apart = [name for code, name in enumerate(benchmark.names["domain"]) if code not in seen]
        kept = np.isin(collection.factor(self.label).astype(np.str_), benchmark.names["label"])
        there = int((np.isin(collection.factor(self.factor).astype(np.str_), apart) & kept).sum())
        used = int((np.isin(benchmark.split, ("test", "val")) & ~np.isin(benchmark.domain, seen)).sum())
        benchmark.card["notes"][-1] += f" Of the {there} items with an unseen value, {used} are tested" + (
            ": leave_one_domain_out tests all." if used < there else ".")
        if len(seen) == 1:
            benchmark.card["notes"].append(
                f"Training sees one value of '{self.factor}', '{benchmark.names['domain'][seen[0]]}': nothing in it "
                "shows that the factor does not matter.")
        return benchmark


def _apart(collection: Collection, factor: str, field_name: str, values: tuple[str, ...], where: Where) -> Regions:
    """The cells of these values, and of those that the items of `where` have, against all others."""
    met: Strs = np.zeros(0, np.str_)
    for column, words in where.items():
        met = np.union1d(met, collection.factor(factor)[_has(collection, column, words)].astype(np.str_))

    def regions(y_names: Names, a_names: Names, _: object) -> tuple[Bools, Bools]:
        apart = np.isin(a_names, met)
        apart[pick(values, a_names, factor)] = True
        if apart.all() or not apart.any():
            raise ShiftBenchError(f"'{field_name}' names {int(apart.sum())} of the {len(a_names)} values of '{factor}' "
                                  f"({', '.join(a_names[:12])}); name some of them, not none and not all.")
        few = np.tile(apart, (len(y_names), 1))
        return ~few, few

    return regions


@register(SHIFTS, "spurious")
@dataclass(frozen=True)
class Spurious(TwoParts):
    """Shift 1 of Wiles et al. (2022, D.2): label y and factor a go together in training, all but N items.

        train = {i : a_i ∈ pairs(y_i)}  ∪  N items of U,   test ~ U,   U(y, a) = 1 / (|Y| |A|),   N ≥ 1

    Test items are none of training's. With N = 0 label and factor could not be told apart, so it is refused. Our
    reading: "the uncorrelated distribution" is U over all cells, as in the authors' code, so about N Σ_y |pairs(y)| /
    (|Y| |A|) of the N items agree with the correlation; with `against` all N contradict it. Where `pairs` is silent the
    k-th label value goes with the k-th factor value. `correlation` is the same shift by shares, at a fixed total.

    With `other`, two factors that are not the label go together (§2.2, any two attributes): the law above holds with
    the values b of `other` in the place of y, for every label alike, and the test is uniform over the cells (y, b, a).
    """

    n_uncorrelated: int = 50  # N
    drawn: float = 0.5  # share of the draws in training that go to the N items; 0: every item alike
    pairs: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)  # label value -> its factor value(s)
    pairing: str = "order"  # for the other label values; "commonest": the factor value each is most often seen with
    against: bool = False  # take the N items from outside the correlated cells only
    other: str = ""  # the factor that `factor` goes with, instead of the label; `pairs` are then of its values
    draw: int = 0  # number of the replicate: another one takes other N items, and moves nothing else

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        if self.n_uncorrelated < 1:
            raise ShiftBenchError(f"n_uncorrelated = {self.n_uncorrelated}, but without a single uncorrelated item "
                                  "label and factor cannot be told apart. Give 1 or more.")
        return two_parts(self, collection, seed, self.n_uncorrelated, self.drawn, self._regions, self.draw, self.other)

    def _regions(self, y_names: Names, a_names: Names, counts: Ints) -> tuple[Bools, Bools]:
        if self.pairing not in PAIRINGS:
            raise unknown("pairing", self.pairing, PAIRINGS)
        order = np.arange(len(y_names)) % len(a_names)
        mates = order if self.pairing == "order" else counts.argmax(axis=1)
        paired = np.arange(len(a_names)) == mates[:, None]
        for name, value in self.pairs.items():
            for code in pick([name], y_names, self.other or self.label):
                paired[code] = False
                paired[code, pick([value] if isinstance(value, str) else value, a_names, self.factor)] = True
        return paired, ~paired if self.against else np.ones_like(paired)


def _has(collection: Collection, column: str, values: Sequence[str], where: str = "") -> Bools:
    """Which items have one of these values of a factor."""
    words = collection.factor(column).astype(np.str_)
    for value in values:
        if value not in words:
            raise unknown("value", value, np.unique(words).tolist(), f"{where}Factor '{column}'")
    return np.isin(words, values)


def two_parts(
    shift: TwoParts, collection: Collection, seed: int, n_few: int, drawn: float, regions: Regions, replicate: int = 0,
    other: str = "",
) -> Benchmark:
    """Deal a test that is uniform over the cells of label × factor, then N items of some cells, then all of the others.

    Two dials that do not depend on each other, as in the authors' framework: `n_few` is how many distinct items the
    second part has, `drawn` how often training draws from it. Column `part` says `main` or `few` of a training item,
    column `weight` how often it is to be drawn, 1 on average over training:

        weight(i) ∝ (1 − drawn) 1[i ∈ main] / |main|  +  drawn 1[i ∈ few] / N,     drawn = 0: every item alike

    where main has all training items of the cells that are trained on whole, those of `few` too; or, with resampling =
    "importance", W = p / p_train of the item's cell (§2.1), p uniform over the cells of which training has items:
    weight(i) ∝ 1 / |{j ∈ train : cell(j) = cell(i)}|. Cells are of label × factor, and of a third factor `other` where
    that is the one that goes with `factor`.

    A larger N adds items and takes none away, and leaves the test as it is. `id_val` and `id_test` follow the training
    items' own shares. A shift with `balanced = False` draws test and the N items at random instead, for collections
    with empty cells. A `replicate` ≥ 1 takes N other items, and moves nothing else: see `_replicate`. Items that
    `test_where` of the shift names are for test and val alone, and all others for training: smallNORB's test toys.
    """
    check_sizes(shift)
    share("drawn", drawn)
    if replicate < 0:
        raise ShiftBenchError(f"draw = {replicate}, but replicates are counted from 0.")
    if shift.resampling not in RESAMPLINGS:
        raise unknown("resampling", shift.resampling, RESAMPLINGS)
    strata, dropped = _strata(shift, collection, regions, other)
    wanted = _sizes(shift, strata, n_few, seed)
    if strata.apart:
        after = {split: wanted.pop(split) for split in ("test", "val")}
        rows, split = together(strata.deal(strata.tested, after, seed), strata.deal(strata.trained, wanted, seed))
    else:
        rows, split = strata.deal(strata.trained, wanted, seed)
    if replicate:
        rows, split = _replicate(shift, strata, rows, split, n_few, seed, replicate)
    part = np.where(split == "few", "few", np.where(split == "train", "main", ""))
    split = np.where(split == "few", "train", split)
    at = np.searchsorted(strata.rows, rows)
    weight = (importance(strata.cell[at], part != "") if shift.resampling == "importance" else
              _weights(part, strata.whole[strata.stratum[at]], drawn))
    notes = [ambiguous_note(dropped),
             f"Training has {int((part == 'main').sum())} items of the main part and {n_few} more."]
    if strata.apart:
        notes.append(f"{int(strata.tested.sum())} items are for test alone ({_written(shift.test_where)}).")
    return Benchmark.of(
        collection, shift, seed, rows, split, label=collection.factor(shift.label)[rows],
        domain=collection.factor(shift.factor)[rows], extra={"part": part, "weight": weight},
        card=card(collection, rows, split, notes, **({"draw": replicate} if replicate else {})))


class _Strata(NamedTuple):
    """The items by stratum: a cell of label × factor or, where the test is drawn at random, one of four regions."""

    rows: Ints
    cell: Ints  # of each row
    stratum: Ints  # of each row
    names: Names
    whole: Bools  # which strata are trained on whole
    few_from: Bools  # from which strata the N items come
    tested: Bools  # which rows may be for test and val
    trained: Bools  # and which for training; all rows may be for both, or none

    @property
    def apart(self) -> bool:
        """Whether some items are for test and val alone, and all others for training."""
        return not bool(self.tested.all())

    def numbers(self, where: Bools) -> Ints:
        return np.bincount(self.stratum[where], minlength=len(self.names))

    def deal(self, where: Bools, wanted: Mapping[str, Ints], seed: int) -> tuple[Ints, Strs]:
        return deal(self.rows[where], self.stratum[where], wanted, seed, self.names)


def _strata(shift: TwoParts, collection: Collection, regions: Regions, other: str) -> tuple[_Strata, int]:
    """The items of the classes and values that are kept, by stratum, and how many ambiguous ones are dropped."""
    values, value_names = encode(collection.factor(shift.factor))
    kept = np.isin(values, pick(shift.values, value_names, shift.factor)) if shift.values else None
    rows, dropped = labelled_items(collection, shift.label, shift.classes, kept)
    factors = [shift.label, *([other] if other else []), shift.factor]
    cell, names = crossed(*((factor, collection.factor(factor)[rows]) for factor in factors))
    tested = _kept_for_test(collection, rows, shift.test_where)
    trained = ~tested if shift.test_where else tested
    counts = np.bincount(cell[trained], minlength=math.prod(map(len, names))).reshape(*map(len, names))
    # The last two go together; with a third factor that is for every label alike.
    pair = regions(names[-2], names[-1], counts.sum(axis=0) if other else counts)
    whole, few_from = (np.tile(region.ravel(), counts.size // region.size) for region in pair)
    if shift.balanced:
        return _Strata(rows, cell, cell, cell_names(*names), whole, few_from, tested, trained), dropped
    return _Strata(rows, cell, (2 * few_from + whole)[cell], ("neither part", "main part", "few", "both parts"),
                   np.asarray([False, True, False, True]), np.asarray([False, False, True, True]), tested,
                   trained), dropped


def _kept_for_test(collection: Collection, rows: Ints, where: Where) -> Bools:
    """The rows for test: those with one of the listed values in every listed column; all where none is listed."""
    kept = np.ones(len(rows), np.bool_)
    for column, values in where.items():
        kept &= _has(collection, column, values, "test_where: ")[rows]
    if where and kept.all() | ~kept.any():
        raise ShiftBenchError(f"test_where: {int(kept.sum())} of {len(rows)} items have {_written(where)}; test and "
                              "training both need some.")
    return kept


def _written(where: Where) -> str:
    """A choice of items in words: source = testing."""
    return ", ".join(f"{column} = {' or '.join(values)}" for column, values in where.items())


def _sizes(shift: TwoParts, strata: _Strata, n_few: int, seed: int) -> dict[str, Ints]:
    """How many items of each stratum go to each split, and to `few`."""
    available, balanced = strata.numbers(strata.tested), shift.balanced
    law = np.full(len(strata.names), 1 / len(strata.names)) if balanced else available / available.sum()
    n_test = shift.n_test or _default_test(available, balanced, shift.n_ood, strata.apart)
    if balanced and n_test < len(strata.names):
        raise ShiftBenchError(
            f"A test uniform over {len(strata.names)} cells takes {len(strata.names)} items and more, but group "
            f"'{strata.names[int(available.argmin())]}' has {available.min()} items. Raise n_test, keep fewer classes "
            "or values, or draw the test at random with balanced = false.")
    test, val = quota(n_test, law), quota(shift.n_ood, law)
    left = strata.numbers(strata.trained)
    left = left if strata.apart else np.maximum(left - test - val, 0)
    few = _few(n_few, np.where(strata.few_from, left, 0), balanced, seed)
    left = left - few
    training = np.where(strata.whole, left, 0) + few
    if not training[strata.whole].sum():
        raise ShiftBenchError("No items are left for the main part of training. Lower n_test, n_ood or the low items.")
    inside = quota(shift.n_val or int(training.sum()) // 10, training / training.sum())
    inside = np.where(strata.whole, inside, np.minimum(inside, left // 2))
    train = np.where(strata.whole, left - 2 * inside, 0)
    if train.min() < 0:
        raise ShiftBenchError(f"n_val = {shift.n_val}: id_val and id_test take more than training has. Lower n_val.")
    return {"test": test, "val": val, "few": few, "id_test": inside, "id_val": inside, "train": train}


def _default_test(available: Ints, balanced: bool, n_ood: int, apart: bool) -> int:
    """The default size of the test: a fifth of what there is, or all items that are for test and val alone."""
    if not balanced:
        return max(int(available.sum()) - n_ood, 0) if apart else int(available.sum()) // 5
    each = max(int(available.min()) - -(-n_ood // len(available)), 0) if apart else int(available.min()) // 5
    return len(available) * each


def _few(n: int, there: Ints, balanced: bool, seed: int) -> Ints:
    """How many of the N items each stratum gives: evenly, where the seed says who gives the odd one, or by size."""
    if n > there.sum():
        raise ShiftBenchError(f"{n} items of the second part are asked for, but {there.sum()} are left after the test. "
                              "Lower their number or n_test, or use a larger collection.")
    if not balanced:
        return quota(n, there / max(int(there.sum()), 1)) if n else np.zeros_like(there)
    order = child(seed, "few").permutation(len(there))
    few = np.zeros_like(there)
    few[order] = spread(n, there[order])
    return few


def _replicate(
    shift: TwoParts, strata: _Strata, rows: Ints, split: Strs, n_few: int, seed: int, number: int
) -> tuple[Ints, Strs]:
    """The same deal with the N items of another replicate, from all that no other split holds; what they leave of the
    main part is main.

    So the two parts together have the same items of those cells in every replicate, and test and validation stay.
    Which cells give the odd ones differs too. Where nothing is left over, every replicate takes the same items.
    """
    stays = np.isin(split, ("few", "train"), invert=True)
    free = np.isin(strata.rows, rows[stays], invert=True) & strata.trained
    stream = int(child(seed, "draw", str(number)).integers(2**62))
    there = strata.numbers(free)
    few = _few(n_few, np.where(strata.few_from, there, 0), shift.balanced, stream)
    drawn = strata.deal(free, {"few": few, "train": np.where(strata.whole, there - few, 0)}, stream)
    return together((rows[stays], split[stays]), drawn)


def importance(cell: Ints, train: Bools) -> Floats:
    """W = p / p_train for p uniform over the cells of training, 1 on average over training; 0 outside it.

    >>> importance(np.asarray([0, 0, 0, 2, 5]), np.asarray([True, True, True, True, False])).round(2).tolist()
    [0.67, 0.67, 0.67, 2.0, 0.0]
    """
    _, code, count = np.unique(cell[train], return_inverse=True, return_counts=True)
    weight: Floats = np.zeros(len(cell))
    weight[train] = len(code) / len(count) / count[code]
    return weight


def _weights(part: Strs, whole: Bools, drawn: float) -> Floats:
    """The weight with which each training item is drawn, 1 on average; 0 outside training."""
    train, few = part != "", part == "few"
    if not drawn or not few.any():
        return np.where(train, 1.0, 0.0)
    main = train & whole
    law: Floats = (1 - drawn) * main / main.sum() + drawn * few / few.sum()
    return law * int(train.sum())


# Replicates: the same benchmark with other low-data items. All but training is the same in them.

def replicate_of(card: Mapping[str, Any]) -> int | None:
    """Which replicate a benchmark is, from its card; None where it is not one of several."""
    number = card.get("draw")
    return number if isinstance(number, int) else None


def same_rows(one: Benchmark, other: Benchmark, split: str = "test") -> bool:
    """Whether a split has the same items in the same order, with the same label, domain and group, in words."""
    if one.names["label"] != other.names["label"]:
        return False
    rows, others = one.rows(split), other.rows(split)
    return np.array_equal(one.items[rows], other.items[others]) and all(
        np.array_equal(np.asarray(one.names[column])[getattr(one, column)[rows]],
                       np.asarray(other.names[column])[getattr(other, column)[others]]) for column in CODED)


def shared_splits(benchmarks: Sequence[Benchmark]) -> tuple[str, ...]:
    """The splits that every replicate has with the same rows: all but training's."""
    first = benchmarks[0]
    return tuple(split for split in first.splits if all(
        split in other.splits and same_rows(first, other, split) for other in benchmarks[1:]))
