"""Read each file of a runs folder once, and read the predictions of very many runs on one benchmark fast.

A file of predictions that differs from a known file only in its scores is not parsed.

Parsing a parquet file takes a third of a millisecond however small it is, and matching its items to the benchmark's
rows as long again: most of the time of scoring a hundred thousand small runs. But the runs of a study predict the same
items in the same order, and `Predictions.save` stores scores uncompressed: only the bytes of the scores differ.
"""

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shiftbench.core.arrays import Ints, Strs, in_short, positions
from shiftbench.core.errors import unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import PREDICTIONS, TARGET_RT, Predictions
from shiftbench.scoring.listing import (
    Finished,
    LeftOut,
    RunSource,
    contents,
    damaged,
    leaving_out,
    read_bytes,
    runs_in,
)

Table = npt.NDArray[np.float32]
NUMBER = np.dtype("<f4")
KEPT = 512 << 20
"""Bytes of predictions that an index keeps; files beyond that are read again on demand."""
KNOWN = 8
"""Layouts kept at a time: if every file has its own order of items, they must not all be compared with each other."""


class Order(NamedTuple):
    """The items of a file and their order: for every row of the benchmark, its row in the file or -1."""

    row: Ints
    splits: tuple[str, ...]  # the splits in the file; each is there whole or not at all

    @staticmethod
    def of(benchmark: Benchmark, items: Strs) -> "Order":
        position = positions(benchmark.items, items)
        return Order(position, tuple(split for split in benchmark.splits if position[benchmark.rows(split)[0]] >= 0))


class Layout(NamedTuple):
    """A file of predictions without its scores, and where these are: `classes` columns of `width` bytes each."""

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
        """The bytes of a file with these scores, classes × items, as `Predictions.save` would write them."""
        head = self.width - self.n * NUMBER.itemsize
        heads = np.frombuffer(self.heads, np.uint8).reshape(self.classes, head)
        numbers = np.ascontiguousarray(scores, NUMBER).view(np.uint8)
        return b"".join((self.before, np.hstack([heads, numbers]).tobytes(), self.after))


class Kept:
    """A cache of files, up to a number of bytes, by path and by the benchmark that they were matched to."""

    def __init__(self, room: int = KEPT) -> None:
        self.room = room
        self.files: dict[tuple[str, str], Any] = {}

    def add(self, benchmark: Benchmark, path: Path | str, value: Any, size: int) -> None:
        if size <= self.room:
            self.room -= size
            self.files[benchmark.digest, str(path)] = value

    def get(self, benchmark: Benchmark, path: Path | str) -> Any:
        return self.files.get((benchmark.digest, str(path)))


class Reader:
    """Reads the predictions of runs on one benchmark, and reuses the layout of one file for all files like it."""

    def __init__(self, benchmark: Benchmark, kept: Kept | None = None) -> None:
        self.benchmark = benchmark
        self.kept = Kept(0) if kept is None else kept
        self.layouts: deque[Layout] = deque(maxlen=KNOWN)

    def read_each(
        self, runs: Sequence[Finished], left_out: LeftOut | None = None
    ) -> Iterator[tuple[Finished, Table, Order]]:
        """Every run with what `read` returns for it, in order; runs that cannot be read are left out."""
        files = contents([f"{run.folder}/{PREDICTIONS}" for run in runs if run.outside is None])
        for run in runs:
            if isinstance(run.outside, Predictions):
                yield run, np.ascontiguousarray(run.outside.scores.T), Order.of(self.benchmark, run.outside.item)
                continue
            read = None
            with leaving_out(run.name, left_out):
                read = self._read(f"{run.folder}/{PREDICTIONS}", next(files) or b"", run.files.get(PREDICTIONS, ""))
            if read is not None:
                yield run, *read

    def read(self, path: Path | str, digest: str = "") -> tuple[Table, Order]:
        """What `Predictions.load` reads, with its errors: scores, classes × items, and which items those are."""
        cached: tuple[Table, Order] | None = self.kept.get(self.benchmark, path)
        return self._read(path, read_bytes(str(path)) or b"", digest) if cached is None else cached

    def _read(self, path: Path | str, content: bytes, digest: str = "") -> tuple[Table, Order]:
        if content and digest and hashlib.sha256(content).hexdigest() != digest:
            raise damaged(path)
        parsed = self._parsed(path, content)
        self.kept.add(self.benchmark, path, parsed, len(content))
        return parsed

    def _parsed(self, path: Path | str, content: bytes) -> tuple[Table, Order]:
        for layout in self.layouts:
            scores = layout.scores(content)
            if scores is not None and _logits(scores):
                return scores, layout.order
        loaded = Predictions.load(path, self.benchmark)
        order = Order.of(self.benchmark, loaded.item)
        layout_of_file = _layout(content, loaded, order)
        if layout_of_file is not None:
            self.layouts.appendleft(layout_of_file)
        return np.ascontiguousarray(loaded.scores.T), order


