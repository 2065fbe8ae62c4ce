"""The section of a fine-grained analysis says what generated scores were made to say."""

import math
import re
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import ALL, Scores
from shiftbench.methods.presets import NINETEEN, VARIANTS
from shiftbench.reporting import report
from shiftbench.reporting.charts import BOTTOM, LEFT, TOP
from shiftbench.reporting.figures import to_svg
from shiftbench.reporting.page import results_of
from shiftbench.reporting.sections.fine_grained import ablation, bars, change_lines, content, ranks
from shiftbench.reporting.sections.fine_grained_scores import (
    BASELINES,
    FAMILIES,
    changes,
    correlation,
    estimate,
    fine_grained_scores,
    place,
)
from shiftbench.reporting.sections.takeaways import OPEN, takeaways
from shiftbench.scoring.hard_items import midranks
from shiftbench.shifts.conditions import Noise, Size
from shiftbench.shifts.low_data import LowData, Spurious, Unseen
from shiftbench.shifts.shift import Under
from shiftbench.shifts.splits import Given
from tests.reporting.test_report import Page

METHODS = ("resnet18", "pixel-mlp", "imagenet_augment", "augmix", "stargan", "dann", "irm", "jtt", "pretrained")
EVIL = '<script>alert(1)</script> & {{ 7 * 7 }}'


def benchmark(name, shift="low_data", n=10, conditions=(), collection="sprites", label="shape", factor="colour"):
    count = {"spurious": {"n_uncorrelated": n}, "low_data": {"n_low": n}}.get(shift, {})
    one = np.zeros(1, np.int64)
    return Benchmark(np.asarray(["i"]), np.asarray(["test"]), one, one, one,
                     {"label": ("a",), "domain": ("b",), "group": ("a, b",)},
                     {"name": name, "shift": shift, "params": {"label": label, "factor": factor, **count},
                      "collection": {"name": collection}, "conditions": list(conditions)})


def table(value, made, methods=METHODS, seeds=(0, 1, 2)):
    """Scores with `value(benchmark, method, seed)`; None: no such run."""
    rows = []
    for one in made:
        for method in methods:
            for seed in seeds:
                number = value(one, method, seed)
                if number is not None:
                    rows.append({"run": f"{one.name} {method} {seed}", "benchmark": one.name, "method": method,
                                 "seed": seed, "split": "test", "group": ALL, "n": 1, "metric": "macro_f1",
                                 "value": number, "low": math.nan, "high": math.nan})
    return Scores.of(rows)


def figures(scores, made):
    """Name -> the figure as an SVG file."""
    return {one.name: to_svg(one) for one in content(results_of(scores, made))["figures"]}


def noise(*key, size=0.01):
    return size * float(np.random.default_rng(zlib.crc32(repr(key).encode())).standard_normal())


