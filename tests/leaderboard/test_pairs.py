"""A board compares submissions on the same items, also those of models that were trained elsewhere."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.data.scores import ALL
from shiftbench.reporting.score_tables import comparisons
from tests.leaderboard.test_boards import by_name, guesses, submit
from tests.scoring.test_side_by_side import N, evaluation_only, model

FEWER = 24


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """An evaluation-only benchmark and two models from elsewhere: both err on one item in five, `old` on 24 more."""
    root = tmp_path_factory.mktemp("outside")
    made = evaluation_only()
    made.save(root / "bench")
    shared = np.arange(0, N, 5)
    more = np.append(shared, np.setdiff1d(np.arange(N), shared)[:FEWER])
    for name, wrong in (("new", shared), ("old", more)):
        submit(root / "submissions", name, made, [model(made, wrong)], selected_on="elsewhere")
    return root


def test_models_from_elsewhere_are_ranked(outside, tmp_path):
    """Without training items one file is enough, and `elsewhere` breaks no rule; `val`, which is not there, does."""
    made = sb.board(outside / "submissions", outside / "bench")
    assert [(one.verified.entry.folder, one.rank) for one in made.table(True)] == [("new", 1), ("old", 2)]
    assert not made.refused
    assert made.required == 1
    submit(tmp_path, "wrong", made.benchmark, [model(made.benchmark, np.arange(9))], selected_on="val")
    (refused,) = sb.board(tmp_path, outside / "bench").refused
    assert "does not have; say 'elsewhere'" in " ".join(refused.verified.reasons)


@pytest.mark.parametrize(("metric", "paired"), [
    ("worst_group_accuracy", True), ("macro_f1", True), ("nll", False), ("macro_recall", False)])
def test_other_metrics_have_the_same_best(metric, paired, tmp_path):
    """Whatever ranks, a difference is to the submission that is first by it, and never below zero."""
    made = evaluation_only()
    for seed, (name, skill) in enumerate({"a": 0.6, "b": 0.9, "c": 0.75}.items()):
        submit(tmp_path, name, made, [guesses(made, seed, skill, splits=("test",))], selected_on="elsewhere")
    first, *others = sb.board(tmp_path, made, metric=metric).table(True)
    assert (first.verified.entry.folder, len(others)) == ("b", 2)
    assert first.cell("test", metric)["behind"] is None
    pairs = [one.cell("test", metric)["behind"] for one in others]
    assert all((pair is not None) == paired for pair in pairs)
    assert all(pair.best == "b" and pair.difference > 0 for pair in pairs if pair)


def test_the_difference_to_the_best_is_paired(outside, tmp_path):
    """Page, JSON and CSV have the difference, interval and exact p that `score` gives of the same two files."""
    made = sb.board(outside / "submissions", outside / "bench", tmp_path)
    for name in ("new", "old"):
        shutil.copy(outside / "submissions" / name / "seed-0.parquet", tmp_path / f"{name}.parquet")
    pair = by_name(made)["old"].cell("test", "accuracy")["behind"]
    scored = sb.score(outside / "bench", tmp_path / "new.parquet", tmp_path / "old.parquet")
    assert pair == next(one for one in comparisons(scored) if one.metric == "accuracy" and one.group == ALL)
    assert pair.difference == pytest.approx(FEWER / N)
    assert pair.p == pytest.approx(2 * 0.5**FEWER)  # McNemar's: the 24 items on which they differ, all one way
    assert 0 < pair.low < FEWER / N < pair.high
    assert not by_name(made)["old"].cell("test", "accuracy")["tied"]
    assert by_name(made)["new"].cell("test", "accuracy")["behind"] is None
    rows = {row["folder"]: row for row in csv.DictReader((tmp_path / "board.csv").open())}
    told = {entry["folder"]: entry["scores"]["test"]["accuracy"]["behind"]
            for entry in json.loads((tmp_path / "board.json").read_text())["entries"]}
    assert told["new"] is None
    assert told["old"]["best"] == "new"
    for name in ("difference", "low", "high", "p"):
        assert float(rows["old"][f"test:accuracy:behind_{name}"]) == pytest.approx(getattr(pair, name))
        assert told["old"][name] == pytest.approx(getattr(pair, name))
        assert rows["new"][f"test:accuracy:behind_{name}"] == ""
    text = (tmp_path / "index.html").read_text()
    assert "Behind the best" in text
    assert "Trained elsewhere" in text
    assert "Training algorithms" not in text
    assert "test, after the shift" not in text
    assert f"<td>{100 * pair.difference:.1f}<small>{100 * pair.low:.1f} to {100 * pair.high:.1f}</small>" in text
    assert f"p = {pair.p:.0e}" in text


def test_a_lone_submission_has_no_column_of_differences(outside, tmp_path):
    """Where there is nothing to be behind, the page has no such column; the terminal's table is made all the same."""
    made = evaluation_only()
    submit(tmp_path / "one", "only", made, [model(made, np.arange(9))], selected_on="elsewhere")
    done = CliRunner().invoke(app, ["board", str(tmp_path / "one"), "--benchmark", str(outside / "bench"), "--out",
                                    str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Behind the best" not in (tmp_path / "out" / "index.html").read_text()
