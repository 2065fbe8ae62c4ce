"""Groupings: group a benchmark's items by any of its columns, in any order, to score each group. Groups may overlap.

    region                    a group per value
    urban,label               a group per cell of several columns, named like `urban = yes, label = cat`
    male+female+LGBTQ,label   a group per yes/no column (its yes only), here × label; an item may be in several
    each:male,label           the same for a single yes/no column
    region!Other              a group per value except this one, whose items are in no group
    bins:age:30,60,label      a column may be a question about another, or about tags: `year:taken`, `has:sofa`

A cell without items is not a group: it is neither scored as zero nor the worst group.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Values, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import CODED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.questions import FORMS, NUMBER, base_of, resolve

YES, NO = ("1", "yes", "true"), ("0", "no", "false")
EACH = "each:"
OWN = "groupings"
"""The card's key for the groupings by which a benchmark is always scored."""


class Grouping(NamedTuple):
    """Groups of the rows 0..n − 1 of a table. `rows` lists a row once for each of its groups; a row may be in none."""

    spec: str
    names: tuple[str, ...]
    rows: Ints  # group by group
    start: Ints  # where each group begins in `rows`
    n: int

    @staticmethod
    def of(spec: str, names: Sequence[str], member: Bools) -> "Grouping":
        """Make a grouping from a table rows × groups of memberships; groups without rows are left out."""
        group, rows = np.nonzero(member.T)
        codes, start = np.unique(group, return_index=True)
        return Grouping(spec, tuple(names[code] for code in codes), rows, start, len(member))

    @property
    def size(self) -> Ints:
        return np.diff(np.append(self.start, len(self.rows)))

    @property
    def group(self) -> Ints:
        """The group of every entry of `rows`."""
        return np.repeat(np.arange(len(self.names)), self.size)

    @property
    def times(self) -> Ints:
        """The number of groups that each row is in."""
        return np.bincount(self.rows, minlength=self.n)

    @property
    def member(self) -> Bools:
        """Memberships as a table rows × groups. It is large with many rows and groups, and nothing here uses it."""
        table = np.zeros((self.n, len(self.names)), np.bool_)
        table[self.rows, self.group] = True
        return table

    def within(self, chosen: Ints) -> "Grouping":
        """The same groups with the chosen rows only, renumbered from 0; groups without any of them are left out."""
        position = np.full(self.n, -1)
        position[chosen] = np.arange(len(chosen))
        rows = position[self.rows]
        kept = rows >= 0
        codes, start = np.unique(self.group[kept], return_index=True)
        return Grouping(self.spec, tuple(self.names[code] for code in codes), rows[kept], start, len(chosen))


class Coded(NamedTuple):
    """A column as codes and the names of the codes; −1 where a row has no value."""

    codes: Ints
    names: Sequence[str]


class _Part(NamedTuple):
    """The text between two commas: a column and those of its values that form no group, or several yes/no columns."""

    columns: tuple[str, ...]
    leave_out: tuple[str, ...]
    yes_only: bool


def groupings_of(
    benchmark: Benchmark, by: str | Iterable[str] = (), collection: Collection | None = None
) -> tuple[Grouping, ...]:
    """The groupings that a benchmark's card asks for, then those in `by`, each once."""
    always = [str(spec) for spec in benchmark.card.get(OWN) or ()]
    more = [spec for spec in dict.fromkeys(listed(by)) if spec not in always]
    return (*(grouping(benchmark, spec, collection, strict=False) for spec in always),
            *(grouping(benchmark, spec, collection) for spec in more))