def grid():
    """The three shifts on two collections, one of them with a second pair of label and factor, and both conditions."""
    made = []
    for collection in ("sprites", "rooms"):
        made += [benchmark(f"{collection}-spurious-{n}", "spurious", n, collection=collection) for n in (1, 10, 100)]
        made += [benchmark(f"{collection}-low-{n}", "low_data", n, collection=collection) for n in (1, 10, 100)]
        made += [benchmark(f"{collection}-unseen", "unseen", collection=collection)]
        made += [benchmark(f"{collection}-noise-{p}", "low_data", 10, ({"name": "noise", "p": p},), collection)
                 for p in (0.1, 0.5)]
        made += [benchmark(f"{collection}-size-{n}", "low_data", n // 100, ({"name": "size", "n": n},), collection)
                 for n in (100, 1000)]
    return [*made, benchmark("sprites-unseen-colour", "unseen", label="colour", factor="shape")]


def plain(one, method, seed):
    """A baseline at 0.5 and every other method 10 % better, but for chance that both share."""
    return (0.5 + noise(one.name, seed)) * (1.0 if method == "resnet18" else 1.1)


@pytest.fixture(scope="module")
def made():
    return grid()


def test_nineteen_methods_are_of_six_families():
    """Every method of the paper is a method or a preset here, and their families are the paper's six."""
    from shiftbench.methods import METHODS

    assert len(NINETEEN) == 19
    assert set(NINETEEN) <= {*METHODS, *VARIANTS}
    assert len(FAMILIES) == 6


@pytest.mark.parametrize("axis", ["spurious", "low_data", "noise", "size"])
def test_ten_per_cent_better_is_ten_per_cent(made, axis):
    """A method whose every run is 1.1 times the baseline's with its seed is at +10 % everywhere, without any doubt."""
    found = changes(fine_grained_scores(table(plain, made), made), axis)
    assert [line.method for line in found] == [name for name in NINETEEN if name in METHODS[1:]]
    xs = {"noise": {0.0, 0.1, 0.5}, "size": {100.0, 1000.0}}.get(axis, {1.0, 10.0, 100.0})
    for line in found:
        assert set(line.points) == xs
        for point in line.points.values():
            assert point[:3] == pytest.approx((10, 10, 10))
            assert (point.seeds, point.benchmarks, point.collections) == (3, 2, 2)
    assert {line.family for line in found if line.best} == {line.family for line in found}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 2**20))
def test_one_collection_is_students_interval(n, k, seed):
    """Over the benchmarks of one collection the interval is Student's of the seeds' means."""
    values = np.random.default_rng(seed).normal(size=(n, k))
    found = estimate(values, ["a"] * n)
    wanted = reference.ttest_1samp(values.mean(axis=0), 0).confidence_interval(0.95)
    assert found[:3] == pytest.approx((values.mean(), wanted.low, wanted.high))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**20))
def test_two_collections_are_welchs_interval(k, j, seed):
    """Collections weigh alike whatever their seeds, and their variances are put together as Welch does."""
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=k), rng.normal(1, 3, size=j)
    values = np.full((2, max(k, j)), np.nan)
    values[0, :k], values[1, :j] = one, other
    found = estimate(values, ["a", "b"])
    wanted = reference.ttest_ind(one, -other, equal_var=False).confidence_interval(0.95)
    assert found[:3] == pytest.approx(((one.mean() + other.mean()) / 2, wanted.low / 2, wanted.high / 2))
    assert found.seeds == min(k, j)


def test_a_missing_seed_moves_no_mean():
    """A benchmark that lacks a seed counts as any other, though its level differs; one with a single seed has no say on
    spread, so there is no interval."""
    values = np.asarray([[1.0, 2.0, 3.0], [101.0, 103.0, np.nan]])
    found = estimate(values, ["a", "a"])
    assert found.value == pytest.approx((2 + 102) / 2)
    assert found.seeds == 2
    assert 40 < found.low < found.value < found.high < 64
    alone = estimate(np.asarray([[1.0, 2.0, 3.0], [101.0, np.nan, np.nan]]), ["a", "a"])
    assert (alone.value, alone.seeds, math.isnan(alone.low)) == (51.5, 1, True)
    assert alone.above() is None
    assert estimate(np.full((2, 3), np.nan), ["a", "a"]).benchmarks == 0


def test_a_fixed_order_is_ranked_so(made):
    """Methods that are always in one order have these ranks in every dot; equal scores share theirs."""
    order = {method: place for place, method in enumerate(reversed(METHODS), 1)}
    found = ranks(fine_grained_scores(table(lambda one, method, seed: 1 - 0.05 * order[method], made), made))
    assert [one.method for one in found] == list(reversed(METHODS))
    assert [one.median for one in found] == list(range(1, len(METHODS) + 1))
    unseen = [one.name for one in made if one.card["shift"] == "unseen"]
    assert {pair[:2] for pair in found[0].ranks} == {(name, seed) for name in unseen for seed in range(3)}
    level = ranks(fine_grained_scores(table(lambda one, method, seed: 0.5, made), made))
    assert {rank for one in level for *_, rank in one.ranks} == {(1 + len(METHODS)) / 2}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_ranks_are_the_usual_ones(values):
    """Ranks with ties as scipy has them, and rank correlation too."""
    assert midranks(np.asarray([values], float))[0].tolist() == reference.rankdata(values).tolist()
    other = np.arange(len(values), dtype=float)
    if len(values) >= 4 and len(set(values)) > 1:
        assert correlation(np.asarray(values, float), other) == pytest.approx(
            reference.spearmanr(values, other).statistic)


