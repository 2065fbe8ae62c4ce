"""A criterion as a question about factors: φ(C) in words, without `eval`.

    place != y                      two factors
    location not in 1..245          a range of whole numbers, both ends in it
    year >= 2013                    also year:taken >= 2013, and taken >= 2013-06 where `taken` holds dates
    max_nll >= -log(0.15)
    subclass in [beagle, pug]
    has:sofa                        a yes or no by itself
    area:sofa > 0.1 and place == indoors or flag

`and` binds closer than `or`. A word is a factor where there is one of that name, else a value; 'quoted', a value.
"""

import math
import re
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.data.questions import DATE, dates, numbers

SYMBOLS = {"!=": np.not_equal, "==": np.equal, ">=": np.greater_equal, "<=": np.less_equal, ">": np.greater,
           "<": np.less}
_CLAUSE = re.compile(r"(?P<factor>.+?)(?:\s*(?P<op>!=|==|>=|<=|>|<)\s*|\s+(?P<word>not in|in)\s+)(?P<value>.+)")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_LOG = re.compile(r"-log\(\s*([^()]+?)\s*\)")
YES = ("yes", "true", "1")
NO = ("no", "false", "0")
NUMBERS = "iufb"  # numpy's kinds


def holds(collection: Collection, text: str) -> Bools:
    """φ of every item: where the expression is true."""
    if not text.strip():
        raise ShiftBenchError("The criterion is empty. Write 'ce', 'gist', or a question such as 'year >= 2013'.")
    answer = np.zeros(len(collection), np.bool_)
    for choice in re.split(r"\s+or\s+", text.strip()):
        every = np.ones(len(collection), np.bool_)
        for clause in re.split(r"\s+and\s+", choice):
            every &= _clause(collection, clause.strip())
        answer |= every
    return answer


def _clause(collection: Collection, text: str) -> Bools:
    clause = _CLAUSE.fullmatch(text)
    if not clause:
        return _yes(collection, text)
    name, value = clause["factor"].strip(), clause["value"].strip()
    column = _filled(collection, name)
    if clause["word"]:
        within = _listed(column, name, value)
        return within if clause["word"] == "in" else ~within
    return _compared(collection, column, name, clause["op"], value)


def _yes(collection: Collection, name: str) -> Bools:
    """A factor that is a yes or no by itself."""
    column = np.char.lower(_filled(collection, name).astype(np.str_))
    if not np.isin(column, (*YES, *NO)).all():
        raise ShiftBenchError(f"Criterion '{name}' is no question: factor '{name}' has other values than yes and no. "
                              f"Compare it: {name} == VALUE; allowed are ==, !=, >=, <=, >, <, in, not in.")
    return np.isin(column, YES)


def _compared(collection: Collection, column: Values, name: str, op: str, value: str) -> Bools:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    number = None if quoted else _number(value)
    if number is not None and column.dtype.kind in NUMBERS:
        return _apply(op, column.astype(np.float64), number)
    other = None if quoted or number is not None else _factor(collection, value)
    if other is not None and column.dtype.kind in NUMBERS and other.dtype.kind in NUMBERS:
        return _apply(op, column.astype(np.float64), other.astype(np.float64))
    if op not in ("==", "!="):
        if not quoted and other is None:
            return _ordered(column, name, op, value, number)
        raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates. Use == or != for words, and "
                              "factors of numbers on both sides.")
    if other is not None:
        return _apply(op, column.astype(np.str_), other.astype(np.str_))
    word, words = value[1:-1] if quoted else value, column.astype(np.str_)
    _among(word, words, name)
    return _apply(op, words, word)


def _ordered(column: Values, name: str, op: str, value: str, number: float | None) -> Bools:
    """Words that are numbers or dates; an item without one is not hard. A date is compared as exactly as it is said:
    `taken <= 2013` has all of 2013."""
    try:
        if re.match(DATE, value):
            text = dates(column, name).text
            return np.asarray(text != "", np.bool_) & _apply(op, text.astype(f"U{len(value)}"), value)
        if number is not None:
            x = numbers(column, name)
            return ~np.isnan(x) & _apply(op, x, number)
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates. {problem}") from problem
    raise ShiftBenchError(f"'{name} {op} {value}': {op} compares numbers or dates, and '{value}' is neither. Use == or "
                          "!= for words.")


def _apply(op: str, one: Values, other: Any) -> Bools:
    return np.asarray(SYMBOLS[op](one, other), np.bool_)


def _factor(collection: Collection, name: str) -> Values | None:
    """The factor of that name; None where there is none, since the word is a value then."""
    return _filled(collection, name) if name in collection.factors or ":" in name else None


def _listed(column: Values, name: str, value: str) -> Bools:
    """Which values are in `[a, b, 1..245]`."""
    body = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    values = [text.strip().strip("'\"") for text in body.split(",") if text.strip()]
    if not values:
        raise ShiftBenchError(f"'{name} in {value}' lists no value. Write for example {name} in [a, b] or 1..245.")
    words = column.astype(np.str_)
    answer = np.zeros(len(column), np.bool_)
    for word in values:
        span = _RANGE.fullmatch(word)
        if span and column.dtype.kind in "iuf":
            answer |= (column >= int(span[1])) & (column <= int(span[2]))
        elif column.dtype.kind in "iuf" and _number(word) is not None:
            answer |= column == _number(word)
        else:
            _among(word, words, name)
            answer |= words == word
    return answer


def _among(word: str, words: Values, name: str) -> None:
    """Refuse a word that no item has: it would make every item hard, or none."""
    if len(words) and not (words == word).any():
        raise unknown("value", word, np.unique(words).tolist(), f"Factor '{name}'")


def _number(text: str) -> float | None:
    """A number, or -log(p) of one."""
    log = _LOG.fullmatch(text)
    try:
        value = float(log[1] if log else text)
    except ValueError:
        return None
    if log and not value > 0:
        raise ShiftBenchError(f"'{text}': the logarithm needs a number above 0.")
    return -math.log(value) if log else value


def _filled(collection: Collection, name: str) -> Values:
    column = collection.factor(name)
    missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(0, np.bool_)
    for row in np.flatnonzero(missing)[:1]:
        raise ShiftBenchError(f"Factor '{name}' has {int(missing.sum())} missing values (NaN), first at item "
                              f"'{collection.items[row]}'. Fill them or drop those items.")
    return column
