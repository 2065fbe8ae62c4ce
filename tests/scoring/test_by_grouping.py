"""Scores over groups of any columns are those of a plain loop, and their intervals keep their level."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from shiftbench.compat.wilds_eval import evaluate
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import Grouping, groupings_of
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.scoring import means, score
from shiftbench.scoring.intervals import wilson
from shiftbench.scoring.judge import Piece, measure, together
from shiftbench.scoring.scorer import Split, measure_classes, scorer
from tests.data.test_groupings import SPLITS, benchmark_of, guesses, told
from tests.strategies import seeds


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seeds)
def test_a_disjoint_grouping_scores_as_the_benchmarks_own_groups(seed):
    """Grouped by label and domain, each score and interval is the existing one, in either order of the columns."""
    benchmark = benchmark_of(seed)
    found = score(benchmark, guesses(benchmark, seed), by=["label,domain", "domain,label", "group"])
    for split in SPLITS:
        own = {(row["metric"], "" if row["metric"].startswith("worst_") else row["group"]): row
               for row in found.where(split=split, by="")}
        for said, name in (("label,domain", "label = {}, domain = {}"), ("domain,label", "domain = {1}, label = {0}"),
                           ("group", "group = {}, {}")):
            mine = told(found, said, split)
            for group in benchmark.counts()[split]:
                here = mine["accuracy", name.format(*group.split(", "))]
                assert all(here[key] == own["accuracy", group][key] for key in ("n", "value", "low", "high"))
            each = [own["accuracy", group]["value"] for group in benchmark.counts()[split]]
            # Of groups that are equally bad the first is named, and its interval told: another order, another group.
            keys = ("value", "low", "high") if each.count(min(each)) == 1 else ()
            for metric in ("worst_group_accuracy", "worst_group_accuracy_corrected"):
                assert all(mine[metric, ""][key] == pytest.approx(own[metric, ""][key], abs=1e-9) for key in keys)
                lowest = name.format(*own[metric, ""]["group"].split(", "))
                assert mine["accuracy", lowest]["value"] == mine["worst_group_accuracy", ""]["value"]
                assert mine[metric, ""]["n"] == mine["accuracy", mine[metric, ""]["group"]]["n"]


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_overlapping_groups_score_as_a_plain_loop(seed):
    """Each group is scored on its own items, the worst is the lowest of them, the mean and percentile are numpy's."""
    benchmark, said = benchmark_of(seed), "flag+other flag,label"
    predictions = guesses(benchmark, seed)
    mine = told(score(benchmark, predictions, by=[said]), said)
    rows = benchmark.rows("test")
    right = predictions.predicted == benchmark.label
    values = []
    for column, yes in (("flag", "True"), ("other flag", "1")):
        for code, label in enumerate(benchmark.names["label"]):
            chosen = rows[(benchmark.extra[column][rows] == 1) & (benchmark.label[rows] == code)]
            here = mine["accuracy", f"{column} = {yes}, label = {label}"]
            assert (here["n"], here["value"]) == (len(chosen), pytest.approx(right[chosen].mean()))
            ends = [float(end) for end in wilson(right[chosen].mean(), len(chosen))]
            assert [here["low"], here["high"]] == pytest.approx(ends)
            values.append(right[chosen].mean())
    worst = mine["worst_group_accuracy", ""]
    assert worst["value"] == pytest.approx(min(values)) == mine["accuracy", worst["group"]]["value"]
    assert worst["n"] == mine["accuracy", worst["group"]]["n"]
    assert worst["low"] <= min(row["low"] for (metric, _), row in mine.items() if metric == "accuracy") + 1e-12
    assert ("worst_group_accuracy_corrected", "") not in mine
    assert mine["mean_group_accuracy", ALL]["value"] == pytest.approx(np.mean(values))
    assert mine["tenth_percentile_accuracy", ALL]["value"] == pytest.approx(np.percentile(values, 10))


