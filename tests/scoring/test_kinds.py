"""AUC with DeLong's variance, calibration, the scores of hard and easy items, and the hardest tasks."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, rankdata
from sklearn.metrics import log_loss, roc_auc_score

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
from shiftbench.scoring import means, score, score_runs
from shiftbench.scoring.hard_items import (
    SIDES,
    area,
    auc_items,
    calibration,
    confidences,
    hardest_tasks,
    midranks,
    miscalibrated,
)
from shiftbench.scoring.select import select
from tests.scoring.test_many_runs import assert_same
from tests.scoring.test_score import only, write_run

ENDS = ("value", "low", "high")
tied = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30)


def brute(positive, score):
    """AUC and DeLong's variance by all pairs and the definition of the structural components."""
    x, y = score[positive], score[~positive]
    beats = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    parts = beats.mean(axis=1), beats.mean(axis=0)
    return beats.mean(), sum(part.var(ddof=1) / len(part) for part in parts)


class Area(NamedTuple):
    """AUC of each run and its variance through the items."""

    value: np.ndarray
    variance: np.ndarray


def delong(positive, score) -> Area:
    """AUC and DeLong's variance from the contributions of items; no variance of a single item of a polarity."""
    items = auc_items(positive, score)
    value = items.mean(axis=1)
    variance = ((items - value[:, None]) ** 2).sum(axis=1) / len(positive) ** 2
    few = min(int(positive.sum()), int((~positive).sum())) < 2
    return Area(value, np.full_like(variance, np.nan) if few else variance)


@given(tied)
def test_auc_is_the_share_of_pairs_in_order_and_its_variance_delongs(rows):
    """With any ties, AUC and variance are those of all pairs; NaN with one polarity, no variance of one item."""
    positive, value = np.asarray([one for one, _ in rows]), np.asarray([float(two) for _, two in rows])
    found = delong(positive, value[None])
    if positive.all() or not positive.any():
        assert np.isnan(found.value).all()
        assert np.isnan(found.variance).all()
        return
    assert found.value[0] == pytest.approx(roc_auc_score(positive, value), abs=1e-12)
    if min(positive.sum(), (~positive).sum()) == 1:
        assert np.isnan(found.variance).all()
        return
    expected = brute(positive, value)
    assert (found.value[0], found.variance[0]) == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 4), st.integers(1, 20), st.integers(0, 10**6))
def test_midranks_are_scipys(runs, n, seed):
    """Every row is ranked for itself, ties at the mean of their ranks; infinities are values like others."""
    values = np.random.default_rng(seed).choice([-np.inf, -1.0, 0.0, 2.5, np.inf], (runs, n))
    np.testing.assert_array_equal(midranks(values), rankdata(values, axis=1))


@given(tied, st.randoms(use_true_random=False))
def test_auc_depends_on_the_order_alone(rows, random):
    """Items in another order, a rising function of the scores, both polarities and signs exchanged: the same."""
    positive, value = np.asarray([one for one, _ in rows]), np.asarray([float(two) for _, two in rows])
    order = np.asarray(random.sample(range(len(rows)), len(rows)))
    first = delong(positive, value[None])
    for again in (delong(positive[order], value[order][None]), delong(positive, np.exp(value)[None]),
                  delong(~positive, -value[None])):
        np.testing.assert_allclose(again, first, atol=1e-12)


def test_auc_of_equal_scores_is_a_half():
    """A model that says the same of every item is known to have ½, and many runs are told apart."""
    positive = np.asarray([True, False, True, False, False])
    found = delong(positive, np.stack([np.zeros(5), positive * 1.0, -1.0 * positive]))
    assert found.value.tolist() == [0.5, 1.0, 0.0]
    assert found.variance.tolist() == [0.0, 0.0, 0.0]


