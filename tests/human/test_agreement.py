"""Pairwise accuracy and agreement of people: definitions, variances and intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.human.people import agreement, clustered, over_pairs
from shiftbench.scoring.intervals import wilson
from shiftbench.scoring.metrics import accuracy
from tests.strategies import seeds

# Pairwise accuracy

def tables(seed, classes, n):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.normal(size=(n, classes)).round(1).astype(np.float32)


def over_all_pairs(label, scores):
    """The mean of the pairwise accuracy over all pairs of classes."""
    return over_pairs(label, scores, [(a, b) for a in range(scores.shape[1]) for b in range(a)]).value


@given(seeds, st.integers(2, 6), st.integers(1, 60))
def test_pairwise_accuracy_is_a_double_loop(seed, classes, n):
    """For every pair: of the items of the two classes, the share whose own class has the higher score, ties half."""
    label, scores = tables(seed, classes, n)
    values = []
    for a in range(classes):
        for b in range(a + 1, classes):
            of = [i for i in range(n) if label[i] in (a, b)]
            right = [1.0 if scores[i, label[i]] > scores[i, a + b - label[i]] else
                     0.5 if scores[i, a] == scores[i, b] else 0.0 for i in of]
            alone, turned = (over_pairs(label, scores, [pair]) for pair in ((a, b), (b, a)))
            if {a, b} <= set(label.tolist()):
                values.append(np.mean(right))
                assert alone.value == turned.value == pytest.approx(values[-1])
                assert alone.n == len(of)
            else:
                assert np.isnan(alone.value)
                assert np.isnan(turned.value)
    assert over_all_pairs(label, scores) == pytest.approx(np.mean(values) if values else np.nan, nan_ok=True)


@given(seeds, st.integers(2, 6), st.integers(2, 60))
def test_pairwise_accuracy_knows_no_order(seed, classes, n):
    """Renaming the classes, reordering the items and adding a number to an item's scores change nothing."""
    label, scores = tables(seed, classes, n)
    rng = np.random.default_rng(seed)
    rename, rows = rng.permutation(classes), rng.permutation(n)
    moved = np.empty_like(scores)
    moved[:, rename] = scores
    again = over_all_pairs(rename[label][rows], (moved + np.arange(n, dtype=np.float32)[:, None])[rows].round(1))
    assert again == pytest.approx(over_all_pairs(label, scores), nan_ok=True)


@given(seeds, st.integers(2, 40))
def test_with_two_classes_it_is_accuracy(seed, n):
    """Two classes make one pair; no two scores are equal here."""
    rng = np.random.default_rng(seed)
    label, scores = np.append(rng.integers(0, 2, n), [0, 1]), rng.normal(size=(n + 2, 2))
    assert over_all_pairs(label, scores) == pytest.approx(accuracy(label, scores))


def test_an_empty_table_has_no_pairwise_accuracy():
    """Without two classes that have items there is no pair, and the value is NaN rather than 0."""
    assert np.isnan(over_pairs(np.zeros(3, int), np.zeros((3, 2)), [(0, 1)]).value)


@pytest.mark.parametrize("balanced", [False, True])
def test_the_variance_over_pairs_is_that_of_a_bootstrap(balanced):
    """Items that take part in several pairs are counted as one item: the stated variance is that of redrawing items
    within their class."""
    rng = np.random.default_rng(3)
    label = np.repeat(np.arange(4), [30, 60, 45, 40])
    scores = rng.normal(size=(175, 4)) + 1.2 * np.eye(4)[label]
    pairs = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]
    stated = over_pairs(label, scores, pairs, balanced=balanced)
    drawn = []
    for _ in range(1500):
        rows = np.concatenate([rng.choice(np.flatnonzero(label == code), (label == code).sum()) for code in range(4)])
        drawn.append(over_pairs(label[rows], scores[rows], pairs, balanced=balanced).value)
    assert np.var(drawn) == pytest.approx(stated.variance, rel=0.15)
    assert np.mean(drawn) == pytest.approx(stated.value, abs=0.005)


