"""Text in a CSV file that a spreadsheet would take for a formula: it gets an apostrophe, and loses it when read."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