def grouping(
    benchmark: Benchmark, spec: str, collection: Collection | None = None, *, strict: bool = True
) -> Grouping:
    """Group a benchmark's rows by its label, domain, group and further columns, and by the collection's factors.

    If two of these have the same name, the first in this order is used. See `group_by` for `strict`.
    """
    coded = {name: Coded(getattr(benchmark, name), benchmark.names[name]) for name in CODED}
    factors = {} if collection is None else collection.factors
    names = {*coded, *benchmark.extra, *factors}
    columns: dict[str, Values | Coded] = {}
    for name in columns_in(spec, names):
        base = base_of(name, names)
        if base in coded:
            columns[base] = coded[base]
        elif base in benchmark.extra:
            columns[base] = benchmark.extra[base]
        elif collection is not None and (base in factors or base.partition(":")[0] in FORMS):
            # Ask the whole collection: quantiles are over all its items, not only those in the benchmark.
            columns[name] = collection.factor(name)[collection.index(benchmark.items)]
        else:
            raise unknown("column", base, names, f"Grouping '{spec}' of benchmark '{benchmark.name}'")
    return group_by(columns, spec, strict=strict)


def columns_in(spec: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """The columns of a grouping, in its order. A name in `known` is never split.

    >>> columns_in("male+female,label"), columns_in("region!Other"), columns_in("a+b", ["a+b"])
    (('male', 'female', 'label'), ('region',), ('a+b',))
    >>> columns_in("bins:age:30,60,label"), columns_in("which:home=sofa+bed|car,label")
    (('bins:age:30,60', 'label'), ('which:home=sofa+bed|car', 'label'))
    """
    return tuple(name for part in _parts(spec, known) for name in part.columns)


def needs_collection(benchmark: Benchmark, by: Sequence[str]) -> bool:
    """Whether a grouping has a column that the benchmark's rows lack."""
    columns = {*CODED, *benchmark.extra}
    return any(base_of(name, columns) not in columns for grouping in by for name in columns_in(grouping, columns))


def group_by(columns: Mapping[str, Values | Coded], spec: str, *, strict: bool = True) -> Grouping:
    """Group the rows of a table whose columns are words, whole numbers or codes. NaN means no value.

    With `strict`, leaving out a value that no row has is an error: it may be a typing mistake.
    """

    def column_values(name: str) -> Values | None:
        column = columns.get(name)
        return np.asarray(column.names, np.str_)[column.codes] if isinstance(column, Coded) else column

    resolved = dict(columns)
    for name in columns_in(spec, columns):
        values = resolved.get(name)
        if values is None:
            values = resolve(name, column_values)
        if values is None:
            raise unknown("column", base_of(name, columns), columns, f"Grouping '{spec}'")
        resolved[name] = values
    choices = [_choices(part, resolved, spec, strict) for part in _parts(spec, columns)]
    names: list[str] = []
    rows, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for cell in product(*choices):
        present, first, size = _cells([column.codes for _, column in cell])
        names += [", ".join(f"{name} = {column.names[column.codes[row]]}" for name, column in cell) for row in first]
        rows.append(present)
        sizes.append(size)
    size = np.concatenate(sizes)
    return Grouping(spec, tuple(names), np.concatenate(rows), np.cumsum(size) - size, len(choices[0][0][1].codes))


def by_in_words(by: str) -> str:
    """A grouping in words for a narrow column: long lists of columns are shortened, and no grouping gives ''.

    >>> by_in_words("urban,label"), by_in_words("a+b+c+d,label"), by_in_words("")
    (' by urban, label', ' by a+3 more, label', '')
    """
    cut = [re.sub(r"\+.*", f"+{column.count('+')} more", column) if column.count("+") > 2 else column
           for column in by.split(",")]
    return f" by {spaced(','.join(cut))}" if by else ""


def spaced(spec: str, behind: str = "") -> str:
    """A grouping with a space after every comma and `behind` after every +, where a page may break the line."""
    return ", ".join(part.strip() for part in spec.split(",")).replace("+", f"+{behind}")


def _parts(spec: str, known: Iterable[str]) -> list[_Part]:
    names = set(known)
    parts = []
    for piece in [spec.strip()] if spec.strip() in names else _pieces(spec, names):
        column, *leave_out = [piece] if piece in names else [word.strip() for word in piece.split("!")]
        yes_only = column not in names and column.startswith(EACH)
        column = column.removeprefix(EACH) if yes_only else column
        single = column in names or column.startswith("which:")  # + in which:home=sofa+bed|… joins tags, not columns
        columns = (column,) if single else tuple(word.strip() for word in column.split("+"))
        yes_only = yes_only or len(columns) > 1
        if not all(columns) or not all(leave_out) or (leave_out and yes_only):
            raise ShiftBenchError(f"Grouping '{spec}' cannot be read at '{piece}'. Write columns as region or "
                                  "urban,label; yes/no columns as male+female,label; without a value as region!Other.")
        parts.append(_Part(columns, tuple(leave_out), yes_only))
    all_columns = [name for part in parts for name in part.columns]
    for name in all_columns:
        if all_columns.count(name) > 1:
            raise ShiftBenchError(f"Grouping '{spec}' names the column '{name}' twice. Name it once.")
    return parts


def _pieces(spec: str, names: Container[str]) -> list[str]:
    """Split a grouping at its commas, except at those between the edges of bins:age:30,60."""
    pieces: list[str] = []
    for word in spec.split(","):
        edge = word.partition("!")[0].strip()
        within = bool(pieces) and pieces[-1].startswith("bins:") and "!" not in pieces[-1]
        if within and NUMBER.fullmatch(edge) and edge not in names:
            pieces[-1] += f",{word.strip()}"
        else:
            pieces.append(word.strip())
    return pieces


def _choices(
    part: _Part, columns: Mapping[str, Values | Coded], spec: str, strict: bool
) -> list[tuple[str, Coded]]:
    """The columns of one part of a grouping, each without the values that form no group."""
    choices = []
    for name in part.columns:
        codes, names = _coded(columns[name], name, spec)
        words = [word.lower() for word in names]
        out = [name for name in names if name in part.leave_out]
        if part.yes_only:
            if strange := [names[code] for code, word in enumerate(words) if word not in (*YES, *NO)]:
                raise ShiftBenchError(f"Grouping '{spec}': + joins columns of yes and no (1 and 0), but '{name}' has "
                                      f"the value '{strange[0]}'. For cells of all its values write {name},…")
            out = [names[code] for code, word in enumerate(words) if word not in YES]
        for word in part.leave_out if strict else ():
            if word not in names:
                raise unknown("value", word, names, f"Grouping '{spec}', column '{name}'")
        kept = np.asarray([*(word not in out for word in names), False], np.bool_)  # the last entry is for code −1
        choices.append((name, Coded(np.where(kept[codes], codes, -1), names)))
    return choices


def _coded(column: Values | Coded, name: str, spec: str) -> Coded:
    if isinstance(column, Coded):
        return column
    if column.dtype.kind != "f":
        return Coded(*encode(column))
    known = np.flatnonzero(~np.isnan(column))
    if (column[known] % 1).any():
        raise ShiftBenchError(f"Grouping '{spec}': column '{name}' holds fractions such as "
                              f"{column[known][column[known] % 1 != 0][0]:g}, which make no groups. Group by its "
                              f"bins: bins:{name}:EDGE,EDGE or quantiles:{name}:4.")
    codes = np.full(len(column), -1)
    codes[known], names = encode(column[known].astype(np.int64))
    return Coded(codes, names)


def _cells(columns: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """The rows that have a value in every column, cell by cell; then one row of every cell, and each cell's size."""
    rows = np.flatnonzero(np.logical_and.reduce([codes >= 0 for codes in columns]))
    cell, span = np.zeros(len(rows), np.int64), 1
    for codes in columns:
        code = codes[rows]
        cell, span = cell * (1 + code.max(initial=0)) + code, span * (1 + int(code.max(initial=0)))
        if span > 4 * len(rows) + 1024:  # renumber: the codes must stay few enough to count
            present, cell = np.unique(cell, return_inverse=True)
            span = len(present)
    size = np.bincount(cell, minlength=span)
    order = np.argsort(cell.astype(np.uint16) if span <= 1 << 16 else cell, kind="stable")  # small codes sort fast
    present = np.flatnonzero(size)
    return rows[order], rows[order[(np.cumsum(size) - size)[present]]], size[present]
