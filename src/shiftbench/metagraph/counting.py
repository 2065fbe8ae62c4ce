"""Counting who carries which tags, for all classes at once: sizes of subsets, meetings of subsets, and their edges.

The loops at the end are compiled on first use, by numba, which is slow to import: what imports this page is imported
where it runs. Each loop does the classes low..high - 1 and writes where no other range of classes writes, so ranges can
be shared out to threads. Two habits make them fast: indices are unsigned, because numba checks signed ones for Python's
counting from the end; and what may or may not be wanted is written without a branch and overwritten by the next,
because a processor cannot guess which tags meet.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError

Codes = npt.NDArray[np.unsignedinteger]
Counts = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float32]
T = TypeVar("T")

RANGES, LEAST = 16, 2**12  # classes are cut into so many ranges for threads to share, of at least so many holders each
CELLS = 2**18  # counts of a range of classes in which a thread looks for edges: they stay in the processor's cache


# Sizes of subsets: who carries what, and how many items carry two tags.
#
# Tags are counted in an order of their own: those that may be classes first, from the rarest to the commonest, then
# the others. In an incidence, in `sizes` and in a plan a tag goes by its rank in that order, so class k is tag k.

class Incidence(NamedTuple):
    """The holders of tag t are `first[t]:first[t + 1]`; a holder stands for one item that carries t.

    The tags after t that the item of holder h carries are `later[begin[h]:end[h]]`, ascending; `widest` is the largest
    number of tags of an item.
    """

    first: Ints
    begin: Codes
    end: Codes
    later: Codes
    widest: int


def counting_order(classes: Ints, n_tags: int, frequency: Ints) -> Ints:
    """The tags in the order of counting: `classes` from the rarest to the commonest, then all others."""
    others = np.setdiff1d(np.arange(n_tags), classes)
    return np.concatenate([classes[np.argsort(frequency[classes], kind="stable")], others])


def incidence(start: Ints, tag: Ints, order: Ints) -> Incidence:
    """The table of items; item i carries the tags `tag[start[i]:start[i + 1]]`, in any order, each once."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order))
    table = Incidence(
        first=np.zeros(len(order) + 1, np.int64),
        begin=np.empty(len(tag), np.uint32),
        end=np.empty(len(tag), np.uint32),
        later=np.empty(len(tag), np.uint16 if len(order) <= 2**16 else np.uint32),  # half the memory to go through
        widest=int(np.diff(start).max(initial=0)),
    )
    if not _by_tag(start, tag, rank, table.first, table.begin, table.end, table.later):
        raise ShiftBenchError("An item carries the same tag twice. List each pair of item and tag once.")
    return table


def runs_of(item: npt.NDArray[np.integer]) -> Ints:
    """Where the rows of each item begin in a column sorted by item, and where the last ones end."""
    changes = np.flatnonzero(item[1:] != item[:-1]) + 1
    return np.concatenate([[0], changes, [len(item)] if len(item) else []]).astype(np.int64)


def add_sizes(table: Incidence, out: Counts, threads: int | None = None) -> None:
    """out[k, t] += |class k ∩ tag t| over the items of this chunk, for t from k on; `mirrored` completes it."""
    in_threads(lambda low, high: _add_sizes(low, high, table, out), shares(table.first[:len(out) + 1]), threads)


def mirrored(sizes: Counts) -> Counts:
    """The same array when every chunk is in, with |class k ∩ class t| filled in for t < k."""
    for k in range(1, len(sizes)):
        sizes[k, :k] = sizes[:k, k]
    return sizes


