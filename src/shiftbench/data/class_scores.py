"""Scores of classes, items × classes in the benchmark's order, from a table or from arrays, with one set of checks.

Numbers and tasks are read in the same way: their columns take the place of the classes.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, are_counted, array_of, positions
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.tables import decimal, strings
from shiftbench.data.benchmark import Benchmark

IDS = ("item", "id", "item_id")
CHOICES = ("prediction", "label")
CONFIDENCE = "confidence"
LISTS = ("scores", "logits", "probabilities", "probs")
"""The columns that a table of predictions may have; see `Predictions.load`."""
ROUNDING = 1e-3
"""How far the probabilities of an item may be from a sum of 1."""
BELOW = -1e-6
"""The smallest number that counts as a probability of 0."""
BLOCK = 4096
"""The number of rows of scores that are assembled at a time: as many as a processor's cache holds."""
Reals = npt.NDArray[np.floating]


def scores_of_table(
    table: pa.Table, classes: tuple[str, ...], where: str, *, numbers: bool = False
) -> npt.NDArray[np.float32]:
    """The scores in a table whose columns have our names; with `numbers`, items × outputs."""
    names = table.column_names
    columns = class_columns(names, classes)
    lists = next((name for name in LISTS if name in names), None)
    choice = next((name for name in CHOICES if name in names), None)
    if all(columns):
        scores = _stack(table, columns, where)
        if not numbers:
            mark = columns[0].removesuffix(classes[0])
            scores = _log(scores, mark, lambda row: _item(table, row), where, beside=_beside(table, columns, mark))
    elif numbers and len(classes) == 1 and CHOICES[0] in names:  # a `label` may be the truth
        scores = _numbers(table, CHOICES[0], where)[:, None]
    elif lists is not None:
        scores = _lists(table, lists, len(classes), where)
        scores = scores if numbers else _log(scores, lists, lambda row: _item(table, row), where)
    elif choice is not None and not numbers:
        scores = _scores_of_choices(table, choice, classes, where)
    else:
        missing = ", ".join(name for name, column in zip(classes, columns, strict=True) if not column)
        wanted = ("a column 'prediction', or a column of scores for every class" if not numbers else
                  "a column 'prediction' of numbers" if len(classes) == 1 else "a column of numbers for each output")
        raise ShiftBenchError(f"{where}: needs {wanted} (missing: {missing}). Its columns: {', '.join(names)}.")
    return scores.astype(np.float32, copy=False)


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
    return _log(scores, argument, lambda row: str(items[row]), argument, "Give other scores as logits=.")


def is_choice(names: Sequence[str], classes: Sequence[str]) -> bool:
    """Whether a table with columns of these names has the predicted class of each item, and no score or probability."""
    scored = all(class_columns(names, classes)) or bool({CONFIDENCE, *LISTS}.intersection(names))
    return not scored and bool(set(CHOICES).intersection(names))


def class_columns(columns: Sequence[str], classes: Sequence[str]) -> list[str]:
    """For each class the column that has its name, alone or as score:NAME, logit:NAME or prob:NAME; "" for none."""
    marks = ("", *(f"{word}{mark}" for word in ("score", "logit", "prob") for mark in (":", "_")))
    return [next((f"{mark}{name}" for mark in marks if f"{mark}{name}" in columns), "") for name in classes]


def class_codes(words: Strs, classes: tuple[str, ...], where: str) -> Ints:
    """The codes of a column of class names or of codes. Names win where both would fit."""
    codes = positions(words, np.asarray(classes, np.str_))
    if (codes < 0).all() and np.isin(words, [str(code) for code in range(len(classes))]).all():
        return words.astype(np.int64)
    if (codes < 0).any():
        raise unknown("class", str(words[codes < 0][0]), classes, where)
    return codes


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


def sum_to_one(values: Reals, beside: Floats | float = 0.0) -> Bools:
    """Which rows sum to 1, together with the probabilities `beside` them."""
    return np.asarray(np.abs(values.sum(axis=1, dtype=np.float64) + beside - 1) <= ROUNDING)


