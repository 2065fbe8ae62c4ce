"""A worker's side of a store: runs are trained in a scratch folder of its machine, and sent as they get on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.staging import scratch
from shiftbench.sweeps.storage import Store
from shiftbench.sweeps.work import Job, Outcome
from shiftbench.sweeps.worker import Terms, attempt

TRIES = 3
"""How often a finished run is sent before it counts as failed: hours of training are worth a second call."""


def do_stored(pack: Sequence[Job], terms: Terms) -> list[Outcome]:
    """Do a pack whose results go to the store at `terms.out`: go on from what is there, send what comes.

    What keeps a run from being brought or sent is its outcome here, not a record in the store: it is tried again with
    the next start.
    """
    ends, left = [], []
    with scratch() as folder:
        for job in pack:
            run = job.run.id
            try:
                if Store(terms.out).bring(run, folder / run):
                    ends.append(Outcome(run, "done"))
                else:
                    left.append(job)
            except (ShiftBenchError, OSError) as problem:
                ends.append(Outcome(run, "failed", str(problem)))
        if left:
            with sending(terms.out, [job.run.id for job in left], folder, terms.checkpoint_seconds):
                found = attempt(left, terms._replace(out=str(folder)))
            for end in found:
                trouble = _sent(terms.out, end.run, folder / end.run)
                ends.append(end._replace(state="failed", reason=trouble) if trouble else end)
    return ends


@contextmanager
def sending(url: str, runs: Sequence[str], folder: Path, seconds: float) -> Iterator[None]:
    """Inside, the checkpoints of these runs go from `folder` to the store now and then, from a thread of its own.

    A store that does not answer now is asked again later: training does not wait for it.
    """
    over = Event()

    def keep_sending() -> None:
        sent = dict.fromkeys(runs, 0)
        while not over.wait(max(0.2, seconds)):
            for run in runs:
                now = _changed(folder / run)
                if now != sent[run]:
                    with suppress(ShiftBenchError, OSError):
                        Store(url).send(run, folder / run)
                        sent[run] = now

    thread = Thread(target=keep_sending, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _sent(url: str, run: str, folder: Path) -> str:
    """Send how a run ended, more than once if need be; gives what went wrong, empty when it is there."""
    reason = ""
    for trial in range(TRIES):
        time.sleep(trial**2)
        try:
            Store(url).send(run, folder)
            return ""
        except (ShiftBenchError, OSError) as problem:
            reason = str(problem)
    return reason


def _changed(folder: Path) -> int:
    """When a run last got further than before."""
    with suppress(OSError):
        return max((part.stat().st_mtime_ns for part in folder.iterdir()
                    if part.name == "done" or part.suffix == ".safetensors"), default=0)
    return 0
