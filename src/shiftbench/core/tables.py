"""Tables that somebody may have changed: a column is asked for by name and type, and what is not so is said.

A file of ours and one of a stranger are read alike. Parquet checks neither the names of its columns nor its texts, and
CSV has no types at all: whatever reads a column goes through `strings`, `whole`, `decimal` or `values_of`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Floats, Ints, Strs, Values, to_strings
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.staging import check_regular, writing

MOST_COLUMNS = 100_000
"""Columns of a table that is read: pyarrow keeps some kilobytes for each, and gives up at a million."""
FAULTS = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises at columns of the wrong type and at damaged ones."""

FORMULA, QUOTED = r"^[=+\-@\t\r]", r"^'+[=+\-@\t\r]"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""What a spreadsheet would work out, the same as text, and what only looks like it."""


def write_table(path: Path | str, table: pa.Table) -> None:
    """Write a parquet file, or a CSV file where the name ends so."""
    with writing(path) as hidden:
        if Path(path).suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(no_formulas(table), hidden)
        else:
            pq.write_table(table, hidden, compression="zstd")


def no_formulas(table: pa.Table) -> pa.Table:
    """A table for a CSV file: a spreadsheet would take a text such as =1+1 or @cmd for a formula and work it out.

    Such a text gets an apostrophe before it, by which spreadsheets know text; so does one that already has apostrophes
    there, so that `as_written` gives back every text. A number that is text, as -1, is no danger and stays.
    """
    return _each_text(table, lambda column: pc.if_else(
        pc.or_(pc.match_substring_regex(column, QUOTED), pc.and_(
            pc.match_substring_regex(column, FORMULA), pc.invert(pc.match_substring_regex(column, NUMBER)))),
        pc.binary_join_element_wise("'", column, ""), column))


def as_written(table: pa.Table) -> pa.Table:
    """What `no_formulas` was given."""
    return _each_text(table, lambda column: pc.if_else(
        pc.match_substring_regex(column, QUOTED), pc.utf8_slice_codeunits(column, 1), column))


def no_formula(text: str) -> str:
    """`no_formulas` of one text.

    >>> [no_formula(text) for text in ("=1+1", "cat", "-1", "-1+x", "'=1")]
    ["'=1+1", 'cat', '-1', "'-1+x", "''=1"]
    """
    return str(no_formulas(pa.table({"text": pa.array([text], pa.string())}))["text"][0])


def _each_text(table: pa.Table, change: Callable[[Any], Any]) -> pa.Table:
    """Every column of texts, and the names of the columns, changed."""
    names = change(pa.array(table.column_names, pa.string())).to_pylist()
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        columns.append(change(column) if text else column)
    return pa.table(columns, names=names) if columns else table


def read_table(path: Path | str, columns: Sequence[str] = (), text: Sequence[str] = ()) -> pa.Table:
    """Read a parquet or CSV file and check that it has `columns`.

    Columns named in `text` stay text in a CSV file, so that the id 000123 does not become the number 123.
    """
    file = Path(path)
    check_regular(file)
    if not file.is_file():
        raise ShiftBenchError(f"{file}: no such file." if not file.exists() else f"{file} is a folder, not a table.")
    kind = "CSV" if file.suffix == ".csv" else "parquet"
    try:
        few_columns(file, "," if kind == "CSV" else "")
        if kind == "CSV":
            from pyarrow import csv

            as_text = csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string()))
            table = as_written(csv.read_csv(file, convert_options=as_text))
        else:
            table = pq.read_table(file)
    except ShiftBenchError:
        raise
    except (OSError, *FAULTS) as problem:
        raise ShiftBenchError(f"{file}: not a readable {kind} table ({first_line(problem)}).") from problem
    no_doubles(file, table)
    for name in columns:
        if name not in table.column_names:
            raise ShiftBenchError(f"{file}: has no column '{name}'. Its columns: {', '.join(table.column_names[:50])}.")
    return table


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


def first_line(problem: BaseException) -> str:
    """What a library says of a problem, in a few words."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0][:200]

