"""What a model says of items, and what each item loses by it.

Predictions are opened, and read as choices, scores or numbers. The loss of an item is an error, a log-loss, a distance,
or what a metric of the user's adds for it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, Words, in_short, letters, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import load_installed
from shiftbench.core.tables import is_frame, open_table, texts, words
from shiftbench.data.prediction_forms import class_codes
from shiftbench.data.predictions import (
    CHOICES,
    CONFIDENCE,
    IDS,
    LISTS,
    PREDICTIONS,
    SPLIT,
    Predictions,
    class_columns,
    is_choice,
    scores_of_table,
    under_our_names,
)
from shiftbench.scoring.hard_items import confidences
from shiftbench.scoring.metrics import METRICS, Table, has_probabilities
from shiftbench.scoring.metrics import losses as log_losses

Column = Values | Words
"""One value per item: numbers, or words as codes."""
LABELS = ("label", "true", "truth", "target", "y_true")
"""Names of the column that holds the truth, where the user names none."""
BLOCK = 2**18
"""Ids that are hashed at a time."""


# Losses

IMPOSSIBLE = 1e-6
"""The probability that counts for a label which a model has ruled out: its log-loss would be infinite."""


class Loss(NamedTuple):
    """A loss of single items, higher is worse: `items(truth, outputs)` gives one number per item.

    `target` is `class` (truth: codes; outputs: scores, items × classes) or `number` (both items × 1).
    """

    name: str
    words: str
    unit: str  # share, shown in per cent; or number
    target: str
    items: Callable[[Values, Table], Values]


def _errors(label: Values, scores: Table) -> Floats:
    return np.asarray(scores.argmax(axis=1) != label, np.float64)


def _log_losses(label: Values, scores: Table) -> Floats:
    if not has_probabilities(scores):
        raise ShiftBenchError("These predictions are classes without probabilities, of which the error can be audited, "
                              "but no log-loss. Use --loss error.")
    each = np.where(label < 0, np.inf, log_losses(label, scores))  # a class that the model does not know
    ruled_out = np.isposinf(each)
    return np.where(ruled_out, max(-math.log(IMPOSSIBLE), each[~ruled_out].max(initial=0.0)), each)


LOSSES: Mapping[str, Loss] = {loss.name: loss for loss in (
    Loss("error", "the error", "share", "class", _errors),
    Loss("nll", "the log-loss", "number", "class", _log_losses),
    Loss("squared", "the squared error", "number", "number", lambda truth, x: np.square(x - truth).mean(axis=1)),
    Loss("absolute", "the absolute error", "number", "number", lambda truth, x: np.abs(x - truth).mean(axis=1)),
)}
"""The losses by name; a metric of your own that has `items` is one too."""


def loss_named(name: str) -> Loss:
    """A loss by its name. What a metric of which higher is better adds up is turned round: 1 − share, or − number."""
    if name in LOSSES:
        return LOSSES[name]
    load_installed()
    metric = METRICS.get(name)
    target = next((kind for kind in ("class", "number") if metric is not None and kind in metric.targets), "")
    if metric is None or metric.items is None or not target:
        plugged = [other.name for other in METRICS.values() if other.items is not None and other.own]
        raise unknown("loss", name, [*LOSSES, *plugged])
    items = metric.items
    start = 1.0 if metric.unit == "share" else 0.0

    def turned(truth: Values, outputs: Table) -> Values:
        values = np.asarray(items(truth, outputs), np.float64)
        return values if metric.lower else start - values

    words = metric.words if metric.lower else f"{'1 −' if start else 'minus'} {metric.words}"
    return Loss(name, f"the {words}" if metric.lower else words, metric.unit, target, turned)


def losses_of(outputs: Table, truth: Values, loss: Loss) -> Floats:
    """One loss per item; NaN where the loss of an item is not defined."""
    values = np.asarray(loss.items(truth, outputs), np.float64)
    if values.shape != (len(truth),):
        raise ShiftBenchError(f"Loss '{loss.name}' gives an array of shape {values.shape}, but one number per item is "
                              f"needed, of {len(truth):,} items.")
    return values


# Predictions

NAMED = 3
"""Items that a message names."""
NEVER_RIGHT = 10
"""Items from which on a model of which no prediction is a label at all is taken for one of other classes."""
MARKS = ("score:", "logit:", "prob:")


class Source(NamedTuple):
    """Predictions before they are read: their ids, and the object of ours or the table that holds them."""

    where: str
    ids: pa.ChunkedArray
    predictions: Predictions | None = None
    table: Any = None
    columns: Mapping[str, str] = {}  # what the table calls our columns
    rows: Ints | None = None  # the prediction of each item of the data, -1 where it has none; None: all in order

    @property
    def predicted_columns(self) -> set[str]:
        """Columns that hold predictions: what is known about an item is not what a model says of it."""
        if self.table is None:
            return set()
        return {name for name in self.table.column_names
                if name in (CHOICES[0], *LISTS, self.columns.get(CHOICES[0])) or name.startswith(MARKS)}

    @property
    def splits(self) -> Words | None:
        """The split of each prediction, where the table has a column of them."""
        name = self.columns.get(SPLIT, SPLIT)
        if self.table is None or name not in self.table.column_names:
            return None
        return words(self.where, self.table, name, gaps=True)

    def there(self, n: int) -> Bools:
        """Which of n items have a prediction."""
        return np.ones(n, np.bool_) if self.rows is None else self.rows >= 0


def open_predictions(source: Any, id: str, columns: Mapping[str, str], data_ids: pa.ChunkedArray) -> Source:
    """Predictions, with each id once; `data_ids`, those of the data, are known to be unique."""
    if isinstance(source, Predictions):
        opened = Source("the predictions", column_of_ids(source.item), source)
    elif is_frame(source) or isinstance(source, str | Path):
        opened = _open_table(source, id, columns)
    else:
        raise ShiftBenchError(f"{type(source).__name__} is neither a table of predictions nor the file of one.")
    if not opened.ids.equals(data_ids):
        no_doubles(opened.ids, opened.where)
    return opened


def _open_table(source: Any, id: str, columns: Mapping[str, str]) -> Source:
    if not is_frame(source) and Path(source).is_dir():
        source = Path(source) / PREDICTIONS
    where = "the predictions" if is_frame(source) else str(source)
    table = open_table(source, text=(*IDS, id, *CHOICES, SPLIT, *LABELS, *columns.values()),
                       plain=(*IDS, id, *([columns[IDS[0]]] if IDS[0] in columns else [])))
    named = {role: name for role, name in columns.items() if name in table.column_names}
    for role, name in columns.items():
        ours = IDS if role == IDS[0] else (role,)
        if role not in named and not set(ours) & set(table.column_names):
            raise unknown("column", name, table.column_names, where)
    if id and id in table.column_names:
        named.setdefault(IDS[0], id)
    ids = texts(where, table, id_column(table, named.get(IDS[0], ""), where), gaps=False)
    return Source(where, ids, table=table, columns=named)


class Outputs(NamedTuple):
    """What a model says of items, and what they lose by it."""

    choices: Column
    loss: Floats
    confidence: Floats | None = None
    coded: bool = False  # the file has the numbers of the classes, not their names


def outputs_of(source: Source, rows: Ints | None, truth: Column, label: str, loss: Loss) -> Outputs:
    """The outputs of a model for the items in these rows of the data, all of which have a prediction.

    A prediction that is empty, or a score that is no number, is neither right nor wrong: it is refused.
    """
    numbers = loss.target == "number"
    at = rows if source.rows is None else source.rows if rows is None else source.rows[rows]
    if source.predictions is not None:
        scores, classes = source.predictions.scores, source.predictions.classes
        scores = scores if at is None else scores[at]
        _refuse_gaps(source, at, np.asarray(np.isnan(scores).any(axis=1)))
    else:
        classes = (_number_column(source, label),) if numbers else _classes(source, truth)
        roles = (IDS[0], SPLIT, CHOICES[0], CONFIDENCE, LISTS[0], *classes)
        table = under_our_names(source.table, source.columns, roles, source.where)
        _refuse_without_predictions(source, table.column_names, classes, label, numbers)
        present = None
        if at is not None and len(at) < len(source.ids):  # other rows may hold anything
            present = np.sort(at)
            table, at = table.take(present), np.searchsorted(present, at)
        if loss is LOSSES["error"] and is_choice(table.column_names, classes):
            return _chosen(source, table, at, present, truth, classes)
        _refuse_gaps(source, present, _gaps(source.where, table, classes))
        scores = scores_of_table(table, classes, source.where, numbers=numbers)
        scores = scores if at is None else scores[at]
    each = losses_of(scores, truth[:, None] if not isinstance(truth, Words) else _codes_among(truth, classes), loss)
    if numbers:
        return Outputs(scores[:, 0].astype(np.float64), each)
    choices = Words(scores.argmax(axis=1).astype(np.int32), pa.array(classes, pa.string()))
    return Outputs(choices, each, confidences(scores.T[None])[0] if has_probabilities(scores) else None)


def _chosen(
    source: Source, table: Any, rows: Ints | None, present: Ints | None, truth: Column, classes: tuple[str, ...]
) -> Outputs:
    """Outputs that are classes alone: an item loses where it is not the class of its label.

    `present` are the rows of the file that the table has; `rows` is the row of each item in the table.
    """
    assert isinstance(truth, Words)
    column = words(source.where, table, _choice(table.column_names), gaps=True)
    _refuse_gaps(source, present, column.codes == column.of_word(""))
    codes, names = column.coded
    code = class_codes(np.asarray(names, np.str_), classes, source.where).astype(np.int32)[codes]
    code = code if rows is None else code[rows]
    return Outputs(Words(code, pa.array(classes, pa.string())),
                   np.asarray(code != _codes_among(truth, classes), np.float64), coded=not set(names) & set(classes))


def unlike_labels(source: Source, outputs: Outputs, truth: Column, label: str) -> list[str]:
    """Notes on predictions that are not written as the labels are: numbers of classes, and words that no item has."""
    if not isinstance(outputs.choices, Words) or not isinstance(truth, Words):
        return []
    classes = outputs.choices.names.to_pylist()
    if outputs.coded:
        named = in_short([f"{code} is {name}" for code, name in enumerate(classes)], NAMED)
        return [f"{source.where}: the predictions are numbers; they count the labels in alphabetical order: {named}."]
    times = dict(zip(classes, outputs.choices.sizes.tolist(), strict=True))
    known = set(truth.coded[1])
    foreign = [name for name in classes if times[name] and name not in known]
    if not foreign or len(truth) < NEVER_RIGHT:  # few items have few of the labels
        return []
    words = in_short([f"'{name}'" for name in foreign], NAMED)
    return [f"{source.where}: {sum(times[name] for name in foreign):,} of {len(truth):,} predictions name a class that "
            f"no item has in column '{label}' ({words}); they count as errors."]


def _choice(names: Sequence[str]) -> str:
    """The column of the predicted class, or of the predicted number; "" if there is none."""
    return next((name for name in CHOICES if name in names), "")


def _gaps(where: str, table: Any, classes: Sequence[str]) -> Bools:
    """Which rows lack a prediction, a confidence or a score."""
    named = class_columns(table.column_names, classes)
    columns = {*(named if all(named) else ()), _choice(table.column_names), CONFIDENCE} & set(table.column_names)
    empty = np.zeros(table.num_rows, np.bool_)
    for name in sorted(columns):
        if pa.types.is_floating(table[name].type):
            empty |= np.asarray(pc.is_null(table[name], nan_is_null=True))
        else:
            column = words(where, table, name, gaps=True)
            empty |= column.codes == column.of_word("")
    return empty


def _refuse_gaps(source: Source, rows: Ints | None, empty: Bools) -> None:
    """Refuse predictions that are empty; `rows` are the rows of the file that `empty` is about, None: all."""
    if not empty.any():
        return
    numbers = np.flatnonzero(empty) if rows is None else np.sort(rows[empty])
    ids = [f"'{id}'" for id in source.ids.take(pa.array(numbers)).to_pylist()]
    raise ShiftBenchError(
        f"{source.where}: the prediction of {len(numbers):,} of {len(empty):,} items is empty or no number: "
        f"{in_short(ids, NAMED)}. Predict these items, or drop their rows: items without a row are counted and left "
        "out. If the model abstains there, write a word of its own, such as none, which counts as an error.")


def _refuse_without_predictions(
    source: Source, names: Sequence[str], classes: Sequence[str], label: str, numbers: bool
) -> None:
    """Refuse a table that has neither predictions nor scores, and say how to name the column that holds them."""
    missing = [name for name, column in zip(classes, class_columns(names, classes), strict=True) if not column]
    if not missing or set(names) & {*LISTS, *(CHOICES[:1] if numbers else CHOICES)}:
        return
    scores = "" if numbers else f", nor a column of scores for every class (missing: {in_short(missing)})"
    raise ShiftBenchError(f"{source.where}: has no column 'prediction'{scores}. Its columns: {in_short(names, 20)}. "
                          f"Name the column of the predictions: --column prediction={likely_prediction(names, label)}.")


def likely_prediction(names: Sequence[str], label: str) -> str:
    """The column that may hold the predictions: the only one, or one that is called much the same; else NAME."""
    others = [name for name in names if name not in (*IDS, SPLIT, label, *LABELS)]
    near = others if len(others) == 1 else get_close_matches(CHOICES[0], others, n=1, cutoff=0.5)
    return near[0] if near else "NAME"


def _codes_among(truth: Words, classes: Sequence[str]) -> Ints:
    """The class of each label by its number; -1 for a class that the model does not know."""
    codes, names = truth.coded
    return positions(np.asarray(names, np.str_), np.asarray(classes, np.str_))[codes]


def _number_column(source: Source, label: str) -> str:
    """The column of a predicted number: `prediction`, else that of the label's name, which else is the truth."""
    return CHOICES[0] if CHOICES[0] in source.columns or CHOICES[0] in source.table.column_names else label