def shares(offsets: Ints, size: int | None = None) -> list[tuple[int, int]]:
    """Consecutive ranges of classes that hold about `size` each, or a share for threads, at least one class each."""
    step = max(int(offsets[-1] - offsets[0]) // RANGES, LEAST) if size is None else size
    ranges, low = [], 0
    while low < len(offsets) - 1:
        high = max(int(np.searchsorted(offsets, offsets[low] + step, side="right")) - 1, low + 1)
        ranges.append((low, high))
        low = high
    return ranges


def in_threads(task: Callable[[int, int], T], ranges: list[tuple[int, int]], threads: int | None = None) -> list[T]:
    """The compiled loops let go of Python's lock, so plain threads use every core."""
    if len(ranges) < 2 or threads == 1:
        return [task(*each) for each in ranges]
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(lambda each: task(*each), ranges))


# Overlaps of subsets: a plan of what is counted, the counts of a range of classes, and the edges found in them.
#
# How much a(b) and a(c) overlap in the graph of class a depends on how many items carry a, b and c; so do b(a) and
# b(c) in the graph of b, and c(a) and c(b) in the graph of c. Each triple of tags is therefore counted once, at its
# first tag in the order of counting. That is the rarest, with the fewest partners: a third of the work, on counts that
# fit into the processor's cache. Counts of chunks of items add up to those of the whole.

class Plan(NamedTuple):
    """What is counted, and where its counts stand.

    `held[k, t]` is the size of the subset of class k in context t, 0 where that is no subset. The partners of class a
    are the tags `tag[first[a]:first[a + 1]]` after it, ascending. A near partner makes a subset with a, of either; a
    far one does not, but both may be contexts of a near partner, which they meet `fewest` times or more where they make
    an edge. The counts of a are a matrix with a row per near partner (`row`, -1 for far ones) and a column per partner,
    at `block[a]:block[a + 1]`: how many items carry a and both. The row of two near partners is that of the later one.
    """

    held: Counts
    fewest: int
    first: Ints
    tag: Codes
    row: Counts
    block: Ints


class Runs(NamedTuple):
    """Edges as they are found: run r is the next `length[r]` of `other` and `weight`, class `cls[r]`, from `one[r]`."""

    cls: Codes
    one: Codes
    length: Ints
    other: Codes
    weight: Shares


class Edges(NamedTuple):
    """The edges of many meta-graphs: class k has those from `start[k]` to `start[k + 1]`.

    An edge lies between the contexts `one` and `other` and has a weight, its overlap; `one` is before `other` in the
    order of counting, and so are edges by `one`, then by `other`.
    """

    start: Ints
    one: Codes
    other: Codes
    weight: Shares


def plan(sizes: Counts, kept: Bools, threshold: float) -> Plan:
    """Room for the counts of every class; `kept[k, t]` says that tag t is a context of class k."""
    held = np.where(kept, sizes, np.int32(0))
    fewest = _fewest(int(held[kept].min(initial=np.iinfo(np.int32).max)), threshold) if kept.any() else 1
    most = int(np.count_nonzero(sizes >= fewest)) + len(sizes)
    first, tag, row = np.zeros(len(sizes) + 1, np.int64), np.empty(most, np.uint32), np.empty(most, np.int32)
    _partners(sizes, kept, fewest, first, tag, row)
    tag, row = tag[:first[-1]], row[:first[-1]]
    near = np.concatenate([[0], np.cumsum(row >= 0)])[first]
    return Plan(held, fewest, first, tag, row, offsets(np.diff(near) * np.diff(first)))


def _fewest(size: int, threshold: float) -> int:
    """The fewest meetings with which a subset of this size can reach the threshold."""
    fewest = max(int(threshold * size) - 1, 1)
    while fewest < size and fewest / size < threshold:
        fewest += 1
    return fewest


def edges(table: Incidence, room: Plan, threshold: float) -> list[Runs]:
    """The edges of every class: a range of classes at a time is counted, and compared while its counts are at hand."""
    def task(low: int, high: int) -> Runs:
        counts: Counts = np.zeros(room.block[high] - room.block[low], np.int32)
        _add_meetings(low, high, table, room, counts)
        return _edges_between(low, high, room, counts, threshold)

    return in_threads(task, shares(room.block, CELLS))


