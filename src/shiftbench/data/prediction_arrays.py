"""Predictions that are arrays in memory: their shape, their classes and their numbers are checked.

Each message names the argument that the user passed: ids, probabilities, logits, predictions or classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, are_counted, array_of, positions
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.data.benchmark import Benchmark

ROUNDING = 1e-3
"""How far the probabilities of an item may be from a sum of 1."""
BELOW = -1e-6
"""The least number that is taken as a probability of 0."""


def scores_of_array(
    argument: str, values: Values, benchmark: Benchmark, classes: Any, items: Strs, columns: Sequence[Any] = ()
) -> npt.NDArray[np.floating]:
    """Scores, items × classes in the benchmark's order, from the argument that a user passed.

    `columns` are the names that the argument itself has for its columns.
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
    scores = _finite(argument, values, names, items)[:, order]
    if argument == "logits":
        return scores
    for row in np.flatnonzero((scores < BELOW).any(axis=1) | ~sum_to_one(scores))[:1]:
        raise ShiftBenchError(f"probabilities: row {row} (item '{items[row]}') {fault_of(scores[row])}, but "
                              "probabilities are at least 0 and sum to 1. Give other scores as logits=.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores.clip(0).astype(np.float32)))  # rounded first, as those of a file are


def sum_to_one(values: npt.NDArray[np.floating], beside: Floats | float = 0.0) -> Bools:
    """Which rows sum to 1, with what is `beside` them."""
    return np.asarray(np.abs(values.sum(axis=1, dtype=np.float64) + beside - 1) <= ROUNDING)


def fault_of(row: npt.NDArray[np.floating]) -> str:
    """What is wrong with the probabilities of an item."""
    return f"has {row.min():g} in it" if row.min() < BELOW else f"sums to {row.sum():.4g}"


def named_columns(argument: str, columns: Sequence[Any], classes: Any, names: Sequence[str]) -> Any:
    """The classes of an argument's columns: those that their names say, else those that the user says.

    `columns` are the names that the argument has for them. Numbers are no names unless the classes are these numbers,
    and one column for one output can mean nothing else, whatever it is called.
    """
    words = [str(column) for column in columns]
    if len(words) != len(names) or len(names) == 1:
        return classes  # where their number is wrong, that is said
    own = class_columns(words, names)
    if not all(own):
        if classes is not None or are_counted(columns):
            return classes
        raise ShiftBenchError(f"{argument}: its columns are {', '.join(words)}, but the classes are "
                              f"{', '.join(names)}. Name the columns so, or say what they are with classes=.")
    theirs = [names[own.index(word)] for word in words]
    if classes is not None and array_of(classes, "classes").astype(np.str_).tolist() != theirs:
        raise ShiftBenchError(f"{argument}: its columns are {', '.join(words)}, but classes= says "
                              f"{', '.join(map(str, classes))}. Leave classes= out, or name the columns so.")
    return theirs


def class_columns(columns: Sequence[str], classes: Sequence[str]) -> list[str]:
    """For each class the column that has its name, alone or as score:NAME, logit:NAME or prob:NAME; "" for none."""
    return [next((form for form in (name, *_forms(name)) if form in columns), "") for name in classes]


def _forms(name: str) -> list[str]:
    """The names that a column of scores for a class may have."""
    return [f"{kind}{mark}{name}" for kind in ("score", "logit", "prob") for mark in (":", "_")]


def _order(classes: Any, benchmark: Benchmark) -> Ints:
    """For each of the benchmark's classes, the column that the user has it in."""
    names = benchmark.names["label"]
    if classes is None:
        return np.arange(len(names))
    theirs = array_of(classes, "classes").astype(np.str_)
    if sorted(theirs.tolist()) != sorted(names):
        raise ShiftBenchError(f"classes: are {', '.join(theirs.tolist())}, but those of benchmark '{benchmark.name}' "
                              f"are {', '.join(names)}. Name each of them once.")
    return positions(np.asarray(names, np.str_), theirs)


def _finite(argument: str, values: Values, names: Sequence[str], items: Strs) -> Floats:
    """An array of numbers, items × names; minus infinity is the logarithm of 0 and means never."""
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ShiftBenchError(f"{argument}: has shape {values.shape}, but needs {len(items):,} × {len(names)}, a "
                              f"column for each of {', '.join(names)}.")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise ShiftBenchError(f"{argument}: is not all numbers ({first_line(problem)}).") from problem
    for row in np.flatnonzero((np.isnan(numbers) | np.isposinf(numbers)).any(axis=1))[:1]:
        raise ShiftBenchError(f"{argument}: row {row} (item '{items[row]}') has no number in it. Give a score for "
                              "every item.")
    return numbers


def _class_words(values: Values, classes: Sequence[str]) -> Strs:
    """Predicted classes as words. A truth or a whole number that is no name of a class is a code: 1.0 and True are 1.
    """
    forms = [values.astype(np.str_)]
    if values.dtype.kind == "b":
        forms.append(np.char.lower(forms[0]))
    if values.dtype.kind == "b" or (values.dtype.kind == "f" and (values == np.floor(values)).all()):
        forms.append(values.astype(np.int64).astype(np.str_))
    return next((form for form in forms if np.isin(form, classes).all()), forms[-1])


def class_codes(words: Strs, classes: tuple[str, ...], where: str) -> Ints:
    """Class codes of a column of names or of codes. Names win where both would fit."""
    codes = positions(words, np.asarray(classes, np.str_))
    if (codes < 0).all() and np.isin(words, [str(code) for code in range(len(classes))]).all():
        return words.astype(np.int64)
    if (codes < 0).any():
        raise unknown("class", str(words[codes < 0][0]), classes, where)
    return codes