def _classes(source: Source, truth: Column) -> tuple[str, ...]:
    """The classes of the truth, and those that a model predicts or has a column of scores for."""
    assert isinstance(truth, Words)
    known = set(truth.coded[1])
    columns = source.table.column_names
    scored = {name.removeprefix(mark) for name in columns for mark in MARKS if name.startswith(mark)}
    choice = source.columns.get(CHOICES[0], CHOICES[0])
    if choice not in columns:
        return tuple(sorted(known | scored))
    guesses = set(words(source.where, source.table, choice, gaps=True).coded[1]) - {""}
    if guesses & known:
        return tuple(sorted(known | guesses | scored))
    if guesses <= {str(code) for code in range(len(known))}:
        return tuple(sorted(known))
    if len(truth) < NEVER_RIGHT:
        return tuple(sorted(known | guesses | scored))
    raise ShiftBenchError(f"{source.where}: none of the predicted classes ({in_short(sorted(guesses), 3)}) is a label "
                          f"({in_short(sorted(known), 3)}). Name the column of the truth with --label; for numbers use "
                          "--loss squared.")


# Ids

def column_of_ids(ids: Strs) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(ids.tolist(), pa.string())])


def id_column(table: pa.Table, id: str, where: str) -> str:
    column = id or next((name for name in IDS if name in table.column_names), "")
    if not column:
        raise ShiftBenchError(f"{where}: has no column {', '.join(IDS[:-1])} or {IDS[-1]}. Its columns: "
                              f"{in_short(table.column_names, 20)}. Name the column of ids with --id.")
    if not table.num_rows:
        raise ShiftBenchError(f"{where}: has no rows.")
    return column


