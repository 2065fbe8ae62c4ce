"""The file formats of a table other than parquet: text with separators (CSV), JSON lines, Arrow and Excel.

CSV and JSON lines may be gzipped. A spreadsheet takes text such as =1+1 or @cmd in a CSV file for a formula and
computes it. So such text is written with an apostrophe before it, which marks text in a spreadsheet, and read without.
"""

import datetime
import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.errors import ShiftBenchError

MOST_COLUMNS = 100_000
"""The most columns that a table may have: pyarrow needs some kilobytes for each, and fails at a million."""
BLOCK = 1 << 26
"""The bytes of a text file that are read at a time: the first block decides whether a column holds numbers or text."""
SMALL, RATIO = 1 << 28, 200
"""A compressed file may unpack to SMALL bytes or to RATIO times its size; a larger one was made to exhaust memory."""
DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile)
"""What a damaged file raises, apart from pyarrow's own exceptions."""
FORMULA, QUOTED = r"^[=+\-@\t\r]", r"^'+[=+\-@\t\r]"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""Text that a spreadsheet would compute, the same with apostrophes before it, and numbers, which are harmless."""


def read_format(
    file: Path, title: str, text: Sequence[str], only: Sequence[str] | None, between: str | None
) -> pa.Table:
    """All rows of a file of the format `title`; the options are those of CSV, see `core.tables.read_table`."""
    if title == "Arrow":
        return _read_arrow(file)
    if title == "Excel":
        return _read_excel(file)
    content = _unpacked(file) if file.suffix.lower() == ".gz" else None
    if title == "JSON lines":
        return _read_json_lines(file, content)
    return _without_apostrophes(_read_csv(file, content, text, only, between))


def csv_columns(file: Path) -> list[str]:
    """The columns of a CSV file, without reading its rows."""
    return list(_csv_schema(file, _default_separator(file)).names)


def _csv_schema(source: Any, between: str) -> pa.Schema:
    """The columns of a CSV file, from the rows at its start."""
    from pyarrow import csv

    return csv.open_csv(source, parse_options=csv.ParseOptions(delimiter=between, newlines_in_values=True)).schema


def write_csv(path: Path, table: pa.Table) -> None:
    """Write a CSV file in which no text is a formula."""
    from pyarrow import csv

    csv.write_csv(no_formulas(table), path)


def check_width(file: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise too_wide(file)


def too_wide(file: Path) -> ShiftBenchError:
    return ShiftBenchError(f"{file}: has more than {MOST_COLUMNS:,} columns. Is it a table with a row per item?")


def _default_separator(file: Path) -> str:
    return "\t" if ".tsv" in [ending.lower() for ending in file.suffixes[-2:]] else ","


def _unpacked(file: Path) -> bytes:
    """The text of a gzipped file, up to a limit."""
    most = max(SMALL, RATIO * file.stat().st_size)
    with gzip.open(file) as stream:
        content = io.BytesIO()
        while block := stream.read(1 << 22):
            content.write(block)
            if content.tell() > most:
                raise _too_large(file)
    return content.getvalue()


def _too_large(file: Path) -> ShiftBenchError:
    return ShiftBenchError(f"{file}: unpacks to more than {RATIO} times its size, so it is damaged or made to exhaust "
                           "memory. If the table really is this large, unpack it first.")


def _read_csv(
    file: Path, content: bytes | None, text: Sequence[str], only: Sequence[str] | None, between: str | None
) -> pa.Table:
    from pyarrow import csv

    between = separator_of(between or _default_separator(file))
    if len(between) != 1 or not between.isascii() or between in '"\r\n':
        raise ShiftBenchError(f"{between!r} cannot separate two values; it must be one character, as , or ; or \\t.")
    if not file.stat().st_size or content == b"":
        raise ShiftBenchError(f"{file}: is empty. The first line of a CSV file names its columns.")
    with file.open("rb") if content is None else io.BytesIO(content) as handle:
        check_width(file, _columns_of_csv(handle, between))
    if only is not None:
        schema = pa.schema([])
        with suppress(pa.ArrowException):
            schema = _csv_schema(file if content is None else pa.BufferReader(content), between)
        if any(len(schema.get_all_field_indices(name)) != 1 for name in only):
            only = None  # of two columns pyarrow would take the first; with all of them `read_table` says what is wrong
    return csv.read_csv(
        file if content is None else pa.BufferReader(content),
        read_options=csv.ReadOptions(block_size=BLOCK),
        parse_options=csv.ParseOptions(newlines_in_values=True, delimiter=between),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(text, pa.string()),
            include_columns=None if only is None else list(only)))


def separator_of(between: str) -> str:
    r"""The separator that a user means: a tab is typed as \t, which a shell passes on as two characters.

    >>> separator_of(r"\t") == "\t", separator_of(";")
    (True, ';')
    """
    return "\t" if between == r"\t" else between


def _columns_of_csv(handle: Any, between: str) -> int:
    """The number of values in the first line, counted before anything is parsed."""
    count, block = 1, b"x"
    while block and count <= MOST_COLUMNS:
        block = handle.read(1 << 20)
        head, end, _ = block.partition(b"\n")
        count += head.count(between.encode())
        if end:
            break
    return count


def _read_json_lines(file: Path, content: bytes | None) -> pa.Table:
    """An object per line. Text that looks like a date stays text."""
    from pyarrow import json

    if not file.stat().st_size or content == b"":
        raise ShiftBenchError(f"{file}: is empty. Each line of a JSON-lines file is an object.")

    def read(schema: pa.Schema | None) -> pa.Table:
        return json.read_json(file if content is None else pa.BufferReader(content),
                              read_options=json.ReadOptions(block_size=BLOCK),
                              parse_options=json.ParseOptions(newlines_in_values=False, explicit_schema=schema))

    table = read(None)
    check_width(file, table.num_columns)
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    return read(pa.schema([(name, pa.string()) for name in dates])) if dates else table


def _read_arrow(file: Path) -> pa.Table:
    """Arrow's file format (also called feather), or its stream format, which `datasets` writes."""
    with pa.memory_map(str(file)) as source:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_stream(source)
        check_width(file, len(reader.schema))
        table = reader.read_all()
    table.validate(full=True)
    return table


