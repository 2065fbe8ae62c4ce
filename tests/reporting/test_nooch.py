"""The section of out-of-context benchmarks says what generated scores were made to say, and shows the right items."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import Scores
from shiftbench.reporting import report
from shiftbench.reporting.charts import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Look
from shiftbench.reporting.figures import to_svg
from shiftbench.reporting.page import results_of
from shiftbench.reporting.sections.nooch import (
    Point,
    cells,
    compared,
    content,
    harder,
    nooch_in,
    points,
    points_panel,
    table,
    tasks,
)
from shiftbench.reporting.sections.nooch_items import beaten
from shiftbench.scoring import RunIndex, means, score, score_runs
from shiftbench.scoring.metrics import losses
from tests.reporting.test_report import Page
from tests.scoring.test_kinds import bench, model, only
from tests.scoring.test_score import write_run

EVIL = "<script>alert(1)</script> & {{ 7 * 7 }}"
CUES = {"erm": 1.5, "dro": 0.2, EVIL: 0.8}


def scored(made):
    """Two seeds of three methods that follow the cue more and less, and their means."""
    runs = {name: [model(made, seed, cue) for seed in range(2)] for name, cue in CUES.items()}
    parts = [score(made, one, run=f"{name} {seed}", method=name, seed=seed)
             for name, listed in runs.items() for seed, one in enumerate(listed)]
    return Scores.join([*parts, means(made, runs)])


def figures(scores, made):
    """Name -> the figure as an SVG file."""
    return {one.name: to_svg(one) for one in content(results_of(scores, made))["figures"]}


@pytest.fixture(scope="module")
def study():
    made = [bench(600, 0, "ce-car", "ce"), bench(600, 1, "ce-bus", "ce"), bench(600, 2, "gist-car", "gist"),
            bench(600, 3, "birds", "factors")]
    return Scores.join([scored(one) for one in made]), made


@pytest.mark.slow
def test_a_table_has_the_scored_numbers(study):
    """Hard and easy side by side, each the mean as scored; the worst group's error is 1 − its accuracy."""
    scores, made = study
    found = table(scores, made[0])
    heads = [(column["block"], column["head"]) for column in found["columns"]]
    assert heads == [("AUC", "hard"), ("AUC", "easy"), ("NLL", "hard +"), ("NLL", "hard −"), ("NLL", "easy"),
                     ("ECE", "hard"), ("ECE", "easy"), ("Error", "hard"), ("Error", "easy"), ("Worst group", "error"),
                     ("Worst group", "NLL")]
    assert [row["method"] for row in found["rows"]] == ["erm", EVIL, "dro"]
    mine = scores.where(benchmark="ce-car", split="test", method="dro", stat="mean")
    row = found["rows"][2]["cells"]
    assert row[0]["value"] == only(mine, metric="auc", group="hard")["value"]
    assert row[3]["value"] == only(mine, metric="nll", group="hard_negative")["value"]
    worst = only(mine, metric="worst_group_accuracy")
    assert (row[9]["value"], row[9]["low"], row[9]["high"]) == (
        1 - worst["value"], 1 - worst["high"], 1 - worst["low"])
    assert row[0]["best"]
    assert not row[1]["best"]


def test_a_table_counts_seeds_method_by_method():
    """With two seeds of one method and one of another the caption gives both counts, and no count for all."""
    made = bench(600, 0, "ce-car", "ce")
    runs = {"erm": [model(made, seed, 1.5) for seed in range(2)], "dro": [model(made, 0, 0.2)]}
    assert table(means(made, runs), made)["seeds"] == ", mean over seeds (erm 2, dro 1)"
    runs["dro"].append(model(made, 1, 0.2))
    assert table(means(made, runs), made)["seeds"] == ", mean over 2 seeds"


@pytest.mark.slow
def test_a_question_has_the_columns_of_table_4(study):
    """Where hard items were told by a question, the worst group is the worse of the two hard sides."""
    scores, made = study
    found = table(scores, made[3])
    assert [column["metric"] for column in found["columns"]][-2:] == ["worst_hard_error", "worst_hard_nll"]
    mine = scores.where(benchmark="birds", split="test", method="erm", stat="mean")
    assert found["rows"][0]["cells"][-2]["value"] == only(mine, metric="worst_hard_error")["value"]


def test_tasks_are_averaged_as_in_tables_2_and_3(study):
    """A row per task, a column per method, and the plain mean of a column below it."""
    scores, made = study
    found = tasks(scores, made[:2])
    assert [row["method"] for row in found["rows"]] == ["ce-car", "ce-bus", "Average"]
    *rows, average = (row["cells"] for row in found["rows"])
    assert len(average) == 3
    for place in range(3):
        assert average[place]["value"] == pytest.approx(np.mean([row[place]["value"] for row in rows]))


