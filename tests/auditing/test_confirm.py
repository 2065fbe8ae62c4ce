"""Split, test and fold: what was chosen on one part of the items and holds on the other."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import shiftbench as sb
from bench.audit_null import columns_of, predicates_in
from shiftbench.auditing.audit import Options, split_items
from shiftbench.auditing.confirm import Rates, confirm, flip_rates, miss, q_values, trees
from shiftbench.auditing.contrasts import fisher
from shiftbench.auditing.findings import Audit
from shiftbench.auditing.predicates import Predicate, Predicates, packed
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
    same, corrected = (confirm(predicates, loss, slices_of([0], [9]), held, rates=flip_rates(
        predicates, {"c0=0": flips})).findings[0] for flips in (0.0, (0.05, 0.1)))
    assert corrected.corrected
    assert not plain.corrected
    assert corrected.p == plain.p
    assert same.difference == pytest.approx(plain.difference)
    assert corrected.difference > 1.1 * plain.difference
    assert (corrected.difference_high - corrected.difference_low
            > 1.1 * (plain.difference_high - plain.difference_low))
    most = confirm(predicates, loss, slices_of([0], [9]), held, rates=flip_rates(predicates, {"c0=0": (0.4, 0.1)}))
    assert np.isnan(most.findings[0].loss)
    assert "no more frequent than their errors" in Audit(most.findings, (), {"loss": "error"}).sentences()[0]
    for flips, message in (({"c0=9": 0.1}, "No annotation named 'c0=9'"), ({"c0=0": 0.5}, "below 1"),
                           ({"c0=0": -0.1}, "below 1")):
        with pytest.raises(ShiftBenchError, match=message):
            flip_rates(predicates, flips)


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


# Error rates of annotations from a sample that people have checked

FALSE, MISSING, N = 0.06, 0.15, 3000


def drawn(rng, checked):
    """An annotation with errors, losses that depend on the truth by 30 points, and a checked sample of other items."""
    true, sampled = rng.random(N) < 0.3, rng.random(checked) < 0.3
    seen, noted = (np.where(what, rng.random(len(what)) >= MISSING, rng.random(len(what)) < FALSE)
                   for what in (true, sampled))
    loss = (rng.random(N) < np.where(true, 0.4, 0.1)).astype(np.float64)
    night = Predicate("light", "night", "factor", "light is night")
    names = np.asarray(["day", "night"])
    return (Predicates((night,), packed(seen)[None], N, np.zeros(1, np.int32)), loss,
            {"id": np.arange(checked).astype(str), "seen": names[noted * 1], "true": names[sampled * 1]})


@pytest.mark.slow
@pytest.mark.parametrize("checked", [80, 400])
def test_intervals_allow_for_the_size_of_the_sample(checked):
    """The true difference of 30 points is covered at the level; by intervals that take the rates as known, less often.

    150 draws, bounds of four Monte-Carlo standard errors.
    """
    rng, draws, held = np.random.default_rng(checked), 150, np.ones(N, np.bool_)
    hits, plain = 0, 0
    for _ in range(draws):
        predicates, loss, sample = drawn(rng, checked)
        exact = flip_rates(predicates, {"light=night": sample})
        with_sample = confirm(predicates, loss, slices_of([0]), held, rates=exact).findings
        as_known = confirm(predicates, loss, slices_of([0]), held,
                           rates={0: Rates(exact[0].false, exact[0].missing)}).findings
        hits += with_sample[0].difference_low <= 0.3 <= with_sample[0].difference_high
        plain += as_known[0].difference_low <= 0.3 <= as_known[0].difference_high
        assert with_sample[0].difference == as_known[0].difference
        assert with_sample[0].checked == checked
    assert hits / draws >= 0.9 - 4 * np.sqrt(0.09 / draws)
    assert plain < hits
    if checked == 80:
        assert plain / draws < 0.9 - 4 * np.sqrt(0.09 / draws)


def test_rates_are_those_of_the_sample_and_turn_for_the_opposite():
    """Jeffreys' means of 10 of 100 false and 5 of 50 missing; "without dog" has them the other way round."""
    tags = Predicate("has:dog", "yes", "tag", "with dog"), Predicate("has:dog", "no", "tag", "without dog")
    predicates = Predicates(tags, np.zeros((2, 1), np.uint64), 10, np.zeros(2, np.int32))
    true = np.repeat(["no", "dog"], [100, 50])
    seen = np.concatenate([np.repeat(["1", "no"], [10, 90]), np.repeat(["no", "yes"], [5, 45])])
    rates = flip_rates(predicates, {"dog": {"seen": seen, "true": true}})
    assert rates[0][:2] == pytest.approx((10.5 / 101, 5.5 / 51))
    assert rates[1] == rates[0].turned
    assert rates[0].checked == 150
    assert flip_rates(predicates, {"dog": 0.1}) == {0: Rates(0.1, 0.1), 1: Rates(0.1, 0.1)}


def test_a_sample_is_a_file_and_the_sentence_tells_of_it(tmp_path):
    """In Python and on the command line a path after the last = is read."""
    predicates, loss, sample = drawn(np.random.default_rng(3), 300)
    (tmp_path / "checked.csv").write_text("id,seen,true\n" + "".join(
        f"{one},{other},{third}\n" for one, other, third in zip(*sample.values(), strict=True)))
    ids = [f"i{number}" for number in range(N)]
    data = {"id": ids, "label": ["yes"] * N, "light": np.where(predicates.mask(0), "night", "day")}
    audit = sb.audit({"id": ids, "prediction": np.where(loss > 0, "no", "yes")}, data,
                     flips={"light=night": tmp_path / "checked.csv"})
    assert "corrected for the error rate of its annotations in 300 checked items" in audit.sentences()[0]
    assert audit.card["flips"]["light is night"]["checked"] == 300


@pytest.mark.parametrize(("sample", "message"), [
    ({"seen": ["night", "day"], "true": ["day", "day"]}, "none is truly 'light is night'"),
    ({"seen": ["night", "day"], "true": ["night", "night"]}, "none is not truly"),
    ({"seen": ["night"]}, "'true'"), ("nowhere.csv", "nowhere.csv")])
def test_a_sample_that_tells_no_rate_is_refused(sample, message):
    """One line says what is missing."""
    predicates, _, _ = drawn(np.random.default_rng(0), 10)
    with pytest.raises(ShiftBenchError, match=message):
        flip_rates(predicates, {"light=night": sample})
