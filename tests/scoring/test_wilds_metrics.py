"""The metrics of WILDS agree with scikit-learn, scipy or a plain loop, over disjoint and overlapping groups."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring.beyond_classes import (
    detection_accuracy,
    group_means,
    intersection_over_union,
    pearson_by_group,
    percentile_over_groups,
    precision_items,
    squared_errors,
    token_hits,
)
from shiftbench.scoring.metrics import tally

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@given(generators, st.integers(0, 40), st.integers(1, 6))
def test_means_of_groups_are_those_of_a_loop(rng, n, n_groups):
    """A group's mean is over its own items; without any it is NaN, and its size 0."""
    values, group = rng.normal(size=n), rng.integers(n_groups, size=n)
    found = group_means(values, group, n_groups)
    for code in range(n_groups):
        mine = values[group == code]
        assert found.size[code] == len(mine)
        assert found.value[code] == pytest.approx(mine.mean() if len(mine) else math.nan, nan_ok=True)


@given(generators)
def test_a_class_that_is_only_predicted_is_no_term_of_f1(rng):
    """Giving a class that the truth lacks costs the recall of the true class and adds no zero to the mean."""
    label, predicted = rng.integers(3, size=30), rng.integers(6, size=30)
    wanted = sk.f1_score(label, predicted, average="macro", labels=np.unique(label), zero_division=0)
    assert tally(label, predicted).macro_f1[0] == pytest.approx(wanted)
    assert tally(np.array([0, 0, 1]), np.array([0, 2, 1])).macro_f1[0] == pytest.approx((2 / 3 + 1) / 2)


