"""The view that compares methods has the numbers of `table`, the choices of `select` and the figures of `report`."""

import json
import time
from threading import Event

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.reporting.comparison import difference_in_words, mean_in_words, p_in_words
from shiftbench.reporting.page import read_source, shown_scores
from shiftbench.reporting.score_tables import pivot
from shiftbench.webapp import compare_view, scored_sources
from shiftbench.webapp.looks import Books, sealed
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio


def ask(studio, answer, **state):
    """An answer, when the scores are there."""
    query = Query({name: value if isinstance(value, str) else json.dumps(value) for name, value in state.items()})
    while "scoring" in (facts := answer(studio, query)):
        time.sleep(0.01)
    return facts


@pytest.fixture(scope="module")
def shelf(several):
    return Studio(Shelf([several]))


def by_place(answer):
    return {(table["measure"], name, row["method"]): cell for table in answer["tables"] for row in table["rows"]
            for name, cell in zip(table["benchmarks"], row["cells"], strict=True)}


@pytest.mark.parametrize(("on", "state"), [
    ("scores.parquet", {}), ("runs", {}), ("runs", {"rule": "worst_group"}), ("runs", {"against": "erm"}),
    ("scores.parquet", {"split": "id_test", "metric": "macro_f1"})])
def test_every_cell_is_a_line_of_table(several, shelf, on, state):
    """Means, intervals, differences and p-values equal `sb.table`, value for value and word for word."""
    answer = ask(shelf, compare_view.compare, on=on, **state)
    own = {name: value for name, value in state.items() if name != "metric"}
    given = [several / "benchmarks/minority"] if on == "scores.parquet" else []
    lines = sb.table(several / on, metrics=state.get("metric", ()), benchmarks=given, **own)
    cells = by_place(answer)
    assert cells.keys() == {(line.metric, line.benchmark, line.method) for line in lines}
    for line in lines:
        cell = cells[line.metric, line.benchmark, line.method]
        assert (cell["value"], cell["low"], cell["high"]) == (line.mean, line.low, line.high)
        assert f"{cell['mean']} {cell['interval']}".strip() == mean_in_words(line)
        assert (cell["difference"], cell["p"]) == (difference_in_words(line), p_in_words(line))
        assert (cell["runs"], cell["n"], cell["reference"]) == (line.runs, line.n, line.reference)


def test_ties_are_those_of_the_report(several, shelf):
    """Best and ≈ are the marks that the report puts on the same cells."""
    answer = by_place(ask(shelf, compare_view.compare, on="runs"))
    source = read_source(several / "runs")
    scores = shown_scores(source.scores, source.benchmarks)
    for metric in ("accuracy", "worst_group_accuracy"):
        for row in pivot(scores, metric):
            for name, cell in row["cells"].items():
                mine = answer[metric, name, row["method"]]
                assert (mine["best"], mine["tied"]) == (cell["best"], cell["tied"])
    assert any(cell["best"] for cell in answer.values())


def test_another_rule_marks_what_it_changes(several, shelf):
    """The runs that another rule chooses are those in which two answers of `sb.select` differ; cells say by what."""
    before, after = (ask(shelf, compare_view.compare, on="runs", rule=rule) for rule in ("id", "worst_group"))
    both = ask(shelf, compare_view.compare, on="runs", rule="worst_group", before="id")
    one, other = ({(choice.benchmark, choice.method, choice.seed): choice.run
                   for choice in sb.select(several / "runs", rule).choices} for rule in ("id", "worst_group"))
    assert {(move["benchmark"], move["method"], move["seed"]): (move["from"], move["to"])
            for move in both["moved"]["choices"]} == {
        key: (one[key], run) for key, run in other.items() if one[key] != run} != {}
    assert all(move["settings"].startswith("lr ") for move in both["moved"]["choices"])
    for key, cell in by_place(both).items():
        old, new = by_place(before)[key], by_place(after)[key]
        assert bool(cell["moved"]) == (old["mean"] != new["mean"])
        assert {name: cell[name] for name in cell if name not in ("moved", "was")} == {
            name: new[name] for name in new if name not in ("moved", "was")}


def test_rules_that_need_target_labels_say_so(shelf):
    """The oracle is refused with its reason, and so is a request that names it."""
    rules = {rule["name"]: rule for rule in ask(shelf, compare_view.compare, on="runs")["rules"]}
    assert rules["id"]["why"] == ""
    assert rules["oracle"]["why"] == "needs labels of the target"
    with pytest.raises(ShiftBenchError, match="labels of the target"):
        ask(shelf, compare_view.compare, on="runs", rule="oracle")


