"""Scores say what scikit-learn and a plain bootstrap say, of one run and of many."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, log_loss

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, RUN, Scores
from shiftbench.reporting.score_tables import to_json
from shiftbench.scoring import GAP, RunIndex, means, runs_in, score, score_runs
from shiftbench.scoring.intervals import CORRECTED
from shiftbench.scoring.runs import labels
from tests.strategies import benchmarks, seeds, toy


def made(seed: int = 0) -> Benchmark:
    """A benchmark over all splits, four groups."""
    collection = toy(400, seed)
    split = np.random.default_rng(seed).choice(["train", "id_test", "test"], 400, p=[0.4, 0.2, 0.4])
    return Benchmark.of(collection, None, seed, np.arange(400), split, label=collection.factor("class"),
                        domain=collection.factor("place"), card={"name": "toy"})


def guesses(benchmark: Benchmark, seed: int = 0, skill: float = 0.8) -> Predictions:
    """A model that is right with a given probability, less so in the last group; items in any order."""
    rng = np.random.default_rng(seed)
    right = rng.random(len(benchmark)) < np.where(benchmark.group == benchmark.group.max(initial=0), skill - 0.3, skill)
    classes = len(benchmark.names["label"])
    guess = np.where(right, benchmark.label, (benchmark.label + 1) % classes)
    rows = rng.permutation(len(benchmark))
    table = (np.eye(classes)[guess] + rng.random((len(benchmark), classes)) / 2).astype(np.float32)
    return Predictions(benchmark.items[rows], benchmark.split[rows], table[rows], benchmark.names["label"])


def only(scores: Scores, **equal: object) -> dict:
    """The one row with these values, over the benchmark's own groups and no difference unless that is asked for."""
    kept = scores if "stat" in equal else scores.take(scores["stat"] != DIFFERENCE)
    (row,) = kept.where(**{"by": "", **equal})
    return row


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(benchmarks(), seeds)
def test_values_are_scikit_learns(benchmark, seed):
    """Average, every group, worst group and macro F1 of every split equal scikit-learn's, with their counts."""
    predictions = guesses(benchmark, seed)
    scores = score(benchmark, predictions, replicates=0)
    guess = dict(zip(predictions.item.tolist(), predictions.predicted.tolist(), strict=True))
    predicted = np.asarray([guess[item] for item in benchmark.items.tolist()])
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        y, p, g = benchmark.label[rows], predicted[rows], benchmark.group[rows]
        average = only(scores, split=split, group=ALL, metric="accuracy")
        assert (average["value"], average["n"]) == (pytest.approx(accuracy_score(y, p)), len(y))
        each = {benchmark.names["group"][code]: (accuracy_score(y[g == code], p[g == code]), (g == code).sum())
                for code in np.unique(g)}
        found = {row["group"]: (row["value"], row["n"]) for row in scores.where(split=split, metric="accuracy")
                 if row["group"] != ALL}
        assert found == {name: (pytest.approx(value), n) for name, (value, n) in each.items()}
        worst = only(scores, split=split, metric="worst_group_accuracy")
        assert worst["value"] == pytest.approx(min(value for value, _ in each.values()))
        assert (worst["value"], worst["n"]) == each[worst["group"]]
        assert only(scores, split=split, metric="macro_f1")["value"] == pytest.approx(
            f1_score(y, p, labels=np.unique(y), average="macro", zero_division=0))
    assert np.isnan(scores["low"]).all()


