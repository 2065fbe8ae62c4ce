"""How long a sweep will take: workers like those of the sweep train a few steps of every shape of run."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.files import scratch
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import label_of
from shiftbench.models.names import facts
from shiftbench.sweeps.jobs import Features, Job, make_packs, needed_features
from shiftbench.sweeps.ledger import Ledger, ResultsFolder
from shiftbench.sweeps.local import WorkerPool
from shiftbench.sweeps.status import look
from shiftbench.training.inputs import embed
from shiftbench.training.run import count_pools, items_per_batch, split_features

FIRST = 4
"""Steps of the shortest warm-up."""
ENOUGH = 0.25
"""Two warm-ups must differ by this many seconds, and by this share of the first, to show the time of a step."""
STEADY = 256
"""Least steps of a warm-up on a GPU: recording takes long, and comes first."""
SAMPLE = 64
"""Items embedded to time the embedding."""
FEW = 256
"""Where features are missing, the warm-up computes them for this many items and trains on those."""


class Shape(NamedTuple):
    """What decides the time of a step; `mixed` where the runs of a pack differ. `items` of a batch, `together` (runs of
    a pack) and `rows` of the benchmark are rounded up to a power of two."""

    method: str
    model: str
    inputs: str
    precision: str
    batches: str
    items: int
    together: int
    rows: int


class Cost(NamedTuple):
    """Seconds that a pack takes: fixed + step · steps + evaluation · evaluations."""

    fixed: float
    step: float
    evaluation: float

    def of(self, pack: Sequence[Job]) -> float:
        """Seconds of a pack. Its runs begin together, so the longest decides."""
        runs = [job.run for job in pack]
        return (self.fixed + self.step * max(run.steps for run in runs)
                + self.evaluation * max(math.ceil(run.steps / run.eval_every) for run in runs))


class Row(NamedTuple):
    """A line of the table: a shape, its packs and runs, what they cost, or why the warm-up failed."""

    shape: Shape
    packs: int
    runs: int
    cost: Cost | None
    measured: bool  # the cost is its own, not that of the nearest shape
    seconds: float  # of one worker, for all of its packs
    problem: str


class Estimate(NamedTuple):
    """What is left to do and how long that takes. `seconds` is NaN where every warm-up failed."""

    counts: Mapping[tuple[str, str], Counter[str]]  # benchmark, method -> state -> runs
    workers: int
    device: str
    rows: Sequence[Row] = ()
    start: float = 0.0  # seconds until a worker is ready
    embedding: float = 0.0
    seconds: float = 0.0
    assumed: Sequence[str] = ()

    @property
    def states(self) -> Counter[str]:
        """State -> runs."""
        return sum(self.counts.values(), Counter())

    @property
    def left(self) -> int:
        """Runs that are left to do."""
        return sum(row.runs for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """All of it, in plain types."""
        return {
            "runs": self.states.total(), "states": dict(self.states), "left": self.left,
            "seconds": self.seconds, "embedding_seconds": self.embedding, "start_seconds": self.start,
            "workers": self.workers, "device": self.device, "assumed": list(self.assumed),
            "counts": [{"benchmark": benchmark, "method": method, **count}
                       for (benchmark, method), count in self.counts.items()],
            "shapes": [{**row.shape._asdict(), "packs": row.packs, "runs": row.runs, "seconds": row.seconds,
                        "problem": row.problem,
                        "cost": row.cost and {**row.cost._asdict(), "measured": row.measured}} for row in self.rows],
        }


def estimate(
    jobs: Sequence[Job], out: Path | str, *, workers: int = 0, device: str = "auto", retry_failed: bool = False,
    budget: float = 120.0, progress: Advance | None = None,
) -> Estimate:
    """Count the runs of a study and time a warm-up of what is left. Nothing is written below `out`.

    After `budget` seconds no further shape is tried; the others take the time of their nearest neighbour.
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    pending = []
    for job in jobs:
        state = look(Path(out) / job.run.id)
        counts.setdefault((Path(job.benchmark).name, label_of(job.settings)), Counter())[state] += 1
        if state != "done" and (retry_failed or state != "failed"):
            pending.append(job)
    with scratch() as folder, WorkerPool(folder / "runs", workers, device) as pool:
        estimated = Estimate(counts, pool.size, pool.devices[0])
        if not pending:
            return estimated
        packs = make_packs(pending, estimated.device, pool.size)
        shapes, busy, needed = _shapes(packs), min(pool.size, len(packs)), needed_features(pending)
        embedding = sum(embedding_seconds(entry, estimated.device) for entry in needed)
        small = {entry.collection for entry in needed if len(entry.missing) > FEW}
        warm_up, began = WarmUp(folder, pool, busy, small), time.monotonic()
        costs: dict[Shape, Cost] = {}
        problems: dict[Shape, str] = {}
        for number, shape in enumerate(_in_turn(shapes), 1):
            if costs and time.monotonic() - began > budget:
                break
            try:
                costs[shape] = warm_up.measure(shapes[shape][0])
            except ShiftBenchError as problem:
                problems[shape] = str(problem)
            if progress:
                progress(number, len(shapes))
    rows, longest = [], 0.0
    for shape, alike in shapes.items():
        nearest = shape if shape in costs else min(costs, key=partial(_distance, shape), default=shape)
        cost = costs.get(nearest)
        times = [cost.of(pack) for pack in alike] if cost else []
        longest = max([longest, *times])
        rows.append(Row(shape, len(alike), sum(map(len, alike)), cost, shape in costs, sum(times),
                        problems.get(shape, "")))
    seconds = max(sum(row.seconds for row in rows) / busy, longest) + embedding + warm_up.start if costs else math.nan
    assumed = [f"{'one worker is' if busy == 1 else f'{busy} workers are'} busy until the end",
               "nothing else uses the machine, or as much as during the warm-up",
               "no run stops early by patience, fails or is interrupted",
               "batches, packs and benchmarks of about the same size (to a power of two) take as long as the largest"]
    if guessed := sum(row.cost is not None and not row.measured for row in rows):
        assumed.append(f"{guessed} of {len(rows)} shapes were not tried and take as long as the nearest that was")
    if small:
        assumed.append(f"features are missing, so the warm-up trained on about {FEW} items: loading is underestimated")
    return estimated._replace(rows=rows, start=warm_up.start, embedding=embedding, seconds=seconds, assumed=assumed)


