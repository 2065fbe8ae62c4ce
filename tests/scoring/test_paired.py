"""Tests between methods: exact where there is an exact answer, and honest about items, seeds and many pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from shiftbench.scoring import intervals as stats
from shiftbench.scoring.differences import compare, mcnemar
from shiftbench.scoring.intervals import estimate
from shiftbench.scoring.worst import worst_share


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0, 1))
def test_mcnemar_is_the_sign_test_of_what_differs(seed, n, skill):
    """The exact p-value is scipy's, of the items that one run alone is right about."""
    rng = np.random.default_rng(seed)
    first, second = rng.random(n) < skill, rng.random(n) < 0.5
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    wanted = binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(first, second) == pytest.approx(wanted)
    assert mcnemar(second, first) == mcnemar(first, second)


def crossed(rng, n, runs, effects, seeds, rest=0.6):
    """Hits of methods × runs on shared items: an item may be hard, or hard for a method, and a seed unlucky."""
    ease, parts = rng.normal(size=n) + 1, []
    for effect, spread in zip(effects, np.broadcast_to(seeds, len(effects)), strict=True):
        own, luck = rest * rng.normal(size=n), spread * rng.normal(size=(runs, 1))
        parts.append(ease + own + effect + luck + rest * rng.normal(size=(runs, n)) > 0)
    return np.concatenate(parts), np.repeat(np.arange(len(effects)), runs)


def accuracy_of(seeds, rest=0.6):
    """The accuracy over all items and seeds that `crossed` draws from, without an effect."""
    return norm.cdf(1 / np.sqrt(1 + 2 * rest**2 + seeds**2))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(3, 30), st.integers(0, 1000))
