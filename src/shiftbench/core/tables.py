"""Tables that somebody may have changed: a column is asked for by name and type, and what is not so is said.

A file of ours and one of a stranger are read alike. Parquet checks neither the names of its columns nor its texts, and
CSV has no types at all: whatever reads a column goes through `strings`, `whole`, `decimal` or `values_of`.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Floats, Ints, Strs, Values, to_strings
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import check_regular
from shiftbench.core.formulas import as_written

MOST_COLUMNS = 100_000
"""Columns of a table that is read: pyarrow keeps some kilobytes for each, and gives up at a million."""
BLOCK = 1 << 26
"""Bytes of a CSV file that are read at once: the first block decides whether a column holds numbers or text."""
FAULTS = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises at columns of the wrong type and at damaged ones."""

def read_table(
    path: Path | str, columns: Sequence[str] = (), text: Sequence[str] = (), *, every: bool = True,
    between: str | None = None
) -> pa.Table:
    """Read a parquet file, or a text file of columns (CSV) whose quoted values may hold line breaks, with `columns`.

    Columns named in `text` stay text in a CSV file, so that the id 000123 does not become the number 123. Without
    `every`, only `columns` are kept in memory. `between` separates values: by default a comma, in a .tsv file a tab.
    """
    file = Path(path)
    check_regular(file)
    if not file.is_file():
        raise ShiftBenchError(f"{file}: no such file." if not file.exists() else f"{file} is a folder, not a table.")
    parquet = _is_parquet(file)
    try:
        few_columns(file, "" if parquet else between or _comma(file))
        table = pq.read_table(file) if parquet else _read_csv(file, columns, text, every, between or _comma(file))
    except ShiftBenchError:
        raise
    except (OSError, *FAULTS) as problem:
        raise ShiftBenchError(f"{file}: not a readable {'parquet' if parquet else 'CSV'} table "
                              f"({first_line(problem)}).") from problem
    no_doubles(file, table)
    for name in columns:
        if name not in table.column_names:
            raise _no_column(file, name, table.column_names)
    return table


def _is_parquet(file: Path) -> bool:
    """Whether a file is parquet, by its name or its first bytes; everything else is text."""
    with file.open("rb") as handle:
        return file.suffix in (".parquet", ".pq") or handle.read(4) == b"PAR1"


def _comma(file: Path) -> str:
    return "\t" if file.suffix == ".tsv" else ","


def _read_csv(file: Path, columns: Sequence[str], text: Sequence[str], every: bool, between: str) -> pa.Table:
    from pyarrow import csv

    if len(between) != 1 or not between.isascii() or between in '"\r\n':
        raise ShiftBenchError(f"{between!r} cannot separate two values; it must be one character, as , or ;.")
    if not file.stat().st_size:
        raise ShiftBenchError(f"{file}: is empty. The first line of a CSV file names its columns.")
    try:
        return as_written(csv.read_csv(
            file,
            read_options=csv.ReadOptions(block_size=BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True, delimiter=between),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(text, pa.string()),
                include_columns=None if every else list(columns),
                include_missing_columns=False)))
    except KeyError:  # pyarrow's way to say that an included column is not there
        return _read_csv(file, columns, text, True, between)


def _no_column(file: Path, name: str, columns: Sequence[str]) -> ShiftBenchError:
    other = next((mark for mark in ";\t| " if mark in columns[0]), None) if len(columns) == 1 else None
    if other is not None:
        return ShiftBenchError(f"{file}: has one column, '{columns[0]}'. Are its values separated by {other!r}? "
                               "Say so with --between.")
    return unknown("column", name, columns, str(file))


def few_columns(file: Path, between: str) -> None:
    """Refuse a table of too many columns before it is read; `between` stands between the values of a CSV file."""
    if between:
        count, block = 1, b"x"
        with file.open("rb") as handle:
            while block and count <= MOST_COLUMNS:
                block = handle.read(1 << 20)
                head, end, _ = block.partition(b"\n")
                count += head.count(between.encode())
                if end:
                    break
    else:
        count = pq.read_metadata(file).num_columns
    if count > MOST_COLUMNS:
        raise ShiftBenchError(f"{file}: has more than {MOST_COLUMNS:,} columns. Is it a table with a row per item?")


