"""Metrics agree with scikit-learn, with themselves under weights, and group by group with a loop."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from shiftbench.data.target import KINDS
from shiftbench.scoring.metrics import (
    LAWS,
    METRICS,
    OVER,
    accuracy,
    auc,
    error,
    f1_items,
    has_probabilities,
    losses,
    macro_f1,
    macro_recall,
    nll,
    tally,
)

FUNCTIONS = sorted(name for name, metric in METRICS.items() if metric.function is not None)


@st.composite
def tables(draw: st.DrawFn, least: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Labels, scores with ties, groups of which some are empty, and the number of groups."""
    n, classes = draw(st.integers(least, 60)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.integers(1, 6))
    return rng.integers(classes, size=n), rng.integers(-3, 4, (n, classes)) / 2, rng.integers(groups, size=n), groups


@pytest.mark.slow
@settings(deadline=None)
@given(tables())
def test_agree_with_scikit_learn(table):
    """Every metric equals scikit-learn's; F1 and recall average over the classes in the truth."""
    label, scores, _, _ = table
    guess, classes = scores.argmax(1), np.unique(label)
    assert accuracy(label, scores) == pytest.approx(sk.accuracy_score(label, guess))
    assert error(label, scores) == pytest.approx(sk.zero_one_loss(label, guess))
    assert macro_f1(label, scores) == pytest.approx(
        sk.f1_score(label, guess, labels=classes, average="macro", zero_division=0))
    assert macro_recall(label, scores) == pytest.approx(
        sk.recall_score(label, guess, labels=classes, average="macro", zero_division=0))
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert nll(label, scores) == pytest.approx(sk.log_loss(label, shares, labels=range(scores.shape[1])))


@settings(deadline=None)
@given(tables(), st.integers(0, 1000))
def test_auc_agrees_with_scikit_learn(table, seed):
    """AUC is scikit-learn's for two classes, the mean of one-against-rest for more, NaN with one side empty."""
    label, scores, _, _ = table
    if scores.shape[1] == 2:
        wanted = sk.roc_auc_score(label, scores[:, 1] - scores[:, 0]) if len(np.unique(label)) == 2 else math.nan
    else:
        scores = np.random.default_rng(seed).normal(size=scores.shape)
        shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        each = [sk.roc_auc_score(label == c, shares[:, c]) for c in np.unique(label) if not (label == c).all()]
        wanted = float(np.mean(each)) if each else math.nan
    assert auc(label, scores) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=30, deadline=None)
@given(table=tables(), seed=st.integers(0, 1000))
def test_a_weight_counts_an_item_so_many_times(name, table, seed):
    """A metric with whole weights equals the metric on items repeated that often; weight 0 is absence."""
    label, scores, _, _ = table
    times = np.random.default_rng(seed).integers(0, 4, len(label))
    rows = np.repeat(np.arange(len(label)), times)
    metric = METRICS[name].function
    assert metric(label, scores, times.astype(float)) == pytest.approx(metric(label[rows], scores[rows]), nan_ok=True)


@settings(max_examples=30, deadline=None)
@given(table=tables(least=0))
def test_counts_by_group_are_the_metric_on_each_group(table):
    """Group by group equals a loop over groups; an empty group is NaN, and the order of rows does not matter."""
    label, scores, group, n_groups = table
    mixed = np.random.default_rng(0).permutation(len(label))
    for name, metric in (("accuracy", accuracy), ("macro_f1", macro_f1), ("macro_recall", macro_recall)):
        wanted = [metric(label[group == g], scores[group == g]) for g in range(n_groups)]
        for rows in (slice(None), mixed):
            found = tally(label[rows], scores[rows].argmax(axis=1), group[rows], n_groups, n_classes=scores.shape[1])
            np.testing.assert_allclose(getattr(found, name), wanted)