def add_meetings(
    table: Incidence, room: Plan, out: Counts, low: int, high: int, threads: int | None = None,
) -> None:
    """Add the items of this chunk to `out`, the counts of the classes low..high - 1."""
    base = room.block[low]
    in_threads(lambda begin, end: _add_meetings(
        low + begin, low + end, table, room, out[room.block[low + begin] - base:room.block[low + end] - base]),
        shares(table.first[low:high + 1]), threads)


def edges_of(room: Plan, counts: Counts, threshold: float, low: int, high: int) -> list[Runs]:
    """The edges found in the counts of the classes low..high - 1: pairs that meet, with an overlap of the threshold."""
    base = room.block[low]
    return in_threads(lambda begin, end: _edges_between(
        low + begin, low + end, room, counts[room.block[low + begin] - base:room.block[low + end] - base], threshold),
        shares(room.block[low:high + 1], CELLS))


def _edges_between(low: int, high: int, room: Plan, counts: Counts, threshold: float) -> Runs:
    """The edges of classes low..high - 1, of which these are the counts.

    There is room for two edges per pair of near partners and one per far one; what is not used is given back.
    """
    rows = 2 * np.count_nonzero(room.row[room.first[low]:room.first[high]] >= 0) + 1
    most = 3 * len(counts) // 2 + 1
    runs = Runs(np.empty(rows, np.uint32), np.empty(rows, np.uint32), np.empty(rows, np.int64),
                np.empty(most, np.uint32), np.empty(most, np.float32))
    n_runs, n_edges = _edges_of(low, high, room, threshold, counts, runs)
    return Runs(runs.cls[:n_runs].copy(), runs.one[:n_runs].copy(), runs.length[:n_runs].copy(),
                runs.other[:n_edges].copy(), runs.weight[:n_edges].copy())


def joined(batches: Sequence[Runs], order: Ints, classes: Ints) -> Edges:
    """The edges of the classes with these tags, one after another; tags go by their codes from here on."""
    rank: Ints = np.zeros(len(order), np.int64)
    rank[order] = np.arange(len(order))
    number = np.asarray([np.bincount(runs.cls, runs.length, len(order)) for runs in batches]).reshape(-1, len(order))
    start = offsets(number.sum(axis=0)[rank[classes]])
    free = np.zeros(number.shape, np.int64)
    free[:, rank[classes]] = start[:-1] + (np.cumsum(number, axis=0) - number)[:, rank[classes]].astype(np.int64)
    n = int(start[-1])
    edges = Edges(start, np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32))
    codes = order.astype(np.uint32)
    in_threads(lambda r, _: _put(batches[r], codes, free[r], *edges[1:]),
               [(r, r + 1) for r in range(len(batches))])
    return edges


