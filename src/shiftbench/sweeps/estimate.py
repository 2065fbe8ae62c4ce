"""How long a sweep will take: workers like those of the sweep train a few steps of every shape of run."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import scratch
from shiftbench.core.registry import loaded_plugins
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import label_of
from shiftbench.methods.method import BATCHES
from shiftbench.scoring.listing import lines
from shiftbench.sweeps.jobs import Features, Job, make_packs, needed_features
from shiftbench.sweeps.status import look
from shiftbench.sweeps.workers import Worker, WorkerOptions, cores, devices_for, threads_of
from shiftbench.training.inputs import embed
from shiftbench.training.run import count_pools, items_per_batch, split_features

FIRST = 4
"""Steps of the shortest warm-up."""
ENOUGH = 0.5
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
    """Seconds that a pack takes: fixed + step · steps + evaluation · evaluations. `like` is the shape measured."""

    fixed: float
    step: float
    evaluation: float
    like: Shape

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
    seconds: float  # of one worker, for all of its packs
    problem: str = ""


class Estimate(NamedTuple):
    """What is left to do and how long that takes. `seconds` is NaN where every warm-up failed."""

    counts: Mapping[tuple[str, str], Counter[str]]  # benchmark, method -> state -> runs
    rows: Sequence[Row]
    workers: int
    device: str
    start: float  # seconds until a worker is ready
    embedding: float
    seconds: float
    assumed: Sequence[str]

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
                        "problem": row.problem, "cost": row.cost and {
                            "fixed": row.cost.fixed, "step": row.cost.step, "evaluation": row.cost.evaluation,
                            "measured": row.cost.like == row.shape}} for row in self.rows],
        }


def estimate(
    jobs: Sequence[Job], out: Path | str, *, workers: int = 0, device: str = "auto", retry_failed: bool = False,
    budget: float = 120.0, progress: Callable[[int, int], None] | None = None,
) -> Estimate:
    """Count the runs of a study and time a warm-up of what is left. Nothing is written below `out`.

    After `budget` seconds no further shape is tried; the others take the time of their nearest neighbour.
    """
    states = [look(Path(out) / job.run.id) for job in jobs]
    counts: dict[tuple[str, str], Counter[str]] = {}
    for job, state in zip(jobs, states, strict=True):
        counts.setdefault((Path(job.benchmark).name, label_of(job.settings)), Counter())[state] += 1
    pending = [job for job, state in zip(jobs, states, strict=True)
            if state != "done" and (retry_failed or state != "failed")]
    devices = devices_for(device)
    size = workers or (len(devices) if devices != ["cpu"] else cores())
    if not pending:
        return Estimate(counts, [], size, devices[0], 0.0, 0.0, 0.0, [])
    packs = make_packs(pending, devices[0], size)
    shapes = _shapes(packs)
    needed = needed_features(pending)
    embedding = sum(embedding_seconds(entry, devices[0]) for entry in needed)
    with scratch() as folder:
        small = {entry.collection for entry in needed if len(entry.missing) > FEW}
        busy = min(size, len(packs))
        warm_up = WarmUp(folder, devices, busy, threads_of(size), small)
        try:
            costs, problems = _measure_all(shapes, warm_up, budget, progress)
        finally:
            warm_up.close()
    rows, longest, guessed = [], 0.0, 0
    for shape, alike in shapes.items():
        cost = costs.get(shape) or _nearest(shape, costs)
        times = [cost.of(pack) for pack in alike] if cost else []
        longest = max([longest, *times])
        guessed += cost is not None and cost.like != shape
        rows.append(Row(shape, len(alike), sum(map(len, alike)), cost, sum(times), problems.get(shape, "")))
    seconds = max(sum(row.seconds for row in rows) / busy, longest) + embedding + warm_up.start if costs else math.nan
    return Estimate(counts, rows, size, devices[0], warm_up.start, embedding, seconds,
                    _assumed(rows, busy, guessed, small))


def _assumed(rows: Sequence[Row], busy: int, guessed: int, small: Iterable[str]) -> list[str]:
    """The assumptions behind the figures."""
    assumed = [f"{'one worker is' if busy == 1 else f'{busy} workers are'} busy until the end",
               "nothing else uses the machine, or as much as during the warm-up",
               "no run stops early by patience, fails or is interrupted",
               "batches, packs and benchmarks of about the same size (to a power of two) take as long as the largest"]
    if guessed:
        assumed.append(f"{guessed} of {len(rows)} shapes were not tried and take as long as the nearest that was")
    if small:
        assumed.append(f"features are missing, so the warm-up trained on about {FEW} items: loading is underestimated")
    return assumed


def _shapes(packs: Sequence[Sequence[Job]]) -> dict[Shape, list[Sequence[Job]]]:
    """Packs by shape, the largest of each first: that one is tried."""
    from shiftbench.models.names import facts

    sizes: dict[str, tuple[int, dict[str, int]]] = {}
    by_shape: dict[Shape, list[tuple[int, Sequence[Job]]]] = {}
    for pack in packs:
        folder, runs = pack[0].benchmark, [job.run for job in pack]
        if folder not in sizes:
            benchmark = Benchmark.load(folder)
            sizes[folder] = len(benchmark), {batches: count_pools(benchmark, batches) for batches in BATCHES}
        rows, pools = sizes[folder]
        items = max(items_per_batch(run.batch_size, pools[run.batch_kind], run.domains_per_batch) for run in runs)
        shape = Shape(_common({run.label for run in runs}), _common({run.model for run in runs}),
                      _common({run.features or f"{facts(run.model).takes} {run.size or ''}".strip() for run in runs}),
                      _common({run.precision for run in runs}), _common({run.batch_kind for run in runs}),
                      _ceiling(items), _ceiling(len(pack)), _ceiling(rows))
        by_shape.setdefault(shape, []).append((items * len(pack), pack))
    return {shape: [pack for _, pack in sorted(sized, key=lambda pair: -pair[0])] for shape, sized in by_shape.items()}


def _common(values: set[str]) -> str:
    return values.pop() if len(values) == 1 else "mixed"


def _ceiling(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _measure_all(
    shapes: Mapping[Shape, Sequence[Sequence[Job]]], warm_up: "WarmUp", budget: float,
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[Shape, Cost], dict[Shape, str]]:
    """Measure the commonest shape of every method, then the second of each, and so on, until the budget is spent."""
    rank: Counter[tuple[str, str, str]] = Counter()
    order: list[tuple[int, Shape]] = []
    for shape in sorted(shapes, key=lambda shape: -sum(map(len, shapes[shape]))):
        order.append((rank[shape[:3]], shape))
        rank[shape[:3]] += 1
    costs: dict[Shape, Cost] = {}
    problems: dict[Shape, str] = {}
    began = time.monotonic()
    for number, (_, shape) in enumerate(sorted(order, key=lambda ranked: ranked[0])):
        if costs and time.monotonic() - began > budget:
            break
        try:
            costs[shape] = warm_up.measure(shapes[shape][0], shape)
        except ShiftBenchError as problem:
            problems[shape] = str(problem)
        if progress:
            progress(number + 1, len(order))
    return costs, problems


def _nearest(shape: Shape, costs: Mapping[Shape, Cost]) -> Cost | None:
    """The cost of the shape that differs least: in model and inputs, then method, then batch and pack."""
    def distance(other: Shape) -> tuple[bool, bool, float]:
        sizes = zip(shape[5:], other[5:], strict=True)
        return (other[1:4] != shape[1:4], other.method != shape.method,
                sum(abs(math.log2(ours / theirs)) for ours, theirs in sizes))

    return costs[min(costs, key=distance)] if costs else None


# The warm-up


class WarmUp:
    """As many workers as the sweep will have, training shortened runs in a scratch folder: all at once, the same runs
    except for their seeds, so that the time includes how much they slow each other down."""

    def __init__(self, scratch: Path, devices: Sequence[str], size: int, threads: int, small: set[str]) -> None:
        self.scratch, self.devices, self.size, self.threads, self.small = scratch, devices, size, threads, small
        self.workers: list[Worker] = []
        self.start = 0.0  # seconds until they were ready
        self.tried = False

    def measure(self, pack: Sequence[Job], shape: Shape) -> Cost:
        """Time few steps with one evaluation, more until the times differ enough, and few with an evaluation each."""
        if pack[0].collection in self.small:
            pack = self._on_few(pack)
        steps = max(FIRST + 1, *(job.run.steps for job in pack))
        if not self.tried:  # the first pack of a process also pays for what is loaded once
            self._time(pack, FIRST, FIRST, first=self.size)
            self.tried = True
        short_time = self._time(pack, FIRST, FIRST)
        enough = ENOUGH * max(1.0, short_time)
        n = max(4 * FIRST if self.devices[0] == "cpu" else STEADY, math.ceil(enough / self._pace(pack)))
        long_time = self._time(pack, n := min(n, steps), n)
        while long_time - short_time < enough / 2 and n < steps:
            long_time = self._time(pack, n := min(4 * n, steps), n)
        step = max(0.0, (long_time - short_time) / (n - FIRST))
        evaluation = max(0.0, (self._time(pack, FIRST, 1) - short_time) / (FIRST - 1))
        return Cost(max(0.0, long_time - step * n - evaluation), step, evaluation, shape)

    def _pace(self, pack: Sequence[Job]) -> float:
        """Seconds of a step by the log of the shortest warm-up: only to choose how long the next one is."""
        log = lines(self.scratch / "runs" / _short(pack, FIRST, FIRST, 0)[0].run.id / "log.jsonl")
        return max(1e-6, float(log[-1].get("seconds", 0.0)) / FIRST) if log else 1.0

    def _time(self, pack: Sequence[Job], steps: int, every: int, first: int = 0) -> float:
        """Mean seconds from handing a shortened pack to every worker until it is done; worker k gets the runs of number
        `first` + k."""
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
        devices = [self.devices[number % len(self.devices)] for number in range(self.size)]
        self.workers = [Worker.start(WorkerOptions(str(self.scratch / "runs"), device, self.threads, 30.0,
                                                   loaded_plugins()))
                        for device in devices]
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
        subset = Benchmark(benchmark.items[rows], benchmark.split[rows], benchmark.label[rows], benchmark.domain[rows],
                         benchmark.group[rows], benchmark.names, benchmark.card)
        if not folder.exists():
            subset.save(folder)
        return [job._replace(benchmark=str(folder), settings={**job.settings, "benchmark": subset.digest})
                for job in pack]

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.exitcode is None:
                worker.end()
        self.workers = []


def _short(pack: Sequence[Job], steps: int, every: int, number: int) -> list[Job]:
    """The same runs with `steps` steps and an evaluation every `every` of them; each number has its own seeds."""
    changed: dict[str, Any] = {"steps": steps, "eval_every": every, "patience": 0}
    return [job._replace(settings={**job.settings, **changed, "seed": job.settings["seed"] + 10**6 * number})
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
