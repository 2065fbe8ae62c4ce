"""The local engine: workers and drivers that are killed, sweeps that share their work, and what a runs folder tells."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from shiftbench.core.backend import set_threads
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.sweeps.jobs import Job, train_jobs
from shiftbench.sweeps.ledger import give_up
from shiftbench.sweeps.local import CONTEXT, cores, devices_for, run_packs
from shiftbench.sweeps.status import failure, look, states, status, summary
from shiftbench.training.run import Outcome
from tests.toys import toy_rows

BENCH = Path(__file__).parents[2] / "bench" / "kill_sweep.py"

DRIVER = """
import json, sys
from shiftbench.sweeps.local import run_packs
from shiftbench.sweeps.jobs import Job

def main():
    jobs, out = json.loads(sys.argv[1]), sys.argv[2]
    packs = [[Job(*job) for job in pack] for pack in jobs]
    try:
        ends = run_packs(packs, out, workers=2, device="cpu", checkpoint_seconds=0.1)
    except KeyboardInterrupt as stop:
        sys.exit(f"stopped: {stop}")
    print(json.dumps(ends))

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A folder with a collection and a benchmark that is learned in a blink."""
    place = tmp_path_factory.mktemp("toy")
    collection, benchmark = toy_rows(60)
    collection.save(place / "collection")
    benchmark.save(place / "benchmark")
    (place / "driver.py").write_text(DRIVER)
    return place


def jobs_of(toy: Path, n: int, steps: int = 4, **settings) -> list[Job]:
    digest = Benchmark.load(toy / "benchmark").digest
    return [Job(str(toy / "benchmark"), str(toy / "collection"),
                {"benchmark": digest, "model": "small-cnn", "steps": steps, "eval_every": 50, "batch_size": 8,
                 "seed": seed, **settings}) for seed in range(n)]


def sweep_into(packs: list[list[Job]], out: Path) -> None:
    """What another process does that sweeps: it leaves how the runs ended beside them."""
    ends = run_packs(packs, out, workers=2, device="cpu", checkpoint_seconds=0.1)
    out.with_suffix(".json").write_text(json.dumps(ends))


def drive_here(packs: list[list[Job]], out: Path) -> BaseProcess:
    """Another process that sweeps; its workers come from the server that ours do, which has imported torch."""
    process = CONTEXT.Process(target=sweep_into, args=(packs, out))
    process.start()
    return process


def drive(toy: Path, packs: list[list[Job]], out: Path) -> subprocess.Popen:
    """Another process that sweeps, with a group and a server of its own, as a shell would start it."""
    return subprocess.Popen([sys.executable, toy / "driver.py", json.dumps(packs), out], start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(true, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def children(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def workers_of(driver: int) -> list[int]:
    """What the driver's server has forked."""
    return [worker for child in children(driver) for worker in children(child)]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def done_times(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("*/done")}


# The engine


