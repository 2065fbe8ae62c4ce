"""A worker's side of a store: runs are trained in a scratch folder of its machine, and sent as they get on."""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from shiftbench.errors import ShiftBenchError
from shiftbench.files import lock
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


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this machine for as long as the block lasts. Folders of workers that were killed are cleared away."""
    top = Path(tempfile.gettempdir()) / f"shiftbench-scratch-{os.getuid()}"
    top.mkdir(mode=0o700, exist_ok=True)
    if top.stat().st_uid != os.getuid() or top.is_symlink():
        raise ShiftBenchError(f"{top}: belongs to somebody else. Set TMPDIR to a folder of yours.")
    for guard in top.glob("*.lock"):
        with suppress(OSError), lock(guard) as free:
            if free:
                shutil.rmtree(guard.with_suffix(""), ignore_errors=True)
                guard.unlink(missing_ok=True)
    folder = top / uuid.uuid4().hex
    with lock(folder.with_suffix(".lock")):
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)


def _changed(folder: Path) -> int:
    """When a run last got further than before."""
    with suppress(OSError):
        return max((part.stat().st_mtime_ns for part in folder.iterdir()
                    if part.name == "done" or part.suffix == ".safetensors"), default=0)
    return 0
