"""A worker process: does packs of runs that come through a pipe, and ends at once when the other end is gone."""

import contextlib
import os
import resource
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from shiftbench.core.files import lock
from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.work import Job, Outcome, do
from shiftbench.training.folder import fail
from shiftbench.training.loop import set_threads


class Terms(NamedTuple):
    """What a worker is told once, at its start."""

    out: str
    device: str
    threads: int
    checkpoint_seconds: float


def serve(pipe: "Connection[Any, Any]", terms: Terms) -> None:
    """Say that we are ready, then do pack after pack until the driver lets go of the pipe or dies."""
    orders: SimpleQueue[list[Job]] = SimpleQueue()
    # A thread of its own reads the pipe: it must see the driver's end while a run is being trained.
    Thread(target=_listen, args=(pipe, orders), daemon=True).start()
    _step_back(terms.device)
    set_threads(terms.threads)
    with contextlib.suppress(BrokenPipeError):  # the driver is gone, and the thread ends us
        pipe.send([])
        while True:
            pipe.send(attempt(orders.get(), terms))


def attempt(pack: Sequence[Job], terms: Terms) -> list[Outcome]:
    """Do a pack; what keeps the whole pack from being done is recorded for each of its runs."""
    try:
        return do(pack, terms.out, device=terms.device, checkpoint_seconds=terms.checkpoint_seconds)
    except Exception as problem:
        return [give_up(Path(terms.out) / job.run.id, problem) for job in pack]


def give_up(folder: Path, problem: BaseException | str) -> Outcome:
    """Record that a run failed, unless it ended in some other way or another process has it."""
    state = look(folder)
    if state in ("done", "failed"):
        return Outcome(folder.name, state, failure(folder) if state == "failed" else "")
    try:
        with lock(folder / "lock") as mine:
            return Outcome(folder.name, "failed", fail(folder, problem)) if mine else Outcome(folder.name, "busy")
    except OSError:  # not even the lock can be made: the disk is full, or not ours to write to
        return Outcome(folder.name, "failed", fail(folder, problem))


def _listen(pipe: "Connection[Any, Any]", orders: "SimpleQueue[list[Job]]") -> None:
    try:
        while True:
            orders.put(pipe.recv())
    finally:  # nobody waits for us any more: stop as a kill would, what is on disk is whole at any moment
        os._exit(0)


def _step_back(device: str) -> None:
    """Where memory runs out it is a worker that ends, not the driver nor anything else on the machine.

    One allocation larger than the machine is refused, and the run fails by itself. Otherwise the kernel may end a
    process, and it takes us first.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if device == "cpu":  # CUDA reserves address space far beyond the memory there is
        with contextlib.suppress(OSError, ValueError):
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
