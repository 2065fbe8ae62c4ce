"""Targets that are no classes are scored as WILDS means it, and their intervals are of what the items show."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shiftbench.compat.wilds_eval import evaluate
from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
from shiftbench.data.target import (
    BoxTarget,
    NumberTarget,
    TaskTarget,
    TokenTarget,
    boxes_text,
    kinds_text,
    tokens_text,
)
from shiftbench.scoring import means, score
from shiftbench.scoring.beyond_classes import KINDS, domain_items, precision_items, r_items, ratio_items
from shiftbench.scoring.judge import GAP

quick = settings(max_examples=40, deadline=None)


def benchmark(target, extra, group, domain=None, split=None, label=("y",), names=None):
    """Rows of one split, test, unless told; groups and domains are codes."""
    n = len(group)
    domain = group if domain is None else domain
    return Benchmark(
        np.asarray([f"i{row}" for row in range(n)]), np.full(n, "test") if split is None else split,
        np.zeros(n, np.int64), domain, group,
        {"label": label, "domain": tuple(f"d{code}" for code in range(int(domain.max()) + 1)),
         "group": names or tuple(f"g{code}" for code in range(int(group.max()) + 1))},
        {"name": "made", "target": target.facts}, extra)


def numbers(truth, group, **more):
    columns = tuple(f"y{code}" for code in range(truth.shape[1]))
    return benchmark(NumberTarget(columns), dict(zip(columns, truth.T, strict=True)), group, label=columns, **more)


def tasks(truth, group, **more):
    columns = tuple(f"y{code}" for code in range(truth.shape[1]))
    return benchmark(TaskTarget(columns), dict(zip(columns, truth.T, strict=True)), group, label=columns, **more)


def guess(made, scores):
    return Predictions(made.items, made.split, np.asarray(scores, np.float32), made.names["label"])


def value(scores: Scores, metric: str, group: str = ALL, split: str = "test") -> float:
    found = scores.where(metric=metric, split=split)
    rows = found if metric.startswith("worst_") else found.where(group=group)
    assert len(rows) == 1, (metric, group, len(rows))
    return float(rows["value"][0])


def wealth(seed=0, n=60):
    rng = child(seed, "wealth")
    truth = rng.normal(size=(n, 1)).astype(np.float32)
    return truth, (truth + rng.normal(size=(n, 1))).astype(np.float32), rng.integers(0, 2, n)


def heads(seed=0, n=30):
    """Images with boxes in pixels of 1024, some found, some moved, some doubled; and their sessions."""
    rng = child(seed, "heads")
    truth, boxes, scores = [], [], []
    for at in range(n):
        corner = rng.integers(0, 900, (at % 4, 2))
        truth.append(np.concatenate([corner, corner + 100], axis=1).astype(np.float32))
        moved = np.concatenate([corner, corner]) + rng.integers(-40, 40, (2 * len(corner), 2))
        boxes.append(np.concatenate([moved, moved + 100], axis=1).astype(np.float32))
        scores.append(rng.random(len(moved)).astype(np.float32))
    return truth, boxes, scores, rng.integers(0, 3, n)


def wheat(truth, session, **more):
    row = np.repeat(np.arange(len(truth)), [len(one) for one in truth])
    text = boxes_text(row, np.concatenate(truth) / 1024, len(truth))
    return benchmark(BoxTarget(("boxes",)), {"boxes": text}, session, label=("wheat_head",), **more)


def code(seed=0, n=20, length=9):
    rng = child(seed, "code")
    tokens, kinds = rng.integers(0, 5, (n, length)), rng.integers(-1, len(KINDS), (n, length))
    return tokens, np.where(kinds < 0, -100, kinds), rng.integers(0, 5, (n, length)), rng.integers(0, 4, n)


def python(tokens, kinds, repo, **more):
    extra = {"tokens": tokens_text(tokens), "kinds": kinds_text(kinds)}
    return benchmark(TokenTarget(("tokens", "kinds"), 5), extra, repo, label=("next token",), **more)


@pytest.mark.parametrize("seed", range(3))
def test_poverty_is_judged_as_by_wilds(seed):
    """r and mse over all, within urban and rural, and in the worse of the two are those of `evaluate`."""
    truth, predicted, urban = wealth(seed)
    made = numbers(truth.astype(np.float64), urban)
    scores = score(made, guess(made, predicted))
    metadata = np.stack([urban, truth[:, 0], urban], axis=1)
    theirs = evaluate("poverty", predicted.astype(np.float64), truth.astype(np.float64), metadata,
                      ["urban", "y", "country"], compat=None)
    assert value(scores, "r") == pytest.approx(theirs["r_all"])
    assert value(scores, "mse") == pytest.approx(theirs["mse_all"] if "mse_all" in theirs else theirs["mse_avg"])
    assert value(scores, "worst_group_r") == pytest.approx(theirs["r_wg"])
    assert value(scores, "worst_group_mse") == pytest.approx(theirs["mse_wg"])
    for group in (0, 1):
        assert value(scores, "r", f"g{group}") == pytest.approx(theirs[f"r_urban:{group}"])


@pytest.mark.parametrize("seed", range(3))
def test_molpcba_is_judged_as_by_wilds(seed):
    """The mean is over tasks with both labels, and says how many those are."""
    rng = child(seed, "molecules")
    truth = rng.choice([0.0, 1.0, math.nan], (50, 6))
    truth[:, 4] = np.where(truth[:, 4] == 0, math.nan, truth[:, 4])
    predicted = rng.integers(0, 9, (50, 6)) / 4
    made = tasks(truth, rng.integers(0, 2, 50))
    scores = score(made, guess(made, predicted))
    theirs = evaluate("ogb-molpcba", predicted, truth, np.zeros((50, 2)), compat=None)
    assert value(scores, "mean_ap") == pytest.approx(theirs["ap"])
    assert value(scores, "tasks_judged") == 5


@pytest.mark.parametrize("seed", range(3))
def test_globalwheat_is_judged_as_by_wilds(seed):
    """The mean over images, in each session, over sessions and in the worst one are those of `evaluate`."""
    truth, boxes, found, session = heads(seed)
    made = wheat(truth, session)
    answers = Answers.of(made.items, made.split, {"boxes": [one / 1024 for one in boxes], "scores": found})
    scores = score(made, answers)
    theirs = evaluate("globalwheat", [{"boxes": box, "scores": score} for box, score in zip(boxes, found, strict=True)],
                      [{"boxes": box} for box in truth], session[:, None], ["session"],
                      {"session": [f"g{code}" for code in range(3)]}, compat=None)
    assert value(scores, "detection_accuracy") == pytest.approx(theirs["detection_acc_avg"])
    assert value(scores, "detection_accuracy_by_domain") == pytest.approx(theirs["detection_acc_avg_dom"])
    assert value(scores, "worst_group_detection_accuracy") == pytest.approx(theirs["detection_acc_wg"])
    for group in range(3):
        assert value(scores, "detection_accuracy", f"g{group}") == pytest.approx(
            theirs[f"detection_acc_session:g{group}"])


@pytest.mark.parametrize("seed", range(3))
def test_py150_is_judged_as_by_wilds(seed):
    """Class and method tokens, all tokens and every kind are judged at the place before; masked ones are not."""
    tokens, kinds, answered, repo = code(seed)
    made = python(tokens, kinds, repo)
    scores = score(made, Answers.of(made.items, made.split, {"tokens": list(answered)}))
    label, kind = np.where(kinds[:, 1:] < 0, math.nan, tokens[:, 1:]), kinds[:, 1:]
    theirs = evaluate("py150", answered[:, :-1].astype(float), label,
                      np.concatenate([repo[:, None], kind, repo[:, None]], axis=1), compat=None)
    assert value(scores, "accuracy") == pytest.approx(theirs["acc"])
    assert value(scores, "overall_accuracy") == pytest.approx(theirs["Acc (Overall)"])
    for name in KINDS:
        assert value(scores, f"{name}_accuracy") == pytest.approx(theirs[f"Acc ({name})"])
    by_repo = [np.mean((answered[:, :-1] == label)[repo == one][np.isin(kind[repo == one], (0, 1))])
               for one in np.unique(repo)]
    assert value(scores, "worst_group_accuracy") == pytest.approx(min(by_repo))


@quick
@given(st.data(), st.integers(2, 9))
def test_contributions_to_r_average_to_r(data, n):
    """Within each group the mean of contributions is r, also where outputs lack labels."""
    number = st.integers(-9, 9).map(float)
    truth = data.draw(arrays.arrays(float, (n, 2), elements=st.one_of(number, st.just(math.nan))))
    predicted = data.draw(arrays.arrays(float, (n, 2), elements=number))
    made = r_items(truth, predicted, np.zeros(n, np.int64))
    each = []
    for column in range(2):
        has = ~np.isnan(truth[:, column])
        x, y = truth[has, column], predicted[has, column]
        varies = len(x) > 1 and x.std() > 0 and y.std() > 0
        each.append(np.corrcoef(x, y)[0, 1] if varies else math.nan)
    assert made.mean() == pytest.approx(np.mean(each), nan_ok=True, abs=1e-9)


def test_contributions_to_average_precision_are_its_slope():
    """One more copy of an item among many moves AP as its contribution says; equal scores included."""
    rng = child(0, "slope")
    label, score, copies = rng.choice([0.0, 1.0, math.nan], (14, 3)), rng.integers(0, 6, (14, 3)).astype(float), 400
    found = precision_items(label, score)
    assert found.items.mean() == pytest.approx(found.value) == pytest.approx(precision_items(label, score).value)
    for item in range(14):
        rows = np.append(np.repeat(np.arange(14), copies), [item])
        moved = precision_items(label[rows], score[rows]).value - found.value
        assert 14 * copies * moved == pytest.approx(found.items[item] - found.value, abs=0.02)


@quick
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=12))
def test_contributions_to_a_ratio_average_to_it(files):
    """Tokens count alike: the mean of contributions in a group is its right tokens over its tokens."""
    right, more, group = (np.asarray(column) for column in zip(*files, strict=True))
    count = right + more
    made = ratio_items(right[None].astype(float), count, group)[0]
    for one in np.unique(group):
        mine = group == one
        assert made[mine].mean() == pytest.approx(right[mine].sum() / count[mine].sum())


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=12))
def test_contributions_to_a_mean_over_domains_average_to_it(images):
    """Domains count alike, however many images they have."""
    values, domain = (np.asarray(column) for column in zip(*images, strict=True))
    each = [values[domain == one].mean() for one in np.unique(domain)]
    assert domain_items(values[None], domain).mean() == pytest.approx(np.mean(each))


def test_a_group_without_value_is_not_the_worst():
    """A group of one item has no r, one without items no row; neither is a zero."""
    truth, predicted, group = wealth()
    group = np.where(np.arange(len(group)) == 0, 2, group)
    made = numbers(truth.astype(float), group, names=("rural", "urban", "lone", "nobody"))
    scores = score(made, guess(made, predicted))
    assert {*scores.where(metric="r")["group"].tolist()} == {ALL, "rural", "urban"}
    assert {*scores.where(metric="mse")["group"].tolist()} == {ALL, "rural", "urban", "lone"}
    worst = scores.where(metric="worst_group_r")
    assert worst["group"][0] in ("rural", "urban")
    assert worst["n"][0] == (group == ("rural", "urban").index(worst["group"][0])).sum()
    assert worst["low"][0] < worst["value"][0] < worst["high"][0]


def test_what_cannot_be_said_is_not_a_number():
    """Constant predictions have no r, one-sided labels no average precision, no names of classes no accuracy."""
    truth, _, group = wealth()
    made = numbers(truth.astype(float), group)
    scores = score(made, guess(made, np.zeros_like(truth)))
    assert math.isnan(value(scores, "r"))
    assert not len(scores.where(metric="worst_group_r"))
    made = tasks(np.ones((8, 2)), np.arange(8) % 2)
    assert math.isnan(value(score(made, guess(made, np.zeros((8, 2)))), "mean_ap"))
    tokens, kinds, answered, repo = code()
    made = python(tokens, np.full_like(kinds, 3), repo)
    scores = score(made, Answers.of(made.items, made.split, {"tokens": list(answered)}))
    assert math.isnan(value(scores, "accuracy"))
    assert value(scores, "overall_accuracy") == value(scores, "keyword_accuracy")


def test_a_single_item_is_scored():
    """No kind fails where a split has one item of one group."""
    one = np.zeros(1, np.int64)
    for made, told in (
            (numbers(np.ones((1, 1)), one), np.ones((1, 1))), (tasks(np.ones((1, 1)), one), np.ones((1, 1))),
            (wheat([np.zeros((0, 4), np.float32)], one), {"boxes": [[]], "scores": [[]]}),
            (python(np.ones((1, 3), np.int64), np.zeros((1, 3), np.int64), one), {"tokens": [[1, 2]]})):
        predictions = Answers.of(made.items, made.split, told) if isinstance(told, dict) else guess(made, told)
        assert len(score(made, predictions).where(group=ALL))


def test_without_kinds_all_tokens_count():
    """A benchmark of tokens alone has one accuracy; answers beyond the last label are not looked at."""
    tokens = np.asarray([[1, 2, 3, -100], [4, 0, 1, 2]])
    made = benchmark(TokenTarget(("tokens",), 5), {"tokens": tokens_text(tokens)}, np.zeros(2, np.int64))
    scores = score(made, Answers.of(made.items, made.split, {"tokens": [[2, 0], [0, 1, 0, 9]]}))
    assert value(scores, "accuracy") == pytest.approx(3 / 5)
    assert scores.where(metric="accuracy", group=ALL)["n"][0] == 5
    with pytest.raises(ShiftBenchError, match="1 answers but labels at 2 places"):
        score(made, Answers.of(made.items, made.split, {"tokens": [[2], [0, 1, 0]]}))


def test_the_gap_is_from_id_test_to_test():
    """The gap of r, and of the worst group's, is the difference of the two splits."""
    truth, predicted, group = wealth(n=200)
    made = numbers(truth.astype(float), group, split=np.repeat(["id_test", "test"], 100))
    predicted[100:] += child(3, "noise").normal(size=(100, 1)) * 3
    scores = score(made, guess(made, predicted))
    for metric in ("r", "worst_group_r"):
        gap = scores.where(metric=f"{metric}_gap", split=GAP)
        before, after = (value(scores, metric, split=split) for split in ("id_test", "test"))
        assert gap["value"][0] == pytest.approx(before - after)
        assert gap["low"][0] < gap["value"][0] < gap["high"][0]


