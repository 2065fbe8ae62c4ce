"""Runs on a Ray cluster: every pack is a task, every run is known by its folder or its place in a store.

Ray moves no data for us. A task gets the names of a benchmark and a collection, which all machines must see as the
driver does, and leaves its results in OUT: a folder that all machines see, or a URL (`shiftbench.sweeps.storage`). So
anything may die. A lost worker or node costs what was not yet in a checkpoint; a driver that starts again finds what is
done. How to get into a cluster that asks for a token is told in `shiftbench.sweeps.cluster`.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftbench.errors import ShiftBenchError
from shiftbench.files import writing
from shiftbench.sweeps.cluster import Cluster, joined
from shiftbench.sweeps.crew import Pack, cores
from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.storage import Store, is_url
from shiftbench.sweeps.stored import do_stored
from shiftbench.sweeps.work import Job, Outcome
from shiftbench.sweeps.worker import Terms, attempt, give_up
from shiftbench.training.loop import set_threads

LOOK_AGAIN = 0.5
"""Seconds until a run that another process holds is looked at again."""

AT_ONCE = 1000
"""Tasks that Ray knows of at a time: enough for it to see that more machines would help, few enough to keep in hand."""

FALSE_STARTS = 5
"""Tasks in a row whose worker could not be set up: then something is wrong with all of them."""

LOSSES = {"WorkerCrashedError": "its process was killed", "NodeDiedError": "its node was lost",
          "OutOfMemoryError": "its node ran out of memory, lower batch_size"}
"""Ray's names for how a task is lost, in words."""


def run_packs(
    packs: Sequence[Sequence[Job]], out: Path | str, *, workers: int = 0, device: str = "auto",
    report: Callable[[Outcome], None] | None = None, retry_failed: bool = False, retries: int = 5,
    checkpoint_seconds: float = 30.0, address: str | None = None,
) -> list[Outcome]:
    """Do every run that is not done yet; gives how each ended, in the order of the jobs. As the local engine, on Ray.

    The cluster is that of this process, else at `address` or RAY_ADDRESS, else one started on this machine for as long
    as this takes. A task has one core, and one GPU where there are any and `device` is not cpu. `workers` limits how
    many tasks run at once; 0 means as many as there is room for. A run that loses its worker or its node goes on from
    its last checkpoint; one that loses it `retries` times more without getting further is recorded as failed.
    """
    named = [{job.run.id: job for job in pack} for pack in packs]
    sweep = _Sweep(Store(out) if is_url(out) else Folder(Path(out).absolute()), report, retries)
    try:
        sweep.sort(named, retry_failed)
        if sweep.queue or sweep.busy:
            with joined(address, workers) as cluster:
                sweep.go(cluster, workers, cluster.kind(device), checkpoint_seconds)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Stopped with {len(sweep.ends)} of {sum(map(len, named))} runs ended. Start the same again to go on: what "
            "is done is kept, and unfinished runs go on from their last checkpoint.") from None
    return [sweep.ends[run] for pack in named for run in pack]


def work(pack: Sequence[Job], terms: Terms, here: str, seen: Sequence[str]) -> list[Outcome]:
    """What a task does, on whichever machine. `seen` are files that the driver sees from the folder `here`."""
    with suppress(OSError):
        os.chdir(here)  # names in a study may be relative
    missing = [name for name in seen if not Path(name).exists()]
    if missing:
        raise ShiftBenchError(f"{missing[0]}: not there on node {socket.gethostname()}. All machines of a cluster must "
                              "see benchmarks, collections and results under the same names; or let --out be a URL.")
    set_threads(terms.threads)
    return do_stored(pack, terms) if is_url(terms.out) else attempt(pack, terms)


class Folder:
    """Results in a folder that all machines see. The same questions can be asked of a `Store`."""

    def __init__(self, out: Path) -> None:
        self.url, self.out = str(out), out

    def states(self, runs: Iterable[str]) -> dict[str, str]:
        return {run: self.look(run) for run in runs}

    def look(self, run: str) -> str:
        return look(self.out / run)

    def failure(self, run: str) -> str:
        return failure(self.out / run)

    def give_up(self, run: str, reason: str) -> str:
        """Record that a run failed; gives how it stands then."""
        return give_up(self.out / run, reason).state

    def forget_failure(self, run: str) -> None:
        with suppress(OSError):
            (self.out / run / "failed.json").unlink()

    def progress(self, run: str) -> str:
        """A word that changes with every checkpoint of a run."""
        with suppress(OSError):
            return str((self.out / run / "resume.safetensors").stat().st_mtime_ns)
        return ""

    def sign(self) -> list[str]:
        """A file by which a worker can tell that it sees the same folder."""
        with writing(self.out / f".seen-from-{socket.gethostname()}") as hidden:
            hidden.touch()
        return [str(self.out / f".seen-from-{socket.gethostname()}")]


