"""Runs on this machine: worker processes that live through many packs, are replaced when killed, and end with us.

The driver only hands out packs and listens. What is done is known by the run folders alone, so that any process may die
at any moment: the next start goes on from there.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from shiftbench.errors import ShiftBenchError
from shiftbench.sweeps.crew import Pack, Worker, cores, places
from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.work import Job, Outcome
from shiftbench.sweeps.worker import Terms, give_up

__all__ = ["Job", "run_all", "run_packs"]

LOOK_AGAIN = 0.5
"""Seconds until a run that another process holds is looked at again."""

FALSE_STARTS = 5
"""Workers in a row that are killed before they are ready: then something is wrong with all of them."""

DISORDER = re.compile(r"\w*(Memory|Runtime|Accelerator)Error: ")
"""How a reason begins after which a process should not be trusted with another run: memory ran out, or a GPU failed."""


def run_packs(
    packs: Sequence[Sequence[Job]], out: Path | str, *, workers: int = 0, device: str = "auto",
    report: Callable[[Outcome], None] | None = None, retry_failed: bool = False, retries: int = 5,
    checkpoint_seconds: float = 30.0,
) -> list[Outcome]:
    """Do every run that is not done yet; gives how each ended, in the order of the jobs.

    The jobs of a pack are on one benchmark and are given to `do` together. `workers` = 0 means one per GPU, else one
    per core; they share the cores. `report` hears of every run once, first of those found done or failed (0 seconds).
    A run that failed before is tried again with `retry_failed` only. A run whose process is killed is done again from
    its last checkpoint; one that dies `retries` times more without getting further is recorded as failed. A run that
    another process is doing is waited for.
    """
    named = [{job.run.id: job for job in pack} for pack in packs]
    shared = places(device)
    size = workers or (cores() if shared == ["cpu"] else len(shared))
    terms = Terms(str(out), "", max(1, cores() // size), checkpoint_seconds)
    sweep = _Sweep(Path(out), shared, size, terms, report, retries)
    try:
        sweep.go(named, retry_failed)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Stopped with {len(sweep.ends)} of {sum(map(len, named))} runs ended. Start the same again to go on: what "
            "is done is kept, and unfinished runs go on from their last checkpoint.") from None
    finally:
        sweep.close()
    return [sweep.ends[run] for pack in named for run in pack]


def run_all(
    jobs: Sequence[Job], out: Path | str, workers: int = 0, device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Do every run, one at a time per worker; gives the folders in the order of the jobs. A failed run is an error."""
    ended = 0

    def count(outcome: Outcome) -> None:
        nonlocal ended
        ended += 1
        if progress:
            progress(ended, len(jobs))

    ends = run_packs([[job] for job in jobs], out, workers=workers, device=device, report=count)
    failed = [end for end in ends if end.state == "failed"]
    if failed:
        raise ShiftBenchError(f"{out}: {len(failed)} of {len(ends)} runs failed. The first, {failed[0].run}: "
                              f"{failed[0].reason} `shiftbench show {out}` lists all.")
    return [Path(out) / end.run for end in ends]


