"""The bootstrap agrees with a plain one that redraws items one by one, and Wilson's interval with its equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring import intervals as stats
from shiftbench.scoring.intervals import estimate
from shiftbench.scoring.metrics import accuracy, f1_items, macro_f1, tally


def case(n: int = 150, runs: int = 1, groups: int = 3, classes: int = 3, seed: int = 0):
    """Labels, predictions of several runs that are mostly right, groups of uneven size and ease."""
    rng = np.random.default_rng(seed)
    size = np.arange(1, groups + 1)
    label, group = rng.integers(classes, size=n), rng.choice(groups, n, p=size / size.sum())
    right = rng.random((runs, n)) < 0.6 + 0.3 * group / groups
    return label, np.where(right, label, (label + 1 + rng.integers(classes - 1, size=(runs, n))) % classes), group


def plain(label, predicted, group, n_groups, replicates, seed):
    """The bootstrap as a textbook writes it: draw items, index, compute. Average, every group, macro F1."""
    rng = np.random.default_rng(seed)
    average, by_group, f1 = [], [], []
    for _ in range(replicates):
        rows = rng.integers(len(label), size=len(label))
        y, p, g = label[rows], predicted[rows], group[rows]
        average.append(np.mean(y == p))
        by_group.append([np.mean(y[g == code] == p[g == code]) for code in range(n_groups)])
        f1.append(tally(y, p).macro_f1[0])
    return np.asarray(average), np.asarray(by_group), np.asarray(f1)


def test_weights_give_the_plain_bootstrap():
    """Counting items so often as they were drawn is drawing them: means and spreads agree."""
    label, predicted, group = case()
    scores = np.eye(3)[predicted[0]]
    drawn = plain(label, predicted[0], group, 3, 2000, seed=1)
    for metric, wanted in ((accuracy, drawn[0]), (macro_f1, drawn[2])):
        ours = stats.bootstrap(lambda weight, of=metric: of(label, scores, weight), len(label), replicates=2000)
        assert ours.mean() == pytest.approx(wanted.mean(), abs=0.12 * wanted.std())
        assert ours.std() == pytest.approx(wanted.std(), rel=0.1)
        np.testing.assert_allclose(stats.interval(ours), stats.interval(wanted), atol=0.4 * wanted.std())


def test_a_seed_fixes_the_draw_and_the_purpose_moves_it():
    """The same seed and purpose repeat; another split draws other items."""
    def draw(**how):
        return stats.bootstrap(lambda weight: weight[:5].sum(), 50, replicates=20, **how)
    assert (draw(seed=1, purpose="test") == draw(seed=1, purpose="test")).all()
    assert (draw(seed=1, purpose="test") != draw(seed=1, purpose="val")).any()
    assert (draw(seed=1) != draw(seed=2)).any()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.floats(0.5, 0.99), st.integers(0, 2**32 - 1))
def test_interval_is_numpys_nanquantile(n, columns, level, seed):
    """The interval is numpy's linear quantile of the replicates that are defined."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, columns))
    values[rng.random(values.shape) < 0.2] = np.nan
    values[0] = 0.0  # at least one is defined
    low, high = stats.interval(values, level)
    np.testing.assert_allclose(low, np.nanquantile(values, (1 - level) / 2, axis=0), atol=1e-12)
    np.testing.assert_allclose(high, np.nanquantile(values, (1 + level) / 2, axis=0), atol=1e-12)


def test_no_replicates_no_interval():
    """With 0 replicates the ends are NaN; a level outside (0, 1) is an error."""
    assert np.isnan(stats.interval(np.zeros((0, 3)))).all()
    with pytest.raises(ShiftBenchError, match="level = 95"):
        stats.interval(np.zeros((4, 3)), 95)


@settings(deadline=None)
@given(st.integers(1, 500), st.floats(0, 1), st.floats(0.5, 0.99))
def test_wilson_solves_its_equation(n, share, level):
    """An end p of the interval is as far from the share as its own variance says, and both lie in [0, 1]."""
    right = round(share * n) / n
    z = stats.student(np.inf, level)
    low, high = stats.wilson(right, n, level)
    assert 0 <= low <= right <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(right - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n), rel=1e-6, abs=1e-9)
    assert (low > 0) == (right > 0)
    assert (high < 1) == (right < 1)


def test_wilson_holds_the_truth_where_the_bootstrap_does_not():
    """Of groups of 20 items at 0.97, more than half are all right and have the bootstrap interval [1, 1]."""
    right = np.random.default_rng(0).binomial(20, 0.97, 4000)
    low, high = stats.wilson(right / 20, 20)
    assert np.mean((low <= 0.97) & (high >= 0.97)) > 0.93
    assert np.mean(right == 20) > 0.5


def test_the_effective_size_is_that_of_what_is_known():
    """Runs that agree are worth their items once, runs that err independently as often as there are runs."""
    rng = np.random.default_rng(0)
    one = rng.random((1, 4000)) < 0.8
    for hits, wanted in ((np.repeat(one, 4, axis=0), 4000), (rng.random((4, 4000)) < 0.8, 16000)):
        parts = stats.take_apart(hits, [0] * 4)
        assert stats.effective(parts.value, parts.items, 4000, 4)[0, 0] == pytest.approx(wanted, rel=0.1)
    sure = stats.take_apart(np.ones((3, 50), bool), [0] * 3)
    assert stats.effective(sure.value, sure.items, 50, 3)[0, 0] == 50


@pytest.mark.slow
def test_the_closed_intervals_are_the_bootstraps():
    """With items enough the intervals of accuracy, of a group and of macro F1 are those of 4,000 replicates."""
    label, predicted, group = case(n=1500)
    order = np.argsort(group, kind="stable")
    label, predicted, group = label[order], predicted[:, order], group[order]
    hits, start = predicted == label, np.searchsorted(group, np.arange(3))
    average, by_group, f1 = plain(label, predicted[0], group, 3, 4000, seed=1)
    pairs = [(estimate("wilson", hits, [0], 0.95), average[:, None]),
             (estimate("wilson", hits, [0], 0.95, start), by_group),
             (estimate("wilson", f1_items(label, predicted, 3), [0], 0.95), f1[:, None])]
    for closed, draws in pairs:
        np.testing.assert_allclose(closed.ends([0], 0.95), np.stack(stats.interval(draws))[:, None], atol=0.004)


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=9), st.sampled_from([0.8, 0.95, 0.99]))
def test_seeds_have_students_interval(values, level):
    """The half-width of a mean over seeds is scipy's of Student's t; one seed says nothing about others."""
    from scipy.stats import sem, t

    wanted = float(t.ppf((1 + level) / 2, len(values) - 1) * sem(values))
    assert stats.seeds_half_width(np.asarray(values), level) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert stats.seeds_half_width(np.asarray(values[:1]), level) == 0
