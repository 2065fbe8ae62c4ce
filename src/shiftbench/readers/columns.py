"""Columns of a table that somebody else wrote: an error in one says the file, the row and the column."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import FAULTS, as_written, few_columns, first_line, no_doubles, read_table, texts

BLOCK = 1 << 26
"""Bytes that are read at once: from the first block it is told whether a column holds numbers or text."""


def read_columns(
    path: Path | str, columns: Sequence[str] = (), text: Sequence[str] = (), every: bool = True,
    between: str | None = None
) -> pa.Table:
    """A text file of columns (CSV) whose quoted values may hold line breaks, or a parquet file, with `columns` in it.

    Columns named in `text` stay text, so that the id 000123 does not become the number 123. Without `every`, only
    `columns` are kept in memory. `between` is what stands between two values: by default a comma, in a .tsv file a tab.
    """
    file = Path(path)
    if not file.is_file() or _is_parquet(file):
        table = read_table(file)
    else:
        from pyarrow import csv

        between = between or ("\t" if file.suffix == ".tsv" else ",")
        if len(between) != 1 or not between.isascii() or between in '"\r\n':
            raise ShiftBenchError(f"{between!r} cannot stand between two values; it must be one character, as , or ;.")
        with file.open("rb") as handle:
            first = handle.read(1)
        if not first:
            raise ShiftBenchError(f"{file}: is empty. The first line of a CSV file names its columns.")
        try:
            few_columns(file, between)
            table = as_written(csv.read_csv(
                file,
                read_options=csv.ReadOptions(block_size=BLOCK),
                parse_options=csv.ParseOptions(newlines_in_values=True, delimiter=between),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(text, pa.string()),
                    include_columns=None if every else list(columns),
                    include_missing_columns=False)))
        except KeyError:  # pyarrow's way to say that an included column is not there
            return read_columns(file, columns, text, True, between)  # names the column, or finds it after all
        except ShiftBenchError:
            raise
        except (OSError, *FAULTS) as problem:
            raise ShiftBenchError(f"{file}: not a readable CSV table ({first_line(problem)}).") from problem
    no_doubles(file, table)
    for name in columns:
        if name not in table.column_names:
            other = next((mark for mark in ";\t| " if mark in table.column_names[0]), None)
            if table.num_columns == 1 and other is not None:
                raise ShiftBenchError(f"{file}: has one column, '{table.column_names[0]}'. Are its values separated by "
                                      f"{other!r}? Say so with --between.")
            raise unknown("column", name, table.column_names, str(file))
    return table


def _is_parquet(file: Path) -> bool:
    """Whether a file is parquet, by its name or its first bytes; everything else is text."""
    with file.open("rb") as handle:
        return file.suffix in (".parquet", ".pq") or handle.read(4) == b"PAR1"


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
