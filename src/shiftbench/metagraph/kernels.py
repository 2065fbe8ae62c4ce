"""The counting loops, compiled. Imported only where they run, because numba is slow to import.

Counting walks these arrays: item i carries the tags `code[start[i]:start[i + 1]]`, ascending, and class k has the items
`rows[row_start[k]:row_start[k + 1]]`. It adds to `out`, so chunks of items can be counted one after another.
"""

import numba
import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Ints
from shiftbench.metagraph.subsets import Codes

Singles = npt.NDArray[np.float32]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_sizes(start: Ints, code: Codes, row_start: Ints, rows: Codes, out: Codes) -> None:
    """out[k, t] += the number of items of class k that carry tag t."""
    for k in range(len(row_start) - 1):
        for r in range(row_start[k], row_start[k + 1]):
            for place in range(start[rows[r]], start[rows[r] + 1]):
                out[k, code[place]] += 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_meetings(
    start: Ints, code: Codes, row_start: Ints, rows: Codes, first: Ints, context: Codes, block: Ints, n_tags: int,
    out: Codes,
) -> None:
    """out[block[k] + cell(b, c)] += the number of items of class k that carry its contexts b <= c.

    Class after class, because then the counts of one class stay in the processor's cache while its items stream by.
    """
    local = np.full(n_tags, -1, np.int32)
    widest = 0
    for item in range(len(start) - 1):
        widest = max(widest, start[item + 1] - start[item])
    here = np.empty(widest, np.int32)
    for k in range(len(row_start) - 1):
        n = first[k + 1] - first[k]
        for place in range(first[k], first[k + 1]):
            local[context[place]] = place - first[k]
        for r in range(row_start[k], row_start[k + 1]):
            found = 0
            for place in range(start[rows[r]], start[rows[r] + 1]):
                where = local[code[place]]
                here[found] = where
                found += where >= 0
            for i in range(found):
                b = np.int64(here[i])
                row = block[k] + b * n - b * (b + 1) // 2  # the upper triangle, row by row, diagonal included
                for j in range(i, found):
                    out[row + here[j]] += 1
        for place in range(first[k], first[k + 1]):
            local[context[place]] = -1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def share(first: Ints, block: Ints, counts: Codes, out: Singles) -> None:
    """out[cell(b, c)] = |X ∩ Y| / min(|X|, |Y|) over the triangles of all classes; sizes stand on their diagonals."""
    for k in range(len(first) - 1):
        n = first[k + 1] - first[k]
        sizes = np.empty(n, np.float32)
        cell = block[k]
        for b in range(n):
            sizes[b] = max(counts[cell], 1)
            cell += n - b
        cell = block[k]
        for b in range(n):
            size = sizes[b]
            for c in range(b, n):
                smaller = sizes[c] if sizes[c] < size else size
                out[cell + c - b] = np.float32(counts[cell + c - b]) / smaller
            cell += n - b
