"""Predictions of very many runs on one benchmark: a file that differs from a known one in scores alone is not parsed.

Parsing a parquet file takes a third of a millisecond however small it is, and matching its items to the benchmark's
rows as long again: most of the time of scoring a hundred thousand small runs. But the runs of a study predict the same
items in the same order, and `Predictions.save` stores scores as they are: their files differ in their bytes alone.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shiftbench.core.arrays import Ints, Strs, positions
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.scoring.listing import Finished, LeftOut, contents, damaged, leaving_out, read_bytes

Table = npt.NDArray[np.float32]
NUMBER = np.dtype("<f4")
KNOWN = 8
"""Layouts kept at a time: a folder in which every file has its own order of items must not be compared all with all."""


class Order(NamedTuple):
    """Which items a file predicts and in which order: for every row of the benchmark its row in the file, or -1."""

    place: Ints
    splits: tuple[str, ...]  # those that are there; of a split all items are or none

    @staticmethod
    def of(benchmark: Benchmark, items: Strs) -> "Order":
        place = positions(benchmark.items, items)
        return Order(place, tuple(split for split in benchmark.splits if place[benchmark.rows(split)[0]] >= 0))


class Layout(NamedTuple):
    """All of a file of predictions but its scores, and where these are: `classes` columns, `width` bytes each."""

    before: bytes
    heads: bytes  # what precedes the numbers in each column: how many there are, and how they are written
    after: bytes
    width: int
    classes: int
    n: int
    order: Order

    def scores(self, content: bytes) -> Table | None:
        """Classes × items of a file, or None where the file is not of this layout."""
        start, stop = len(self.before), len(content) - len(self.after)
        if (stop - start != self.classes * self.width or not content.startswith(self.before)
                or not content.endswith(self.after)):
            return None
        columns = np.frombuffer(content, np.uint8, stop - start, start).reshape(self.classes, self.width)
        head = self.width - self.n * NUMBER.itemsize
        return columns[:, head:].view(NUMBER) if columns[:, :head].tobytes() == self.heads else None

    def filled(self, scores: Table) -> bytes:
        """The file that has these scores, classes × items: what `Predictions.save` would write."""
        head = self.width - self.n * NUMBER.itemsize
        heads = np.frombuffer(self.heads, np.uint8).reshape(self.classes, head)
        numbers = np.ascontiguousarray(scores, NUMBER).view(np.uint8)
        return b"".join((self.before, np.hstack([heads, numbers]).tobytes(), self.after))


class Reader:
    """Reads the predictions of runs on one benchmark; what it learns of one file serves for all that are like it."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.layouts: deque[Layout] = deque(maxlen=KNOWN)

    def read_each(
        self, runs: Sequence[Finished], left_out: LeftOut | None = None
    ) -> Iterator[tuple[Finished, Table, Order]]:
        """Every run with what `read` gives of its predictions, in order; those that cannot be read are left out."""
        paths = [f"{run.folder}/{PREDICTIONS}" for run in runs]
        for run, path, content in zip(runs, paths, contents(paths), strict=True):
            read = None
            with leaving_out(run.folder.name, left_out):
                read = self._read(path, content or b"", run.files.get(PREDICTIONS, ""))
            if read is not None:
                yield run, *read

    def read(self, path: Path | str) -> tuple[Table, Order]:
        """What `Predictions.load` reads, with its complaints: scores, classes × items, and which items those are."""
        return self._read(path, read_bytes(str(path)) or b"")

    def _read(self, path: Path | str, content: bytes, digest: str = "") -> tuple[Table, Order]:
        if content and digest and hashlib.sha256(content).hexdigest() != digest:
            raise damaged(path)
        for layout in self.layouts:
            scores = layout.scores(content)
            if scores is not None and _logits(scores):
                return scores, layout.order
        loaded = Predictions.load(path, self.benchmark)
        order = Order.of(self.benchmark, loaded.item)
        learned = _layout(content, loaded, order)
        if learned is not None:
            self.layouts.appendleft(learned)
        return np.ascontiguousarray(loaded.scores.T), order


def _logits(scores: Table) -> bool:
    """Whether scores are taken as they stand: no NaN, no infinity but -inf, and surely no probabilities."""
    most = scores.max(initial=-np.inf)
    return bool(most < np.inf and (most > 1 or scores.min(initial=np.inf) < 0))


def _layout(content: bytes, loaded: Predictions, order: Order) -> Layout | None:
    """The layout of a file, where its scores lie in it as plain numbers and nowhere else."""
    try:
        facts = pq.ParquetFile(pa.BufferReader(content)).metadata
    except (pa.ArrowException, OSError):  # a file of another kind, or one that has changed since it was loaded
        return None
    names = ["item", "split", *(f"score:{name}" for name in loaded.classes)]
    if facts.num_row_groups != 1 or [facts.schema.column(k).name for k in range(facts.num_columns)] != names:
        return None
    columns = [facts.row_group(0).column(k) for k in range(2, len(names))]
    start, width, n = columns[0].data_page_offset, columns[0].total_compressed_size, len(loaded)
    if not all(column.compression == "UNCOMPRESSED" and column.physical_type == "FLOAT" and not
               column.has_dictionary_page and column.total_compressed_size == width and
               column.data_page_offset == start + k * width for k, column in enumerate(columns)):
        return None
    block = np.frombuffer(content, np.uint8, width * len(columns), start).reshape(-1, width)
    heads = block[:, :width - n * NUMBER.itemsize].tobytes()
    layout = Layout(content[:start], heads, content[start + block.size:], width, len(columns), n, order)
    scores = layout.scores(content)
    return layout if scores is not None and np.array_equal(scores.T, loaded.scores) else None