def test_bars_are_sorted_means(made):
    """Each panel has its benchmark's methods from best to worst, with mean and deviation over seeds."""
    scores = table(lambda one, method, seed: 0.5 + noise(one.name, method, seed, size=0.1), made)
    for shift, n in (("spurious", 6), ("low_data", 6), ("unseen", 3)):
        panels = bars(fine_grained_scores(scores, made), shift)
        assert len(panels) == n
        for position, panel in panels.items():
            means = [bar.mean.value for bar in panel]
            assert means == sorted(means, reverse=True)
            for bar in panel:
                own = scores.where(benchmark=position.benchmark, method=bar.method)["value"]
                assert (bar.mean.value, bar.deviation) == pytest.approx((own.mean(), own.std(ddof=1)))


def test_the_ablation_is_about_its_own_mean(made):
    """Deviations of the operations sum to 0, are in points, and the baseline's is from the same mean."""
    skill = {"only_rotate": 0.7, "only_invert": 0.5, "only_color": 0.6}
    scores = table(lambda one, method, seed: skill.get(method, 0.55) + noise(one.name, seed), made,
                   (*METHODS, *skill))
    found = ablation(fine_grained_scores(scores, made))
    assert found[0].place.shift == "unseen"
    for one in found:
        assert {name: told.value for name, told in one.operations.items()} == pytest.approx(
            {"rotate": 10, "invert": -10, "color": 0}, abs=1e-9)
        assert one.baseline.value == pytest.approx(-5)
    assert fine_grained_scores(scores, made).others == ()


def test_what_is_no_such_experiment(made):
    """Fewer than four of the nineteen, no baseline, another shift, or means alone: no section."""
    few = table(plain, made, METHODS[:3])
    assert fine_grained_scores(few, made) is None
    assert content(results_of(few, made)) is None
    assert fine_grained_scores(table(plain, made, METHODS[1:]), made) is None
    other = [benchmark("other", "subset")]
    assert fine_grained_scores(table(plain, other), other) is None
    assert fine_grained_scores(table(plain, made, seeds=(-1,)).assign(stat="mean", runs=3), made) is None


def test_erm_stands_in_for_the_baseline(made):
    """Without resnet18 changes are over erm, which is then no line of its own."""
    methods = ("erm", *METHODS[1:])
    found = fine_grained_scores(table(lambda one, method, seed: 0.4 if method == "erm" else 0.5, made, methods), made)
    assert found.baseline == BASELINES[-1] == "erm"
    assert {line.method for line in changes(found, "low_data")} == set(METHODS[1:])
    assert changes(found, "low_data")[0].points[10.0].value == pytest.approx(25)


def test_holes_are_left_out(made):
    """NaN scores and missing runs drop out of each mean; what remains is right, and the page is whole."""
    def holed(one, method, seed):
        if method == "dann" and (seed == 1 or one.name.startswith("rooms")):
            return None
        return math.nan if method == "irm" and seed == 2 else plain(one, method, seed)

    found = {line.method: line for line in changes(fine_grained_scores(table(holed, made), made), "spurious")}
    assert found["dann"].points[1.0][:1] == pytest.approx((10,))
    assert (found["dann"].points[1.0].collections, found["dann"].points[1.0].seeds) == (1, 2)
    assert found["irm"].points[1.0].seeds == 2
    assert "fewer data sets" in content(results_of(table(holed, made), made))["figures"][0].definition


