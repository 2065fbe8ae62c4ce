"""Runs on a Ray cluster: every pack is a task, every run has a folder, or a place in a store.

Ray moves no data for us. A task gets the names of a benchmark and a collection, which all machines must see as the
driver does, and leaves its results in OUT: a folder that all machines see, or a URL (`shiftbench.sweeps.storage`). So
anything may die. A lost worker or node costs what was not yet in a checkpoint; a driver that starts again finds what is
done. `shiftbench.core.ray_cluster` says how to get into a cluster that asks for a token.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from shiftbench.core.backend import set_threads
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import scratch, writing
from shiftbench.core.ray_cluster import Cluster, ray_cluster
from shiftbench.core.registry import load_plugins, loaded_plugins
from shiftbench.data.collection import MARKER
from shiftbench.data.image_files import ROOTS, trusted_roots
from shiftbench.sweeps.jobs import Job, owners_here
from shiftbench.sweeps.ledger import LOOK_AGAIN, Ledger, Pack, ResultsFolder
from shiftbench.sweeps.local import WorkerOptions, attempt, threads_of
from shiftbench.sweeps.storage import Store, is_url
from shiftbench.training.run import Outcome

AT_ONCE = 1000
"""Tasks that Ray has at a time: enough for it to see that more machines would help, few enough to keep track of."""

FALSE_STARTS = 5
"""Tasks in a row whose worker could not be set up: then something is wrong with all of them."""

TRIES = 3
"""How often a finished run is sent before it counts as failed: hours of training are worth a second call."""

LOSSES = {"WorkerCrashedError": "its process was killed", "NodeDiedError": "its node was lost",
          "OutOfMemoryError": "its node ran out of memory, lower batch_size"}
"""Ray's errors for a lost task, as sentences."""


def run_packs(
    packs: Sequence[Sequence[Job]], out: Path | str, *, workers: int = 0, device: str = "auto",
    report: Callable[[Outcome], None] | None = None, retry_failed: bool = False, retries: int = 5,
    checkpoint_seconds: float = 30.0, address: str | None = None,
) -> list[Outcome]:
    """Train every run that is not done yet; returns how each ended, in the order of the jobs: the local engine on Ray.

    The cluster is that of this process, else at `address` or RAY_ADDRESS, else one started on this machine for as long
    as this takes. A task has one core, and one GPU where there are any and `device` is not cpu. `workers` limits how
    many tasks run at once; 0 means as many as there is room for. A run that loses its worker or its node goes on from
    its last checkpoint; one that loses it `retries` times more without getting further is recorded as failed.
    """
    for name, owner in owners_here([job for pack in packs for job in pack]).items():
        raise ShiftBenchError(f"{name.capitalize()} ({owner}) cannot be loaded by the workers of a cluster. Write it "
                              "to a file and import that, or use engine=local.")
    results = Store(out) if is_url(out) else ResultsFolder(Path(out).absolute())
    ledger = Ledger(results, report, retries)

    def train() -> None:
        with ray_cluster(address, workers) as cluster:
            _Sweep(ledger, results).go(cluster, workers, cluster.kind(device), checkpoint_seconds)

    return ledger.settle(packs, retry_failed, train)


def work(
    pack: Sequence[Job], options: WorkerOptions, folder: str, files: Sequence[str], roots: str = ""
) -> list[Outcome]:
    """What a task does, on any machine. `files` are those that the driver sees from `folder`, where it works; `roots`
    are the folders of images that its user trusts."""
    os.environ[ROOTS] = roots
    with suppress(OSError):
        os.chdir(folder)  # names in a study may be relative
    missing = [name for name in files if not Path(name).exists()]
    if missing:
        raise ShiftBenchError(f"{missing[0]}: not there on node {socket.gethostname()}. All machines of a cluster must "
                              "see benchmarks, collections and results under the same names; or let --out be a URL.")
    load_plugins(options.plugins)
    set_threads(options.threads)
    return train_stored(pack, options) if is_url(options.out) else attempt(pack, options)


def sign(results: ResultsFolder | Store) -> list[str]:
    """A file by which a worker can tell that it sees the same folder. A store needs none."""
    if isinstance(results, Store):
        return []
    mark = results.out / f".seen-from-{socket.gethostname()}"
    with writing(mark) as hidden:
        hidden.touch()
    return [str(mark)]


