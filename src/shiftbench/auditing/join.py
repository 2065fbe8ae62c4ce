"""Predictions of a model and what is known about its items, joined by id: a table, a collection or a benchmark."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.auditing.model_outputs import (
    LABELS,
    Column,
    Loss,
    Source,
    column_of_ids,
    id_column,
    likely_prediction,
    no_doubles,
    open_predictions,
    outputs_of,
    unlike_labels,
)
from shiftbench.core.arrays import WASTE, Bools, Floats, Ints, Strs, Values, Words, encode, in_short, to_strings
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import is_frame, open_table, texts
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.benchmark import UNLABELLED, Benchmark, collection_if_there
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.item_table import factor_column
from shiftbench.data.predictions import CHOICES, IDS, SPLIT, refuse_trained
from shiftbench.data.questions import FORMS, base_of, resolve

TEST, ALL = "test", "all"


@dataclass(frozen=True, eq=False)
class Items:
    """Items that have a prediction and about which something is known: one entry of each column per item.

    `facts` has no pixels; these are in `collection`, if there is one, where item i is in row `rows[i]`.
    """

    facts: "Collection | TableItems"
    label: str
    labels: Column  # words, or numbers
    choices: Column  # the same of the predictions
    confidence: Floats | None  # the probability of the predicted class
    loss: Floats  # with an old model: that of the new one less that of the old one
    notes: tuple[str, ...]
    split: str = ""
    collection: Collection | None = None
    rows: Ints | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # what the table of predictions calls our columns

    def __len__(self) -> int:
        return len(self.loss)

    @property
    def ids(self) -> Any:
        return self.facts.items if isinstance(self.facts, Collection) else self.facts.ids

    def first_columns(self, most: int) -> list[tuple[str, Column]]:
        """The first columns that hold values, not long texts; no others are read."""
        columns = ((name, self.facts.factors[name]) for name in self.facts.factors)
        return list(islice((pair for pair in columns if not has_long_texts(pair[1])), most))

    @cached_property
    def known(self) -> Collection:
        """What is known about the items, all of it in memory."""
        return self.facts if isinstance(self.facts, Collection) else self.facts.collection()

    @cached_property
    def truth(self) -> Values:
        return as_array(self.labels)

    @cached_property
    def predicted(self) -> Values:
        return as_array(self.choices)

    def take(self, rows: Ints) -> "Items":
        """Some of the items."""
        return replace(self, facts=self.facts.take(rows), labels=taken(self.labels, rows),
                       choices=taken(self.choices, rows), loss=self.loss[rows],
                       confidence=None if self.confidence is None else self.confidence[rows],
                       rows=None if self.rows is None else self.rows[rows])


def join(
    predictions: Any, data: Any, loss: Loss, *, label: str = "", against: Any = None, split: str = "", id: str = "",
    columns: Mapping[str, str] | None = None,
) -> Items:
    """Join predictions and data by id, and give each item its loss.

    Both may be files, frames or objects; `data` may be a collection or a benchmark, or its folder. The truth is the
    column `label` of the data or of the predictions, by default the benchmark's label or a column of `LABELS`. Items
    without a prediction or without a truth, and predictions of unknown items, are counted in `notes` and left out. Of
    items that have splits, those of `split` are taken, by default `test`, or `all`. `columns` says what the tables of
    predictions call ours, {"prediction": "pred"}; of two tables one may have our name.
    """
    facts = _open_data(data, id, label)
    notes = list(facts.notes)
    sources = [_matched(open_predictions(source, id, columns or {}, facts.ids), facts, notes)
               for source in (predictions, against) if source is not None]
    for role, name in (columns or {}).items():  # of two files one may use our name already
        if all(source.table is not None and role not in source.columns for source in sources):
            raise unknown("column", name, sources[0].table.column_names, sources[0].where)
    kept = np.logical_and.reduce([source.there(len(facts)) for source in sources])
    kept, split = _of_split(kept, facts, sources[0], split, notes)
    label, truth = _truth(facts, sources[0], label, loss)
    labelled = truth.codes != truth.of_word("") if isinstance(truth, Words) else np.isfinite(truth)
    if (gaps := int((kept & ~labelled).sum())) > 0:
        notes.append(f"{gaps:,} items have nothing in column '{label}' and are left out.")
    kept &= labelled
    if not kept.any():
        raise ShiftBenchError(f"{facts.where}: no item has both a prediction and a value in column '{label}'.")
    rows = None if kept.all() else np.flatnonzero(kept)
    truth = taken(truth, rows)
    outputs = [outputs_of(source, rows, truth, label, loss) for source in sources]
    for source, output in zip(sources, outputs, strict=True):
        notes += unlike_labels(source, output, truth, label)
    known = facts.without({label}.union(*(source.predicted_columns for source in sources)))
    return _with_losses(Items(
        facts=known if rows is None else known.take(rows), label=label, labels=truth, choices=outputs[0].choices,
        confidence=outputs[0].confidence, notes=tuple(notes),
        loss=outputs[0].loss if against is None else outputs[0].loss - outputs[1].loss,
        split=split, collection=facts.collection,
        rows=facts.rows if rows is None or facts.rows is None else facts.rows[rows], columns=sources[0].columns))


def _with_losses(items: Items) -> Items:
    """The items whose loss is a number; a user's metric may have none for some."""
    finite = np.isfinite(items.loss)
    if finite.all():
        return items
    if not finite.any():
        raise ShiftBenchError("No item has a loss that is a number.")
    note = f"{int((~finite).sum()):,} items have no loss that is a number and are left out."
    return replace(items.take(np.flatnonzero(finite)), notes=(*items.notes, note))


