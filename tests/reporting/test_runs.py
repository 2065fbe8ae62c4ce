"""A report of runs: which benchmark a score is about, which runs are missing, and rules that need target labels."""

import json
import os
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from bench.many_runs import make
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.scoring import named
from shiftbench.training.run import Run


def guesses(folder, name="guess.csv"):
    """Predictions that are right, of every row."""
    benchmark = Benchmark.load(folder)
    write_table(name, pa.table({"item": benchmark.items,
                                "prediction": np.asarray(benchmark.names["label"])[benchmark.label]}))
    return name


@pytest.fixture
def scored(shell, project):
    """Scores of a benchmark that lay in the folder b."""
    shell("build", "recipe.toml", "--out", "b")
    assert shell("score", "b", guesses("b"), "--out", "s.parquet")[0] == 0
    return project


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_benchmark_is_found_under_another_name(shell, scored, ending):
    """The card of a benchmark that was built elsewhere with the same rows is that of the scores, whatever its name."""
    Scores.load("s.parquet").save(f"s.{ending}")
    shell("build", "recipe.toml", "--out", "elsewhere")
    assert shell("report", f"s.{ending}", "--benchmark", "elsewhere", "--out", "r.html")[0] == 0
    page = (scored / "r.html").read_text()
    assert "The benchmark was not given" not in page
    assert Benchmark.load("b").digest in page


def test_a_benchmark_of_the_name_with_other_rows_is_refused(shell, scored):
    """Rows that were drawn again under the old name are not those of the scores."""
    shell("build", "recipe.toml", "--out", "b", "--seed", "1")
    for verb in ("report", "select"):
        code, _, said = shell(verb, "s.parquet", "--benchmark", "b")
        assert code == 1
        assert "other rows" in said


def test_scores_without_digests_are_matched_by_name(shell, scored):
    """A table of an earlier version has no digests: names count."""
    old = Scores.load("s.parquet")
    write_table("old.parquet", pa.table({name: pa.array(old[name]) for name in old.columns if name != "digest"}))
    assert set(Scores.load("old.parquet")["digest"].tolist()) == {""}
    assert [one.name for one in named([Benchmark.load("b")], Scores.load("old.parquet"))] == ["b"]
    assert shell("report", "old.parquet", "--benchmark", "b", "--out", "r.html")[0] == 0


@pytest.mark.slow
def test_runs_find_a_benchmark_that_was_moved(shell, project):
    """A benchmark that is no longer where the runs found it is given with --benchmark, under any name."""
    runs = make(project / "many", 20)
    first = sorted((project / "many" / "benchmarks").iterdir())
    for folder in first:
        folder.rename(project / f"moved-{folder.name}")
    assert shell("report", runs)[0] == 1
    given = [word for folder in first for word in ("--benchmark", f"moved-{folder.name}")]
    code, _, said = shell("report", runs, *given, "--out", "r.html")
    assert code == 0, said
    assert "The benchmark was not given" not in (project / "r.html").read_text()


@pytest.fixture
def many(project):
    """Twenty finished runs, one that failed and one that was not finished."""
    runs = make(project / "many", 20)
    one, other = sorted(runs.iterdir())[:2]
    (one / "done").unlink()
    (one / "failed.json").write_text(json.dumps({"reason": "the loss is no number"}))
    (other / "done").unlink()
    return runs, one.name, other.name


@pytest.mark.slow
def test_failed_and_unfinished_runs_are_named(shell, many):
    """On the page and on standard error, with the reason; the report is written from the others."""
    runs, failed, unfinished = many
    code, _, said = shell("report", runs, "--out", "r.html")
    assert code == 1
    page = Path("r.html").read_text()
    for text in (said, page):
        assert failed in text
        assert unfinished in text
        assert "1 failed, 1 unfinished" in text
    assert "the loss is no number" in page
    with pytest.warns(UserWarning, match=failed):
        sb.report(runs, "r.html")


def test_a_finished_folder_has_no_such_section(shell, project):
    """Where all runs are done nothing is said."""
    code, _, said = shell("report", make(project / "many", 20), "--out", "r.html")
    assert (code, said) == (0, "")
    assert 'id="absent"' not in (project / "r.html").read_text()


