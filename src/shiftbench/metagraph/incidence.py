"""Who carries what, in the order of counting, and how many items carry two tags.

Tags are counted in an order of their own: those that may be classes first, from the rarest to the commonest, then the
others. In a table, in `sizes` and in a plan a tag goes by its place in that order, so class k is tag k.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Ints
from shiftbench.errors import ShiftBenchError

Codes = npt.NDArray[np.unsignedinteger]
Counts = npt.NDArray[np.int32]
T = TypeVar("T")

RANGES, LEAST = 16, 2**12  # classes are cut into so many parts for threads to share, with at least so many holders each


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
    """Of items that carry the tags `tag[start[i]:start[i + 1]]`, in any order, each once."""
    from shiftbench.metagraph import kernels

    place = np.empty(len(order), np.uint32)
    place[order] = np.arange(len(order))
    table = Incidence(
        first=np.zeros(len(order) + 1, np.int64),
        begin=np.empty(len(tag), np.uint32),
        end=np.empty(len(tag), np.uint32),
        later=np.empty(len(tag), np.uint16 if len(order) <= 2**16 else np.uint32),  # half the memory to go through
        widest=int(np.diff(start).max(initial=0)),
    )
    if not kernels.by_tag(start, tag, place, table.first, table.begin, table.end, table.later):
        raise ShiftBenchError("An item carries the same tag twice. List each pair of item and tag once.")
    return table


def runs_of(item: npt.NDArray[np.integer]) -> Ints:
    """Where the rows of each item begin in a column sorted by item, and where the last ones end."""
    changes = np.flatnonzero(item[1:] != item[:-1]) + 1
    return np.concatenate([[0], changes, [len(item)] if len(item) else []]).astype(np.int64)


def add_sizes(table: Incidence, out: Counts, threads: int | None = None) -> None:
    """out[k, t] += |class k ∩ tag t| over the items of this chunk, for t from k on; `mirrored` completes it."""
    from shiftbench.metagraph import kernels

    def task(low: int, high: int) -> None:
        kernels.add_sizes(low, high, table, out)

    in_threads(task, shares(table.first[:len(out) + 1]), threads)


def mirrored(sizes: Counts) -> Counts:
    """The same array when every chunk is in, with |class k ∩ class t| filled in for t < k."""
    from shiftbench.metagraph import kernels

    kernels.mirror(sizes)
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
