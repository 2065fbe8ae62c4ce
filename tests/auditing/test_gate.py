"""A gate passes only what the data show to be good enough, and says where they show too little."""

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.auditing.contexts import Context, contexts_of
from shiftbench.auditing.gate import (
    FAIL,
    PASS,
    UNSURE,
    Check,
    Gate,
    gate,
    loss_checks,
    mean_limits,
    paired_limits,
    share_limits,
)
from shiftbench.auditing.join import Items
from shiftbench.auditing.model_outputs import loss_named
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.reporting.gate_summary import gate_junit, gate_markdown

CITIES = np.asarray(["Kyoto", "Lima", "Oslo", "Rome"])


def context(city: str, loss: float = math.nan) -> Context:
    return Context((Predicate("city", city, "factor", f"city is {city}"),), loss)


def table(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"item": np.arange(n).astype(str), "city": CITIES[rng.integers(4, size=n)],
            "label": rng.choice(["cat", "dog"], n)}


def predictions(data, error, seed: int) -> dict[str, np.ndarray]:
    """A model that errs with these probabilities."""
    wrong = np.random.default_rng([seed, 1]).random(len(data["item"])) < error
    other = np.where(data["label"] == "cat", "dog", "cat")
    return {"item": data["item"], "prediction": np.where(wrong, other, data["label"])}


def changed(data, old, worse, better, seed: int) -> dict[str, np.ndarray]:
    """The old model, wrong on a share `worse` of what it had right, right on a share `better` of its errors."""
    draw = np.random.default_rng([seed, 2]).random(len(data["item"]))
    right = old["prediction"] == data["label"]
    flip = np.where(right, draw < worse, draw < better)
    other = np.where(old["prediction"] == "cat", "dog", "cat")
    return {"item": data["item"], "prediction": np.where(flip, other, old["prediction"])}


@pytest.mark.parametrize("n", [7, 40])
@pytest.mark.parametrize("error", [0.05, 0.01])
def test_paired_limits_miss_the_change_no_more_often_than_they_may(n, error):
    """Summed over all outcomes of n items, each limit misses the true change with probability `error` at most."""
    from scipy.stats import multinomial

    counts = [(worse, better) for worse in range(n + 1) for better in range(n + 1 - worse)]
    limits = np.asarray([paired_limits(*pair, n, error) for pair in counts])
    outcomes = np.asarray([(*pair, n - sum(pair)) for pair in counts])
    for worse in (0.0, 0.01, 0.05, 0.2, 0.5):
        for better in (0.0, 0.02, 0.1, 0.4):
            chance = multinomial.pmf(outcomes, n, [worse, better, 1 - worse - better])
            delta = worse - better
            assert chance[limits[:, 1] < delta - 1e-12].sum() <= error + 1e-9
            assert chance[limits[:, 0] > delta + 1e-12].sum() <= error + 1e-9


def test_paired_limits_turn_round_with_the_models():
    """Exchanging new and old turns the interval round, and it always holds the observed change."""
    for worse, better, n in ((0, 0, 10), (3, 9, 50), (20, 1, 30), (30, 0, 30)):
        low, high = paired_limits(worse, better, n, 0.025)
        assert paired_limits(better, worse, n, 0.025) == pytest.approx((-high, -low))
        assert low <= (worse - better) / n <= high


def test_share_limits_are_those_of_clopper_and_pearson():
    """As scipy has them."""
    from scipy.stats import binomtest

    for wrong, n in ((0, 12), (5, 12), (12, 12)):
        ends = binomtest(wrong, n).proportion_ci(0.9, "exact")
        assert share_limits(wrong, n, 0.05) == pytest.approx((ends.low, ends.high))


def test_mean_limits_are_students_and_know_clusters():
    """Without clusters as scipy has them; a cluster of copies counts once; a few items have no interval."""
    from scipy.stats import t

    values = np.random.default_rng(0).normal(1, 2, 50)
    ends = t.interval(0.9, 49, values.mean(), values.std(ddof=1) / math.sqrt(50))
    assert mean_limits(values, 0.05) == pytest.approx(ends)
    assert mean_limits(np.repeat(values, 4), 0.05, np.repeat(np.arange(50), 4)) == pytest.approx(ends)
    assert mean_limits(values[:5], 0.05) == (-math.inf, math.inf)