def test_the_interval_of_a_worst_overlapping_group_keeps_its_level():
    """Of 600 draws with 16 groups that share most of their items, few have an interval beside the true worst."""
    rng, runs, n = np.random.default_rng(0), 600, 500
    label, named = rng.random(n) < 0.4, rng.random((n, 8)) < 0.8
    member = np.hstack([named & label[:, None], named & ~label[:, None]])
    part = Grouping.of("many", [str(k) for k in range(16)], member)
    rate = np.where(label, 0.6, 0.9)
    scores = np.where(rng.random((runs, n)) < rate, 1.0, -1.0)
    benchmark = Benchmark(np.arange(n).astype(str), np.full(n, "test"), *(np.zeros(n, np.int64),) * 3,
                          {"label": ("a", "b"), "domain": ("d",), "group": ("g",)})
    split = Split.of(benchmark, "test", [])._replace(groupings=(part,))
    runs = range(len(scores))
    found = measure_classes(split, np.stack([scores, -scores], axis=2).astype(np.float32), runs, 0.95)
    worst = next(one for one in found if (one.metric, one.by) == ("worst_group_accuracy", "many"))
    low, high = worst.estimate.ends(runs, 0.95)
    assert (low > 0.6).mean() < 0.04
    assert (high < 0.6).mean() < 0.04


def test_a_batch_has_the_rows_of_the_plain_way():
    """Groupings of the card come with every run of a batch, with the numbers that `score` gives."""
    benchmark = benchmark_of(3, groupings=["flag+other flag,label", "word!a", "number"])
    runs = [guesses(benchmark, seed) for seed in range(3)]
    outputs = ((split, np.stack([run.scores for run in runs])[:, benchmark.rows(split)]) for split in benchmark.splits)
    scorers = {split: scorer(benchmark, split, groupings_of(benchmark)) for split in benchmark.splits}
    heads = [{"run": f"run-{seed}", "method": "erm", "seed": seed, "benchmark": "toy"} for seed in range(3)]
    batch = together([Piece.of_measured(measure(benchmark, scorers, outputs, range(3), 0.95), heads, range(3), 0.95)])
    for seed, run in enumerate(runs):
        plain, ours = list(score(benchmark, run)), list(batch.where(seed=seed))
        for name in ("split", "group", "n", "metric"):
            assert [row[name] for row in plain] == [row[name] for row in ours]
        for name in ("value", "low", "high"):
            np.testing.assert_allclose([row[name] for row in ours], [row[name] for row in plain], rtol=0, atol=1e-4)


def test_methods_are_compared_over_a_grouping():
    """The mean of a method over seeds is that of its runs, and the best is ahead of itself by nothing."""
    benchmark, said = benchmark_of(5), "flag+other flag,label"
    runs = {"a": [guesses(benchmark, 1), guesses(benchmark, 2)], "b": [guesses(benchmark, 3)]}
    both = means(benchmark, runs, by=[said])
    for metric in ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy"):
        rows = {row["method"]: row for row in both.where(stat=MEAN, split="test", metric=metric, by=said)}
        for method, parts in runs.items():
            each = [told(score(benchmark, one, by=[said]), said) for one in parts]
            value = np.mean([next(row["value"] for (name, _), row in one.items() if name == metric) for one in each])
            assert rows[method]["value"] == pytest.approx(value)
            assert rows[method]["low"] <= rows[method]["value"] <= rows[method]["high"]
    behind = both.where(stat=DIFFERENCE, split="test", metric="worst_group_accuracy", by=said)
    assert sorted(behind["value"].tolist())[0] == 0
    assert len(behind) == 2


