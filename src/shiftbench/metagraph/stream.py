"""The catalogue of a collection on disk, however large: its tags are read in batches and never held as a whole.

Two passes over `tags.parquet`: one for the sizes of all subsets, one for their meetings. Where the counts of all
classes need more than `cells`, the classes are done in ranges, with a pass each. So what is in memory depends on the
number of tags and not on that of items. The result is that of `catalogue`, bit for bit.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from shiftbench.arrays import Ints
from shiftbench.collection import FORMAT, MARKER, Tags, names_and_kinds
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.files import read_marker
from shiftbench.metagraph.batches import ROWS, Piece, Source, batches
from shiftbench.metagraph.catalogue import Catalogue, Terms, draft, finished, may_be_classes
from shiftbench.metagraph.incidence import Counts, Incidence, add_sizes, counting_order, incidence, mirrored, shares
from shiftbench.metagraph.overlaps import Plan, Runs, add_meetings, edges_of

ENGINES = ("local", "ray")
CELLS = 2**26  # counts held at a time: 256 MB


Total = Callable[..., Counts]  # total(count, …) is the sum of count(source, piece, …) over all pieces of the source


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
    from shiftbench.metagraph.cluster import on_ray

    with on_ray(source) as total:
        return _catalogue(name, tags, terms or Terms(), cells, total)


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
    place = np.argsort(by_code)[order]
    made = draft(name, tags, terms, order, sizes[np.ix_(place[:len(classes)], place)])
    found: list[Runs] = []
    for low, high in shares(made.room.block, cells):
        counts = total(meetings_in, order, made.room, low, high)
        found += edges_of(made.room, counts, terms.threshold, low, high)
    return finished(tags, terms, made, found)


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
