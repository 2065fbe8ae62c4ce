"""How much subsets overlap: overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|) (MetaShift, equation 1), from counts.

One class: `meetings` and `overlap`. All classes in one pass: `incidence`, `add_sizes`, `plan`, then `edges`. Counts of
chunks of items add up to the counts of the whole, so what does not fit into memory is counted chunk by chunk:
`add_sizes` over all chunks, `plan`, `add_meetings` over all chunks, `edges_of`.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.metagraph.subsets import Candidates

Codes = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float32]
T = TypeVar("T")

CELLS = 2**18  # counts that a thread holds at a time while it makes edges: 1 MB, what a processor's cache holds


class Incidence(NamedTuple):
    """Who carries what: item i has the tags `code[start[i]:start[i + 1]]`, ascending, at most `widest` of them.

    Class k has the items `rows[row_start[k]:row_start[k + 1]]`.
    """

    start: Ints
    code: Codes
    row_start: Ints
    rows: Codes
    widest: int
    n_tags: int


class Plan(NamedTuple):
    """Where the counts of each class stand: class k has the contexts `context[first[k]:first[k + 1]]`, ascending.

    Its counts are the upper triangle of a matrix, row by row with the diagonal, at `block[k]:block[k + 1]`.
    """

    first: Ints
    context: Codes
    block: Ints


class Edges(NamedTuple):
    """The edges of many meta-graphs: class k has those from `start[k]` to `start[k + 1]`, between tags one < other."""

    start: Ints
    one: Codes
    other: Codes
    weight: Shares


def incidence(item: Ints, tag: Ints, n_items: int, n_tags: int, classes: Ints) -> Incidence:
    """From the long table (item, tag), sorted by item then tag; `classes` are the tags that serve as classes."""
    start = np.searchsorted(item, np.arange(n_items + 1)).astype(np.int64)
    place: Ints = np.full(n_tags, -1)
    place[classes] = np.arange(len(classes))
    short = np.int16 if len(classes) < 2**15 else np.int64  # numpy sorts short integers by radix, several times faster
    served = place.astype(short)[tag]
    holders, serving = item, place[tag] >= 0 if len(classes) < n_tags else None
    if serving is not None:
        holders, served = item[serving], served[serving]
    return Incidence(
        start=start,
        code=tag.astype(np.uint32),
        row_start=_offsets(np.bincount(served, minlength=len(classes))),
        rows=holders[np.argsort(served, kind="stable")].astype(np.uint32),
        widest=int(np.diff(start).max(initial=0)),
        n_tags=n_tags,
    )


def add_sizes(table: Incidence, out: Counts) -> None:
    """out[k, t] += |class k ∩ tag t| over the items of this chunk."""
    from shiftbench.metagraph import kernels

    def task(low: int, high: int) -> None:
        kernels.add_sizes(low, high, table.start, table.code, table.row_start, table.rows, out)

    _in_threads(task, _ranges(table.row_start, max(int(table.row_start[-1]) // 16, 1)))


def plan(kept: Bools) -> Plan:
    """Room for the counts of every class; `kept[k, t]` says that tag t is a context of class k."""
    numbers = kept.sum(axis=1, dtype=np.int64)
    return Plan(_offsets(numbers), np.nonzero(kept)[1].astype(np.uint32), _offsets(numbers * (numbers + 1) // 2))


def add_meetings(table: Incidence, room: Plan, out: Counts) -> None:
    """Add |class ∩ context ∩ context'| over the items of this chunk to `out`, which has `room.block[-1]` counts."""

    def task(low: int, high: int) -> None:
        _count(table, room, low, high, out[room.block[low]:room.block[high]])

    _in_threads(task, _ranges(table.row_start, max(int(table.row_start[-1]) // 16, 1)))


def edges_of(room: Plan, counts: Counts, threshold: float) -> Edges:
    """The edges of every class from its counts: the pairs that meet and whose overlap is at least the threshold."""
    return _joined(_edges(room, low, high, counts[room.block[low]:room.block[high]], threshold)
                   for low, high in _ranges(room.block, CELLS))


def edges(table: Incidence, room: Plan, threshold: float) -> Edges:
    """The edges of every class in one go: a few classes at a time are counted and compared, so memory stays small."""

    def task(low: int, high: int) -> tuple[Ints, Codes, Codes, Shares]:
        counts = np.zeros(room.block[high] - room.block[low], np.int32)
        _count(table, room, low, high, counts)
        return _edges(room, low, high, counts, threshold)

    return _joined(_in_threads(task, _ranges(room.block, CELLS)))


def meetings(subsets: Candidates) -> Ints:
    """|X ∩ Y| for all pairs of the candidate subsets of one class, |X| on the diagonal."""
    n = len(subsets.names)
    everyone = np.arange(len(subsets.items), dtype=np.uint32)
    table = Incidence(subsets.start, subsets.context, _offsets(np.asarray([len(everyone)])), everyone,
                      int(np.diff(subsets.start).max(initial=0)), n)
    room = plan(np.ones((1, n), np.bool_))
    counts = np.zeros(room.block[-1], np.int32)
    _count(table, room, 0, 1, counts)
    matrix: Ints = np.zeros((n, n), np.int64)
    matrix[np.triu_indices(n)] = counts
    return np.maximum(matrix, matrix.T)


def overlap(meeting: Ints) -> Floats:
    """overlap(X, Y) = |X ∩ Y| / min(|X|, |Y|) from such a matrix; an empty subset overlaps nothing."""
    sizes = np.diag(meeting)
    smaller = np.minimum.outer(sizes, sizes)
    return np.divide(meeting, smaller, out=np.zeros(meeting.shape), where=smaller > 0)


def _count(table: Incidence, room: Plan, low: int, high: int, out: Counts) -> None:
    from shiftbench.metagraph import kernels

    kernels.add_meetings(low, high, table.start, table.code, table.row_start, table.rows, room.first, room.context,
                         room.block, table.n_tags, table.widest, out)


def _edges(
    room: Plan, low: int, high: int, counts: Counts, threshold: float,
) -> tuple[Ints, Codes, Codes, Shares]:
    from shiftbench.metagraph import kernels

    number: Ints = np.zeros(high - low, np.int64)
    one, other = np.empty(len(counts), np.uint32), np.empty(len(counts), np.uint32)
    weight = np.empty(len(counts), np.float32)
    found = kernels.edges(low, high, room.first, room.context, room.block, counts, threshold, number, one, other,
                          weight)
    return number, one[:found].copy(), other[:found].copy(), weight[:found].copy()


def _joined(parts: Iterable[tuple[Ints, Codes, Codes, Shares]]) -> Edges:
    number, one, other, weight = zip(*parts, strict=True)
    return Edges(_offsets(np.concatenate(number)), np.concatenate(one), np.concatenate(other), np.concatenate(weight))


def _offsets(numbers: npt.NDArray[np.integer]) -> Ints:
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)


def _ranges(offsets: Ints, size: int) -> list[tuple[int, int]]:
    """Consecutive ranges of classes that hold about `size` each, at least one class each."""
    ranges, low = [], 0
    while low < len(offsets) - 1:
        high = max(int(np.searchsorted(offsets, offsets[low] + size, side="right")) - 1, low + 1)
        ranges.append((low, high))
        low = high
    return ranges


def _in_threads(task: Callable[[int, int], T], ranges: list[tuple[int, int]]) -> list[T]:
    """The compiled loops let go of Python's lock, so plain threads use every core."""
    if len(ranges) < 2:
        return [task(*each) for each in ranges]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda each: task(*each), ranges))
