"""Runs on this machine: worker processes that live through many packs, are replaced when killed, and end with us.

The driver only hands out packs and listens. The run folders alone say what is done, so that any process may die at any
moment: the next start goes on from there.
"""

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from shiftbench.core.backend import choose_device, set_threads
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import load_plugins, loaded_plugins
from shiftbench.sweeps.jobs import Job, owners_here, train_jobs
from shiftbench.sweeps.ledger import LOOK_AGAIN, Ledger, Pack, ResultsFolder, give_up
from shiftbench.training.run import Outcome

FALSE_STARTS = 5
"""Workers in a row that are killed before they are ready: then something is wrong with all of them."""

DISORDER = re.compile(r"\w*(Memory|Runtime|Accelerator)Error: ")
"""The start of a reason after which a process should not get another run: memory ran out, or a GPU failed."""

CONTEXT = get_context("forkserver") if sys.platform == "linux" else get_context("spawn")
"""A worker is never a fork of the driver: it would inherit torch's threads and could hang. On Linux it is a fork of a
server that has imported torch and done nothing else, so that any number of workers pay for one import."""
CONTEXT.set_forkserver_preload(["torch._dynamo", "shiftbench.sweeps.local", "shiftbench.training.loop"])

GUESSES = {"SIGKILL": ", out of memory? Lower batch_size or the number of workers", "SIGBUS": ", is the disk full?"}


def run_packs(
    packs: Sequence[Sequence[Job]], out: Path | str, *, workers: int = 0, device: str = "auto",
    report: Callable[[Outcome], None] | None = None, retry_failed: bool = False, retries: int = 5,
    checkpoint_seconds: float = 30.0,
) -> list[Outcome]:
    """Train every run that is not done yet; returns how each ended, in the order of the jobs.

    The jobs of a pack are on one benchmark and are trained together. `workers` = 0 means one per GPU, else one per
    core; they share the cores. `report` is called once for every run, first for those already done or failed (0
    seconds). A run that failed before is tried again with `retry_failed` only. A run whose process is killed goes on
    from its last checkpoint; one that dies `retries` times more without getting further is recorded as failed. A run
    that another process is doing is waited for. Runs with methods of a notebook are trained in this process.
    """
    with WorkerPool(out, workers, device, checkpoint_seconds) as pool:
        return pool.train(packs, Ledger(ResultsFolder(Path(out)), report, retries), retry_failed)


class WorkerPool:
    """The workers of this machine, which end with the block, and the packs that they get from a ledger."""

    ledger: Ledger

    def __init__(self, out: Path | str, workers: int, device: str, checkpoint_seconds: float = 30.0) -> None:
        self.devices = devices_for(device)
        self.size = workers or (cores() if self.devices == ["cpu"] else len(self.devices))
        self.options = WorkerOptions(str(out), "", threads_of(self.size), checkpoint_seconds, loaded_plugins())
        self.workers: list[Worker] = []
        self.false_starts = 0

    def __enter__(self) -> "WorkerPool":
        return self

    def train(self, packs: Sequence[Sequence[Job]], ledger: Ledger, retry_failed: bool = False) -> list[Outcome]:
        """Train what is left of these packs by the books of a ledger."""
        self.ledger = ledger
        return ledger.settle(packs, retry_failed, self._train_here if any(map(owners_here, packs)) else self._go)

    def _go(self) -> None:
        while True:
            self.ledger.look_again()
            self._hand_out()
            if not (self.ledger.queue or self.ledger.busy or any(worker.pack for worker in self.workers)):
                return
            ready = wait([worker.pipe for worker in self.workers], LOOK_AGAIN if self.ledger.busy else None)
            for worker in [worker for worker in self.workers if worker.pipe in ready]:
                self._receive(worker)

    def _train_here(self) -> None:
        """Train in this process, pack after pack: no other process can load what was registered in a notebook."""
        options = self.options._replace(device=self.devices[0])
        while self.ledger.queue or self.ledger.busy:
            self.ledger.look_again()
            if not self.ledger.queue:
                time.sleep(LOOK_AGAIN)
                continue
            if remaining := self.ledger.take():
                self.ledger.record(remaining, attempt(list(remaining.values()), options))

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.pipe.close()  # all of them, before we wait for the first
        for worker in self.workers:
            worker.end(1.0 if worker.ready else 0.0)  # one that is still starting would not notice

    def _hand_out(self) -> None:
        idle = [worker for worker in self.workers if worker.ready and not worker.pack]
        while idle and self.ledger.queue:
            if remaining := self.ledger.take():
                idle.pop().give(remaining)
        starting = sum(not worker.ready for worker in self.workers)
        for _ in range(min(self.size - len(self.workers), len(self.ledger.queue) - starting)):
            in_use = [worker.device for worker in self.workers]
            device = min(self.devices, key=in_use.count)
            self.workers.append(Worker.start(self.options._replace(device=device)))

    def _receive(self, worker: "Worker") -> None:
        try:
            ends: list[Outcome] = worker.pipe.recv()
        except (EOFError, OSError):
            self._remove_dead(worker)
            return
        worker.ready, self.false_starts = True, 0
        pack, worker.pack = worker.pack, {}
        self.ledger.record(pack, ends)
        if any(end.state == "failed" and DISORDER.match(end.reason) for end in ends):
            worker.end()
            self.workers.remove(worker)

    def _remove_dead(self, worker: "Worker") -> None:
        worker.end(10.0)  # it is dying already; wait for its exit code
        self.workers.remove(worker)
        if not worker.ready:
            self.false_starts += 1
            if (worker.process.exitcode or 0) >= 0 or self.false_starts == FALSE_STARTS:
                raise ShiftBenchError(
                    f"A worker process ended before it was ready ({worker.death}). Workers import the script that "
                    "starts them: put the call below `if __name__ == \"__main__\":`. Otherwise see its output above.")
        self.ledger.lost(worker.pack, "Its process died", worker.death)