def offsets(numbers: npt.NDArray[np.number]) -> Ints:
    """Where each part begins when parts of these lengths stand one after another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)


# The compiled loops.

u64 = np.uint64
ONE, TAIL, TOP = u64(1), u64(62), u64(63)
COLUMN, BITS = u64(2**24 - 1), u64(24)  # a column needs 24 bits of a mark, the place where a row begins the 38 above
ROW, FAR, NONE = u64(2**62), u64(2**63), u64(2**64 - 1)


def compiled(loop: Callable[..., Any], fastmath: bool = False) -> Callable[..., Any]:
    """Compile on first use; keep the result on disk for the next process where a folder can be written.

    With `fastmath` sums are added in any order.
    """
    try:
        return numba.njit(loop, cache=True, nogil=True, fastmath=fastmath)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the home can be written
        return numba.njit(loop, nogil=True, fastmath=fastmath)  # type: ignore[no-any-return]


@compiled
def _by_tag(start: Ints, tag: Ints, rank: Codes, first: Ints, begin: Codes, end: Codes, later: Codes) -> bool:
    """Fill an `Incidence` from items with the tags `tag[start[i]:start[i + 1]]`; False where a pair comes twice.

    Two counting sorts: items by tag, and from there tags by item, which leaves the tags of every item in order.
    """
    for p in range(len(tag)):
        first[u64(rank[u64(tag[p])]) + ONE] += 1
    for t in range(len(first) - 1):
        first[t + 1] += first[t]
    free = first[:-1].copy()
    for i in range(len(start) - 1):
        for p in range(u64(start[i]), u64(start[i + 1])):
            holder = u64(rank[u64(tag[p])])
            end[free[holder]] = i
            free[holder] += 1
    free = start[:-1].copy()
    for t in range(u64(len(first) - 1)):
        for h in range(u64(first[t]), u64(first[t + ONE])):
            item = u64(end[h])
            here = u64(free[item])
            if h > u64(first[t]) and end[h - ONE] == start[item + ONE]:
                return False
            later[here] = t
            free[item] = here + ONE
            begin[h], end[h] = here + ONE, start[item + ONE]
    return True


@compiled
def _add_sizes(low: int, high: int, table: Incidence, out: Counts) -> None:
    """out[k, t] += the number of items of class k that carry tag t, for t from k on."""
    for k in range(low, high):
        row = out[k]
        row[k] += np.int32(table.first[k + 1] - table.first[k])
        for h in range(u64(table.first[k]), u64(table.first[k + 1])):
            for p in range(u64(table.begin[h]), u64(table.end[h])):
                row[table.later[p]] += np.int32(1)


@compiled
def _partners(sizes: Counts, kept: Bools, fewest: int, first: Ints, tag: Codes, row: Counts) -> None:
    """Write the partners of every class: `tag`, and `row` for the near ones, -1 for the far ones."""
    n_classes, n_tags = sizes.shape
    n_partners = 0
    for a in range(n_classes):
        context_of_later = False
        for t in range(a + 1, n_classes):
            context_of_later |= kept[t, a]
        rows = 0
        for t in range(a + 1, n_tags):
            near = kept[a, t] or (t < n_classes and kept[t, a])
            if near or (context_of_later and sizes[a, t] >= fewest):
                tag[n_partners], row[n_partners] = t, rows if near else -1
                rows += near
                n_partners += 1
        first[a + 1] = n_partners


@compiled
def _count(a: int, table: Incidence, room: Plan, n_classes: int, mark: Any, here: Any, out: Counts) -> None:
    """Add the items of class a to its counts: for every near partner that an item carries, those it meets there.

    `here` lists the partners of one item around its middle: near ones upwards, far ones downwards. The row of a near
    partner counts the near ones before it and, where it is a class, all far ones: one loop over neighbours in `here`.
    """
    low, high = u64(room.first[a]), u64(room.first[a + 1])
    wide = high - low
    for c in range(wide):
        t, row = u64(room.tag[low + c]), room.row[low + c]
        mark[t] = (u64(row) * wide << BITS) | c | (ROW if t < u64(n_classes) else u64(0)) if row >= 0 else FAR | c
    middle = u64(len(here)) >> ONE
    for h in range(u64(table.first[a]), u64(table.first[a + 1])):
        up, down = middle, middle - ONE
        for p in range(u64(table.begin[h]), u64(table.end[h])):
            entry = mark[table.later[p]]
            here[up] = entry
            up += (entry >> TOP) ^ ONE
            here[down] = entry
            down -= u64(entry >> TAIL == u64(2))
        far = middle - ONE - down
        for j in range(middle, up):
            line = (here[j] & ~ROW) >> BITS
            for i in range(middle - far * (here[j] >> TAIL), j):
                out[line + (here[i] & COLUMN)] += np.int32(1)
    for c in range(wide):
        mark[room.tag[low + c]] = NONE


@compiled
def _add_meetings(low: int, high: int, table: Incidence, room: Plan, out: Counts) -> None:
    """Add the items of the classes to their counts; `out` begins with those of class `low`."""
    n_classes, n_tags = room.held.shape
    mark, here = np.full(n_tags, NONE), np.empty(2 * table.widest + 4, np.uint64)
    for a in range(low, high):
        _count(a, table, room, n_classes, mark, here, out[room.block[a] - room.block[low]:])


@compiled
def _edges(a: int, room: Plan, threshold: float, counts: Counts, runs: Runs, n_runs: u64, n_edges: u64) -> Any:
    """Write the edges of which class a is the first tag, as a run per class and end; give the new numbers of both."""
    n_classes = len(room.held)
    low = u64(room.first[a])
    wide, n = u64(room.first[a + 1]) - low, u64(0)
    near, column, held = np.empty(wide, np.uint32), np.empty(wide, np.uint32), np.empty(wide, np.int32)
    for c in range(wide):
        if room.row[low + c] >= 0:
            near[n], column[n], held[n] = room.tag[low + c], c, room.held[a, room.tag[low + c]]
            n += ONE
    for j in range(n):
        for i in range(j):
            counts[i * wide + u64(column[j])] = counts[j * wide + u64(column[i])]
    enough = np.empty(wide + ONE, np.uint32)
    for j in range(n):  # the partner is the class: a and another partner are its contexts
        cls = u64(near[j])
        size = room.held[cls, a] if cls < u64(n_classes) else np.int32(0)
        if size > 0:
            line, n_enough, before = j * wide, u64(0), n_edges
            for c in range(wide):
                enough[n_enough] = c
                n_enough += u64(counts[line + c] >= room.fewest)
            for i in range(n_enough):
                spot = u64(enough[i])
                t = room.tag[low + spot]
                least = min(room.held[cls, t], size)
                weight = counts[line + spot] / max(least, np.int32(1))
                runs.other[n_edges], runs.weight[n_edges] = t, weight
                n_edges += u64((least > 0) & (weight >= threshold))
            runs.cls[n_runs], runs.one[n_runs], runs.length[n_runs] = cls, a, n_edges - before
            n_runs += u64(n_edges > before)
    for j in range(n):  # a is the class: two of its partners are its contexts
        if held[j] > 0:
            line, before = j * wide, n_edges
            for i in range(j + ONE, n):
                meet, least = counts[line + u64(column[i])], min(held[i], held[j])
                weight = meet / max(least, np.int32(1))
                runs.other[n_edges], runs.weight[n_edges] = near[i], weight
                n_edges += u64((meet > 0) & (least > 0) & (weight >= threshold))
            runs.cls[n_runs], runs.one[n_runs], runs.length[n_runs] = a, near[j], n_edges - before
            n_runs += u64(n_edges > before)
    return n_runs, n_edges


@compiled
def _edges_of(low: int, high: int, room: Plan, threshold: float, counts: Counts, runs: Runs) -> Any:
    """The edges of the classes from their counts, which begin with those of class `low`."""
    n_runs, n_edges = u64(0), u64(0)
    for a in range(low, high):
        matrix = counts[room.block[a] - room.block[low]:room.block[a + 1] - room.block[low]]
        n_runs, n_edges = _edges(a, room, threshold, matrix, runs, n_runs, n_edges)
    return n_runs, n_edges


@compiled
def _put(runs: Runs, order: Codes, free: Ints, one: Codes, other: Codes, weight: Any) -> None:
    """Write runs one after another into the columns of edges; `free[k]` is the next free row of class k."""
    e = u64(0)
    for r in range(len(runs.cls)):
        begin, n, end = u64(free[runs.cls[r]]), u64(runs.length[r]), order[runs.one[r]]
        for i in range(n):
            one[begin + i] = end
            other[begin + i] = order[runs.other[e + i]]
            weight[begin + i] = runs.weight[e + i]
        free[runs.cls[r]] += runs.length[r]
        e += n
