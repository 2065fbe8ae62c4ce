"""Split, test and fold: what was chosen on one part of the items and holds on the other."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from bench.audit_null import columns_of, predicates_in
from shiftbench.auditing.audit import Options
from shiftbench.auditing.confirm import confirm, detectable, miss, q_values, split_items, trees
from shiftbench.auditing.contrasts import fisher
from shiftbench.auditing.findings import Audit
from shiftbench.core.errors import ShiftBenchError


def slices_of(*members):
    """Candidates as the search hands them over: numbers of predicates, −1 where there are fewer than three."""
    return SimpleNamespace(members=np.asarray([[*row, *[-1] * (3 - len(row))] for row in members]).reshape(-1, 3))


def planted(seed: int = 0, n: int = 2400):
    """Four-valued columns; errors are more frequent where c0 is 0, and more so where c1 is 1 as well."""
    rng = np.random.default_rng(seed)
    columns = columns_of(rng, n, 6, 4)
    rate = 0.1 + 0.2 * (columns[0] == 0) + 0.3 * ((columns[0] == 0) & (columns[1] == 1))
    return predicates_in(columns), (rng.random(n) < rate).astype(float)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.8])
def test_the_split_takes_a_share_of_every_stratum(share):
    """Each stratum is off by less than one item, the whole too, and another seed takes others."""
    strata = np.random.default_rng(0).integers(0, 7, 1001)
    held = split_items(1001, confirm=share, seed=3, strata=strata)
    for stratum in range(7):
        assert abs(held[strata == stratum].sum() - share * (strata == stratum).sum()) <= 1
    assert abs(held.sum() - share * 1001) < 1
    assert np.array_equal(held, split_items(1001, confirm=share, seed=3, strata=strata))
    assert not np.array_equal(held, split_items(1001, confirm=share, seed=4, strata=strata))


def test_clusters_stay_whole():
    """All items of a cluster are on one side, and half of the clusters on each."""
    cluster = np.random.default_rng(1).integers(0, 50, 700) * 3
    held = split_items(700, cluster=cluster, strata=cluster % 2)
    sides = [set(held[cluster == code].tolist()) for code in np.unique(cluster)]
    assert all(len(side) == 1 for side in sides)
    assert abs(sum(side == {True} for side in sides) - len(sides) / 2) <= 1


@pytest.mark.parametrize("bad", [0.0, 1.0, 1.5, -1.0])
def test_a_share_that_leaves_nothing_is_refused(bad):
    """Both parts need items, and a rate of false findings is a share."""
    with pytest.raises(ShiftBenchError, match="between 0 and 1"):
        Options(confirm=bad)
    with pytest.raises(ShiftBenchError, match="between 0 and 1"):
        Options(fdr=bad)


def test_contexts_that_are_not_nested_have_the_q_values_of_benjamini_and_hochberg():
    """And those of Benjamini and Yekutieli under any dependence; ties count together."""
    p = np.round(np.random.default_rng(2).random(40) ** 2, 2)
    for dependence, method in (("prds", "bh"), ("any", "by")):
        expected = stats.false_discovery_control(p, method=method)
        assert q_values(p, np.arange(40), dependence) == pytest.approx(expected)
    with pytest.raises(ShiftBenchError, match="dependence"):
        Options(dependence="none")


def test_nested_contexts_count_once():
    """Ten small p-values of one tree allow what a single one does; another tree counts again."""
    p, root = np.asarray([0.001] * 10 + [0.3]), np.asarray([0] * 10 + [10])
    assert q_values(p, root)[0] == pytest.approx(0.011)
    assert q_values(p, np.arange(11))[0] == pytest.approx(0.0011)
    assert miss(p < 0.1, root, 0.1) == pytest.approx(0.1 / 11)
    assert miss(p < 0.1, np.arange(11), 0.1) == pytest.approx(0.1 * 10 / 11)


def test_q_values_never_rise_when_p_values_fall():
    """The property on which the proof of control rests, for random forests."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 12))
        within = np.tril(rng.random((count, count)) < 0.3, -1)
        for _ in range(count):
            within |= within @ within
        root, p = trees(within), rng.random(count) ** 3
        lower = np.where(rng.random(count) < 0.5, p * rng.random(count), p)
        before, after = q_values(p, root), q_values(lower, root)
        assert (after <= before + 1e-12).all()


def test_findings_are_folded_under_wider_ones_with_what_they_add():
    """"c0 is 0 and c1 is 1" stands below "c0 is 0", and adds; with a value of c2 it adds nothing: counted."""
    predicates, loss = planted()
    held = split_items(len(loss), seed=2)
    slices = slices_of([0, 5], [0], [0, 5, 9], *([number] for number in range(8, 24)))
    findings, undecided, level = confirm(predicates, loss, slices, held)
    contexts = [finding.context for finding in findings]
    assert contexts == ["where c0 is 0", "where c0 is 0 and c1 is 1"]
    assert [finding.parent for finding in findings] == [-1, 0]
    assert [finding.narrower for finding in findings] == [0, 1]
    wide, narrow = findings
    assert narrow.adds_low > 0.1
    assert narrow.adds_low < 0.3 < narrow.adds_high
    mask = predicates.mask(0)
    assert wide.n == (mask & held).sum()
    assert wide.n_rest == (~mask & held).sum()
    assert wide.n_all == mask.sum()
    assert wide.loss == pytest.approx(loss[mask & held].mean())
    assert wide.explored == pytest.approx(loss[mask & ~held].mean() - loss[~mask & ~held].mean())
    assert wide.p == fisher(int(loss[mask & held].sum()), wide.n, int(loss[held].sum()), int(held.sum()))
    assert 0.9 < level < 1
    assert len(undecided) == 10
    assert all(candidate.q > 0.1 for candidate in undecided)
    assert any(candidate.needed > candidate.n_all for candidate in undecided)


