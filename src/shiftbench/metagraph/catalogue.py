"""All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

MetaShift keeps subsets of at least 25 items and classes of more than 5 subsets; on Visual Genome that made 12,868
subsets of 410 classes.
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
from shiftbench.data.collection import Collection
from shiftbench.data.tags import Tags
from shiftbench.metagraph.subsets import SUBJECT, Vocabulary, allowed_contexts, vocabulary

# How much subsets overlap, for all classes at once: `plan`, then `edges`. One class is counted in `graph.py`.

# Who carries what, in the order of counting, and how many items carry two tags.
#
# Tags are counted in an order of their own: those that may be classes first, from the rarest to the commonest, then
# the others. In a table, in `sizes` and in a plan a tag goes by its place in that order, so class k is tag k.

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


Shares = npt.NDArray[np.float32]

CELLS = 2**18  # counts between which a thread looks for edges before it takes the next classes


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


class Edges(NamedTuple):
    """The edges of many meta-graphs: class k has those from `start[k]` to `start[k + 1]`.

    An edge lies between the contexts `one` and `other` and has a weight, its overlap; `one` is before `other` in the
    order of counting, and so are edges by `one`, then by `other`.
    """

    start: Ints
    one: Codes
    other: Codes
    weight: Shares


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


def add_meetings(
    table: Incidence, room: Plan, out: Counts, low: int = 0, high: int | None = None, threads: int | None = None,
) -> None:
    """Add the items of this chunk to `out`, the counts of the classes low..high - 1."""
    from shiftbench.metagraph import kernels

    def task(begin: int, end: int) -> None:
        here = slice(room.block[low + begin] - room.block[low], room.block[low + end] - room.block[low])
        kernels.add_meetings(low + begin, low + end, table, room, out[here])

    in_threads(task, shares(table.first[low:(len(room.held) if high is None else high) + 1]), threads)


def edges_of(room: Plan, counts: Counts, threshold: float, low: int = 0, high: int | None = None) -> list[Runs]:
    """The edges found in the counts of the classes low..high - 1: pairs that meet, with an overlap of the threshold."""
    from shiftbench.metagraph import kernels

    def task(begin: int, end: int) -> Runs:
        runs = _runs(room, low + begin, low + end)
        here = slice(room.block[low + begin] - room.block[low], room.block[low + end] - room.block[low])
        return _trimmed(runs, *kernels.edges_of(low + begin, low + end, room, threshold, counts[here], runs))

    return in_threads(task, shares(room.block[low:(len(room.held) if high is None else high) + 1], CELLS))


def edges(table: Incidence, room: Plan, threshold: float) -> list[Runs]:
    """The edges of every class in one go: each class is counted and compared while its counts are at hand."""
    from shiftbench.metagraph import kernels

    def task(low: int, high: int) -> Runs:
        runs, scratch = _runs(room, low, high), np.empty(np.diff(room.block[low:high + 1]).max(), np.int32)
        return _trimmed(runs, *kernels.edges(low, high, table, room, threshold, scratch, runs))

    return in_threads(task, shares(room.block, CELLS))


def joined(parts: Sequence[Runs], order: Ints, classes: Ints) -> Edges:
    """The edges of the classes with these tags, one after another; tags go by their codes from here on."""
    from shiftbench.metagraph import kernels

    rank: Ints = np.zeros(len(order), np.int64)
    rank[order] = np.arange(len(order))
    number = np.asarray([np.bincount(part.cls, part.length, len(order)) for part in parts]).reshape(-1, len(order))
    start = offsets(number.sum(axis=0)[rank[classes]])
    free = np.zeros(number.shape, np.int64)
    free[:, rank[classes]] = start[:-1] + (np.cumsum(number, axis=0) - number)[:, rank[classes]].astype(np.int64)
    n = int(start[-1])
    edges = Edges(start, np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32))
    codes = order.astype(np.uint32)
    in_threads(lambda p, _: kernels.put(parts[p], codes, free[p], *edges[1:]), [(p, p + 1) for p in range(len(parts))])
    return edges


def offsets(numbers: npt.NDArray[np.number]) -> Ints:
    """Where each part begins when parts of these lengths stand one after another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)


def _fewest(size: int, threshold: float) -> int:
    """The fewest meetings with which a subset of this size can reach the threshold."""
    fewest = max(int(threshold * size) - 1, 1)
    while fewest < size and fewest / size < threshold:
        fewest += 1
    return fewest


def _runs(room: Plan, low: int, high: int) -> Runs:
    """Room for all edges that classes low..high - 1 could have: two per pair of near partners and one per far one."""
    rows = 2 * np.count_nonzero(room.row[room.first[low]:room.first[high]] >= 0) + 1
    most = 3 * int(room.block[high] - room.block[low]) // 2 + 1
    return Runs(np.empty(rows, np.uint32), np.empty(rows, np.uint32), np.empty(rows, np.int64),
                np.empty(most, np.uint32), np.empty(most, np.float32))


