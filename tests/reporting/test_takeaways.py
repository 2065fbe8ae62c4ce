"""The seven takeaways of a fine-grained analysis follow from the scores, and chance has no verdict."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.reporting.sections.fine_grained_scores import fine_grained_scores, leads
from shiftbench.reporting.sections.takeaways import AGREES, DIFFERS, OPEN, takeaways
from tests.reporting.test_fine_grained import METHODS, grid, noise, table

AS_IN_THE_PAPER = {"resnet18": 0, "pixel-mlp": -30, "imagenet_augment": 12, "augmix": 5, "stargan": 20, "dann": 3,
                   "irm": -2, "jtt": 1, "pretrained": 25}


@pytest.fixture(scope="module")
def made():
    return grid()


def verdicts(value, made, methods=METHODS, seeds=range(4)):
    return {one.number: one for one in takeaways(fine_grained_scores(table(value, made, methods, seeds), made))}


def told(skill):
    """Scores with a skill per benchmark and method in per cent over the baseline, and a little chance."""
    return lambda one, method, seed: 0.4 * (1 + skill(one, method) / 100) + noise(one.name, method, seed, size=0.001)


def facts(one):
    conditions = one.card["conditions"]
    return one.card["shift"], one.card["params"]["label"], conditions[0] if conditions else {}


def paper(one, method):
    """Scores that bear out every takeaway."""
    shift, label, condition = facts(one)
    if label == "colour":  # solved by every method, so that chance alone orders them
        return 100
    if method == "augmix" and "rooms" in one.name:
        return -15
    if method in ("imagenet_augment", "augmix") and condition.get("n") == 100:
        return -20
    if shift == "spurious" and method == "stargan":
        return 40
    return AS_IN_THE_PAPER[method]


def test_takeaways_of_a_table_like_the_papers(made):
    """Scores made as the paper tells them bear out all seven."""
    found = verdicts(told(paper), made)
    assert {number: one.verdict for number, one in found.items()} == dict.fromkeys(range(1, 8), AGREES), found


@pytest.mark.parametrize(("number", "change"), [
    (1, lambda one, method: 150 if method == "stargan" else paper(one, method)),
    (2, lambda one, method: -10 if method == "pretrained" else paper(one, method)),
    (3, lambda one, method: -10 if method == "imagenet_augment" else paper(one, method)),
    (4, lambda one, method: -10 if method == "stargan" else paper(one, method)),
    (5, lambda one, method: 30 if method == "dann" else paper(one, method)),
    (6, lambda one, method: -paper(one, method) if facts(one)[2].get("p") == 0.5 else paper(one, method)),
    (7, lambda one, method: AS_IN_THE_PAPER[method]),
])
def test_takeaways_flip_with_the_numbers(made, number, change):
    """Where the numbers behind one takeaway are turned round, its verdict is too."""
    found = verdicts(told(change), made)
    assert found[number].verdict == DIFFERS, found[number]


def test_chance_has_no_verdict(made):
    """Where methods differ by chance alone, no takeaway that says one is better is borne out or refuted."""
    found = verdicts(lambda one, method, seed: 0.5 + noise(one.name, method, seed, "x", size=0.05), made)
    for number in (2, 4):
        assert found[number].verdict == OPEN, found[number]
    assert found[1].verdict != AGREES


def test_what_is_not_there_is_undecided(made):
    """Without the methods, shifts or tasks that a takeaway is about it is undecided, and says why."""
    few = ("resnet18", "resnet50", "pixel-mlp", "vit", "jtt")
    some = [one for one in made if one.name == "sprites-low-10"]
    found = verdicts(lambda one, method, seed: 0.5 + 0.1 * few.index(method) + noise(method, seed), some, few)
    assert {one.verdict for one in found.values()} == {OPEN}
    for one in found.values():
        assert any(part.why for part in one.parts)
    assert "pretrained" in found[2].parts[0].why


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20))
def test_the_best_is_not_the_luckiest(seed):
    """Of methods that are all alike, the lead of the best on other seeds is 0 on average; that of the best is not."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(400, 10, 3))
    fair = np.mean([leads(one, np.zeros(3)).mean() for one in values])
    assert abs(fair) < 5 / math.sqrt(1200) < values.mean(axis=2).max(axis=1).mean()