# The driver's side of a worker


class WorkerOptions(NamedTuple):
    """What a worker gets once, at its start."""

    out: str
    device: str
    threads: int
    checkpoint_seconds: float
    plugins: tuple[str, ...] = ()  # the user's own code, which the driver has loaded


@dataclass(eq=False)
class Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    device: str
    ready: bool = False
    pack: Pack = field(default_factory=dict)  # what it is doing

    @staticmethod
    def start(options: WorkerOptions) -> "Worker":
        ours, theirs = CONTEXT.Pipe()
        with _for_a_child(options.threads):
            process = CONTEXT.Process(target=serve, args=(theirs, options, dict(os.environ)), daemon=True)
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        return Worker(process, ours, options.device)

    def give(self, pack: Pack) -> None:
        self.pack = pack
        with suppress(OSError):  # it died while it waited: reading its pipe will tell
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


def devices_for(device: str) -> list[str]:
    """The devices to share out: every GPU for `auto` and `cuda`, else the one that is named."""
    if device not in ("auto", "cuda"):
        return [str(choose_device(device))]
    gpus: list[str] = []
    with suppress(ShiftBenchError):
        while True:
            gpus.append(str(choose_device(f"cuda:{len(gpus)}")))
    return gpus or [str(choose_device(device))]


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(workers: int) -> int:
    """Threads of each of `workers` processes: its share of the cores, or OMP_NUM_THREADS if that is fewer."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores() // max(1, workers), int(threads) if threads.isdecimal() else cores()))


@contextmanager
def _for_a_child(threads: int) -> Iterator[None]:
    """A process started in this block inherits its number of threads, and leaves Ctrl-C to the driver."""
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


# Inside a worker process


def serve(pipe: "Connection[Any, Any]", options: WorkerOptions, environment: Mapping[str, str]) -> None:
    """Say that we are ready, then do pack after pack until the driver lets go of the pipe or dies."""
    os.environ.clear()  # a fork has the environment that the server was started in
    os.environ.update(environment)
    orders: SimpleQueue[list[Job]] = SimpleQueue()
    # A thread of its own reads the pipe: it must see the driver's end while a run is being trained.
    Thread(target=_listen, args=(pipe, orders), daemon=True).start()
    _step_back(options.device)
    set_threads(options.threads)
    load_plugins(options.plugins)  # a job names what they register
    with suppress(BrokenPipeError):  # the driver is gone, and the thread ends us
        pipe.send([])
        while True:
            pipe.send(attempt(orders.get(), options))


def attempt(pack: Sequence[Job], options: WorkerOptions) -> list[Outcome]:
    """Train a pack; an error that stops the whole pack is recorded for each of its runs."""
    try:
        return train_jobs(pack, options.out, device=options.device, checkpoint_seconds=options.checkpoint_seconds)
    except Exception as problem:
        return [give_up(Path(options.out) / job.run.id, problem) for job in pack]


def _listen(pipe: "Connection[Any, Any]", orders: "SimpleQueue[list[Job]]") -> None:
    try:
        while True:
            orders.put(pipe.recv())
    finally:  # the driver is gone: stop as if killed; files on disk are complete at any moment
        os._exit(0)


def _step_back(device: str) -> None:
    """When memory runs out, let a worker end, not the driver or anything else on the machine.

    One allocation larger than the machine is refused, and the run fails by itself. Otherwise the kernel may kill a
    process, and it kills a worker first.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if device == "cpu":  # CUDA reserves address space far beyond the memory there is
        with suppress(OSError, ValueError):
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