# The items of a table: a column is read when it is asked for, so only one is in memory at a time

@dataclass(frozen=True, eq=False)
class TableItems:
    """Items that have a table's columns as factors, as a `Collection` has, and no tags, texts or images.

    `columns` is the column of each factor. Of the table the `rows` are items, by default all.
    """

    name: str
    where: str
    table: Any
    ids: pa.ChunkedArray
    columns: Mapping[str, str]
    rows: Ints | None = None
    tags: ClassVar[Tags] = Tags.none()
    texts: ClassVar[Texts] = Texts.none()
    parents: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def items(self) -> Strs:
        return to_strings(self.ids).astype(np.str_)

    @property
    def factors(self) -> "Factors":
        return Factors(self)

    def factor(self, name: str) -> Values:
        """A column, or the answers to a question about one; see `Collection.factor`."""
        values = resolve(name, lambda column: as_array(self.factors[column]) if column in self.columns else None)
        if values is None:
            raise unknown("factor", base_of(name), [*self.columns, *FORMS.values()])
        return values

    def take(self, rows: Ints) -> "TableItems":
        return replace(self, ids=self.ids.take(pa.array(rows)), rows=rows if self.rows is None else self.rows[rows])

    def collection(self) -> Collection:
        """All columns in memory, as arrays."""
        return Collection(self.name, self.items, {name: as_array(values) for name, values in self.factors.items()})


class Factors(Mapping[str, Column]):
    """The columns of a table's items by their names; each is read whenever it is asked for."""

    def __init__(self, items: TableItems) -> None:
        self._items = items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items.columns)

    def __len__(self) -> int:
        return len(self._items.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._items.columns

    def __getitem__(self, name: str) -> Column:
        return taken(factor_column(self._items.where, self._items.table, self._items.columns[name]), self._items.rows)


def taken(column: Column, rows: Ints | None) -> Column:
    """Some rows of a column; all where none are named."""
    if rows is None:
        return column
    return column.take(rows) if isinstance(column, Words) else column[rows]


def as_array(column: Column) -> Values:
    """A column as an array."""
    return column.to_numpy() if isinstance(column, Words) else column


def has_long_texts(column: Column) -> bool:
    """Whether a column holds texts that an array of strings has no room for; see `to_strings`."""
    if not isinstance(column, Words):
        return bool(column.dtype.kind == "O")
    width = 4 * len(column) * int(pc.max(pc.utf8_length(column.names)).as_py() or 0)
    return width > WASTE and width > 64 * int(np.asarray(pc.binary_length(column.names)) @ column.sizes)


# Data

class _Facts(NamedTuple):
    """What is known of all items of the data."""

    where: str
    known: Collection | TableItems
    ids: pa.ChunkedArray
    label: str = ""
    truth: Column | None = None
    split: Strs | None = None
    collection: Collection | None = None
    rows: Ints | None = None
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, columns: set[str]) -> Collection | TableItems:
        """The items without some of their factors."""
        if isinstance(self.known, TableItems):
            return replace(self.known, columns={name: column for name, column in self.known.columns.items()
                                                if name not in columns})
        return replace(self.known, factors={name: values for name, values in self.known.factors.items()
                                            if name not in columns})


def _open_data(data: Any, id: str, label: str) -> _Facts:
    if isinstance(data, Benchmark):
        return _of_benchmark(data, label)
    if isinstance(data, Collection):
        return _of_collection(data, label)
    if not is_frame(data) and not isinstance(data, str | Path):
        raise ShiftBenchError(f"{type(data).__name__} is neither a table, a collection nor a benchmark, nor the file "
                              "or folder of one.")
    if not is_frame(data) and Path(data).is_dir():
        if (Path(data) / BENCHMARK).is_file():
            return _of_benchmark(Benchmark.load(data), label)
        if (Path(data) / COLLECTION).is_file():
            return _of_collection(Collection.load(data), label)
        raise ShiftBenchError(f"{data}: holds neither {BENCHMARK} nor {COLLECTION}. Name a table, or the folder of a "
                              "collection or a benchmark.")
    return _of_table(data, id, label)


