"""What every engine keeps: which runs are left, which others have, how each ended, and which runs kill workers.

An engine says where results lie (`results`) and hands out packs from `queue`. What is there decides what is done.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.storage import Store
from shiftbench.sweeps.workers import Pack, give_up
from shiftbench.training.run import Outcome

LOOK_AGAIN = 0.5
"""Seconds until a run that another process holds is looked at again."""


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
        """A word that changes with every checkpoint of a run."""
        with suppress(OSError):
            return str((self.out / run / "resume.safetensors").stat().st_mtime_ns)
        return ""


@dataclass(eq=False)
class Ledger:
    """A run that has not ended is in `queue`, in a pack that an engine has handed out, or in `busy`: others have it."""

    results: ResultsFolder | Store
    report: Callable[[Outcome], None] | None
    retries: int
    queue: deque[Pack] = field(default_factory=deque)
    busy: list[Pack] = field(default_factory=list)
    looked: float = 0.0  # at the busy ones, when
    ends: dict[str, Outcome] = field(default_factory=dict)
    deaths: dict[str, tuple[int, str]] = field(default_factory=dict)  # how many since which checkpoint

    def sort(self, packs: Sequence[Pack], retry_failed: bool) -> None:
        """Find out what is there already; a run that is in several packs counts once."""
        states = self.results.states(run for pack in packs for run in pack)
        seen: set[str] = set()
        for pack in packs:
            fresh = {run: job for run, job in pack.items() if run not in seen}
            seen |= fresh.keys()
            for run in fresh:
                if retry_failed and states[run] == "failed":
                    self.results.forget_failure(run)
                    states[run] = "unfinished"
            self.put(fresh, states)

    def left(self, pack: Pack, states: Mapping[str, str]) -> Pack:
        """What is still to be done of a pack, by the states of its runs: the others have ended, or others have them."""
        for run in [run for run in pack if states[run] in ("done", "failed")]:
            self.end(Outcome(run, states[run], self.results.failure(run) if states[run] == "failed" else ""))
        held = {run: job for run, job in pack.items() if states[run] in ("running", "busy")}
        if held:
            self.busy.append(held)
        return {run: job for run, job in pack.items() if run not in held and run not in self.ends}

    def put(self, pack: Pack, states: Mapping[str, str]) -> None:
        if left := self.left(pack, states):
            self.queue.append(left)

    def look_again(self) -> None:
        """At what others have, now and then: they may have ended it, or died."""
        if self.busy and time.monotonic() - self.looked >= LOOK_AGAIN:
            held, self.busy, self.looked = self.busy, [], time.monotonic()
            for pack in held:
                self.put(pack, self.results.states(pack))

    def hear(self, pack: Pack, ends: Iterable[Outcome]) -> None:
        """How the runs of a pack ended."""
        for end in ends:
            if end.state == "busy":
                self.busy.append({end.run: pack[end.run]})
            else:
                self.end(end)

    def lost(self, pack: Pack, what: str, how: str) -> None:
        """Repeat the runs of a pack whose worker died: together once, then one by one, to find the cause."""
        left, together = self.left(pack, self.results.states(pack)), {}
        for run, job in left.items():
            count = self._count_death(run)
            if count > self.retries and len(left) == 1:
                reason = f"{what} {count} times without getting further: {how}."
                state = self.results.give_up(run, reason)
                if state == "failed":
                    self.end(Outcome(run, state, reason))
                else:
                    self.put({run: job}, {run: state})
            elif count > 1:
                self.queue.append({run: job})
            else:
                together[run] = job
        if together:
            self.queue.append(together)

    def _count_death(self, run: str) -> int:
        """How often its worker died since its last checkpoint."""
        saved = self.results.progress(run)
        count, before = self.deaths.get(run, (0, ""))
        self.deaths[run] = count + 1 if saved == before else 1, saved
        return self.deaths[run][0]

    def end(self, outcome: Outcome) -> None:
        self.ends[outcome.run] = outcome
        if self.report:
            self.report(outcome)

    def stopped(self, runs: int) -> str:
        """The message for the person who stopped the sweep."""
        return (f"Stopped with {len(self.ends)} of {runs} runs ended. Start the same again to go on: what is done is "
                "kept, and unfinished runs go on from their last checkpoint.")