def test_easy_items_may_be_in_id_test():
    """Where test holds hard items alone the easy ones of id_test stand beside them, and nothing is set against all."""
    made = bench(600, 4)
    split = np.where((made.split == "test") & (made.extra["kind"] == "easy"), "id_test", made.split)
    apart = Benchmark(made.items, split, made.label, made.domain, made.group, made.names, made.card, made.extra)
    scores = scored(apart)
    found = cells(scores, apart, "auc", "easy")
    mine = scores.where(split="id_test", group="easy", metric="auc", method="erm")
    assert found["erm"]["value"] == only(mine, stat="mean")["value"]
    assert "(id_test)" in table(scores, apart)["sizes"]
    assert harder(scores, [apart], "hard_positive", "erm") == []


def test_figure_3_is_the_loss_of_all_against_the_hard(study):
    """Across is the mean loss of every test item of the label, from its predictions; up that of the hard ones."""
    scores, made = study
    for side, word in (("hard_positive", "car"), ("hard_negative", "no car")):
        (point,) = harder(scores, made[:1], side, "erm")
        expected = []
        for seed in range(2):
            guess = model(made[0], seed, CUES["erm"])
            rows = made[0].rows("test")
            rows = rows[made[0].label[rows] == made[0].names["label"].index(word)]
            expected.append(losses(made[0].label[rows], guess.scores[rows]).mean())
        assert point.x["value"] == pytest.approx(np.mean(expected), abs=1e-6)
        assert point.y["value"] > point.x["value"]


def test_figures_are_drawings_by_themselves(study):
    """Each is an SVG that parses, with its title, all its methods and no foreign markup."""
    scores, made = study
    drawn = figures(scores, made)
    assert list(drawn) == ["nooch-harder", "nooch-auc", "nooch-nll", "nooch-ece"]
    for text in drawn.values():
        words = " ".join(ET.fromstring(text).itertext())  # noqa: S314 -- our own drawing
        assert "nan" not in text
        assert "<script>" not in text
        assert "95 % interval" in words
        if text == drawn["nooch-auc"]:
            assert all(f"{name}: AUC" in words for name in CUES)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 9)), min_size=1, max_size=9), st.booleans())
def test_points_lie_in_the_frame(rows, square):
    """Whatever the losses are, points and lines are inside, larger is farther right and higher, ticks are round."""
    cell = lambda value, half: {"value": value, "low": max(0.0, value - half), "high": value + half, "n": 9}  # noqa: E731
    listed = [Point(str(k), cell(x, half), cell(y, math.nan)) for k, (x, y, half) in enumerate(rows)]
    panel = points_panel(listed, "t", ("a", "b"), {one.name: Look() for one in listed}, square=square)
    frame, *drawn = panel.groups
    spots = [group.marks[-1].points[0] for group in drawn if group.title != "both the same"]
    for group in drawn:
        for mark in group.marks:
            assert all(LEFT - 1e-6 <= x <= WIDTH and TOP - 1e-6 <= y <= HEIGHT - BOTTOM + 1e-6 for x, y in mark.points)
    for spot, one in zip(spots, listed, strict=True):
        for other, two in zip(spots, listed, strict=True):
            if one.x["value"] < two.x["value"]:
                assert spot[0] <= other[0]
            if one.y["value"] < two.y["value"]:
                assert spot[1] >= other[1]
    ticks = [[mark.text for mark in frame.marks if mark.shape == "text" and mark.anchor == anchor and not mark.upright]
             for anchor in ("middle", "end")]
    assert 2 <= len(ticks[1]) <= 8
    if square:
        assert set(ticks[0][:-1]) <= set(ticks[1])


def test_methods_without_all_numbers_are_no_points(study):
    """An average is over all tasks of a criterion or there is none."""
    scores, made = study
    keep = ~((scores["method"] == "dro") & (scores["benchmark"] == "ce-bus"))
    some = Scores({name: values[keep] for name, values in scores.columns.items()})
    both = points(some, made[:2], ("auc", "easy"), ("auc", "hard"))
    assert [point.name for point in both] == ["erm", EVIL]


def test_the_page_has_a_section_and_no_foreign_markup(study, tmp_path):
    """Values of the tables are in the page, names are escaped, and other benchmarks have no such section."""
    scores, made = study
    text = report(scores, made, tmp_path / "r.html").read_text()
    page = Page(text)
    assert "Out-of-context challenge (NOOCh)" in text
    assert "<script>" not in text
    mean = only(scores, benchmark="ce-car", split="test", metric="auc", group="hard", method="dro", stat="mean")
    value = mean["value"]
    assert any(abs(found - value) < 1e-9 for found, _ in page.data)
    plain = Benchmark(made[0].items, made[0].split, made[0].label, made[0].domain, made[0].group, made[0].names,
                      made[0].card)
    assert nooch_in([plain]) == []
    assert "NOOCh)" not in report(scores.where(benchmark="ce-car"), [plain], tmp_path / "p.html").read_text()


