"""The view of runs says what `shiftbench show` says, and opens no file of a run that is not on the page."""

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.scoring.listing import lines, points
from shiftbench.sweeps.status import left_out, states, status, summary
from shiftbench.webapp import runs_view
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio
from tests.webapp.conftest import make_run

OPENED: list[str] = []


def note_opened(event, arguments):
    if event == "open" and OPENED and isinstance(arguments[0], str | bytes):
        OPENED.append(str(arguments[0]))


sys.addaudithook(note_opened)  # once per process: a hook cannot be taken away


@contextmanager
def opened_files():
    """The names of all files that are opened inside."""
    OPENED[:] = ["start"]
    listed: list[str] = []
    try:
        yield listed
    finally:
        listed += OPENED[1:]
        OPENED.clear()


def ask(answer, folder, **state):
    return answer(Studio(Shelf([folder])), Query({name: value if isinstance(value, str) else json.dumps(value)
                                                  for name, value in state.items()}))


@pytest.fixture
def mixed(tmp_path):
    """Runs in every state but running: 60 done, 25 failed for two reasons, 3 unfinished, 1 that only has a mark."""
    for k in range(88):
        state = "done" if k < 60 else "failed" if k < 85 else "unfinished"
        make_run(tmp_path / "work/runs", k, state, lr=(0.001, 0.01)[k % 2], seed=k % 3,
                 reason="out of memory" if k % 2 else "loss is nan")
    (tmp_path / "work/runs/early").mkdir()
    (tmp_path / "work/runs/early/lock").touch()
    return tmp_path / "work"


def test_states_and_reasons_are_those_of_show(mixed):
    """Counts, summary, the fields of every row and the reasons of failures equal what `shiftbench show --json` has."""
    known = {one.run: one for one in status(mixed / "runs")}
    first = ask(runs_view.runs, mixed)
    assert first["summary"] == summary(one.state for one in known.values())
    assert dict(first["counts"]) == {"done": 60, "failed": 25, "unfinished": 3, "not started": 1}
    assert [one["reason"] for one in first["failed"]] == [one.reason for one in known.values() if one.reason][:20]
    assert first["failed_more"] == 5
    rows = [row for page in range(first["pages"]) for row in ask(runs_view.runs, mixed, page=str(page))["rows"]]
    assert len(rows) == len(known) == first["total"]
    for row in rows:
        own = known[row["run"]]._asdict()
        assert {name: row[name] for name in own if name in row and name != "model"} == {
            name: value for name, value in own.items() if name in row and name != "model"}


def test_only_settings_that_differ_are_columns(mixed):
    """The table has lr, which differs; the other settings are told once, and are columns when asked for."""
    few, many = ask(runs_view.runs, mixed, sort="lr"), ask(runs_view.runs, mixed, sort="lr", columns="all")
    assert few["columns"] == [*runs_view.FACTS, "lr"]
    assert few["same"] == {"model": "mlp", "steps": 20, "penalty": 1.5}
    assert set(many["columns"]) == {*few["columns"], *few["same"]}


def test_sorting_and_filtering_see_all_runs(mixed):
    """The pages together hold the runs that fulfil the filter, each once, in the order of the column."""
    where = [{"column": "lr", "value": "1e-2", "kind": "factor", "words": "lr is 0.01"}]
    first = ask(runs_view.runs, mixed, sort="loss", down="1", state="done", where=where)
    losses = [row["loss"] for row in first["rows"]]
    assert first["total"] == len(losses) == 30
    assert losses == sorted(losses, reverse=True)
    assert {row["lr"] for row in first["rows"]} == {0.01}
    assert ask(runs_view.runs, mixed, find="000007")["total"] == 11  # 7 and 70 to 79


@pytest.fixture
def in_memory():
    """A folder that is not on a disk where there is such a one: some disks take a minute to remove 10,000 folders."""
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:  # noqa: S108
        yield Path(folder)


def test_ten_thousand_runs_open_the_files_of_a_page(in_memory):
    """Of 10,000 runs the first page reads the run.json and logs of 50, and a second look none."""
    make_run(in_memory / "runs", 0)
    for k in range(1, 10_000):
        (in_memory / f"runs/{k:08}").mkdir()
        (in_memory / f"runs/{k:08}/done").touch()
    for k in range(1, 60):
        shutil.copy(in_memory / f"runs/{0:08}/run.json", in_memory / f"runs/{k:08}/run.json")
    with opened_files() as first:
        answer = ask(runs_view.runs, in_memory)
    assert answer["summary"] == "10,000 runs: 10,000 done"
    assert (len(answer["rows"]), answer["pages"]) == (50, 200)
    assert 50 <= sum("/runs/" in path for path in first) <= 2 * runs_view.PAGE
    with opened_files() as second:
        assert ask(runs_view.runs, in_memory) == answer
    assert not [path for path in second if "/runs/" in path]


