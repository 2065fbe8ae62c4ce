"""All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

MetaShift keeps subsets of at least 25 items and classes of more than 5 subsets; on Visual Genome that made 12,868
subsets of 410 classes. `stream` counts a collection on disk with the same functions, chunk by chunk. One class alone
is counted in `graph`, which needs no compiled loops and so no import of numba.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection, Tags
from shiftbench.metagraph.subsets import SUBJECT, Vocabulary, allowed_contexts, vocabulary

Codes = npt.NDArray[np.unsignedinteger]
Counts = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float32]
T = TypeVar("T")

RANGES, LEAST = 16, 2**12  # classes are cut into so many ranges for threads to share, of at least so many holders each
CELLS = 2**18  # counts of a range of classes in which a thread looks for edges: they stay in the processor's cache


@dataclass(frozen=True)
class Terms:
    """When a tag is a class, when it makes a subset of one, and when two subsets are joined by an edge.

    A class is a tag of kind `class_kind` ('': objects and subjects) with more than `more_than` subsets; a
    subset has at least `min_size` items and a context of one of `kinds`, () meaning all; an edge is an overlap of at
    least `threshold`.
    """

    class_kind: str = ""
    kinds: tuple[str, ...] = ()
    min_size: int = 25
    more_than: int = 5
    threshold: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ShiftBenchError(f"The threshold of a meta-graph is an overlap between 0 and 1, not {self.threshold}.")


class Edges(NamedTuple):
    """The edges of many meta-graphs: class k has those from `start[k]` to `start[k + 1]`.

    An edge lies between the contexts `one` and `other` and has a weight, its overlap; `one` is before `other` in the
    order of counting, and so are edges by `one`, then by `other`.
    """

    start: Ints
    one: Codes
    other: Codes
    weight: Shares


class Catalogue(NamedTuple):
    """The meta-graphs of many classes as columns.

    Class k is `classes[k]` with `items[k]` items. Its subsets stand at `first[k]:first[k + 1]` of `context` (the tag)
    and `sizes` (the number of items), its edges at `edges.start[k]:edges.start[k + 1]`.
    """

    classes: tuple[str, ...]
    items: Ints
    first: Ints
    context: Ints
    sizes: Ints
    edges: Edges


def catalogue(collection: Collection, terms: Terms | None = None) -> Catalogue:
    """The meta-graph of every class of a collection in memory."""
    terms, tags = terms or Terms(), collection.tags
    classes = may_be_classes(tags, terms)
    order = counting_order(classes, len(tags.names), np.bincount(tags.tag, minlength=len(tags.names)))
    table = incidence(runs_of(tags.item), tags.tag, order)
    sizes: Counts = np.zeros((len(classes), len(order)), np.int32)
    add_sizes(table, sizes)
    return assembled(collection.name, tags, terms, order, mirrored(sizes),
                     lambda room: edges(table, room, terms.threshold))


def may_be_classes(tags: Tags, terms: Terms) -> Ints:
    """The tags of the asked kind, without attributes of classes."""
    if terms.class_kind and terms.class_kind not in tags.kinds:
        raise unknown("kind", terms.class_kind, set(tags.kinds), where="Classes")
    kinds = (terms.class_kind,) if terms.class_kind else ("object", SUBJECT)
    owner = vocabulary(tags).owner
    return np.asarray([code for code, kind in enumerate(tags.kinds) if kind in kinds and not owner[code]],
                      np.int64)


def assembled(
    name: str, tags: Tags, terms: Terms, order: Ints, sizes: Counts, count: "Callable[[Plan], list[Runs]]"
) -> Catalogue:
    """Choose classes and subsets by their sizes, `count` the edges of that plan, and put both into one catalogue.

    Here tags get their codes again; classes and contexts stand in the order of the codes.
    """
    words = vocabulary(tags)
    kept = kept_contexts(tags, words, order, sizes, terms)
    enough = kept.sum(axis=1) > terms.more_than
    if not enough.any():
        raise _no_class(name, tags, terms)
    kept &= enough[:, None]
    ranks = np.flatnonzero(enough)
    ranks = ranks[np.argsort(order[ranks])]
    codes, room = order[ranks], plan(sizes, kept, terms.threshold)
    held = np.empty((len(codes), len(order)), np.int32)
    held[:, order] = room.held[ranks]
    names = tuple(tags.names[code] if words.answers[tags.names[code]] == 1 else f"{tags.kinds[code]}:{tags.names[code]}"
                  for code in codes.tolist())
    return Catalogue(names, sizes[ranks, ranks].astype(np.int64), offsets(np.count_nonzero(held, axis=1)),
                     np.nonzero(held)[1], held[held > 0].astype(np.int64), joined(count(room), order, codes))


def kept_contexts(tags: Tags, words: Vocabulary, order: Ints, sizes: Counts, terms: Terms) -> Bools:
    """Which tag is a context of which class: large enough with it, not the class itself, no other class's attribute."""
    plain, of_class = allowed_contexts(tags, words, terms.kinds)
    rank: Ints = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    kept = sizes >= max(terms.min_size, 1)
    large = kept.copy() if words.owned else kept
    kept &= plain[order]
    for row, code in enumerate(order[:len(sizes)].tolist()):
        owned = words.owned.get(tags.names[code], [])
        kept[row, rank[owned]] = large[row, rank[owned]] & of_class[owned]
        kept[row, row] = False
    return kept


