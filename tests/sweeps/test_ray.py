"""Sweeps on a Ray cluster of several nodes, and results in a store: whatever is lost, every run is there once."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from bench.ray_cluster import RayCluster
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.core.ray_cluster import Cluster
from shiftbench.scoring import score_runs
from shiftbench.sweeps.jobs import Job, train_jobs
from shiftbench.sweeps.local import WorkerOptions
from shiftbench.sweeps.on_ray import run_packs, train_stored, work
from shiftbench.sweeps.status import failure, look
from shiftbench.sweeps.storage import Store, fetch, is_url, url_of
from shiftbench.training.inputs import embed
from tests.toys import toy_rows

SETTINGS = {"model": "mlp", "features": "efficientnet-lite0@32", "batch_size": 16, "eval_every": 50}

HOLD = """
import sys, time
from shiftbench.core.files import lock
with lock(sys.argv[1]):
    time.sleep(float(sys.argv[2]))
"""

DRIVE = """
import json, sys
from shiftbench.sweeps.on_ray import run_packs
from shiftbench.sweeps.jobs import Job
out, jobs = json.loads(sys.argv[1])
run_packs([[Job(*job)] for job in jobs], out, checkpoint_seconds=0.2)
"""

JOIN = """
import sys
from shiftbench.core.ray_cluster import ray_cluster
try:
    with ray_cluster() as cluster:
        print("joined", cluster.cpus, cluster.ours)
except ValueError as problem:
    print(problem)
"""


class Toy:
    """A benchmark on disk, jobs on it, and what they leave when nothing disturbs them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        collection, self.benchmark = toy_rows(120)
        collection.save(place / "collection")
        self.benchmark.save(place / "benchmark")
        embed(collection, np.arange(120), size=32, folder=place / "collection")

    def jobs(self, seeds, steps):
        return [Job(str(self.place / "benchmark"), str(self.place / "collection"),
                    {**SETTINGS, "benchmark": self.benchmark.digest, "steps": steps, "seed": seed}) for seed in seeds]

    def same(self, jobs, out):
        """Whether each run is what it is when it is done here: predictions byte for byte, the log but for seconds."""
        assert {end.state for end in train_jobs(jobs, self.place / "alone")} == {"done"}
        for run in [job.run.id for job in jobs]:
            one, other = self.place / "alone" / run, out / run
            assert (one / "predictions.parquet").read_bytes() == (other / "predictions.parquet").read_bytes()
            assert log(one) == log(other)
        return True


@pytest.fixture(scope="module", autouse=True)
def short_folder():
    """Ray keeps its sessions, below a path that is short enough for its sockets; gone after the tests."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="r-") as folder:
        patch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return Toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    with RayCluster(nodes=2) as running:
        yield running


def log(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def until(found, seconds=180.0):
    """Wait for something to be so."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


@contextlib.contextmanager
def meanwhile(deeds):
    """Do something beside the block; what goes wrong there goes wrong here."""
    problems = []

    def act():
        try:
            deeds()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()
    assert not problems, problems


@pytest.mark.faults
def test_a_worker_and_a_node_are_lost_and_no_run_is(toy, cluster, tmp_path):
    """A killed worker, a lost node and a run in other hands: at the end each run is there once, as if left alone."""
    jobs = toy.jobs(range(4), 300)
    runs = [job.run.id for job in jobs]
    reported = []

    def disturb():
        until(lambda: list(tmp_path.glob("*/resume.safetensors")))
        until(cluster.kill_worker)
        until(lambda: reported)
        until(cluster.kill_node)
        cluster.add_node()

    guard = tmp_path / runs[3] / "lock"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(guard), "4"])
    until(guard.exists)
    with meanwhile(disturb):
        ends = run_packs([jobs[:2], jobs[2:3], jobs[3:]], tmp_path, address=cluster.address, checkpoint_seconds=0.1,
                         report=reported.append)
    other.wait()
    assert [(end.run, end.state) for end in ends] == [(run, "done") for run in runs]
    assert sorted(end.run for end in reported) == sorted(runs)
    assert toy.same(jobs, tmp_path)


@pytest.mark.faults
def test_a_driver_is_killed_and_started_again_over_a_store(toy, cluster, tmp_path):
    """A sweep into a store whose driver is killed goes on with the next; finished runs stay as they are."""
    jobs, url = toy.jobs(range(10, 13), 150), f"file://{tmp_path}/store"
    first = subprocess.Popen([sys.executable, "-c", DRIVE, json.dumps([url, jobs])], env=os.environ | cluster.env)
    try:
        done = until(lambda: list(tmp_path.glob("store/*/done")))
    finally:
        first.kill()
        first.wait()
    before = [path.stat().st_mtime_ns for path in done]
    assert {end.state for end in run_packs([[job] for job in jobs], url, address=cluster.address)} == {"done"}
    assert [path.stat().st_mtime_ns for path in done] == before
    assert sorted(fetch(url, tmp_path / "here")) == sorted(job.run.id for job in jobs)
    assert toy.same(jobs, tmp_path / "here")
    assert set(score_runs(tmp_path / "here", replicates=10)["run"]) >= {job.run.id for job in jobs}
    assert not list(tmp_path.glob("store/*/unfinished.tar"))


