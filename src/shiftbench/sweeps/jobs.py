"""What a sweep hands out: runs as jobs, packs of jobs that train faster together, and the features that they need."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Ints
from shiftbench.core.backend import choose_device, load_torch
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.registry import Owner, find
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import MARKER, Collection
from shiftbench.models.names import COLUMNS, SENTENCES, check_unseen
from shiftbench.sweeps.storage import is_url
from shiftbench.training.run import Outcome, Run, own_parts, split_features

if TYPE_CHECKING:
    from shiftbench.sweeps.study import Study

GRAPHS = 8
"""Image runs side by side on one GPU: more of them are no faster (bench/train_gpu.py)."""
HEADS = 64
"""Heads in one product: more do not fit a processor's cache."""
FEW = 8
"""The least size of packs, even where smaller ones would keep more workers busy: stacks of heads are padded to it."""


class Job(NamedTuple):
    """A run and where its benchmark and collection are. Plain data: it goes to other processes and other machines."""

    benchmark: str
    collection: str
    settings: Mapping[str, Any]  # of the Run

    @property
    def run(self) -> Run:
        return Run.of(self.settings)


def owners_here(pack: Sequence[Job]) -> dict[str, Owner]:
    """The code used by the runs of a pack that was registered in a notebook: other processes cannot load it."""
    return {name: owner for job in pack for name, owner in own_parts(job.settings).items()
            if not owner.file}


def train_jobs(
    pack: Sequence[Job], out: Path | str, device: str = "auto", checkpoint_seconds: float = 30.0,
    progress: Advance | None = None,
) -> list[Outcome]:
    """Train the runs of a pack in this process; all are on one benchmark. A failure of one is recorded, and the others
    go on."""
    from shiftbench.training.loop import train_pack

    first = pack[0]
    return train_pack(
        Benchmark.load(first.benchmark), _collection(first.collection), [job.run for job in pack], out,
        device=device, benchmark_path=first.benchmark, progress=progress, checkpoint_seconds=checkpoint_seconds)


def _collection(folder: str) -> Collection:
    """A collection as it is on disk now; a worker that does many packs on it reads and hashes it once."""
    try:
        state = os.stat(Path(folder) / MARKER)
    except OSError:
        return Collection.load(folder)  # says what is wrong
    return _unchanged_collection(folder, state.st_dev, state.st_ino, state.st_mtime_ns)


@lru_cache(maxsize=1)
def _unchanged_collection(folder: str, *state: int) -> Collection:
    return Collection.load(folder)


def make_packs(jobs: Sequence[Job], device: str = "auto", workers: int = 1) -> list[list[Job]]:
    """Packs of jobs on one benchmark and one kind of input, in the order of the jobs.

    On a GPU any such runs go side by side. On a CPU only heads with batches of one size do: they may differ in seed,
    learning rate, weight decay and the method's hyperparameters. Runs on images go one by one.
    """
    # With Ray the GPUs may be elsewhere: `device = "cuda"` is taken at its word.
    on_gpu = device.startswith("cuda") or (device == "auto" and choose_device(device).type == "cuda")
    groups: dict[Any, list[Job]] = {}
    for number, job in enumerate(jobs):
        run = job.run
        key: tuple[Any, ...] = (job.benchmark, job.collection, run.features, run.size)
        if not on_gpu:
            key += _batches(run) if run.features else (number,)
        groups.setdefault(key, []).append(job)
    limit = min(GRAPHS if on_gpu else HEADS, max(FEW, math.ceil(len(jobs) / max(1, workers))))
    return [pack[first:first + limit] for pack in groups.values() for first in range(0, len(pack), limit)]


def _batches(run: Run) -> tuple[Any, ...]:
    return (run.model, run.label, run.batch_kind, run.resample, run.batch_size, run.domains_per_batch, run.steps,
            run.eval_every)


ENGINES = {"local": "shiftbench.sweeps.local", "ray": "shiftbench.sweeps.on_ray"}
"""Where the runs of a sweep are trained: modules whose `run_packs` take the same packs and leave the same folders."""


