"""The bootstrap: what is resampled, how often, and which part of the replicates is reported.

The way for a statistic without a law of its own; `proportion`, `worst` and `parts` need no replicates.

A replicate draws n of n items with replacement. A statistic that depends on the items only through counts over cells
(group × right or wrong) needs no items: the cell counts of a replicate are one multinomial draw with the observed
shares, exactly. Such statistics cost the number of cells, not of items.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.rng import child

REPLICATES = 1000
LEVEL = 0.95
CHUNK = 4_000_000
"""Numbers held at once while replicates are drawn: 32 MB."""


def checked(level: float) -> float:
    """A level as it should be: 0.95, not 95."""
    if not 0 < level < 1:
        raise ShiftBenchError(f"level = {level}, but the level of an interval lies between 0 and 1, such as 0.95.")
    return level


def interval(replicates: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The percentile interval along the first axis: its (1 − level) / 2 and (1 + level) / 2 quantiles.

    Replicates in which the statistic is not defined (NaN: a group that was not drawn) are left out.
    """
    checked(level)
    if not len(replicates):
        nothing = np.full(replicates.shape[1:], np.nan)
        return nothing, nothing.copy()
    ordered = np.sort(replicates, axis=0)  # NaN sorts last
    known = (~np.isnan(ordered)).sum(axis=0)
    low, high = (_quantile(ordered, known, q) for q in ((1 - level) / 2, (1 + level) / 2))
    return low, high


def _quantile(ordered: Floats, known: Ints, q: float) -> Floats:
    """The quantile of the first `known` of each sorted column, linear between neighbours."""
    place = np.maximum(known - 1, 0) * q
    under = np.floor(place).astype(np.int64)
    over = np.minimum(under + 1, np.maximum(known - 1, 0))
    lower = np.take_along_axis(ordered, under[None], axis=0)[0]
    upper = np.take_along_axis(ordered, over[None], axis=0)[0]
    return np.asarray(lower + (upper - lower) * (place - under))


def bootstrap(
    statistic: Callable[[Floats], float], n: int, *, replicates: int = REPLICATES, seed: int = 0, purpose: str = ""
) -> Floats:
    """Replicates of any statistic of n items: `statistic(weight)` sees how often each item was drawn.

    The way for metrics that are no function of few counts: `bootstrap(lambda w: auc(label, scores, w), len(label))`.
    One replicate's weights are held at a time.
    """
    rng = child(seed, "bootstrap", "items", purpose)
    return np.asarray([
        statistic(np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)) for _ in range(replicates)])


class Cells(NamedTuple):
    """Items that no column tells apart fall into one cell; cells come in lexicographic order of the columns."""

    first: Ints  # an item of each cell
    size: Ints  # items per cell

    @staticmethod
    def of(columns: Sequence[Ints | Bools]) -> "Cells":
        code = np.zeros(len(columns[0]), np.int64)
        first, size = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for column in columns:
            values = column.astype(np.int64)
            _, first, code, size = np.unique(
                code * (1 + int(values.max(initial=0))) + values,
                return_index=True, return_inverse=True, return_counts=True)
        return Cells(first, size)

    def draws(self, rng: np.random.Generator, replicates: int, width: int = 1) -> Iterator[Floats]:
        """Replicates × cells, chunk by chunk: how many of n items drawn with replacement fall into each cell.

        The chunks are consecutive parts of one stream, so their size changes no number. `width` is how many numbers
        the caller makes of each replicate.
        """
        n, step = int(self.size.sum()), max(1, CHUNK // max(1, width, len(self.size)))
        for start in range(0, max(1, replicates), step):
            yield rng.multinomial(n, self.size / n, size=min(step, replicates - start)).astype(np.float64)