@pytest.mark.faults
def test_a_run_that_is_always_lost_has_failed_and_the_others_are_done(toy, cluster, tmp_path):
    """A run whose worker dies again and again is recorded as failed; `retry_failed` tries it again."""
    (bad,), (good,) = toy.jobs([20], 10**6), toy.jobs([21], 50)
    folder = tmp_path / bad.run.id

    def kill_again_and_again():
        while look(folder) != "failed":
            with lock(folder / "lock") as free:
                if not free and look(tmp_path / good.run.id) == "done":  # it alone is being done
                    cluster.kill_worker()
            time.sleep(0.2)

    with meanwhile(kill_again_and_again):
        ends = run_packs([[good], [bad]], tmp_path, address=cluster.address, retries=1)
    assert [end.state for end in ends] == ["done", "failed"]
    assert "lost its worker 2 times" in ends[1].reason
    assert failure(folder) == ends[1].reason
    again = run_packs([[good], [bad]], tmp_path)  # nothing left to do: no cluster is asked for
    assert [end.state for end in again] == ["done", "failed"]


@pytest.mark.slow
def test_a_cluster_of_this_machine_lasts_as_long_as_the_sweep(toy, tmp_path, monkeypatch):
    """Without an address the sweep has a cluster of its own, and leaves nothing of it behind."""
    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(toy.place)
    mode = os.environ.get("RAY_AUTH_MODE")
    (job,) = toy.jobs([25], 50)
    (end,) = run_packs([[job._replace(benchmark="benchmark", collection="collection")]], tmp_path, workers=1)
    assert (end.state, look(tmp_path / end.run)) == ("done", "done")
    assert not ray.is_initialized()
    assert os.environ.get("RAY_AUTH_MODE") == mode


@pytest.mark.faults
def test_a_cluster_that_asks_for_a_token(tmp_path, monkeypatch):
    """The token is taken from where Ray looks; where there is none, the message says where to put it."""
    pytest.importorskip("ray")
    token = tmp_path / "home" / ".ray" / "auth_token"
    token.parent.mkdir(parents=True)
    token.write_text("0123456789abcdef" * 4)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with_token = plain | {"HOME": str(tmp_path / "home")}
    for name, value in (with_token | {"RAY_AUTH_MODE": "token"}).items():
        monkeypatch.setenv(name, value)
    with RayCluster(nodes=0) as cluster:
        found = {}
        for name, env in {"with": with_token, "without": plain | {"HOME": str(tmp_path)}}.items():
            said = subprocess.run([sys.executable, "-c", JOIN], env=env | cluster.env, text=True, capture_output=True)
            found[name] = said.stdout.strip(), said.stderr
    assert found["with"] == ("joined 0 False", "")
    assert "asks for a token, and there is none here" in found["without"][0]
    assert "~/.ray/auth_token" in found["without"][0]
    assert found["without"][1] == ""


def test_a_machine_that_does_not_see_the_folders_stops_the_sweep(toy, tmp_path):
    """A worker that cannot see what the driver sees says so, instead of leaving results where nobody looks."""
    with pytest.raises(ShiftBenchError, match=r"runs/\.seen: not there on node .* under the same names"):
        work(toy.jobs([0], 50), WorkerOptions(str(tmp_path), "cpu", 1, 30.0), os.getcwd(),
             [str(tmp_path / "runs" / ".seen")])


def test_every_task_gets_the_kind_of_device_there_is():
    """`auto` is the GPU where the cluster has one; asking for one that is not there is an error at once."""
    without, with_gpu = Cluster(None, 2, 0, False), Cluster(None, 2, 4, False)
    assert [without.kind("auto"), without.kind("cpu"), with_gpu.kind("auto")] == ["cpu", "cpu", "cuda"]
    assert [with_gpu.kind("cpu"), with_gpu.kind("cuda:3")] == ["cpu", "cuda"]
    with pytest.raises(ShiftBenchError, match="no GPU"):
        without.kind("cuda")
    with pytest.raises(ShiftBenchError, match="Did you mean 'cuda'"):
        without.kind("cudo")


