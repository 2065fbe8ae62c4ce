"""Error rates of annotations from a sample that people have checked."""

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.auditing.confirm import confirm
from shiftbench.auditing.flips import Rates, flip_rates
from shiftbench.auditing.predicates import Predicate, Predicates, packed
from shiftbench.core.errors import ShiftBenchError
from tests.auditing.test_confirm import slices_of

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
        rates = flip_rates(predicates, {"light=night": sample})[0]
        with_sample = confirm(predicates, loss, slices_of([0]), held, flips={"light=night": sample}).findings
        as_known = confirm(predicates, loss, slices_of([0]), held,
                           flips={"light=night": (rates.false, rates.missing)}).findings
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