def test_one_seed_has_no_interval(made):
    """With one seed every figure says that there is no interval, and no takeaway is judged."""
    scores = table(plain, made, seeds=(0,))
    drawn = [one for one in content(results_of(scores, made))["figures"] if one.name != "fine-grained-5-unseen"]
    assert len(drawn) == 8
    assert all("no intervals" in one.definition for one in drawn)
    assert all(mark.style not in ("whisker", "reach", "band") for one in drawn for panel in one.panels
               for group in panel.groups for mark in group.marks)
    assert {one.verdict for one in takeaways(fine_grained_scores(scores, made))} == {OPEN}


def test_draws_of_one_name_are_one_benchmark(made):
    """Benchmarks that share a name and differ in their draw are one place, and the draw splits no family of noise."""
    again = [Benchmark(one.items, one.split, one.label, one.domain, one.group, one.names,
                       {**one.card, "draw": 1, "params": {**one.card["params"], "draw": 1}}) for one in made]
    found = fine_grained_scores(table(plain, made), [*again, *made])
    assert [place.benchmark for place in found.places] == [
        place.benchmark for place in fine_grained_scores(table(plain, made), made).places]
    mixed = [*again[:12], *made[12:]]
    assert set(changes(fine_grained_scores(table(plain, made), mixed), "noise")[0].points) == {0.0, 0.1, 0.5}


def test_cards_of_real_shifts_are_read():
    """A built benchmark stands where its shift, its N and its condition put it, and a condition keeps its base."""
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in (3, 3, 30)), indexing="ij"), -1).reshape(-1, 3)
    collection = Collection("toy", np.asarray([str(row) for row in grid]),
                            {"shape": grid[:, 0].astype(np.str_), "colour": grid[:, 1].astype(np.str_)})
    low = LowData("shape", "colour", ("2",), n_low=9)
    plain, noisy, small = (place(shift.build(collection)) for shift in (
        low, Under(low, (Noise(0.2),)), Under(low, (Size(50),))))
    assert plain[1:8] == ("toy", "shape", "colour", "low_data", 9, "", 0.0)
    assert (noisy.condition, noisy.strength, noisy.base) == ("noise", 0.2, plain.base)
    assert (small.condition, small.strength) == ("size", 50.0)
    assert place(Under(low, (Noise(0.2), Size(50))).build(collection)).condition == "several"
    assert place(Spurious("shape", "colour", n_uncorrelated=5).build(collection))[4:6] == ("spurious", 5)
    unseen = Unseen("shape", "colour", ("2",)).build(collection)
    assert place(unseen)[4:6] == ("unseen", 0)
    held = np.where(collection.factors["colour"] == "2", "test", "train")
    came = replace(collection, factors={**collection.factors, "split": held})
    assert place(Given("shape", domain="colour").build(came))[1:6] == ("toy", "shape", "colour", "unseen", 0)
    mixed = replace(collection, factors={**collection.factors, "split": np.tile(["train", "test"], 135)})
    assert place(Given("shape", domain="colour").build(mixed)) is None


