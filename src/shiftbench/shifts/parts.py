"""A training set in two parts, all items of some cells and N of others; a test that is uniform over the cells."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.shift import ambiguous, card, deal, quota, spread
from shiftbench.shifts.subpopulation import share

Names = tuple[str, ...]
Where = Mapping[str, tuple[str, ...]]
"""Factors and values: which items are meant, {"source": ("testing",)}."""
Regions = Callable[[Names, Names, Ints], tuple[Bools, Bools]]
"""Label names, factor values, items per cell -> which cells are trained on whole, and from which the N items come."""
PLACE = re.compile(r"#([1-9]\d*)(\.\.([1-9]\d*)?)?")


def two_parts(shift: Any, collection: Collection, seed: int, n_few: int, drawn: float, regions: Regions) -> Benchmark:
    """Deal a test that is uniform over the cells of label × factor, then N items of some cells, then all of the others.

    Two dials that do not depend on each other, as in the authors' framework: `n_few` is how many distinct items the
    second part has, `drawn` how often training draws from it. Column `part` says `main` or `few` of a training item,
    column `weight` how often it is to be drawn, 1 on average over training:

        weight(i) ∝ (1 − drawn) 1[i ∈ main] / |main|  +  drawn 1[i ∈ few] / N,     drawn = 0: every item alike

    A larger N adds items and takes none away, and leaves the test as it is. `id_val` and `id_test` follow the training
    items' own shares. A shift with `balanced = False` draws test and the N items at random instead, for collections
    with empty cells. A shift with `draw` ≥ 1 takes N other items, and moves nothing else: see `_redrawn`. Items that
    `test_where` of the shift names are for test and val alone, and all others for training: smallNORB's test toys.
    """
    share("drawn", drawn)
    draw = getattr(shift, "draw", 0)
    if min(n_few, draw) < 0:
        raise ShiftBenchError(f"{n_few} items of the second part are asked for; give 0 or more." if n_few < 0 else
                              f"draw = {draw}, but draws are counted from 0.")
    rows, y, y_names, a, a_names, dropped = _chosen(shift, collection)
    cell = y * len(a_names) + a
    apart = _kept_for_test(collection, rows, shift.test_where)
    tested, trained = (apart, ~apart) if apart.any() else (np.ones_like(apart), np.ones_like(apart))
    counts = np.bincount(cell[trained], minlength=len(y_names) * len(a_names))
    whole, some = (region.ravel() for region in regions(y_names, a_names, counts.reshape(len(y_names), -1)))
    if shift.balanced:
        stratum, names = cell, tuple(f"{one}, {other}" for one in y_names for other in a_names)
    else:
        stratum, names = (2 * some + whole)[cell], ("neither part", "main part", "few", "both parts")
        whole, some = np.asarray([False, True, False, True]), np.asarray([False, False, True, True])
    available = np.bincount(stratum[tested], minlength=len(names))
    law = np.full(len(names), 1 / len(names)) if shift.balanced else available / available.sum()
    n_test = shift.n_test or _default_test(available, shift.balanced, shift.n_ood, alone=bool(apart.any()))
    if shift.balanced and n_test < len(names):
        raise ShiftBenchError(
            f"A test uniform over {len(names)} cells takes {len(names)} items and more, but group "
            f"'{names[int(available.argmin())]}' has {available.min()} items. Raise n_test, keep fewer classes or "
            "values, or draw the test at random with balanced = false.")
    wanted = {"test": quota(n_test, law), "val": quota(shift.n_ood, law)}
    left = np.bincount(stratum[trained], minlength=len(names))
    left = left if apart.any() else np.maximum(left - wanted["test"] - wanted["val"], 0)
    few = _few(n_few, np.where(some, left, 0), shift.balanced, seed)
    left = left - few
    training = np.where(whole, left, 0) + few
    if not training[whole].sum():
        raise ShiftBenchError("No items are left for the main part of training. Lower n_test, n_ood or the low items.")
    inside = quota(shift.n_val or int(training.sum()) // 10, training / training.sum())
    inside = np.where(whole, inside, np.minimum(inside, left // 2))
    wanted |= {"few": few, "id_test": inside, "id_val": inside, "train": np.where(whole, left - 2 * inside, 0)}
    if wanted["train"].min() < 0:
        raise ShiftBenchError(f"n_val = {shift.n_val}: id_val and id_test take more than training has. Lower n_val.")
    picked, split = _dealt(rows, stratum, apart, wanted, seed, names)
    if draw:
        held = np.isin(split, ("few", "train"), invert=True)
        free = np.isin(rows, picked[held], invert=True) & trained
        again, part = _redrawn(rows[free], stratum[free], n_few, whole, some, shift.balanced, seed, draw, names)
        picked, split = np.concatenate([picked[held], again]), np.concatenate([split[held], part])
    kind = np.zeros(len(collection), np.int64)
    kind[rows] = stratum
    part = np.where(split == "few", "few", np.where(split == "train", "main", ""))
    split = np.where(split == "few", "train", split)
    notes = [f"{dropped} items carry the tags of two of the classes and were dropped.",
             f"Training has {int((part == 'main').sum())} items of the main part and {n_few} more.",
             *([f"{int(apart.sum())} items are for test alone ({_written(shift.test_where)})."] if apart.any() else [])]
    return Benchmark.of(
        collection, shift, seed, picked, split, label=collection.factor(shift.label)[picked],
        domain=collection.factor(shift.factor)[picked],
        card=card(collection, picked, split, notes, **({"draw": draw} if draw else {})),
        extra={"part": part, "weight": _weights(part, whole[kind[picked]], drawn)})


def _kept_for_test(collection: Collection, rows: Ints, where: Where) -> Bools:
    """Which rows are for test alone: those with one of the listed values in every listed column."""
    kept = np.full(len(rows), bool(where))
    for column, words in where.items():
        own = collection.factor(column).astype(np.str_)
        for word in words:
            if word not in own:
                raise unknown("value", word, np.unique(own).tolist(), f"test_where: factor '{column}'")
        kept &= np.isin(own[rows], words)
    if where and kept.all() | ~kept.any():
        raise ShiftBenchError(f"test_where: {int(kept.sum())} of {len(rows)} items have {_written(where)}; test and "
                              "training both need some.")
    return kept


def _written(where: Where) -> str:
    """A choice of items in words: source = testing."""
    return ", ".join(f"{column} = {' or '.join(words)}" for column, words in where.items())


def _default_test(available: Ints, balanced: bool, n_ood: int, alone: bool) -> int:
    """How many items test takes where nobody said: a fifth of what there is, or all that are for test and val alone."""
    if not balanced:
        return max(int(available.sum()) - n_ood, 0) if alone else int(available.sum()) // 5
    each = max(int(available.min()) - -(-n_ood // len(available)), 0) if alone else int(available.min()) // 5
    return len(available) * each


def _dealt(
    rows: Ints, stratum: Ints, apart: Bools, wanted: Mapping[str, Ints], seed: int, names: Names
) -> tuple[Ints, Strs]:
    """Deal all splits from all rows. Where some rows are for test alone, test and val come from these."""
    if not apart.any():
        return deal(rows, stratum, wanted, seed, names)
    after = {split: wanted[split] for split in ("test", "val")}
    before = {split: counts for split, counts in wanted.items() if split not in after}
    parts = [deal(rows[pool], stratum[pool], own, seed, names) for pool, own in ((apart, after), (~apart, before))]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def pick(words: Sequence[str], names: Names, factor: str) -> Ints:
    """Codes of the values a recipe names: by word or, as tables in papers do, by place, counted from 1.

    >>> pick(["red", "#2..3", "#5.."], ("blue", "green", "grey", "pink", "red"), "colour").tolist()
    [1, 2, 4]
    """
    codes: set[int] = set()
    for word in words:
        place = PLACE.fullmatch(word)
        if word in names:
            codes.add(names.index(word))
        elif not place:
            raise unknown("value", word, names, f"Factor '{factor}'")
        else:
            first = int(place[1])
            last = int(place[3]) if place[3] else len(names) if place[2] else first
            if not first <= last <= len(names):
                raise ShiftBenchError(f"Factor '{factor}': '{word}' names values {first} to {last}, but there are "
                                      f"{len(names)}: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}.")
            codes.update(range(first - 1, last))
    return np.asarray(sorted(codes), np.int64)


def _chosen(shift: Any, collection: Collection) -> tuple[Ints, Ints, Names, Ints, Names, int]:
    """The items of the classes and values that are kept, with the codes of their label and factor."""
    y, y_names = encode(collection.factor(shift.label))
    a, a_names = encode(collection.factor(shift.factor))
    classes = pick(shift.classes, y_names, shift.label) if shift.classes else np.arange(len(y_names))
    values = pick(shift.values, a_names, shift.factor) if shift.values else np.arange(len(a_names))
    chosen = np.flatnonzero(np.isin(y, classes) & np.isin(a, values))
    rows = np.setdiff1d(chosen, ambiguous(collection, [y_names[code] for code in classes]))
    kept_y, kept_a = np.unique(y[rows]), np.unique(a[rows])
    for kept, few in ((kept_a, shift.factor), (kept_y, shift.label)):
        if len(kept) < 2:
            raise ShiftBenchError(f"Factor '{few}' has one value among these {len(rows)} items; a shift needs two.")
    return (rows, np.searchsorted(kept_y, y[rows]), tuple(y_names[code] for code in kept_y),
            np.searchsorted(kept_a, a[rows]), tuple(a_names[code] for code in kept_a), len(chosen) - len(rows))


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


def _redrawn(
    rows: Ints, stratum: Ints, n: int, whole: Bools, some: Bools, balanced: bool, seed: int, draw: int, names: Names
) -> tuple[Ints, Strs]:
    """Draw k of the N items, from all that no other split holds: what it leaves of the main part's cells is main.

    So the two parts together have the same items of those cells in every draw, and test and validation stay. Which
    cells give the odd ones is the draw's choice too. Where nothing is left over, every draw takes the same items.
    """
    own = int(child(seed, "draw", str(draw)).integers(2**62))
    there = np.bincount(stratum, minlength=len(names))
    few = _few(n, np.where(some, there, 0), balanced, own)
    return deal(rows, stratum, {"few": few, "train": np.where(whole, there - few, 0)}, own, names)


def _weights(part: Strs, whole: Bools, drawn: float) -> Floats:
    """How often each training item is to be drawn, 1 on average; 0 outside training."""
    train, few = part != "", part == "few"
    if not drawn or not few.any():
        return np.where(train, 1.0, 0.0)
    main = train & whole
    law: Floats = (1 - drawn) * main / main.sum() + drawn * few / few.sum()
    return law * int(train.sum())
