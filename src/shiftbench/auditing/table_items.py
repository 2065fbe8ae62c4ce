"""The items of a table: a column is read when it is asked for, so only one is in memory at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import WASTE, Ints, Strs, Values, Words, in_short, letters, to_strings
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.item_table import factor_column
from shiftbench.data.predictions import IDS
from shiftbench.data.questions import FORMS, base_of, resolve

Column = Values | Words
"""One value per item: numbers, or words as codes."""
LABELS = ("label", "true", "truth", "target", "y_true")
"""Names of the column that holds the truth, where the user names none."""
BLOCK = 2**18
"""Ids that are hashed at a time."""


@dataclass(frozen=True, eq=False)
class TableItems:
    """Items that have a table's columns as factors, as a `Collection` has, and no tags, texts or images.

    `columns` is the column of each factor. Of the table the `rows` are items, by default all.
    """

    name: str
    where: str
    table: Any
    ids: pa.ChunkedArray
    columns: Mapping[str, str]
    rows: Ints | None = None
    tags: ClassVar[Tags] = Tags.none()
    texts: ClassVar[Texts] = Texts.none()
    parents: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def items(self) -> Strs:
        return to_strings(self.ids).astype(np.str_)

    @property
    def factors(self) -> "Factors":
        return Factors(self)

    def factor(self, name: str) -> Values:
        """A column, or the answers to a question about one; see `Collection.factor`."""
        values = resolve(name, lambda column: as_array(self.factors[column]) if column in self.columns else None)
        if values is None:
            raise unknown("factor", base_of(name), [*self.columns, *FORMS.values()])
        return values

    def take(self, rows: Ints) -> "TableItems":
        return replace(self, ids=self.ids.take(pa.array(rows)), rows=rows if self.rows is None else self.rows[rows])

    def collection(self) -> Collection:
        """All columns in memory, as arrays."""
        return Collection(self.name, self.items, {name: as_array(values) for name, values in self.factors.items()})


class Factors(Mapping[str, Column]):
    """The columns of a table's items by their names; each is read whenever it is asked for."""

    def __init__(self, items: TableItems) -> None:
        self._items = items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items.columns)

    def __len__(self) -> int:
        return len(self._items.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._items.columns

    def __getitem__(self, name: str) -> Column:
        return taken(factor_column(self._items.where, self._items.table, self._items.columns[name]), self._items.rows)


def taken(column: Column, rows: Ints | None) -> Column:
    """Some rows of a column; all where none are named."""
    if rows is None:
        return column
    return column.take(rows) if isinstance(column, Words) else column[rows]


def as_array(column: Column) -> Values:
    """A column as an array."""
    return column.to_numpy() if isinstance(column, Words) else column


def has_long_texts(column: Column) -> bool:
    """Whether a column holds texts that an array of strings has no room for; see `to_strings`."""
    if not isinstance(column, Words):
        return bool(column.dtype.kind == "O")
    width = 4 * len(column) * int(pc.max(pc.utf8_length(column.names)).as_py() or 0)
    return width > WASTE and width > 64 * int(np.asarray(pc.binary_length(column.names)) @ column.sizes)


# Ids

def column_of_ids(ids: Strs) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(ids.tolist(), pa.string())])


def id_column(table: pa.Table, id: str, where: str) -> str:
    column = id or next((name for name in IDS if name in table.column_names), "")
    if not column:
        raise ShiftBenchError(f"{where}: has no column {', '.join(IDS[:-1])} or {IDS[-1]}. Its columns: "
                              f"{in_short(table.column_names, 20)}. Name the column of ids with --id.")
    if not table.num_rows:
        raise ShiftBenchError(f"{where}: has no rows.")
    return column


def no_doubles(ids: pa.ChunkedArray, where: str) -> None:
    """Refuse ids that occur more than once: ids whose hashes differ are different, others are compared.

    Of five million ids that takes a third of the time of arrow's count of distinct values, and a tenth of its memory.
    """
    hashes = np.sort(np.concatenate([_hashes(ids[start:start + BLOCK]) for start in range(0, max(len(ids), 1), BLOCK)]))
    if not (hashes[1:] == hashes[:-1]).any():
        return
    times = pc.value_counts(ids)
    doubled = times.filter(pc.greater(times.field("counts"), 1)).field("values")
    if len(doubled):
        raise ShiftBenchError(f"{where}: {len(doubled):,} ids occur more than once, the first is "
                              f"'{min(doubled.to_pylist())}'. Give one row per item.")


def _hashes(ids: pa.ChunkedArray) -> Values:
    """A number of 64 bits for each id: the sum of its bytes, each times an odd number that its position decides."""
    text, length = b"".join(bytes(letters(chunk)) for chunk in ids.chunks), np.asarray(pc.binary_length(ids), np.int64)
    start = np.cumsum(length) - length
    factors = np.random.default_rng(0).integers(0, 2**63, int(length.max(initial=0)) + 1, np.uint64) * 2 + 1
    position = np.arange(len(text)) - np.repeat(start, length)
    weighted = np.append(np.frombuffer(text, np.uint8) * factors[1 + position], np.uint64(0))
    total = np.add.reduceat(weighted, start) if len(start) else np.zeros(0, np.uint64)
    return np.asarray(np.where(length > 0, total, 0) + factors[0] * length.astype(np.uint64))


def rows_of(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints | None:
    """The row of each id among the known ones, -1 where it is none; None where both are the same in the same order."""
    if ids.equals(known):
        return None
    return np.asarray(pc.fill_null(pc.index_in(ids, value_set=known), -1), np.int64)