def draw(n: int, seed: int, worse, better) -> list[Check]:
    """The checks of two models at a budget of 3 points: the new one alone is wrong with probability `worse` by city."""
    rng = np.random.default_rng([seed, 3])
    city, chance = rng.integers(4, size=n), rng.random(n)
    worse, better = np.asarray(worse)[city], np.asarray(better)[city]
    change = np.where(chance < worse, 1.0, np.where(chance < worse + better, -1.0, 0.0))
    words = np.full(n, "cat")
    items = Items(Collection("toy", np.arange(n).astype(str), {"city": CITIES[city]}), "label", words, words, None,
                  change, ())
    return loss_checks(items, [context(name) for name in CITIES], loss_named("error"), 0.03, 0.05 / 5, "", paired=True)


@pytest.mark.slow
def test_a_model_that_is_worse_in_one_context_rarely_passes():
    """Worse by hardly more than the budget in one context of four: 500 draws pass that check in 1 % of cases at most.

    Bonferroni's share of 5 % for one check of five; so the gate as a whole passes no more often.
    """
    draws, passed, oslo = 500, 0, 0
    for seed in range(draws):
        checks = draw(2000, seed, [0.01, 0.01, 0.051, 0.01], [0.01, 0.01, 0.02, 0.01])
        passed += Gate(tuple(checks)).passed
        oslo += next(check for check in checks if "Oslo" in check.name).verdict == PASS
    assert passed <= oslo
    assert oslo / draws <= 0.01 + 4 * math.sqrt(0.01 * 0.99 / draws)


@pytest.mark.slow
def test_an_equal_model_with_enough_items_passes():
    """New and old disagree on 4 % of items, as often to the one's favour as to the other's: 97 of 100 draws pass."""
    passed = sum(Gate(tuple(draw(12_000, seed, [0.02] * 4, [0.02] * 4))).passed for seed in range(100))
    assert passed >= 97


def test_too_few_items_are_said_to_be_too_few():
    """Even the same predictions prove nothing on fifty items: unsure, and the user chooses what that does."""
    data = table(50)
    same = predictions(data, 0.2, 0)
    outcomes = {unsure: gate(same, data, against=same, unsure=unsure) for unsure in ("fail", "warn", "pass")}
    assert {check.verdict for outcome in outcomes.values() for check in outcome.checks} == {UNSURE}
    assert {unsure: outcome.passed for unsure, outcome in outcomes.items()} == {
        "fail": False, "warn": True, "pass": True}
    assert "too few items to tell" in str(outcomes["fail"])
    assert gate(same, table(50), against=same, contexts=[context("Paris")]).checks[1].n == 0


def test_a_warning_does_not_look_like_a_pass():
    """With --unsure warn the head says that checks are open, on the terminal and in Markdown; with pass it does not."""
    data = table(50)
    same = predictions(data, 0.2, 0)
    fails, warns, passes = (gate(same, data, against=same, contexts=[context("Oslo")], unsure=unsure)
                            for unsure in ("fail", "warn", "pass"))
    assert [one.outcome for one in (fails, warns, passes)] == ["fail", "warn", "pass"]
    assert warns.passed
    assert warns.sentences()[0].startswith("Pass with a warning: 2 with too few items to tell of 2 checks.")
    assert gate_markdown(warns).startswith(
        "### ⚠️ The model may be released, but 2 of 2 checks have too few items to tell\n")
    assert gate_markdown(passes).startswith("### ✅ The model may be released\n")
    many = table(4000)
    equal = predictions(many, 0.0, 0)
    sure = gate(equal, many, against=equal, unsure="warn")
    assert (sure.outcome, gate_markdown(sure).splitlines()[0]) == ("pass", "### ✅ The model may be released")


