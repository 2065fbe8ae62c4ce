"""What a sweep will cost, how it stands, and the command: dry run, progress, summary, exit codes."""

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.cli.training import Tally, how_long, sweep_progress
from shiftbench.core.errors import ShiftBenchError
from shiftbench.sweeps.estimate import WarmUp, estimate, few
from shiftbench.sweeps.jobs import embed_missing, needed_features, train_jobs
from shiftbench.sweeps.local import WorkerPool
from shiftbench.sweeps.status import outcome_facts
from shiftbench.sweeps.study import Study
from shiftbench.training.run import Outcome
from shiftbench.worlds import WORLDS
from tests.sweeps.test_study import HEAD, SMALL, write
from tests.sweeps.test_study import place as place
from tests.toys import toy_rows

# What it will cost


def test_few_rows_keep_every_group_of_every_split():
    """The rows of a warm-up without features are few and have all cells, in order."""
    _, benchmark = toy_rows(4000)
    rows = few(benchmark)
    assert len(rows) <= 2 * 256
    assert (np.diff(rows) > 0).all()
    cells = [set(zip(benchmark.split[part].tolist(), benchmark.group[part].tolist(), strict=True))
             for part in (rows, np.arange(len(benchmark)))]
    assert cells[0] == cells[1]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("steps", [5, 40, 64, 300])
