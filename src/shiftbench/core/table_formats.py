"""The file formats of a table: text with separators (CSV), JSON lines, parquet, Arrow and Excel; text may be gzipped.

The name of a file says its format, and parquet also its first bytes; everything else is text with separators.
"""

import datetime
import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.errors import ShiftBenchError

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


# The file formats of a table: text with separators (CSV), JSON lines, parquet, Arrow and Excel; text may be gzipped.

MOST_COLUMNS = 100_000
"""Columns of a table that is read: pyarrow keeps some kilobytes for each, and gives up at a million."""
BLOCK = 1 << 26
"""Bytes of a text file that are read at once: the first block decides whether a column holds numbers or text."""
SMALL, RATIO = 1 << 28, 200
"""A compressed file may unpack to SMALL bytes, or to RATIO times its size: more is made to fill a memory."""
DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile)


class Format(NamedTuple):
    """What a file holds, by its name: `title` in messages, and whether it is gzipped."""

    title: str
    packed: bool


def format_of(file: Path) -> Format:
    """The format of a table's file."""
    endings = [ending.lower() for ending in file.suffixes]
    packed = bool(endings) and endings[-1] == ".gz"
    ending = next(iter(endings[-2::-1] if packed else endings[::-1]), "")
    title = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "JSON lines", ".ndjson": "JSON lines",
             ".arrow": "Arrow", ".feather": "Arrow", ".ipc": "Arrow", ".xlsx": "Excel"}.get(ending, "CSV")
    if title == "CSV" and not packed:
        with file.open("rb") as handle:
            title = "parquet" if handle.read(4) == b"PAR1" else title
    if packed and title not in ("CSV", "JSON lines"):
        raise ShiftBenchError(f"{file}: a gzipped {title} table is not read. Unpack it first; it is compressed inside.")
    return Format(title, packed)


def default_separator(file: Path) -> str:
    """What stands between two values unless somebody says otherwise: a tab in a .tsv file, else a comma."""
    return "\t" if ".tsv" in [ending.lower() for ending in file.suffixes[-2:]] else ","


def read_rows(
    file: Path, form: Format, text: Sequence[str], only: Sequence[str] | None, between: str
) -> pa.Table:
    """All rows of a file; columns named in `text` stay text, and of a CSV or parquet file only `only` are kept."""
    if form.title == "parquet":
        few(file, pq.read_metadata(file).num_columns)
        return pq.read_table(file)
    if form.title == "Arrow":
        return _read_arrow(file)
    if form.title == "Excel":
        return _read_excel(file)
    content = _unpacked(file) if form.packed else None
    if form.title == "JSON lines":
        return _read_json_lines(file, content)
    return _read_csv(file, content, text, only, between)


def few(file: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise ShiftBenchError(f"{file}: has more than {MOST_COLUMNS:,} columns. Is it a table with a row per item?")


def _unpacked(file: Path) -> bytes:
    """The text of a gzipped file, within reason."""
    most = max(SMALL, RATIO * file.stat().st_size)
    with gzip.open(file) as stream:
        content = io.BytesIO()
        while block := stream.read(1 << 22):
            content.write(block)
            if content.tell() > most:
                raise _too_large(file)
    return content.getvalue()


def _too_large(file: Path) -> ShiftBenchError:
    return ShiftBenchError(f"{file}: unpacks to more than {RATIO} times its size, so it is damaged or made to fill the "
                           "memory. If the table is really so, unpack it first.")


def _read_csv(
    file: Path, content: bytes | None, text: Sequence[str], only: Sequence[str] | None, between: str
) -> pa.Table:
    from pyarrow import csv

    between = spelled(between)
    if len(between) != 1 or not between.isascii() or between in '"\r\n':
        raise ShiftBenchError(f"{between!r} cannot separate two values; it must be one character, as , or ; or \\t.")
    if not file.stat().st_size or content == b"":
        raise ShiftBenchError(f"{file}: is empty. The first line of a CSV file names its columns.")
    with file.open("rb") if content is None else io.BytesIO(content) as handle:
        few(file, _columns_of_csv(handle, between))
    try:
        return csv.read_csv(
            file if content is None else pa.BufferReader(content),
            read_options=csv.ReadOptions(block_size=BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True, delimiter=between),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(text, pa.string()),
                include_columns=None if only is None else list(only),
                include_missing_columns=False))
    except KeyError:  # pyarrow's way to say that an included column is not there
        return _read_csv(file, content, text, None, between)


def spelled(between: str) -> str:
    r"""A separator as it is meant: a tab is typed as \t, which a shell hands on as two characters.

    >>> spelled(r"\t") == "\t", spelled(";")
    (True, ';')
    """
    return "\t" if between == r"\t" else between


def _columns_of_csv(handle: Any, between: str) -> int:
    """How many values the first line has, counted before anything is parsed."""
    count, block = 1, b"x"
    while block and count <= MOST_COLUMNS:
        block = handle.read(1 << 20)
        head, end, _ = block.partition(b"\n")
        count += head.count(between.encode())
        if end:
            break
    return count


def _read_json_lines(file: Path, content: bytes | None) -> pa.Table:
    """An object per line. Text that looks like a date stays the text that it is."""
    from pyarrow import json

    if not file.stat().st_size or content == b"":
        raise ShiftBenchError(f"{file}: is empty. Each line of a JSON-lines file is an object.")

    def read(schema: pa.Schema | None) -> pa.Table:
        return json.read_json(file if content is None else pa.BufferReader(content),
                              read_options=json.ReadOptions(block_size=BLOCK),
                              parse_options=json.ParseOptions(newlines_in_values=False, explicit_schema=schema))

    table = read(None)
    few(file, table.num_columns)
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    return read(pa.schema([(name, pa.string()) for name in dates])) if dates else table


def _read_arrow(file: Path) -> pa.Table:
    """Arrow's file format (also called feather), or its stream, which `datasets` writes."""
    with pa.memory_map(str(file)) as source:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_stream(source)
        few(file, len(reader.schema))
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
    width = max((place for place, value in enumerate(rows[0], start=1) if value is not None), default=0)
    few(file, width)
    names = ["" if name is None else str(name) for name in rows[0][:width]]
    for number, row in enumerate(rows[1:], start=1):
        if any(value is not None for value in row[width:]):
            raise ShiftBenchError(f"{file}: row {number} has a value beyond the last named column. Name its column in "
                                  "the first row.")
    columns = [_excel_column([row[place] if place < len(row) else None for row in rows[1:]]) for place in range(width)]
    return pa.table(columns, names=names)


def _excel_column(values: list[Any]) -> pa.Array:
    """One type per column: where a column mixes numbers, dates and text, all are text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if kinds == {datetime.datetime} and all(value is None or value.time() == datetime.time() for value in values):
        return pa.array([None if value is None else value.date() for value in values], pa.date32())
    if kinds <= {datetime.time, datetime.timedelta} and kinds:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)
