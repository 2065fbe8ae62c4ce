"""Tables: files and data frames, read into columns that are asked for by name and type.

Our files and those of strangers are read alike. Parquet checks neither the names of its columns nor its texts, and CSV
has no types at all, so code that reads a column goes through `strings`, `whole`, `decimal` or `values_of`, which raise
an error where the column does not have the type.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Floats, Ints, Strs, Values, Words, array_of, is_lazy, to_strings
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import check_regular, path_of, writing
from shiftbench.core.table_formats import DAMAGED, MOST_COLUMNS, csv_columns, read_format, too_wide, write_csv

TABLES = "the file of a table, nor a data frame (pandas, polars, pyarrow), nor a dict of columns"
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "JSON lines", ".ndjson": "JSON lines", ".arrow": "Arrow",
           ".feather": "Arrow", ".ipc": "Arrow", ".xlsx": "Excel"}
"""The format of a table's file by the ending of its name; every other file is text with separators (CSV)."""
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""The column that pandas makes of an index without a name: row numbers, as a rule."""
SEPARATOR = "Say so with --between, which `read table` takes; for other verbs save it with commas."
FAULTS = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises at columns of the wrong type and at damaged ones."""


def read_table(
    source: Any, columns: Sequence[str] = (), text: Sequence[str] = (), *, every: bool = True,
    between: str | None = None
) -> pa.Table:
    """Read a table that has `columns`: a file of one of FORMATS, a data frame or a dict of columns.

    Columns named in `text` stay text in a CSV file, so that the id 000123 does not become the number 123; quoted values
    may hold line breaks. Without `every`, only `columns` of a CSV file are kept in memory. `between` separates the
    values of a CSV file: by default a comma, in a .tsv file a tab.
    """
    if is_frame(source):
        return _with_columns(table_name(source), frame_table(source), columns)
    file = path_of(source, TABLES)
    check_regular(file)
    if not file.is_file():
        raise ShiftBenchError(f"{file}: no such file." if not file.exists() else f"{file} is a folder, not a table.")
    title = format_of(file)
    with _readable(file, title):
        if title == "parquet":
            if pq.read_metadata(file).num_columns > MOST_COLUMNS:
                raise too_wide(file)
            table = pq.read_table(file)
        else:
            table = read_format(file, title, text, None if every else columns, between)
    return _with_columns(file, table, columns)


def open_table(
    source: Any, columns: Sequence[str] = (), text: Sequence[str] = (), plain: Sequence[str] = ()
) -> Any:
    """`read_table`, but coded words stay codes, and a column of a parquet file is read when it is asked for.

    Columns named in `plain` are not read as codes: as a rule each of their words occurs once.
    """
    if is_frame(source):
        return _with_columns(table_name(source), frame_table(source, categories=True), columns)
    file = Path(source)
    if not file.is_file() or format_of(file) != "parquet":
        return read_table(source, columns, text)
    check_regular(file)
    with _readable(file, "parquet"):
        table = ParquetTable(file, plain)
    return _with_columns(file, table, columns)


def column_names(source: Any) -> list[str]:
    """The columns of a table, without reading the rows of a parquet or CSV file."""
    if not is_frame(source) and Path(source).is_file():
        title = format_of(Path(source))
        with suppress(*DAMAGED, *FAULTS):  # read_table says what is wrong
            if title == "parquet":
                return list(pq.read_schema(source).names)
            if title == "CSV" and Path(source).suffix.lower() != ".gz":
                return csv_columns(Path(source))
    return list(read_table(source).column_names)


def format_of(file: Path) -> str:
    """The format of a table's file: as its name says, and parquet also by its first bytes."""
    endings = [ending.lower() for ending in file.suffixes]
    gzipped = endings[-1:] == [".gz"]
    title = FORMATS.get(next(reversed(endings[:-1] if gzipped else endings), ""), "CSV")
    if title == "CSV" and not gzipped:
        with file.open("rb") as handle:
            return "parquet" if handle.read(4) == b"PAR1" else title
    if gzipped and title not in ("CSV", "JSON lines"):
        raise ShiftBenchError(f"{file}: a gzipped {title} table is not read. Unpack it first; it is compressed inside.")
    return title


@contextmanager
def _readable(file: Path, title: str) -> Iterator[None]:
    try:
        yield
    except ShiftBenchError:
        raise
    except (*DAMAGED, *FAULTS) as problem:
        remedies = {"invalid UTF8": " Save it as UTF-8.", "\0": " Save it as UTF-8.",
                    "Expected 1 columns": f" Is a comma between its values? {SEPARATOR}"}
        remedy = next((remedies[mark] for mark in remedies if title == "CSV" and mark in str(problem)), "")
        raise ShiftBenchError(f"{file}: not a readable {title} table ({first_line(problem)}).{remedy}") from problem