def _shapes(packs: Sequence[Sequence[Job]]) -> dict[Shape, list[Sequence[Job]]]:
    """Packs by shape, the largest of each first: that one is tried."""
    load = cache(Benchmark.load)
    pools = cache(lambda folder, kind: count_pools(load(folder), kind))
    by_shape: dict[Shape, list[tuple[int, Sequence[Job]]]] = {}
    for pack in packs:
        folder, runs = pack[0].benchmark, [job.run for job in pack]
        items = max(items_per_batch(run.batch_size, pools(folder, run.batch_kind), run.domains_per_batch)
                    for run in runs)
        shape = Shape(_common(run.label for run in runs), _common(run.model for run in runs),
                      _common(run.features or f"{facts(run.model).takes} {run.size or ''}".strip() for run in runs),
                      _common(run.precision for run in runs), _common(run.batch_kind for run in runs),
                      _ceiling(items), _ceiling(len(pack)), _ceiling(len(load(folder))))
        by_shape.setdefault(shape, []).append((items * len(pack), pack))
    return {shape: [pack for _, pack in sorted(sized, key=lambda pair: -pair[0])] for shape, sized in by_shape.items()}


def _common(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else "mixed"


def _ceiling(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _in_turn(shapes: Mapping[Shape, Sequence[Sequence[Job]]]) -> list[Shape]:
    """The commonest shape of every method, then the second of each, and so on."""
    rank: Counter[tuple[str, ...]] = Counter()

    def turn(shape: Shape) -> int:
        rank[shape[:3]] += 1
        return rank[shape[:3]]

    return sorted(sorted(shapes, key=lambda shape: -sum(map(len, shapes[shape]))), key=turn)


def _distance(shape: Shape, other: Shape) -> tuple[bool, bool, float]:
    """How far two shapes are apart: in model and inputs, then method, then batch and pack."""
    sizes = zip(shape[5:], other[5:], strict=True)
    return (other[1:4] != shape[1:4], other.method != shape.method,
            sum(abs(math.log2(ours / theirs)) for ours, theirs in sizes))


# The warm-up


class WarmUp:
    """The workers of the sweep, training shortened runs in a scratch folder: all `busy` at once, the same runs except
    for their seeds, so that the time includes how much they slow each other down."""

    def __init__(self, scratch: Path, pool: WorkerPool, busy: int, small: set[str]) -> None:
        self.scratch, self.pool, self.busy, self.small = scratch, pool, busy, small
        self.start, self.ready = 0.0, False  # seconds until the workers were ready and had loaded what is loaded once

    def measure(self, pack: Sequence[Job]) -> Cost:
        """Time few steps with one evaluation, more until the times differ enough, and few with an evaluation each."""
        if pack[0].collection in self.small:
            pack = self._on_few(pack)
        steps = max(FIRST + 1, *(job.run.steps for job in pack))
        first_time = 0.0 if self.ready else self._time(pack, FIRST, FIRST, first=self.busy)
        short_time = self._time(pack, FIRST, FIRST)
        if not self.ready:
            self.start, self.ready = max(0.0, first_time - short_time), True
        enough = ENOUGH * max(1.0, short_time)
        n = min(FIRST if self.pool.devices[0] == "cpu" else STEADY // 4, steps - 1)  # so that one is longer
        long_time = short_time
        while long_time - short_time < enough and n < steps:
            n = min(4 * n, steps)
            long_time = self._time(pack, n, n)
        step = max(0.0, (long_time - short_time) / (n - FIRST))
        evaluation = max(0.0, (self._time(pack, FIRST, 1) - short_time) / (FIRST - 1))
        return Cost(max(0.0, long_time - step * n - evaluation), step, evaluation)

    def _time(self, pack: Sequence[Job], steps: int, every: int, first: int = 0) -> float:
        """Mean seconds until a pack shortened to `steps` steps and an evaluation every `every` of them is done, of as
        many as workers are busy; number k has the seeds of number `first` + k."""
        shorter: dict[str, Any] = {"steps": steps, "eval_every": every, "patience": 0}
        packs = [[job._replace(settings={**job.settings, **shorter, "seed": job.settings["seed"] + 10**6 * number})
                  for job in pack] for number in range(first, first + self.busy)]
        times: list[float] = []
        began = time.monotonic()
        ledger = Ledger(ResultsFolder(self.scratch / "runs"), lambda _: times.append(time.monotonic() - began), 1)
        for end in self.pool.train(packs, ledger):
            if end.state != "done":
                raise ShiftBenchError(end.reason)
        return sum(times) / len(times)

    def _on_few(self, pack: Sequence[Job]) -> list[Job]:
        """The same pack on few rows of its benchmark, some of every group and split."""
        benchmark = Benchmark.load(pack[0].benchmark)
        folder = self.scratch / "benchmarks" / benchmark.digest
        rows = few(benchmark)
        subset = Benchmark(benchmark.items[rows], benchmark.split[rows], benchmark.label[rows], benchmark.domain[rows],
                         benchmark.group[rows], benchmark.names, benchmark.card)
        if not folder.exists():
            subset.save(folder)
        return [job._replace(benchmark=str(folder), settings={**job.settings, "benchmark": subset.digest})
                for job in pack]


def few(benchmark: Benchmark) -> Ints:
    """Numbers of about FEW rows: the first ones of every cell of split × group."""
    cells = np.unique(benchmark.split, return_inverse=True)[1] * len(benchmark.names["group"]) + benchmark.group
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    chosen = np.arange(len(order)) - starts < max(2, FEW // len(np.unique(cells)))
    return np.sort(order[chosen])


def embedding_seconds(needed: Features, device: str) -> float:
    """Seconds to compute what is missing, from a sample that is computed and thrown away."""
    if not len(needed.missing):
        return 0.0
    collection = Collection.load(needed.collection)
    backbone, size = split_features(needed.features)
    times = []
    for rows in (needed.missing[:2], needed.missing[:SAMPLE]):
        began = time.monotonic()
        embed(collection, rows, backbone, size, device=device)
        times.append(time.monotonic() - began)
    per_item = max(0.0, times[1] - times[0]) / max(1, len(needed.missing[:SAMPLE]) - 2)
    return times[0] + per_item * len(needed.missing)
