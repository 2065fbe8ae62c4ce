"""Shared by all shifts: the table of shifts, their interface, and the card's entries about train and test."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, Protocol

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, encode, uniform
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Registry
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

SHIFTS: Registry[Any] = Registry()
"""Every shift by its name in recipes: `SHIFTS["correlation"]` is `Correlation`."""
Names = tuple[str, ...]
PLACE = re.compile(r"#([1-9]\d*)(\.\.([1-9]\d*)?)?")


class Shift(Protocol):
    """The rule by which training and test items are drawn from a collection: frozen parameters and one verb."""

    def build(self, collection: Collection, seed: int = 0) -> Benchmark: ...


class Condition(Protocol):
    """Frozen parameters; called with a benchmark, it gives the benchmark under the condition."""

    def __call__(self, benchmark: Benchmark) -> Benchmark: ...


@dataclass(frozen=True)
class Under:
    """A shift under conditions, applied in their order: itself a shift."""

    shift: Shift
    conditions: tuple[Condition, ...]

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        benchmark = self.shift.build(collection, seed)
        for condition in self.conditions:
            benchmark = condition(benchmark)
        return benchmark


def bare(shift: Shift) -> tuple[Any, tuple[Condition, ...]]:
    """A shift without its conditions, and these."""
    conditions: tuple[Condition, ...] = ()
    while isinstance(shift, Under):
        conditions = (*shift.conditions, *conditions)
        shift = shift.shift
    return shift, conditions


def under(shift: Shift, conditions: tuple[Condition, ...]) -> Shift:
    """A shift under conditions; the shift itself where there are none."""
    return Under(shift, conditions) if conditions else shift


def file_name() -> Any:
    """A setting that names a file or a folder, by default none. A web page may not set it: see `webapp.forms`."""
    return field(default="", metadata={"file": True})


def card(collection: Collection, rows: Ints, split: Strs, notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The part of a card that needs the collection: which tags differ most between train and test."""
    train, test = rows[split == "train"], rows[split == "test"]
    explained = differences(collection, train, test) if len(train) and len(test) and len(collection.tags.tag) else []
    return {"explanation": explained, "notes": list(notes), **more}


def ambiguous(collection: Collection, classes: Sequence[str]) -> Ints:
    """Numbers of the items that carry the tags of two or more of the classes: their label is ambiguous."""
    times = np.zeros(len(collection), np.int64)
    for name in classes:
        if name in collection.tags.names:
            times[collection.with_tag(name)] += 1
    return np.flatnonzero(times > 1)


def labelled_items(
    collection: Collection, label: str, classes: Sequence[str] = (), among: Bools | None = None
) -> tuple[Ints, int]:
    """The items of the classes that a recipe names (none: of all), less the ambiguous ones, and how many these are.

    `among` says which items are considered, by default all.
    """
    codes, names = encode(collection.factor(label))
    kept = pick(classes, names, label) if classes else np.arange(len(names))
    wanted = np.isin(codes, kept)
    chosen = np.flatnonzero(wanted if among is None else wanted & among)
    rows = np.setdiff1d(chosen, ambiguous(collection, [names[code] for code in kept]))
    return rows, len(chosen) - len(rows)


def ambiguous_note(n: int) -> str:
    return f"{n} items carry the tags of two of the classes and were dropped."


def lacking_note(names: Sequence[str]) -> list[str]:
    """One note where a published list of contexts names some that the collection lacks."""
    return [f"{len(names)} contexts of merged subsets are not in the collection: {', '.join(names)}."] if names else []