def tasks(rng: np.random.Generator, n: int, n_tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels with a third missing, and scores with ties."""
    label = rng.integers(2, size=(n, n_tasks)).astype(float)
    label[rng.random(label.shape) < 1 / 3] = math.nan
    return label, rng.integers(-3, 4, (n, n_tasks)) / 2


def looped(label: np.ndarray, score: np.ndarray) -> list[float]:
    values = []
    for truth, ranks in zip(label.T, score.T, strict=True):
        known = ~np.isnan(truth)
        both = len(np.unique(truth[known])) == 2
        values.append(sk.average_precision_score(truth[known], ranks[known]) if both else math.nan)
    return values


@settings(deadline=None)
@given(generators, st.integers(1, 30), st.integers(1, 4))
def test_average_precision_agrees_with_scikit_learn(rng, n, n_tasks):
    """The mean over tasks, missing labels left out; a task of one kind of label is no term, and none at all is NaN."""
    label, score = tasks(rng, n, n_tasks)
    each = np.asarray(looped(label, score))
    found = precision_items(label, score)
    assert found.tasks == (~np.isnan(each)).sum()
    assert found.value == pytest.approx(np.nanmean(each) if found.tasks else math.nan, nan_ok=True)
    for task in range(n_tasks):
        alone = precision_items(label[:, [task]], score[:, [task]])
        assert alone.value == pytest.approx(each[task], nan_ok=True)


def test_tasks_in_turns_are_tasks_at_once(monkeypatch):
    """How many labels are sorted at once changes nothing."""
    label, score = tasks(np.random.default_rng(0), 30, 7)
    whole = precision_items(label, score)
    monkeypatch.setattr("shiftbench.scoring.beyond_classes.ENTRIES", 70)
    turns = precision_items(label, score)
    assert turns.value == pytest.approx(whole.value)
    np.testing.assert_allclose(turns.items, whole.items)


def test_a_score_that_is_not_a_number_is_no_missing_label():
    """A model that has diverged on a task does not get its mean without that task."""
    with pytest.raises(ShiftBenchError, match="diverged"):
        precision_items(np.array([[1.0], [0.0]]), np.array([[math.nan], [0.0]]))


def image_accuracy(truth: np.ndarray, boxes: np.ndarray) -> float:
    """The definition, box by box."""
    def iou(a, b):
        inner = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
        return inner / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner)
    found = set()
    for box in boxes:
        shares = [iou(box, other) for other in truth]
        if shares and max(shares) >= 0.5:
            found.add(shares.index(max(shares)))
    missed, wrong = len(truth) - len(found), len(boxes) - len(found)
    total = len(found) + missed + wrong
    return len(found) / total if total else 1.0


@settings(deadline=None)
@given(generators, st.integers(0, 6), st.sampled_from([np.int64, np.float32, np.float64]))
def test_detection_is_the_loop_over_boxes(rng, n, kind):
    """All images at once give what each gives alone, ties of overlap and images without boxes among them."""
    def draw(most):
        corner = rng.integers(0, 3, (rng.integers(0, most), 2))
        return np.concatenate([corner, corner + rng.integers(1, 4, corner.shape)], axis=1).astype(kind)
    truth, boxes = [draw(5) for _ in range(n)], [draw(7) for _ in range(n)]
    scores = [rng.choice([0.3, 0.5, 0.7, 0.9], len(mine)) for mine in boxes]
    wanted = [image_accuracy(a, b[s > 0.5]) for a, b, s in zip(truth, boxes, scores, strict=True)]
    assert detection_accuracy(truth, boxes, scores) == pytest.approx(wanted)


def test_detection_counts_a_second_box_as_wrong():
    """Two boxes on one thing make ½, a score of exactly ½ is not kept, an overlap of exactly ½ is enough."""
    one = np.array([[0.0, 0.0, 4.0, 4.0]])
    half = np.array([[0.0, 0.0, 2.0, 4.0]])
    none = np.zeros((0, 4))
    assert detection_accuracy([one], [np.concatenate([one, one])], [np.array([0.9, 0.8])])[0] == 0.5
    assert detection_accuracy([one], [one], [np.array([0.5])])[0] == 0
    assert intersection_over_union(one, half)[0] == 0.5
    assert detection_accuracy([one], [half], [np.array([0.9])])[0] == 1
    sure, unseen = np.ones(1), np.zeros(0)
    assert detection_accuracy([none, none, one], [none, one, none], [unseen, sure, unseen]).tolist() == [1, 0, 0]
    assert detection_accuracy([one] * 1000, [one] * 1000, [np.ones(1)] * 1000).tolist() == [1] * 1000


def test_detection_names_what_does_not_fit():
    """As many lists of boxes as of scores and of true boxes."""
    with pytest.raises(ShiftBenchError, match="1, 0 and 1 images"):
        detection_accuracy([np.zeros((0, 4))], [], [np.zeros(0)])


@settings(deadline=None)
@given(generators, st.integers(0, 30), st.integers(1, 4), st.floats(-1e6, 1e6))
def test_correlation_is_that_of_scipy(rng, n, n_groups, offset):
    """Group by group, wherever the values lie; NaN with fewer than two items or without variation."""
    x = rng.normal(size=n) + offset
    y, group = x + rng.normal(size=n), rng.integers(n_groups, size=n)
    y[group == 0] = 0.1
    found = pearson_by_group(x, y, group, n_groups)
    for code in range(n_groups):
        mine = group == code
        varies = code > 0 and mine.sum() > 1
        wanted = stats.pearsonr(x[mine], y[mine])[0] if varies else math.nan
        assert found[code] == pytest.approx(wanted, nan_ok=True, abs=1e-6)


def test_squared_errors_are_means_over_outputs():
    """One number an item, whether it has one output, a column of one, or several."""
    x, y = np.array([1.0, 2.0]), np.array([1.0, 4.0])
    assert squared_errors(x, y).tolist() == squared_errors(x[:, None], y[:, None]).tolist() == [0, 4]
    assert squared_errors(np.zeros((1, 2)), np.array([[1.0, 3.0]])).tolist() == [5]
    assert squared_errors(np.zeros((0, 1)), np.zeros((0, 1))).tolist() == []


def test_tenth_percentile_lies_between_users():
    """Users at 0, ½ and 1 have the 10th percentile 0.1; a user without items is none."""
    hits, user = np.array([0.0, 1, 0, 1, 1, 1, 1]), np.array([0, 1, 1, 4, 4, 4, 4])
    assert percentile_over_groups(group_means(hits, user, 6).value) == pytest.approx(0.1)
    assert percentile_over_groups(np.array([0.0, 0.5, 1.0]), 50) == 0.5
    assert math.isnan(percentile_over_groups(np.full(3, math.nan)))


def test_tokens_without_a_label_are_neither_right_nor_wrong():
    """A token is right where it is its label; without a label it is NaN."""
    label, predicted = np.array([[5.0, 6.0, math.nan]]), np.array([[5, 7, 8]])
    np.testing.assert_array_equal(token_hits(label, predicted), [[1, 0, math.nan]])