def _no_class(name: str, tags: Tags, terms: Terms) -> ShiftBenchError:
    if not tags.names:
        return ShiftBenchError(f"Collection '{name}' has no tags, and a meta-graph is made of tags. Read it from "
                               "annotations of what is in each image: coco, gqa or metashift.")
    of_kind = f" of kind '{terms.class_kind}'" if terms.class_kind else ""
    others = sorted(set(tags.kinds) - {terms.class_kind})
    also = f", or name another kind of class: {', '.join(others)}" if others else ""
    return ShiftBenchError(f"No tag{of_kind} in '{name}' has more than {terms.more_than} contexts with at least "
                           f"{terms.min_size} items each. Lower min_size{also}.")


def summary(graphs: Catalogue, tags: Tags) -> dict[str, Any]:
    """The paper's summary of a collection of subsets (section 3, statistics)."""
    words = vocabulary(tags)
    contexts = {(tags.kinds[code], words.word[code]) for code in np.unique(graphs.context).tolist()}
    return {
        "classes": len(graphs.classes),
        "subsets": len(graphs.sizes),
        "contexts": len(contexts),
        "mean_size": float(np.mean(graphs.sizes)),
        "median_size": float(np.median(graphs.sizes)),
        "edges": len(graphs.edges.weight),
    }


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
    from shiftbench.metagraph import kernels

    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order))
    table = Incidence(
        first=np.zeros(len(order) + 1, np.int64),
        begin=np.empty(len(tag), np.uint32),
        end=np.empty(len(tag), np.uint32),
        later=np.empty(len(tag), np.uint16 if len(order) <= 2**16 else np.uint32),  # half the memory to go through
        widest=int(np.diff(start).max(initial=0)),
    )
    if not kernels.by_tag(start, tag, rank, table.first, table.begin, table.end, table.later):
        raise ShiftBenchError("An item carries the same tag twice. List each pair of item and tag once.")
    return table


def runs_of(item: npt.NDArray[np.integer]) -> Ints:
    """Where the rows of each item begin in a column sorted by item, and where the last ones end."""
    changes = np.flatnonzero(item[1:] != item[:-1]) + 1
    return np.concatenate([[0], changes, [len(item)] if len(item) else []]).astype(np.int64)


def add_sizes(table: Incidence, out: Counts, threads: int | None = None) -> None:
    """out[k, t] += |class k ∩ tag t| over the items of this chunk, for t from k on; `mirrored` completes it."""
    from shiftbench.metagraph import kernels

    in_threads(lambda low, high: kernels.add_sizes(low, high, table, out), shares(table.first[:len(out) + 1]), threads)


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


def plan(sizes: Counts, kept: Bools, threshold: float) -> Plan:
    """Room for the counts of every class; `kept[k, t]` says that tag t is a context of class k."""
    from shiftbench.metagraph import kernels

    held = np.where(kept, sizes, np.int32(0))
    fewest = _fewest(int(held[kept].min(initial=np.iinfo(np.int32).max)), threshold) if kept.any() else 1
    most = int(np.count_nonzero(sizes >= fewest)) + len(sizes)
    first, tag, row = np.zeros(len(sizes) + 1, np.int64), np.empty(most, np.uint32), np.empty(most, np.int32)
    kernels.partners(sizes, kept, fewest, first, tag, row)
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
    """The edges of every class in one go: each range of classes is counted and compared while its counts are at hand.
    """
    from shiftbench.metagraph import kernels

    def task(low: int, high: int) -> Runs:
        counts: Counts = np.zeros(room.block[high] - room.block[low], np.int32)
        kernels.add_meetings(low, high, table, room, counts)
        return _edges_between(low, high, room, counts, threshold)

    return in_threads(task, shares(room.block, CELLS))


def add_meetings(
    table: Incidence, room: Plan, out: Counts, low: int, high: int, threads: int | None = None,
) -> None:
    """Add the items of this chunk to `out`, the counts of the classes low..high - 1."""
    from shiftbench.metagraph import kernels

    base = room.block[low]
    in_threads(lambda begin, end: kernels.add_meetings(
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
    from shiftbench.metagraph import kernels

    rows = 2 * np.count_nonzero(room.row[room.first[low]:room.first[high]] >= 0) + 1
    most = 3 * len(counts) // 2 + 1
    runs = Runs(np.empty(rows, np.uint32), np.empty(rows, np.uint32), np.empty(rows, np.int64),
                np.empty(most, np.uint32), np.empty(most, np.float32))
    n_runs, n_edges = kernels.edges_of(low, high, room, threshold, counts, runs)
    return Runs(runs.cls[:n_runs].copy(), runs.one[:n_runs].copy(), runs.length[:n_runs].copy(),
                runs.other[:n_edges].copy(), runs.weight[:n_edges].copy())


def joined(batches: Sequence[Runs], order: Ints, classes: Ints) -> Edges:
    """The edges of the classes with these tags, one after another; tags go by their codes from here on."""
    from shiftbench.metagraph import kernels

    rank: Ints = np.zeros(len(order), np.int64)
    rank[order] = np.arange(len(order))
    number = np.asarray([np.bincount(runs.cls, runs.length, len(order)) for runs in batches]).reshape(-1, len(order))
    start = offsets(number.sum(axis=0)[rank[classes]])
    free = np.zeros(number.shape, np.int64)
    free[:, rank[classes]] = start[:-1] + (np.cumsum(number, axis=0) - number)[:, rank[classes]].astype(np.int64)
    n = int(start[-1])
    edges = Edges(start, np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32))
    codes = order.astype(np.uint32)
    in_threads(lambda r, _: kernels.put(batches[r], codes, free[r], *edges[1:]),
               [(r, r + 1) for r in range(len(batches))])
    return edges


def offsets(numbers: npt.NDArray[np.number]) -> Ints:
    """Where each part begins when parts of these lengths stand one after another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)
