"""One context against the rest: p-values that hold under the null, and intervals that cover."""

import numpy as np
import pytest
from scipy import stats

from shiftbench.auditing.contrasts import OneSided, _orders, compare, fisher


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def bound(share: float, draws: int) -> float:
    """A nominal share and four Monte-Carlo standard errors."""
    return share + 4 * np.sqrt(share * (1 - share) / draws)


def test_fisher_is_the_tail_of_the_hypergeometric_distribution():
    """For any margins, in both tails, as scipy has it."""
    rng = rng_of(0)
    for _ in range(300):
        n = int(rng.integers(2, 5000))
        errors, size = (int(rng.integers(0, n + 1)) for _ in range(2))
        hits = int(np.clip(round(size * errors / n + rng.normal() * np.sqrt(size)), 0, size))
        assert fisher(hits, size, errors, n) == pytest.approx(stats.hypergeom.sf(hits - 1, n, errors, size), rel=1e-6)
    assert fisher(120_500, 1_000_000, 600_000, 5_000_000) == pytest.approx(0.0428959, rel=1e-5)


def test_both_directions_are_tested():
    """Errors that are rare inside are significant for "better" and not for "worse"; turned losses swap the two."""
    loss, inside = np.repeat([1.0, 0.0, 1.0, 0.0], [5, 95, 60, 140]), np.repeat([True, False], [100, 200])
    better, worse = (OneSided(loss, None, worse=worse).p(inside) for worse in (False, True))
    assert better < 1e-4 < 0.99 < worse
    assert OneSided(1 - loss, None, worse=True).p(inside) == pytest.approx(better)
    assert better == pytest.approx(stats.fisher_exact([[5, 95], [60, 140]], alternative="less").pvalue)


def test_many_items_have_the_t_test_of_welch():
    """With 200 items on the smaller side or more."""
    rng = rng_of(1)
    loss, inside = rng.exponential(1, 1000), np.arange(1000) < 300
    loss[inside] += 0.1 + 0.5 * rng.normal(size=300)
    expected = stats.ttest_ind(loss[inside], loss[~inside], equal_var=False, alternative="greater").pvalue
    assert OneSided(loss, None, worse=True).p(inside) == pytest.approx(expected)


@pytest.mark.slow
def test_few_items_have_the_permutation_test():
    """Near scipy's permutations of the same statistic, for a context on either side of one half."""
    rng = rng_of(2)
    loss = rng.exponential(1, 60)
    inside = np.arange(60) < 25
    loss[inside] += 0.45
    expected = stats.permutation_test(
        (loss[inside], loss[~inside]), lambda a, b: stats.ttest_ind(a, b, equal_var=False).statistic,
        alternative="greater", n_resamples=1000, vectorized=False, random_state=rng_of(3)).pvalue
    for turned in (False, True):
        part = ~inside if turned else inside
        found = OneSided(loss, None, worse=not turned, draws=9_999).p(part)
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected / 1000))


def test_a_change_that_varies_more_inside_is_no_finding():
    """Changes of −1, 0 and 1 with equal means and unequal variances are refused at their level, no more."""
    rng, draws = rng_of(4), 400
    inside = np.arange(1500) < 230
    p = []
    for _ in range(draws):
        change = np.where(inside, rng.choice([-1.0, 0.0, 1.0], 1500, p=[0.3, 0.4, 0.3]),
                          rng.choice([-1.0, 0.0, 1.0], 1500, p=[0.02, 0.96, 0.02]))
        p.append(OneSided(change, None, worse=True).p(inside))
    assert np.mean(np.asarray(p) <= 0.05) <= bound(0.05, draws)


@pytest.mark.parametrize("inside", [np.arange(900) < 250, np.arange(900) < 60])
def test_a_constant_added_to_all_losses_changes_no_p_value(inside):
    """Not even one a billion times as large as what differs."""
    loss = rng_of(12).exponential(1, 900) + 0.1 * inside
    near, far = (OneSided(loss + shift, None, worse=True).p(inside) for shift in (0.0, 1e9))
    assert far == pytest.approx(near, rel=1e-3)


@pytest.mark.parametrize("memory", [0, 2**25])
def test_permutations_take_every_item_alike(memory, monkeypatch):
    """Whether they are drawn at once or one by one: no item twice, and all equally often."""
    monkeypatch.setattr("shiftbench.auditing.contrasts.MEMORY", memory)
    order = _orders(rng_of(13), 30, 12, 3000)
    assert order.shape == (12, 3000)
    assert all(len(set(column)) == 12 for column in order.T.tolist())
    assert stats.chisquare(np.bincount(order.ravel(), minlength=30)).pvalue > 1e-4
    assert stats.chisquare(np.bincount(order[3], minlength=30)).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
