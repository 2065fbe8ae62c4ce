"""A table of your own, one row per item: columns of label, domain, split, image, text, features, tags and factors.

Tags come from columns of yes and no, one per tag, or from a column with several words in each row.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, Words, to_strings
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import path_of
from shiftbench.core.registry import listed
from shiftbench.core.table_formats import separator_of
from shiftbench.core.tables import (
    FAULTS,
    TABLES,
    column_names,
    decimal,
    filled,
    is_frame,
    read_table,
    table_name,
    texts,
    words,
)
from shiftbench.data.benchmark import SPLITS, UNLABELLED
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.image_files import image_folder, paths_below

FACTORS = ("label", "domain", "split")
SHARED = (("id", "image"), ("id", "text"), ("domain", "split"), ("domain", "features"), ("label", "tags"),
          ("domain", "tags"))
"""Pairs of roles that one column may have: a file name is an id too, and a year is both a domain and a feature."""
GAPS = ("nan", "na", "n/a", "#n/a", "nat", "none", "null", "<na>")
"""Words, in lower case, that programs write for a missing value; they may also mean Namibia or a surname."""
FEATURE = "feature:"
"""The prefix of a feature column's factor: it tells which factors of a collection are inputs."""
YES = ("true", "yes", "y", "t", "1", "1.0")
NO = ("false", "no", "n", "f", "0", "0.0", "-1", "-1.0")
"""Words for yes and no, in lower case. CelebA writes 1 and -1."""
KIND = "object"
"""The kind of tag that meta-graphs and shifts use by default."""


def table(
    source: Annotated[Path | Any, "One row per item: .csv, .tsv, .txt, .jsonl (also .gz), .parquet, .arrow, .feather "
                      "or .xlsx."],
    *,
    id: Annotated[str, "Column with the name of each item."],
    label: Annotated[str, "Column to predict."],
    domain: Annotated[str | None, "Column that moves between train and test."] = None,
    split: Annotated[str | None, "Column that says train, id_val, val, id_test or test."] = None,
    image: Annotated[str | None, "Column with the names of image files."] = None,
    images: Annotated[Path | str | None, "Folder of the image files; default: that of the table."] = None,
    text: Annotated[str | None, "Column with the text of each item."] = None,
    features: Annotated[str | Sequence[str], "Columns of numbers to train on, separated by commas."] = (),
    rename: Annotated[Mapping[str, str] | None, "What a split is called here: --rename valid=val."] = None,
    tags: Annotated[str | Sequence[str], "Columns of yes or no (1 or 0, 1 or -1) that become tags, separated by "
                    "commas."] = (),
    tags_in: Annotated[str | None, "Column of several words each, or of lists: they become tags."] = None,
    tags_between: Annotated[str | None, "Separator of the words of --tags-in; default: ;."] = None,
    missing: Annotated[str | Sequence[str], "Words that mean a missing value, separated by commas: nan,NA."] = (),
    between: Annotated[str | None, "Separator of values in a CSV file; default: a comma. Where the file needs none, "
                       "that of the words of --tags-in."] = None,
    name: Annotated[str | None, "Name of the collection."] = None,
    called: str = "",  # in messages; by default the file, or the type of the frame
) -> Collection:
    """A table of your own: its columns become label, domain, split, images, text, features, tags and further factors.

    The columns named for `label`, `domain` and `split` become the factors of those names and keep their own, a column
    in `features` becomes the factor `feature:NAME` (numbers), and every other column is a factor under its own name.
    A file name may be the id as well. Where `text` is a column of lists, items have several texts. The share of the
    image that tags cover is not known.

    Id, label, domain, split, image and features have no gaps, except for the label of rows of the split `unlabelled`;
    in other columns a gap is NaN among numbers and an empty word among words. Words such as nan that `missing` does not
    list stay words, and a warning counts them. In Python the table may be a data frame or a dict of columns, whose
    images are below the current folder by default.

    shiftbench read table scans.csv --id scan --label tumor --domain hospital --split part --out collections/scans

    shiftbench read table faces.csv --id file --label Blond --tags Male,Smiling,Hat --out collections/faces
    """
    path = called or table_name(source)
    file = Path("table") if is_frame(source) else path_of(source, TABLES)
    if images is not None and image is None:
        raise ShiftBenchError(f"{path}: `images` is the folder of the image files. Name the column of their names too, "
                              "with `image`.")
    roles = {"id": id, "label": label, "domain": domain, "split": split, "image": image, "text": text,
             "tags_in": tags_in}
    used = {role: column for role, column in roles.items() if column is not None}
    features, tags = listed(features, ","), listed(tags, ",")
    _one_purpose(path, used, features, tags)
    text_columns = [column for role, column in used.items() if role != "label"]
    columns = (*used.values(), *features, *tags)
    if tags_in is not None and tags_between is None and between is not None and _has_columns(source, columns):
        between, tags_between = None, between
    rows = _with_gaps(path, read_table(source, columns, text=text_columns, between=between), listed(missing, ","))
    gaps = ("text", "tags_in", "label")
    filled(path, rows, [*(column for role, column in used.items() if role not in gaps), *features], blank=True)
    items = _words(path, rows, id)
    _unique(path, id, items)
    splits = None if split is None else _splits(path, split, _words(path, rows, split), rename or {})
    factors: dict[str, Values] = {"label": _labels(path, rows, label, splits)}
    if domain is not None:
        factors["domain"] = _words(path, rows, domain)
    if splits is not None:
        factors["split"] = splits
    factors |= {FEATURE + column: _finite(path, column, decimal(path, rows, column)) for column in features}
    factor_names = _own_names(path, rows, used, (*features, *tags))
    factors |= {name: factor_values(path, rows, column) for name, column in factor_names.items()}
    root = image_folder(images if images is not None else file.parent) if image is not None else None
    return Collection(
        name=name or file.name.removesuffix(".gz").rpartition(".")[0] or file.name,
        items=items,
        factors=factors,
        tags=tags_of(path, rows, tags, tags_in, ";" if tags_between is None else tags_between),
        texts=Texts.none() if text is None else _texts(path, rows, text),
        pixels=None if root is None or image is None else paths_below(root, _words(path, rows, image).tolist()),
        root=root)