def test_many_items_need_no_table_of_pairs():
    """A million items, 2 × 10¹¹ pairs: the value is Mann and Whitney's."""
    rng = np.random.default_rng(0)
    positive = rng.random(1_000_000) < 0.3
    value = np.round(rng.normal(positive * 1.0, 1.0), 3)
    found = delong(positive, value[None])
    u = mannwhitneyu(value[positive], value[~positive]).statistic
    assert found.value[0] == pytest.approx(u / positive.sum() / (~positive).sum(), abs=1e-9)
    assert 0 < found.variance[0] < 1e-6


def test_the_variance_is_that_of_drawing_items_again():
    """DeLong's variance is close to a bootstrap's, polarity by polarity, of scores with ties."""
    rng = np.random.default_rng(1)
    positive = np.arange(400) < 120
    value = np.round(rng.normal(positive * 1.2, 1.0), 1)
    rows = np.concatenate([rng.integers(120, size=(3000, 120)), 120 + rng.integers(280, size=(3000, 280))], axis=1)
    drawn = delong(positive, value[rows]).value
    assert delong(positive, value[None]).variance[0] == pytest.approx(drawn.var(), rel=0.1)


@pytest.mark.parametrize(("auc", "few", "many"), [(0.6, 60, 600), (0.85, 55, 700), (0.95, 150, 400), (0.9, 30, 30)])
def test_the_interval_covers(auc, few, many):
    """Of many draws of items about 95 % have an interval that holds the true AUC, also where one polarity is rare."""
    rng, positive = np.random.default_rng(2), np.arange(few + many) < few
    from scipy.special import ndtri

    scores = rng.normal(positive * ndtri(auc) * math.sqrt(2), 1.0, (1500, few + many))
    low, high = area(auc_items(positive, scores), few, range(1500), 0.95).ends(range(1500), 0.95)
    covered = np.mean((low <= auc) & (auc <= high))
    assert 0.925 <= covered <= 0.98, covered


def test_an_interval_is_honest_at_the_edges():
    """Where all pairs are in order the interval is that of the rarer side's items; of one positive there is none."""
    positive = np.arange(50) < 20
    low, high = (end[0, 0] for end in area(auc_items(positive, 1.0 * positive[None]), 20, [0], 0.95).ends([0], 0.95))
    assert (low, high) == (pytest.approx(20 / (20 + 1.959964**2), abs=1e-6), 1.0)
    lone = np.arange(50) < 1
    value = np.random.default_rng(0).random((1, 50))
    found = area(auc_items(lone, value), 1, [0], 0.95)
    assert math.isfinite(found.value[0, 0])
    assert np.isnan(found.ends([0], 0.95)).all()


def ece(label, scores):
    """The calibration error of one run."""
    return calibration((scores.argmax(axis=1) == label)[None], confidences(scores.T[None])).items.mean()


@given(st.lists(st.tuples(st.integers(0, 2), st.tuples(*[st.floats(-4, 4, width=32)] * 3)), max_size=40))
def test_ece_is_its_definition(rows):
    """Bin by bin, the predicted class's probability against how often it is right."""
    label = np.asarray([one for one, _ in rows], np.int64)
    scores = np.asarray([two for _, two in rows], np.float64).reshape(-1, 3)
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    sure, hit = probability.max(axis=1, initial=0), scores.argmax(axis=1) == label if len(rows) else np.zeros(0)
    expected = 0.0
    for k in range(15):
        inside = np.ceil(sure * 15 - 1e-9) == k + 1
        expected += abs(hit[inside].sum() - sure[inside].sum()) / max(1, len(rows))
    if rows:
        assert ece(label, scores) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("heat", [1.0, 1.1, 1.6, 3.0])
@pytest.mark.parametrize("n", [60, 800])
def test_the_interval_of_ece_covers(heat, n):
    """Models that are calibrated, nearly so and far from it: the interval holds the ECE that many items would show."""
    rng = np.random.default_rng(3)

    def draw(runs, size):
        odds = rng.normal(0, 2, (runs, size))
        sure = 1 / (1 + np.exp(-np.abs(odds) * heat))
        chance = 1 / (1 + np.exp(-np.abs(odds)))
        return sure, rng.random((runs, size)) < chance

    sure, hits = draw(1, 400_000)
    true = 0.0 if heat == 1 else float(miscalibrated(hits, sure, [0], 0.95).value[0, 0])
    sure, hits = draw(300, n)
    low, high = miscalibrated(hits, sure, range(300), 0.95).ends(range(300), 0.95)
    assert np.mean((low <= true) & (true <= high)) >= 0.93


