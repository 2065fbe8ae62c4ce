"""Runs on this machine: a few processes, each with its share of the cores."""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.training import Run, train


class Job(NamedTuple):
    """A run and where its benchmark and collection are."""

    benchmark: Path
    collection: Path
    settings: Mapping[str, Any]


def run_all(
    jobs: Sequence[Job], out: Path, workers: int = 0, device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Do every run that is not done yet; gives the folders of all, in the order of the jobs.

    `workers` = 0 means one per core. Each worker computes with one thread's share of the cores, so that N workers do
    not fight for them. Processes are started fresh: a fork would inherit torch's threads and can hang.
    """
    folders = [out / Run.of(job.settings).id for job in jobs]
    open_jobs = [job for job, folder in zip(jobs, folders, strict=True) if not (folder / "done").exists()]
    done = len(jobs) - len(open_jobs)
    if progress:
        progress(done, len(jobs))
    if not open_jobs:
        return folders
    cores = os.cpu_count() or 1
    n = min(workers or cores, len(open_jobs))
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n, mp_context=fresh, initializer=_threads, initargs=(max(1, cores // n),)) as pool:
        futures = [pool.submit(_one, job, out, device) for job in open_jobs]
        for future in as_completed(futures):
            future.result()
            done += 1
            if progress:
                progress(done, len(jobs))
    return folders


def _threads(n: int) -> None:
    from shiftbench.training.loop import set_threads

    set_threads(n)


def _one(job: Job, out: Path, device: str) -> None:
    train(Benchmark.load(job.benchmark), Collection.load(job.collection), Run.of(job.settings), out,
          device=device, benchmark_path=job.benchmark, collection_path=job.collection)
