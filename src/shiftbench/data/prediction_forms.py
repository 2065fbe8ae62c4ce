"""Predictions in other forms than a column of scores per class: the predicted class, a list per row, arrays in memory.

A message about an array names the argument that the user passed.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Floats, Ints, Strs, Values, array_of, is_lazy, positions
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.tables import strings
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import (
    CONFIDENCE,
    ROUNDING,
    Predictions,
    Reals,
    class_columns,
    log_scores,
    match_items,
    not_numbers,
    numbers_in,
    wanted_items,
)

COUNTED = re.compile(r"(column_|f|)(\d+)")
"""The name that a library gives to a column without one."""


def scores_of_lists(table: pa.Table, name: str, n_classes: int, where: str) -> Floats:
    """A column with a list of scores per row."""
    column = table[name]
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or
            pa.types.is_fixed_size_list(column.type)):
        raise ShiftBenchError(f"{where}: column '{name}' must hold a list of {n_classes} numbers per row, but holds "
                              f"{column.type}.")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), np.int64)
    for row in np.flatnonzero(lengths != n_classes)[:1]:
        raise ShiftBenchError(f"{where}: column '{name}' has {lengths[row]} scores in row {row + 1}, but there are "
                              f"{n_classes} classes.")
    return numbers_in(pa.table({name: pc.list_flatten(column)}), name, where).reshape(-1, n_classes)


def scores_of_choices(table: pa.Table, choice: str, classes: tuple[str, ...], where: str) -> Reals:
    """The log of the confidence for the predicted class; the other classes share the rest of 1 evenly."""
    confidence = _confidence(table, len(classes), where)
    codes = class_codes(strings(where, table, choice), classes, where)
    with np.errstate(divide="ignore"):
        others = np.log((1 - confidence) / max(len(classes) - 1, 1)).astype(np.float32)
        scores = np.repeat(others[:, None], len(classes), axis=1)
        scores[np.arange(len(codes)), codes] = np.log(confidence)
    return scores


def _confidence(table: pa.Table, n_classes: int, where: str) -> Floats:
    """The probability of the predicted class; 1 if the table has none, or one that is not possible.

    The likeliest of K classes has at least 1 / K. With more than two classes the even spread of the rest is an
    assumption, which affects only the log-loss of wrong predictions.
    """
    certain = np.ones(table.num_rows)
    if CONFIDENCE not in table.column_names:
        return certain
    values = numbers_in(table, CONFIDENCE, where).astype(np.float64)
    for row in np.flatnonzero((values < 1 / n_classes - ROUNDING) | (values > 1 + 1e-6))[:1]:
        warnings.warn(f"{where}: column '{CONFIDENCE}' is not used: row {row + 1} has {values[row]:g}, but the "
                      f"likeliest of {n_classes} classes has a probability from {1 / n_classes:.3g} to 1.",
                      stacklevel=4)
        return certain
    if n_classes > 2:
        warnings.warn(f"{where}: has the confidence of the predicted class alone; the rest of 1 is spread evenly over "
                      f"the other {n_classes - 1} classes, which determines the log-loss of wrong predictions.",
                      stacklevel=4)
    # A hair above 1 / K, so that the predicted class stays the likeliest.
    return np.clip(values, min(1 / n_classes + 1e-6, 1), 1)


def class_codes(words: Strs, classes: tuple[str, ...], where: str) -> Ints:
    """The codes of a column of class names or of codes. Names win where both would fit."""
    codes = positions(words, np.asarray(classes, np.str_))
    if (codes < 0).all() and np.isin(words, [str(code) for code in range(len(classes))]).all():
        return words.astype(np.int64)
    if (codes < 0).any():
        raise unknown("class", str(words[codes < 0][0]), classes, where)
    return codes


# Arrays in memory

def predictions_of(
    benchmark: Benchmark, ids: Any, arguments: Mapping[str, Any], classes: Any, ignore_extra: bool
) -> Predictions:
    """See `Predictions.of`, whose `arguments` these are."""
    argument, *others = [name for name, values in arguments.items() if values is not None] or ["", ""]
    if others:
        raise ShiftBenchError("Give exactly one of probabilities=, logits= and predictions=.")
    if benchmark.target.lists:
        raise ShiftBenchError(f"{argument}: benchmark '{benchmark.name}' asks for {benchmark.target.words}, a list "
                              "per item. Give a file of predictions (docs/tasks.md).")
    items, (values, columns) = array_of(ids, "ids"), columns_of(arguments[argument], argument)
    if items.ndim != 1 or len(items) != len(values):
        raise ShiftBenchError(f"{argument}: has {len(values):,} rows, but ids has {len(items):,}. Give one row per "
                              "id.")
    items = items.astype(np.str_)
    wanted = wanted_items(items, benchmark, "ids", ignore_extra)
    items, values = items[wanted], values[wanted]
    rows = match_items(items, benchmark, "ids")
    scores = scores_of_array(argument, values, benchmark, classes, items, columns)
    return Predictions(items, benchmark.split[rows], scores.astype(np.float32, copy=False),
                       benchmark.names["label"])


def columns_of(values: Any, argument: str) -> tuple[Values, tuple[Any, ...]]:
    """What a user passed for `argument`, as an array, and what a data frame or a dict calls its columns, else ().

    >>> columns_of({"dog": [0.2], "cat": [0.8]}, "probabilities")[1], columns_of([[0.2, 0.8]], "probabilities")[1]
    (('dog', 'cat'), ())
    """
    if isinstance(values, Mapping) and values:
        columns = [array_of(content, f"{argument}['{name}']") for name, content in values.items()]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            raise ShiftBenchError(f"{argument}: is {type(values).__name__}, whose columns need one value per item.")
        return np.stack(columns, axis=1), tuple(values)
    frame = values.collect() if is_lazy(values) else values
    return array_of(frame, argument), tuple(getattr(frame, "column_names", getattr(frame, "columns", ())))


def are_counted(names: Sequence[Any]) -> bool:
    """Whether columns have numbers for names, their own or those of a library: 0 of pandas, column_0 of polars.

    >>> are_counted([7, 3]), are_counted(["f0", "f1"]), are_counted(["f1", "f0"]), are_counted(["cat", "dog"])
    (True, True, False, False)
    """
    words = [str(name) for name in names]
    first = COUNTED.fullmatch(words[0]) if words else None
    return all(isinstance(name, int | np.integer) for name in names) or (
        first is not None and words == [f"{first[1]}{int(first[2]) + number}" for number in range(len(words))])


def scores_of_array(
    argument: str, values: Values, benchmark: Benchmark, classes: Any, items: Strs, columns: Sequence[Any] = ()
) -> Reals:
    """The scores in the array that a user passed as `argument`: probabilities, logits or predictions.

    `classes` are the user's names of the columns, and `columns` are the names that the array itself has.
    """
    names = benchmark.names["label"]
    order = _order(named_columns(argument, columns, classes, names) if values.ndim == 2 else classes, benchmark)
    if not benchmark.target.has_classes:
        if argument != "predictions":
            raise ShiftBenchError(f"{argument}: benchmark '{benchmark.name}' asks for {benchmark.target.words}, not "
                                  "for a class. Give predictions=.")
        return _finite(argument, values[:, None] if values.ndim == 1 else values, names, items)[:, order]
    if argument == "predictions":
        if values.ndim != 1:
            raise ShiftBenchError(f"predictions: has shape {values.shape}, but needs one class per item. Give scores "
                                  "of classes as logits= or probabilities=.")
        theirs = tuple(names[code] for code in np.argsort(order))
        codes = np.argsort(order)[class_codes(_class_words(values, names), theirs, argument)]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.eye(len(names)))[codes])
    scores = _finite(argument, values, names, items)[:, order].astype(np.float32)
    return log_scores(scores, argument, lambda row: str(items[row]), argument, "Give other scores as logits=.")


def named_columns(argument: str, columns: Sequence[Any], classes: Any, names: Sequence[str]) -> Any:
    """The classes of an array's columns: what the names of the columns say, else what the user says with `classes`.

    Numbers are no names unless the classes are these numbers. A single column for a single output needs no name.
    """
    titles = [str(column) for column in columns]
    if len(titles) != len(names) or len(names) == 1:
        return classes  # the check of the shape reports a wrong number of columns
    matched = class_columns(titles, names)
    if not all(matched):
        if classes is not None or are_counted(columns):
            return classes
        raise ShiftBenchError(f"{argument}: its columns are {', '.join(titles)}, but the classes are "
                              f"{', '.join(names)}. Name the columns so, or say what they are with classes=.")
    order = [names[matched.index(title)] for title in titles]
    if classes is not None and array_of(classes, "classes").astype(np.str_).tolist() != order:
        raise ShiftBenchError(f"{argument}: its columns are {', '.join(titles)}, but classes= says "
                              f"{', '.join(map(str, classes))}. Leave classes= out, or name the columns so.")
    return order


def _order(classes: Any, benchmark: Benchmark) -> Ints:
    """For each of the benchmark's classes, the column in which the user has it."""
    names = benchmark.names["label"]
    if classes is None:
        return np.arange(len(names))
    theirs = array_of(classes, "classes").astype(np.str_)
    if sorted(theirs.tolist()) != sorted(names):
        raise ShiftBenchError(f"classes: are {', '.join(theirs.tolist())}, but those of benchmark '{benchmark.name}' "
                              f"are {', '.join(names)}. Name each of them once.")
    return positions(np.asarray(names, np.str_), theirs)


def _finite(argument: str, values: Values, names: Sequence[str], items: Strs) -> Floats:
    """An array of numbers, items × names."""
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ShiftBenchError(f"{argument}: has shape {values.shape}, but needs {len(items):,} × {len(names)}, a "
                              f"column for each of {', '.join(names)}.")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise ShiftBenchError(f"{argument}: is not all numbers ({first_line(problem)}).") from problem
    for row in np.flatnonzero(not_numbers(numbers).any(axis=1))[:1]:
        raise ShiftBenchError(f"{argument}: row {row} (item '{items[row]}') has no number in it. Give a score for "
                              "every item.")
    return numbers


def _class_words(values: Values, classes: Sequence[str]) -> Strs:
    """Predicted classes as words. A truth value or a whole number that is no class name is a code: 1.0 and True are 1.
    """
    forms = [values.astype(np.str_)]
    if values.dtype.kind == "b":
        forms.append(np.char.lower(forms[0]))
    if values.dtype.kind == "b" or (values.dtype.kind == "f" and (values == np.floor(values)).all()):
        forms.append(values.astype(np.int64).astype(np.str_))
    return next((form for form in forms if np.isin(form, classes).all()), forms[-1])