def no_doubles(ids: pa.ChunkedArray, where: str) -> None:
    """Refuse ids that occur more than once: ids whose hashes differ are different, others are compared.

    Of five million ids that takes a third of the time of arrow's count of distinct values, and a tenth of its memory.
    """
    hashes = np.sort(np.concatenate([_hashes(ids[start:start + BLOCK]) for start in range(0, max(len(ids), 1), BLOCK)]))
    if not (hashes[1:] == hashes[:-1]).any():
        return
    times = pc.value_counts(ids)
    doubled = times.filter(pc.greater(times.field("counts"), 1)).field("values")
    if len(doubled):
        raise ShiftBenchError(f"{where}: {len(doubled):,} ids occur more than once, the first is "
                              f"'{min(doubled.to_pylist())}'. Give one row per item.")


def _hashes(ids: pa.ChunkedArray) -> Values:
    """A number of 64 bits for each id: the sum of its bytes, each times an odd number that its position decides."""
    text, length = b"".join(bytes(letters(chunk)) for chunk in ids.chunks), np.asarray(pc.binary_length(ids), np.int64)
    start = np.cumsum(length) - length
    factors = np.random.default_rng(0).integers(0, 2**63, int(length.max(initial=0)) + 1, np.uint64) * 2 + 1
    position = np.arange(len(text)) - np.repeat(start, length)
    weighted = np.append(np.frombuffer(text, np.uint8) * factors[1 + position], np.uint64(0))
    total = np.add.reduceat(weighted, start) if len(start) else np.zeros(0, np.uint64)
    return np.asarray(np.where(length > 0, total, 0) + factors[0] * length.astype(np.uint64))