def test_numbers_are_those_of_wilds():
    """CivilComments' sixteen groups, FMoW's regions less Other, Amazon's users and RxRx1's cells are `evaluate`'s."""
    rng, n = np.random.default_rng(2), 400
    label, predicted = rng.integers(0, 2, n), rng.integers(0, 2, n)
    names = {"region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"),
             "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}
    named = rng.random((n, 8)) < 0.3
    named[:, 7] = False  # nobody speaks of the last one: two of the sixteen have no items
    codes = {**{name: named[:, at].astype(int) for at, name in enumerate(IDENTITIES)}, "user": rng.integers(0, 25, n),
             "region": rng.integers(0, 6, n), "year": rng.integers(0, 3, n), "cell_type": rng.integers(0, 3, n)}
    extra = {name: np.asarray(names[name])[values] if name in names else values for name, values in codes.items()}
    benchmark = Benchmark(np.arange(n).astype(str), np.full(n, "test"), label, np.zeros(n, int), np.zeros(n, int),
                          {"label": ("0", "1"), "domain": ("d",), "group": ("g",)}, extra=extra)
    predictions = Predictions(benchmark.items, benchmark.split, np.eye(2, dtype=np.float32)[predicted], ("0", "1"))
    sixteen = "+".join(IDENTITIES) + ",label"
    found = score(benchmark, predictions, by=[sixteen, "region!Other", "year", "user", "cell_type"])

    def theirs(dataset, *fields):
        metadata = np.stack([*(codes.get(field, np.zeros(n, int)) for field in fields), label], axis=1)
        words = {field: names[field] for field in fields if field in names}
        return evaluate(dataset, predicted, label, metadata, [*fields, "y"], words, compat=None)

    civil, mine = theirs("civilcomments", *IDENTITIES), told(found, sixteen)
    assert mine["worst_group_accuracy", ""]["value"] == civil["acc_wg"]
    for identity in IDENTITIES:
        for y in "01":
            here = mine.get(("accuracy", f"{identity} = 1, label = {y}"))
            assert civil[f"count_y:{y}_{identity}:1"] == (here["n"] if here else 0)
            assert civil[f"acc_y:{y}_{identity}:1"] == pytest.approx(here["value"] if here else math.nan, nan_ok=True)
    assert sum(metric == "accuracy" for metric, _ in mine) == 14
    fmow = theirs("fmow", "region", "year")
    assert told(found, "region!Other")["worst_group_accuracy", ""]["value"] == fmow["acc_worst_region"]
    assert told(found, "year")["worst_group_accuracy", ""]["value"] == fmow["acc_worst_year"]
    amazon, users = theirs("amazon", "user"), told(found, "user")
    assert users["tenth_percentile_accuracy", ALL]["value"] == pytest.approx(amazon["10th_percentile_acc"])
    assert users["worst_group_accuracy", ""]["value"] == amazon["acc_wg"]
    rxrx1, cells = theirs("rxrx1", "cell_type"), told(found, "cell_type")
    known = [rxrx1[f"acc_cell_type:{name}"] for name in names["cell_type"][:3]]
    assert [cells["accuracy", f"cell_type = {name}"]["value"] for name in names["cell_type"][:3]] == known
    assert cells["mean_group_accuracy", ALL]["value"] == pytest.approx(np.mean(known))
    assert rxrx1["count_cell_type:U2OS"] == 0
    assert ("accuracy", "cell_type = U2OS") not in cells


def test_a_group_without_items_in_a_split_is_no_group_there():
    """It has no row, is neither a zero nor the worst, and changes no mean; without any group there is no row at all."""
    benchmark = benchmark_of(4)
    only = np.where(benchmark.split == "train", "early", "late")
    never = np.where(benchmark.split == "train", 1, 0)
    benchmark = replace(benchmark, extra={"time": only, "seen": never, "known": 1 - never})
    found = score(benchmark, guesses(benchmark), by=["time", "time,label", "each:seen", "seen+known"])
    assert {key[1] for key in told(found, "time") if key[0] == "accuracy"} == {"time = late"}
    average = next(iter(found.where(split="test", metric="accuracy", group=ALL)))["value"]
    for said in ("time", "seen+known"):
        for metric in ("worst_group_accuracy", "mean_group_accuracy", "tenth_percentile_accuracy"):
            here = next(row for (name, _), row in told(found, said).items() if name == metric)
            assert here["value"] == pytest.approx(average)
    assert told(found, "each:seen") == {}
    assert len(told(found, "each:seen", "train")) > 0