def _of_benchmark(benchmark: Benchmark, label: str) -> _Facts:
    collection = collection_if_there(benchmark)
    target = benchmark.target
    if target.lists or target.kind == "tasks":
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {target.words}, but an audit takes classes or "
                              "numbers.")
    rows = None if collection is None else collection.index(benchmark.items)
    known = Collection(benchmark.name, benchmark.items) if collection is None or rows is None else (
        replace(collection, pixels=None).take(rows))
    domain = str(benchmark.card.get("factors", {}).get("domain") or "domain")
    factors = {**known.factors, **{name: np.asarray(values) for name, values in benchmark.extra.items()
                                   if name not in target.columns}}
    factors.setdefault(domain, np.asarray(benchmark.names["domain"], np.str_)[benchmark.domain])
    factors.pop(SPLIT, None)
    known = replace(known, factors=factors)
    if label:
        truth: Values = known.factor(label)
    elif target.has_classes:
        truth = np.asarray(benchmark.names["label"], np.str_)[benchmark.label]
    else:
        truth = target.numbers(benchmark.extra, np.arange(len(benchmark)))[:, 0]
    truth = np.where(benchmark.split == UNLABELLED, "" if truth.dtype.kind in "UO" else np.nan, truth)
    return _Facts(benchmark.name, known, column_of_ids(known.items), label or label_of(benchmark), truth,
                  benchmark.split, collection, rows)


def label_of(benchmark: Benchmark) -> str:
    """The name of what a benchmark asks for."""
    target = benchmark.target
    return str(benchmark.card.get("factors", {}).get("label") or "label") if target.has_classes else target.columns[0]


def _of_collection(collection: Collection, label: str) -> _Facts:
    label = label or next((name for name in LABELS if name in collection.factors), "")
    return _Facts(collection.name, replace(collection, pixels=None), column_of_ids(collection.items), label,
                  collection.factor(label) if label else None, collection=collection, rows=np.arange(len(collection)))


def _of_table(data: Any, id: str, label: str) -> _Facts:
    where = "the data" if is_frame(data) else str(data)
    table = open_table(data, [id] if id else [], text=(*IDS, id, *LABELS, label, *CHOICES), plain=(*IDS, id))
    column = id_column(table, id, where)
    ids, notes = texts(where, table, column, gaps=False), []
    no_doubles(ids, where)
    columns: dict[str, str] = {}
    for name in table.column_names:
        kind = table.schema.field(name).type
        if name == column:
            continue
        if pa.types.is_nested(kind):
            notes.append(f"'{name}' is left out: it holds {kind}, not one value per item.")
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            notes.append(f"'{name}' is left out: it holds bytes that are no UTF-8 text.")
        elif pa.types.is_null(kind):
            notes.append(f"'{name}' is left out: no item has a value.")
        else:
            columns[name or "unnamed"] = name  # pandas writes row numbers without a name
    known = TableItems(Path(where).stem if not is_frame(data) else "table", where, table, ids, columns)
    label = next((name for name in ([label] if label else LABELS) if name in columns), "")
    return _Facts(where, known, ids, label, known.factors[label] if label else None, notes=notes)


# Which items have a prediction, a split and a truth

def _matched(source: Source, facts: _Facts, notes: list[str]) -> Source:
    """The predictions with the row of each item of the data; what does not match is counted."""
    rows = rows_of(source.ids, facts.ids)
    known = np.ones(len(facts), np.bool_) if rows is None else rows >= 0
    if not known.any():
        raise ShiftBenchError(f"None of the {len(source.ids):,} ids of {source.where} ('{source.ids[0]}', …) is in "
                              f"{facts.where} ('{facts.ids[0]}', …). Name the column of ids with --id.")
    if not known.all():
        notes.append(f"{int((~known).sum()):,} of {len(known):,} ids of {source.where} are not in {facts.where}, the "
                     f"first is '{source.ids[int(np.argmin(known))]}'; they are left out.")
    if facts.split is not None and (splits := source.splits) is not None:
        claimed = splits.to_numpy()[known]
        items = np.asarray(source.ids.to_pylist(), np.str_)[known]
        refuse_trained(items, claimed, facts.split if rows is None else facts.split[rows[known]], source.where)
    if rows is None:
        return source
    prediction = np.full(len(facts), -1)  # of each item
    prediction[rows[known]] = np.flatnonzero(known)
    absent = prediction < 0
    if facts.split is not None:
        absent &= np.isin(facts.split, facts.split[~absent])
    if absent.any():
        notes.append(f"{int(absent.sum()):,} of {len(facts):,} items of {facts.where} have no prediction in "
                     f"{source.where}, the first is '{facts.ids[int(absent.argmax())]}'; they are left out.")
    return source._replace(rows=prediction)