@pytest.mark.slow
def test_every_run_is_done_once_and_then_found(toy, tmp_path):
    """Ends come in the order of the jobs, a run named twice is done once, and a second start does nothing."""
    jobs = jobs_of(toy, 3)
    heard = []
    packs = [jobs, jobs[:1]]
    ends = run_packs(packs, tmp_path, workers=2, device="cpu", report=heard.append)
    assert [end.run for end in ends] == [job.run.id for pack in packs for job in pack]
    assert sorted(heard) == sorted(set(ends))
    assert {end.state for end in ends} == {"done"}
    assert min(end.seconds for end in ends) > 0
    before = done_times(tmp_path)
    assert len(before) == 3
    facts = json.loads((tmp_path / ends[0].run / "run.json").read_text())
    assert facts["threads"] == max(1, cores() // 2)
    again = run_packs(packs, tmp_path, workers=2, device="cpu")
    assert [end._replace(seconds=0.0) for end in ends] == again
    assert done_times(tmp_path) == before


@pytest.mark.slow
def test_a_stopped_or_killed_driver_takes_its_workers_along_and_the_next_goes_on(toy, tmp_path):
    """After Ctrl-C and after SIGKILL no worker is left; the next start goes on, and ends as an unbroken sweep would."""
    jobs = jobs_of(toy, 1, steps=400)
    saved = tmp_path / "out" / jobs[0].run.id / "resume.safetensors"
    for sent in (signal.SIGINT, signal.SIGKILL):
        before = saved.stat().st_mtime_ns if saved.exists() else 0
        driver = drive(toy, [jobs], tmp_path / "out")
        until(lambda before=before: saved.exists() and saved.stat().st_mtime_ns > before)
        workers = workers_of(driver.pid)
        assert len(workers) == 1
        os.killpg(driver.pid, sent) if sent == signal.SIGINT else os.kill(driver.pid, sent)
        _, errors = driver.communicate(timeout=30)
        until(lambda workers=workers: not any(map(alive, workers)), 5.0)
        assert driver.returncode == (1 if sent == signal.SIGINT else -signal.SIGKILL)
        if sent == signal.SIGINT:
            assert errors.startswith("stopped: Stopped with 0 of 1 runs ended. Start the same again to go on")
            assert "Traceback" not in errors
        assert not done_times(tmp_path / "out")
    (end,) = run_packs([jobs], tmp_path / "out", workers=2, device="cpu")
    assert end.state == "done"
    set_threads(max(1, cores() // 2))  # as each of two workers: sums in another order differ in the last digit
    train_jobs(jobs, tmp_path / "whole", device="cpu")
    assert (tmp_path / "out" / end.run / "predictions.parquet").read_bytes() == (
        tmp_path / "whole" / end.run / "predictions.parquet").read_bytes()


@pytest.mark.slow
def test_two_sweeps_of_the_same_runs_share_them(toy, tmp_path, monkeypatch):
    """Both end with every run done, and each run was done by one of them alone."""
    monkeypatch.syspath_prepend(BENCH.parent)
    from kill_sweep import Watch

    jobs = jobs_of(toy, 6, steps=40)
    runs = tmp_path / "runs"
    watch = Watch([runs / job.run.id for job in jobs])
    other = drive_here([[job] for job in jobs], runs)
    until(lambda: any(runs.glob("*/lock")))
    ends = run_packs([[job] for job in jobs], runs, workers=1, device="cpu")
    other.join(120)
    assert other.exitcode == 0
    for told in (ends, json.loads(runs.with_suffix(".json").read_text())):
        assert [(run, state) for run, state, *_ in told] == [(job.run.id, "done") for job in jobs]
    watch.look()
    assert watch.done == {job.run.id: 1 for job in jobs}


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_waited_for(toy, tmp_path):
    """While it is held it counts as running; let go unfinished, it is done here."""
    (job,) = jobs_of(toy, 1)
    folder = tmp_path / job.run.id
    held = threading.Event()

    def hold():
        with lock(folder / "lock") as mine:
            assert mine
            held.set()
            time.sleep(1.5)
            assert look(folder) == "running"

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    began = time.monotonic()
    (end,) = run_packs([[job]], tmp_path, workers=2, device="cpu")
    assert end.state == "done"
    assert time.monotonic() - began > 1.4
    thread.join()


@pytest.mark.slow
def test_a_worker_has_the_environment_of_its_start(toy, tmp_path, monkeypatch):
    """What was set after the first sweep of a process is known to the workers of the next."""
    (tmp_path / "note.py").write_text("import os, pathlib\npathlib.Path('note.txt').write_text(os.environ['NOTE'])\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shiftbench.sweeps.local.loaded_plugins", lambda: (str(tmp_path / "note.py"),))
    for word, job in zip(("first", "second"), jobs_of(toy, 2, steps=1), strict=True):
        monkeypatch.setenv("NOTE", word)
        assert run_packs([[job]], tmp_path / "runs", workers=1, device="cpu")[0].state == "done"
        assert Path("note.txt").read_text() == word


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told(toy, tmp_path):
    """Workers import the script that starts them; where that would start sweeps again, the error says what to do."""
    script = tmp_path / "bare.py"
    script.write_text(DRIVER.partition("if __name__")[0] + "main()\n")
    done = subprocess.run([sys.executable, script, json.dumps([jobs_of(toy, 1)]), tmp_path / "out"],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "put the call below `if __name__ == \"__main__\":`" in done.stderr.splitlines()[-1]


def test_devices_to_share_out():
    """A device by name is that one; `auto` is one or more; one that is not there is an error."""
    assert devices_for("cpu") == ["cpu"]
    assert devices_for("auto")
    with pytest.raises(ShiftBenchError, match="is not here"):
        devices_for("cuda:99")


@pytest.mark.faults
def test_kills_at_random_moments_lose_nothing():
    """The bench with few kills: no run lost, none done twice, all equal to the undisturbed sweep's."""
    done = subprocess.run([sys.executable, BENCH, "--kills", "2", "--seeds", "1", "--steps", "60"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "lost: 0 double: 0"


def test_a_collection_is_read_again_only_where_it_has_changed(toy, tmp_path, monkeypatch):
    """Packs after the first find it in memory; one that was written anew is read anew."""
    reads, load = [], Collection.load
    monkeypatch.setattr(Collection, "load", lambda folder: reads.append(folder) or load(folder))
    collection, _ = toy_rows(60)
    collection.save(tmp_path / "collection")
    jobs = [job._replace(collection=str(tmp_path / "collection")) for job in jobs_of(toy, 3, steps=1)]
    for job in jobs[:2]:
        assert [end.state for end in train_jobs([job], tmp_path / "runs", device="cpu")] == ["done"]
    assert len(reads) == 1
    (tmp_path / "collection").rename(tmp_path / "before")
    collection.save(tmp_path / "collection")
    train_jobs(jobs[2:], tmp_path / "runs", device="cpu")
    assert len(reads) == 2


# What a runs folder holds


def make_run(folder: Path, seed: int = 0, **files: str) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"run": {"method": "irm", "model": "mlp", "seed": seed},
                                                 "benchmark": {"name": "dogs"}}))
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)


def test_the_state_of_every_run_is_told(toy, tmp_path):
    """Done, failed with its reason, running while its lock is held, unfinished, not started; foreign folders are not
    runs, and damaged files hide nothing."""
    make_run(tmp_path / "a", seed=3, done="", failed_json="{}", log_jsonl='{"seconds": 1.5}\n{"seconds": 2.5}\n{"sec')
    make_run(tmp_path / "b", failed_json='{"reason": "no space"}')
    make_run(tmp_path / "c", lock="")
    make_run(tmp_path / "d", lock="")
    make_run(tmp_path / "e", failed_json="{")
    (tmp_path / "e" / "run.json").write_text("[")
    make_run(tmp_path / ".hidden", done="")
    (tmp_path / "benchmarks" / "x").mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    with lock(tmp_path / "c" / "lock"):
        found = states(tmp_path)
        assert found == {"a": "done", "b": "failed", "c": "running", "d": "unfinished", "e": "failed"}
        assert found == {name: look(tmp_path / name) for name in found}
    assert look(tmp_path / "c") == "unfinished"
    assert look(tmp_path / "nowhere") == look(tmp_path / "notes.txt") == "not started"
    assert summary(found.values()) == "5 runs: 2 failed, 1 running, 1 unfinished, 1 done"
    listed = {one.run: one for one in status(tmp_path)}
    assert (listed["a"].seed, listed["a"].method, listed["a"].benchmark, listed["a"].seconds) == (3, "irm", "dogs", 2.5)
    assert listed["b"].reason == failure(tmp_path / "b") == "no space"
    assert listed["e"].reason == "failed.json cannot be read"
    with pytest.raises(ShiftBenchError, match="cannot be listed"):
        states(tmp_path / "nowhere")
    (wanted,) = status(tmp_path, jobs_of(toy, 1, method="coral"))
    assert (wanted.state, wanted.method, wanted.benchmark) == ("not started", "coral", "benchmark")


def test_a_failure_that_cannot_be_recorded_is_told(tmp_path):
    """Where nothing can be written, the reason is still the run's outcome."""
    (tmp_path / "runs").touch()
    assert give_up(tmp_path / "runs" / "a", "Its process died.") == Outcome("a", "failed", "Its process died.")


def test_show_lists_failed_runs_first_with_their_reasons(tmp_path, shell):
    """A long list is cut and says so; words in brackets are printed as they are; JSON has every run."""
    for number in range(50):
        make_run(tmp_path / f"good{number}", done="")
    for number in range(25):
        make_run(tmp_path / f"bad{number}", failed_json='{"reason": "[enforce fail at alloc] too much"}')
    code, out, _ = shell("show", tmp_path)
    assert code == 0
    assert "75 runs: 25 failed, 50 done" in out.splitlines()[0]
    assert out.count("[enforce fail at alloc] too much") == 20
    assert "… and 5 more" in out
    assert "… and 10 more" in out
    assert out.index("too much") < out.index("good")
    assert "--retry-failed" in out
    listed = json.loads(shell("show", tmp_path, "--json")[1])
    assert len(listed) == 75
    assert {one["state"] for one in listed} == {"done", "failed"}
