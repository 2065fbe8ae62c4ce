"""A warm-up: a worker like those of a sweep trains shortened runs, and a stopwatch tells what a step costs."""

import math
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.sweeps.crew import Worker
from shiftbench.sweeps.features import Wanted
from shiftbench.sweeps.work import Job
from shiftbench.sweeps.worker import Terms
from shiftbench.training.features import embed
from shiftbench.training.log import lines
from shiftbench.training.run import split_features

FIRST = 4
"""Steps of the shortest warm-up."""
ENOUGH = 0.5
"""Two warm-ups must differ by so many seconds, and by this part of the first, to tell the time of a step."""
STEADY = 256
"""Steps that a warm-up on a GPU has at least: recording its work takes long, and comes first."""
SAMPLE = 64
"""Items embedded to time the embedding."""
FEW = 256
"""Where features are missing, the warm-up trains on so many items, for which they are computed."""


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
    """Seconds that a pack takes: fixed + step · steps + evaluation · evaluations. `like` names the shape it is of."""

    fixed: float
    step: float
    evaluation: float
    like: Shape

    def of(self, pack: Sequence[Job]) -> float:
        """Of a pack of runs that begin together: the longest decides."""
        runs = [job.run for job in pack]
        return (self.fixed + self.step * max(run.steps for run in runs)
                + self.evaluation * max(math.ceil(run.steps / run.eval_every) for run in runs))


class Warm:
    """Workers like those of the sweep, and as many, that train shortened runs in a scratch folder: all at once the same
    ones but for their seeds, so that what they take from each other is in the time."""

    def __init__(self, scratch: Path, devices: Sequence[str], size: int, threads: int, small: set[str]) -> None:
        self.scratch, self.devices, self.size, self.threads, self.small = scratch, devices, size, threads, small
        self.workers: list[Worker] = []
        self.start = 0.0  # seconds until they were ready
        self.tried = False

    def measure(self, pack: Sequence[Job], shape: Shape) -> Cost:
        """Few steps with one evaluation, more of them until the two differ enough, and few with as many evaluations."""
        if pack[0].collection in self.small:
            pack = self._on_few(pack)
        steps = max(FIRST + 1, *(job.run.steps for job in pack))
        if not self.tried:  # the first pack of a process also pays for what is loaded once
            self._time(pack, FIRST, FIRST, first=self.size)
            self.tried = True
        little = self._time(pack, FIRST, FIRST)
        enough = ENOUGH * max(1.0, little)
        n = max(4 * FIRST if self.devices[0] == "cpu" else STEADY, math.ceil(enough / self._pace(pack)))
        much = self._time(pack, n := min(n, steps), n)
        while much - little < enough / 2 and n < steps:
            much = self._time(pack, n := min(4 * n, steps), n)
        step = max(0.0, (much - little) / (n - FIRST))
        evaluation = max(0.0, (self._time(pack, FIRST, 1) - little) / (FIRST - 1))
        return Cost(max(0.0, much - step * n - evaluation), step, evaluation, shape)

    def _pace(self, pack: Sequence[Job]) -> float:
        """Seconds of a step, as the log of the shortest warm-up has it: only to choose how long the next one is."""
        found = lines(self.scratch / "runs" / _short(pack, FIRST, FIRST, 0)[0].run.id / "log.jsonl")
        return max(1e-6, float(found[-1].get("seconds", 0.0)) / FIRST) if found else 1.0

    def _time(self, pack: Sequence[Job], steps: int, every: int, first: int = 0) -> float:
        """Seconds from handing a shortened pack to every worker until it is done, in the mean; `first` is the number by
        which the runs of the first worker differ from the original."""
        self._begin()
        began = time.monotonic()
        for number, worker in enumerate(self.workers):
            worker.give({job.run.id: job for job in _short(pack, steps, every, first + number)})
        times, problems = [], []
        for worker in self._as_they_answer():
            try:
                ends = worker.pipe.recv()
                problems += [end.reason for end in ends if end.state != "done"]
            except (EOFError, OSError):
                worker.end()
                problems.append(f"a worker ended: {worker.death}")
            times.append(time.monotonic() - began)
        if problems:
            if any(worker.process.exitcode is not None for worker in self.workers):
                self.close()
            raise ShiftBenchError(problems[0])
        return sum(times) / len(times)

    def _begin(self) -> None:
        if self.workers:
            return
        began = time.monotonic()
        places = [self.devices[number % len(self.devices)] for number in range(self.size)]
        self.workers = [Worker.start(Terms(str(self.scratch / "runs"), place, self.threads, 30.0)) for place in places]
        for worker in self._as_they_answer():
            try:
                worker.pipe.recv()
                worker.ready = True
            except (EOFError, OSError):
                worker.end()
                death = worker.death
                self.close()
                raise ShiftBenchError(f"a worker ended before it was ready: {death}") from None
        self.start = time.monotonic() - began

    def _as_they_answer(self) -> Iterator[Worker]:
        waiting = list(self.workers)
        while waiting:
            ready = wait([worker.pipe for worker in waiting])
            for worker in [worker for worker in waiting if worker.pipe in ready]:
                waiting.remove(worker)
                yield worker

    def _on_few(self, pack: Sequence[Job]) -> list[Job]:
        """The same pack on few rows of its benchmark, some of every group and split."""
        benchmark = Benchmark.load(pack[0].benchmark)
        folder = self.scratch / "benchmarks" / benchmark.digest
        rows = few(benchmark)
        part = Benchmark(benchmark.items[rows], benchmark.split[rows], benchmark.label[rows], benchmark.domain[rows],
                         benchmark.group[rows], benchmark.names, benchmark.card)
        if not folder.exists():
            part.save(folder)
        return [job._replace(benchmark=str(folder), settings={**job.settings, "benchmark": part.digest})
                for job in pack]

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.exitcode is None:
                worker.end()
        self.workers = []


def _short(pack: Sequence[Job], steps: int, every: int, number: int) -> list[Job]:
    """The same runs, but so many steps, an evaluation every so many, and seeds of their own for every number."""
    changed: dict[str, Any] = {"steps": steps, "eval_every": every, "patience": 0}
    return [job._replace(settings={**job.settings, **changed, "seed": job.settings["seed"] + 10**6 * number})
            for job in pack]


def few(benchmark: Benchmark) -> Ints:
    """Numbers of about FEW rows: the first ones of every cell of split × group."""
    cells = np.unique(benchmark.split, return_inverse=True)[1] * len(benchmark.names["group"]) + benchmark.group
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    kept = np.arange(len(order)) - starts < max(2, FEW // len(np.unique(cells)))
    return np.sort(order[kept])


def embedding_seconds(want: Wanted, device: str) -> float:
    """Seconds to compute what is missing, from a sample that is computed and thrown away."""
    if not len(want.missing):
        return 0.0
    collection = Collection.load(want.collection)
    backbone, size = split_features(want.features)
    times = []
    for rows in (want.missing[:2], want.missing[:SAMPLE]):
        began = time.monotonic()
        embed(collection, rows, backbone, size, device=device)
        times.append(time.monotonic() - began)
    each = max(0.0, times[1] - times[0]) / max(1, len(want.missing[:SAMPLE]) - 2)
    return times[0] + each * len(want.missing)