def check_out(out: Path | str, engine: str, logs: Sequence[str], leave_one_domain_out: bool) -> None:
    """Refuse a URL where only a folder will do: for the local engine, for logs, and for benchmarks built on the way."""
    if not is_url(out):
        return
    if engine == "local":
        raise ShiftBenchError(f"--out {out}: the local engine writes to a folder. Name one, or use --engine ray.")
    if logs or leave_one_domain_out:
        option = "leave_one_domain_out" if leave_one_domain_out else "--log"
        raise ShiftBenchError(f"--out {out}: {option} needs a folder that this machine sees, not a URL.")


class Features(NamedTuple):
    """Features of items of one collection: `rows` are all that runs need, `missing` those not in the cache."""

    collection: str
    features: str
    rows: Ints
    missing: Ints


def needed_features(jobs: Sequence[Job]) -> list[Features]:
    """What the runs on features need, one entry per collection and embedding."""
    needed: dict[tuple[str, str], dict[str, None]] = {}
    for job in jobs:
        if job.settings.get("features") and job.settings["features"] not in (COLUMNS, SENTENCES):
            needed.setdefault((job.collection, str(job.settings["features"])), {})[job.benchmark] = None
    entries = []
    for (folder, features), benchmarks in needed.items():
        collection = Collection.load(folder)
        rows = np.unique(np.concatenate([collection.index(Benchmark.load(path).items) for path in benchmarks]))
        present = _present(Path(folder), features, len(collection))
        entries.append(Features(folder, features, rows, rows[~present[rows]]))
    return entries


def embed_missing(
    jobs: Sequence[Job], device: str = "auto", progress: Advance | None = None
) -> None:
    """Compute and cache missing features. Where that fails, the runs that need them fail by themselves."""
    for entry in needed_features(jobs):
        if len(entry.missing):
            from shiftbench.training.inputs import embed

            backbone, size = split_features(entry.features)
            with suppress(ShiftBenchError):
                embed(Collection.load(entry.collection), entry.missing, backbone, size, folder=entry.collection,
                      progress=progress, device=device)


def _present(folder: Path, features: str, n: int) -> Bools:
    """Which items have these features, as far as is known without the backbone's weights."""
    backbone, size = split_features(features)
    for file in (folder / "features").glob(f"{backbone}@{size}-*/present.npy"):
        with suppress(OSError, ValueError, EOFError):
            marks = np.load(file, allow_pickle=False)
            if marks.shape == (n,) and marks.dtype == np.bool_:
                return np.asarray(marks)
    return np.zeros(n, np.bool_)


def sweep(
    study: "Study", out: Path | str, *, engine: str = "local", workers: int = 0, device: str = "auto",
    retry_failed: bool = False, logs: Sequence[str] = (), checkpoint_seconds: float = 30.0, strict: bool = False,
    progress: Callable[[Outcome, int], None] | None = None,
) -> list[Outcome]:
    """Train every run of a study with an engine; logs are copied meanwhile.

    With `strict` no run is started where the pretrained weights of one have seen subclasses of its target.
    """
    from shiftbench.sweeps.log_mirror import Mirror

    module = find(ENGINES, "engine", engine)
    check_out(out, engine, logs, study.leave_one_domain_out)
    jobs = study.jobs(out)
    if strict:
        check_all_unseen(jobs)
    report = None if progress is None else lambda end: progress(end, len(jobs))
    with Mirror(out, logs, [job.run.id for job in jobs]):
        load_torch()
        if not is_url(out):
            check_all_code(jobs, Path(out))
        embed_missing(jobs, device)
        packs = make_packs(jobs, device, workers or os.cpu_count() or 1)
        ends: list[Outcome] = import_module(module).run_packs(
            packs, out, workers=workers, device=device, report=report, retry_failed=retry_failed,
            checkpoint_seconds=checkpoint_seconds)
        return ends


def check_all_code(jobs: Sequence[Job], out: Path) -> None:
    """Raise an error where the user's code of a run has changed since it was made."""
    from shiftbench.training.folder import check_code

    for job in jobs:
        if own_parts(job.settings):
            check_code(out / job.run.id, job.run)


def check_all_unseen(jobs: Sequence[Job]) -> None:
    """Raise an error where the pretrained weights of a run have seen the target of its benchmark."""
    benchmarks = {folder: Benchmark.load(folder) for folder in {job.benchmark for job in jobs}}
    for job in jobs:
        check_unseen(job.run.to_json(), benchmarks[job.benchmark])