def test_a_context_without_items_says_so():
    """In its sentence and in the table for a pull request."""
    data = table(50)
    same = predictions(data, 0.2, 0)
    outcome = gate(same, data, against=same, contexts=[context("Paris")])
    assert outcome.checks[1].sentence() == "no item is in it; at most +1.0 is allowed"
    assert "| city is Paris | no item is in it | 0 |" in gate_markdown(outcome)


def test_a_gate_says_that_it_tests_the_listed_contexts_only():
    """And how to look for others, where there is an old model to compare with."""
    data = table(4000)
    new = predictions(data, 0.1, 0)
    paired = gate(new, data, against=new, contexts=[context("Oslo"), context("Lima")])
    assert paired.sentences()[-2:] == [
        "Tested: all items and 2 contexts, as listed.",
        "A gate tests the listed contexts only. To look for others: shiftbench audit NEW --data DATA --against OLD"]
    assert "A gate tests the listed contexts only." in gate_markdown(paired)
    alone = gate(new, data, contexts=[context("Oslo", 0.12)])
    assert alone.sentences()[-1] == "Tested: 1 context, as listed."


def test_the_findings_of_an_audit_are_contexts(tmp_path):
    """As if they had been kept in a file: those about the model's output are left out."""
    data = table(4000)
    old = predictions(data, np.where(data["city"] == "Rome", 0.4, 0.1), 0)
    found = sb.audit(old, data, keep=tmp_path / "saved.toml")
    said = replace(found.findings[0], members=(Predicate("prediction", "cat", "prediction", "prediction is cat"),))
    both = replace(found, findings=(*found.findings, said))
    outcome = sb.gate(old, data, against=old, contexts=both)
    assert outcome == sb.gate(old, data, against=old, contexts=tmp_path / "saved.toml")
    assert [check.name for check in outcome.checks][1:] == [context.name for context in contexts_of(found)]
    assert "city is Rome" in outcome.checks[1].name
    assert contexts_of(found) == contexts_of(both)


def test_printed_findings_and_checks_end_with_the_notes():
    """In Python too, items that are left out are counted where the outcome is read."""
    data = table(4000)
    old = predictions(data, 0.1, 0)
    short = {name: values[:-5] for name, values in old.items()}
    note = "note: 5 of 4,000 items of the data have no prediction in the predictions"
    assert repr(gate(short, data, against=old)).splitlines()[-1].startswith(note)
    audit = sb.audit(short, data)
    assert any(line.startswith(note) for line in repr(audit).splitlines())
    assert note in audit._repr_html_()


def test_a_context_whose_column_is_gone_is_refused():
    """It is not taken for the label, of which cat is a value."""
    data = table(400)
    town = Context((Predicate("town", "cat", "factor", "town is cat"),))
    with pytest.raises(ShiftBenchError, match=r"Context 'town is cat': No column named 'town'\. .*city, label"):
        gate(predictions(data, 0.1, 0), data, against=predictions(data, 0.1, 1), contexts=[town])


def test_a_model_that_is_surely_worse_fails_whatever_unsure_does():
    """A lower limit above the budget is a failure, not a lack of items."""
    data = table(2000)
    old = predictions(data, 0.1, 0)
    outcome = gate(changed(data, old, 0.3, 0.0, 0), data, against=old, unsure="pass")
    assert outcome.checks[0].verdict == FAIL
    assert not outcome.passed


def test_without_an_old_model_the_loss_at_which_a_context_was_kept_is_the_limit():
    """The loss in a context may be that of then plus the budget."""
    data = table(4000)
    new = predictions(data, np.where(data["city"] == "Rome", 0.5, 0.1), 0)
    outcome = gate(new, data, budget=5.0, contexts=[context("Oslo", 0.12), context("Rome", 0.3), context("Lima", 0.06)])
    assert [check.verdict for check in outcome.checks] == [PASS, FAIL, UNSURE]
    assert [check.limit for check in outcome.checks] == pytest.approx([0.17, 0.35, 0.11])
    with pytest.raises(ShiftBenchError, match="no loss to compare with"):
        gate(new, data, contexts=[context("Oslo")])


