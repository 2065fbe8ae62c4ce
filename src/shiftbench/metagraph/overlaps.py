"""How much subsets overlap: overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|) (MetaShift, equation 1), from counts.

Counting works on plain arrays, for one class or for all in one pass: item i carries the tags
`code[start[i]:start[i + 1]]`. Counts of chunks of items add up to the counts of the whole, so a collection that does not
fit into memory is counted chunk by chunk: first `add_sizes` over all chunks, then `plan`, then `add_meetings`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.metagraph.subsets import Candidates, Codes


class Incidence(NamedTuple):
    """Which item carries which tag: item i has `code[start[i]:start[i + 1]]`, ascending; and who has the classes.

    Class k has the items `rows[row_start[k]:row_start[k + 1]]`.
    """

    start: Ints
    code: Codes
    row_start: Ints
    rows: Codes


class Plan(NamedTuple):
    """Where the counts of each class stand: class k has the contexts `context[first[k]:first[k + 1]]`, ascending codes.

    Its counts are the upper triangle of a matrix, row by row, from `block[k]` to `block[k + 1]` of one long array.
    """

    first: Ints
    context: Codes
    block: Ints


def incidence(item: Ints, tag: Ints, n_items: int, classes: Ints, n_tags: int) -> Incidence:
    """From the long table (item, tag), sorted by item then tag; `classes` are the tags that serve as classes."""
    start = np.searchsorted(item, np.arange(n_items + 1)).astype(np.int64)
    small = np.int16 if len(classes) < 2**15 else np.int64  # numpy sorts short integers by radix, several times faster
    place = np.full(n_tags, -1, small)
    place[classes] = np.arange(len(classes), dtype=small)
    of = place[tag]
    if (of < 0).any():
        item, of = item[of >= 0], of[of >= 0]
    counts = np.bincount(of, minlength=len(classes))
    return Incidence(start, tag.astype(np.int32), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                     item[np.argsort(of, kind="stable")].astype(np.int32))


def add_sizes(table: Incidence, out: Codes) -> None:
    """out[k, t] += |class k ∩ tag t| over the items of this chunk."""
    from shiftbench.metagraph import kernels

    kernels.add_sizes(table.start, table.code, table.row_start, table.rows, out)


def plan(kept: Bools) -> Plan:
    """Room for the counts of every class; `kept[k, t]` says that tag t is a context of class k."""
    numbers = kept.sum(axis=1, dtype=np.int64)
    triangle = numbers * (numbers + 1) // 2
    return Plan(
        first=np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64),
        context=np.nonzero(kept)[1].astype(np.int32),
        block=np.concatenate([[0], np.cumsum(triangle)]).astype(np.int64),
    )


def add_meetings(table: Incidence, room: Plan, n_tags: int, out: Codes) -> None:
    """Add the counts |class ∩ context ∩ context'| of this chunk to `out`, an array of `room.block[-1]` counts."""
    from shiftbench.metagraph import kernels

    kernels.add_meetings(table.start, table.code, table.row_start, table.rows, room.first, room.context, room.block,
                         n_tags, out)


def overlaps(room: Plan, counts: Codes) -> npt.NDArray[np.float32]:
    """overlap(X, Y) for every pair of every class, standing where `counts` has the pair."""
    from shiftbench.metagraph import kernels

    shares = np.zeros(len(counts), np.float32)
    kernels.share(room.first, room.block, counts, shares)
    return shares


def meetings_of(room: Plan, counts: npt.NDArray[np.int32], k: int) -> Ints:
    """The counts of class k as a full matrix: |X ∩ Y| off the diagonal, |X| on it."""
    n = int(room.first[k + 1] - room.first[k])
    matrix: Ints = np.zeros((n, n), np.int64)
    matrix[np.triu_indices(n)] = counts[room.block[k]:room.block[k + 1]]
    return np.maximum(matrix, matrix.T)


def meetings(subsets: Candidates) -> Ints:
    """|X ∩ Y| for all pairs of the candidate subsets of one class, sizes on the diagonal."""
    n = len(subsets.names)
    everyone = np.arange(len(subsets.items), dtype=np.int32)
    table = Incidence(subsets.start, subsets.context, np.asarray([0, len(everyone)], np.int64), everyone)
    room = plan(np.ones((1, n), np.bool_))
    counts = np.zeros(room.block[-1], np.int32)
    add_meetings(table, room, n, counts)
    return meetings_of(room, counts, 0)


def overlap(matrix: Ints) -> Floats:
    """overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|) from such a matrix of counts; an empty subset overlaps nothing."""
    sizes = np.diag(matrix)
    smaller = np.minimum.outer(sizes, sizes)
    return np.divide(matrix, smaller, out=np.zeros(matrix.shape), where=smaller > 0)
