"""The books of every engine: which runs are left, which others have, how each ended, and which runs kill workers.

An engine says where results lie (`results`) and hands out packs from `queue`. The results decide which runs are done.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.sweeps.jobs import Job
from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.storage import Store
from shiftbench.training.folder import fail
from shiftbench.training.run import Outcome

Pack = dict[str, Job]
"""Run -> job."""

LOOK_AGAIN = 0.5
"""Seconds between two looks at a run that another process holds."""


class ResultsFolder:
    """Results in a folder that all workers see; a `Store` answers the same questions about results behind a URL."""

    def __init__(self, out: Path) -> None:
        self.url, self.out = str(out), out

    def states(self, runs: Iterable[str]) -> dict[str, str]:
        """Run -> done, failed, running, unfinished or not started."""
        return {run: look(self.out / run) for run in runs}

    def failure(self, run: str) -> str:
        return failure(self.out / run)

    def give_up(self, run: str, reason: str) -> str:
        """Record that a run failed; returns how it stands then."""
        return give_up(self.out / run, reason).state

    def forget_failure(self, run: str) -> None:
        with suppress(OSError):
            (self.out / run / "failed.json").unlink()

    def progress(self, run: str) -> str:
        """A text that changes with every checkpoint of a run."""
        with suppress(OSError):
            return str((self.out / run / "resume.safetensors").stat().st_mtime_ns)
        return ""


def give_up(folder: Path, problem: BaseException | str) -> Outcome:
    """Record that a run failed, unless it ended in some other way or another process has it."""
    state = look(folder)
    if state in ("done", "failed"):
        return Outcome(folder.name, state, failure(folder) if state == "failed" else "")
    try:
        with lock(folder / "lock") as free:
            return Outcome(folder.name, "failed", fail(folder, problem)) if free else Outcome(folder.name, "busy")
    except (ShiftBenchError, OSError):  # not even the lock can be made: the disk is full, or not ours to write to
        return Outcome(folder.name, "failed", fail(folder, problem))


@dataclass(eq=False)
class Ledger:
    """A run that has not ended is in `queue`, in a pack that an engine has handed out, or in `busy`, which others have.
    """

    results: ResultsFolder | Store
    report: Callable[[Outcome], None] | None
    retries: int
    queue: deque[Pack] = field(default_factory=deque)
    busy: list[Pack] = field(default_factory=list)
    looked: float = 0.0  # when the busy ones were last looked at
    ends: dict[str, Outcome] = field(default_factory=dict)
    deaths: dict[str, tuple[int, str]] = field(default_factory=dict)  # their number, and since which checkpoint

    def settle(self, packs: Sequence[Sequence[Job]], retry_failed: bool, train: Callable[[], None]) -> list[Outcome]:
        """Let an engine train what is left of these packs; returns how each run ended, in the order of the jobs."""
        by_run = [{job.run.id: job for job in pack} for pack in packs]
        try:
            self.sort(by_run, retry_failed)
            if self.queue or self.busy:
                train()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"Stopped with {len(self.ends)} of {sum(map(len, by_run))} runs ended. Start the same again to go on: "
                "what is done is kept, and unfinished runs go on from their last checkpoint.") from None
        return [self.ends[run] for pack in by_run for run in pack]

    def sort(self, packs: Sequence[Pack], retry_failed: bool) -> None:
        """Sort runs into ended, busy and queued ones by their results; a run that is in several packs counts once."""
        states = self.results.states(run for pack in packs for run in pack)
        seen: set[str] = set()
        for pack in packs:
            fresh = {run: job for run, job in pack.items() if run not in seen}
            seen |= fresh.keys()
            for run in fresh:
                if retry_failed and states[run] == "failed":
                    self.results.forget_failure(run)
                    states[run] = "unfinished"
            self.enqueue(fresh, states)

    def remaining(self, pack: Pack, states: Mapping[str, str]) -> Pack:
        """The runs of a pack still to be done, by their states: the others have ended, or another process has them."""
        for run in [run for run in pack if states[run] in ("done", "failed")]:
            self.end(Outcome(run, states[run], self.results.failure(run) if states[run] == "failed" else ""))
        elsewhere = {run: job for run, job in pack.items() if states[run] in ("running", "busy")}
        if elsewhere:
            self.busy.append(elsewhere)
        return {run: job for run, job in pack.items() if run not in elsewhere and run not in self.ends}

    def enqueue(self, pack: Pack, states: Mapping[str, str]) -> None:
        if remaining := self.remaining(pack, states):
            self.queue.append(remaining)

    def take(self) -> Pack:
        """What is still to be done of the next pack of the queue."""
        pack = self.queue.popleft()
        return self.remaining(pack, self.results.states(pack))

    def look_again(self) -> None:
        """Look at the runs of other processes now and then: they may have ended them, or died."""
        if self.busy and time.monotonic() - self.looked >= LOOK_AGAIN:
            packs, self.busy, self.looked = self.busy, [], time.monotonic()
            for pack in packs:
                self.enqueue(pack, self.results.states(pack))

    def record(self, pack: Pack, ends: Iterable[Outcome]) -> None:
        """Record how the runs of a pack ended."""
        for end in ends:
            if end.state == "busy":
                self.busy.append({end.run: pack[end.run]})
            else:
                self.end(end)

    def lost(self, pack: Pack, event: str, cause: str) -> None:
        """Queue the runs of a pack whose worker died: together once, then one by one, to find the cause."""
        remaining, together = self.remaining(pack, self.results.states(pack)), {}
        for run, job in remaining.items():
            count = self._count_death(run)
            if count > self.retries and len(remaining) == 1:
                reason = f"{event} {count} times without getting further: {cause}."
                state = self.results.give_up(run, reason)
                if state == "failed":
                    self.end(Outcome(run, state, reason))
                else:
                    self.enqueue({run: job}, {run: state})
            elif count > 1:
                self.queue.append({run: job})
            else:
                together[run] = job
        if together:
            self.queue.append(together)

    def _count_death(self, run: str) -> int:
        """How often a run's worker has died since its last checkpoint."""
        saved = self.results.progress(run)
        count, before = self.deaths.get(run, (0, ""))
        self.deaths[run] = count + 1 if saved == before else 1, saved
        return self.deaths[run][0]

    def end(self, outcome: Outcome) -> None:
        self.ends[outcome.run] = outcome
        if self.report:
            self.report(outcome)
