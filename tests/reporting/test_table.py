"""Tables for papers: means with intervals and p-values from runs or from scores, as CSV, Markdown and LaTeX."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from scipy.stats import norm

import shiftbench as sb
from bench.many_runs import make
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, Scores
from shiftbench.reporting.comparison import (
    APART,
    FORMATS,
    PAIRED,
    Comparison,
    Line,
    lines,
    to_csv,
    to_latex,
    to_markdown,
)
from shiftbench.scoring import read_run, score_runs
from shiftbench.scoring.differences import compare
from shiftbench.scoring.runs import read_chosen


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three methods with one setting each, five seeds, four benchmarks."""
    return make(tmp_path_factory.mktemp("table"), 60)


@pytest.fixture(scope="module")
def found(runs):
    return sb.table(runs)


def right(runs, benchmark):
    """Method -> runs × test items: which were right."""
    by_method = {}
    for folder in sorted(runs.iterdir()):
        run = read_run(folder)
        if run.benchmark["digest"] == benchmark.digest:
            by_method.setdefault(run.settings["method"], []).append(folder.name)
    rows = benchmark.rows("test")
    truth = dict(zip(benchmark.items[rows].tolist(), benchmark.label[rows].tolist(), strict=True))
    hits = {}
    for method, names in by_method.items():
        hits[method] = []
        for read in read_chosen(runs, names, [benchmark]):
            mine = {item: int(row.argmax()) for item, row in zip(read.item.tolist(), read.scores, strict=True)}
            hits[method].append([mine[item] == truth[item] for item in sorted(truth)])
    return hits


@pytest.mark.slow
def test_means_and_intervals_are_those_of_the_scores(runs, found):
    """Every number of the table is a row of the scores: the mean over seeds with its interval."""
    scores = score_runs(runs)
    for line in found:
        mine = scores.where(benchmark=line.benchmark, method=line.method, split="test", metric=line.metric, stat="mean")
        (row,) = list(mine if line.metric.startswith("worst_") else mine.where(group=ALL))
        assert (line.mean, line.low, line.high, line.runs) == (row["value"], row["low"], row["high"], 5)
    assert {line.metric for line in found} == {"accuracy", "worst_group_accuracy"}
    assert len(found) == 4 * 3 * 2


def test_methods_are_compared_with_the_best_on_the_same_items(runs, found):
    """The p-value is that of the paired comparison, corrected for all pairs; the best has none."""
    for line in found:
        if line.best:
            assert line.reference == ""
            assert math.isnan(line.p)
        else:
            assert line.by == PAIRED
            assert line.difference <= 0
    folder = read_run(next(iter(runs.iterdir()))).benchmark_folder
    benchmark = Benchmark.load(folder)
    hits = right(runs, benchmark)
    methods = list(hits)
    stacked = np.concatenate([hits[method] for method in methods])
    owner = np.repeat(np.arange(len(methods)), [len(hits[method]) for method in methods])
    mine = {line.method: line for line in found if line.benchmark == benchmark.name and line.metric == "accuracy"}
    best = next(method for method in methods if mine[method].best)
    expected = compare(stacked, owner, against=methods.index(best))
    for second, p, difference in zip(expected.second, expected.adjusted, expected.difference, strict=True):
        assert mine[methods[second]].p == pytest.approx(p)
        assert mine[methods[second]].difference == pytest.approx(-difference)


@pytest.mark.slow
def test_methods_are_compared_with_one_that_is_named(runs):
    """Against a baseline each p is that of the two methods alone, times the number of others; signs are kept."""
    benchmark = Benchmark.load(read_run(next(iter(runs.iterdir()))).benchmark_folder)
    hits = right(runs, benchmark)
    mine = {line.method: line for line in sb.table(runs, against="erm", metrics=["accuracy"])
            if line.benchmark == benchmark.name}
    assert mine["erm"].reference == ""
    for method in hits:
        if method != "erm":
            both = np.concatenate([hits["erm"], hits[method]])
            owner = np.repeat([0, 1], [len(hits["erm"]), len(hits[method])])
            expected = compare(both, owner, level=0.975)
            line = mine[method]
            assert line.reference == "erm"
            assert line.by == PAIRED
            assert line.p == pytest.approx(min(1, 2 * float(expected.p[0])))
            assert line.difference == pytest.approx(line.mean - mine["erm"].mean)
            assert line.difference_low == pytest.approx(-float(expected.high[0]))
            assert line.difference_high == pytest.approx(-float(expected.low[0]))


def test_scores_alone_are_compared_by_their_intervals():
    """Two models of which only intervals are known: z of the two standard errors, and the table says so."""
    head = {"run": "x", "benchmark": "b", "seed": 0, "split": "test", "group": ALL, "n": 100, "metric": "accuracy"}
    z = norm.ppf(0.975)
    scores = Scores.of([{**head, "method": name, "value": value, "low": value - z * s, "high": value + z * s}
                        for name, value, s in (("a", 0.8, 0.03), ("c", 0.7, 0.04))])
    first, second = lines(scores, [], ["accuracy"])
    assert (first.best, first.p) == (True, pytest.approx(math.nan, nan_ok=True))
    assert second.by == APART
    assert second.difference == pytest.approx(-0.1)
    assert second.p == pytest.approx(2 * norm.sf(0.1 / 0.05))
    assert (second.difference_low, second.difference_high) == pytest.approx((-0.1 - z * 0.05, -0.1 + z * 0.05))
    assert "only scores were at hand" in to_markdown([first, second])