@settings(deadline=None)
@given(tables(), st.booleans())
def test_compact_and_dense_counting_agree(table, weighted):
    """Far more cells than items are counted without a table of them, to the same values."""
    label, scores, group, n_groups = table
    guess, many = scores.argmax(1), 1000
    weight = np.random.default_rng(0).integers(0, 3, len(label)).astype(float) if weighted else None
    dense = tally(label, guess, group, n_groups, weight=weight)
    compact = tally(label, guess, group * many, n_groups * many, n_classes=10**9, weight=weight)
    assert len(compact.truth) <= len(label)
    for name in ("accuracy", "macro_f1", "macro_recall"):
        found = getattr(compact, name)
        np.testing.assert_allclose(found[::many], getattr(dense, name))
        assert np.isnan(found).sum() == n_groups * many - (~np.isnan(getattr(dense, name))).sum()


def test_no_items_is_not_a_number():
    """Every metric of nothing is NaN, never 0 and never an error."""
    for name in FUNCTIONS:
        assert math.isnan(METRICS[name].function(np.zeros(0, np.int64), np.zeros((0, 3))))


def test_a_class_ruled_out_costs_infinitely():
    """A model that gives only labels (scores of −inf) has a defined accuracy and AUC, and an honest infinite loss."""
    label = np.asarray([0, 1, 1])
    scores = np.asarray([[0, -np.inf], [-np.inf, 0], [0, -np.inf]])
    assert accuracy(label, scores) == pytest.approx(2 / 3)
    assert auc(label, scores) == pytest.approx(0.75)
    assert nll(label, scores) == math.inf
    assert nll(label, scores, np.asarray([1.0, 1.0, 0.0])) == 0


@settings(deadline=None)
@given(tables())
def test_losses_are_the_items_of_nll(table):
    """Their mean is nll, and each is minus the logarithm of the label's share."""
    label, scores, _, _ = table
    each = losses(label, scores)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(each, -np.log(shares[np.arange(len(label)), label]))
    assert each.mean() == pytest.approx(nll(label, scores))
    np.testing.assert_allclose(losses(label, np.stack([scores, -scores]))[0], each)  # runs at once are runs alone


@settings(deadline=None)
@given(tables(), st.integers(0, 1000))
def test_contributions_to_macro_f1(table, seed):
    """Their mean is macro F1, of every run; to first order they say what another weight of an item does to it."""
    label, scores, _, _ = table
    rng = np.random.default_rng(seed)
    guess = np.stack([scores.argmax(1), rng.integers(scores.shape[1], size=len(label))])
    items = f1_items(label, guess, scores.shape[1])
    for run, found in zip(guess, items, strict=True):
        table_of = np.eye(scores.shape[1])[run]
        value = macro_f1(label, table_of)
        assert found.mean() == pytest.approx(value)
        item = int(rng.integers(len(label)))
        weight = np.ones(len(label))
        weight[item] += 1e-6
        moved = (macro_f1(label, table_of, weight) - value) / 1e-6 * len(label)
        assert moved == pytest.approx(found[item] - value, abs=1e-3)


def test_a_choice_alone_has_no_probabilities():
    """Scores that rule out all but one class of every item say nothing of losses; one item with two is enough."""
    choice = np.where(np.eye(3, dtype=bool), 0, -np.inf)
    assert not has_probabilities(choice)
    assert has_probabilities(np.log([[0.5, 0.5, 1e-3], [1, 1e-9, 1e-9]]))
    choice[0, 1] = -3
    assert has_probabilities(choice)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_says_what_is_known_of_it(name):
    """Direction, unit, law of the interval, what it is over and for which targets: each is one of the known words."""
    metric = METRICS[name]
    assert metric.name == name
    assert metric.words
    assert metric.better in ("higher", "lower")
    assert metric.unit in ("share", "number")
    assert metric.interval in LAWS
    assert metric.over in OVER
    assert set(metric.targets) <= set(KINDS)
    assert (metric.over != "all items") == bool(metric.of)
    assert not metric.of or METRICS[metric.of].better == metric.better


@pytest.mark.parametrize("target", KINDS.values(), ids=list(KINDS))
def test_every_target_ranks_by_its_own_metrics(target):
    """What ranks, and what a table shows, are metrics of that target, and higher is better."""
    for name in (target.metric, target.headline, *target.ranking, f"worst_group_{target.metric}"):
        assert target.kind in METRICS[name].targets
        assert not METRICS[name].lower