def test_an_unknown_auc_is_shown_as_none(tmp_path):
    """A set with one label has a dash, not a number, and no point in a figure."""
    made = bench(300, 5)
    there = made.names["label"].index("car")
    kind = np.where((made.extra["kind"] == "hard_negative"), "easy", made.extra["kind"])
    lone = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card, {"kind": kind})
    assert (lone.label[kind == "hard_positive"] == there).all()
    scores = scored(lone)
    text = report(scores, [lone], tmp_path / "r.html").read_text()
    assert re.search(r'<td class="none">–</td>', text)
    assert "nooch-auc" not in figures(scores, [lone])
    assert "nooch-nll" in figures(scores, [lone])


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_strips_have_the_largest_differences(seed, top):
    """Each way and kind by kind: items on which one is better, the most first, none with a larger gain left out."""
    made = bench(120, seed)
    rows, rng = made.rows("test"), np.random.default_rng(seed)
    loss = {name: np.round(rng.random(len(rows)) * 2, 1) for name in ("erm", "dro")}
    kind = made.extra["kind"][rows]
    for strip in beaten(made, loss, top):
        gain = loss[strip.worse] - loss[strip.better]
        mine = strip.loss[:, 1] - strip.loss[:, 0]
        assert (mine > 0).all()
        assert (np.diff(mine) <= 0).all()
        pool = np.sort(gain[(kind == strip.kind) & (gain > 0)])[::-1]
        np.testing.assert_allclose(mine, pool[:top])
        assert (made.extra["kind"][strip.rows] == strip.kind).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two methods, two seeds, on a benchmark of small pictures."""
    place = tmp_path_factory.mktemp("nooch")
    made = bench(300, 6)
    order = np.argsort(made.items)
    pixels = np.random.default_rng(0).integers(0, 255, (300, 8, 8, 3), dtype=np.uint8)
    drawn = Collection("toy", made.items[order], pixels=pixels)
    drawn.save(place / "pictures")
    card = {**made.card, "collection": {"name": "toy", "digest": drawn.digest, "path": "../pictures"}}
    whole = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, card, made.extra)
    saved = Benchmark.load(whole.save(place / "toy"))
    for method, cue in (("erm", 1.5), ("group_dro", 0.0), ("irm", 1.0)):
        for seed in range(2):
            write_run(place / "runs", f"{method}{seed}", saved, model(saved, seed, cue), seed=seed, method=method)
    return place, saved, drawn


def test_runs_are_compared_by_their_predictions(folder):
    """Losses are means over seeds; without a pair it is the baseline and the best on hard items."""
    place, made, _ = folder
    index = RunIndex(place / "runs")
    scores = score_runs(index)
    (found,) = compared(index, scores, [made])
    assert (found.methods, found.seeds) == (("erm", "group_dro"), (2, 2))
    strip = found.strips[0]
    expected = [np.mean([losses(made.label[[row]], model(made, seed, cue).scores[[row]])[0] for seed in range(2)])
                for row in strip.rows[:1] for cue in ((1.5, 0.0) if strip.better == "erm" else (0.0, 1.5))]
    assert strip.loss[0].tolist() == pytest.approx(expected, abs=1e-6)
    (named,) = compared(index, scores, [made], ["irm", "erm"])
    assert named.methods == ("irm", "erm")
    with pytest.raises(ShiftBenchError, match="No method named 'dro'"):
        compared(index, scores, [made], ["erm", "dro"])


def test_the_page_shows_pictures_with_both_losses(folder, tmp_path):
    """At most eight pictures a strip, each with the loss of the better and of the worse; ids where there are none."""
    place, made, drawn = folder
    index = RunIndex(place / "runs")
    scores = score_runs(index)
    found = content(results_of(scores, [made], [drawn], index=index))["compared"][0]
    for strip in found["strips"]:
        assert 0 < len(strip["entries"]) <= 8
        assert all(one["source"].startswith("data:image/webp") for one in strip["entries"])
        for one in strip["entries"]:
            (better, less), (worse, more) = one["losses"]
            assert (better, worse) == (strip["better"], strip["worse"])
            assert float(less) <= float(more)
    bare = content(results_of(scores, [made], index=index))["compared"][0]
    text = report(scores, [made], tmp_path / "r.html", index=index).read_text()
    assert bare["strips"][0]["entries"][0]["item"] in text
    Page(text)


@pytest.mark.slow
def test_the_command_compares_two_methods(folder, tmp_path, shell):
    """`report RUNS --compare irm,erm` shows these two; one name, a stranger or a table of scores is one message."""
    place, _, _ = folder
    code, _, _ = shell("report", place / "runs", "--out", tmp_path / "r.html", "--compare", "irm,erm")
    assert code == 0
    assert "irm and erm" in (tmp_path / "r.html").read_text()
    for words, why in ((("irm",), "it takes two"), (("irm,dro",), "No method named 'dro'")):
        code, _, said = shell("report", place / "runs", "--out", tmp_path / "s.html", "--compare", *words)
        assert code
        assert why in said
    sb.Scores.of([]).save(tmp_path / "s.parquet")
    code, _, said = shell("report", tmp_path / "s.parquet", "--out", tmp_path / "s.html", "--compare", "erm,irm")
    assert "folder of runs" in said


def test_predictions_of_another_benchmark_are_left_out(folder):
    """A run that was made on other rows says nothing of these items."""
    place, made, _ = folder
    index = RunIndex(place / "runs")
    scores = score_runs(index)
    other = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card,
                      {"kind": made.extra["kind"], "more": np.arange(len(made))})
    assert compared(index, scores, [other]) == []