@dataclass(eq=False)
class _Sweep:
    """Tasks under way, made from the packs of the ledger."""

    ledger: Ledger
    results: ResultsFolder | Store
    tasks: dict[Any, Pack] = field(default_factory=dict)
    false_starts: int = 0

    def go(self, cluster: Cluster, workers: int, device: str, checkpoint_seconds: float) -> None:
        ray, ledger = cluster.ray, self.ledger
        gpus = int(device == "cuda")
        room = workers or (cluster.gpus if gpus else cluster.cpus)
        threads = threads_of(room) if cluster.ours else 1
        options = WorkerOptions(self.results.url, device, threads, checkpoint_seconds, loaded_plugins())
        # No retries by Ray: it would not know when to stop, nor that a run got further.
        task = ray.remote(work).options(num_cpus=1, num_gpus=gpus, max_retries=0, name="shiftbench")
        folder, marks = os.getcwd(), sign(self.results)
        try:
            while True:
                ledger.look_again()
                while ledger.queue and len(self.tasks) < (workers or AT_ONCE):
                    pack = ledger.queue.popleft()
                    names = {name for job in pack.values() for name in (job.benchmark, job.collection)}
                    files = marks + sorted(name for name in names if Path(name).exists())
                    roots = trusted_roots(sorted({job.collection for job in pack.values()}), MARKER)
                    self.tasks[task.remote(list(pack.values()), options, folder, files, roots)] = pack
                if self.tasks:
                    for ref in ray.wait(list(self.tasks), timeout=LOOK_AGAIN if ledger.busy else None)[0]:
                        self._receive(ray, ref)
                elif ledger.busy:
                    time.sleep(LOOK_AGAIN)
                else:
                    return
        finally:
            for ref in self.tasks:
                with suppress(Exception):  # the cluster may be what is lost
                    ray.cancel(ref, force=True)

    def _receive(self, ray: Any, ref: Any) -> None:
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
            line = first_line(problem)
            if self.false_starts == FALSE_STARTS:
                raise ShiftBenchError(f"The Ray cluster cannot start workers for us: {line}") from problem
            self.ledger.lost(pack, "It lost its worker", LOSSES.get(type(problem).__name__, line))
            return
        self.false_starts = 0
        self.ledger.record(pack, ends)


# On a worker's machine: runs are trained in a scratch folder, and their checkpoints are sent to the store


def train_stored(pack: Sequence[Job], options: WorkerOptions) -> list[Outcome]:
    """Train a pack whose results go to the store at `options.out`: go on from what is there, send each result.

    An error in fetching or sending a run is its outcome here, not a record in the store: the next start tries it again.
    """
    ends, pending = [], []
    with scratch() as folder:
        for job in pack:
            run = job.run.id
            try:
                if Store(options.out).bring(run, folder / run):
                    ends.append(Outcome(run, "done"))
                else:
                    pending.append(job)
            except (ShiftBenchError, OSError) as problem:
                ends.append(Outcome(run, "failed", str(problem)))
        if pending:
            with sending(options.out, [job.run.id for job in pending], folder, options.checkpoint_seconds):
                outcomes = attempt(pending, options._replace(out=str(folder)))
            for end in outcomes:
                reason = _send_end(options.out, end.run, folder / end.run)
                ends.append(end._replace(state="failed", reason=reason) if reason else end)
    return ends


@contextmanager
def sending(url: str, runs: Sequence[str], folder: Path, seconds: float) -> Iterator[None]:
    """Within the block a thread sends the checkpoints of these runs from `folder` to the store now and then.

    A store that does not answer is asked again later: training does not wait for it.
    """
    stop = Event()

    def keep_sending() -> None:
        sent = dict.fromkeys(runs, 0)
        while not stop.wait(max(0.2, seconds)):
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
        stop.set()
        thread.join()


def _send_end(url: str, run: str, folder: Path) -> str:
    """Send how a run ended, with retries; returns what went wrong, or an empty text where nothing did."""
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
        return max((file.stat().st_mtime_ns for file in folder.iterdir()
                    if file.name == "done" or file.suffix == ".safetensors"), default=0)
    return 0