def bench(n=900, seed=0, name="ce-car", criterion="ce", label=("no car", "car")):
    """A car or none, usually on a road: hard where the two do not go together."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    road = rng.random(n) < np.where(y, 0.75, 0.25)
    kind = np.where(y & ~road, "hard_positive", np.where(~y & road, "hard_negative", "easy"))
    return Benchmark.of(
        Collection("toy", np.asarray([str(100 + k) for k in range(n)])), None, 0, np.arange(n),
        rng.choice(["train", "id_val", "test"], n), label=np.asarray(label)[y.astype(int)],
        domain=np.where(road, "road", "no road"), extra={"kind": kind},
        card={"name": name, "shift": "context", "positive": label[1], "criterion": {"name": criterion}})


def model(made, seed=0, cue=1.0):
    """Scores that follow the label, and the road as far as `cue` says; many are equal."""
    rng = np.random.default_rng(seed)
    there = made.names["label"].index(made.card["positive"])
    road = 2.0 * (made.domain == made.names["domain"].index("road")) - 1
    odds = np.round(1.2 * (2.0 * (made.label == there) - 1) + cue * road + rng.normal(0, 1, len(made)), 1)
    scores = np.zeros((len(made), 2), np.float32)
    scores[:, there] = odds + 0.05  # of equal scores the first class is chosen, whichever that is
    return Predictions(made.items, made.split, scores, made.names["label"])


def test_scores_are_scikit_learns_on_the_same_rows():
    """AUC, loss, error and calibration of hard, easy and either hard side, on every split, with their counts."""
    made = bench()
    guess = model(made)
    found = score(made, guess)
    kind, odds = made.extra["kind"], guess.scores[:, 1] - guess.scores[:, 0]
    for split in ("id_val", "test"):
        for group in ("all", "hard", "easy", "hard_positive", "hard_negative"):
            rows = made.rows(split)
            rows = rows[np.char.startswith(kind[rows], "" if group == ALL else group)]
            y, s = made.label[rows], guess.scores[rows]
            mine = {row["metric"]: row for row in found.where(split=split, group=group)}
            one_side = group.startswith("hard_")
            assert ("auc" in mine, "ece" in mine) == (not one_side, not one_side)
            if not one_side:
                assert mine["auc"]["value"] == pytest.approx(roc_auc_score(y, odds[rows]), abs=1e-9)
                assert mine["ece"]["value"] == pytest.approx(ece(y, s), abs=1e-9)
            probability = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
            assert mine["nll"]["value"] == pytest.approx(log_loss(y, probability, labels=[0, 1]), abs=1e-6)
            if group != ALL:
                assert mine["error"]["value"] == pytest.approx(np.mean(s.argmax(axis=1) != y))
            for row in mine.values():
                assert row["n"] == len(rows)
                assert row["low"] <= row["value"] <= row["high"]
        for metric, plain in (("worst_hard_error", "error"), ("worst_hard_nll", "nll")):
            worst = only(found, split=split, metric=metric)
            sides = {side: only(found, split=split, metric=plain, group=side) for side in SIDES}
            assert worst["value"] == pytest.approx(max(one["value"] for one in sides.values()))
            assert worst["n"] == sides[worst["group"]]["n"]


def test_the_order_of_the_labels_does_not_matter():
    """`tie` comes after `no tie` and `car` before `no car`: the same items have the same scores of hard and easy."""
    first, second = bench(), bench(label=("no tie", "tie"))
    ours, theirs = (score(made, model(made)) for made in (first, second))
    for group in ("hard", "easy", "hard_positive"):
        mine, other = ours.where(split="test", group=group), theirs.where(split="test", group=group)
        assert mine["metric"].tolist() == other["metric"].tolist()
        np.testing.assert_allclose(mine["value"], other["value"], atol=1e-6)
        np.testing.assert_allclose(mine["low"], other["low"], atol=1e-6)


def test_a_set_of_one_label_has_no_auc():
    """It is not a number, with the items counted, and never 0; a set without items has no row."""
    made = bench()
    kind = np.where(made.extra["kind"] == "hard_positive", "hard_positive", "hard_negative")
    mine = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card,
                     {"kind": np.where(made.label == 0, kind, "easy")})
    found = score(mine, model(mine)).where(split="test")
    for group in ("hard", "easy"):
        row = only(found, metric="auc", group=group)
        assert math.isnan(row["value"])
        assert row["n"] == (np.char.startswith(mine.extra["kind"], group) & (mine.split == "test")).sum()
    assert math.isnan(sb.Scores.of([row])["low"][0])
    hard = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card,
                     {"kind": np.full(len(made), "hard_negative")})
    assert "easy" not in score(hard, model(hard))["group"]


@pytest.mark.parametrize("column", [None, np.arange(900), np.full(900, "sedan")])
def test_other_benchmarks_have_no_such_rows(column):
    """Without a column `kind`, or with one that means something else, nothing is added."""
    made = bench()
    other = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card,
                      {} if column is None else {"kind": column})
    assert not {"auc", "ece", "error"} & set(score(other, model(other))["metric"].tolist())


def test_a_choice_has_an_auc_but_no_loss():
    """Predictions that only choose a class are ranked in two; loss and calibration are left out."""
    made = bench()
    chosen = np.where(np.eye(2, dtype=bool)[model(made).predicted], np.float32(0), np.float32(-np.inf))
    found = score(made, Predictions(made.items, made.split, chosen, made.names["label"])).where(split="test")
    assert not {"ece", "nll", "worst_hard_nll"} & set(found["metric"].tolist())
    rows = made.rows("test")
    rows = rows[made.extra["kind"][rows] != "easy"]
    assert only(found, metric="auc", group="hard")["value"] == pytest.approx(
        roc_auc_score(made.label[rows], chosen[rows].argmax(axis=1)))


def test_means_over_seeds_are_paired_by_item():
    """The mean is that of the runs; runs that agree are worth one; methods are set against the best by AUC."""
    made = bench()
    runs = {"erm": [model(made, seed, 1.5) for seed in range(3)], "dro": [model(made, seed, 0.2) for seed in range(3)]}
    found = means(made, runs).where(split="test", group="hard")
    single = [only(score(made, one), split="test", group="hard", metric="auc")["value"] for one in runs["erm"]]
    erm = only(found, metric="auc", method="erm")
    assert erm["value"] == pytest.approx(np.mean(single))
    assert erm["low"] < erm["value"] < erm["high"]
    behind = only(found, stat="difference", metric="auc", method="erm")
    assert behind["value"] == pytest.approx(only(found, metric="auc", method="dro")["value"] - erm["value"])
    assert behind["low"] > 0
    same = means(made, {"erm": runs["erm"][:1] * 3}).where(split="test", group="hard")
    alone = score(made, runs["erm"][0]).where(split="test", group="hard")
    for metric in ("auc", "ece", "nll", "error"):
        a, b = only(same, metric=metric), only(alone, metric=metric)
        assert [a[key] for key in ENDS] == pytest.approx([b[key] for key in ENDS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of one method with three settings that follow the cue more and less, on a saved benchmark."""
    place = tmp_path_factory.mktemp("kinds")
    bench().save(place / "toy")
    made = Benchmark.load(place / "toy")
    for number, cue in enumerate((2.0, 0.0, 1.0)):
        for seed in range(2):
            write_run(place / "runs", f"run{number}{seed}", made, model(made, 10 * number + seed, cue), seed=seed,
                      cue=cue)
    return place


