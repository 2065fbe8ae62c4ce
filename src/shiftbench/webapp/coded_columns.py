"""A collection in codes, made once, from which every count, cross table, colour and order of its view is computed.

A column has a code per item, so that counts under a filter are one `bincount`. Which items fulfil a predicate is what
`auditing.contexts.inside` says; the answer is kept, up to a number of bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shiftbench.auditing.contexts import inside
from shiftbench.auditing.predicates import Bits, Interval, Predicate, packed
from shiftbench.auditing.vocabulary import (
    DAY,
    MOST_CLASSES,
    MOST_DISTINCT,
    as_dates,
    classes_above,
    is_known,
    is_prose,
    names_below,
    spelled,
)
from shiftbench.core.arrays import Bools, Floats, Ints, Values, Words, child, encode
from shiftbench.core.files import read_json
from shiftbench.data.collection import MARKER, Collection
from shiftbench.webapp.shelf import Memory

Codes = npt.NDArray[np.int32]
FEW = 20
"""Numbers with so few values are shown as values, others as bins; so many bins at most."""
SAMPLE = 4_096
"""Items from whose values we decide whether a column holds texts, or a different name for every item."""
ROOM = 96 << 20
"""Bytes of masks and orders that are kept for a collection, and as many of columns and of sets of tags."""
KEPT = 4
"""Collections whose codes are kept."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column in codes: item i has `names[codes[i]]`, and none of them where the code is -1. A missing value is "".

    `shape` is values, bins (of numbers: `edges[k]` ≤ x < `edges[k + 1]`), text (words of a language, without codes) or
    own (nearly every item has a value of its own, without codes). `classes` are those of the hierarchy above values.
    Values that are numbers are `ordered`.
    """

    name: str
    shape: str
    kind: str = "factor"
    codes: Codes = field(default_factory=lambda: np.zeros(0, np.int32))
    names: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    classes: Mapping[str, Ints] = field(default_factory=dict)
    ordered: bool = False

    def predicate(self, code: int) -> Predicate:
        """That an item has the value of a code."""
        if self.names[code] == "":
            return Predicate.of(self.name, kind="missing")
        return self.within(Interval(self.edges[code], self.edges[code + 1])) if self.edges else (
            Predicate.of(self.name, self.names[code]))

    def within(self, interval: Interval) -> Predicate:
        """That the number, day or area of an item is in an interval."""
        return Predicate.of(self.name, interval, self.kind)

    def counts(self, rows: Ints | None) -> Ints:
        """How many items have each value: of these rows, or of all."""
        return self._all if rows is None else self._counted(self.codes[rows])

    @cached_property
    def _all(self) -> Ints:
        return self._counted(self.codes)

    def _counted(self, codes: Codes) -> Ints:
        return np.bincount(codes + 1, minlength=len(self.names) + 1)[1:]


def column_of(collection: Collection, name: str) -> Column:
    """A factor of a collection, or the answer to a question about tags or factors, in codes."""
    if name in collection.factors and collection.factors[name].dtype.kind == "O":
        return Column(name, "text")
    values = collection.factor(name)
    if name not in collection.factors and name.startswith("area:"):
        return _bins(name, "area", np.where(values > 0, values, np.nan), edges_of(values[values > 0]), gaps=False)
    if values.dtype.kind in "iuf":
        return _of_numbers(name, values)
    sample = values[::-(-len(values) // SAMPLE) or 1]
    many = len(np.unique(sample))
    words = Words.of_array(values) if many > FEW and values.dtype.kind == "U" else None
    if words is not None and (moments := as_dates(words, name)) is not None:
        days = np.where(moments.known, moments.moment // DAY, np.nan)[words.codes]
        return _bins(name, "date", days, day_edges(days[np.isfinite(days)]))
    if many > FEW and is_prose([str(value) for value in sample.tolist()]):
        return Column(name, "text")
    if many == len(sample) > FEW:
        return Column(name, "own")
    codes, names = encode(values)
    return Column(name, "own") if len(names) > MOST_DISTINCT else _of_values(name, codes, names, collection.parents)


def _of_values(name: str, codes: Ints, names: Sequence[str], parents: Mapping[str, tuple[str, ...]]) -> Column:
    above: dict[str, Ints] = {}
    if parents:
        number = {value: code for code, value in enumerate(names)}
        size = np.bincount(codes, minlength=len(names))
        for node, below in classes_above(names, parents, MOST_CLASSES, size).items():
            above[node] = np.asarray([*below, number[node]] if node in number else below)
    return Column(name, "values", "factor", codes.astype(np.int32), tuple(names), classes=above)


def _of_numbers(name: str, values: Values) -> Column:
    known = is_known(values)
    distinct = np.unique(values[known])
    if len(distinct) > FEW:
        x = np.where(known, values, np.nan).astype(np.float64)
        return _bins(name, "number", x, edges_of(x[known], whole=values.dtype.kind != "f"))
    texts = [f"{value:.12g}" if values.dtype.kind == "f" else str(value) for value in distinct.tolist()]
    names = list(dict.fromkeys(texts))  # numbers that are written alike are one value
    number = np.asarray([names.index(text) for text in texts], np.int32)
    codes = np.full(len(values), len(names), np.int32)
    codes[known] = number[np.searchsorted(distinct, values[known])] if len(names) else 0
    return Column(name, "values", "factor", codes, (*names, *([] if known.all() else [""])), ordered=True)


def _bins(name: str, kind: str, x: Floats, edges: Sequence[float], gaps: bool = True) -> Column:
    """Numbers in bins; NaN is a missing value where there may be `gaps`, else nothing."""
    known, many = ~np.isnan(x), len(edges) - 1
    codes = np.where(known, np.searchsorted(edges, x, side="right") - 1, many if gaps else -1).astype(np.int32)
    column = Column(name, "bins", kind, codes, ("?",) * many, tuple(edges))
    names = tuple(column.predicate(code).value for code in range(many))
    return Column(name, "bins", kind, codes, (*names, *([""] if gaps and not known.all() else [])), tuple(edges))


def edges_of(x: Floats, whole: bool = False) -> list[float]:
    """Round numbers, equally far apart, between which all of `x` lies: at most FEW bins.

    >>> edges_of(np.asarray([3.0, 64.0]))
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]
    """
    if not len(x):
        return []
    low, high = float(x.min()), float(x.max())
    size = 10.0 ** math.floor(math.log10(max(high - low, abs(high) * 1e-9, 1e-300)) - 2)
    for step in (size * unit for unit in (1, 2, 5, 10, 20, 50, 100, 200, 500)):
        start, stop = math.floor(low / step), math.floor(high / step) + 1
        if stop - start <= FEW and not (whole and step < 1):
            break
    edges = [float(f"{number * step:.12g}") for number in range(start, stop + 1)]
    return [min(edges[0], low), *edges[1:-1], max(edges[-1], math.nextafter(high, math.inf))]  # rounding drops no item


def day_edges(days: Floats) -> list[float]:
    """Days since 1970 at which years, months or days begin, between which all of `days` lies."""
    if not len(days):
        return []
    first, last = (np.datetime64(int(day), "D") for day in (days.min(), days.max()))
    span = float(days.max() - days.min())
    unit = "Y" if span > 3 * 365 else "M" if span > 90 else "D"
    start, stop = first.astype(f"M8[{unit}]"), last.astype(f"M8[{unit}]") + 1
    step = -(-int((stop - start).astype(np.int64)) // FEW)
    edges = np.arange(start, stop + step, step)
    return [float(day) for day in edges.astype("M8[D]").astype(np.int64).tolist()]


class TagSets:
    """The tags and the classes above them: how many items of a filter carry each.

    A class stands for every tag below it, and so does a tag that is a class itself, as in `Collection.with_tag`.
    """

    def __init__(self, collection: Collection) -> None:
        tags = collection.tags
        self.tags, self.n = tags, len(collection)
        self.words = spelled(tags)
        self.size = np.bincount(tags.tag, minlength=len(self.words))
        below = names_below(tags.names, collection.parents) if collection.parents else {}
        members = {number: sorted({number, *below[word]}) for number, word in enumerate(self.words) if word in below}
        classes = classes_above(tags.names, collection.parents, MOST_CLASSES, self.size) if collection.parents else {}
        self.classes = [name for name in classes if name not in set(tags.names)]
        most = max(1, ROOM * 8 // max(self.n, 1))
        by_size = sorted(members, key=lambda tag: -int(self.size[members[tag]].sum()))
        largest = by_size[:max(0, most - len(self.classes))]
        self.tag_bits = {number: self._bits(members[number]) for number in largest}
        self.class_bits = [self._bits(classes[name]) for name in self.classes]
        self.uncounted = sorted(set(members) - set(largest))
        self.all_tags, self.all_classes = self.counts(None)

    def _bits(self, codes: Sequence[int]) -> Bits:
        wanted = np.zeros(len(self.words), np.bool_)
        wanted[codes] = True
        mask = np.zeros(self.n, np.bool_)
        mask[self.tags.item[wanted[self.tags.tag]]] = True
        return packed(mask)

    def counts(self, mask: Bools | None) -> tuple[Ints, Ints]:
        """How many items carry each tag, and each class; -1 for classes among the tags that have no bits."""
        codes = self.tags.tag if mask is None else self.tags.tag[mask[self.tags.item]]
        n = np.bincount(codes, minlength=len(self.words))
        bits = packed(np.ones(self.n, np.bool_) if mask is None else mask)
        for number, carriers in self.tag_bits.items():
            n[number] = _shared(carriers, bits)
        n[self.uncounted] = -1
        return n, np.asarray([_shared(carriers, bits) for carriers in self.class_bits], np.int64)


def _shared(left: Bits, right: Bits) -> int:
    return int(np.bitwise_count(left & right).sum())


class Coded:
    """A collection with its columns, masks, orders and sets of tags, each made when it is first needed."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._columns = Memory(ROOM, lambda column: column.codes.nbytes + 100 * len(column.names), alone=True)
        self._masks = Memory(ROOM, lambda array: int(array.nbytes), alone=True)

    def __len__(self) -> int:
        return len(self.collection)

    @cached_property
    def digest(self) -> str:
        """The collection's digest, as its folder has it: addresses of pictures change with it."""
        home = self.collection.home
        return self.collection.digest if home is None else str(read_json(home / MARKER)["digest"])

    def column(self, name: str) -> Column:
        return self._columns.get(name, lambda: column_of(self.collection, name))

    @cached_property
    def tags(self) -> TagSets:
        return TagSets(self.collection)

    def mask(self, where: Sequence[Predicate]) -> Bools | None:
        """Which items fulfil all predicates; None where there are none."""
        if not where:
            return None
        return self._masks.get(frozenset(where), lambda: np.asarray(np.logical_and.reduce(
            [self._holds(predicate) for predicate in where]), np.bool_))

    def _holds(self, predicate: Predicate) -> Bools:
        """A finding about the label is one about the factor that is the label."""
        truth = self.collection.factors.get(predicate.column) if predicate.kind == "label" else None
        return self._masks.get(predicate, lambda: inside([predicate], self.collection, truth=truth))

    def rows(self, where: Sequence[Predicate], order: str = "", down: bool = False, mixed: bool = False) -> Ints:
        """The items that fulfil a filter: as they stand, by a column, or mixed, the same way each time."""
        return self._masks.get((frozenset(where), order, down, mixed), lambda: self._rows(
            self.mask(where), order, down, mixed))

    def _rows(self, mask: Bools | None, order: str, down: bool, mixed: bool) -> Ints:
        if not order and not mixed:
            return np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        ranks = self._masks.get((order, down, mixed), lambda: self._order(order, down))
        return ranks if mask is None else ranks[mask[ranks]]

    def _order(self, order: str, down: bool) -> Ints:
        """All items by a column, missing values last, equal ones as they stand; mixed where no column is named."""
        if not order:
            return child(0, "studio", "wall").permutation(len(self))
        column = self.column(order)
        if column.shape == "values":
            key = column.codes.astype(np.float64)
            key[column.codes == (column.names.index("") if "" in column.names else -2)] = np.nan
        elif column.kind in ("number", "area"):
            key = np.asarray(self.collection.factor(order), np.float64)
        else:
            words = self.collection.factor(order).astype(np.str_)
            key = np.argsort(np.argsort(words, kind="stable"), kind="stable").astype(np.float64)
            key[words == ""] = np.nan
        return np.argsort(-key if down else key, kind="stable")


_CODED = Memory(KEPT, alone=True)


def coded(collection: Collection) -> Coded:
    """The codes of a collection. Those of the last few are kept with the collection, so that its id stays unique."""
    return _CODED.get(id(collection), lambda: Coded(collection))
