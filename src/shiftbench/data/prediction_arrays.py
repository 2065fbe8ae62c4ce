"""Predictions that are arrays in memory: their shape, their classes and their numbers are checked.

Each message names the argument that the user passed: ids, probabilities, logits, predictions or classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Ints, Strs, Values, array_of, positions
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.data.benchmark import Benchmark


def scores_of_array(
    argument: str, values: Values, benchmark: Benchmark, classes: Any, items: Strs
) -> npt.NDArray[np.floating]:
    """Scores, items × classes in the benchmark's order, from the argument that a user passed."""
    names, order = benchmark.names["label"], _order(classes, benchmark)
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
    total = scores.sum(axis=1)
    wrong = (scores < -1e-6).any(axis=1) | (np.abs(total - 1) > 1e-3)
    for row in np.flatnonzero(wrong)[:1]:
        fault = (f"has {scores[row].min():g} in it" if (scores[row] < -1e-6).any() else f"sums to {total[row]:.4g}")
        raise ShiftBenchError(f"probabilities: row {row} (item '{items[row]}') {fault}, but probabilities are at least "
                              "0 and sum to 1. Give other scores as logits=.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores.clip(0).astype(np.float32)))  # rounded first, as those of a file are


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