def rows_of(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints | None:
    """The row of each id among the known ones, -1 where it is none; None where both are the same in the same order."""
    if ids.equals(known):
        return None
    return np.asarray(pc.fill_null(pc.index_in(ids, value_set=known), -1), np.int64)


def _of_split(
    kept: Bools, facts: _Facts, source: Source, split: str, notes: list[str]
) -> tuple[Bools, str]:
    """The items of a split: the benchmark's, else that of the predictions, else the column `split` of the data."""
    splits: Column | None = None
    if facts.split is not None:
        splits = Words.of_array(facts.split)
    elif source.predictions is not None:
        splits = taken(Words.of_array(source.predictions.split), source.rows)
    elif (claimed := source.splits) is not None:
        splits = taken(claimed, source.rows)
    elif SPLIT in facts.known.factors:
        splits = Words.of_array(as_array(facts.known.factors[SPLIT]).astype(np.str_))
    if splits is None:
        if split not in ("", ALL):
            raise ShiftBenchError(f"There are no splits in {facts.where} or {source.where}, so that there is no split "
                                  f"'{split}'.")
        return kept, ""
    assert isinstance(splits, Words)
    present = splits.take(kept).coded[1]
    if split and split != ALL and split not in present:
        raise unknown("split", split, [*present, ALL])
    wanted = split or (TEST if TEST in present else ALL)
    if wanted == ALL:
        if not split and any(present):
            others = in_short(f"'{name}'" for name in present)
            notes.append(f"No item is of split '{TEST}': those of {others} are audited (--split).")
        return kept, ALL if len(present) > 1 else ""
    kept = kept & (splits.codes == splits.of_word(wanted))
    if len(present) > 1:
        notes.append(f"Only the {int(kept.sum()):,} items of split '{wanted}' are audited (--split).")
    return kept, wanted


def _truth(facts: _Facts, source: Source, label: str, loss: Loss) -> tuple[str, Column]:
    """The name and the values of the label: words for classes, else numbers."""
    values, name = facts.truth, facts.label
    if values is None:
        table = source.table
        columns = [] if table is None else table.column_names
        predicts = CHOICES[0] in columns or CHOICES[0] in source.columns or bool(source.predicted_columns)
        name = label or next((word for word in LABELS if word in columns and (word not in CHOICES or predicts)), "")
        if not name and LABELS[0] in columns:
            raise ShiftBenchError(f"{source.where}: has a column '{LABELS[0]}', but no column 'prediction'. Name the "
                                  f"column of the predictions: --column prediction="
                                  f"{likely_prediction(columns, LABELS[0])}. Or name the column of the truth in "
                                  f"{facts.where} with --label.")
        if not name:
            raise ShiftBenchError(f"Neither {facts.where} nor {source.where} has a column {' or '.join(LABELS[:3])}. "
                                  f"Name the column of the truth with --label. Columns of {facts.where}: "
                                  f"{in_short(facts.known.factors, 20)}.")
        if table is None or name not in columns:
            raise unknown("column", name, {*facts.known.factors, *columns}, facts.where)
        values = taken(factor_column(source.where, table, name), source.rows)
    if loss.target == "class":
        return name, _class_words(values)
    if not isinstance(values, Words) and values.dtype.kind not in "UO":
        return name, values.astype(np.float64)
    codes, names = encode(values)
    try:
        return name, np.asarray([float(word or "nan") for word in names], np.float64)[codes]
    except ValueError as problem:
        raise ShiftBenchError(f"Column '{name}' holds words, but the loss '{loss.name}' is for numbers. Use --loss "
                              "error.") from problem


def _class_words(values: Column) -> Words:
    """Labels as words; 1.0 is the class 1, and NaN is none."""
    if isinstance(values, Words):
        column = values
    elif values.dtype.kind == "f":
        distinct, number = np.unique(values, return_inverse=True)
        digits = ["" if np.isnan(value) else f"{value:.12g}" for value in distinct.tolist()]
        return Words.of(pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), digits)]))
    elif values.dtype.kind in "UO":
        column = Words.of_array(values)
    else:
        codes, names = encode(values)
        return Words(codes.astype(np.int32), pa.array(names, pa.string()))
    names = column.coded[1]
    if all(re.fullmatch(r"-?\d+\.0|", name) for name in names):  # pandas writes 1.0 for 1 where there are gaps
        return Words(column.coded[0], pa.array([name.removesuffix(".0") for name in names], pa.string()))
    return column