def against_expected(expected: Mapping[str, int], actual: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Published sizes beside those of this collection, for the card."""
    return {name: {"expected": size, "actual": int(actual.get(name, 0))} for name, size in expected.items()}


def crossed(*columns: tuple[str, Values]) -> tuple[Ints, list[Names]]:
    """The cell of each row by some factors, the last one's values changing fastest, and the values of each factor.

    A shift moves items between values of a factor, so there must be two of them.
    """
    cell: Ints = np.zeros(len(columns[0][1]), np.int64)
    values: list[Names] = []
    for factor, words in columns:
        code, names = encode(words)
        if len(names) < 2:
            raise ShiftBenchError(f"Factor '{factor}' has one value among these {len(cell)} items; a shift needs two.")
        cell = cell * len(names) + code
        values.append(names)
    return cell, values


def pick(words: Sequence[str], names: Names, factor: str) -> Ints:
    """Codes of the values a recipe names: by word or, as tables in papers do, by place, counted from 1.

    >>> pick(["red", "#2..3", "#5.."], ("blue", "green", "grey", "pink", "red"), "colour").tolist()
    [1, 2, 4]
    """
    codes: set[int] = set()
    for word in words:
        match = PLACE.fullmatch(word)
        if word in names:
            codes.add(names.index(word))
        elif not match:
            raise unknown("value", word, names, f"Factor '{factor}'")
        else:
            first = int(match[1])
            last = int(match[3]) if match[3] else len(names) if match[2] else first
            if not first <= last <= len(names):
                raise ShiftBenchError(f"Factor '{factor}': '{word}' names values {first} to {last}, but there are "
                                      f"{len(names)}: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}.")
            codes.update(range(first - 1, last))
    return np.asarray(sorted(codes), np.int64)


def share(name: str, value: float) -> float:
    """A parameter that must lie in [0, 1]."""
    if not 0 <= value <= 1:
        raise ShiftBenchError(f"{name} = {value}, but it is a share: give a number from 0 to 1.")
    return value


def check_sizes(shift: Any) -> None:
    """Refuse a number of items below 0: of the settings whose names begin with `n_`."""
    for setting in fields(shift):
        if setting.name.startswith("n_") and getattr(shift, setting.name) < 0:
            raise ShiftBenchError(f"{shift.name}: {setting.name} = {getattr(shift, setting.name)}, but it is a number "
                                  "of items: give 0 or more.")


def differences(collection: Collection, train_rows: Ints, test_rows: Ints, top: int = 10) -> list[dict[str, Any]]:
    """The `top` tags whose shares differ most between two sets of items, as {tag, kind, train, test, lift, p}.

    `train` and `test` are the shares of items that carry the tag, and

        lift = ((n_test(t) + 1) / (n_test + 2)) / ((n_train(t) + 1) / (n_train + 2)),

    above 1 where test has more of it; one item more with and one without the tag keep it finite (Laplace). Ordered by
    |test − train|, then by name. `p` is Fisher's exact p-value times the number of tags that any of the items carries
    (Bonferroni): a difference with a large one is what a random split shows too. Item numbers may come in any order;
    doubles count once.
    """
    tags = collection.tags
    shares, smooth, seen, sizes = [], [], [], []
    for rows in (train_rows, test_rows):
        member: Bools = np.zeros(len(collection), np.bool_)
        member[rows] = True
        counts = np.bincount(tags.tag[member[tags.item]], minlength=len(tags.names))
        n = int(member.sum())
        seen.append(counts)
        sizes.append(n)
        shares.append(counts / max(n, 1))
        smooth.append((counts + 1) / (n + 2))
    looks = int(((seen[0] + seen[1]) > 0).sum())
    gap = np.abs(shares[1] - shares[0])
    order = np.lexsort((np.asarray(tags.kinds, np.str_), np.asarray(tags.names, np.str_), -gap.round(12)))
    return [{
        "tag": tags.names[code],
        "kind": tags.kinds[code],
        "train": float(shares[0][code]),
        "test": float(shares[1][code]),
        "lift": float(smooth[1][code] / smooth[0][code]),
        "p": min(1.0, looks * fisher(int(seen[0][code]), sizes[0], int(seen[1][code]), sizes[1])),
    } for code in order[:top].tolist() if gap[code] > 0]


def fisher(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test: the p-value of `first` of `of_first` items against `second` of `of_second`, two-sided.

    Given how many items there are in all, and with the tag, X of the first ones have it by the hypergeometric law; p is
    the probability of all X that are no likelier than the one seen.

    >>> round(fisher(0, 30, 3, 30), 3), round(fisher(2, 200, 40, 200), 12)
    (0.237, 5.7e-11)
    """
    from scipy.special import gammaln

    def log_ways(n: int, k: Ints) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    tagged = first + second
    x = np.arange(max(0, tagged - of_second), min(tagged, of_first) + 1)
    log = log_ways(of_first, x) + log_ways(of_second, tagged - x)
    chance = np.exp(log - log.max())
    return float(chance[chance <= chance[first - x[0]] * (1 + 1e-9)].sum() / chance.sum())


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
    numbers = np.minimum(available, level)
    numbers[np.flatnonzero(available > level)[: n - int(numbers.sum())]] += 1
    return numbers


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
        sizes = " + ".join(f"{counts[worst]} for {split}" for split, counts in wanted.items())
        raise ShiftBenchError(f"Group '{names[worst]}' has {available[worst]} items, but {sizes} are asked for. "
                              "Lower the sizes, or use a larger collection.")
    order = np.lexsort((rows, uniform(seed, "deal", rows), cell))
    start = np.searchsorted(cell[order], np.arange(bounds.shape[1]))
    rank = np.arange(len(order)) - start[cell[order]]
    turn = (bounds[:, cell[order]] <= rank).sum(axis=0)
    kept = turn < len(wanted)
    return rows[order[kept]], np.asarray(list(wanted), np.str_)[turn[kept]]


def together(*deals: tuple[Ints, Strs]) -> tuple[Ints, Strs]:
    """Rows and splits of several deals, one after another."""
    rows, splits = zip(*deals, strict=True)
    return np.concatenate(rows), np.concatenate(splits)


def cell_names(*factors: Names) -> Names:
    """The names of the cells of several factors, the last one's values changing fastest: `cat, sofa`."""
    return tuple(", ".join(filter(None, values)) for values in product(*factors))


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