def test_figures_are_those_of_the_report(several, shelf, tmp_path):
    """Every panel that the view draws is one of a figure that `report` writes."""
    sb.report(several / "runs", tmp_path / "report.html", figures=tmp_path / "figures")
    shown = [*ask(shelf, compare_view.figures, on="runs")["figures"],
             *ask(shelf, compare_view.figures, on="runs", benchmark="minority")["figures"]]
    assert {figure["name"] for figure in shown} == {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    for figure in shown:
        drawn = (tmp_path / f"figures/{figure['name']}.svg").read_text()
        assert figure["panels"]
        assert all(panel["svg"] in drawn for panel in figure["panels"])


@pytest.mark.parametrize("on", ["runs", "scores.parquet"])
def test_items_of_a_cell_add_up_to_its_number(shelf, on, monkeypatch):
    """The share of right predictions of the chosen runs is the accuracy in the cell, or that of its worst group."""
    monkeypatch.setattr(compare_view, "sealed", lambda items: np.zeros(len(items), np.bool_))
    cells = by_place(ask(shelf, compare_view.compare, on=on)) | by_place(ask(
        shelf, compare_view.compare, on=on, metric="worst_class_accuracy"))
    for measure, method in (("accuracy", "erm"), ("accuracy", "irm"), ("worst_group_accuracy", "irm"),
                            ("worst_class_accuracy", "erm")):
        answer = ask(shelf, compare_view.cell, on=on, benchmark="minority", method=method, measure=measure)
        cell = cells[measure, "minority", method]
        assert answer["right"] / answer["predictions"] == pytest.approx(cell["value"], abs=1e-12)
        assert (answer["n"], answer["sealed"], answer["group"]) == (cell["n"], 0, cell["group"])
        assert len(answer["runs"]) == cell["runs"]


def test_sealed_items_are_left_out_and_counted(shelf):
    """No outcome lists a sealed item; those that are listed and those that are sealed are all items of the split."""
    listed, counts = [], {}
    for outcome in ("wrong", "mixed", "right"):
        first = ask(shelf, compare_view.cell, on="runs", benchmark="minority", method="erm", outcome=outcome)
        pages = [ask(shelf, compare_view.cell, on="runs", benchmark="minority", method="erm", outcome=outcome,
                     page=str(page)) for page in range(first["pages"])]
        items = [item for page in pages for item in page["items"]]
        assert len(items) == first["total"] == first["counts"][outcome]
        assert all((item["mark"] == "good") == (outcome == "right") for item in items)
        listed, counts = listed + [item["id"] for item in items], first
    assert len(set(listed)) == len(listed) == counts["n"] - counts["sealed"]
    assert not sealed(np.asarray(listed)).any()
    assert counts["sealed"] > 0


def test_scoring_runs_once_and_blocks_nobody(several, monkeypatch):
    """While runs are scored, requests are answered by a sentence; all of them wait for one scoring."""
    calls, go, scoring = [], Event(), scored_sources.open_source

    def slow(*arguments, **named):
        calls.append(arguments)
        assert go.wait(60)
        return scoring(*arguments, **named)

    monkeypatch.setattr(scored_sources, "open_source", slow)
    monkeypatch.setattr(scored_sources, "PATIENCE", 0.01)
    studio = Studio(Shelf([several]))
    for _ in range(3):
        assert compare_view.compare(studio, Query({"on": "runs"}))["scoring"].startswith("Scoring 8 runs of runs")
    go.set()
    assert ask(studio, compare_view.compare, on="runs")["tables"]
    assert len(calls) == 1


def test_a_benchmark_is_named_as_in_scores_or_as_on_the_shelf(shelf):
    """Links of other pages name it by its id; one that no score is about is a sentence beside the choices."""
    by_name, by_id = (ask(shelf, compare_view.compare, on="runs", benchmark=name)
                      for name in ("minority", "benchmarks/minority"))
    assert by_name == by_id
    assert (by_id["benchmark"], by_id["nothing"], len(by_id["tables"])) == ("minority", "", 2)
    figures = [ask(shelf, compare_view.figures, on="runs", benchmark=name)["figures"]
               for name in ("minority", "benchmarks/minority")]
    assert figures[0] == figures[1] != []
    other = ask(shelf, compare_view.compare, on="runs", benchmark="other")
    assert (other["tables"], other["nothing"]) == ([], "Nothing in runs is about the benchmark 'other'.")
    assert other["benchmarks"] == ["minority"]


def test_scores_without_their_runs_have_no_items(several, tmp_path):
    """A table of scores alone is compared; a cell of it says why it has no items."""
    (tmp_path / "scores.parquet").write_bytes((several / "scores.parquet").read_bytes())
    studio = Studio(Shelf([tmp_path]))
    assert ask(studio, compare_view.compare)["tables"]
    with pytest.raises(ShiftBenchError, match="not below the studio's folder"):
        ask(studio, compare_view.cell, benchmark="minority", method="erm")


def test_a_comparison_is_a_look(several):
    """Each new state of the comparison and each cell is counted once."""
    studio = Studio(Shelf([several]))
    vars(studio)["books"] = Books()
    counts = []
    for state in ({}, {}, {"split": "id_test"}, {"rule": "worst_group"}):
        ask(studio, compare_view.compare, on="runs", **state)
        counts.append(len(studio.books.looks))
    ask(studio, compare_view.cell, on="runs", benchmark="minority", method="erm")
    assert [*counts, len(studio.books.looks)] == [1, 1, 2, 3, 4]