def test_floors_are_metrics_that_score_knows():
    """A floor passes where the lower end lies above it; of a metric of which lower is better it is a most."""
    data = table(4000)
    new = predictions(data, np.where(data["city"] == "Rome", 0.3, 0.1), 0)
    outcome = gate(new, data, floors={"accuracy": 0.8, "worst_group_accuracy[city]": 0.8, "macro_f1": 0.85,
                                      "error": 0.2})
    assert {check.name: check.verdict for check in outcome.checks} == {
        "accuracy": PASS, "worst_group_accuracy[city]": FAIL, "macro_f1": UNSURE, "error": PASS}
    worst = outcome.checks[1]
    assert worst.n == (data["city"] == "Rome").sum()
    assert worst.low < worst.value < worst.high
    with pytest.raises(ShiftBenchError, match="No metric named 'acuracy'"):
        gate(new, data, floors={"acuracy": 0.5})
    with pytest.raises(ShiftBenchError, match="The floor of 'accuracy' is nan"):
        gate(new, data, floors={"accuracy": math.nan})


@pytest.mark.parametrize("name", ["accuracy", "error", "worst_group_accuracy[city]"])
def test_a_floor_in_per_cent_is_refused(name):
    """A share of at most 1 never reaches a floor of 80 and always stays below a most of 80: either tests nothing."""
    data = table(400)
    with pytest.raises(ShiftBenchError, match=r"is 80, but it is a share of at most 1\. For 80 % write 0\.8\."):
        gate(predictions(data, 0.1, 0), data, floors={name: 80.0})


def test_losses_of_numbers_have_intervals_over_clusters():
    """The budget is in the loss's own unit, and copies of an item add nothing."""
    rng = np.random.default_rng(0)
    video, truth = np.repeat(np.arange(200), 5), np.repeat(rng.normal(0, 1, 200), 5)
    data = {"item": np.arange(1000).astype(str), "video": video, "label": truth}
    old, new = ({"item": data["item"], "prediction": truth + np.repeat(rng.normal(0, scale, 200), 5)}
                for scale in (1.0, 1.1))
    plain, clustered = (gate(new, data, against=old, loss="absolute", budget=0.2, cluster=cluster).checks[0]
                        for cluster in ("", "video"))
    assert plain.value == clustered.value
    assert (clustered.high - clustered.value) / (plain.high - plain.value) == pytest.approx(5**0.5, rel=0.02)
    assert plain.limit == 0.2


def test_a_gate_that_tests_nothing_is_refused():
    data = table(30)
    with pytest.raises(ShiftBenchError, match="nothing to test"):
        gate(predictions(data, 0.1, 0), data)


EVIL = 'a "b" & <c> | \x00`d`\n]]>'
OUTCOME = Gate((Check(EVIL, "change", 40, 0.02, -0.01, 0.05, 0.01),
                Check("all items", "change", 900, -0.01, -0.03, 0.0, 0.01),
                Check("accuracy", "floor", 900, 0.5, 0.45, 0.55, 0.8, lower=False)))


@pytest.mark.parametrize("unsure", ["fail", "warn"])
def test_junit_has_a_case_per_check(unsure):
    """Failures are what blocks, skipped is what is unsure and does not; any name makes valid XML."""
    outcome = Gate(OUTCOME.checks, unsure)
    suite = ElementTree.fromstring(gate_junit(outcome)).find("testsuite")  # noqa: S314
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        ("3", "2", "0") if unsure == "fail" else ("3", "1", "1"))
    cases = suite.findall("testcase")
    assert len(cases) == 3
    assert cases[1].find("failure") is None
    assert cases[2].find("failure") is not None
    assert (cases[0].find("failure") is not None) == (unsure == "fail")


def test_markdown_has_a_row_per_check():
    """No name breaks out of its cell, and the head says whether the model may be released."""
    text = gate_markdown(OUTCOME)
    assert text.startswith("### ❌")
    assert gate_markdown(Gate(OUTCOME.checks[1:2])).startswith("### ✅")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    assert "<c>" not in text
    assert rows[1].replace("\\|", "").count("|") == 7