@pytest.mark.slow
def test_intervals_are_a_plain_bootstraps():
    """The ends of each interval agree with a bootstrap that redraws the items, within its own error."""
    benchmark = made()
    predictions = guesses(benchmark)
    scores = score(benchmark, predictions, replicates=4000)
    place = {item: row for row, item in enumerate(predictions.item.tolist())}
    hit = predictions.predicted[[place[item] for item in benchmark.items.tolist()]] == benchmark.label
    rng, drawn = np.random.default_rng(7), {"accuracy": [], "worst": [], "gap": []}
    for _ in range(4000):
        rows = {split: rng.choice(benchmark.rows(split), len(benchmark.rows(split))) for split in ("id_test", "test")}
        test = rows["test"]
        drawn["accuracy"].append(hit[test].mean())
        drawn["worst"].append(min(hit[test][benchmark.group[test] == code].mean() for code in range(4)))
        drawn["gap"].append(hit[rows["id_test"]].mean() - hit[test].mean())
    found = {"accuracy": only(scores, split="test", group=ALL, metric="accuracy"),
             "worst": only(scores, split="test", metric="worst_group_accuracy"),
             "gap": only(scores, split=GAP, metric="accuracy_gap")}
    for name, row in found.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        assert (row["low"], row["high"]) == (pytest.approx(low, abs=0.012), pytest.approx(high, abs=0.012)), name


def test_the_gap_is_what_it_says():
    """accuracy_gap is the accuracy on id_test minus that on test, and is absent without id_test."""
    benchmark = made()
    scores = score(benchmark, guesses(benchmark), replicates=10)
    value = {split: only(scores, split=split, group=ALL, metric="accuracy")["value"] for split in ("id_test", "test")}
    assert only(scores, metric="accuracy_gap")["value"] == pytest.approx(value["id_test"] - value["test"])
    predictions = guesses(benchmark)
    kept = predictions.split == "test"
    less = Predictions(predictions.item[kept], predictions.split[kept], predictions.scores[kept], predictions.classes)
    assert set(score(benchmark, less, replicates=10)["split"].tolist()) == {"test"}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(benchmarks(), seeds)
def test_worst_class_and_losses(benchmark, seed):
    """The worst class has the lowest recall; nll of all, of groups and of the worst are scikit-learn's log-loss."""
    predictions = guesses(benchmark, seed)
    scores = score(benchmark, predictions)
    place = {item: row for row, item in enumerate(predictions.item.tolist())}
    table = predictions.scores[[place[item] for item in benchmark.items.tolist()]].astype(float)
    shares = np.exp(table) / np.exp(table).sum(1, keepdims=True)
    every = range(len(benchmark.names["label"]))
    if len(every) == 1:
        assert not len(scores.where(metric="nll"))
        return
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        y, p, g = benchmark.label[rows], shares[rows], benchmark.group[rows]
        recall = {benchmark.names["label"][code]: (np.mean(p[y == code].argmax(1) == code), (y == code).sum())
                  for code in np.unique(y)}
        worst = only(scores, split=split, metric="worst_class_accuracy")
        assert (worst["value"], worst["n"]) == recall[worst["group"]]
        assert worst["value"] == min(value for value, _ in recall.values())
        each = {benchmark.names["group"][code]: log_loss(y[g == code], p[g == code], labels=every)
                for code in np.unique(g)}
        found = {row["group"]: row["value"] for row in scores.where(split=split, metric="nll")}
        assert found == pytest.approx({ALL: log_loss(y, p, labels=every), **each}, rel=1e-5)
        worst = only(scores, split=split, metric="worst_group_nll")
        assert worst["value"] == pytest.approx(max(each.values()), rel=1e-5)
        assert worst["value"] == found[worst["group"]]


