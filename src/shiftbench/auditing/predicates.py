"""Predicates: what can be said of an item ("light is night", "age is under 30"), each as a set of items in bits.

`vocabulary.predicates_of` makes them of everything that is known about the items, in a `Draft`.
"""

import calendar
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, in_short
from shiftbench.core.errors import unknown

Bits = npt.NDArray[np.uint64]
WORD = 64
ALONE = -1
"""The code of a predicate that is combined with no other."""
KINDS = ("factor", "number", "date", "tag", "area", "label", "prediction", "word", "no word", "missing", "class",
         "cluster")
COMMUNITY = "which:community="
"""How the column of a community begins; its tags follow, with + between them."""
MOST_CUTS = 3
LEAST_GAIN = 4.0
"""The smallest gain of a cut: the means on its sides differ by two standard errors."""
MONTHS = dict(zip((f"{month:02}" for month in range(1, 13)), calendar.month_name[1:], strict=True))


class Interval(NamedTuple):
    """The numbers x with low ≤ x < high."""

    low: float
    high: float

    def holds(self, x: Floats) -> Bools:
        return np.asarray((x >= self.low) & (x < self.high), np.bool_)  # NaN is in none

    def words(self, days: bool = False) -> str:
        """In words; its ends may be days since 1970-01-01.

        >>> Interval(-np.inf, 30).words(), Interval(30, 45).words(), Interval(17961, np.inf).words(days=True)
        ('under 30', 'from 30 to under 45', '2019-03-06 or later')
        """
        low, high = (str(np.datetime64(int(end), "D")) if days and np.isfinite(end) else f"{end:.12g}" for end in self)
        under = "before" if days else "under"
        if np.isneginf(self.low):
            return f"{under} {high}"
        return f"{low} or {'later' if days else 'more'}" if np.isposinf(self.high) else f"from {low} to {under} {high}"


@dataclass(frozen=True)
class Predicate:
    """A statement about an item: a column has a value, or a number from `low` to under `high`.

    `words` is how a sentence says it. A date is a number of days since 1970-01-01.
    """

    column: str
    value: str
    kind: str  # one of `KINDS`
    words: str
    low: float = -math.inf
    high: float = math.inf

    @staticmethod
    def of(column: str, value: str | Interval = "", kind: str = "factor") -> "Predicate":
        """That a column has a value, or a number, day or area within an interval, in the words of its kind.

        >>> Predicate.of("light", "night").words, Predicate.of("has:dog", "no", "tag").words
        ('light is night', 'without dog')
        >>> Predicate.of("age", Interval(18, 25), "number").words
        'age is from 18 to under 25'
        """
        interval = value if isinstance(value, Interval) else Interval(-math.inf, math.inf)
        question, _, name = column.partition(":")
        if kind == "area":
            low, high = (f"{100 * end:.3g} %" for end in interval)
            value = f"under {high}" if interval.low <= 0 else f"at least {low}" if np.isposinf(interval.high) else (
                f"{low} to under {high}")
            return Predicate(f"area:{name}", value, kind, f"with {name} on {value} of the image", *interval)
        if isinstance(value, Interval):
            hours = kind == "date" and question == "hour"
            value = interval.words(days=kind == "date" and not hours)
            return Predicate(column, value, kind, f"{f'hour of {name}' if hours else column} is {value}", *interval)
        words = f"{column} is {value}"
        if kind == "missing":
            words = f"{column} is missing"
        elif kind in ("word", "no word"):
            words = f"{column} has {'the' if kind == 'word' else 'no'} word “{value}”"
        elif question == "has" and kind in ("tag", "class"):
            words = f"{'with' if value == 'yes' else 'without'} {name}"
        elif kind == "class":
            words = f"{column} is a kind of {value}"
        elif kind == "date" and name:  # month:taken, "month of taken is May"
            words = f"{question} of {name} is {MONTHS.get(value, value)}"
        elif column.startswith(COMMUNITY):
            words = f"with any of {in_short(column.removeprefix(COMMUNITY).split('+'), 4)}"
        return Predicate(column, value, kind, words)

    @property
    def interval(self) -> Interval | None:
        """The interval that the number, day or area of an item lies in; None where the predicate is about a value."""
        bounded = math.isfinite(self.low) or math.isfinite(self.high)
        return Interval(self.low, self.high) if bounded else None

    def facts(self) -> dict[str, Any]:
        """The fields as JSON has them: an open end is left out."""
        return {name: value for name, value in vars(self).items() if value not in (-math.inf, math.inf)}


# Predicates with their items

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
    """The truths that `packed` made bits of."""
    return np.unpackbits(np.asarray(bits, "<u8").view(np.uint8), count=n, bitorder="little").view(np.bool_)