def test_the_confirming_items_alone_decide():
    """Losses of the exploring items may be anything: p-values, intervals and order stay."""
    predicates, loss = planted()
    held = split_items(len(loss))
    slices = slices_of([0], [0, 5], [9], [14])
    before = confirm(predicates, loss, slices, held)
    after = confirm(predicates, np.where(held, loss, 1 - loss), slices, held)
    assert [(one.context, one.p, one.low, one.difference_high) for one in before.findings] == [
        (one.context, one.p, one.low, one.difference_high) for one in after.findings]
    assert before.findings[0].explored != after.findings[0].explored


def test_better_contexts_are_worse_contexts_of_the_turned_loss():
    """The same p-values; signs and ends of the intervals change places."""
    predicates, loss = planted()
    held = split_items(len(loss))
    worse = confirm(predicates, loss, slices_of([0], [0, 5], [9]), held)
    better = confirm(predicates, 1 - loss, slices_of([0], [0, 5], [9]), held, worse=False)
    for one, other in zip(worse.findings, better.findings, strict=True):
        assert one.p == pytest.approx(other.p)
        assert one.difference_low == pytest.approx(-other.difference_high)
        assert other.difference_high <= 0


def test_an_interval_of_a_finding_never_passes_zero():
    """The test is one-sided; a finding at the edge has an interval that begins at 0."""
    predicates, _ = planted()
    rng = np.random.default_rng(5)
    held = np.ones(2400, np.bool_)
    lows = []
    for _ in range(300):
        loss = (rng.random(2400) < np.where(predicates.mask(0), 0.24, 0.2)).astype(float)
        lows += [one.difference_low for one in confirm(predicates, loss, slices_of([0]), held).findings]
    assert lows
    assert min(lows) == 0.0


def test_flips_of_a_tag_correct_the_effect():
    """The effect grows by the share that flips hid, the p-value stays, and bad rates or names are refused."""
    predicates, loss = planted()
    held = split_items(len(loss))
    plain = confirm(predicates, loss, slices_of([0], [9]), held).findings[0]
    same = confirm(predicates, loss, slices_of([0], [9]), held, flips={"c0=0": 0.0}).findings[0]
    corrected = confirm(predicates, loss, slices_of([0], [9]), held, flips={"c0=0": (0.05, 0.1)}).findings[0]
    assert corrected.corrected
    assert not plain.corrected
    assert corrected.p == plain.p
    assert same.difference == pytest.approx(plain.difference)
    assert corrected.difference > 1.1 * plain.difference
    assert (corrected.difference_high - corrected.difference_low
            > 1.1 * (plain.difference_high - plain.difference_low))
    most = confirm(predicates, loss, slices_of([0], [9]), held, flips={"c0=0": (0.4, 0.1)})
    assert np.isnan(most.findings[0].loss)
    assert "no more frequent than their errors" in Audit(most.findings, (), {"loss": "error"}).sentences()[0]
    for flips, message in (({"c0=9": 0.1}, "No annotation named 'c0=9'"), ({"c0=0": 0.5}, "below 1"),
                           ({"c0=0": -0.1}, "below 1")):
        with pytest.raises(ShiftBenchError, match=message):
            confirm(predicates, loss, slices_of([0]), held, flips=flips)


def test_a_smallest_difference_is_seen_as_often_as_promised():
    """With probability 0.8 by simulation of Fisher's test, and what cannot be seen has no answer."""
    rng, draws = np.random.default_rng(6), 1500
    difference = detectable(1200, 100, 0.12, 0.002)
    hits, misses = rng.binomial(100, 0.12 + difference, draws), rng.binomial(1100, 0.12, draws)
    seen = np.mean([fisher(int(one), 100, int(one + other), 1200) <= 0.002
                    for one, other in zip(hits, misses, strict=True)])
    assert 0.76 < seen < 0.86
    assert np.isnan(detectable(1200, 2, 0.12, 1e-6))
    assert np.isnan(detectable(1200, 0, 0.12, 0.01))
    assert detectable(1200, 100, 0.0, 0.002, sd=2.0) == pytest.approx((2.878 + 0.842) * 2 * (1 / 100 + 1 / 1100) ** 0.5,
                                                                      rel=1e-3)


def test_needed_items_are_those_that_would_show_the_difference():
    """With as many items of the same kind, a candidate that was open is confirmed with probability 0.8."""
    predicates, _ = planted(n=1200)
    rng = np.random.default_rng(7)
    held = np.ones(1200, np.bool_)
    loss = (rng.random(1200) < np.where(predicates.mask(0), 0.24, 0.2)).astype(float)
    candidate = confirm(predicates, loss, slices_of([0], *([number] for number in range(8, 24))), held).undecided[0]
    times = candidate.needed / candidate.n_all
    inside, outside = round(candidate.n * times), round(candidate.n_rest * times)
    hits, misses = rng.binomial(inside, candidate.loss, 400), rng.binomial(outside, candidate.rest, 400)
    level = 0.1 / 17
    seen = np.mean([fisher(int(one), inside, int(one + other), inside + outside) <= level
                    for one, other in zip(hits, misses, strict=True)])
    assert 0.7 < seen < 0.9


def test_nothing_to_test_gives_nothing():
    """No candidates, one class alone, and a context without confirming items."""
    predicates, loss = planted()
    held = split_items(len(loss))
    assert confirm(predicates, loss, slices_of(), held).findings == ()
    assert confirm(predicates, np.zeros_like(loss), slices_of([0], [5]), held).findings == ()
    alone = confirm(predicates, loss, slices_of([0]), held & ~predicates.mask(0))
    assert alone.findings == ()
    assert alone.undecided[0].n == 0
