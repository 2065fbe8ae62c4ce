"""All classes of a collection at once: every candidate subset and every edge, in one pass over the items.

MetaShift keeps subsets of at least 25 items and classes of more than 5 subsets; on Visual Genome that made 12,868
subsets of 410 classes. One class alone is counted in `graph`, which needs no compiled loops and so no import of numba.

A collection on disk, however large, is streamed: two passes over `tags.parquet`, one for the sizes of all subsets, one
for their meetings. Where the counts of all classes need more than `cells`, the classes are done in ranges, with a pass
each. So what is in memory depends on the number of tags and not on that of items. The result is the same, bit for bit.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import read_marker
from shiftbench.core.ray_cluster import ray_cluster
from shiftbench.core.tables import FAULTS
from shiftbench.data.collection import FORMAT, MARKER, Collection, Tags, names_and_kinds
from shiftbench.metagraph.counting import (
    Counts,
    Edges,
    Incidence,
    Plan,
    Runs,
    add_meetings,
    add_sizes,
    counting_order,
    edges,
    edges_of,
    incidence,
    joined,
    mirrored,
    offsets,
    plan,
    runs_of,
    shares,
)
from shiftbench.metagraph.subsets import SUBJECT, Vocabulary, allowed_contexts, vocabulary


@dataclass(frozen=True)
class Terms:
    """When a tag is a class, when it makes a subset of one, and when two subsets are joined by an edge.

    A class is an object or a subject with more than `more_than` subsets; a subset has at least `min_size` items and a
    context of one of `kinds`, () meaning all; an edge is an overlap of at least `threshold`.
    """

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


def catalogue(collection: Collection, terms: Terms | None = None) -> Catalogue:
    """The meta-graph of every class of a collection in memory."""
    terms, tags = terms or Terms(), collection.tags
    classes = may_be_classes(tags)
    order = counting_order(classes, len(tags.names), np.bincount(tags.tag, minlength=len(tags.names)))
    table = incidence(runs_of(tags.item), tags.tag, order)
    sizes: Counts = np.zeros((len(classes), len(order)), np.int32)
    add_sizes(table, sizes)
    return assembled(collection.name, tags, terms, order, mirrored(sizes),
                     lambda room: edges(table, room, terms.threshold))


def may_be_classes(tags: Tags) -> Ints:
    """Objects and subjects, without attributes of classes."""
    owner = vocabulary(tags).owner
    return np.asarray([code for code, kind in enumerate(tags.kinds) if kind in ("object", SUBJECT) and not owner[code]],
                      np.int64)


def assembled(
    name: str, tags: Tags, terms: Terms, order: Ints, sizes: Counts, count: Callable[[Plan], list[Runs]]
) -> Catalogue:
    """Choose classes and subsets by their sizes, `count` the edges of that plan, and put both into one catalogue.

    Here tags get their codes again; classes and contexts stand in the order of the codes.
    """
    words = vocabulary(tags)
    kept = kept_contexts(tags, words, order, sizes, terms)
    enough = kept.sum(axis=1) > terms.more_than
    if not enough.any():
        raise ShiftBenchError(
            f"No tag in '{name}' has more than {terms.more_than} contexts with at least {terms.min_size} items each. "
            "Lower min_size." if tags.names else
            f"Collection '{name}' has no tags, and a meta-graph is made of tags. Read it from annotations of what is "
            "in each image: coco, gqa or metashift.")
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


# A collection on disk: its tags are read in batches and never held as a whole.

ENGINES = ("local", "ray")
ROWS = 2**20  # rows of a batch
CELLS = 2**26  # counts held at a time: 256 MB
Total = Callable[..., Counts]  # total(count, …) is the sum of count(source, piece, …) over all pieces of the source


class Source(NamedTuple):
    """A table of (item, tag) sorted by item, with tags written `kind:name` as in `vocabulary`."""

    path: str
    vocabulary: tuple[str, ...]
    rows: int = ROWS


class Piece(NamedTuple):
    """The items of a source whose first row stands in the row groups low..high - 1; None means up to the end."""

    low: int = 0
    high: int | None = None


def overview(
    collection: Collection | Path | str, terms: Terms | None = None, *, engine: str = "local",
) -> dict[str, Any]:
    """Classes, subsets, distinct contexts, mean and median size (MetaShift, section 3), and the same for each class.

    A collection on disk, given by its folder, is streamed: it may be larger than memory.
    """
    if isinstance(collection, Collection):
        if engine != "local":
            raise ShiftBenchError(f"The engine '{engine}' reads a collection from disk. Save '{collection.name}' and "
                                  "give its folder.")
        tags, graphs = collection.tags, catalogue(collection, terms)
    else:
        (_, tags), graphs = described(collection), streamed(collection, terms, engine=engine)
    per_class = []
    for k, cls in enumerate(graphs.classes):
        sizes = graphs.sizes[graphs.first[k]:graphs.first[k + 1]]
        per_class.append({
            "class": cls,
            "items": int(graphs.items[k]),
            "subsets": len(sizes),
            "mean_size": float(np.mean(sizes)),
            "median_size": float(np.median(sizes)),
            "edges": int(graphs.edges.start[k + 1] - graphs.edges.start[k]),
        })
    return {**summary(graphs, tags), "per_class": sorted(per_class, key=lambda row: (-row["subsets"], row["class"]))}


def streamed(
    folder: Path | str, terms: Terms | None = None, *, engine: str = "local", rows: int = ROWS, cells: int = CELLS,
) -> Catalogue:
    """The meta-graph of every class of a collection on disk, counted on this machine or on a Ray cluster."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    name, tags = described(folder)
    written = tuple(f"{kind}:{word}" for word, kind in zip(tags.names, tags.kinds, strict=True))
    source = Source(os.path.realpath(Path(folder) / "tags.parquet"), written, rows)
    if engine == "local":
        return _catalogue(name, tags, terms or Terms(), cells, lambda count, *facts: count(source, Piece(), *facts))
    with ray_cluster() as cluster:
        return _catalogue(name, tags, terms or Terms(), cells,
                          lambda count, *facts: _on_ray(cluster.ray, source, count, *facts))


