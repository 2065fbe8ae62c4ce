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
        for r in range(np.uint64(row_start[k]), np.uint64(row_start[k + 1])):
            item = np.uint64(rows[r])
            for place in range(np.uint64(start[item]), np.uint64(start[item + np.uint64(1)])):
                line[code[place]] += np.int32(1)


@compiled
def _line(corner: np.uint64, b: np.uint64, n: np.uint64) -> np.uint64:
    """Where cell (b, 0) would be if the triangle that begins at `corner` were a full matrix: add c for cell (b, c)."""
    return corner + b * n - ((b * (b + np.uint64(1))) >> np.uint64(1))


@compiled
def add_meetings(
    low: int, high: int, start: Ints, code: Codes, row_start: Ints, rows: Codes, first: Ints, context: Codes,
    block: Ints, n_tags: int, widest: int, out: Counts,
) -> None:
    """Add the number of items of class k that carry its contexts b <= c to their cell in the triangle of class k.

    `out` begins with class `low`. Class after class, because the counts of one class fit into the processor's cache.
    """
    local = np.full(n_tags, -1, np.int32)
    here = np.empty(widest + 1, np.uint64)
    one = np.uint64(1)
    for k in range(low, high):
        n = np.uint64(first[k + 1] - first[k])
        corner = np.uint64(block[k] - block[low])
        for place in range(first[k], first[k + 1]):
            local[context[place]] = place - first[k]
        for r in range(np.uint64(row_start[k]), np.uint64(row_start[k + 1])):
            found = np.uint64(0)
            item = np.uint64(rows[r])
            for place in range(np.uint64(start[item]), np.uint64(start[item + one])):
                where = local[code[place]]
                here[found] = np.uint64(where)  # without a branch: overwritten by the next where this is no context
                found += np.uint64(where >= 0)
            for i in range(found):
                line = _line(corner, here[i], n)
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
        n = np.uint64(first[k + 1] - first[k])
        corner = np.uint64(block[k] - block[low])
        sizes, least = np.empty(n, np.int32), np.empty(n, np.int32)
        near = np.empty(n + np.uint64(1), np.uint64)
        for b in range(n):
            size = counts[_line(corner, b, n) + b]
            sizes[b] = size
            least[b] = max(int(threshold * size) - 1, 1)  # the fewest meetings that reach the threshold
            while size > 0 and least[b] / size < threshold:
                least[b] += 1
        before = found
        for b in range(n):
            line = _line(corner, b, n)
            some = np.uint64(0)
            for c in range(b + np.uint64(1), n):  # without a branch: most pairs fall away, in no pattern
                near[some] = c
                some += np.uint64(counts[line + c] >= min(least[b], least[c]))
            for i in range(some):
                c = near[i]
                one[found] = context[np.uint64(first[k]) + b]
                other[found] = context[np.uint64(first[k]) + c]
                weight[found] = counts[line + c] / min(sizes[b], sizes[c])
                found += 1
        number[k - low] = found - before
    return found