@dataclass
class Draft:
    """Collects predicates; sets that are too small, or equal to an earlier one, are left out and counted.

    `include` and `exclude` are names of columns, with * and ? as in names of files. A set is kept where it and the rest
    have at least `least` items. A column with more than `most_values` values forms that many groups; these are chosen
    by the loss of the items `explore`.
    """

    loss: Floats
    explore: Bools
    least: int = 1
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    most_values: int = 20
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

    def mask(self, items: Ints) -> Bools:
        """The set of some items, by their numbers."""
        mask = np.zeros(self.n, np.bool_)
        mask[items] = True
        return mask

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

    def choose(self, item: Ints, value: Ints, able: Bools, most: int) -> Ints:
        """Up to `most` of the `able` values that occur, given one row per item and value.

        Where there are more, half are the most frequent, and half those whose mean loss differs most, in standard
        errors, from that of all exploring items.
        """
        kept, many = able[value], int(able.sum())
        item, value = item[kept], (np.cumsum(able) - 1)[value[kept]]
        size = np.bincount(value, minlength=many)
        if many <= most:
            return np.flatnonzero(able)[size > 0]
        seen = self.explore[item]
        loss = self.loss - self.loss[self.explore].mean()
        total = np.bincount(value[seen], loss[item[seen]], minlength=many)
        effect = np.abs(total) / np.sqrt(np.maximum(np.bincount(value[seen], minlength=many), self.least))
        frequent = np.argsort(-size, kind="stable")[:most - most // 2]
        effect[frequent] = -1
        return np.flatnonzero(able)[np.sort(np.append(frequent, np.argsort(-effect, kind="stable")[:most // 2]))]

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


# Intervals of a column of numbers: between quantiles, and at cut points where the loss changes most

def intervals(
    x: Floats, loss: Floats, explore: Bools, *, bins: int, least: int, rounded: bool = True
) -> list[Interval]:
    """Intervals of numbers: between quantiles, between cut points, and below and above each cut point.

    Quantiles are those of all items, since they do not depend on the loss. Cut points are found on the items `explore`.
    """
    known = np.isfinite(x)
    cuts = cut_points(x[known & explore], loss[known & explore], least=least, rounded=rounded)
    every = [*_between(quantile_cuts(x[known], bins, rounded)), *_between(cuts)]
    every += [half for cut in cuts for half in (Interval(-np.inf, cut), Interval(cut, np.inf))]
    return sorted(set(every))


def quantile_cuts(x: Floats, bins: int, rounded: bool = True) -> list[float]:
    """Numbers that cut the items into `bins` of as many each, as far as ties allow.

    >>> quantile_cuts(np.arange(8.0), 4)
    [2.0, 4.0, 6.0]
    """
    order = np.sort(x)
    cuts = set()
    for k in range(1, bins):
        high = order[k * len(order) // bins] if len(order) else np.nan
        at = int(np.searchsorted(order, high, side="left"))
        if at > 0:
            cuts.add(_number(float(order[at - 1]), float(high)) if rounded else float(high))
    return sorted(cuts)


def cut_points(
    x: Floats, loss: Floats, *, most: int = MOST_CUTS, least: int = 1, rounded: bool = True
) -> list[float]:
    """Up to `most` numbers at which the mean loss changes most, found one after another as by a regression tree.

    A cut of n items into n_1 below and n_0 from it has the gain, with s² the variance of all losses,

        g = (n_1 n_0 / n) (mean loss below − mean loss from it)² / s².

    The cut with the largest gain in any of the present intervals comes next, while both sides have at least `least`
    items and g ≥ 4. (Breiman et al., 1984: Classification and Regression Trees.)

    >>> cut_points(np.arange(100.0), np.arange(100) >= 70)
    [70.0]
    """
    order = np.argsort(x, kind="stable")
    x, loss = x[order], loss[order].astype(np.float64)
    spread = float(loss.var()) if len(loss) else 0.0
    if spread <= 0:
        return []
    total = np.concatenate([[0.0], np.cumsum(loss - loss.mean())])
    open_segments = [_best(0, len(x), x, total, spread, least)]
    cuts: list[float] = []
    while open_segments and len(cuts) < most:
        best = max(open_segments)
        if best.gain < LEAST_GAIN:
            break
        open_segments.remove(best)
        low, high = float(x[best.at - 1]), float(x[best.at])
        cuts.append(_number(low, high) if rounded else high)
        open_segments += [_best(best.start, best.at, x, total, spread, least),
                          _best(best.at, best.stop, x, total, spread, least)]
    return sorted(cuts)


class _Cut(NamedTuple):
    """The best cut of the sorted items from `start` to `stop`: before item `at`."""

    gain: float
    start: int
    stop: int
    at: int


def _best(start: int, stop: int, x: Floats, total: Floats, spread: float, least: int) -> _Cut:
    at = np.arange(start + max(least, 1), stop - max(least, 1) + 1)
    at = at[x[at - 1] < x[at]] if len(at) else at
    if not len(at):
        return _Cut(-np.inf, start, stop, start)
    below, n = at - start, stop - start
    inside = total[at] - total[start] - (total[stop] - total[start]) * below / n
    gain = inside**2 * n / (below * (n - below)) / spread
    best = int(gain.argmax())
    return _Cut(float(gain[best]), start, stop, int(at[best]))


def _number(low: float, high: float) -> float:
    """The number with the fewest digits that is above `low` and at most `high`; between whole numbers a whole one.

    >>> _number(42.0, 43.0), _number(0.1234, 0.1299), _number(1.0, 700.0)
    (43.0, 0.127, 400.0)
    """
    middle, whole = low + (high - low) / 2, low.is_integer() and high.is_integer()
    for digits in range(1, 17):
        number = float(f"{middle:.{digits}g}")
        if low < number <= high and (number.is_integer() or not whole):
            return number
    return high


def _between(cuts: list[float]) -> Iterator[Interval]:
    if cuts:
        for low, high in pairwise([-np.inf, *cuts, np.inf]):
            yield Interval(low, high)