def test_a_choice_has_no_loss():
    """Predictions that are classes and no probabilities have no log-loss; a label that is ruled out, an infinite."""
    benchmark = made()
    predictions = guesses(benchmark)
    chosen = np.where(np.eye(2, dtype=bool)[predictions.predicted], 0, -np.inf).astype(np.float32)
    codes = Predictions(predictions.item, predictions.split, chosen, predictions.classes)
    assert not any("nll" in metric for metric in score(benchmark, codes)["metric"].tolist())
    some = np.where((predictions.split == "test")[:, None], predictions.scores, chosen)
    label = dict(zip(benchmark.items.tolist(), benchmark.label.tolist(), strict=True))
    wrong = next(row for row, item in enumerate(predictions.item.tolist())
                 if predictions.split[row] == "test" and predictions.predicted[row] != label[item])
    some[wrong] = chosen[wrong]
    mixed = score(benchmark, Predictions(predictions.item, predictions.split, some, predictions.classes))
    assert set(mixed.where(metric="nll")["split"].tolist()) == {"test"}
    assert only(mixed, split="test", group=ALL, metric="nll")["value"] == math.inf
    assert only(mixed, split="test", metric="worst_group_nll")["value"] == math.inf
    both = means(benchmark, {"some": [predictions] * 2, "more": [
        predictions, Predictions(predictions.item, predictions.split, some, predictions.classes)]}).where(split="test")
    assert only(both, group=ALL, metric="nll", method="more")["value"] == math.inf
    wanted = only(score(benchmark, predictions), split="test", group=ALL, metric="nll")["value"]
    assert only(both, group=ALL, metric="nll", method="some")["value"] == pytest.approx(wanted)
    together = means(benchmark, {"a": [predictions], "b": [codes]}, replicates=20)
    assert not any("nll" in metric for metric in together["metric"].tolist())


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(benchmarks(), seeds, st.integers(1, 3))
def test_every_interval_holds_its_value(benchmark, seed, runs):
    """Intervals hold their value and lie where a share can; no group is certain, however few or right its items."""
    some = [guesses(benchmark, seed + run, skill=1.0) for run in range(runs)]
    scores = means(benchmark, {"one": some, "other": [guesses(benchmark, seed + 9)]})
    for row in scores:
        if row["stat"] == DIFFERENCE:
            assert 0 <= row["p"] <= 1
            continue
        if not np.isnan(row["low"]):
            assert row["low"] <= row["value"] <= row["high"]
        if row["metric"] == "accuracy" and row["split"] != GAP:
            assert 0 <= row["low"] < row["high"] <= 1


