"""The counting loops, compiled. Imported only where they run, because numba is slow to import.

Each loop does the classes low..high - 1 and writes where no other range of classes writes, so ranges can be shared out
to threads. Two habits make the loops fast: indices are unsigned, because numba checks signed ones for Python's counting
from the end; and what may or may not be wanted is written without a branch and overwritten by the next, because a
processor cannot guess which tags meet.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from shiftbench.core.arrays import Bools, Ints
from shiftbench.metagraph.catalogue import Codes, Counts, Incidence, Plan, Runs

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
def by_tag(start: Ints, tag: Ints, rank: Codes, first: Ints, begin: Codes, end: Codes, later: Codes) -> bool:
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
def add_sizes(low: int, high: int, table: Incidence, out: Counts) -> None:
    """out[k, t] += the number of items of class k that carry tag t, for t from k on."""
    for k in range(low, high):
        row = out[k]
        row[k] += np.int32(table.first[k + 1] - table.first[k])
        for h in range(u64(table.first[k]), u64(table.first[k + 1])):
            for p in range(u64(table.begin[h]), u64(table.end[h])):
                row[table.later[p]] += np.int32(1)


@compiled
def partners(sizes: Counts, kept: Bools, fewest: int, first: Ints, tag: Codes, row: Counts) -> None:
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
def add_meetings(low: int, high: int, table: Incidence, room: Plan, out: Counts) -> None:
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
def edges_of(low: int, high: int, room: Plan, threshold: float, counts: Counts, runs: Runs) -> Any:
    """The edges of the classes from their counts, which begin with those of class `low`."""
    n_runs, n_edges = u64(0), u64(0)
    for a in range(low, high):
        matrix = counts[room.block[a] - room.block[low]:room.block[a + 1] - room.block[low]]
        n_runs, n_edges = _edges(a, room, threshold, matrix, runs, n_runs, n_edges)
    return n_runs, n_edges


@compiled
def put(runs: Runs, order: Codes, free: Ints, one: Codes, other: Codes, weight: Any) -> None:
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
