"""The section of BREEDS' benchmarks says what generated scores were made to say."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
from shiftbench.human.people import METRICS
from shiftbench.reporting import report
from shiftbench.reporting.charts import HEIGHT, WIDTH, looks_of
from shiftbench.reporting.figures import to_svg
from shiftbench.reporting.page import ANNOTATED, SECTIONS, results_of
from shiftbench.reporting.sections.breeds import content, source_against_target
from shiftbench.reporting.sections.breeds_points import (
    by_class,
    by_model,
    by_superclass,
    constant_drop,
    families,
    frontier,
    points,
    relative,
)
from shiftbench.scoring import means, score
from shiftbench.scoring.runs import under_methods
from tests.reporting.test_report import Page

EVIL = '<script>alert(1)</script> & {{ 7 * 7 }}'
NAMES = np.asarray(["cat", "dog", EVIL])


def benchmark(name="rand", split="rand", distance=0.5, n=900, seed=0, **params):
    """Three superclasses with two subclasses on each side, of unlike sizes."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=n)
    part = rng.choice(["train", "id_test", "test"], n, p=[0.2, 0.4, 0.4])
    side = np.where(part == "test", "t", "s")
    sub = np.char.add(side, (rng.random(n) < 0.3).astype(int).astype(str))
    groups = np.char.add(np.char.add(NAMES[label], ": "), sub)
    collection = Collection("toy", np.asarray([f"i{k:04d}" for k in range(n)]))
    superclasses = [{"id": one, "name": one, "source": [{}, {}], "target": [{}, {}]} for one in NAMES.tolist()]
    return Benchmark.of(collection, None, 0, np.arange(n), part, label=NAMES[label], domain=side, group=groups, card={
        "name": name, "shift": "breeds", "distance": distance, "superclasses": superclasses,
        "params": {"level": 2, "split": split, "adversariality": None, **params}})


def guesses(made, source, target, seed, hard=None):
    """Right with a probability per side, lower for one class on the target."""
    rng = np.random.default_rng(seed)
    p = np.where(made.split == "test", target, source)
    if hard is not None:
        p = np.where((made.split == "test") & (made.label == hard), p / 2, p)
    wrong = (made.label + rng.integers(1, 3, len(made))) % 3
    guess = np.where(rng.random(len(made)) < p, made.label, wrong)
    return Predictions(made.items, made.split, np.eye(3, dtype=np.float32)[guess], made.names["label"])


def scored(made, runs, rt=True):
    """Scores of runs {(method, model, setting, label): [predictions]}, means as `score_runs` writes them, and RT."""
    parts, named, heads = [], {}, {}
    for (method, model, setting, label), listed in runs.items():
        named[label] = listed
        heads[label] = {"method": method, "model": model, "setting": setting}
        preset = label if " (" not in label else ""
        for seed, one in enumerate(listed):
            parts.append(score(made, one, run=f"{label} {seed}", seed=seed, label=preset, **heads[label]))
            if rt:
                again = parts[-1].where(split="test", metric="accuracy", group=ALL)
                parts.append(again.assign(metric="target_rt_accuracy", value=(again["value"] + 1) / 2,
                                          high=(again["high"] + 1) / 2))
    return Scores.join([*parts, under_methods(means(made, named), heads)])


@pytest.fixture(scope="module")
def study():
    made = [benchmark(split, split, apart, seed=seed)
            for seed, (split, apart) in enumerate({"good": 0.1, "rand": 0.6, "bad": 1.0}.items())]
    tables = []
    for place, one in enumerate(made):
        runs = {("erm", "mlp", "a1", 'erm (model="mlp")'): (0.9, 0.8),
                ("erm", "linear", "b2", 'erm (model="linear")'): (0.7, 0.5),
                ("erm", "resnet18", "c3", "resnet18"): (0.95, 0.85)}
        tables.append(scored(one, {key: [guesses(one, a, b - 0.15 * place, 10 * place + seed, hard=1)
                                         for seed in range(3)] for key, (a, b) in runs.items()}))
    return Scores.join(tables), made


def figures(scores, made):
    """Name -> the figure as an SVG file."""
    return {one.name: to_svg(one) for one in content(results_of(scores, made))["figures"]}


def cell(hits, n, runs=1):
    return {"value": hits / n, "low": math.nan, "high": math.nan, "n": n, "runs": runs}


@pytest.mark.parametrize(("p", "q", "n"), [(0.9, 0.6, 400), (0.97, 0.5, 150), (0.6, 0.55, 100)])
def test_the_interval_of_one_run_covers(p, q, n):
    """Of many draws of items, about 95 % have an interval of relative accuracy that holds the true ratio."""
    rng = np.random.default_rng(3)
    found = [relative(cell(a, n), cell(b, n), replicates=1000)
             for a, b in zip(rng.binomial(n, p, 600), rng.binomial(n, q, 600), strict=True)]
    covered = np.mean([one["low"] <= q / p <= one["high"] for one in found])
    assert 0.925 <= covered <= 0.98, covered
    assert np.median([one["value"] for one in found]) == pytest.approx(q / p, abs=0.015)


