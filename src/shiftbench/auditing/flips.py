"""Error rates of annotations: known ones, or those of a hand-checked sample, which are uncertain themselves.

An annotation is there though it should not be with probability a (`false`), and missing though it should be there with
probability b (`missing`). Of a sample of checked items, k₀ of the n₀ that should not have it do, and k₁ of the n₁ that
should do not. With Jeffreys' prior a has the distribution Beta(k₀ + ½, n₀ − k₀ + ½), and b likewise: its mean is the
rate, its standard deviation the `…_error`, which `confirm` carries into the interval by the delta method.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.auditing.predicates import Predicate, Predicates
from shiftbench.core.arrays import Bools, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import is_frame, read_table, strings, table_name

Flips = Mapping[str, Any]
"""Error rates by predicate, "light=night" or the name of a tag: one number for both directions, two for `false` and
`missing`, or the table of a checked sample with columns `seen` and `true`."""
SEEN, TRUE = "seen", "true"
YES = ("yes", "true", "True", "1")
"""How a sample says that an item has a tag, beside the tag's name."""


class Rates(NamedTuple):
    """How often an annotation is there falsely and missing falsely, how sure that is, and by how many checked items."""

    false: float
    missing: float
    false_error: float = 0.0
    missing_error: float = 0.0
    checked: int = 0

    @property
    def turned(self) -> "Rates":
        """Those of the opposite, "without dog"."""
        return Rates(self.missing, self.false, self.missing_error, self.false_error, self.checked)


def flip_rates(predicates: Predicates, flips: Flips) -> dict[int, Rates]:
    """The rates of each predicate that has some, by its number."""
    names: dict[str, int] = {}
    opposite: dict[str, int] = {}
    for number, predicate in enumerate(predicates.list):
        names[f"{predicate.column}={predicate.value}"] = number
        if predicate.kind == "tag":
            (names if predicate.value == "yes" else opposite)[_tag(predicate)] = number
    rates: dict[int, Rates] = {}
    for name, source in flips.items():
        if name not in names:
            raise unknown("annotation", name, names, "flips")
        predicate = predicates.list[names[name]]
        rates[names[name]] = each = _rates(name, predicate, source)
        if predicate.kind == "tag" and predicate.value == "yes" and _tag(predicate) in opposite:
            rates.setdefault(opposite[_tag(predicate)], each.turned)
    return rates


def _tag(predicate: Predicate) -> str:
    return predicate.column.removeprefix("has:")


def _rates(name: str, predicate: Predicate, source: Any) -> Rates:
    if is_frame(source) or isinstance(source, str | Path):
        rates = _of_sample(predicate, source)
    else:
        false, missing = (source, source) if isinstance(source, int | float) else source
        rates = Rates(float(false), float(missing))
    if not (rates.false >= 0 and rates.missing >= 0 and rates.false + rates.missing < 1):
        raise ShiftBenchError(f"flips of '{name}' = {rates.false:g} and {rates.missing:g}, but rates of false and of "
                              "missing annotations are shares that together stay below 1; at 1 an annotation says "
                              "nothing.")
    return rates


def _of_sample(predicate: Predicate, source: Any) -> Rates:
    where = table_name(source)
    table = read_table(source, [SEEN, TRUE], text=(SEEN, TRUE))
    seen, true = (_has(strings(where, table, column), predicate) for column in (SEEN, TRUE))
    if true.all() or not true.any():
        which = "is not" if true.all() else "is"
        raise ShiftBenchError(f"{where}: of the {len(true):,} items that were checked, none {which} truly "
                              f"'{predicate.words}', so that one of the two error rates is unknown.")
    pairs = [_beta(int(wrong.sum()), len(wrong)) for wrong in (seen[~true], ~seen[true])]
    return Rates(pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1], len(true))


def _has(values: Strs, predicate: Predicate) -> Bools:
    words = (_tag(predicate), *YES) if predicate.kind == "tag" else (predicate.value,)
    return np.asarray(np.isin(values, words) != (predicate.kind == "tag" and predicate.value == "no"), np.bool_)


def _beta(hits: int, n: int) -> tuple[float, float]:
    """Mean and standard deviation of Jeffreys' posterior of a share.

    >>> [round(number, 4) for number in _beta(8, 100)]
    [0.0842, 0.0275]
    """
    mean = (hits + 0.5) / (n + 1)
    return mean, float(np.sqrt(mean * (1 - mean) / (n + 2)))