@dataclass(eq=False)
class _Sweep:
    """Who does what. A run that has not ended is in `queue`, in a worker's pack, or in `busy`: others have it."""

    out: Path
    places: list[str]
    size: int  # workers at most
    terms: Terms
    report: Callable[[Outcome], None] | None
    retries: int
    queue: deque[Pack] = field(default_factory=deque)
    busy: list[Pack] = field(default_factory=list)
    looked: float = 0.0  # at the busy ones, when
    ends: dict[str, Outcome] = field(default_factory=dict)
    deaths: dict[str, tuple[int, int]] = field(default_factory=dict)  # how many since which checkpoint
    workers: list[Worker] = field(default_factory=list)
    false_starts: int = 0

    def go(self, packs: Sequence[Pack], retry_failed: bool) -> None:
        seen: set[str] = set()
        for pack in packs:
            fresh = {run: job for run, job in pack.items() if run not in seen}
            seen |= fresh.keys()
            if retry_failed:
                for run in fresh:
                    with suppress(OSError):
                        (self.out / run / "failed.json").unlink()
            left = self._left(fresh)
            if left:
                self.queue.append(left)
        while True:
            self._look_again()
            self._hand_out()
            if not (self.queue or self.busy or any(worker.pack for worker in self.workers)):
                return
            ready = wait([worker.pipe for worker in self.workers], LOOK_AGAIN if self.busy else None)
            for worker in [worker for worker in self.workers if worker.pipe in ready]:
                self._hear(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.pipe.close()  # all of them, before we wait for the first
        for worker in self.workers:
            worker.end(1.0 if worker.ready else 0.0)  # one that is still starting would not notice

    def _left(self, pack: Pack) -> Pack:
        """What is still to be done of a pack: another process may have ended some of it, or be at it."""
        left, held = {}, {}
        for run, job in pack.items():
            state = look(self.out / run)
            if state in ("done", "failed"):
                self._end(Outcome(run, state, failure(self.out / run) if state == "failed" else ""))
            elif state == "running":
                held[run] = job
            else:
                left[run] = job
        if held:
            self.busy.append(held)
        return left

    def _look_again(self) -> None:
        if self.busy and time.monotonic() - self.looked >= LOOK_AGAIN:
            held, self.busy, self.looked = self.busy, [], time.monotonic()
            self.queue.extend(pack for pack in map(self._left, held) if pack)

    def _hand_out(self) -> None:
        idle = [worker for worker in self.workers if worker.ready and not worker.pack]
        while idle and self.queue:
            pack = self._left(self.queue.popleft())
            if pack:
                idle.pop().give(pack)
        starting = sum(not worker.ready for worker in self.workers)
        for _ in range(min(self.size - len(self.workers), len(self.queue) - starting)):
            taken = [worker.place for worker in self.workers]
            place = min(self.places, key=taken.count)
            self.workers.append(Worker.start(self.terms._replace(device=place)))

    def _hear(self, worker: Worker) -> None:
        try:
            ends: list[Outcome] = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        worker.ready, self.false_starts = True, 0
        pack, worker.pack = worker.pack, {}
        for end in ends:
            if end.state == "busy":
                self.busy.append({end.run: pack[end.run]})
            else:
                self._end(end)
        if any(end.state == "failed" and DISORDER.match(end.reason) for end in ends):
            worker.end()
            self.workers.remove(worker)

    def _bury(self, worker: Worker) -> None:
        """A worker died. Its runs are handed out again: together once, then each alone, to see which is to blame."""
        worker.end(10.0)  # it is dying already, and how it does is told by itself
        self.workers.remove(worker)
        if not worker.ready:
            self.false_starts += 1
            if (worker.process.exitcode or 0) >= 0 or self.false_starts == FALSE_STARTS:
                raise ShiftBenchError(
                    f"A worker process ended before it was ready ({worker.death}). Workers import the script that "
                    "starts them: put the call below `if __name__ == \"__main__\":`. Otherwise see what it said above.")
        left, together = self._left(worker.pack), {}
        for run, job in left.items():
            count = self._count_death(run)
            if count > self.retries and len(left) == 1:
                reason = f"Its process died {count} times without getting further: {worker.death}."
                end = give_up(self.out / run, reason)
                self.busy.append({run: job}) if end.state == "busy" else self._end(end)
            elif count > 1:
                self.queue.append({run: job})
            else:
                together[run] = job
        if together:
            self.queue.append(together)

    def _count_death(self, run: str) -> int:
        """How often its process died since its last checkpoint."""
        try:
            saved = (self.out / run / "resume.safetensors").stat().st_mtime_ns
        except OSError:
            saved = 0
        count, before = self.deaths.get(run, (0, 0))
        self.deaths[run] = count + 1 if saved == before else 1, saved
        return self.deaths[run][0]

    def _end(self, outcome: Outcome) -> None:
        self.ends[outcome.run] = outcome
        if self.report:
            self.report(outcome)
