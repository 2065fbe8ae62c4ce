"""The interval of a worst group holds the truth, lies within Bonferroni's, and is the one that its docstring states."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from shiftbench.scoring import intervals as stats
from shiftbench.scoring.worst import at_lowest, lowest, lowest_mean

CASES = {
    "all alike": ([50] * 12, [0.5] * 12),
    "all alike, few items, nearly right": ([20] * 12, [0.95] * 12),
    "all alike, nearly wrong": ([300] * 4, [0.03] * 4),
    "one far below": ([50] * 12, [0.5] + [0.9] * 11),
    "one a little below": ([50] * 30, [0.7] + [0.83] * 29),
    "steps": ([50] * 12, np.linspace(0.6, 0.95, 12)),
    "a hundred alike": ([50] * 100, [0.8] * 100),
    "a small one below": ([20] + [400] * 3, [0.7] + [0.9] * 3),
    "a small one alike": ([20] + [400] * 3, [0.8] * 4),
    "all right": ([30] * 4, [1.0] * 4),
    "one all wrong": ([30] * 4, [0.0, 0.9, 0.9, 0.9]),
    "very unequal sizes, alike": (np.geomspace(32, 924, 12).round().astype(int), [0.6] * 12),
    "very unequal sizes, the largest worst": (np.geomspace(32, 924, 12).round().astype(int), [0.8] * 11 + [0.55]),
}


def drawn(name, repeats=400):
    size, truth = np.asarray(CASES[name][0]), np.asarray(CASES[name][1], float)
    return np.random.default_rng(7).binomial(size, truth, (repeats, len(size))), size, truth.min()


@pytest.mark.parametrize("name", CASES)
def test_the_interval_holds_the_truth(name):
    """Over samples of each kind of groups, a 95 % interval holds the lowest true accuracy in 95 % or more."""
    right, size, truth = drawn(name, 2000)
    low, _, high = lowest(right, size)
    assert np.mean((low <= truth + 1e-6) & (high >= truth - 1e-6)) >= 0.95


RATES = st.sampled_from([0.0, 0.02, 0.2, 0.5, 0.51, 0.8, 0.95, 0.99, 1.0]) | st.floats(0.001, 0.999)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), RATES), min_size=1, max_size=4), st.sampled_from([0.5, 0.8, 0.95]))
def test_the_level_is_kept_exactly(groups, level):
    """Over all outcomes of a few small groups, weighed by their chance, the interval holds the lowest rate as said."""
    size, truth = np.asarray([n for n, _ in groups]), np.asarray([p for _, p in groups])
    right = np.asarray(list(product(*(range(n + 1) for n in size))))
    chance = np.prod(binom.pmf(right, size, truth), axis=1)
    low, _, high = lowest(right, size, level)
    assert chance[(low <= truth.min() + 1e-9) & (high >= truth.min() - 1e-9)].sum() >= level - 1e-9


def test_a_small_group_does_not_widen_the_interval_of_a_large_one_that_is_worst():
    """Groups of 32 to 924 items, the worst a large one at 55.9 %: the interval is about that group's own."""
    size = np.asarray([32, 41, 58, 96, 140, 211, 378, 924])
    right = np.asarray([[26, 33, 46, 77, 113, 160, 211, 700]])
    low, _, high = (float(end[0]) for end in lowest(right, size))
    own = stats.wilson(211 / 378, 378)
    assert own[0] - 0.005 < low < own[0]
    assert own[1] < high < own[1] + 0.01


def test_a_bootstrap_of_the_minimum_does_not():
    """The same samples of twelve groups that are alike: the percentile interval holds the truth next to never."""
    right, size, truth = drawn("all alike", 100)
    rng = np.random.default_rng(1)
    draws = np.stack([(rng.binomial(size, one / size, (200, 12)) / size).min(axis=1) for one in right], axis=1)
    low, high = stats.interval(draws)
    assert np.mean((low <= truth) & (high >= truth)) < 0.1


@pytest.mark.parametrize("name", ["all alike", "all alike, few items, nearly right", "steps", "a hundred alike"])
def test_the_correction_takes_most_of_the_bias(name):
    """The corrected estimate's bias is less than half of the minimum's where groups are close to each other."""
    right, size, truth = drawn(name)
    middle = lowest(right, size).middle
    plain = (right / size).min(axis=1)
    assert (plain - truth).mean() < -0.02
    assert abs((middle - truth).mean()) < abs((plain - truth).mean()) / 2


def test_a_group_far_below_needs_no_correction():
    """Where one group is clearly the worst its interval is that of this group alone."""
    right, size, _ = drawn("one far below")
    far = (np.sort(right, axis=1)[:, 1] - right.min(axis=1)) > 18
    low, middle, high = lowest(right[far], size)
    alone = lowest(right[far].min(axis=1)[:, None], np.asarray([50]))
    np.testing.assert_allclose(middle, right[far].min(axis=1) / 50, atol=0.005)
    np.testing.assert_allclose(low, alone.low, atol=1e-9)
    np.testing.assert_allclose(high, alone.high, atol=1e-9)


@st.composite
def tables(draw: st.DrawFn):
    """Right items of a run in groups of any size."""
    size = np.asarray(draw(st.lists(st.integers(1, 80), min_size=1, max_size=8)))
    return np.asarray([[draw(st.integers(0, n)) for n in size]]), size