def test_a_step_has_its_price_however_short_the_runs_are(tmp_path, place, device, steps):
    """Where a pack takes 1 s, 0.01 s per step and 0.1 s per evaluation, so says the warm-up; runs of 64 steps too."""
    class Clock(WarmUp):
        def _time(self, pack, steps, every, first=0):
            return 1 + 0.01 * steps + 0.1 * (steps // every)

    with WorkerPool(tmp_path / "runs", 1, "cpu") as pool:
        pool.devices = [device]
        job = Study.load(write(place, SMALL)).jobs(place / "runs")[0]
        cost = Clock(tmp_path, pool, 1, set()).measure([job._replace(settings={**job.settings, "steps": steps})])
    assert cost == pytest.approx((1, 0.01, 0.1))


@pytest.mark.slow
def test_a_dry_run_counts_what_is_left_and_writes_nothing(place):
    """Done runs are found, the rest is timed by real training elsewhere; a shape that cannot be trained says why."""
    jobs = Study.load(write(place, SMALL)).jobs(place / "runs")
    assert [end.state for end in train_jobs(jobs[:2], place / "runs", device="cpu")] == ["done", "done"]
    broken = jobs[-1]._replace(settings={**jobs[-1].settings, "weights": str(place / "no.safetensors")})
    before = sorted(place.rglob("*"))
    found = estimate([*jobs[:-1], broken], place / "runs", workers=2, device="cpu")
    assert sorted(place.rglob("*")) == before
    assert found.counts["toy-a", "erm"] == {"done": 2}
    assert found.counts["toy-b", "irm"] == {"not started": 4}
    assert sum(row.runs for row in found.rows) == 10
    assert all(row.cost is not None and row.seconds > 0 for row in found.rows if not row.problem)
    assert found.seconds >= max(row.seconds / row.packs for row in found.rows)
    assert found.workers == 2
    nothing = estimate(jobs[:2], place / "runs", device="cpu")
    assert (nothing.seconds, list(nothing.rows)) == (0.0, [])
    failing = estimate([broken], place / "runs", workers=1, device="cpu")
    assert "no.safetensors" in failing.rows[0].problem
    assert np.isnan(failing.seconds)


@pytest.mark.slow
def test_missing_features_are_counted_timed_and_computed_once(tmp_path):
    """A dry run times the embedding on a sample and trains on few items; embedding beforehand leaves none missing."""
    collection, benchmark = toy_rows(600)
    collection.save(tmp_path / "collection")
    benchmark.card["collection"]["path"] = "../collection"
    benchmark.save(tmp_path / "toy")
    jobs = Study((str(tmp_path / "toy"),), {"erm": ({},)}, {**HEAD, "steps": 20}).jobs(tmp_path / "runs")
    assert [len(want.missing) for want in needed_features(jobs)] == [600]
    found = estimate(jobs, tmp_path / "runs", workers=1, device="cpu")
    assert found.rows[0].problem == ""
    assert 0 < found.embedding < found.seconds
    assert any("features are missing" in one for one in found.assumed)
    assert 0 < len(needed_features(jobs)[0].missing) < 600  # what the warm-up needed is kept
    told = []
    embed_missing(jobs, "cpu", lambda done, total: told.append((done, total)))
    assert [len(want.missing) for want in needed_features(jobs)] == [0]
    assert told[-1][0] == told[-1][1] < 600
    assert needed_features([job._replace(settings={**job.settings, "features": ""}) for job in jobs]) == []


# Progress


def test_a_tally_tells_the_time_left_from_what_was_done_now():
    """Runs that were there before do not quicken the pace; the last run leaves nothing to wait for."""
    now = [0.0]
    tally = Tally(lambda: now[0])
    assert str(tally) == "no run has ended yet"
    for _ in range(50):
        tally.add(Outcome("a", "done"), 100)
    assert str(tally) == "50 of 100 runs done, 0 failed, 50 left"
    now[0] = 60.0
    tally.add(Outcome("b", "done", seconds=9.0), 100)
    tally.add(Outcome("c", "failed", "x", seconds=9.0), 100)
    assert str(tally) == "51 of 100 runs done, 1 failed, 48 left, about 24 min to go"
    for _ in range(48):
        tally.add(Outcome("d", "done", seconds=1.0), 100)
    assert str(tally) == "99 of 100 runs done, 1 failed, 0 left"


@given(st.floats(0, 1e8))
def test_times_are_short(seconds):
    """However long: a few characters, never zero."""
    said = how_long(seconds)
    assert 2 < len(said) < 14
    assert not said.startswith("0")


def test_nobody_watching_gets_a_line_now_and_then(capsys, monkeypatch):
    """Without a terminal a line goes to standard error; quiet is quiet."""
    monkeypatch.setattr("shiftbench.cli.training.EVERY", 0.01)
    said, deadline = "", time.monotonic() + 30
    with sweep_progress() as advance:
        advance(Outcome("a", "done", seconds=1.0), 2)
        while "1 of 2 runs done, 0 failed, 1 left" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().err
    assert "1 of 2 runs done, 0 failed, 1 left" in said
    capsys.readouterr()
    with sweep_progress(quiet=True) as advance:
        advance(Outcome("a", "done", seconds=1.0), 2)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_reasons_are_grouped():
    """Failures that differ in numbers alone are one reason, the commonest first."""
    ends = [Outcome("a", "failed", "out of memory"), *(
        Outcome(f"r{step}", "failed", f"the loss is nan at step {step}.") for step in (3, 17)), Outcome("b", "done")]
    assert json.loads(json.dumps(outcome_facts(ends))) == {
        "runs": 4, "done": 1, "failed": 3, "reasons": [
            {"reason": "the loss is nan at step 3.", "runs": 2, "example": "r3"},
            {"reason": "out of memory", "runs": 1, "example": "a"}], "notes": []}


# The command


@pytest.mark.slow
def test_a_sweep_from_the_command_line(shell, place):
    """A dry run says what is left, the sweep does it, a second one finds it done; logs are copied."""
    pytest.importorskip("tensorboard")
    path, out = write(place, SMALL), place / "runs"
    words = ["sweep", path, "--out", out, "--device", "cpu", "--workers", "1", "--set", "seeds=1", "--set",
             "methods=['erm']"]
    code, said, _ = shell(*words, "--dry-run", "--json")
    assert code == 0
    before = json.loads(said)
    assert (before["runs"], before["left"], before["states"]) == (2, 2, {"not started": 2})
    assert before["seconds"] > 0
    assert not out.exists()
    assert shell(*words, "--log", "tensorboard", "--quiet") == (0, "", "")
    assert len(list((out / "tensorboard").rglob("events*"))) == 2
    code, said, _ = shell(*words, "--json")
    assert json.loads(said) == {"out": str(out), "runs": 2, "done": 2, "failed": 0, "reasons": [], "notes": []}
    code, said, _ = shell(*words, "--dry-run")
    assert "2 runs: 2 done" in said
    assert "nothing is left to do" in said


def test_what_a_search_leaves_pinned_is_said_first(shell, place):
    """Before anything is timed, the command says which values of the file are pinned and which are replaced."""
    _, said, _ = shell("sweep", write(place, SMALL), "--out", place / "runs", "--dry-run", "--device", "tpu",
                       "--set", "search='wiles'", "--set", "lr=0.001")
    assert '[run] batch_size = 8: replaced by search = "wiles"' in said
    assert "[run] lr = 0.001: pinned, not searched" in said
    assert "[methods.irm] penalty = [1.0, 10.0]: pinned, not searched" in said


@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_the_number_of_runs_comes_before_all_work(shell, tmp_path, monkeypatch, more):
    """A study of its own world says how many runs it has before it draws; then what it draws, and each benchmark."""
    path = tmp_path / "study.toml"
    path.write_text("""
        suites = ["fine_grained/sprites/low_data"]
        members = ["low-1", "low-10"]
        seeds = 3
        redraw = true
        [world]
        name = "sprites"
        items = 400
        size = 32
        [run]
        model = "pixel-mlp"
        lr = [1e-3, 1e-4]
        [methods.erm]
        [methods.irm]
    """)
    expected = f"{path}: 24 runs: 4 settings on 2 benchmarks with 3 seeds"

    def stop(items=400, size=32, seed=0):
        raise ShiftBenchError("stopped before the world was drawn")

    with monkeypatch.context() as patch:
        patch.setitem(WORLDS, "sprites", stop)
        code, said, problem = shell("sweep", path, "--out", tmp_path / "runs", *more)
    assert (code, "stopped before the world was drawn" in problem) == (1, True)
    assert expected in said
    assert "drawing sprites, items 400, size 32, seed 0 …" in problem
    assert not (tmp_path / "runs" / "collections").exists()
    heard = []
    study = Study.load(path)
    study.prepare(tmp_path / "runs", progress=lambda done, total: heard.append((done, total)))
    assert heard == [(done, 6) for done in range(1, 7)]
    assert len(study.jobs(tmp_path / "runs")) == 24


def test_runs_are_counted_as_they_will_be(place):
    """On benchmarks that are there: the number of jobs; with each domain left out, there are more."""
    study = Study.load(write(place, SMALL))
    n = len(study.jobs(place / "runs"))
    assert study.size_in_words().startswith(f"{n} runs: ")
    one = Study.load(write(place, SMALL), {"seeds": 1, "methods": ["erm"], "benchmarks": [
        str(place / "benchmarks" / "toy-a")]})
    assert one.size_in_words() == "1 run: 1 setting on 1 benchmark with 1 seed"
    more = Study.load(write(place, SMALL), {"leave_one_domain_out": True})
    assert more.size_in_words() == f"{study.size_in_words()}, and as many again without each training domain"


@pytest.mark.slow
def test_a_sweep_with_failures_ends_with_exit_code_1(shell, place):
    """The reasons are told once each, with what to do; trying again does only what failed."""
    words = ["sweep", write(place, SMALL), "--out", place / "runs", "--device", "cpu", "--workers", "1", "--set",
             "seeds=1", "--set", "lr=[1e-3, 1e30]", "--set", "methods=['erm']"]
    code, said, _ = shell(*words)
    assert code == 1
    assert "2 of 4 runs done, 2 failed" in said
    assert said.count("the loss is") == 1
    assert "--retry-failed" in said
    marks = {path: path.stat().st_mtime_ns for path in (place / "runs").glob("*/done")}
    code, said, _ = shell(*words, "--retry-failed", "--json")
    assert (code, json.loads(said)["failed"]) == (1, 2)
    assert {path: path.stat().st_mtime_ns for path in (place / "runs").glob("*/done")} == marks


@pytest.mark.parametrize(("more", "code", "message"), [
    (["--set", "sedes=3"], 1, "Did you mean 'seeds'"), (["--log", "tensorbord"], 1, "Did you mean 'tensorboard'"),
    (["--device", "tpu"], 1, "No device named 'tpu'"), (["--engine", "slurm"], 1, "local"),
])
def test_a_wrong_sweep_is_one_clear_message(shell, place, more, code, message):
    """Before anything is trained, and nothing is written."""
    got, _, err = shell("sweep", write(place, SMALL), "--out", place / "runs", *more)
    assert (got, message in err) == (code, True), err
    assert not (place / "runs").exists()