def test_figures_stand_alone(made):
    """Each figure is a file of its own: well-formed, with every colour it uses, and names that are text."""
    evil = [*made, benchmark(EVIL, "unseen", collection=EVIL)]
    drawn = figures(table(plain, evil, (*METHODS, "only_rotate", "only_invert")), evil)
    assert sorted(drawn) == sorted([
        "fine-grained-3-spurious", "fine-grained-4-low_data", "fine-grained-5-unseen", "fine-grained-6-noise",
        "fine-grained-7-size", "fine-grained-8-ablation", "fine-grained-9-labels", "fine-grained-10-unseen",
        "fine-grained-11-spurious", "fine-grained-12-low_data"])
    for name, text in drawn.items():
        root = ET.fromstring(text)  # noqa: S314 - written a line above
        assert root.tag.endswith("svg")
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "title", "desc", "style", "rect", "g", "text", "line", "polyline", "circle", "path"}
        style = next(element.text for element in root.iter() if element.tag.endswith("style"))
        assert "prefers-color-scheme: dark" in style
        used = set(re.findall(r"var\((--\w+)\)", text)) - {"--c"}
        assert used <= set(re.findall(r"(--\w+):", style)), name
        classes = {word for element in root.iter() for word in element.get("class", "").split()}
        assert all(f"svg .{word} " in style for word in classes), classes
        assert (EVIL in "".join(root.itertext())) == (name in ("fine-grained-5-unseen", "fine-grained-8-ablation",
                                                               "fine-grained-10-unseen"))


def test_the_page_has_the_section(made, tmp_path):
    """The page shows every figure and takeaway, tells what was left out, and stays one file that loads nothing."""
    text = report(table(plain, made, (*METHODS, "group_dro")), made, tmp_path / "r.html").read_text(encoding="utf-8")
    Page(text)
    assert 'href="#fine-grained"' in text
    part = text.partition('<section id="fine-grained">')[2].partition("</section>")[0]
    assert part.count("<figure") == 9
    assert part.count('class="claim"') == 7
    assert "left out here: group_dro" in part
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "")
    without = report(table(plain, made, METHODS[:3]), made, tmp_path / "n.html").read_text(encoding="utf-8")
    assert "fine-grained" not in without


def test_chosen_runs_are_shown(made):
    """Of several settings a method's run is the one that the page's rule takes, however good another is on test."""
    def setting(which, at_home, away):
        single = table(lambda one, method, seed: away if method == "dann" else 0.5, made)
        inside = table(lambda one, method, seed: at_home, made)
        inside = Scores({**inside.columns, "split": np.full(len(inside), "id_val"),
                         "metric": np.full(len(inside), "accuracy")})
        both = Scores.join([single, inside])
        kept = both["method"] == "dann" if which else np.ones(len(both), bool)
        columns = {name: values[kept] for name, values in both.columns.items()}
        run = np.char.add(columns["run"], which)
        return Scores({**columns, "run": run, "setting": np.full(len(run), f"s{which}")})

    scores = Scores.join([setting("", 0.9, 0.6), setting("b", 0.5, 0.8)])
    drawn = figures(scores, made)["fine-grained-4-low_data"]
    assert "dann, N = 10: +20.0 %" in drawn
    assert "+60.0 %" not in drawn


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-99, 500), min_size=3, max_size=3), min_size=4, max_size=9), st.integers(1, 3))
def test_the_drawing_keeps_order_and_room(values, seeds):
    """A higher change stands no lower, everything lies in the frame, and what lies beyond is marked."""
    made = [benchmark(f"low-{n}", n=n) for n in (1, 10, 100)]
    at = {one.name: place for place, one in enumerate(made)}
    names = list(NINETEEN)[1:len(values) + 1]
    scores = table(lambda one, method, seed: 0.1 * (1 + (0 if method == "resnet18" else values[names.index(method)][
        at[one.name]] + seed) / 100), made, ("resnet18", *names), range(seeds))
    found = fine_grained_scores(scores, made)
    for width, room in ((760, 150), (380, 136)):
        panel = change_lines(changes(found, "low_data"), "low_data", width, room)
        points = []
        for group in panel.groups:
            told = re.search(r": (\S+) % \(", group.title)
            if told:
                points.append((group.marks[-1], float(told[1].replace("−", "-"))))
        assert len(points) == 3 * len(names)
        for mark, value in points:
            (x, y), = mark.points
            assert LEFT <= x <= width - room + 1
            assert TOP - 1e-6 <= y <= panel.height - BOTTOM + 1e-6
            assert all(y <= other.points[0][1] + 1e-6 for other, less in points if value > less)