@pytest.mark.slow
def test_the_interval_of_a_mean_over_seeds_covers():
    """With other items and other seeds each time, the interval holds the ratio of a run's expected accuracies."""
    inside, rng = [], np.random.default_rng(5)
    for trial in range(120):
        made = benchmark(n=400, seed=trial)
        runs = [guesses(made, *(np.array([0.85, 0.6]) + 0.04 * rng.standard_normal(2)), 1000 * trial + seed)
                for seed in range(3)]
        found = points(means(made, {"erm": runs}), made)[0]
        assert found.target["runs"] == 3
        inside.append(found.relative["low"] <= 0.6 / 0.85 <= found.relative["high"])
    assert np.mean(inside) >= 0.9, np.mean(inside)


def test_relative_accuracy_at_the_edges():
    """A model that is never right has no ratio; one that is always right has one that is not without doubt."""
    assert relative(cell(0, 50), cell(3, 50)) is None
    sure = relative(cell(50, 50), cell(50, 50))
    assert sure["value"] == 1
    assert sure["low"] < 1 < sure["high"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_the_frontier_is_what_none_beats(pairs):
    """On the frontier are the points that no other beats in one number while at least as good in the other."""
    xs, ys = zip(*pairs, strict=True)
    kept = frontier(xs, ys)
    wanted = {(x, y) for x, y in pairs if not any((a >= x and b > y) or (a > x and b >= y) for a, b in pairs)}
    assert {(xs[one], ys[one]) for one in kept} == wanted
    assert len(kept) == len(wanted)
    assert [xs[one] for one in kept] == sorted(xs[one] for one in kept)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.02, 1)), min_size=1, max_size=8,
                unique_by=lambda one: one[0]))
def test_the_constant_drop_goes_through_the_weakest(pairs):
    """The grey line holds the model that is weakest on the source, and all is drawn inside its frame."""
    sources, targets = zip(*pairs, strict=True)
    weakest, kept = constant_drop(sources, targets)
    assert sources[weakest] == min(sources)
    assert kept * sources[weakest] == pytest.approx(targets[weakest])
    rows = [{"run": name, "benchmark": "rand", "method": name, "seed": 0, "split": split, "group": ALL, "n": 100,
             "metric": "accuracy", "value": value, "low": value / 2, "high": (value + 1) / 2}
            for name, pair in zip("abcdefgh", pairs, strict=False)
            for split, value in zip(("id_test", "test"), pair, strict=True)]
    listed = points(Scores.of(rows), benchmark())
    panel = source_against_target(listed, "", looks_of([one.name for one in listed]))
    marks = [mark for group in panel.groups for mark in group.marks]
    for mark in marks:
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in mark.points)
    spots = [mark.points[0] for mark in marks if mark.style == "dot"]
    (x0, y0), (x1, y1) = next(mark.points for mark in marks if mark.style == "drop")
    x, y = spots[weakest]
    assert (x - x0) * (y1 - y0) == pytest.approx((y - y0) * (x1 - x0), abs=1e-3)


def test_classes_are_put_together_from_subclasses():
    """The accuracy of a superclass is that over its items, whatever its groups; the largest drop comes first."""
    made = benchmark()
    run = guesses(made, 0.9, 0.7, 1, hard=1)
    found = by_class(score(made, run, run="r", method="erm"), made)
    right = run.scores.argmax(axis=1) == made.label
    for split in ("id_test", "test"):
        for code, name in enumerate(made.names["label"]):
            rows = made.rows(split)[made.label[made.rows(split)] == code]
            one = found.where(split=split, group=name)
            assert one["value"].tolist() == pytest.approx([right[rows].mean()])
            assert one["n"].tolist() == [len(rows)]
            assert one["low"] < one["value"] < one["high"]
    listed = by_superclass(score(made, run, run="r", method="erm"), made, "erm")
    assert listed[0].name == made.names["label"][1]
    assert [row.drop for row in listed] == sorted((row.drop for row in listed), reverse=True)


def test_a_group_of_two_classes_is_no_class():
    """Where a group has items of several classes its accuracy is that of none of them."""
    made = benchmark()
    mixed = Benchmark(made.items, made.split, made.label, made.domain, np.zeros_like(made.group),
                      {**made.names, "group": ("everything",)}, made.card)
    assert len(by_class(score(mixed, guesses(mixed, 0.9, 0.7, 1), method="erm"), mixed)) == 0