def test_balanced_counts_both_classes_alike():
    """With nine right items of one class and one wrong item of the other, half of each class is right on average."""
    label, scores = np.asarray([0] * 9 + [1]), np.tile([1.0, 0.0], (10, 1))
    assert over_pairs(label, scores, [(0, 1)]).value == pytest.approx(0.9)
    assert over_pairs(label, scores, [(0, 1)], balanced=True).value == pytest.approx(0.5)


# Agreement and intervals

FLEISS = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1], [7, 7, 0, 0, 0],
          [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]


def fleiss_kappa(counts):
    """The kappa of one task."""
    return agreement(counts, np.zeros(len(counts), int)).kappa[0]


def test_kappa_of_a_worked_example():
    """Fourteen raters, ten subjects, five categories: the widely printed worked example gives 0.210."""
    assert fleiss_kappa(np.asarray(FLEISS)) == pytest.approx(0.210, abs=5e-4)


def test_kappa_by_hand():
    """Two raters who agree on three of four items, half of all marks in each category: (3/4 − 1/2) / (1 − 1/2)."""
    counts = np.asarray([[2, 0], [0, 2], [1, 1], [2, 0], [0, 1]])
    given_ = counts[:4].sum(axis=0) / 8
    chance = (given_**2).sum()
    assert fleiss_kappa(counts) == pytest.approx((0.75 - chance) / (1 - chance))  # the last item has one rater
    assert np.isnan(fleiss_kappa(np.asarray([[2, 0], [2, 0]])))
    assert fleiss_kappa(np.asarray([[2, 0], [0, 2]])) == 1.0


@given(seeds, st.integers(1, 6))
def test_agreement_does_not_depend_on_which_group_comes_first(seed, tasks):
    """Exchanging the groups of a task changes neither raw agreement nor kappa; one task has no interval."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 8 * tasks)
    counts, task = np.stack([first, 3 - first], axis=1), np.repeat(np.arange(tasks), 8)
    found = agreement(counts, task, replicates=20)
    flip = rng.random(tasks) < 0.5
    again = agreement(np.where(flip[task][:, None], counts[:, ::-1], counts), task, replicates=20)
    assert found.raw == pytest.approx(again.raw, nan_ok=True)
    assert found.kappa == pytest.approx(again.kappa, nan_ok=True)
    if tasks == 1:
        assert np.isnan(found.kappa[1])


def test_clustered_intervals_cover_where_independent_ones_do_not():
    """Where people and pairs differ, nine in ten clustered intervals hold the truth, and Wilson's far fewer."""
    rng = np.random.default_rng(0)
    people, pairs, per = 6, 20, 12
    who, pair = np.repeat(np.arange(people), pairs * per), np.tile(np.repeat(np.arange(pairs), per), people)
    question = pair * per + np.tile(np.arange(per), people * pairs)
    inside = {"clustered": 0, "plain": 0}
    truth = np.mean(1 / (1 + np.exp(-(1.5 + 0.9 * rng.normal(size=200_000)))))
    for _ in range(300):
        logit = 1.5 + 0.5 * rng.normal(size=people)[who] + np.sqrt(0.9**2 - 0.5**2) * rng.normal(size=pairs)[pair]
        right = rng.random(len(who)) < 1 / (1 + np.exp(-logit))
        low, high = clustered(right, who, pair, question)
        inside["clustered"] += low <= truth <= high
        low, high = wilson(right.mean(), len(right))
        inside["plain"] += low <= truth <= high
    assert inside["clustered"] > 0.9 * 300
    assert inside["plain"] < 0.75 * 300


def test_a_perfect_score_is_worth_its_questions():
    """Three people who are right on the same 12 images have shown 12 images, not 36."""
    right = np.ones(36, bool)
    who, question = np.repeat(np.arange(3), 12), np.tile(np.arange(12), 3)
    low, high = clustered(right, who, np.zeros(36, int), question)
    assert (low, high) == pytest.approx((float(wilson(1.0, 12)[0]), 1.0))
