"""Which runs of a sweep are handed to a worker together, because they train faster at once than one by one."""

import math
from collections.abc import Sequence
from typing import Any

from shiftbench.sweeps.work import Job
from shiftbench.training.device import choose_device
from shiftbench.training.run import Run

GRAPHS = 8
"""Image runs side by side on one GPU: more of them do not get more out of it (bench/train_gpu.py)."""
HEADS = 64
"""Heads in one product: more fall out of a processor's cache."""
FEW = 8
"""Packs are not made smaller than this to keep every worker busy: a stack of heads is filled up to it anyway."""


def plan(jobs: Sequence[Job], device: str = "auto", workers: int = 1) -> list[list[Job]]:
    """Packs of jobs on one benchmark and one kind of input, in the order of the jobs.

    On a GPU any such runs go side by side. On a CPU heads do that have batches of one size, which is all that differ in
    seed, learning rate, decay and the method's numbers; runs on images go one by one.
    """
    # With Ray the GPUs may be elsewhere: who asks for them by name is believed.
    on_gpu = device.startswith("cuda") or (device == "auto" and choose_device(device).type == "cuda")
    together: dict[Any, list[Job]] = {}
    for number, job in enumerate(jobs):
        run = job.run
        key: tuple[Any, ...] = (job.benchmark, job.collection, run.features, run.size)
        if not on_gpu:
            key += _batches(run) if run.features else (number,)
        together.setdefault(key, []).append(job)
    most = min(GRAPHS if on_gpu else HEADS, max(FEW, math.ceil(len(jobs) / max(1, workers))))
    return [pack[first:first + most] for pack in together.values() for first in range(0, len(pack), most)]


def _batches(run: Run) -> tuple[Any, ...]:
    return (run.model, run.method, run.batch_kind, run.resample, run.batch_size, run.domains_per_batch, run.steps,
            run.eval_every)
