"""Tables that somebody may have changed: a column is asked for by name and type, and what is not so is said.

A file of ours and one of a stranger are read alike. Parquet checks neither the names of its columns nor its texts, and
CSV has no types at all: whatever reads a column goes through `strings`, `whole`, `decimal` or `values_of`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Floats, Ints, Strs, Values, array_of, to_strings
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import check_regular, writing
from shiftbench.core.table_formats import DAMAGED, default_separator, format_of, read_rows

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""The column that pandas makes of an index without a name: row numbers, as a rule."""
FAULTS = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises at columns of the wrong type and at damaged ones."""


def is_frame(source: object) -> bool:
    """Whether this is a table in memory: a data frame with Arrow's interface (pandas, polars, pyarrow), or a dict."""
    return isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__")


def table_name(source: Any) -> str:
    """How messages call a table: by its file, or by what it is in memory.

    >>> table_name("scans.csv"), table_name({"item": []})
    ('scans.csv', 'dict')
    """
    return type(source).__name__ if is_frame(source) else str(source)


def frame_table(frame: Any) -> pa.Table:
    """A data frame, or a dict of columns, as a table of the types that files have too.

    An index of pandas is a column where it has a name. An array of a dict that has two dimensions is a list per row.
    """
    where = table_name(frame)
    try:
        if isinstance(frame, Mapping):
            table = pa.table({str(name): _column(values, f"{where}['{name}']") for name, values in frame.items()})
        else:
            table = pa.table(frame)
        table = table.drop_columns([name for name in table.column_names if UNNAMED_INDEX.fullmatch(name)])
        return pa.table([_plain(column) for column in table.columns], names=table.column_names)
    except ShiftBenchError:
        raise
    except FAULTS as problem:
        raise ShiftBenchError(f"{where}: cannot be read as a table ({first_line(problem)}).") from problem


def _column(values: Any, argument: str) -> Any:
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    array = array_of(values, argument)
    return pa.array(array) if array.ndim == 1 else pa.array(list(array.reshape(len(array), -1)))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without its encoding: categories, and strings with long offsets or as views, are strings."""
    if pa.types.is_dictionary(column.type):
        words = [_plain(pa.chunked_array([chunk.dictionary])).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array([chunk for part in words for chunk in part.chunks],
                                words[0].type if words else pa.string())
    return column.cast(pa.string()) if str(column.type) in ("large_string", "string_view") else column


class Tabular:
    """What can be had as a data frame, from its `to_arrow`. pandas and polars are imported when they are asked for."""

    def to_arrow(self) -> pa.Table:
        """A table of pyarrow."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """A data frame of pandas."""
        _installed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A data frame of polars."""
        return _installed("polars").from_arrow(self.to_arrow())


def _installed(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as problem:
        raise ShiftBenchError(f"{package} is not installed. Install it with: pip install {package}") from problem


def read_table(
    path: Any, columns: Sequence[str] = (), text: Sequence[str] = (), *, every: bool = True,
    between: str | None = None
) -> pa.Table:
    """Read a table of any of the formats of `table_formats`, with `columns`; quoted values may hold line breaks.

    A data frame, or a dict of columns, is a table too. Columns named in `text` stay text in a CSV file, so that the id
    000123 does not become the number 123. Without `every`, only `columns` of a CSV file are kept in memory. `between`
    separates the values of a CSV file: by default a comma, in a .tsv file a tab.
    """
    if is_frame(path):
        frame = frame_table(path)
        no_doubles(table_name(path), frame)
        for name in columns:
            if name not in frame.column_names:
                raise unknown("column", name, frame.column_names, table_name(path))
        return frame
    file = Path(path)
    check_regular(file)
    if not file.is_file():
        raise ShiftBenchError(f"{file}: no such file." if not file.exists() else f"{file} is a folder, not a table.")
    form = format_of(file)
    try:
        table = read_rows(file, form, text, None if every else columns, between or default_separator(file))
        if form.title == "CSV":
            table = as_written(table)
    except ShiftBenchError:
        raise
    except (*DAMAGED, *FAULTS) as problem:
        raise ShiftBenchError(f"{file}: not a readable {form.title} table ({first_line(problem)}).") from problem
    no_doubles(file, table)
    for name in columns:
        if name not in table.column_names:
            raise _no_column(file, name, table.column_names)
    return table


def _no_column(file: Path, name: str, columns: Sequence[str]) -> ShiftBenchError:
    other = next((mark for mark in ";\t| " if mark in columns[0]), None) if len(columns) == 1 else None
    if other is not None:
        return ShiftBenchError(f"{file}: has one column, '{columns[0]}'. Are its values separated by {other!r}? "
                               "Say so with --between.")
    return unknown("column", name, columns, str(file))


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


def filled(path: Path | str, table: pa.Table, columns: Sequence[str], blank: bool = False) -> None:
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


def write_table(path: Path | str, table: pa.Table) -> None:
    """Write a parquet file, or a CSV file where the name ends so."""
    with writing(path) as hidden:
        if Path(path).suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(no_formulas(table), hidden)
        else:
            pq.write_table(table, hidden, compression="zstd")


# Text in a CSV file that a spreadsheet would take for a formula: it gets an apostrophe, and loses it when read.

FORMULA, QUOTED = r"^[=+\-@\t\r]", r"^'+[=+\-@\t\r]"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""What a spreadsheet would work out, the same as text, and what only looks like it."""


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