def _log(
    scores: Reals, title: str, item: Callable[[int], str], where: str,
    remedy: str = "Correct them, or name the columns logit:CLASS where they are logits.", beside: Floats | float = 0.0,
) -> Reals:
    """Log-probabilities where scores are probabilities; logits stay as they are.

    `title` is the name of the columns. Columns named probabilities must be probabilities, together with those `beside`
    them of classes that the benchmark lacks; columns named logits are logits. For other names the numbers decide: where
    most items have probabilities and some do not, neither reading would be right.
    """
    if title.startswith("logit"):
        return scores
    named = title.startswith("prob")
    if not named and (scores.min(initial=0) < 0 or scores.max(initial=0) > 1):
        return scores
    odd = (scores < BELOW).any(axis=1) | ~sum_to_one(scores, beside)
    if odd.any() and (named or 2 * odd.sum() < len(odd)):
        row = int(odd.argmax())
        values = np.append(scores[row], beside if isinstance(beside, float) else beside[row])
        fault = f"has {values.min():g} in it" if values.min() < BELOW else f"sums to {values.sum():.4g}"
        raise ShiftBenchError(f"{where}: {odd.sum():,} of {len(odd):,} items have no probabilities: the first, "
                              f"'{item(row)}', {fault}. Probabilities are at least 0 and sum to 1. {remedy}")
    if odd.any():
        return scores
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores.clip(0)))


def _not_numbers(values: Reals) -> Bools:
    """Which scores are not 32-bit numbers; minus infinity is allowed, as the logarithm of 0."""
    with np.errstate(over="ignore"):
        return np.isnan(values) | np.isposinf(values.astype(np.float32, copy=False))


# Columns of a table

def _numbers(table: pa.Table, name: str, where: str) -> Floats:
    values = table[name].to_numpy() if pa.types.is_float32(table[name].type) else decimal(where, table, name)
    for row in np.flatnonzero(_not_numbers(values))[:1]:
        raise ShiftBenchError(f"{where}: column '{name}' has no number in row {row + 1}. Give a score for every item.")
    return values


def _stack(table: pa.Table, columns: Sequence[str], where: str) -> Reals:
    """Columns of scores as one array, items × classes, rounded to the 32 bits that `Predictions` keeps.

    It is filled a block of rows at a time; filling it column by column would pass through memory once per class.
    """
    values = [_numbers(table, name, where) for name in columns]
    scores = np.empty((len(table), len(columns)), np.float32)
    for start in range(0, len(table), BLOCK):
        scores[start:start + BLOCK] = np.stack([column[start:start + BLOCK] for column in values], axis=1)
    return scores


def _lists(table: pa.Table, name: str, n_classes: int, where: str) -> Floats:
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
    return _numbers(pa.table({name: pc.list_flatten(column)}), name, where).reshape(-1, n_classes)


def _scores_of_choices(table: pa.Table, choice: str, classes: tuple[str, ...], where: str) -> Reals:
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
    values = _numbers(table, CONFIDENCE, where).astype(np.float64)
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


def _beside(table: pa.Table, columns: Sequence[str], mark: str) -> Floats | float:
    """The probability of an item's other classes, whose columns the table has although the benchmark lacks them."""
    others = [table[name] for name in table.column_names
              if mark.startswith("prob") and name.startswith(mark) and name not in columns]
    return sum((np.asarray(column.fill_null(0).to_numpy(), np.float64) for column in others
                if pa.types.is_floating(column.type) or pa.types.is_integer(column.type)), 0.0)


def _item(table: pa.Table, row: int) -> str:
    """The id of the item in a row; where the table has no column of ids, the row."""
    name = next((name for name in IDS if name in table.column_names), None)
    return f"row {row + 1}" if name is None else str(table[name][row].as_py())


# Arrays in memory; each message names the argument that the user passed

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
    for row in np.flatnonzero(_not_numbers(numbers).any(axis=1))[:1]:
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