def test_parts_are_those_of_a_two_way_table(runs, n, seed):
    """Means, the items' variance and the rest between items and runs equal sums over residuals, group by group."""
    rng = np.random.default_rng(seed)
    table, method = rng.normal(size=(2 * runs, n)), [0] * runs + [1] * runs
    start = np.asarray([0, n // 2])
    found = stats.take_apart(table, method, start)
    for group, items in enumerate((slice(0, n // 2), slice(n // 2, n))):
        for which in range(2):
            part = table[which * runs:(which + 1) * runs, items]
            by_item, by_run, size = part.mean(axis=0), part.mean(axis=1), part.shape[1]
            residual = part - by_item - by_run[:, None] + part.mean()
            rest = (residual**2).sum() / ((runs - 1) * (size - 1)) if size > 1 else 0.0
            assert found.value[which, group] == pytest.approx(part.mean())
            assert found.items[which, group] == pytest.approx(by_item.var() / size, abs=1e-12)
            assert found.noise[which, group] == pytest.approx(rest / size, abs=1e-12)
            np.testing.assert_allclose(found.runs[which * runs:(which + 1) * runs, group], by_run)


def test_variance_parts_find_what_was_drawn():
    """Seeds that move accuracy are found at their size, up to chance; seeds that do nothing add next to nothing."""
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.3):
        hits, method = crossed(rng, 2000, 40, [0.0], spread)
        parts = stats.take_apart(hits, method)
        found = np.sqrt(stats.seeds(parts.runs, parts.noise, method).variance[0, 0] * 40)
        width = np.sqrt(1 + 2 * 0.36)
        assert found == pytest.approx(spread * norm.pdf(1 / width) / width, abs=0.006, rel=0.3)


def test_two_single_runs_give_mcnemars_z():
    """z = (b − c) / √(b + c), and the same p-value either way round; the difference is that of the accuracies."""
    rng = np.random.default_rng(0)
    hits = rng.random((2, 300)) < [[0.8], [0.7]]
    b, c = (hits[0] & ~hits[1]).sum(), (hits[1] & ~hits[0]).sum()
    found = compare(hits.astype(float), [0, 1])
    assert found.difference[0] == pytest.approx(hits[0].mean() - hits[1].mean())
    assert found.p[0] == pytest.approx(2 * norm.sf(abs(b - c) / np.sqrt(b + c)), rel=1e-6)
    assert compare(hits[::-1].astype(float), [0, 1]).p[0] == pytest.approx(found.p[0])
    assert (found.low[0] > 0) == (found.p[0] < 0.05)


def test_one_against_the_others_is_a_part_of_all_pairs():
    """The pairs of one method have the same intervals and p-values as among all pairs; equal methods have p = 1."""
    hits, method = crossed(np.random.default_rng(0), 200, 3, [0.0, 0.3, 0.6], 0.1)
    hits, method = np.concatenate([hits, hits[:3]]), [*method, 3, 3, 3]
    every, some = compare(hits, method), compare(hits, method, against=1)
    for first, second, *rest in zip(*some, strict=True):
        swap = (every.first == second) & (every.second == first)
        place = int(np.flatnonzero(swap | ((every.first == first) & (every.second == second)))[0])
        sign = -1 if swap[place] else 1
        assert rest[0] == pytest.approx(sign * every.difference[place])
        assert rest[3:] == pytest.approx([every.p[place], every.adjusted[place]])
    twin = int(np.flatnonzero((every.first == 0) & (every.second == 3))[0])
    assert every.p[twin] == 1
    np.testing.assert_array_equal(every.adjusted < 0.05, (every.low > 0) | (every.high < 0))


@pytest.mark.parametrize(("methods", "runs", "n", "seeds"), [
    (2, 1, 300, 0.0), (2, 3, 300, 0.1), (5, 3, 60, 0.0), (5, 3, 1000, 0.1), (10, 3, 300, 0.3), (8, 5, 300, 0.0),
    (5, 3, 500, (0.5, 0.05, 0.05, 0.05, 0.05)),
])
def test_equal_methods_are_seldom_told_apart(methods, runs, n, seeds):
    """Where methods are equal, any interval of the best against another misses 0 in about 5 % of studies or fewer."""
    rng = np.random.default_rng(1)
    wrong = []
    for _ in range(300):
        hits, method = crossed(rng, n, runs, np.zeros(methods), seeds)
        best = int(stats.take_apart(hits, method).value.argmax())
        wrong.append((compare(hits, method, against=best).low > 0).any())
    assert np.mean(wrong) <= 0.085  # 5 % and 2.8 standard errors


def test_items_alone_would_tell_equal_methods_apart():
    """Ignoring seeds, as a test on pooled items does, most studies of equal methods find a difference."""
    rng = np.random.default_rng(1)
    wrong = []
    for _ in range(60):
        hits, method = crossed(rng, 1000, 3, np.zeros(5), 0.2)
        pooled = np.stack([hits[method == one].mean(axis=0) for one in range(5)])
        best = int(pooled.mean(axis=1).argmax())
        wrong.append((compare(pooled, range(5), against=best).low > 0).any())
    assert np.mean(wrong) > 0.5


@pytest.mark.parametrize(("effect", "runs", "seeds"), [(0.25, 3, 0.0), (0.8, 5, 0.15)])
def test_a_better_method_is_found(effect, runs, seeds):
    """A method that is clearly better than four equal ones is told from all of them in most studies."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(100):
        hits, method = crossed(rng, 1000, runs, [effect, 0, 0, 0, 0], seeds)
        found.append((compare(hits, method, against=0).low > 0).all())
    assert np.mean(found) > 0.8


@pytest.mark.parametrize(("runs", "seeds"), [(2, 0.15), (3, 0.0), (3, 0.15), (5, 0.3)])
def test_the_interval_of_a_mean_is_about_other_items_and_seeds(runs, seeds):
    """A mean over few runs holds the accuracy over all items and seeds in 92 % or more, which items alone do not."""
    rng = np.random.default_rng(3)
    truth, held, narrow = accuracy_of(seeds), [], []
    for _ in range(300):
        hits, method = crossed(rng, 400, runs, [0.0], seeds)
        found = estimate("wilson", hits, method, 0.95)
        low, high = found.ends(method, 0.95)
        held.append(low[0, 0] <= truth <= high[0, 0])
        narrow.append(abs(found.value[0, 0] - truth) <= found.above[0, 0])
    assert np.mean(held) >= 0.92
    assert seeds < 0.2 or np.mean(narrow) < 0.8


def grouped(rng, runs, shifts, n=50):
    """Hits of methods whose groups are shifted by so much; items lie group by group."""
    groups, parts = len(shifts[0]), []
    ease = rng.normal(size=groups * n)
    for shift in shifts:
        own = 0.6 * rng.normal(size=groups * n)
        parts.append(ease + own + np.repeat(shift, n) + 0.6 * rng.normal(size=(runs, groups * n)) > 0)
    return np.concatenate(parts), np.repeat(np.arange(len(shifts)), runs), np.arange(groups) * n


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 3])
def test_even_groups_are_no_handicap(runs):
    """A method with all groups alike is seldom called worse than one whose worst group is as bad, others far better."""
    rng = np.random.default_rng(4)
    wrong, held = [], []
    truth = norm.cdf(0.8 / np.sqrt(1 + 2 * 0.36))
    for _ in range(250):
        hits, method, start = grouped(rng, runs, [np.full(4, 0.8), np.asarray([0.8, 1.6, 1.6, 1.6])])
        worst = worst_share(hits, start, method, 0.95)
        found = compare(worst.items, method, centre=worst.estimate.centre[:, 0], size=worst.fewest,
                              unsure=worst.unsure)
        wrong.append(found.low[0] > 0 or found.high[0] < 0)
        low, high = worst.estimate.ends(method, 0.95)
        held.append((low[:, 0] <= truth) & (high[:, 0] >= truth))
    assert np.mean(wrong) <= 0.09
    assert (np.mean(held, axis=0) >= 0.91).all()


def test_a_better_worst_group_is_found():
    """A method that lifts the one bad group is told from one that does not in most studies."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(100):
        hits, method, start = grouped(rng, 3, [np.asarray([0.2, 1.4, 1.4, 1.4]), np.full(4, 1.4)])
        worst = worst_share(hits, start, method, 0.95)
        found.append(compare(worst.items, method, centre=worst.estimate.centre[:, 0], size=worst.fewest,
                                   unsure=worst.unsure).high[0] < 0)
    assert np.mean(found) > 0.8