@pytest.mark.slow
def test_each_model_is_a_point(study):
    """Runs of one method with two models are two points with the numbers of their own runs, not one chosen of them."""
    scores, made = study
    shown = by_model(scores, made)
    for one in made:
        listed = {point.name: point for point in points(shown, one)}
        assert set(listed) == {"erm, mlp", "erm, linear", "resnet18"}
        for name, setting in (("erm, mlp", "a1"), ("erm, linear", "b2"), ("resnet18", "c3")):
            mine = scores.where(stat="run", benchmark=one.name, setting=setting, group=ALL)
            for kind, split, metric in (("source", "id_test", "accuracy"), ("target", "test", "accuracy"),
                                        ("rt", "test", "target_rt_accuracy")):
                found = getattr(listed[name], kind)
                assert found["value"] == pytest.approx(mine.where(split=split, metric=metric)["value"].mean())
                assert found["runs"] == 3


def test_a_learning_rate_is_no_model():
    """Settings that differ in the learning rate are left to the rule: one point, the run that is best on id_val."""
    made = benchmark()
    rows = []
    for setting, lr, inside, target in (("a", 0.1, 0.9, 0.5), ("b", 0.2, 0.8, 0.7)):
        for split, value in (("id_val", inside), ("id_test", inside), ("test", target)):
            one = {"benchmark": "rand", "split": split, "group": ALL, "n": 100, "metric": "accuracy", "value": value,
                   "low": value - 0.1, "high": value + 0.1}
            rows += [{**one, "run": setting, "method": "erm", "setting": setting, "seed": 0},
                     {**one, "stat": "mean", "method": "erm", "label": f"erm (lr={lr})", "setting": setting, "run": "",
                      "seed": -1}]
    listed = points(by_model(Scores.of(rows), [made]), made)
    assert [(point.name, point.target["value"]) for point in listed] == [("erm", 0.5)]


def test_splits_of_one_task_are_a_family(study):
    """Good, rand and bad stand in the order of their separation; another task or level is another family."""
    _, made = study
    others = [*reversed(made), benchmark("deep", level=3)]
    assert [[one.name for one in family] for family in families(others)] == [["good", "rand", "bad"]]


def test_figures_stand_alone(study):
    """Each figure is a file of its own: well-formed, with every colour and class it uses, and names that are text."""
    drawn = figures(*study)
    assert list(drawn) == [f"breeds-{word}" for word in (
        "source-target", "relative", "retrained", "classes", "splits")]
    for name, text in drawn.items():
        root = ET.fromstring(text)  # noqa: S314 - written a line above
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
            "svg", "title", "desc", "style", "rect", "g", "text", "line", "polyline", "circle", "path"}
        style = next(element.text for element in root.iter() if element.tag.endswith("style"))
        used = set(re.findall(r"var\((--\w+)\)", text)) - {"--c"}
        assert used <= set(re.findall(r"(--\w+):", style)), name
        classes_ = {word for element in root.iter() for word in element.get("class", "").split()}
        assert all(f"svg .{word} " in style for word in classes_), classes_


