"""Runs on this machine: worker processes that live through many packs, are replaced when killed, and end with us.

The driver only hands out packs and listens. The run folders alone say what is done, so that any process may die at any
moment: the next start goes on from there.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import loaded_plugins
from shiftbench.sweeps.jobs import Job, owners_here
from shiftbench.sweeps.ledger import LOOK_AGAIN, Ledger, ResultsFolder
from shiftbench.sweeps.workers import Worker, WorkerOptions, attempt, cores, devices_for, threads_of
from shiftbench.training.run import Outcome

FALSE_STARTS = 5
"""Workers in a row that are killed before they are ready: then something is wrong with all of them."""

DISORDER = re.compile(r"\w*(Memory|Runtime|Accelerator)Error: ")
"""The start of a reason after which a process should not get another run: memory ran out, or a GPU failed."""


def run_packs(
    packs: Sequence[Sequence[Job]], out: Path | str, *, workers: int = 0, device: str = "auto",
    report: Callable[[Outcome], None] | None = None, retry_failed: bool = False, retries: int = 5,
    checkpoint_seconds: float = 30.0,
) -> list[Outcome]:
    """Train every run that is not done yet; returns how each ended, in the order of the jobs.

    The jobs of a pack are on one benchmark and are trained together. `workers` = 0 means one per GPU, else one
    per core; they share the cores. `report` is called once for every run, first for those already done or failed (0
    seconds).
    A run that failed before is tried again with `retry_failed` only. A run whose process is killed goes on from its
    last checkpoint; one that dies `retries` times more without getting further is recorded as failed. A run that
    another process is doing is waited for. Runs with methods of a notebook are trained in this process.
    """
    packs_by_run = [{job.run.id: job for job in pack} for pack in packs]
    devices = devices_for(device)
    size = workers or (cores() if devices == ["cpu"] else len(devices))
    options = WorkerOptions(str(out), "", threads_of(size), checkpoint_seconds, loaded_plugins())
    ledger = Ledger(ResultsFolder(Path(out)), report, retries)
    sweep = _Sweep(ledger, devices, size, options)
    try:
        ledger.sort(packs_by_run, retry_failed)
        if any(owners_here(pack) for pack in packs):
            sweep.train_here()
        else:
            sweep.go()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(ledger.stopped(sum(map(len, packs_by_run)))) from None
    finally:
        sweep.close()
    return [ledger.ends[run] for pack in packs_by_run for run in pack]


@dataclass(eq=False)
class _Sweep:
    """Workers, and the packs that they get from the ledger."""

    ledger: Ledger
    devices: list[str]
    size: int  # workers at most
    options: WorkerOptions
    workers: list[Worker] = field(default_factory=list)
    false_starts: int = 0

    def go(self) -> None:
        while True:
            self.ledger.look_again()
            self._hand_out()
            if not (self.ledger.queue or self.ledger.busy or any(worker.pack for worker in self.workers)):
                return
            ready = wait([worker.pipe for worker in self.workers], LOOK_AGAIN if self.ledger.busy else None)
            for worker in [worker for worker in self.workers if worker.pipe in ready]:
                self._receive(worker)

    def train_here(self) -> None:
        """Train in this process, pack after pack: no other process can load what was registered in a notebook."""
        options = self.options._replace(device=self.devices[0])
        while self.ledger.queue or self.ledger.busy:
            self.ledger.look_again()
            if not self.ledger.queue:
                time.sleep(LOOK_AGAIN)
                continue
            pack = self.ledger.queue.popleft()
            if remaining := self.ledger.remaining(pack, self.ledger.results.states(pack)):
                self.ledger.record(remaining, attempt(list(remaining.values()), options))

    def close(self) -> None:
        for worker in self.workers:
            worker.pipe.close()  # all of them, before we wait for the first
        for worker in self.workers:
            worker.end(1.0 if worker.ready else 0.0)  # one that is still starting would not notice

    def _hand_out(self) -> None:
        idle = [worker for worker in self.workers if worker.ready and not worker.pack]
        while idle and self.ledger.queue:
            pack = self.ledger.queue.popleft()
            if remaining := self.ledger.remaining(pack, self.ledger.results.states(pack)):
                idle.pop().give(remaining)
        starting = sum(not worker.ready for worker in self.workers)
        for _ in range(min(self.size - len(self.workers), len(self.ledger.queue) - starting)):
            in_use = [worker.device for worker in self.workers]
            device = min(self.devices, key=in_use.count)
            self.workers.append(Worker.start(self.options._replace(device=device)))

    def _receive(self, worker: Worker) -> None:
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

    def _remove_dead(self, worker: Worker) -> None:
        worker.end(10.0)  # it is dying already; wait for its exit code
        self.workers.remove(worker)
        if not worker.ready:
            self.false_starts += 1
            if (worker.process.exitcode or 0) >= 0 or self.false_starts == FALSE_STARTS:
                raise ShiftBenchError(
                    f"A worker process ended before it was ready ({worker.death}). Workers import the script that "
                    "starts them: put the call below `if __name__ == \"__main__\":`. Otherwise see its output above.")
        self.ledger.lost(worker.pack, "Its process died", worker.death)