def _with_columns(where: Path | str, table: Any, columns: Sequence[str]) -> Any:
    """A table that has `columns`, each name once."""
    no_doubles(where, table)
    names = table.column_names
    absent = next((name for name in columns if name not in names), None)
    if isinstance(where, Path) and len(names) == 1 and (absent is not None or not columns):
        other = next((mark for mark in (";\t| " if columns else ";\t") if mark in names[0]), None)
        if other is not None:
            raise ShiftBenchError(f"{where}: has one column, '{names[0]}'. Are its values separated by {other!r}? "
                                  f"{SEPARATOR}")
    if absent is not None:
        raise unknown("column", absent, names, str(where))
    return table


def no_doubles(where: Path | str, table: Any) -> None:
    """Refuse a column name that is not text, and a name that two columns have."""
    try:
        names = Counter(table.column_names)
    except UnicodeDecodeError as problem:
        raise ShiftBenchError(f"{where}: the name of a column is not UTF-8 text. Save the table as UTF-8.") from problem
    for name, times in names.most_common(1):
        if times > 1:
            raise ShiftBenchError(f"{where}: has more than one column '{name}'. Give each column a name of its own.")


class ParquetTable:
    """A parquet file whose columns are read when they are asked for; it has the methods of `pa.Table` that we use.

    Words are read as codes, except in the columns `plain`. `rows` are the rows of the file, by default all.
    """

    def __init__(self, file: Path, plain: Sequence[str] = ()) -> None:
        self.file, self.plain, self.metadata = file, plain, pq.read_metadata(file)
        if self.metadata.num_columns > MOST_COLUMNS:
            raise too_wide(file)
        self.schema = self.metadata.schema.to_arrow_schema()
        self.column_names: list[str] = list(self.schema.names)
        self.names_in_file = self.column_names
        self.num_rows: int = self.metadata.num_rows
        self.rows: Ints | None = None

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        stored = self.names_in_file[self.column_names.index(name)]
        coded = stored not in self.plain and str(self.schema.field(stored).type) in ("string", "large_string")
        with _readable(self.file, "parquet"):
            file = pq.ParquetFile(self.file, metadata=self.metadata, read_dictionary=[stored] if coded else [])
            column = file.read([stored])[stored]
        return column if self.rows is None else column.take(pa.array(self.rows))

    def select(self, names: Sequence[str]) -> "ParquetTable":
        table = copy(self)
        table.names_in_file = [self.names_in_file[self.column_names.index(name)] for name in names]
        return table.rename_columns(names)

    def rename_columns(self, names: Sequence[str]) -> "ParquetTable":
        table = copy(self)
        table.column_names = list(names)
        return table

    def take(self, rows: Ints) -> "ParquetTable":
        table = copy(self)
        table.rows, table.num_rows = rows if self.rows is None else self.rows[rows], len(rows)
        return table


def write_table(path: Path | str, table: pa.Table, **options: Any) -> Path:
    """Write a CSV file where the name ends so, else a parquet file, with these options of pyarrow."""
    with writing(path) as staged:
        if Path(path).suffix == ".csv":
            write_csv(staged, table)
        else:
            pq.write_table(table, staged, **{"compression": "zstd", **options})
    return Path(path)


def strings(where: Path | str, table: pa.Table, name: str, gap: str | None = None) -> Strs:
    """A column of text, or of numbers as text; `gap` replaces missing values, and without it they are an error."""
    column = texts(where, table, name, gaps=gap is not None)
    return to_strings(column if gap is None else pc.fill_null(column, gap))


def texts(where: Path | str, table: pa.Table, name: str, gaps: bool = True) -> pa.ChunkedArray:
    """A column of text with its gaps; without `gaps` they are an error."""
    return _cast(where, table, name, pa.string(), "text", gaps=gaps)


def words(where: Path | str, table: pa.Table, name: str, gaps: bool = False) -> Words:
    """`strings` as codes; with `gaps`, a gap is the empty word."""
    column = table[name]
    with _all_of("text", where, column, name):
        coded = Words.of(column)
    if not gaps:
        _no_gaps(where, column, name)
    return coded


def long_texts(where: Path | str, table: pa.Table, name: str, gap: str | None = None) -> Values:
    """A column of text as Python's strings: one long text must not widen all the others."""
    column = texts(where, table, name, gaps=gap is not None)
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
    dtype = table[name].type
    if pa.types.is_dictionary(dtype) or not (pa.types.is_floating(dtype) or pa.types.is_integer(dtype)
                                             or pa.types.is_boolean(dtype) or pa.types.is_temporal(dtype)):
        return strings(where, table, name)
    if pa.types.is_floating(dtype):
        return np.asarray(table[name].to_numpy(), dtype.to_pandas_dtype())
    _no_gaps(where, table[name], name)
    return np.asarray(table[name].to_numpy())


