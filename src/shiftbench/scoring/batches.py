"""Runs of one benchmark, scored in batches that are read one after the other and judged side by side."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Ints
from shiftbench.benchmark import Benchmark
from shiftbench.predictions import Predictions
from shiftbench.scores import Scores
from shiftbench.scoring.judge import score
from shiftbench.scoring.listing import Finished
from shiftbench.scoring.many import Batch, Split, score_batch
from shiftbench.scoring.reading import Order, Reader, Table

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


def score_each(reader: Reader, runs: Sequence[Finished], name: str, replicates: int, level: float) -> Iterator[Scores]:
    """The scores of runs on the reader's benchmark, which they call `name`, a few runs at a time and in their order."""
    benchmark = reader.benchmark
    known = {split: Split.of(benchmark, split) for split in benchmark.splits}
    size = min(BATCH, max(1, HELD // (len(benchmark) * len(benchmark.names["label"]))))

    def judged(pack: Pack) -> Scores:
        if not pack.finite:  # classes were ruled out: what can be said of a loss is another matter in every run
            each = zip(pack.runs, pack.scores, pack.orders, strict=True)
            return Scores.join([_alone(benchmark, name, *one, replicates, level) for one in each])
        splits = [known[split] for split in pack.orders[0].splits]
        return _table(name, pack.runs, score_batch(splits, *_stack(pack), level if replicates else None))

    if len(runs) <= size:
        yield from map(judged, _packs(reader, runs, size))
        return
    with ThreadPoolExecutor(_cores()) as pool:
        pending: deque[Future[Scores]] = deque()
        for pack in _packs(reader, runs, size):
            pending.append(pool.submit(judged, pack))
            if len(pending) > _cores():
                yield pending.popleft().result()
        for future in pending:
            yield future.result()


def predictions_of(benchmark: Benchmark, scores: Table, order: Order) -> Predictions:
    """What a reader read, in the order of the benchmark's rows."""
    rows = np.flatnonzero(order.place >= 0)
    return Predictions(benchmark.items[rows], benchmark.split[rows], scores[:, order.place[rows]].T,
                       benchmark.names["label"])


def _packs(reader: Reader, runs: Sequence[Finished], size: int) -> Iterator[Pack]:
    """Runs in their order, `size` at a time; those that predict other splits go into other packs."""
    waiting: dict[tuple[tuple[str, ...], bool], Pack] = {}
    predicted = reader.read_each([f"{run.folder}/predictions.parquet" for run in runs])
    for run, (scores, order) in zip(runs, predicted, strict=True):
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
    place = np.full(len(first.place), -1)
    place[rows] = np.arange(len(rows))
    each = zip(pack.scores, pack.orders, strict=True)
    return np.stack([scores[:, order.place[rows]] for scores, order in each]), place


def _alone(
    benchmark: Benchmark, name: str, run: Finished, scores: Table, order: Order, replicates: int, level: float
) -> Scores:
    found = score(benchmark, predictions_of(benchmark, scores, order), run=run.folder.name,
                  method=str(run.settings["method"]), setting=run.setting, seed=int(run.settings["seed"]),
                  replicates=replicates, level=level)
    return Scores({**found.columns, "benchmark": np.full(len(found), name)})


def _table(name: str, runs: Sequence[Finished], batch: Batch) -> Scores:
    """One row per run and cell, the cells of a run together."""
    cells, n = len(batch.cells), len(runs)
    words = np.asarray([cell.group for cell in batch.cells])
    group = np.tile(words.astype(np.result_type(words, *(names for names, _ in batch.worst.values()))), (n, 1))
    size = np.tile([cell.n for cell in batch.cells], (n, 1))
    for cell, (names, sizes) in batch.worst.items():
        group[:, cell], size[:, cell] = names, sizes
    of_run = {"run": [run.folder.name for run in runs], "method": [str(run.settings["method"]) for run in runs],
              "setting": [run.setting for run in runs]}
    of_cell = {"split": [cell.split for cell in batch.cells], "metric": [cell.metric for cell in batch.cells]}
    return Scores({
        **{key: np.repeat(np.asarray(words, np.str_), cells) for key, words in of_run.items()},
        **{key: np.tile(np.asarray(words, np.str_), n) for key, words in of_cell.items()},
        "benchmark": np.full(n * cells, name), "seed": np.repeat([int(run.settings["seed"]) for run in runs], cells),
        "group": group.ravel(), "n": size.ravel(),
        "value": batch.value.T.ravel(), "low": batch.low.T.ravel(), "high": batch.high.T.ravel(),
    })


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