class RunIndex:
    """The finished runs of a source. Every run.json, predictions file and benchmark is read once."""

    def __init__(
        self, source: RunSource, only: Collection[str] | None = None, left_out: LeftOut | None = None
    ) -> None:
        self.runs, self.unfinished = runs_in(source, only, left_out)
        members = source if isinstance(source, list | tuple) else [source]
        self.where = in_short(member.name if isinstance(member, Finished) else member for member in members)
        self.by_name = {run.name: run for run in self.runs}
        self._kept = Kept()
        self._readers: dict[str, Reader] = {}
        self._benchmarks: dict[Path, Benchmark] = {}

    @staticmethod
    def of(source: "RunSource | RunIndex") -> "RunIndex":
        return source if isinstance(source, RunIndex) else RunIndex(source)

    def run(self, name: str) -> Finished:
        if name not in self.by_name:
            raise unknown("finished run", name, self.by_name, self.where)
        return self.by_name[name]

    def benchmark(self, folder: Path) -> Benchmark:
        """The benchmark in a folder."""
        if folder not in self._benchmarks:
            self._benchmarks[folder] = Benchmark.load(folder)
        return self._benchmarks[folder]

    def benchmark_folders(self, only: Collection[str], known: Collection[str] = ()) -> list[Path]:
        """The folders of some runs' benchmarks, each once; `known` are digests of those that need no folder."""
        first: dict[str, Finished] = {}
        for run in self.runs:
            if run.name in only and run.benchmark["digest"] not in known:
                first.setdefault(str(run.benchmark["path"] or ""), run)
        return list(dict.fromkeys(run.benchmark_folder for path, run in first.items() if path))

    def reader(self, benchmark: Benchmark) -> Reader:
        if benchmark.digest not in self._readers:
            self._readers[benchmark.digest] = Reader(benchmark, self._kept)
        return self._readers[benchmark.digest]

    def predictions(self, run: Finished, benchmark: Benchmark) -> Predictions | Answers:
        """A run's predictions, as the run saved them."""
        if run.outside is not None:
            return run.outside
        path = run.folder / PREDICTIONS
        if benchmark.target.has_classes:
            return predictions_of(benchmark, *self.reader(benchmark).read(path, run.files.get(PREDICTIONS, "")))
        predictions: Predictions | Answers | None = self._kept.get(benchmark, path)
        if predictions is None:
            predictions = run.predictions(benchmark)
            self._kept.add(benchmark, path, predictions, path.stat().st_size)
        return predictions

    def retrained(self, run: Finished, benchmark: Benchmark) -> Predictions | None:
        """A run's predictions with the last layer that `retrain` trained, if it has one."""
        path = run.folder / TARGET_RT
        if run.outside is not None or not path.is_file():
            return None
        predictions: Predictions | None = self._kept.get(benchmark, path)
        if predictions is None:
            predictions = Predictions.load(run.checked(TARGET_RT), benchmark)
            self._kept.add(benchmark, path, predictions, path.stat().st_size)
        return predictions


def predictions_of(benchmark: Benchmark, scores: Table, order: Order) -> Predictions:
    """The scores from a reader, in the order of the benchmark's rows."""
    rows = np.flatnonzero(order.row >= 0)
    return Predictions(benchmark.items[rows], benchmark.split[rows], scores[:, order.row[rows]].T,
                       benchmark.names["label"])


def _logits(scores: Table) -> bool:
    """Whether scores are used as they are: no NaN, no infinity but -inf, and certainly not probabilities."""
    most = scores.max(initial=-np.inf)
    return bool(most < np.inf and (most > 1 or scores.min(initial=np.inf) < 0))


def _layout(content: bytes, loaded: Predictions, order: Order) -> Layout | None:
    """The layout of a file, or None if its scores are not stored in it as plain numbers side by side."""
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