@pytest.mark.slow
def test_lower_is_better_of_a_loss(runs):
    """The best by log-loss has the smallest."""
    for benchmark in ("woods", "roads"):
        mine = [line for line in sb.table(runs, metrics=["nll"]) if line.benchmark == benchmark]
        assert min(mine, key=lambda line: line.mean).best
        assert all(line.difference >= 0 for line in mine if not line.best)


NASTY = "a_b & 50% #1 {x} | *y* \\ <z> =1+1"


def line(method, **more):
    return Line("b_1", "test", "accuracy", "", method, 3, 40, 0.5, 0.4, 0.6, **{
        "best": False, "reference": "erm", "difference": -0.1, "difference_low": -0.2, "difference_high": 0.0,
        "p": 0.0004, "by": PAIRED, **more})


def test_csv_holds_every_field(found):
    """Each line as it is; what is not known is empty, and no name is a formula."""
    table = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert len(table) == len(found)
    assert tuple(table[0]) == Line._fields
    for row, one in zip(table, found, strict=True):
        assert float(row["mean"]) == pytest.approx(one.mean, abs=1e-6)
        assert (row["p"] == "") == math.isnan(one.p)
    assert next(csv.DictReader(io.StringIO(to_csv([line("=1+1")]))))["method"] == "'=1+1"


def test_latex_is_escaped_and_complete(found):
    """One tabular, as many cells in each row as it has columns, no sign of LaTeX's own unescaped, nothing commented."""
    text = to_latex([*found, line(NASTY)])
    body = [row for row in text.splitlines() if not row.startswith("%")]
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1]
    for row in body:
        assert not re.search(r"(?<!\\)[%#]", row)
        if row.endswith(r"\\") and "multicolumn" not in row:
            assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1
    assert r"a\_b \& 50\% \#1 \{x\}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    assert "$<$ 0.001" in text


def test_markdown_is_a_table(found):
    """Every row of a block has the same number of cells, whatever a method is called."""
    text = to_markdown([line(NASTY), line("erm", reference="", difference=math.nan, p=math.nan)])
    rows = [row for row in text.splitlines() if row.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "< 0.001" in text
    assert "−10.0" in text
    assert to_markdown(found).count("**woods**") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_shell_prints_and_writes(shell, tmp_path, runs, name):
    """What is printed is what --out writes; the ending of a file says its format."""
    code, out, _ = shell("table", runs, "--format", name)
    assert code == 0
    ending = {"latex": "tex"}.get(name, name)
    assert shell("table", runs, "--out", tmp_path / f"t.{ending}")[0] == 0
    assert (tmp_path / f"t.{ending}").read_text() == out


def test_json_has_every_field(shell, runs):
    """And null where a number is not known."""
    listed = json.loads(shell("table", runs, "--json", "--metric", "macro_f1")[1])
    assert {one["metric"] for one in listed} == {"macro_f1"}
    assert set(listed[0]) == set(Line._fields)
    assert any(one["p"] is None for one in listed)


@pytest.mark.parametrize(("words", "said"), [
    (("--format", "html"), "No format named 'html'"), (("--out", "t.docx"), "--format"),
    (("--against", "ermm"), "Did you mean 'erm'"), (("--metric", "accuracies"), "they have: accuracy"),
    (("--split", "nowhere"), "Their splits: "), (("--rule", "best"), "No rule named"),
])
def test_what_cannot_be_told_is_one_line(shell, runs, words, said):
    """A format, a method, a metric or a split that is not there."""
    code, _, problem = shell("table", runs, *words)
    assert code == 1
    assert said in problem


@pytest.mark.slow
def test_several_settings_are_chosen_by_a_rule(tmp_path):
    """Each method has one line, the mean of what the rule chose; a rule by target labels is refused."""
    runs = make(tmp_path, 120)
    assert {line.method for line in sb.table(runs, rule="id")} == {"erm", "group_dro", "irm"}
    with pytest.raises(ShiftBenchError, match="labels of the target"):
        sb.table(runs, rule="oracle")


def test_a_table_shows_itself(found):
    """In a notebook it is a table; it is LaTeX and a data frame where one asks for it, and still a list of lines."""
    table = Comparison(found)
    assert table == found
    assert table.to_markdown() == table._repr_markdown_() == to_markdown(found)
    assert repr(table).startswith(f"Comparison({len(found)} lines; benchmarks: {found[0].benchmark}")
    assert "\n" not in repr(table)
    assert table.to_latex() == to_latex(found)
    assert table.to_pandas()["method"].tolist() == [line.method for line in found]
