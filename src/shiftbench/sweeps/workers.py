"""Worker processes: how the driver starts them, hands them packs and learns how they died; and what they do."""

import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.core.later import choose_device, set_threads
from shiftbench.core.registry import load_plugins
from shiftbench.sweeps.jobs import Job, train_jobs
from shiftbench.sweeps.status import failure, look
from shiftbench.training.folder import fail
from shiftbench.training.run import Outcome

Pack = dict[str, Job]
"""Run -> job."""

CONTEXT = get_context("forkserver") if sys.platform == "linux" else get_context("spawn")
"""A worker is never a fork of the driver: it would inherit torch's threads and could hang. On Linux it is a fork of a
server that has imported torch and done nothing else, so that any number of workers pay for one import."""
CONTEXT.set_forkserver_preload(["torch._dynamo", "shiftbench.sweeps.workers", "shiftbench.training.loop"])

GUESSES = {"SIGKILL": ", out of memory? Lower batch_size or the number of workers", "SIGBUS": ", is the disk full?"}


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


def give_up(folder: Path, problem: BaseException | str) -> Outcome:
    """Record that a run failed, unless it ended in some other way or another process has it."""
    state = look(folder)
    if state in ("done", "failed"):
        return Outcome(folder.name, state, failure(folder) if state == "failed" else "")
    try:
        with lock(folder / "lock") as free:
            return Outcome(folder.name, "failed", fail(folder, problem)) if free else Outcome(folder.name, "busy")
    except OSError:  # not even the lock can be made: the disk is full, or not ours to write to
        return Outcome(folder.name, "failed", fail(folder, problem))


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