def test_a_study_says_which_runs_belong_to_it(shell, project):
    """With --study, runs of other settings are left over and not in the numbers; those never done are named."""
    runs = make(project / "many", 20)
    benchmark = sorted((project / "many" / "benchmarks").iterdir())[0]
    mine = []
    for folder in runs.iterdir():
        facts = json.loads((folder / "run.json").read_text())
        if facts["benchmark"]["digest"] == Benchmark.load(benchmark).digest:
            mine.append(facts["run"])
    run = mine[0]
    same = [one for one in mine if {**one, "seed": 0} == {**run, "seed": 0}]
    settings = {key: value for key, value in run.items() if key not in ("benchmark", "method", "params", "seed")}
    lines = [f'benchmarks = ["{benchmark}"]', f"seeds = [{', '.join(str(one['seed']) for one in same)}, 99]", "[run]",
             *(f"{key} = {json.dumps(value)}" for key, value in settings.items()), f"[methods.{run['method']}]",
             *(f"{key} = {json.dumps(value)}" for key, value in run["params"].items())]
    (project / "study.toml").write_text("\n".join(lines))
    code, _, said = shell("report", runs, "--study", "study.toml", "--out", "r.html")
    assert code == 0, said
    assert f"1 not started, {20 - len(same)} left over" in said
    page = (project / "r.html").read_text()
    assert Run.of({**run, "seed": 99}).id in page
    assert all(f"<h3>{folder.name}" not in page for folder in (project / "many" / "benchmarks").iterdir()
               if folder != benchmark)
    lines[1] = "seeds = [98, 99]"
    (project / "study.toml").write_text("\n".join(lines))
    code, _, said = shell("report", runs, "--study", "study.toml")
    assert code == 1
    assert "none of the 2 runs" in said


def test_a_study_needs_runs(shell, scored):
    """Scores do not say which study their runs were of."""
    code, _, said = shell("report", "s.parquet", "--study", "study.toml")
    assert code == 1
    assert "folder of runs" in said


@pytest.mark.slow
def test_the_advice_about_the_oracle_works(shell, project):
    """A report refuses to choose by target labels and says two commands that do it all the same."""
    runs = make(project / "many", 120)
    code, _, said = shell("report", runs, "--rule", "oracle")
    assert code == 1
    commands = re.findall(r"shiftbench ((?:select|report) [^,.]*?\.parquet)", said)
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.replace("RUNS", str(runs)).replace("NAME", "oracle"))
        code, _, problem = shell(*words)
        assert code == 0, problem


def test_two_folders_of_one_name_are_told_apart(project):
    """Scores of a/b are not shown with the card of c/b."""
    sb.build("recipe.toml", "a/b")
    sb.build("recipe.toml", "c/b", {"seed": 1})
    mine = sb.score("a/b", guesses("a/b"))
    with pytest.raises(sb.ShiftBenchError, match="other rows"):
        named([Benchmark.load("c/b")], mine)
    shutil.copytree("a/b", "d")
    assert [one.name for one in named([Benchmark.load("d")], mine)] == ["b"]


def test_every_figure_is_written_as_files(shell, scored):
    """`report --figures DIR` writes SVG, PNG, CSV and LaTeX of each; other files in DIR are an error and stay."""
    command = ("report", "s.parquet", "--benchmark", "b", "--out", "r.html", "--figures")
    assert shell(*command, "figures")[0] == 0
    index = json.loads((scored / "figures" / "figures.json").read_text())["figures"]
    (groups,) = [one for one in index if one["name"].startswith("groups-")]
    assert {path.name for path in (scored / "figures").iterdir()} == {
        "figures.json", *(f"{one['name']}.{kind}" for one in index for kind in ("svg", "png", "csv", "tex"))}
    table = (scored / "figures" / f"{groups['name']}.csv").read_text().splitlines()
    assert table[0] == "group,method,value,low,high,n"
    assert len(table) == 1 + len(Benchmark.load("b").counts()["test"])
    (scored / "mine").mkdir()
    (scored / "mine" / "notes.txt").write_text("keep")
    code, _, said = shell(*command, "mine")
    assert code == 1
    assert "not ours to replace" in said
    assert [path.name for path in (scored / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_each_file_of_a_run_is_read_once(shell, project, monkeypatch):
    """A report of runs with several settings opens every run.json and every predictions file once."""
    runs = make(project / "many", 120)
    opened = Counter()
    read = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.update([str(path)]) or read(path, *rest, **more))
    loaded = Predictions.load
    monkeypatch.setattr(Predictions, "load", staticmethod(lambda path, *rest, **more: opened.update(
        [f"{path} parsed"]) or loaded(path, *rest, **more)))
    code, _, said = shell("report", runs, "--out", "r.html")
    assert code == 0, said
    files = [path for path in opened if path.startswith(str(runs))]
    assert sum(path.endswith("run.json") for path in files) == sum(path.endswith("predictions.parquet") for path in
                                                                   files) == 120
    assert {path: n for path, n in opened.items() if path in files and n > 1} == {}
