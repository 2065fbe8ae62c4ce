"""The catalogue of a collection on disk, however large: its tags are read in batches and never held as a whole.

Two passes over `tags.parquet`: one for the sizes of all subsets, one for their meetings. Where the counts of all
classes need more than `cells`, the classes are done in ranges, with a pass each. So what is in memory depends on the
number of tags and not on that of items. The result is that of `catalogue`, bit for bit.
"""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import read_marker
from shiftbench.core.ray_cluster import ray_cluster
from shiftbench.core.tables import FAULTS
from shiftbench.data.collection import FORMAT, MARKER, Collection, Tags, names_and_kinds
from shiftbench.metagraph.catalogue import (
    Catalogue,
    Counts,
    Incidence,
    Plan,
    Runs,
    Terms,
    add_meetings,
    add_sizes,
    assembled,
    catalogue,
    counting_order,
    edges_of,
    incidence,
    may_be_classes,
    mirrored,
    runs_of,
    shares,
    summary,
)

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
    classes, n_tags = may_be_classes(tags, terms), len(tags.names)
    by_code = counting_order(classes, n_tags, np.zeros(n_tags, np.int64))
    sizes = mirrored(total(sizes_in, by_code, len(classes)))
    frequency: Ints = np.zeros(n_tags, np.int64)
    frequency[classes] = np.diag(sizes)
    order = counting_order(classes, n_tags, frequency)
    rank = np.argsort(by_code)[order]

    def edges(room: Plan) -> list[Runs]:
        runs: list[Runs] = []
        for low, high in shares(room.block, cells):
            runs += edges_of(room, total(meetings_in, order, room, low, high), terms.threshold, low, high)
        return runs

    return assembled(name, tags, terms, order, sizes[np.ix_(rank[:len(classes)], rank)], edges)


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
