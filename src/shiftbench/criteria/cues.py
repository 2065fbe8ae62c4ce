"""Context cues: what is large where a class is present (Madras & Zemel, 2021, §3.1.1)."""

from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.criteria.areas import Areas
from shiftbench.errors import ShiftBenchError

ALPHA = 0.05


class Cue(NamedTuple):
    """One cue of a class: its tag and A(C, Y)."""

    tag: str
    kind: str
    strength: float


def strengths(areas: Areas, train: Bools | None = None) -> Floats:
    """A(C, Y) of every class and every cue at once, as a matrix whose row is Y and whose column is C.

        A(C, Y) = E[Area(C) − Area(Y) | Y = 1]   over the training items,

    one product of two sparse matrices, who carries Y and how much C covers. The row of a class that no training item
    carries is NaN. Sums go item by item in one order, so every machine finds the same cues.
    """
    from scipy.sparse import csr_array

    n, width = areas.n_items, len(areas.names)
    rows = slice(None) if train is None else np.flatnonzero(train[areas.item])
    item, tag, area = areas.item[rows], areas.tag[rows], areas.area[rows].astype(np.float64)
    start = np.searchsorted(item, np.arange(n + 1))
    covered = csr_array((area, tag, start), shape=(n, width))
    carried = csr_array((np.ones(len(tag)), tag, start), shape=(n, width))
    total: Floats = (carried.T @ covered).toarray()
    count = np.bincount(tag, minlength=width)
    mean: Floats = np.full((width, width), np.nan)
    seen = count > 0
    mean[seen] = total[seen] / count[seen, None]
    mean -= mean.diagonal().copy()[:, None]
    return mean


def cues(strength: Floats, alpha: float = ALPHA) -> Bools:
    """Which C are alpha-strong context cues of which Y: {C ≠ Y : A(C, Y) > alpha}, row Y, column C."""
    if not np.isfinite(alpha):
        raise ShiftBenchError(f"alpha is {alpha}, but it must be a number, usually {ALPHA}.")
    chosen: Bools = strength > alpha
    np.fill_diagonal(chosen, False)
    return chosen


def cues_of(areas: Areas, strength: Floats, label: int, alpha: float = ALPHA) -> list[Cue]:
    """The cues of one class from the strongest on, or an error that names the nearest choice."""
    row = strength[label]
    name = areas.titles[label]
    if np.isnan(row).all():
        seen: Ints = np.flatnonzero(~np.isnan(np.diagonal(strength)))
        listed = ", ".join(areas.titles[code] for code in seen[:20].tolist())
        raise ShiftBenchError(f"No training item carries '{name}', so it has no context. Choose another label"
                              + (f": {listed}{' …' if len(seen) > 20 else ''}." if len(seen) else "."))
    found = np.flatnonzero(cues(strength, alpha)[label])
    if not found.size:
        others = np.where(np.arange(len(row)) == label, -np.inf, row)
        best = int(others.argmax())
        if len(row) < 2:
            raise ShiftBenchError(f"'{name}' is the only tag, so nothing can be its context.")
        able = np.flatnonzero(cues(strength, alpha).any(axis=1))
        other = f", or choose a label with a cue, for example {_first(areas, able)}" if able.size else ""
        raise ShiftBenchError(f"'{name}' has no cue with A > {alpha:g}. The nearest is '{areas.titles[best]}' with A = "
                              f"{row[best]:.4f}: lower alpha below that{other}.")
    order = found[np.argsort(-row[found], kind="stable")]
    return [Cue(areas.titles[code], areas.kinds[code], float(row[code])) for code in order.tolist()]


def _first(areas: Areas, codes: Ints) -> str:
    return ", ".join(areas.titles[code] for code in codes[:5].tolist())