def test_a_batch_gives_the_rows_of_one_run_after_the_other(folder):
    """Many runs side by side have the rows, in the order, that each has alone."""
    made = Benchmark.load(folder / "toy")
    found = score_runs(folder / "runs")
    single = Scores({name: column[found["seed"] >= 0] for name, column in found.columns.items()})
    names = list(dict.fromkeys(single["run"].tolist()))
    parts = []
    for name in names:
        head = next(iter(single.where(run=name)))
        parts.append(score(made, Predictions.load(folder / "runs" / name / "predictions.parquet", made), run=name,
                           method=head["method"], setting=head["setting"], seed=head["seed"]))
    assert_same(single, Scores.join(parts))


def test_the_rule_of_the_paper_finds_the_hard_losses(folder):
    """`nooch` takes the setting whose larger loss of hard positives and hard negatives on id_val is smallest."""
    found = score_runs(folder / "runs")
    choices = [one for one in select(found, ["nooch"]).choices if one.target == "accuracy"]
    assert len(choices) == 2
    for one in choices:
        assert "hard positives and hard negatives on id_val" in one.by
        larger = {}
        for row in found.where(split="id_val", metric="nll", seed=one.seed):
            if row["group"] in ("hard_positive", "hard_negative"):
                larger[row["run"]] = max(larger.get(row["run"], 0.0), row["value"])
        assert one.run == min(larger, key=larger.get)
        assert one.criterion == pytest.approx(min(larger.values()))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 60))