def test_clusters_that_err_together_count_once(cut):
    """Whole videos fail or not: by cluster 5 % of nulls are refused at 5 %, by item far more."""
    rng, draws, clusters, each = rng_of(5), 400, 40, 20
    cluster = np.repeat(np.arange(clusters), each)
    by_cluster, by_item = [], []
    for _ in range(draws):
        loss = (rng.random(clusters) < 0.3).astype(float)[cluster]
        inside = np.isin(cluster, rng.permutation(clusters)[:6])
        if cut:
            inside &= np.arange(len(loss)) % each < 15
        by_cluster.append(OneSided(loss, cluster, worse=True).p(inside))
        by_item.append(OneSided(loss, None, worse=True).p(inside))
    assert np.mean(np.asarray(by_cluster) <= 0.05) <= bound(0.05, draws)
    assert np.mean(np.asarray(by_item) <= 0.05) > 0.2


def test_a_real_difference_between_clusters_is_seen():
    """Forty of eighty videos fail twice as often."""
    rng = rng_of(6)
    cluster = np.repeat(np.arange(80), 10)
    rate = np.where(np.arange(80) < 40, 0.6, 0.2)[cluster]
    loss = (rng.random(800) < rate).astype(float)
    assert OneSided(loss, cluster, worse=True).p(cluster < 40) < 1e-3


def coverage(draws: int, make) -> dict[str, float]:
    """How often each interval holds its truth."""
    held: dict[str, list[bool]] = {}
    for _ in range(draws):
        contrast, truth = make()
        for name, value in truth.items():
            interval = getattr(contrast, name)
            held.setdefault(name, []).append(not interval.low > value and not interval.high < value)
    return {name: float(np.mean(values)) for name, values in held.items()}


def test_intervals_of_shares_cover():
    """Of the mean inside, the difference and the ratio, at a level of 95 %, with 60 items inside."""
    rng, inside = rng_of(7), (np.arange(500) < 60) * 1.0

    def make():
        loss = (rng.random(500) < np.where(inside > 0, 0.4, 0.15)).astype(float)
        return compare(loss, inside, 1 - inside, 0.05, plain=True), {
            "inside": 0.4, "outside": 0.15, "difference": 0.25, "ratio": 0.4 / 0.15}

    assert min(coverage(1000, make).values()) >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 1000)


@pytest.mark.parametrize("cut", [False, True])
def test_intervals_of_clustered_shares_cover(cut):
    """Clusters whose rates differ, whole and cut by the context."""
    rng, cluster = rng_of(8), np.repeat(np.arange(60), 12)
    inside = ((np.arange(720) % 12 < 6) if cut else (cluster < 20)) * 1.0

    def make():
        rate = (rng.beta(2, 2, 60) * 2 / 3)[cluster] * np.where(inside > 0, 1.5, 1.0)
        loss = (rng.random(720) < rate).astype(float)
        return compare(loss, inside, 1 - inside, 0.05, cluster=cluster), {
            "inside": 0.5, "outside": 1 / 3, "difference": 1 / 6, "ratio": 1.5}

    assert min(coverage(600, make).values()) >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 600)


def test_flips_are_undone_and_widen_the_interval():
    """With 20 % false and 10 % missing tags the corrected intervals hold the true rates; those as seen do not."""
    rng, false, missing = rng_of(10), 0.2, 0.1
    widths = []

    def make():
        true = rng.random(1500) < 0.3
        seen = np.where(true, rng.random(1500) >= missing, rng.random(1500) < false)
        loss = (rng.random(1500) < np.where(true, 0.5, 0.1)).astype(float)
        weights = (seen - false) / (1 - false - missing)
        corrected = compare(loss, weights, 1 - weights, 0.05)
        naive = compare(loss, seen * 1.0, 1.0 - seen, 0.05, plain=True)
        widths.append((corrected.difference.high - corrected.difference.low)
                      / (naive.difference.high - naive.difference.low))
        naives.append(naive.difference.high < 0.4)
        return corrected, {"inside": 0.5, "outside": 0.1, "difference": 0.4}

    naives: list[bool] = []
    assert min(coverage(600, make).values()) >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 600)
    assert np.mean(naives) > 0.9
    assert min(widths) > 1.2


def test_sides_without_items_or_errors_have_an_answer():
    """Nothing inside is unknown; a rest without errors has a ratio with a lower end alone."""
    loss = np.repeat([1.0, 0.0], [10, 40])
    nothing = compare(loss, np.zeros(50), np.ones(50), 0.05, plain=True)
    assert np.isnan(nothing.difference.value)
    inside = (np.arange(50) < 15) * 1.0
    ratio = compare(loss, inside, 1 - inside, 0.05, plain=True).ratio
    assert np.isnan(ratio.value)
    assert np.isnan(ratio.high)
    assert ratio.low > 1
    assert OneSided(loss, None, worse=True).p(np.zeros(50, bool)) == 1.0