def test_a_changed_run_is_read_again(mixed):
    """A log that grows and a run that ends show at once; nothing else is read."""
    folder = mixed / "runs" / f"{85:08}"
    before = ask(runs_view.runs, mixed, state="unfinished")
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps({"stage": 0, "step": 15, "loss": 0.25, "seconds": 9.5}) + "\n")
    runs_view.STATES_OF.forget()
    with opened_files() as opened:
        after = ask(runs_view.runs, mixed, state="unfinished")
    assert {path.split("/runs/")[1] for path in opened if f"/{85:08}/" in path} == {
        f"{85:08}/run.json", f"{85:08}/log.jsonl"}
    old, new = (next(row for row in answer["rows"] if row["run"] == folder.name) for answer in (before, after))
    assert new == old | {"step": 15, "loss": 0.25, "seconds": 9.5}


def test_curves_are_the_lines_of_the_logs(world):
    """Every loss and every number of the evaluations stands where the log of its run has it."""
    names = list(states(world / "runs"))
    answer = ask(runs_view.curves, world, on="runs", runs=names, number="id_val_accuracy")
    assert [one["run"] for one in answer["series"]] == names
    for one in answer["series"]:
        log = lines(world / "runs" / one["run"] / "log.jsonl")
        assert one["loss"] == [(line["step"], line["loss"]) for line in log]
        assert one["number"] == [(line["step"], dict(points(line))["id_val_accuracy"]) for line in log]


def test_a_study_says_how_many_runs_it_asks_for(world, tmp_path):
    """Runs that a study asks for and that are not there are not started; others are left over; `sweep` agrees."""
    (tmp_path / "study.toml").write_text(f'benchmarks = ["{world}/benchmarks/minority"]\nseeds = 3\n[run]\n'
                                         'model = "small-cnn"\nsteps = 20\nbatch_size = 16\n[methods.erm]\n')
    shutil.copytree(world / "runs", tmp_path / "runs")
    answer = ask(runs_view.asked, tmp_path, on="runs")
    jobs = sb.Study.load(tmp_path / "study.toml").jobs(tmp_path / "runs", collections=False)
    assert [(study["study"], study["asked"], dict(study["counts"])) for study in answer["studies"]] == [
        ("study.toml", 3, {"not started": 1, "done": 2})]
    assert answer["left_over"] == sum(one.state == "left over" for one in left_out(tmp_path / "runs", jobs)) == 2


def test_a_study_with_code_is_not_loaded(tmp_path):
    """A study that names code of a user's is counted by `sweep` alone: looking at a folder runs nothing in it."""
    make_run(tmp_path / "runs", 0)
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (tmp_path / "study.toml").write_text('import = ["own.py"]\nbenchmarks = ["x"]\n[methods.erm]\n')
    assert "--dry-run" in ask(runs_view.asked, tmp_path, on="runs")["studies"][0]["note"]
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_is_gone_is_a_sentence(mixed):
    """A folder that vanishes is an error that names it; when it is back, so is the answer."""
    studio = Studio(Shelf([mixed]))
    before = runs_view.runs(studio, Query({"on": "runs"}))
    (mixed / "runs").rename(mixed / ".away")
    runs_view.STATES_OF.forget()
    with pytest.raises((ShiftBenchError, FileNotFoundError), match="runs"):
        runs_view.runs(studio, Query({"on": "runs"}))
    (mixed / ".away").rename(mixed / "runs")
    assert runs_view.runs(Studio(Shelf([mixed])), Query({"on": "runs"})) == before


def test_damaged_files_hide_no_other_run(mixed):
    """A run.json that is no JSON, or a log of another kind, leaves its row empty and the others whole."""
    (mixed / "runs" / f"{0:08}" / "run.json").write_text("{")
    write_json(mixed / "runs" / f"{1:08}" / "run.json", [1])
    (mixed / "runs" / f"{2:08}" / "log.jsonl").write_bytes(b"\xff\x00\n[]\n")
    rows = {row["run"]: row for row in ask(runs_view.runs, mixed, state="done", sort="run")["rows"]}
    assert [rows[f"{k:08}"]["method"] for k in range(4)] == ["", "", "irm", "irm"]
    assert rows[f"{2:08}"]["loss"] is None