def _read_excel(file: Path) -> pa.Table:
    """The first sheet of a workbook; its first row names the columns. A formula is read as the value Excel saved."""
    try:
        from openpyxl import load_workbook
    except ImportError as problem:
        raise ShiftBenchError(f"{file}: Excel tables need openpyxl: pip install 'shiftbench[xlsx]'; or save the table "
                              "as CSV.") from problem
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > max(SMALL, RATIO * file.stat().st_size):
            raise _too_large(file)
    try:
        book = load_workbook(file, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [list(row) for row in sheet.iter_rows(values_only=True)]
        sheets = book.sheetnames
        book.close()
    except Exception as problem:  # openpyxl lets through whatever its parsers raise
        raise ShiftBenchError(f"{file}: not a readable Excel table ({type(problem).__name__}: "
                              f"{str(problem).splitlines()[0][:200] if str(problem) else 'damaged'}).") from problem
    if len(sheets) > 1:
        warnings.warn(f"{file}: has {len(sheets)} sheets; the first, '{sheets[0]}', is read.", stacklevel=2)
    rows = [row for row in rows if any(value is not None for value in row)]
    if not rows:
        raise ShiftBenchError(f"{file}: is empty. The first row of a sheet names its columns.")
    width = max((number for number, value in enumerate(rows[0], start=1) if value is not None), default=0)
    check_width(file, width)
    names = ["" if name is None else str(name) for name in rows[0][:width]]
    for number, row in enumerate(rows[1:], start=1):
        if any(value is not None for value in row[width:]):
            raise ShiftBenchError(f"{file}: row {number} has a value beyond the last named column. Name its column in "
                                  "the first row.")
    columns = [_excel_column([row[k] if k < len(row) else None for row in rows[1:]]) for k in range(width)]
    return pa.table(columns, names=names)


def _excel_column(values: list[Any]) -> pa.Array:
    """A column has one type: where it mixes numbers, dates and text, all values are text."""
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return pa.array(values, pa.float64())
    if types == {datetime.datetime} and all(value is None or value.time() == datetime.time() for value in values):
        return pa.array([None if value is None else value.date() for value in values], pa.date32())
    if len(types) > 1 or types & {datetime.time, datetime.timedelta}:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)


def no_formulas(table: pa.Table) -> pa.Table:
    """A table for a CSV file: every text that a spreadsheet would take for a formula gets an apostrophe before it.

    So does one that has apostrophes there already, so that reading gives back every text. A number that is text, such
    as -1, is harmless and stays.
    """
    return _map_texts(table, lambda column: pc.if_else(
        pc.or_(pc.match_substring_regex(column, QUOTED), pc.and_(
            pc.match_substring_regex(column, FORMULA), pc.invert(pc.match_substring_regex(column, NUMBER)))),
        pc.binary_join_element_wise("'", column, ""), column))


def no_formula(text: str) -> str:
    """`no_formulas` for one text.

    >>> [no_formula(text) for text in ("=1+1", "cat", "-1", "-1+x", "'=1")]
    ["'=1+1", 'cat', '-1', "'-1+x", "''=1"]
    """
    return str(no_formulas(pa.table({"text": pa.array([text], pa.string())}))["text"][0])


def _without_apostrophes(table: pa.Table) -> pa.Table:
    """The table that `no_formulas` was given."""
    return _map_texts(table, lambda column: pc.if_else(
        pc.match_substring_regex(column, QUOTED), pc.utf8_slice_codeunits(column, 1), column))


def _map_texts(table: pa.Table, change: Callable[[Any], Any]) -> pa.Table:
    """Change every column of texts, and the names of the columns."""
    names = change(pa.array(table.column_names, pa.string())).to_pylist()
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        columns.append(change(column) if is_text else column)
    return pa.table(columns, names=names) if columns else table