def no_doubles(file: Path | str, table: pa.Table) -> None:
    """The names of columns are text, and no two are the same: which of them is meant nobody could tell."""
    try:
        names = Counter(table.column_names)
    except UnicodeDecodeError as problem:
        raise ShiftBenchError(f"{file}: the name of a column is not UTF-8 text. Save the table as UTF-8.") from problem
    name, times = names.most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ShiftBenchError(f"{file}: has more than one column '{name}'. Give each column a name of its own.")


def strings(where: Path | str, table: pa.Table, name: str, gap: str | None = None) -> Strs:
    """A column of text, or of numbers taken as text; `gap` stands where there is none, else every row must have one."""
    column = _cast(where, table, name, pa.string(), "text", gaps=gap is not None)
    return to_strings(column if gap is None else pc.fill_null(column, gap))


def texts(where: Path | str, table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of text, with its gaps."""
    return _cast(where, table, name, pa.string(), "text", gaps=True)


def long_texts(where: Path | str, table: pa.Table, name: str, gap: str | None = None) -> Values:
    """A column of text as Python's strings: one long text must not widen all the others."""
    column = _cast(where, table, name, pa.string(), "text", gaps=gap is not None)
    return np.asarray((column if gap is None else pc.fill_null(column, gap)).to_pylist(), np.object_)


def whole(where: Path | str, table: pa.Table, name: str) -> Ints:
    """A column of whole numbers, with one in every row; pandas writes 3.0 for 3 where it once had gaps."""
    return np.asarray(_cast(where, table, name, pa.int64(), "whole numbers").to_numpy(), np.int64)


def decimal(where: Path | str, table: pa.Table, name: str) -> Floats:
    """A column of numbers, NaN where there is none."""
    column = _cast(where, table, name, pa.float64(), "numbers", gaps=True)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def values_of(where: Path | str, table: pa.Table, name: str) -> Values:
    """A column as it is: text where it holds text, else numbers, truths or dates."""
    kind = table[name].type
    if pa.types.is_dictionary(kind) or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)
                                            or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)):
        return strings(where, table, name)
    if pa.types.is_floating(kind):
        return np.asarray(table[name].to_numpy(), kind.to_pandas_dtype())
    _no_gaps(where, table[name], name)
    return np.asarray(table[name].to_numpy())


def _cast(where: Path | str, table: pa.Table, name: str, kind: Any, wanted: str, gaps: bool = False) -> pa.ChunkedArray:
    column = table[name]
    inner = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        if pa.types.is_nested(inner):
            raise TypeError(f"it holds {inner}")
        column = column.cast(kind)
        column.validate(full=True)  # of text that parquet says is UTF-8
    except FAULTS as problem:
        raise ShiftBenchError(f"{where}: column '{name}' is not all {wanted} ({first_line(problem)}).") from problem
    if not gaps:
        _no_gaps(where, column, name)
    return column


def _no_gaps(where: Path | str, column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise ShiftBenchError(f"{where}: row {row} has nothing in column '{name}'. Fill it, or drop the row.")


def filled(path: Path, table: pa.Table, columns: Sequence[str], blank: bool = False) -> None:
    """A table has rows, and these columns have a value in each; with `blank`, text that says nothing is none."""
    if not table.num_rows:
        raise ShiftBenchError(f"{path}: has no rows.")
    for column in columns:
        empty = pc.is_null(table[column], nan_is_null=True)
        if blank and pa.types.is_string(table[column].type):
            empty = pc.or_(empty, pc.equal(pc.fill_null(pc.utf8_trim_whitespace(texts(path, table, column)), ""), ""))
        count = int(pc.sum(empty).as_py() or 0)
        if count:
            row = int(pc.index(empty, True).as_py())
            more = f", and {count - 1} more rows have none" if count > 1 else ""
            raise ShiftBenchError(f"{path}: row {row} has nothing in column '{column}'{more}. "
                                  "Fill them, or drop those rows.")


def within(path: Path, column: str, values: Ints, most: int, least: int = 0) -> None:
    """Every value of a column of whole numbers is allowed."""
    for row in np.flatnonzero((values < least) | (values > most))[:1]:
        raise ShiftBenchError(f"{path}: row {row} has {values[row]} in column '{column}'. "
                              f"Allowed: {least} to {most}.")
