"""How long a sweep will take, from a warm-up: a real worker trains a few steps of every shape of run."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.staging import scratch
from shiftbench.data.benchmark import Benchmark
from shiftbench.sweeps.crew import cores, places, threads_of
from shiftbench.sweeps.features import wanted
from shiftbench.sweeps.packs import plan
from shiftbench.sweeps.status import look
from shiftbench.sweeps.warm import FEW, Cost, Shape, Warm, embedding_seconds
from shiftbench.sweeps.work import Job


class Row(NamedTuple):
    """A line of the table: a shape, its packs and runs, what they cost, or why the warm-up failed."""

    shape: Shape
    packs: int
    runs: int
    cost: Cost | None
    seconds: float  # of one worker, for all of its packs
    problem: str = ""


class Estimate(NamedTuple):
    """What is left to do and how long that takes. `seconds` is NaN where no warm-up went well."""

    counts: Mapping[tuple[str, str], Counter[str]]  # benchmark, method -> state -> runs
    rows: Sequence[Row]
    workers: int
    device: str
    start: float  # seconds until a worker is ready
    embedding: float
    seconds: float
    assumed: Sequence[str]


def estimate(
    jobs: Sequence[Job], out: Path | str, *, workers: int = 0, device: str = "auto", retry_failed: bool = False,
    budget: float = 120.0, progress: Callable[[int, int], None] | None = None,
) -> Estimate:
    """Count the runs of a study and time a warm-up of what is left. Nothing is written below `out`.

    After `budget` seconds no further shape is tried; what is left takes the time of its nearest neighbour.
    """
    states = [look(Path(out) / job.run.id) for job in jobs]
    counts: dict[tuple[str, str], Counter[str]] = {}
    for job, state in zip(jobs, states, strict=True):
        counts.setdefault((Path(job.benchmark).name, str(job.settings["method"])), Counter())[state] += 1
    left = [job for job, state in zip(jobs, states, strict=True)
            if state != "done" and (retry_failed or state != "failed")]
    devices = places(device)
    size = workers or (len(devices) if devices != ["cpu"] else cores())
    if not left:
        return Estimate(counts, [], size, devices[0], 0.0, 0.0, 0.0, [])
    packs = plan(left, devices[0], size)
    shapes = _shapes(packs)
    wants = wanted(left)
    embedding = sum(embedding_seconds(want, devices[0]) for want in wants)
    with scratch() as folder:
        small = {want.collection for want in wants if len(want.missing) > FEW}
        busy = min(size, len(packs))
        warm = Warm(folder, devices, busy, threads_of(size), small)
        try:
            costs, problems = _measure_all(shapes, warm, budget, progress)
        finally:
            warm.close()
    rows, longest, guessed = [], 0.0, 0
    for shape, mine in shapes.items():
        cost = costs.get(shape) or _nearest(shape, costs)
        times = [cost.of(pack) for pack in mine] if cost else []
        longest = max([longest, *times])
        guessed += cost is not None and cost.like != shape
        rows.append(Row(shape, len(mine), sum(map(len, mine)), cost, sum(times), problems.get(shape, "")))
    seconds = max(sum(row.seconds for row in rows) / busy, longest) + embedding + warm.start if costs else math.nan
    told = _assumed(rows, busy, guessed, small)
    return Estimate(counts, rows, size, devices[0], warm.start, embedding, seconds, told)


def _assumed(rows: Sequence[Row], busy: int, guessed: int, small: Iterable[str]) -> list[str]:
    """What the figures rest on, in words."""
    told = [f"{'one worker is' if busy == 1 else f'{busy} workers are'} busy until the end",
            "nothing else uses the machine, or as much as during the warm-up",
            "no run stops early by patience, fails or is interrupted",
            "batches, packs and benchmarks of about the same size (to a power of two) take as long as the largest"]
    if guessed:
        told.append(f"{guessed} of {len(rows)} shapes were not tried and take as long as the nearest that was")
    if small:
        told.append(f"features are missing, so the warm-up trained on about {FEW} items: loading is underestimated")
    return told


def _shapes(packs: Sequence[Sequence[Job]]) -> dict[Shape, list[Sequence[Job]]]:
    """Packs by shape, the largest first: it is the one that is tried."""
    from shiftbench.models.names import CATALOGUE

    made: dict[str, tuple[int, dict[str, int]]] = {}
    found: dict[Shape, list[tuple[int, Sequence[Job]]]] = {}
    for pack in packs:
        folder, runs = pack[0].benchmark, [job.run for job in pack]
        if folder not in made:
            benchmark = Benchmark.load(folder)
            train = benchmark.rows("train")
            pools = {kind: len(np.unique(getattr(benchmark, kind)[train])) for kind in ("domain", "group")}
            made[folder] = len(benchmark), {"plain": 1, **pools}
        rows, pools = made[folder]
        items = max(run.batch_size * min(pools[run.batch_kind], run.domains_per_batch or pools[run.batch_kind])
                    for run in runs)
        shape = Shape(_one({run.method for run in runs}), _one({run.model for run in runs}),
                      _one({run.features or f"{CATALOGUE[run.model].takes} {run.size or ''}".strip() for run in runs}),
                      _one({run.precision for run in runs}), _one({run.batch_kind for run in runs}),
                      _ceiling(items), _ceiling(len(pack)), _ceiling(rows))
        found.setdefault(shape, []).append((items * len(pack), pack))
    return {shape: [pack for _, pack in sorted(mine, key=lambda one: -one[0])] for shape, mine in found.items()}


def _one(words: set[str]) -> str:
    return words.pop() if len(words) == 1 else "mixed"


def _ceiling(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _measure_all(
    shapes: Mapping[Shape, Sequence[Sequence[Job]]], warm: Warm, budget: float,
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[Shape, Cost], dict[Shape, str]]:
    """The commonest shape of every method first, then the second of each: so the budget cuts where it hurts least."""
    rank: Counter[tuple[str, str, str]] = Counter()
    order: list[tuple[int, Shape]] = []
    for shape in sorted(shapes, key=lambda one: -sum(map(len, shapes[one]))):
        order.append((rank[shape[:3]], shape))
        rank[shape[:3]] += 1
    costs: dict[Shape, Cost] = {}
    problems: dict[Shape, str] = {}
    began = time.monotonic()
    for number, (_, shape) in enumerate(sorted(order, key=lambda one: one[0])):
        if costs and time.monotonic() - began > budget:
            break
        try:
            costs[shape] = warm.measure(shapes[shape][0], shape)
        except ShiftBenchError as problem:
            problems[shape] = str(problem)
        if progress:
            progress(number + 1, len(order))
    return costs, problems


def _nearest(shape: Shape, costs: Mapping[Shape, Cost]) -> Cost | None:
    """The cost of the shape that differs least: in model and inputs, then method, then batch and pack."""
    def apart(other: Shape) -> tuple[bool, bool, float]:
        sizes = zip(shape[5:], other[5:], strict=True)
        return (other[1:4] != shape[1:4], other.method != shape.method,
                sum(abs(math.log2(mine / theirs)) for mine, theirs in sizes))

    return costs[min(costs, key=apart)] if costs else None