def test_small_benchmarks_have_scores_or_none(seed, n):
    """However few items a kind has, a value lies in its interval, and what is not known is not a number."""
    made = bench(n, seed)
    if "test" not in made.splits or len(made.names["label"]) < 2 or len(made.names["domain"]) < 2:
        return
    for row in score(made, model(made, seed)).where(split="test"):
        if row["metric"] in ("auc", "ece", "error") and not math.isnan(row["low"]):
            assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1


def test_more_than_two_classes_are_hard_or_easy():
    """Then there are no sides and no AUC; loss, error and calibration of hard and of easy items are scored."""
    made = bench()
    label = np.asarray(["a", "b", "c"])[np.arange(900) % 3]
    three = Benchmark.of(Collection("toy", made.items), None, 0, np.arange(900), made.split, label=label,
                         domain=np.full(900, "d"), extra={"kind": np.where(np.arange(900) % 4 == 0, "hard", "easy")})
    table = np.random.default_rng(0).normal(size=(900, 3)).astype(np.float32)
    found = score(three, Predictions(three.items, three.split, table, three.names["label"])).where(split="test")
    assert set(found.where(group="hard")["metric"].tolist()) == {"ece", "nll", "error"}
    assert only(found, group="hard", metric="nll")["n"] == (
        (three.extra["kind"] == "hard") & (three.split == "test")).sum()
    assert "auc" not in found["metric"]
    assert not {"hard_positive", "hard_negative"} & set(found["group"].tolist())


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1),
       st.integers(1, 20))
def test_the_suite_has_the_largest_gaps(losses, n):
    """No task outside the suite has a larger gap than one inside, and the order is from the largest."""
    hard, every = ({task: pair[side] for task, pair in losses.items()} for side in (0, 1))
    if n > len(losses):
        with pytest.raises(ShiftBenchError, match="tasks are asked for"):
            hardest_tasks(hard, every, n)
        return
    chosen = hardest_tasks(hard, every, n)
    gaps = [ranked.gap for ranked in chosen]
    assert len(chosen) == n
    assert gaps == sorted(gaps, reverse=True)
    assert all(hard[task] - every[task] <= gaps[-1] for task in set(hard) - {ranked.task for ranked in chosen})


def test_tasks_without_hard_items_take_no_part():
    """A NaN is no loss; a task that has no loss on all items is named."""
    assert [ranked.task for ranked in hardest_tasks({"a": math.nan, "b": 1.0}, {"a": 0.0, "b": 2.0}, 1)] == ["b"]
    with pytest.raises(ShiftBenchError, match="No task named 'b'"):
        hardest_tasks({"b": 1.0}, {"a": 1.0}, 1)