def test_an_interval_of_tokens_is_about_files():
    """The same share from fewer files that agree within themselves is known less well."""
    def half_right(files: int, length: int) -> float:
        tokens = np.ones((files, length + 1), np.int64)
        made = benchmark(TokenTarget(("tokens",), 2), {"tokens": tokens_text(tokens)}, np.zeros(files, np.int64))
        right = np.repeat(np.arange(files) % 2, length).reshape(files, length)
        row = score(made, Answers.of(made.items, made.split, {"tokens": list(right)})).where(
            metric="accuracy", group=ALL)
        assert row["value"][0] == 0.5
        return float(row["high"][0] - row["low"][0])

    assert half_right(20, 40) > 2 * half_right(200, 4)


def test_means_are_over_runs_and_equal_methods_are_not_behind():
    """A method's number is the mean of its runs'; a copy of a method is 0 behind, a noisy one more with a small p."""
    truth, predicted, group = wealth(n=300)
    made = numbers(truth.astype(float), group)
    runs = [guess(made, predicted + child(seed, "run").normal(size=predicted.shape) * 0.1) for seed in range(3)]
    poor = [guess(made, predicted + child(seed, "poor").normal(size=predicted.shape) * 9) for seed in range(3)]
    scores = means(made, {"good": runs, "same": runs, "poor": poor})
    for metric in ("r", "worst_group_r", "mse"):
        each = [value(score(made, one), metric) for one in runs]
        rows = scores.where(stat=MEAN, metric=metric, method="good")
        row = rows if metric.startswith("worst") else rows.where(group=ALL)
        assert row["value"][0] == pytest.approx(np.mean(each))
        assert row["runs"][0] == 3
    for metric in ("r", "worst_group_r"):
        behind = {row["method"]: row for row in scores.where(stat=DIFFERENCE, metric=metric, group=ALL)}
        assert behind["same"]["value"] == 0
        assert behind["poor"]["low"] > 0
        assert behind["poor"]["p"] < 0.01 < behind["same"]["p"]


