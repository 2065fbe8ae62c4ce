"""Predicates: what can be said of an item ("light is night", "age is under 30"), each as a set of items in bits.

`vocabulary.predicates_of` makes them of everything that is known about the items.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.auditing.cut_points import Interval
from shiftbench.core.arrays import Bools, Floats, Ints, Values, Words, encode, in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.data.tags import Tags

Bits = npt.NDArray[np.uint64]
WORD = 64
ALONE = -1
"""The code of a predicate that is combined with no other."""


KINDS = ("factor", "number", "date", "tag", "area", "label", "prediction", "word", "no word", "missing", "class",
         "cluster")


@dataclass(frozen=True)
class Predicate:
    """One thing to say of an item: that a column has a value, or a number from `low` to under `high`.

    `words` is how a sentence says it. A date is a number of days since 1970-01-01.
    """

    column: str
    value: str
    kind: str  # one of `KINDS`
    words: str
    low: float = -math.inf
    high: float = math.inf

    def facts(self) -> dict[str, Any]:
        """As JSON has it: an open end is left out."""
        return {name: value for name, value in vars(self).items() if value not in (-math.inf, math.inf)}


# How each kind of predicate is said

def has_value(column: str, value: str, kind: str = "factor", words: str = "") -> Predicate:
    return Predicate(column, value, kind, words or f"{column} is {value}")


def is_missing(column: str) -> Predicate:
    return Predicate(column, "", "missing", f"{column} is missing")


def has_word(column: str, word: str, yes: bool = True) -> Predicate:
    return Predicate(column, word, "word" if yes else "no word", f"{column} has {'the' if yes else 'no'} word “{word}”")


def has_tag(tag: str, yes: bool = True, kind: str = "tag") -> Predicate:
    return Predicate(f"has:{tag}", "yes" if yes else "no", kind, f"{'with' if yes else 'without'} {tag}")


def is_kind_of(column: str, name: str) -> Predicate:
    return Predicate(column, name, "class", f"{column} is a kind of {name}")


@dataclass(frozen=True, eq=False)
class Predicates:
    """Predicates and the items that fulfil each: item i of predicate p is bit i % 64 of `bits[p, i // 64]`.

    Two predicates with the same code in `column` are never combined: they exclude or contain each other. Nor is one
    with the code ALONE.
    """

    list: tuple[Predicate, ...]
    bits: Bits
    n: int
    column: npt.NDArray[np.int32]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.list)

    def mask(self, number: int) -> Bools:
        """Which items fulfil a predicate."""
        return unpacked(self.bits[number], self.n)

    def take(self, rows: Ints | Bools) -> "Predicates":
        """The same predicates of some items only, in the order of `rows`: numbers of items, or one truth per item."""
        from shiftbench.auditing.bit_sets import take_bits  # loads numba

        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, np.int64)
        return replace(self, bits=take_bits(self.bits, numbers), n=len(numbers))


def packed(mask: Bools) -> Bits:
    """Truths as bits, the first as the lowest; those beyond the end are 0.

    >>> packed(np.asarray([True, False, True])).tolist()
    [5]
    """
    row = np.zeros(-(-len(mask) // WORD) * WORD // 8, np.uint8)
    bits = np.packbits(mask, bitorder="little")
    row[:len(bits)] = bits
    return np.asarray(row.view("<u8"), np.uint64)


def unpacked(bits: Bits, n: int) -> Bools:
    """What `packed` was given."""
    return np.unpackbits(np.asarray(bits, "<u8").view(np.uint8), count=n, bitorder="little").view(np.bool_)


@dataclass
class Draft:
    """Predicates in the making: sets that are too small or known already are left out, and counted.

    `include` and `exclude` are names of columns, with * and ? as in names of files. A set is kept where it and the rest
    have at least `least` items. Where there are too many values, some are chosen by the loss of the items `explore`.
    """

    loss: Floats
    explore: Bools
    least: int = 1
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    rows: dict[bytes, tuple[Predicate, Bits, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)  # all names, whether they are wanted or not
    small: set[str] = field(default_factory=set)
    same: set[str] = field(default_factory=set)
    codes: int = 0

    @property
    def n(self) -> int:
        return len(self.loss)

    def wants(self, column: str) -> bool:
        """Whether the user wants a column."""
        self.columns.add(column)
        return ((not self.include or any(fnmatchcase(column, pattern) for pattern in self.include))
                and not any(fnmatchcase(column, pattern) for pattern in self.exclude))

    def code(self) -> int:
        """The code of a further column."""
        self.codes += 1
        return self.codes - 1

    def add(self, predicate: Predicate, mask: Bools, code: int) -> None:
        """Enter a predicate, unless too few items fulfil it, or all but too few."""
        self.add_bits(predicate, packed(mask), code)

    def add_bits(self, predicate: Predicate, bits: Bits, code: int) -> None:
        """`add` of a set in bits."""
        size = int(np.bitwise_count(bits).sum())
        if min(size, self.n - size) < self.least:
            self.small.add(predicate.words)
        elif self.rows.setdefault(sha256(bits).digest(), (predicate, bits, code))[0] != predicate:
            self.same.add(predicate.words)

    def are_large(self, size: Ints) -> Bools:
        """Which sets of these sizes may be predicates: they, and the rest, have enough items."""
        return np.asarray(np.minimum(size, self.n - size) >= self.least, np.bool_)

    def choose(self, item: Ints, value: Ints, many: int, most: int) -> Ints:
        """Up to `most` of `many` values, given one row per item and value: half the most frequent, and half those whose
        mean loss differs most, in standard errors, from that of all exploring items.
        """
        size = np.bincount(value, minlength=many)
        if many <= most:
            return np.flatnonzero(size)
        seen = self.explore[item]
        loss = self.loss - self.loss[self.explore].mean()
        total = np.bincount(value[seen], loss[item[seen]], minlength=many)
        effect = np.abs(total) / np.sqrt(np.maximum(np.bincount(value[seen], minlength=many), self.least))
        frequent = np.argsort(-size, kind="stable")[:most - most // 2]
        effect[frequent] = -1
        return np.sort(np.concatenate([frequent, np.argsort(-effect, kind="stable")[:most // 2]]))

    def leave_out(self, column: str, reason: str) -> None:
        self.notes.append(f"'{column}' is left out: {reason}.")

    def finished(self) -> Predicates:
        """All predicates."""
        for pattern in (*self.include, *self.exclude):
            if not any(fnmatchcase(column, pattern) for column in self.columns):
                raise unknown("column", pattern, self.columns)
        notes = list(self.notes)
        if self.small:
            form = "1 value forms no group of its" if len(self.small) == 1 else (
                f"{len(self.small):,} values form no group of their")
            notes.append(f"{form} own, with fewer than {self.least:,} items or fewer than that without them: "
                         f"{in_short(sorted(self.small), 3)}.")
        if self.same:
            say = "1 predicate says" if len(self.same) == 1 else f"{len(self.same):,} predicates say"
            notes.append(f"{say} of the same items what another says: {in_short(sorted(self.same), 3)}.")
        entries = list(self.rows.values())
        bits = np.stack([row for _, row, _ in entries]) if entries else np.zeros((0, -(-self.n // WORD)), np.uint64)
        codes = np.asarray([code for _, _, code in entries], np.int32)
        return Predicates(tuple(predicate for predicate, _, _ in entries), bits, self.n, codes, tuple(notes))


# Predicates of what items carry: tags and their areas, classes of a hierarchy, communities of a meta-graph.

MOST_TAGS = 60
MOST_CLASSES = 40
MOST_GRAPHS, MIN_SIZE = 5, 25
"""Meta-graphs whose communities are predicates, and the fewest items of their subsets."""
COMMUNITY = "which:community="
"""How the column of a community begins; its tags follow, with + between them."""
Parents = Mapping[str, Sequence[str]]


def add_tags(draft: Draft, items: Collection) -> None:
    """Predicates of tags: that an item has it or not, and whether it covers much of the image or little.

    Of more than MOST_TAGS tags some are chosen, as among the values of a factor. A class of the hierarchy stands for
    all tags below it.
    """
    tags, words = items.tags, spelled(items.tags)
    wanted = np.asarray([draft.wants(f"has:{word}") for word in words], np.bool_)
    size = np.bincount(tags.tag, minlength=len(words))
    wanted &= (size >= draft.least) & (size <= len(items) - draft.least)
    kept, number = wanted[tags.tag], np.cumsum(wanted) - 1
    chosen = draft.choose(tags.item[kept], number[tags.tag[kept]], int(wanted.sum()), MOST_TAGS)
    if len(chosen) < wanted.sum():
        draft.notes.append(f"{len(chosen)} of {int(wanted.sum()):,} tags form groups: half the most frequent, half "
                           "those whose loss differs most.")
    for tag in np.flatnonzero(wanted)[chosen].tolist():
        rows, code = np.flatnonzero(tags.tag == tag), draft.code()
        _add(draft, words[tag], "tag", tags.item[rows], code)
        if draft.wants(f"area:{words[tag]}"):
            _add_areas(draft, words[tag], tags.item[rows], tags.area[rows].astype(np.float64), code)
    _add_tag_classes(draft, items)


def spelled(tags: Tags) -> list[str]:
    """Each tag by its name, with its kind where several kinds have the name: place:grass."""
    times = Counter(tags.names)
    return [name if times[name] == 1 else f"{kind}:{name}" for name, kind in zip(tags.names, tags.kinds, strict=True)]


def _add(draft: Draft, name: str, kind: str, item: Ints, code: int) -> None:
    mask = np.zeros(draft.n, np.bool_)
    mask[item] = True
    draft.add(has_tag(name, kind=kind), mask, code)
    draft.add(has_tag(name, yes=False, kind=kind), ~mask, code)


def _add_areas(draft: Draft, name: str, item: Ints, area: Values, code: int) -> None:
    """Whether a tag covers less than the median of its areas, or more; nothing where areas are unknown or all equal."""
    known = np.isfinite(area)
    if not known.any() or np.ptp(area[known]) == 0:
        return
    middle = float(f"{np.median(area[known]):.2g}")
    for half in (Interval(0.0, middle), Interval(middle, np.inf)):
        mask = np.zeros(draft.n, np.bool_)
        mask[item[half.holds(area)]] = True
        draft.add(covers(name, half), mask, code)


def covers(tag: str, area: Interval) -> Predicate:
    """That a tag covers a share of the image within an interval."""
    low, high = (f"{100 * end:.3g} %" for end in area)
    share = f"under {high}" if area.low <= 0 else f"at least {low}" if np.isposinf(area.high) else (
        f"{low} to under {high}")
    return Predicate(f"area:{tag}", share, "area", f"with {tag} on {share} of the image", *area)


def add_classes(draft: Draft, label: str, truth: Words, parents: Parents, code: int) -> None:
    """Predicates of the classes above the labels in a hierarchy: those that hold several labels, but not all."""
    codes, names = encode(truth)
    below = classes_above(names, parents, MOST_CLASSES, np.bincount(codes, minlength=len(names)))
    for name, labels in below.items():
        draft.add(is_kind_of(label, name), np.isin(codes, labels), code)


def _add_tag_classes(draft: Draft, items: Collection) -> None:
    tags = items.tags
    size = np.bincount(tags.tag, minlength=len(tags.names))
    for name, below in classes_above(tags.names, items.parents, MOST_CLASSES, size).items():
        if name not in tags.names and draft.wants(f"has:{name}"):
            _add(draft, name, "class", tags.item[np.isin(tags.tag, below)], draft.code())


def classes_above(names: Sequence[str], parents: Parents, most: int, size: Ints) -> dict[str, list[int]]:
    """The classes of a hierarchy that stand above several names, but not above all, and the numbers of these names.

    The `most` that are above most items, by `size` of each name. A cycle in the hierarchy does no harm.

    >>> classes_above(["cat", "dog", "car"], {"cat": ("animal",), "dog": ("animal",)}, 9, np.asarray([1, 2, 1]))
    {'animal': [0, 1]}
    """
    several = {node: numbers for node, numbers in names_below(names, parents).items() if 1 < len(numbers) < len(names)}
    largest = sorted(several, key=lambda node: (-int(size[several[node]].sum()), node))[:most]
    return {node: several[node] for node in largest}


def names_below(names: Sequence[str], parents: Parents) -> dict[str, list[int]]:
    """The numbers of the names that stand below each class of a hierarchy; classes above no name are left out."""
    below: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        above: set[str] = set()
        layer = {name}
        while layer:
            layer = {parent for child in layer for parent in parents.get(child, ())} - above - {name}
            above |= layer
        for node in sorted(above):
            below.setdefault(node, []).append(number)
    return below


# Communities of the meta-graph

def add_communities(draft: Draft, items: Collection, truth: Words) -> None:
    """Predicates of contexts that go together: any tag of one community of the meta-graph of a label that is a tag.

    Of the most frequent labels, MOST_GRAPHS at most. The column is a question about tags: which:community=bed+lamp.
    """
    codes, names = encode(truth)
    size = np.bincount(codes, minlength=len(names))
    labels = [names[code] for code in np.argsort(-size, kind="stable") if names[code] in items.tags.names]
    for label in labels[:MOST_GRAPHS]:
        for contexts in _communities(items, label, max(MIN_SIZE, draft.least)):
            column = f"{COMMUNITY}{'+'.join(contexts)}"
            if draft.wants(column):
                mask = items.factor(column) == "community"
                draft.add(Predicate(column, "community", "factor", with_any_of(contexts)), mask, draft.code())


def with_any_of(tags: Sequence[str]) -> str:
    """That an item has one of several tags, in words."""
    return f"with any of {in_short(tags, 4)}"


def _communities(items: Collection, label: str, least: int) -> list[list[str]]:
    """The communities of several contexts, by the names of their tags; none where a class has no context."""
    from shiftbench.metagraph.graph import meta_graph  # loads igraph

    try:
        graph = meta_graph(items, label, min_size=least)
    except ShiftBenchError:
        return []
    known = {name for name in items.tags.names if not set(name) & set("+|=")}
    groups = [[name for name in np.asarray(graph.names)[graph.communities == number].tolist() if name in known]
              for number in range(int(graph.communities.max(initial=-1)) + 1)]
    return [group for group in groups if len(group) > 1]
