"""Runs of one benchmark, scored in batches and put together to a table of millions of rows.

Batches are read one after the other and judged at once. A batch is a `Piece` of the table, in which nothing repeats.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import groupings_of
from shiftbench.data.scores import COLUMNS, DEFAULTS, Scores
from shiftbench.scoring.estimates import Measured
from shiftbench.scoring.judge import measure, score
from shiftbench.scoring.listing import Finished, LeftOut
from shiftbench.scoring.reading import Order, Reader, Table, predictions_of
from shiftbench.scoring.scorer import scorer


class Piece(NamedTuple):
    """Rows of a table as runs × cells: a column has one value per run, or per cell, or both."""

    runs: int
    cells: int
    columns: Mapping[str, Values]  # each can be broadcast to runs × cells

    @staticmethod
    def of(scores: Scores, benchmark: str) -> "Piece":
        """Any scores, on a benchmark by the name that its runs know, whatever its folder is called now."""
        columns = {name: column[:, None] for name, column in scores.columns.items()}
        return Piece(len(scores), 1, {**columns, "benchmark": np.asarray([[benchmark]])})

    @staticmethod
    def of_measured(
        measured: Mapping[str, Sequence[Measured]], runs: Sequence[Finished], benchmark: str, digest: str,
        level: float | None,
    ) -> "Piece":
        """What was measured of `runs`, each by itself, split by split; `digest` is that of the benchmark's rows."""
        cells = [(split, group, int(n), one.metric, one.by) for split, part in measured.items() for one in part
                 for group, n in ([("", 0)] if one.worst else zip(one.groups, one.n, strict=True))]
        values, lows, highs = [], [], []
        group, n = (np.asarray([[cell[field] for cell in cells]]) for field in (1, 2))
        worst: dict[int, tuple[Strs, Ints]] = {}  # of these cells, each run has its own group
        at = 0
        for one in (one for part in measured.values() for one in part):
            if one.worst is not None:
                worst[at] = np.asarray(one.groups)[one.worst.code], one.worst.n
            value = one.estimate.value
            low, high = one.estimate.ends(range(len(runs)), level) if level else (np.full_like(value, np.nan),) * 2
            values.append(value)
            lows.append(low)
            highs.append(high)
            at += value.shape[1]
        if worst:
            group = np.repeat(group.astype(np.result_type(group, *(names for names, _ in worst.values()))),
                              len(runs), axis=0)
            n = np.repeat(n, len(runs), axis=0)
            for cell, (names, sizes) in worst.items():
                group[:, cell], n[:, cell] = names, sizes
        heads = [run.head for run in runs]
        return Piece(len(runs), len(cells), {
            **{name: np.asarray([[value]]) for name, value in DEFAULTS.items()},
            **{name: np.asarray([[head[name]] for head in heads]) for name in heads[0]},
            "benchmark": np.asarray([[benchmark]]), "digest": np.asarray([[digest]]),
            "split": np.asarray([[cell[0] for cell in cells]]), "group": group, "n": n,
            "metric": np.asarray([[cell[3] for cell in cells]]), "by": np.asarray([[cell[4] for cell in cells]]),
            "value": np.concatenate(values, axis=1), "low": np.concatenate(lows, axis=1),
            "high": np.concatenate(highs, axis=1),
        })


def together(pieces: Sequence[Piece]) -> Scores:
    """The rows of all pieces. Every column is written once, into its place: gigabytes are not copied about."""
    stop = np.cumsum([piece.runs * piece.cells for piece in pieces], dtype=np.int64).tolist()
    columns = {}
    for name in COLUMNS:
        parts = [piece.columns[name] for piece in pieces]
        columns[name] = np.empty(stop[-1], np.result_type(*{part.dtype for part in parts}))
        for piece, part, end in zip(pieces, parts, stop, strict=True):
            columns[name][end - piece.runs * piece.cells:end].reshape(piece.runs, piece.cells)[...] = part
    return Scores(columns)


BATCH = 4096
"""Runs scored at once: the more, the more of them share the law of a worst group."""
HELD = 4_000_000
"""Scores held at once in a batch."""


class Pack(NamedTuple):
    """Runs that predict the same splits, and what was read of each."""

    finite: bool  # whether every score is
    runs: list[Finished]
    scores: list[Table]
    orders: list[Order]


def score_each(
    reader: Reader, runs: Sequence[Finished], name: str, replicates: int, level: float, left_out: LeftOut | None = None
) -> Iterator[Piece]:
    """The scores of runs on the reader's benchmark, which they call `name`, a few runs at a time and in their order."""
    benchmark = reader.benchmark
    groupings = groupings_of(benchmark)
    scorers = {split: scorer(benchmark, split, groupings) for split in benchmark.splits}
    size = min(BATCH, max(1, HELD // (len(benchmark) * len(benchmark.names["label"]))))

    def judged(pack: Pack) -> Piece:
        if not pack.finite:  # classes were ruled out: what can be said of a loss is another matter in every run
            each = zip(pack.runs, pack.scores, pack.orders, strict=True)
            return Piece.of(Scores.join([_alone(benchmark, *one, replicates, level) for one in each]), name)
        scores, position = _stack(pack)
        outputs = ((split, scores[:, :, position[benchmark.rows(split)]].transpose(0, 2, 1))
                   for split in pack.orders[0].splits)
        ends = level if replicates else None
        with np.errstate(invalid="ignore"):  # ends that are not known
            measured = measure(benchmark, scorers, outputs, range(len(pack.runs)), ends)
        return Piece.of_measured(measured, pack.runs, name, benchmark.short_digest, ends)

    if len(runs) <= size:
        yield from map(judged, _packs(reader, runs, size, left_out))
        return
    with ThreadPoolExecutor(_cores()) as pool:
        pending: deque[Future[Piece]] = deque()
        for pack in _packs(reader, runs, size, left_out):
            pending.append(pool.submit(judged, pack))
            if len(pending) > _cores():
                yield pending.popleft().result()
        for future in pending:
            yield future.result()


def _packs(reader: Reader, runs: Sequence[Finished], size: int, left_out: LeftOut | None) -> Iterator[Pack]:
    """Runs in their order, `size` at a time; those that predict other splits go into other packs."""
    waiting: dict[tuple[tuple[str, ...], bool], Pack] = {}
    for run, scores, order in reader.read_each(runs, left_out):
        finite = bool(scores.min(initial=0) > -np.inf)
        pack = waiting.setdefault((order.splits, finite), Pack(finite, [], [], []))
        pack.runs.append(run)
        pack.scores.append(scores)
        pack.orders.append(order)
        if len(pack.runs) == size:
            yield waiting.pop((order.splits, finite))
    yield from waiting.values()


def _stack(pack: Pack) -> tuple[Table, Ints]:
    """Runs × classes × items, and the place of every row."""
    first = pack.orders[0]
    if all(order is first for order in pack.orders):
        return np.stack(pack.scores), first.place
    rows = np.flatnonzero(first.place >= 0)
    position = np.full(len(first.place), -1)
    position[rows] = np.arange(len(rows))
    each = zip(pack.scores, pack.orders, strict=True)
    return np.stack([scores[:, order.place[rows]] for scores, order in each]), position


def _alone(
    benchmark: Benchmark, run: Finished, scores: Table, order: Order, replicates: int, level: float
) -> Scores:
    return score(benchmark, predictions_of(benchmark, scores, order), **run.head, replicates=replicates, level=level)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