def features(collection: Collection) -> tuple[tuple[str, ...], Floats]:
    """The feature columns of a collection, their names and items × columns: what a model of plain numbers trains on."""
    names = tuple(name for name in collection.factors if name.startswith(FEATURE))
    for name in names:
        if collection.factors[name].dtype.kind not in "iufb":
            raise ShiftBenchError(f"Column '{name}' of collection '{collection.name}' holds words, but features are "
                                  "numbers. Read the table again.")
    values = [np.asarray(collection.factors[name], np.float64) for name in names]
    return tuple(name.removeprefix(FEATURE) for name in names), np.stack(
        values, axis=1) if values else np.zeros((len(collection), 0))


def _one_purpose(path: Path | str, used: Mapping[str, str], features: tuple[str, ...], tags: tuple[str, ...]) -> None:
    roles: dict[str, str] = {}
    for role, column in [*used.items(), *(("features", column) for column in features),
                         *(("tags", column) for column in tags)]:
        other = roles.setdefault(column, role)
        if (other, role) not in ((role, role), *SHARED) or max(features.count(column), tags.count(column)) > 1:
            raise ShiftBenchError(f"{path}: column '{column}' is given for {other} and for {role}. Name another column "
                                  f"for one of them; {' and '.join(map('+'.join, SHARED))} may share one.")


def _has_columns(source: Any, columns: Sequence[str]) -> bool:
    """Whether a table has these columns when it is read with the default separator of its format."""
    try:
        return set(columns) <= set(column_names(source))
    except ShiftBenchError:  # reading the whole table reports what is wrong
        return False


def _own_names(path: Path | str, rows: pa.Table, used: Mapping[str, str], features: tuple[str, ...]) -> dict[str, str]:
    """Factors named after their columns: those without a role, and label, domain and split.

    A column called `split` that --split does not name is neither dropped nor used as the split.
    """
    also_factors = {used[role] for role in FACTORS if role in used} - set(FACTORS)
    no_factors = {*features, *used.values()} - also_factors
    names: dict[str, str] = {}
    for column in rows.column_names:
        if column.startswith(FEATURE):
            raise ShiftBenchError(f"{path}: column '{column}' begins with '{FEATURE}', which marks the columns that "
                                  "--features names. Give it another name.")
        if column in FACTORS and column not in no_factors:
            name = f"{column}_column" if column in used else column
            if name != column and name in rows.column_names:
                raise ShiftBenchError(f"{path}: has columns '{column}' and '{name}', and --{column} names another. "
                                      "Rename one of them.")
            warnings.warn(f"{path}: column '{column}' is not named with --{column}; it is kept as the factor '{name}'"
                          + ("." if column in used else f", which shifts take for the {column}."), stacklevel=3)
            names[name] = column
        elif column not in no_factors:
            names[column or "unnamed"] = column  # pandas writes row numbers into a column without a name
    return names