def _trimmed(runs: Runs, n_runs: int, n_edges: int) -> Runs:
    """The part that was written, so that the rest of the room can be given back."""
    return Runs(runs.cls[:n_runs].copy(), runs.one[:n_runs].copy(), runs.length[:n_runs].copy(),
                runs.other[:n_edges].copy(), runs.weight[:n_edges].copy())


# All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

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


class Draft(NamedTuple):
    """A catalogue before its edges are known: the order and the plan of counting, and which classes will be in it."""

    order: Ints
    room: Plan
    classes: Ints
    items: Ints


def catalogue(collection: Collection, terms: Terms | None = None) -> Catalogue:
    """The meta-graph of every class of a collection in memory; `stream.py` does the same from disk."""
    terms, tags = terms or Terms(), collection.tags
    classes = may_be_classes(tags, terms)
    order = counting_order(classes, len(tags.names), np.bincount(tags.tag, minlength=len(tags.names)))
    table = incidence(runs_of(tags.item), tags.tag, order)
    sizes: Counts = np.zeros((len(classes), len(order)), np.int32)
    add_sizes(table, sizes)
    outline = draft(collection.name, tags, terms, order, mirrored(sizes))
    return finished(tags, terms, outline, edges(table, outline.room, terms.threshold))


def may_be_classes(tags: Tags, terms: Terms) -> Ints:
    """The tags of the asked kind, without attributes of classes."""
    if terms.class_kind and terms.class_kind not in tags.kinds:
        raise unknown("kind", terms.class_kind, set(tags.kinds), where="Classes")
    kinds = (terms.class_kind,) if terms.class_kind else ("object", SUBJECT)
    owner = vocabulary(tags).owner
    return np.asarray([code for code, kind in enumerate(tags.kinds) if kind in kinds and not owner[code]],
                      np.int64)


def draft(name: str, tags: Tags, terms: Terms, order: Ints, sizes: Counts) -> Draft:
    """Choose classes and subsets by their sizes and plan the counting of overlaps."""
    classes = order[:len(sizes)]
    kept = kept_contexts(tags, vocabulary(tags), order, sizes, terms)
    enough = kept.sum(axis=1) > terms.more_than
    if not enough.any():
        of_kind = f" of kind '{terms.class_kind}'" if terms.class_kind else ""
        if not tags.names:
            raise ShiftBenchError(f"Collection '{name}' has no tags, and a meta-graph is made of tags. Read it from "
                                  "annotations of what is in each image: coco, gqa or metashift.")
        others = sorted(set(tags.kinds) - {terms.class_kind})
        also = f", or name another kind of class: {', '.join(others)}" if others else ""
        raise ShiftBenchError(f"No tag{of_kind} in '{name}' has more than {terms.more_than} contexts with at least "
                              f"{terms.min_size} items each. Lower min_size{also}.")
    kept &= enough[:, None]
    rows = np.flatnonzero(enough)[np.argsort(classes[enough])]
    return Draft(order, plan(sizes, kept, terms.threshold), rows, sizes[rows, rows].astype(np.int64))


def finished(tags: Tags, terms: Terms, draft: Draft, runs: Sequence[Runs]) -> Catalogue:
    """The catalogue: tags by their codes, classes and contexts in the order of the codes."""
    codes, words = draft.order[draft.classes], vocabulary(tags)
    held = np.empty((len(codes), len(draft.order)), np.int32)
    held[:, draft.order] = draft.room.held[draft.classes]
    names = tuple(tags.names[code] if words.answers[tags.names[code]] == 1 else f"{tags.kinds[code]}:{tags.names[code]}"
                  for code in codes.tolist())
    return Catalogue(names, draft.items, offsets(np.count_nonzero(held, axis=1)), np.nonzero(held)[1],
                     held[held > 0].astype(np.int64), joined(runs, draft.order, codes))


def kept_contexts(tags: Tags, words: Vocabulary, order: Ints, sizes: Counts, terms: Terms) -> Bools:
    """Which tag is a context of which class: large enough with it, not the class itself, no other class's attribute."""
    plain, of_class = allowed_contexts(tags, words, terms.kinds)
    rank: Ints = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    kept = sizes >= max(terms.min_size, 1)
    large = kept.copy() if words.owned else kept
    kept &= plain[order]
    for row, code in enumerate(order[:len(sizes)].tolist()):
        own = words.owned.get(tags.names[code], [])
        kept[row, rank[own]] = large[row, rank[own]] & of_class[own]
        kept[row, row] = False
    return kept


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
