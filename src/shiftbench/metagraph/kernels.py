"""The counting loops, compiled. Imported only where they run, because numba is slow to import.

The arrays are those of `Incidence` and `Plan`. Each loop does the classes low..high - 1, adds to its part of `out` and
touches no other, so classes can be shared out to threads and chunks of items can be counted one after another. Indices
are unsigned where it matters, because numba checks signed ones for Python's counting from the end.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from shiftbench.arrays import Ints
from shiftbench.metagraph.overlaps import Codes, Counts, Shares


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use; keep the result on disk for the next process where a folder can be written."""
    try:
        return numba.njit(loop, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the home can be written
        return numba.njit(loop, nogil=True)  # type: ignore[no-any-return]


@compiled
def add_sizes(low: int, high: int, start: Ints, code: Codes, row_start: Ints, rows: Codes, out: Counts) -> None:
    """out[k, t] += the number of items of class k that carry tag t."""
    for k in range(low, high):
        line = out[k]
        for r in range(row_start[k], row_start[k + 1]):
            for place in range(start[rows[r]], start[rows[r] + 1]):
                line[code[place]] += np.int32(1)


@compiled
def add_meetings(
    low: int, high: int, start: Ints, code: Codes, row_start: Ints, rows: Codes, first: Ints, context: Codes,
    block: Ints, n_tags: int, widest: int, out: Counts,
) -> None:
    """out[block[k] + cell(b, c)] += the number of items of class k that carry its contexts b <= c.

    `out` begins at block[low]. Class after class, because the counts of one class fit into the processor's cache.
    """
    local = np.full(n_tags, -1, np.int32)
    here = np.empty(widest + 1, np.uint64)
    for k in range(low, high):
        n = first[k + 1] - first[k]
        for place in range(first[k], first[k + 1]):
            local[context[place]] = place - first[k]
        for r in range(row_start[k], row_start[k + 1]):
            found = 0
            for place in range(start[rows[r]], start[rows[r] + 1]):
                where = local[code[place]]
                here[found] = np.uint64(where)
                found += where >= 0
            for i in range(found):
                b = np.int64(here[i])
                line = np.uint64(block[k] - block[low] + b * n - b * (b + 1) // 2)
                for j in range(i, found):
                    out[line + here[j]] += np.int32(1)
        for place in range(first[k], first[k + 1]):
            local[context[place]] = -1


@compiled
def edges(
    low: int, high: int, first: Ints, context: Codes, block: Ints, counts: Counts, threshold: float, number: Ints,
    one: Codes, other: Codes, weight: Shares,
) -> int:
    """Write the contexts and the overlap of every pair that meets and reaches the threshold, and how many per class."""
    found = 0
    for k in range(low, high):
        n = first[k + 1] - first[k]
        sizes = np.empty(n, np.int32)
        near = np.empty(n + 1, np.uint64)
        cell = block[k] - block[low]
        for b in range(n):
            sizes[b] = counts[cell]
            cell += n - b
        cell = block[k] - block[low]
        before = found
        for b in range(n):
            line = np.uint64(cell - b)
            size = sizes[b]
            some = np.uint64(0)
            for c in range(np.uint64(b + 1), np.uint64(n)):  # without a branch: most pairs fall away, in no pattern
                near[some] = c
                meeting = counts[line + c]
                smaller = sizes[c] if sizes[c] < size else size
                some += np.uint64((meeting > 0) & (meeting >= threshold * smaller - 1))
            for i in range(some):
                c = near[i]
                share = counts[line + c] / min(size, sizes[c])
                if share >= threshold:
                    one[found] = context[first[k] + b]
                    other[found] = context[first[k] + np.int64(c)]
                    weight[found] = share
                    found += 1
            cell += n - b
        number[k - low] = found - before
    return found