def _with_gaps(path: Path | str, rows: pa.Table, missing: tuple[str, ...]) -> pa.Table:
    """The table with gaps where a text is one of the words `missing`; a warning counts other words that look like one.
    """
    for position, column in enumerate(rows.column_names):
        if not (pa.types.is_string(rows[column].type) or pa.types.is_large_string(rows[column].type)):
            continue
        words = texts(path, rows, column)
        if missing:
            is_gap = pc.is_in(words, value_set=pa.array(missing))
            words = pc.if_else(is_gap, pa.scalar(None, pa.string()), words)
            rows = rows.set_column(position, column, words)
        odd = words.filter(pc.fill_null(pc.is_in(pc.utf8_lower(words), value_set=pa.array(GAPS)), False))
        if len(odd):
            warnings.warn(f"{path}: {len(odd):,} values in column '{column}' are the word '{odd[0]}', which is kept as "
                          f"a word. If it means that a value is missing, say --missing {odd[0]}.", stacklevel=3)
    return rows


def _unique(path: Path | str, column: str, items: Strs) -> None:
    names, counts = np.unique(items, return_counts=True)
    if (counts > 1).any():
        first = names[counts > 1][0]
        rows = np.flatnonzero(items == first)[:2].tolist()
        raise ShiftBenchError(f"{path}: id '{first}' in column '{column}' is in rows {rows[0]} and {rows[1]}; "
                              f"{int((counts > 1).sum())} ids are not unique. Ids must be unique.")


def _labels(path: Path | str, rows: pa.Table, label: str, splits: Strs | None) -> Values:
    """The labels; every row outside the split `unlabelled` must have one."""
    hidden = np.zeros(len(rows), np.bool_) if splits is None else splits == UNLABELLED
    if hidden.all() or not hidden.any():
        filled(path, rows, [label], blank=True)
        return factor_values(path, rows, label)
    column = rows[label]
    labels = pc.if_else(pa.array(hidden), column[int(np.flatnonzero(~hidden)[0])], column)
    filled(path, rows.select([label]).set_column(0, label, labels), [label], blank=True)
    whole_numbers = pa.types.is_integer(column.type) and column.null_count
    return _words(path, rows, label) if whole_numbers else factor_values(path, rows, label)


def _splits(path: Path | str, column: str, words: Strs, rename: Mapping[str, str]) -> Strs:
    present = np.unique(words)
    for old, new in rename.items():
        if old not in present:
            raise unknown("split", old, present.tolist(), f"{path}: column '{column}', to rename")
        if new not in SPLITS:
            raise unknown("split", new, SPLITS, f"{path}: '{old}' is to be renamed")
    meaning = {word: rename.get(word, word) for word in present.tolist()}
    for word, new in meaning.items():
        if new not in SPLITS:
            row = np.flatnonzero(words == word)[0]
            problem = unknown("split", word, SPLITS, f"{path}: row {row}, column '{column}'")
            raise ShiftBenchError(f"{problem} Say what it means: --rename {word}=val.")
    return np.asarray(list(meaning.values()), np.str_)[np.searchsorted(present, words)]


def factor_values(path: Path | str, rows: pa.Table, name: str) -> Values:
    """A column as a factor: numbers stay numbers, everything else is words."""
    numbers = _numbers(rows[name])
    return _words(path, rows, name) if numbers is None else numbers


def factor_column(path: Path | str, rows: pa.Table, name: str) -> Values | Words:
    """`factor_values`, with words as codes."""
    column = rows[name]
    numbers = _numbers(column)
    return words(path, pa.table({name: column}), name, gaps=True) if numbers is None else numbers


def _numbers(column: pa.ChunkedArray) -> Values | None:
    """The numbers of a column; None where it holds no numbers, or whole ones that are too large."""
    dtype = column.type
    if pa.types.is_integer(dtype) and not column.null_count:
        if pa.types.is_uint64(dtype) and pc.max(column).as_py() >= 2 ** 63:
            return None
        return np.asarray(column.cast(pa.int64()), np.int64)
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    return None