def described(folder: Path | str) -> tuple[str, Tags]:
    """The name of a collection on disk and its tags, without who carries them."""
    facts = read_marker(Path(folder), MARKER, "collection", FORMAT, {"name": str, "tags": [[str]]})
    return facts["name"], Tags.of([], [], *names_and_kinds(Path(folder), facts))


def _catalogue(name: str, tags: Tags, terms: Terms, cells: int, total: Total) -> Catalogue:
    classes, n_tags = may_be_classes(tags), len(tags.names)
    by_code = counting_order(classes, n_tags, np.zeros(n_tags, np.int64))
    sizes = mirrored(total(sizes_in, by_code, len(classes)))
    frequency: Ints = np.zeros(n_tags, np.int64)
    frequency[classes] = np.diag(sizes)
    order = counting_order(classes, n_tags, frequency)
    rank = np.argsort(by_code)[order]

    def in_ranges(room: Plan) -> list[Runs]:
        runs: list[Runs] = []
        for low, high in shares(room.block, cells):
            runs += edges_of(room, total(meetings_in, order, room, low, high), terms.threshold, low, high)
        return runs

    return assembled(name, tags, terms, order, sizes[np.ix_(rank[:len(classes)], rank)], in_ranges)


def sizes_in(source: Source, piece: Piece, order: Ints, n_classes: int, threads: int | None = None) -> Counts:
    """|class ∩ tag| over the items of a piece, as `add_sizes` leaves it."""
    sizes: Counts = np.zeros((n_classes, len(order)), np.int32)
    for table in _tables(source, piece, order):
        add_sizes(table, sizes, threads)
    return sizes


def meetings_in(
    source: Source, piece: Piece, order: Ints, room: Plan, low: int, high: int, threads: int | None = None,
) -> Counts:
    """The counts of the classes low..high - 1 over the items of a piece."""
    counts: Counts = np.zeros(room.block[high] - room.block[low], np.int32)
    for table in _tables(source, piece, order):
        add_meetings(table, room, counts, low, high, threads)
    return counts


def _tables(source: Source, piece: Piece, order: Ints) -> Iterator[Incidence]:
    for start, tag in batches(source, piece):
        try:
            yield incidence(start, tag, order)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{source.path}: {problem}") from problem


# Pieces of a table on a Ray cluster.

def pieces(groups: int, parts: int) -> list[Piece]:
    """Row groups 0..groups - 1 in at most `parts` pieces of alike size."""
    bounds = np.linspace(0, groups, max(min(parts, groups), 1) + 1).round().astype(int).tolist()
    return [Piece(low, high) for low, high in pairwise(bounds)]