def limits(right, size, error):
    """Clopper's and Pearson's, as a textbook has them."""
    low = np.where(right > 0, beta.ppf(error, np.maximum(right, 1), size - right + 1), 0.0)
    high = np.where(right < size, beta.ppf(1 - error, right + 1, np.maximum(size - right, 1)), 1.0)
    return low, high


def highest(right, size, level):
    """The largest t that the definition allows: between two values at which a group comes in, the same groups are."""
    enters = limits(right, size, 0.5)[0]
    steps = [*sorted(enters), 1.0]
    allowed = []
    for k in range(1, len(size) + 1):
        inside = np.argsort(enters, kind="stable")[:k]
        most = limits(right, size, (1 - level ** (1 / k)) / 2)[1][inside].min()
        if most >= steps[k - 1]:
            allowed.append(min(most, steps[k]))
    return max(allowed)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from([0.8, 0.95]))
def test_the_ends_are_those_of_the_definition(table, level):
    """The lower end is the least lower limit, the upper the largest number that no group in there refuses."""
    right, size = table
    low, _, high = lowest(right, size, level)
    assert low[0] == pytest.approx(limits(right[0], size, (1 - level) / 2)[0].min(), abs=1e-9)
    assert high[0] == pytest.approx(highest(right[0], size, level), abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from([0.8, 0.95]), st.booleans())
def test_the_interval_lies_within_bonferronis(table, level, overlap):
    """Neither end is beyond that of all groups' exact limits at 1 / G of the error, and the minimum is inside."""
    right, size = table
    low, middle, high = lowest(right, size, level, overlap=overlap)
    widest = limits(right[0], size, (1 - level) / 2 / len(size))
    assert widest[0].min() - 1e-9 <= low[0] <= (right[0] / size).min() <= high[0] <= widest[1].min() + 1e-9
    assert low[0] <= middle[0] <= high[0]


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_estimate_solves_its_equation(table):
    """It is where the law of the minimum has ½, unless an end of the interval or 0 or 1 is nearer."""
    right, size = table
    low, middle, high = (float(end[0]) for end in lowest(right, size))
    rate = right[0] / size
    seen = rate.min()
    own = np.where(np.arange(len(size)) == rate.argmin(), middle, np.maximum(middle, rate))
    at_most, below = np.floor(size * seen + 1e-9), np.ceil(size * seen - 1e-9) - 1
    found = (np.prod(binom.sf(at_most, size, own)) + np.prod(binom.sf(below, size, own))) / 2
    if 0 < seen < 1 and low < middle < high:
        assert found == pytest.approx(0.5, abs=2e-4)
    else:
        assert middle in (low, high, seen)


@settings(max_examples=40, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_groups_does_not_matter_and_runs_are_apart(table, random):
    """Groups in any order give the same ends where one is the lowest; a run's ends do not depend on other runs."""
    right, size = table
    order = list(range(len(size)))
    random.shuffle(order)
    more = np.concatenate([right, np.minimum(right + 1, size), np.zeros_like(right)])
    np.testing.assert_allclose(np.asarray(lowest(more, size))[:, :1], lowest(right, size), atol=1e-12)
    if (np.sort(right[0] / size)[:2] == (right[0] / size).min()).sum() == 1:
        np.testing.assert_allclose(lowest(right[:, order], size[order]), lowest(right, size), atol=1e-4)


def test_all_right_is_not_certain():
    """n items that are all right show that the rate is above 0.025^(1/n), and no more."""
    low, middle, high = lowest(np.asarray([[30, 30]]), np.asarray([30, 30]))
    assert low[0] == pytest.approx(0.025 ** (1 / 30), abs=1e-9)
    assert (middle[0], high[0]) == (1, 1)


def test_means_follow_the_same_law():
    """Of large groups the lowest share and the lowest mean with its standard error have the same interval."""
    rng = np.random.default_rng(0)
    size = np.full(6, 4000)
    right = rng.binomial(size, [0.5, 0.51, 0.52, 0.6, 0.6, 0.7], (5, 6))
    rate = right / size
    counted = lowest(right, size)
    normal = lowest_mean(rate, np.sqrt(rate * (1 - rate) / size))
    np.testing.assert_allclose(np.asarray(normal), np.asarray(counted), atol=0.001)


def test_a_highest_mean_holds_the_truth():
    """Losses: minus the lowest of minus the means holds the highest true mean in 94 % or more, groups alike or not."""
    rng = np.random.default_rng(0)
    for truth in (np.ones(12), np.linspace(1, 1.5, 12)):
        values = rng.gamma(4, truth[:, None] / 4, (400, 12, 60))
        found = lowest_mean(-values.mean(axis=2), values.std(axis=2, ddof=1) / np.sqrt(60), freedom=59)
        held = (-found.high <= truth.max()) & (-found.low >= truth.max())
        assert held.mean() >= 0.94


def test_contributions_to_the_lowest():
    """Their mean is the rate of the group, and their variance over n that of the group's rate."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [30, 50, 120])
    hits = rng.random((2, 200)) < 0.7
    items = at_lowest(hits, group, np.asarray([1, 0]))
    for run, code, n in ((0, 1, 50), (1, 0, 30)):
        rate = hits[run, group == code].mean()
        assert items[run].mean() == pytest.approx(rate)
        assert items[run].var() / 200 == pytest.approx(rate * (1 - rate) / n)