def test_a_worst_group_is_corrected_upwards():
    """The value is the plain minimum; the corrected one is above it with the same interval, which holds both."""
    benchmark = made()
    predictions = guesses(benchmark, skill=0.75)
    scores = score(benchmark, predictions)
    plain = only(scores, split="test", metric="worst_group_accuracy")
    corrected = only(scores, split="test", metric="worst_group_accuracy" + CORRECTED)
    lowest = min(row["value"] for row in scores.where(split="test", metric="accuracy") if row["group"] != ALL)
    assert plain["value"] == lowest <= corrected["value"]
    assert [plain[key] for key in ("low", "high", "group", "n")] == [
        corrected[key] for key in ("low", "high", "group", "n")]
    assert plain["low"] < plain["value"] < corrected["high"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_the_order_of_predictions_does_not_matter(seed):
    """Scores, intervals included, are the same whatever the order of the file, and repeat under a seed."""
    benchmark = made()
    predictions = guesses(benchmark, 3)
    rows = np.random.default_rng(seed).permutation(len(predictions))
    mixed = Predictions(predictions.item[rows], predictions.split[rows], predictions.scores[rows], predictions.classes)
    assert score(benchmark, mixed, replicates=20) == score(benchmark, predictions, replicates=20)


def test_further_metrics_by_name():
    """Any metric of the table can be asked for; a wrong name is told the right one."""
    benchmark = made()
    scores = score(benchmark, guesses(benchmark), replicates=50, metrics=["nll", "auc"])
    row = only(scores, split="test", metric="auc")
    assert row["low"] < row["value"] < row["high"]
    with pytest.raises(ShiftBenchError, match="Did you mean 'nll'"):
        score(benchmark, guesses(benchmark), metrics=["nl"])


def test_predictions_that_do_not_fit_are_refused():
    """Strange, double and missing items and other classes are errors that say how many and what to do."""
    benchmark = made()
    p = guesses(benchmark)
    def changed(item=p.item, rows=slice(None), classes=p.classes):
        return Predictions(item[rows], p.split[rows], p.scores[rows], classes)
    with pytest.raises(ShiftBenchError, match="1 predictions are of items that are not in"):
        score(benchmark, changed(item=np.where(p.item == p.item[0], "stranger", p.item)))
    with pytest.raises(ShiftBenchError, match="each once"):
        score(benchmark, changed(rows=np.r_[0, np.arange(len(p))]))
    with pytest.raises(ShiftBenchError, match="have no prediction"):
        score(benchmark, changed(rows=slice(1, None)))
    with pytest.raises(ShiftBenchError, match="its classes, in their order, are cat, dog"):
        score(benchmark, changed(classes=("dog", "cat")))


def test_means_pair_methods_by_item():
    """A copy of the best method is behind it by exactly 0; one that is far worse is behind with an interval above 0."""
    benchmark = made()
    good = [guesses(benchmark, seed) for seed in range(3)]
    bad = [guesses(benchmark, seed, skill=0.55) for seed in range(3)]
    scores = means(benchmark, {"good": good, "twin": good[::-1], "bad": bad}, replicates=400)
    assert set(scores["stat"].tolist()) == {MEAN, DIFFERENCE}
    assert set(scores["runs"].tolist()) == {3}
    behind = {row["method"]: row for row in scores.where(stat=DIFFERENCE, split="test", metric="accuracy", group=ALL)}
    assert behind["good"]["value"] == pytest.approx(0)
    assert behind["twin"]["value"] == pytest.approx(0)
    assert behind["twin"]["low"] <= 0 <= behind["twin"]["high"]
    assert behind["bad"]["low"] > 0
    assert behind["good"]["p"] == behind["twin"]["p"] == 1
    assert behind["bad"]["p"] < 0.05
    assert np.isnan(scores.where(stat=MEAN)["p"]).all()
    wanted = np.mean([only(score(benchmark, one, replicates=0), split="test", group=ALL, metric="accuracy")["value"]
                      for one in good])
    assert only(scores, method="good", split="test", group=ALL, metric="accuracy")["value"] == pytest.approx(wanted)


def write_run(folder, name, benchmark, predictions, done=True, **settings):
    place = folder / name
    place.mkdir(parents=True)
    (place / "run.json").write_text(json.dumps({
        "run": {"method": "erm", "seed": 0, **settings},
        "benchmark": {"name": "toy", "digest": benchmark.digest, "path": str(folder.parent / "toy")}}))
    predictions.save(place / "predictions.parquet")
    if done:
        (place / "done").touch()


def test_a_runs_folder(tmp_path):
    """Finished runs are scored one by one and as means over seeds; unfinished ones are counted and left out."""
    benchmark = made()
    benchmark.save(tmp_path / "toy")
    for seed in range(2):
        write_run(tmp_path / "runs", f"a{seed}", benchmark, guesses(benchmark, seed), seed=seed)
        write_run(tmp_path / "runs", f"b{seed}", benchmark, guesses(benchmark, 9 - seed), seed=seed, method="irm",
                  params={"weight": 3.0})
    write_run(tmp_path / "runs", "c", benchmark, guesses(benchmark, 5), seed=7, method="irm", params={"weight": 9.0})
    write_run(tmp_path / "runs", "unfinished", benchmark, guesses(benchmark, 5), done=False)
    finished, unfinished = runs_in(tmp_path / "runs")
    assert (len(finished), unfinished) == (5, 1)
    assert _folders(tmp_path / "runs") == [tmp_path / "toy"]
    scores = score_runs(tmp_path / "runs", replicates=30)
    accuracy = scores.where(split="test", group=ALL, metric="accuracy")
    numbers = accuracy.take(accuracy["stat"] != DIFFERENCE)
    assert [tuple(row[name] for name in ("run", "stat", "runs", "method", "label")) for row in numbers] == [
        ("a0", RUN, 1, "erm", ""), ("a1", RUN, 1, "erm", ""), ("b0", RUN, 1, "irm", ""), ("b1", RUN, 1, "irm", ""),
        ("c", RUN, 1, "irm", ""), ("", MEAN, 2, "erm", ""), ("", MEAN, 2, "irm", "irm (weight=3.0)"),
        ("", MEAN, 1, "irm", "irm (weight=9.0)")]
    assert numbers["setting"][[5, 6, 7]].tolist() == numbers["setting"][[0, 2, 4]].tolist()
    assert accuracy.where(stat=DIFFERENCE).names.tolist() == ["erm", "irm (weight=3.0)", "irm (weight=9.0)"]
    value = numbers["value"]
    assert value[5] == pytest.approx(value[:2].mean())
    assert set(scores["benchmark"].tolist()) == {"toy"}


def test_a_benchmark_that_changed_is_refused(tmp_path):
    """Runs on a benchmark that was rebuilt since cannot be scored; the message names both digests and what to do."""
    benchmark = made()
    write_run(tmp_path / "runs", "a", benchmark, guesses(benchmark))
    made(seed=1).save(tmp_path / "toy")
    with pytest.raises(ShiftBenchError, match=rf"{benchmark.digest[:8]}….*{made(1).digest[:8]}….*train again"):
        score_runs(tmp_path / "runs")


def test_a_benchmark_in_memory_is_given_by_hand(tmp_path):
    """A run whose benchmark was never in a folder is scored on the one that is given, and says so when none is."""
    benchmark = made()
    write_run(tmp_path / "runs", "a", benchmark, guesses(benchmark))
    facts = json.loads((tmp_path / "runs" / "a" / "run.json").read_text())
    facts["benchmark"]["path"] = None
    (tmp_path / "runs" / "a" / "run.json").write_text(json.dumps(facts))
    assert _folders(tmp_path / "runs") == []
    assert len(score_runs(tmp_path / "runs", benchmarks=[benchmark], replicates=5))
    with pytest.raises(ShiftBenchError, match="was in no folder"):
        score_runs(tmp_path / "runs")


def test_a_folder_without_runs_is_refused(tmp_path):
    """No folder, no finished run and a run.json that is none are errors that say what to do."""
    with pytest.raises(ShiftBenchError, match="no such folder"):
        score_runs(tmp_path / "none")
    write_run(tmp_path / "runs", "a", made(), guesses(made()), done=False)
    with pytest.raises(ShiftBenchError, match=r"1 failed or unfinished.*training again"):
        score_runs(tmp_path / "runs")
    (tmp_path / "runs" / "a" / "done").touch()
    (tmp_path / "runs" / "a" / "run.json").write_text("[1]")
    with pytest.raises(ShiftBenchError, match="does not describe a run"):
        score_runs(tmp_path / "runs")


def test_labels_tell_settings_apart_but_not_seeds():
    """Only what differs between runs of one method enters its name."""
    runs = [{"method": "a", "seed": 0, "lr": 1}, {"method": "a", "seed": 1, "lr": 1}, {"method": "b", "lr": 2}]
    assert labels(runs) == ["a", "a", "b"]
    assert labels([{**run, "lr": place} for place, run in enumerate(runs)]) == ["a (lr=0)", "a (lr=1)", "b"]


def test_json_holds_every_score_once():
    """The nested form has average, groups, worst group and gap with intervals, and null for what is not a number."""
    benchmark = made()
    scores = score(benchmark, guesses(benchmark), run="mine", replicates=20)
    (run,) = json.loads(json.dumps(to_json(scores), allow_nan=False))["runs"]
    test = run["splits"]["test"]
    row = only(scores, split="test", group="dog, outdoors", metric="accuracy")
    assert test["groups"]["dog, outdoors"]["accuracy"] == {key: row[key] for key in ("value", "low", "high", "n")}
    worst = only(scores, split="test", metric="worst_group_accuracy")
    assert {key: test["worst_group_accuracy"][key] for key in ("group", "value")} == {
        key: worst[key] for key in ("group", "value")}
    assert run["accuracy_gap"]["low"] <= run["accuracy_gap"]["value"] <= run["accuracy_gap"]["high"]
    n_entries = 1 + sum(len(part) - 1 + sum(len(group) for group in part["groups"].values())
                        for part in run["splits"].values())
    assert n_entries == len(scores)
    (bare,) = to_json(score(benchmark, guesses(benchmark), replicates=0))["runs"]
    assert bare["splits"]["test"]["accuracy"]["low"] is None
    assert not math.isnan(bare["splits"]["test"]["accuracy"]["value"])


def _folders(runs):
    """Where the benchmarks of a runs folder are."""
    index = RunIndex(runs)
    return index.benchmark_folders(set(index.by_name))