@dataclass(eq=False)
class _Sweep:
    """Who does what. A run that has not ended is in `queue`, in a task under way, or in `busy`: others have it."""

    place: Folder | Store
    report: Callable[[Outcome], None] | None
    retries: int
    queue: deque[Pack] = field(default_factory=deque)
    busy: list[Pack] = field(default_factory=list)
    looked: float = 0.0  # at the busy ones, when
    ends: dict[str, Outcome] = field(default_factory=dict)
    deaths: dict[str, tuple[int, str]] = field(default_factory=dict)  # how many since which checkpoint
    tasks: dict[Any, Pack] = field(default_factory=dict)
    false_starts: int = 0

    def sort(self, packs: Sequence[Pack], retry_failed: bool) -> None:
        """Find out what is there already."""
        states = self.place.states(run for pack in packs for run in pack)
        seen: set[str] = set()
        for pack in packs:
            fresh = {run: job for run, job in pack.items() if run not in seen}
            seen |= fresh.keys()
            for run in fresh:
                if retry_failed and states[run] == "failed":
                    self.place.forget_failure(run)
                    states[run] = "unfinished"
            self._put(fresh, states)

    def go(self, cluster: Cluster, workers: int, device: str, checkpoint_seconds: float) -> None:
        ray = cluster.ray
        gpus = int(device == "cuda")
        room = workers or (cluster.gpus if gpus else cluster.cpus)
        threads = max(1, cores() // max(1, room)) if cluster.ours else 1
        terms = Terms(self.place.url, device, threads, checkpoint_seconds)
        # No retries by Ray: it would not know when to stop, nor that a run got further.
        task = ray.remote(work).options(num_cpus=1, num_gpus=gpus, max_retries=0, name="shiftbench")
        here, sign = os.getcwd(), self.place.sign()
        try:
            while True:
                self._look_again()
                while self.queue and len(self.tasks) < (workers or AT_ONCE):
                    pack = self.queue.popleft()
                    names = {name for job in pack.values() for name in (job.benchmark, job.collection)}
                    seen = sign + sorted(name for name in names if Path(name).exists())
                    self.tasks[task.remote(list(pack.values()), terms, here, seen)] = pack
                if self.tasks:
                    for ref in ray.wait(list(self.tasks), timeout=LOOK_AGAIN if self.busy else None)[0]:
                        self._hear(ray, ref)
                elif self.busy:
                    time.sleep(LOOK_AGAIN)
                else:
                    return
        finally:
            for ref in self.tasks:
                with suppress(Exception):  # the cluster may be what is lost
                    ray.cancel(ref, force=True)

    def _put(self, pack: Pack, states: Mapping[str, str]) -> None:
        """What is left of a pack, by the states of its runs: to be done, ended, or in other hands."""
        for run in [run for run in pack if states[run] in ("done", "failed")]:
            self._end(Outcome(run, states[run], self.place.failure(run) if states[run] == "failed" else ""))
        held = {run: job for run, job in pack.items() if states[run] in ("running", "busy")}
        left = {run: job for run, job in pack.items() if run not in held and run not in self.ends}
        if held:
            self.busy.append(held)
        if left:
            self.queue.append(left)

    def _look_again(self) -> None:
        if self.busy and time.monotonic() - self.looked >= LOOK_AGAIN:
            held, self.busy, self.looked = self.busy, [], time.monotonic()
            for pack in held:
                self._put(pack, self.place.states(pack))

    def _hear(self, ray: Any, ref: Any) -> None:
        pack = self.tasks.pop(ref)
        try:
            ends: list[Outcome] = ray.get(ref)
        except ray.exceptions.RayTaskError as problem:  # not a run's failure, which is an outcome: all would end so
            if isinstance(problem.cause, ShiftBenchError):
                raise problem.cause from None
            raise ShiftBenchError(f"The workers of the Ray cluster cannot do runs ({problem.cause!r}). They need "
                                  "Python and the packages of this process.") from problem
        except ray.exceptions.RayError as problem:
            self.false_starts += isinstance(problem, ray.exceptions.RuntimeEnvSetupError)
            if self.false_starts == FALSE_STARTS:
                raise ShiftBenchError(f"The Ray cluster cannot start workers for us: {_line(problem)}") from problem
            self._bury(pack, LOSSES.get(type(problem).__name__, _line(problem)))
            return
        self.false_starts = 0
        for end in ends:
            if end.state == "busy":
                self.busy.append({end.run: pack[end.run]})
            else:
                self._end(end)

    def _bury(self, pack: Pack, how: str) -> None:
        """A task was lost. Its runs are done again: together once, then each alone, to see which is to blame."""
        states = self.place.states(pack)
        together: Pack = {}
        for run, job in pack.items():
            if states[run] in ("done", "failed"):
                self._put({run: job}, states)
                continue
            count = self._count_death(run)
            if count > self.retries and len(pack) == 1:
                reason = f"It lost its worker {count} times without getting further: {how}."
                states[run] = self.place.give_up(run, reason)
            if count > 1:
                self._put({run: job}, states)
            else:
                together[run] = job
        self._put(together, states)

    def _count_death(self, run: str) -> int:
        """How often its worker was lost since its last checkpoint."""
        saved = self.place.progress(run)
        count, before = self.deaths.get(run, (0, ""))
        self.deaths[run] = count + 1 if saved == before else 1, saved
        return self.deaths[run][0]

    def _end(self, outcome: Outcome) -> None:
        self.ends[outcome.run] = outcome
        if self.report:
            self.report(outcome)


def _line(problem: BaseException) -> str:
    return str(problem).strip().partition("\n")[0]
