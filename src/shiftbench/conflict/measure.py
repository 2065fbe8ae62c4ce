"""A benchmark in, its training conflicts out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from shiftbench.conflict.heatmap import order
from shiftbench.conflict.matrix_sides import IN, Settings, Side, sides
from shiftbench.conflict.regression import Effects, effects, expanded
from shiftbench.conflict.result import Axis, Conflicts, Measured
from shiftbench.conflict.steps import centred, record
from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.scoring.intervals import interval
from shiftbench.training.data import Data
from shiftbench.training.device import choose_device
from shiftbench.training.inputs import inputs

Advance = Callable[[int, int], None]

LEAST = 4
"""Counted steps per training subset under which nothing is measured."""


def conflicts(
    benchmark: Benchmark, collection: Collection, settings: Settings, *, device: str = "auto",
    cache: Path | None = None, progress: Advance | None = None,
) -> Conflicts:
    """Measure the training conflicts of a benchmark; `cache` is the collection's folder, where features are kept."""
    run = settings.run(benchmark.digest, 0)
    place = choose_device(device)
    train, evaluation = sides(benchmark, settings.train_items, settings.eval_items, settings.seed)
    counted, m = (settings.steps - settings.skipped) * settings.repeats, len(train.names)
    if counted < LEAST * m:
        raise ShiftBenchError(f"conflicts: {counted} counted steps are too few to tell {m} training subsets apart: it "
                              f"takes {LEAST * m} at least, {10 * LEAST * m} for narrow intervals. Raise steps or "
                              "repeats.")
    # Only the rows that are trained or evaluated on are embedded or decoded.
    used = np.unique(np.concatenate([train.row, evaluation.row]))
    part = Benchmark(benchmark.items[used], benchmark.split[used], benchmark.label[used], benchmark.domain[used],
                     benchmark.group[used], benchmark.names, benchmark.card)
    train, evaluation = (side._replace(row=np.searchsorted(used, side.row)) for side in (train, evaluation))
    x = inputs(part, collection, run, cache)
    data = Data(part, centred(x, part, train) if run.features else x, place)
    return replace(measure(data, train, evaluation, settings, progress), digest=benchmark.digest)


def measure(
    data: Data, train: Side, evaluation: Side, settings: Settings, progress: Advance | None = None,
) -> Conflicts:
    """Record every repeat, regress, normalise and order."""
    total = settings.steps * settings.repeats

    def advance(repeat: int) -> Callable[[int], None]:
        return lambda done: progress(repeat * settings.steps + done, total) if progress else None

    records = [record(data, train, evaluation, settings, repeat, advance(repeat)) for repeat in range(settings.repeats)]
    found = effects([one.share for one in records], [one.drop for one in records], seed=settings.seed)
    # A replicate is measured in the unit of the estimate: its own would pin the largest cell to 1 in each of them.
    unit = float(np.abs(found.value).max()) or 1.0
    rows, columns = order(found.value / unit, train, evaluation)
    low, high = interval(found.replicates / unit, expanded(found.units))
    cells = np.ix_(rows, columns)
    return Conflicts(
        benchmark=data.benchmark.name, digest=data.benchmark.digest, settings=settings,
        train=Axis.of(train, rows), evaluation=Axis.of(evaluation, columns),
        effect=Measured((found.value / unit)[cells], low[cells], high[cells]), unit=unit,
        contribution=_contribution(found, train, evaluation, rows),
        accuracy=np.mean([one.accuracy for one in records], axis=0)[columns],
        resampled=found.resampled, units=found.units,
    )


def _contribution(found: Effects, train: Side, evaluation: Side, rows: Ints) -> Measured:
    """How much each training subset does to the other subsets: the root of its mean squared effect.

    As a multiple of the median training subset's, in every replicate anew.
    """
    own = np.asarray(evaluation.names)[None, :] == np.asarray(train.names)[:, None]
    other = ~(own & (evaluation.kind == IN))

    def relative(value: Floats) -> Floats:
        size = np.sqrt((value**2 * other).sum(axis=-1) / other.sum(axis=-1).clip(min=1))
        return np.asarray(size / np.maximum(np.median(size, axis=-1, keepdims=True), 1e-300))

    low, high = interval(relative(found.replicates), expanded(found.units))
    return Measured(relative(found.value)[rows], low[rows], high[rows])