def _cast(
    where: Path | str, table: pa.Table, name: str, dtype: Any, wanted: str, gaps: bool = False
) -> pa.ChunkedArray:
    column = table[name]  # once: the table may read it from a file
    with _all_of(wanted, where, column, name):
        column = column.cast(dtype)
        column.validate(full=True)  # parquet does not check that text is UTF-8
    if not gaps:
        _no_gaps(where, column, name)
    return column


@contextmanager
def _all_of(wanted: str, where: Path | str, column: pa.ChunkedArray, name: str) -> Iterator[None]:
    """Refuse lists and structs, which pyarrow silently turns into text, and what cannot be read."""
    dtype = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        if pa.types.is_nested(dtype):
            raise TypeError(f"it holds {dtype}")
        yield
    except FAULTS as problem:
        raise ShiftBenchError(f"{where}: column '{name}' is not all {wanted} ({first_line(problem)}).") from problem


def _no_gaps(where: Path | str, column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise ShiftBenchError(f"{where}: row {row} has nothing in column '{name}'. Fill it, or drop the row.")


def filled(path: Path | str, table: pa.Table, columns: Sequence[str], blank: bool = False) -> None:
    """Check that a table has rows and these columns have no gaps; with `blank`, blank text counts as a gap."""
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
    """Check that the values of a column of whole numbers lie between `least` and `most`."""
    for row in np.flatnonzero((values < least) | (values > most))[:1]:
        raise ShiftBenchError(f"{path}: row {row} has {values[row]} in column '{column}'. "
                              f"Allowed: {least} to {most}.")


def is_frame(source: object) -> bool:
    """Whether this is a table in memory: a data frame of pandas, polars or pyarrow (Arrow's interface), or a dict."""
    return isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__") or is_lazy(source)


def table_name(source: Any) -> str:
    """The name of a table in messages: its file, or its type in memory.

    >>> table_name("scans.csv"), table_name({"item": []})
    ('scans.csv', 'dict')
    """
    return str(source) if isinstance(source, str | PathLike) else type(source).__name__


def frame_table(frame: Any, categories: bool = False) -> pa.Table:
    """A data frame, or a dict of columns, as a table of the types that files have too.

    A named pandas index becomes a column. A two-dimensional array in a dict becomes a list per row. NaN in a list of
    words is a gap, as in pandas. With `categories`, words that are coded stay coded.
    """
    where = table_name(frame)
    try:
        if isinstance(frame, Mapping):
            table = pa.table({str(name): _column(values, f"{where}['{name}']") for name, values in frame.items()})
        else:
            table = _with_range(pa.table(frame.collect() if is_lazy(frame) else frame))
        table = table.drop_columns([name for name in table.column_names if UNNAMED_INDEX.fullmatch(name)])
        return pa.table([column if categories and _has_categories(column.type) else _plain(column)
                         for column in table.columns], names=table.column_names)
    except ShiftBenchError:
        raise
    except FAULTS as problem:
        raise ShiftBenchError(f"{where}: cannot be read as a table ({first_line(problem)}).") from problem


def _with_range(table: pa.Table) -> pa.Table:
    """Add a named pandas index that counts rows: pyarrow only describes it, while it keeps other indices as columns."""
    for index in (table.schema.pandas_metadata or {}).get("index_columns", ()):
        if isinstance(index, dict) and index["name"] is not None and index["name"] not in table.column_names:
            numbers = np.arange(index["start"], index["stop"], index["step"])
            if len(numbers) == len(table):  # rows may have been left out since
                table = table.append_column(str(index["name"]), pa.array(numbers))
    return table


def _column(values: Any, argument: str) -> Any:
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    array = array_of(values, argument)
    if array.ndim > 1:
        return pa.array(list(array.reshape(len(array), -1)))
    if array.dtype.kind == "U" and not isinstance(values, np.ndarray):  # numpy turned None and NaN into words
        return pa.array([None if value is None or value != value else str(value) for value in values], pa.string())
    return pa.array(array, from_pandas=True)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without its encoding: categories, strings with long offsets or as views, and periods and intervals of
    pandas are strings."""
    if str(getattr(column.type, "extension_name", "")).startswith("pandas."):
        words = column.to_pandas()
        return pa.chunked_array([pa.array(words.astype(str).where(words.notna(), None), pa.string())])
    if pa.types.is_dictionary(column.type):
        words = [_plain(pa.chunked_array([chunk.dictionary])).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array([chunk for decoded in words for chunk in decoded.chunks],
                                words[0].type if words else pa.string())
    return column.cast(pa.string()) if str(column.type) in ("large_string", "string_view") else column


def _has_categories(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(dtype)
                and (pa.types.is_string(dtype.value_type) or pa.types.is_large_string(dtype.value_type)))


class Tabular:
    """Converts to data frames by `to_arrow`; pandas and polars are imported on first use."""

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