def _words(path: Path | str, rows: pa.Table, name: str) -> Strs:
    """A column as words, the empty word where there is none."""
    return to_strings(_text(path, rows, name))


def _text(path: Path | str, rows: pa.Table, name: str) -> pa.ChunkedArray:
    dtype = rows[name].type
    if pa.types.is_nested(dtype) or pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        raise ShiftBenchError(f"{path}: column '{name}' holds {dtype}, but an item has one number or word of each. "
                              "Leave the column out.")
    try:
        words = rows[name].cast(pa.string())
        words.validate(full=True)
        return pc.fill_null(words, "")
    except FAULTS as problem:
        raise ShiftBenchError(f"{path}: column '{name}' holds {dtype}, which cannot be read as words.") from problem


def _finite(path: Path | str, column: str, values: Floats) -> Floats:
    for row in np.flatnonzero(~np.isfinite(values))[:1]:
        raise ShiftBenchError(f"{path}: row {row} has {values[row]} in feature column '{column}'. Features are finite "
                              "numbers; fill them, or leave the column out of --features.")
    return values


def _texts(path: Path | str, rows: pa.Table, name: str) -> Texts:
    """The text of each item that has one, or all texts of a list."""
    dtype = rows[name].type
    item, column = np.arange(len(rows)), rows
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lists = rows[name].combine_chunks()
        item, column = np.asarray(pc.list_parent_indices(lists), np.int64), pa.table({name: pc.list_flatten(lists)})
    words = np.asarray(_text(path, column, name).to_pylist(), np.object_)
    filled_rows = np.flatnonzero(words != "")
    return Texts(item[filled_rows], words[filled_rows])


# Columns of tags: one column per tag with yes or no, or one column of many words

def tags_of(
    path: Path | str, rows: pa.Table, columns: Sequence[str], words_in: str | None, between: str
) -> Tags:
    """The tags of all rows: those of the yes-or-no `columns` first, then the words of the column `words_in`.

    A word that is also a column is one tag. The share of the image that tags cover is unknown.
    """
    item: list[Ints] = []
    tag: list[Ints] = []
    names = list(columns)
    for code, column in enumerate(columns):
        carried = np.flatnonzero(_yes(path, rows, column))
        item.append(carried)
        tag.append(np.full(len(carried), code))
    if words_in is not None:
        row, word, words = _tag_words(path, rows, words_in, between)
        names += sorted(set(words) - set(names))
        code_of = {text: code for code, text in enumerate(names)}
        item.append(row)
        tag.append(np.asarray([code_of[text] for text in words], np.int64)[word])
    if not item:
        return Tags.none()
    return Tags.of(np.concatenate(item), np.concatenate(tag), names, KIND)


def _yes(path: Path | str, rows: pa.Table, column: str) -> Bools:
    """Which rows say yes; a gap counts as no, and a warning counts the gaps."""
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


def _tag_words(path: Path | str, rows: pa.Table, column: str, between: str) -> tuple[Ints, Ints, list[str]]:
    """Row and code of each word of a column, and the words; a row has a list, or a text with `between` as separator."""
    if not between:
        raise ShiftBenchError(f"{path}: the separator of the tags in column '{column}' is empty. Name one, such as ;.")
    dtype = rows[column].type
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lists = rows[column].combine_chunks()
        if not (pa.types.is_string(dtype.value_type) or pa.types.is_large_string(dtype.value_type)):
            raise ShiftBenchError(f"{path}: column '{column}' holds lists of {dtype.value_type}, but tags are words.")
    else:
        lists = pc.split_pattern(texts(path, rows, column).combine_chunks(), separator_of(between))
    row = np.asarray(pc.list_parent_indices(lists), np.int64)
    stripped = pc.fill_null(pc.utf8_trim_whitespace(pc.list_flatten(lists)), "")
    stripped.validate(full=True)
    filled_rows = np.flatnonzero(pc.not_equal(stripped, "").to_numpy(zero_copy_only=False))
    coded = stripped.take(pa.array(filled_rows)).dictionary_encode()
    return row[filled_rows], np.asarray(coded.indices, np.int64), coded.dictionary.to_pylist()