@pytest.fixture(params=["file", "memory", "dir"])
def url(request, tmp_path):
    """An empty store: on disk, in this process, and one file system inside another."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    return f"{'file' if request.param == 'file' else 'dir::file'}://{tmp_path}/store"


@pytest.mark.slow
def test_a_run_goes_on_from_a_store(toy, url, tmp_path):
    """A run that stopped on one machine goes on from its checkpoint on another, and its end is in the store, whole."""
    (job,) = jobs = toy.jobs([30], 100)
    run, here = job.run.id, tmp_path / "here" / job.run.id

    def stop(done, total):
        if (here / "resume.safetensors").exists() and done > 50:  # the log has a line
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_jobs(jobs, here.parent, checkpoint_seconds=0, progress=stop)
    store = Store(url)
    assert store.look(run) == "not started"
    store.send(run, here)
    assert store.look(run) == "unfinished"
    mark = store.progress(run)
    first = (here / "log.jsonl").read_text().splitlines()[0]
    options = WorkerOptions(url, "cpu", 1, 0.1)
    assert [end.state for end in train_stored(jobs, options)] == ["done"]
    assert store.states([run, "other"]) == {run: "done", "other": "not started"}
    assert mark
    assert store.progress(run) == ""  # what an unfinished run needs is gone
    assert train_stored(jobs, options)[0].seconds == 0  # found, not repeated
    assert fetch(url, tmp_path / "there") == [run]
    assert (tmp_path / "there" / run / "log.jsonl").read_text().splitlines()[0] == first  # went on, did not begin anew
    assert toy.same(jobs, tmp_path / "there")


def test_a_store_never_shows_half_a_run(toy, url, tmp_path, monkeypatch):
    """Wherever the sending of a run breaks off, `done` is there only when all else is; the next attempt ends it."""
    (job,) = jobs = toy.jobs([31], 50)
    run, folder = job.run.id, tmp_path / "here" / job.run.id
    train_jobs(jobs, folder.parent)
    whole = {part.name for part in folder.iterdir()} - {"lock"}
    put = Store._write_file
    for writes in range(len(whole)):
        left = iter(range(writes))

        def breaks_off(store, *rest, left=left):
            if next(left, None) is None:
                raise OSError("no route to host")
            put(store, *rest)

        monkeypatch.setattr(Store, "_write_file", breaks_off)
        with pytest.raises(OSError, match="no route"):
            Store(url).send(run, folder)
        assert Store(url).look(run) != "done"
        monkeypatch.undo()
    Store(url).send(run, folder)
    assert Store(url).files(run) == {run: whole} == Store(url).files()


def test_why_a_run_failed_is_in_the_store(toy, url, tmp_path):
    """A failure is kept with its reason, brought with the rest, forgotten on request, and outweighed by `done`."""
    (job,) = jobs = toy.jobs([32], 50)
    run = job.run.id
    store = Store(url)
    assert store.give_up(run, "It lost its worker.") == "failed"
    assert store.give_up(run, "Another reason.") == "failed"
    assert store.failure(run) == "It lost its worker."
    assert fetch(url, tmp_path / "there") == []
    assert failure(tmp_path / "there" / run) == "It lost its worker."
    store.forget_failure(run)
    assert store.look(run) == "not started"
    assert [end.state for end in train_stored(jobs, WorkerOptions(url, "cpu", 1, 30.0))] == ["done"]
    assert store.give_up(run, "Too late.") == "done"
    assert fetch(url, tmp_path / "there") == [run]
    assert look(tmp_path / "there" / run) == "done"
    assert not (tmp_path / "there" / run / "failed.json").exists()


def test_a_url_survives_being_taken_for_a_path():
    """A command line that makes a path of OUT changes neither what it is nor where it leads."""
    for url in ("s3://bucket/runs", "file:///runs/x", "memory://x", "dir::file:///runs"):
        assert is_url(url)
        assert is_url(Path(url))
        assert url_of(Path(url)) == url_of(url) == url
    assert not any(is_url(path) for path in ("runs", "/runs", "./a:b/c", "C:/runs", Path("../x")))


def test_a_store_that_cannot_be_reached_is_named(toy, tmp_path, monkeypatch):
    """An unknown protocol, and a place where nothing can be written, are one clear message."""
    with pytest.raises(ShiftBenchError, match=r"nowhere://x: cannot be opened .*nowhere"):
        run_packs([], "nowhere://x")
    monkeypatch.setattr("shiftbench.sweeps.on_ray.TRIES", 1)
    (tmp_path / "file").write_text("not a folder")
    (job,) = toy.jobs([33], 50)
    (end,) = train_stored([job], WorkerOptions(f"file://{tmp_path}/file/runs", "cpu", 1, 30.0))
    assert end.state == "failed"
    assert "cannot be" in end.reason
