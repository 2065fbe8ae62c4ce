"""How many items a difference needs: the formulas do what a simulation of the test does, and invert each other."""

import json

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shiftbench.cli.shifts import power as verb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.scoring import intervals as stats
from shiftbench.scoring.differences import POWER, Design, compare
from tests.scoring.test_score import made

designs = st.fixed_dictionaries({
    "accuracy": st.floats(0.1, 0.9), "correlation": st.floats(0, 0.9), "paired": st.booleans(),
    "comparisons": st.integers(1, 50), "level": st.sampled_from([0.9, 0.95, 0.99])})


def chance(items, difference, **known):
    return Design(**known).power(items, difference)


def items_needed(difference, power=POWER, **known):
    return Design(**known).items_needed(difference, power)


def smallest_difference(items, power=POWER, **known):
    return Design(**known).smallest_difference(items, power)


def pair(rng, n, accuracy, difference, correlation):
    """Two models with these accuracies whose errors have this correlation."""
    p, q = accuracy, accuracy + difference
    both = p * q + correlation * np.sqrt(p * (1 - p) * q * (1 - q))
    cells = rng.choice(4, n, p=[both, p - both, q - both, 1 - p - q + both])
    return np.isin(cells, [0, 1]), np.isin(cells, [0, 2])


@pytest.mark.parametrize(("n", "accuracy", "difference", "correlation", "comparisons"), [
    (400, 0.7, 0.06, 0.5, 1), (400, 0.7, 0.06, 0.0, 1), (150, 0.85, 0.08, 0.3, 1), (600, 0.5, 0.08, 0.5, 10),
])
def test_power_is_what_the_test_has(n, accuracy, difference, correlation, comparisons):
    """The share of drawn pairs of models that `compare` tells apart is the stated power, within chance."""
    rng = np.random.default_rng(0)
    level = 1 - 0.05 / comparisons
    seen = [compare(np.stack(pair(rng, n, accuracy, difference, correlation)), [0, 1], level=level).high[0] < 0
            for _ in range(600)]
    stated = chance(n, difference, accuracy=accuracy, correlation=correlation, comparisons=comparisons)
    assert np.mean(seen) == pytest.approx(stated, abs=0.05)
    assert 0.1 < stated < 0.95


def test_unpaired_power_is_what_the_test_has():
    """Two models on different items: the pooled z-test sees the difference as often as stated."""
    rng = np.random.default_rng(0)
    first, second = rng.binomial(500, 0.7, 4000) / 500, rng.binomial(500, 0.78, 4000) / 500
    mean = (first + second) / 2
    seen = np.abs(first - second) / np.sqrt(2 * mean * (1 - mean) / 500) > stats.student(np.inf, 0.95)
    assert seen.mean() == pytest.approx(chance(500, 0.08, accuracy=0.7, paired=False), abs=0.03)


@settings(max_examples=60, deadline=None)
@given(designs, st.floats(0.01, 0.09), st.floats(0.3, 0.95))
def test_items_and_differences_invert_each_other(known, difference, power):
    """So many items have the power, one fewer has not; the smallest difference they show is no larger than asked."""
    items = items_needed(difference, power, **known)
    assert chance(items, difference, **known) >= power - 1e-9
    assert items == 1 or chance(items - 1, difference, **known) < power + 1e-9
    smallest = smallest_difference(items, power, **known)
    assert smallest <= difference + 1e-9
    assert items_needed(smallest, power, **known) <= items


@settings(max_examples=40, deadline=None)
@given(designs, st.floats(0.01, 0.09))
def test_more_is_asked_more_is_needed(known, difference):
    """More comparisons, a smaller difference or less alike errors need more items."""
    def needed(difference=difference, **changes):
        return items_needed(difference, **{**known, **changes})
    assert needed(comparisons=known["comparisons"] + 5) >= needed()
    assert needed(difference / 2) >= needed()
    assert needed(paired=True, correlation=0.0) >= needed(paired=True)
    assert needed(paired=True, disagreement=0.5) >= needed(paired=True, disagreement=0.1)


def test_what_cannot_be_is_refused():
    """Points for shares, a level of 95 and an impossible difference are errors that say what is meant."""
    for wrong in ({"accuracy": 70}, {"correlation": 2}, {"disagreement": -0.1}, {"level": 95}, {"comparisons": 0}):
        with pytest.raises(ShiftBenchError, match=next(iter(wrong))):
            items_needed(0.02, **wrong)
    for difference in (0, 2):
        with pytest.raises(ShiftBenchError, match=r"two points are 0\.02"):
            items_needed(difference)
    with pytest.raises(ShiftBenchError, match="No model is 20 points better"):
        chance(100, 0.2, accuracy=0.9)
    for difference in (1e-300, 1e-320, 1e-14):
        with pytest.raises(ShiftBenchError, match=r"takes more than .* items"):
            items_needed(difference)
    with pytest.raises(ShiftBenchError, match="how many tests are made"):
        items_needed(0.02, comparisons=10**400)
    assert 0 < smallest_difference(10**12, accuracy=1 - 1e-10) <= 1e-10
    assert np.isnan(smallest_difference(3, accuracy=0.9))
    assert np.isnan(smallest_difference(100, accuracy=1.0))


def run(*words):
    app = typer.Typer()
    app.command()(verb)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_verb_asks_how_many():
    """`power --difference 2` prints items per group, on the same items and on different ones."""
    found = json.loads(run("--difference", 2, "--accuracy", 0.8, "--json").output)
    assert found["items_per_group"] == {kind: items_needed(0.02, accuracy=0.8, paired=kind == "paired")
                                        for kind in ("paired", "unpaired")}
    text = run("--difference", 2, "--accuracy", 0.8).output
    assert f"{items_needed(0.02, accuracy=0.8):,}" in text
    problem = run("--accuracy", 0.8).exception
    assert isinstance(problem, ShiftBenchError)
    assert "--difference" in str(problem)


def test_the_verb_reads_a_benchmark(tmp_path):
    """`power BENCHMARK` has a row for the split and for each of its groups: items, and what they can show."""
    benchmark = made()
    benchmark.save(tmp_path / "toy")
    found = json.loads(run(tmp_path / "toy", "--difference", 10, "--json").output)["groups"]
    assert {row["group"]: row["items"] for row in found} == {
        "all": len(benchmark.rows("test")), **benchmark.counts()["test"]}
    for row in found:
        assert row["smallest"] == pytest.approx(100 * smallest_difference(row["items"]))
        assert (row["chance"] >= 0.8) == (row["items"] >= row["needed"])
    text = run(tmp_path / "toy", "--difference", 10).output
    assert all(name in text for name in benchmark.counts()["test"])
    assert "No split named 'tst'. Did you mean 'test'?" in str(run(tmp_path / "toy", "--split", "tst").exception)
