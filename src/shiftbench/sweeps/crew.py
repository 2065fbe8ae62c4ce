"""Worker processes as the driver sees them: how one is started, spoken to and parted from, and how one died."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.sweeps.work import Job
from shiftbench.sweeps.worker import Terms, serve
from shiftbench.training.device import choose_device

Pack = dict[str, Job]
"""Run -> job."""

CONTEXT = get_context("spawn")
"""Processes are started fresh: a fork would inherit torch's threads and could hang."""

GUESSES = {"SIGKILL": ", out of memory? Lower batch_size or the number of workers", "SIGBUS": ", is the disk full?"}


@dataclass(eq=False)
class Worker:
    process: SpawnProcess
    pipe: "Connection[Any, Any]"
    place: str  # its device
    ready: bool = False
    pack: Pack = field(default_factory=dict)  # what it is doing

    @staticmethod
    def start(terms: Terms) -> "Worker":
        mine, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=serve, args=(theirs, terms), daemon=True)
        with _for_a_child(terms.threads):
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        return Worker(process, mine, terms.device)

    def give(self, pack: Pack) -> None:
        self.pack = pack
        with suppress(OSError):  # it died while it waited: we hear of that when we listen
            self.pipe.send(list(pack.values()))

    def end(self, patience: float = 1.0) -> None:
        """A worker ends when its pipe does; one that has not after some seconds is killed. Then its locks are free."""
        self.pipe.close()
        self.process.join(patience)
        if self.process.exitcode is None:
            self.process.kill()
        self.process.join()

    @property
    def death(self) -> str:
        """How its process ended."""
        code = self.process.exitcode or 0
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"killed by {name}{GUESSES.get(name, '')}"


def places(device: str) -> list[str]:
    """The devices to share out: every GPU for `auto` and `cuda`, else the one that is named."""
    if device not in ("auto", "cuda"):
        return [str(choose_device(device))]
    found: list[str] = []
    with suppress(ShiftBenchError):
        while True:
            found.append(str(choose_device(f"cuda:{len(found)}")))
    return found or [str(choose_device(device))]


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(workers: int) -> int:
    """With how many threads each of so many processes computes: its share of the cores, or OMP_NUM_THREADS if fewer."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores() // max(1, workers), int(said) if said.isdecimal() else cores()))


@contextmanager
def _for_a_child(threads: int) -> Iterator[None]:
    """What a process started now inherits: how many threads to compute with, and to leave Ctrl-C to the driver."""
    count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    before = {name: os.environ.get(name) for name in count}
    resource_tracker.ensure_running()  # multiprocessing's own; its start would let Ctrl-C through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(count)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
