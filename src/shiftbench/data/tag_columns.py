"""Columns of a table that say what an item carries: one column per tag with yes or no, or one column of many words."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.table_formats import spelled
from shiftbench.core.tables import texts
from shiftbench.data.tags import Tags

YES = ("true", "yes", "y", "t", "1", "1.0")
NO = ("false", "no", "n", "f", "0", "0.0", "-1", "-1.0")
"""Words for yes and no, in lower case. CelebA writes 1 and -1."""
KIND = "object"
"""Meta-graphs and the shifts take tags of this kind unless they are told otherwise."""


def tags_of(
    path: Path | str, rows: pa.Table, columns: Sequence[str], words_in: str | None, between: str
) -> Tags:
    """The tags of all rows: those of the yes-or-no `columns` first, then the words of the column `words_in`.

    A word that is a column too is one tag. The share of the image that tags cover is unknown.
    """
    item: list[Ints] = []
    name: list[Ints] = []
    names = list(columns)
    for code, column in enumerate(columns):
        carried = np.flatnonzero(_yes(path, rows, column))
        item.append(carried)
        name.append(np.full(len(carried), code))
    if words_in is not None:
        row, word, words = _words(path, rows, words_in, between)
        names += sorted(set(words) - set(names))
        code_of = {text: code for code, text in enumerate(names)}
        item.append(row)
        name.append(np.asarray([code_of[text] for text in words], np.int64)[word])
    if not item:
        return Tags.none()
    return Tags.of(np.concatenate(item), np.concatenate(name), names, KIND)


def _yes(path: Path | str, rows: pa.Table, column: str) -> Bools:
    """Which rows say yes; a gap says no, and is counted in a warning."""
    if pa.types.is_boolean(rows[column].type):
        words = rows[column].cast(pa.string())
    else:
        words = pc.utf8_lower(pc.utf8_trim_whitespace(texts(path, rows, column)))
    gaps = pc.or_kleene(pc.is_null(words), pc.equal(words, ""))
    yes, no = (pc.is_in(words, value_set=pa.array(values)) for values in (YES, NO))
    odd = pc.invert(pc.or_(pc.or_(yes, no), pc.fill_null(gaps, True)))
    if pc.any(odd).as_py():
        row = int(pc.index(odd, True).as_py())
        raise ShiftBenchError(f"{path}: row {row} has '{words[row]}' in column '{column}', which is to be a tag. A tag "
                              "is true or false, yes or no, 1 or 0, 1 or -1; --tags-in names a column of words.")
    count = int(pc.sum(pc.fill_null(gaps, True)).as_py() or 0)
    if count:
        warnings.warn(f"{path}: {count:,} rows have nothing in column '{column}'; there the tag counts as absent.",
                      stacklevel=5)
    return np.asarray(yes.to_numpy(zero_copy_only=False) if isinstance(yes, pa.Array) else yes.to_numpy(), np.bool_)


def _words(path: Path | str, rows: pa.Table, column: str, between: str) -> tuple[Ints, Ints, list[str]]:
    """Row and code of each word of a column, and the words; a list per row, or one text with `between` in it."""
    if not between:
        raise ShiftBenchError(f"{path}: nothing stands between the tags of column '{column}'. Name what does, as ;.")
    kind = rows[column].type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lists = rows[column].combine_chunks()
        if not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
            raise ShiftBenchError(f"{path}: column '{column}' holds lists of {kind.value_type}, but tags are words.")
    else:
        lists = pc.split_pattern(texts(path, rows, column).combine_chunks(), spelled(between))
    row = np.asarray(pc.list_parent_indices(lists), np.int64)
    each = pc.fill_null(pc.utf8_trim_whitespace(pc.list_flatten(lists)), "")
    each.validate(full=True)
    there = np.flatnonzero(pc.not_equal(each, "").to_numpy(zero_copy_only=False))
    coded = each.take(pa.array(there)).dictionary_encode()
    return row[there], np.asarray(coded.indices, np.int64), coded.dictionary.to_pylist()