@pytest.mark.slow
def test_models_trained_on_the_target_stand_beside(study, tmp_path):
    """Runs on the reference test-to-test are points of their benchmark and no benchmark of their own; Figure 21 has the
    retrained models, the highest first."""
    scores, made = study
    whole = replace(made[1], card={**made[1].card, "name": "oracle", "reference": {
        "name": "test-to-test", "shifted": {"name": made[1].name}}})
    runs = {("erm", "mlp", "a1", 'erm (model="mlp")'): [guesses(whole, 0.9, 0.97, seed) for seed in range(3)],
            ("erm", "linear", "b2", 'erm (model="linear")'): [guesses(whole, 0.7, 0.75, seed) for seed in range(3)]}
    both = Scores.join([scores, scored(whole, runs, rt=False)])
    told = content(results_of(both, [*made, whole]))
    assert [table["name"] for table in told["tables"]] == ["good", "rand", "bad"]
    place = [column["head"] for column in told["tables"][1]["columns"]].index("Target-trained")
    rows = {row["method"]: row["cells"][place] and row["cells"][place]["value"] for row in told["tables"][1]["rows"]}
    assert rows["erm, mlp"] == pytest.approx(0.97, abs=0.03)
    assert rows["erm, linear"] == pytest.approx(0.75, abs=0.05)
    assert rows["resnet18"] is None
    assert all(row["cells"][place] is None for row in told["tables"][0]["rows"])
    shapes = {figure.name: figure for figure in told["figures"]}
    assert {row[2] for row in shapes["breeds-source-target"].rows} == {"source", "target", "rt", "whole"}
    retrained = [(row[0], row[3]) for row in shapes["breeds-retrained"].rows if row[2] == "rt"]
    assert retrained == sorted(retrained, key=lambda row: (["good", "rand", "bad"].index(row[0]), -row[1]))
    report(both, [*made, whole], tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().count("Target-trained<small>end to end") == 3


@pytest.mark.slow
def test_the_page_says_whether_the_tests_are_the_same(study, tmp_path):
    """Splits of subclasses have test items of their own; where only the training differs, the page says so."""
    scores, made = study
    text = report(scores, made, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The test items stay the same" not in text
    assert "each benchmark has test items of its own" in text
    near, far = (replace(made[0], card={**made[0].card, "name": name, "distance": distance})
                 for name, distance in (("near", 0.1), ("far", 0.9)))
    runs = {("erm", "mlp", "a1", "erm"): [guesses(near, 0.9, 0.8, seed) for seed in range(3)]}
    both = Scores.join([scored(one, runs) for one in (near, far)])
    text = report(both, [near, far], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The test items stay the same" in text


def test_annotators_stand_beside_models(study, tmp_path):
    """Where annotators were scored, their pairwise accuracy is drawn with the models'; no other number moves."""
    assert ANNOTATED == METRICS
    scores, made = study
    rows = [{"run": method, "benchmark": "rand", "method": method, "seed": 0, "split": split, "group": ALL, "n": 240,
             "metric": "pairwise_accuracy", "value": value, "low": value - 0.02, "high": value + 0.02}
            for method, pair in (("human", (0.92, 0.91)), ("resnet18", (0.98, 0.85)))
            for split, value in zip(("id_test", "test"), pair, strict=True)]
    both = Scores.join([scores, Scores.of(rows)])
    assert by_model(both, made) == by_model(scores, made)
    with_, without = (Page(report(table, made, tmp_path / "r.html").read_text(encoding="utf-8"))
                      for table in (both, scores))
    assert with_.data == without.data
    drawn = figures(both, made)["breeds-humans"]
    assert "human: source 92.0 % (90.0 to 94.0), target 91.0 % (89.0 to 93.0)" in drawn
    assert "resnet18: source 98.0 %" in drawn


def test_annotators_are_drawn_over_pairs(study):
    """Figure 15: each pair of superclasses once per side and benchmark, from the hardest on; models have no part in it,
    and without pairs there is no figure."""
    scores, made = study
    pairs = {("rand", "id_test"): (0.9, 0.7, 0.8), ("rand", "test"): (0.6, 0.9, 0.75), ("good", "test"): (1.0, 0.95)}
    rows = [{"run": method, "benchmark": name, "method": method, "seed": 0, "split": split, "group": f"pair {number}",
             "n": 36, "metric": "pairwise_accuracy", "value": value, "low": value - 0.1, "high": min(1, value + 0.1)}
            for (name, split), values in pairs.items() for number, value in enumerate(values)
            for method in ("human", "resnet18")]
    drawn = {one.name: one for one in content(results_of(Scores.join([scores, Scores.of(rows)]), made))["figures"]}
    figure = drawn["breeds-pairs"]
    assert [panel.title for panel in figure.panels] == ["Source, no shift", "Target"]
    listed = {}
    for name, _, split, value, *_ in figure.rows:
        listed.setdefault((name, split), []).append(value)
    assert listed == {key: sorted(values) for key, values in pairs.items()}
    points_ = [[mark.points[0] for group in panel.groups for mark in group.marks if mark.style == "dot"]
               for panel in figure.panels]
    assert [len(spots) for spots in points_] == [3, 5]
    assert all(here[0] < after[0] and here[1] > after[1] for here, after in pairwise(points_[0]))
    assert "rand, pair 1: 70.0 % (60.0 to 80.0)" in to_svg(figure)
    assert "breeds-pairs" not in figures(scores, made)


def test_the_page_has_the_section(study, tmp_path):
    """The page has a table per benchmark, with intervals, and every figure; without such a benchmark it has none."""
    scores, made = study
    text = report(scores, made, tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert 'href="#breeds"' in text
    part = text.partition('<section id="breeds">')[2].partition("</section>")[0]
    assert part.count("<figure") == 5
    assert part.count("<table") == 3
    listed = points(by_model(scores, made), made[0])
    for point in listed:
        ratio = point.relative
        assert f"<small>{100 * ratio['low']:.1f} – {100 * ratio['high']:.1f}</small>" in part
    other = Benchmark(made[0].items, made[0].split, made[0].label, made[0].domain, made[0].group, made[0].names,
                      {**made[0].card, "shift": "subset"})
    section = SECTIONS["breeds"]
    assert [section.applies(benchmark) for benchmark in (made[0], other)] == [True, False]
    assert "BREEDS)" not in report(scores, [other], tmp_path / "n.html").read_text(encoding="utf-8")