@pytest.mark.parametrize("kind", ["boxes", "tokens"])
def test_lists_have_means_too(kind):
    """Detectors and language models are compared as other methods are."""
    if kind == "boxes":
        truth, boxes, found, session = heads()
        made = wheat(truth, session)
        lists = {"boxes": [one / 1024 for one in boxes], "scores": found}
        none = {"boxes": [[] for _ in boxes], "scores": [[] for _ in boxes]}
    else:
        tokens, kinds, answered, repo = code()
        made = python(tokens, kinds, repo)
        lists, none = {"tokens": list(np.roll(tokens, -1, axis=1))}, {"tokens": list(answered)}
    good, poor = (Answers.of(made.items, made.split, one) for one in (lists, none))
    scores = means(made, {"good": [good, good], "poor": [poor, poor]})
    metric = made.headline.metric
    behind = scores.where(stat=DIFFERENCE, metric=metric, group=ALL)
    assert behind["value"].tolist() == [0, pytest.approx(
        value(score(made, good), metric) - value(score(made, poor), metric))]
    assert behind["low"][1] > 0


def test_every_kind_has_its_headline_in_its_scores():
    """`headline` names a metric that `score` gives, without replicates without an interval."""
    truth, predicted, group = wealth()
    made = numbers(truth.astype(float), group)
    scores = score(made, guess(made, predicted), replicates=0)
    assert str(made.headline) == NumberTarget.headline == "worst_group_r"
    assert np.isnan(scores.where(metric="worst_group_r")["low"]).all()
    plain = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names)
    assert str(plain.headline) == "accuracy"


def test_answers_must_be_of_the_kind():
    """Scores are not boxes, boxes are not numbers, and a diverged model is told so."""
    truth, boxes, found, session = heads()
    made = wheat(truth, session)
    with pytest.raises(ShiftBenchError, match="asks for boxes or tokens"):
        score(made, guess(made, np.zeros((len(truth), 1))))
    wealthy = numbers(np.zeros((len(truth), 1)), session)
    answers = Answers.of(made.items, made.split, {"boxes": [one / 1024 for one in boxes], "scores": found})
    with pytest.raises(ShiftBenchError, match="asks for numbers"):
        score(wealthy, answers)
    with pytest.raises(ShiftBenchError, match="diverged"):
        score(wealthy, guess(wealthy, np.full((len(truth), 1), math.nan)))