def _on_ray(ray: Any, source: Source, count: Callable[..., Counts], *facts: Any) -> Counts:
    """The sum of `count(source, piece, …)` over pieces, each piece a Ray task.

    Workers read the table themselves, so every machine of the cluster must see its folder under the same name.
    """
    task = ray.remote(num_cpus=1)(count)
    shared = [ray.put(fact) for fact in facts]  # sent once, not once per task
    workers = int(ray.cluster_resources().get("CPU", 1))
    parts = pieces(opened(source).num_row_groups, workers)
    waiting = [task.remote(source, piece, *shared, threads=1) for piece in parts]
    total: Counts | None = None
    while waiting:
        (done,), waiting = ray.wait(waiting)
        try:
            counts = ray.get(done)
        except ray.exceptions.RayTaskError as problem:
            if isinstance(problem.cause, ShiftBenchError):
                raise problem.cause from None
            raise
        total = counts.copy() if total is None else np.add(total, counts, out=total)
    assert total is not None
    return total


# Reading the table: batches of whole items, of the table or of a piece of it.

def batches(source: Source, piece: Piece) -> Iterator[tuple[Ints, Ints]]:
    """The items of a piece: number i of a batch carries the tags `tag[start[i]:start[i + 1]]`.

    A batch of rows may end inside an item, so its last item waits for the next batch. A piece leaves out the rest of
    the item with which the row group before it ends, and reads on to the end of its own last item.
    """
    table = opened(source)
    end = table.num_row_groups if piece.high is None else piece.high
    waiting, item, ours = np.zeros(0, np.int64), _last_item(table, source, piece.low), False
    for group, start, tag, (first, last) in _rows(table, source, piece.low):
        if group >= end and (first != item or not ours):
            break
        if first == item:
            rest = int(start[1])
            waiting = np.concatenate([waiting, tag[:rest]]) if ours else waiting
            if group >= end and len(start) > 2:
                break
            start, tag = start[1:] - rest, tag[rest:]
        if len(start) > 1:
            start = np.concatenate([[0] if ours else [], start + len(waiting)]).astype(np.int64)
            tag = np.concatenate([waiting, tag])
            if len(start) > 2:
                yield start[:-1], tag[:start[-2]]
            waiting, item, ours = tag[start[-2]:], last, True
    if ours:
        yield np.asarray([0, len(waiting)]), waiting


def _rows(table: Any, source: Source, group: int) -> Iterator[tuple[int, Ints, Ints, tuple[Any, Any]]]:
    """Batches of rows from a row group on: the group, where each item begins, codes of tags, first and last item."""
    words = pa.array(source.vocabulary, pa.string())
    for number in range(group, table.num_row_groups):
        for batch in _read(table, source, number):
            item, tag = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
                         for column in (batch.column("item"), batch.column("tag")))
            if item.null_count or tag.null_count:
                raise ShiftBenchError(f"{source.path}: a row has no item or no tag. Every row needs both.")
            code = pc.fill_null(pc.index_in(tag.dictionary.cast(pa.string()), value_set=words), -1).to_numpy()
            codes = code[tag.indices.to_numpy()].astype(np.int64)
            if codes.min() < 0:
                raise unknown("tag", tag[int(codes.argmin())].as_py(), source.vocabulary, where=source.path)
            which = item.indices.to_numpy()
            start = runs_of(which)
            if (np.diff(np.sort(which[start[:-1]])) == 0).any():
                raise ShiftBenchError(f"{source.path}: the rows of an item do not stand together. Sort them by item.")
            yield number, start, codes, (item[0].as_py(), item[-1].as_py())


def _read(table: Any, source: Source, group: int) -> Iterator[Any]:
    """Record batches that are not empty."""
    try:
        for batch in table.iter_batches(source.rows, row_groups=[group], columns=["item", "tag"]):
            if len(batch):
                batch.validate(full=True)  # codes without a word
                yield batch
    except (OSError, *FAULTS) as problem:
        raise _unreadable(source, problem) from problem


def opened(source: Source) -> Any:
    """The file, with its text columns read as codes: comparing numbers is several times faster than comparing texts."""
    try:
        names = pq.read_schema(source.path).names
    except (OSError, *FAULTS) as problem:
        raise _unreadable(source, problem) from problem
    for name in ("item", "tag"):
        if name not in names:
            raise ShiftBenchError(f"{source.path}: has no column '{name}'. Its columns: {', '.join(names)}.")
    try:
        return pq.ParquetFile(source.path, read_dictionary=["item", "tag"])
    except (OSError, KeyError, *FAULTS) as problem:  # the footer names its columns twice
        raise _unreadable(source, problem) from problem


def _last_item(table: Any, source: Source, group: int) -> Any:
    """The item with which the rows before a row group end; None where there are none."""
    for number in reversed(range(group)):
        ends = [batch.column("item")[-1].as_py() for batch in _read(table, source, number)]
        if ends:
            return ends[-1]
    return None


def _unreadable(source: Source, problem: Exception) -> ShiftBenchError:
    return ShiftBenchError(f"{source.path}: not a readable parquet table ({first_line(problem)}).")
