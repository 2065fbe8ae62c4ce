"""`build SUITE --set …` reaches every benchmark or is refused by name; a seed is a whole number from 0 on."""

import json

import numpy as np
import pytest
import typer

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.arrays import child, uniform
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts import Correlation, Given, Subpopulation
from shiftbench.shifts.conditions import Noise
from shiftbench.shifts.recipe import changed
from shiftbench.shifts.shift import Under
from shiftbench.shifts.suites import SUITES, suite
from tests.strategies import toy

MINORITY = Subpopulation("class", "place", {"cat": "indoors", "dog": "outdoors"})


@pytest.fixture
def small(monkeypatch):
    """A suite of two benchmarks of different kinds, the second under a condition."""
    members = {"share": MINORITY, "noisy": Under(Correlation("class", "place", 0.8), (Noise(0.1),))}
    monkeypatch.setitem(SUITES, "small", members)
    return members


def test_a_setting_reaches_every_benchmark(small):
    """Each shift has the new value and keeps all others, inside and outside conditions."""
    made = dict(suite("small", changes={"n_test": 60, "condition.noise.p": 0.2}))
    assert made["share"] == Under(Subpopulation("class", "place", MINORITY.majority, n_test=60), (Noise(0.2),))
    assert made["noisy"] == Under(Correlation("class", "place", 0.8, n_test=60), (Noise(0.2),))
    assert dict(suite("small")) == small


@pytest.mark.parametrize("name", sorted(SUITES))
def test_every_shift_of_every_suite_can_be_changed(name):
    """A change to the value that a setting already has gives the same shift."""
    for key, shift in suite(name):
        inner = shift.shift if isinstance(shift, Under) else shift
        assert changed(shift, {"label": inner.label} if hasattr(inner, "label") else {}, key) == shift


def test_a_setting_that_a_member_lacks_is_refused_by_name(small):
    """The message names the benchmark and the setting."""
    with pytest.raises(ShiftBenchError, match=r"benchmark 'noisy'.*No setting named 'majority'"):
        list(suite("small", changes={"majority.cat": "outdoors"}))
    assert dict(suite("small", "share", {"majority.cat": "outdoors"}))["share"].majority["cat"] == "outdoors"


def test_members_stay_different():
    """A setting by which the benchmarks of a suite differ cannot be made the same for all, but for one of them."""
    with pytest.raises(ShiftBenchError, match="'minority-12' and 'minority-6' are the same"):
        list(suite("metashift/world/table2", changes={"p": 0.5}))
    assert dict(suite("metashift/world/table2", "minority-6", {"p": 0.5}))["minority-6"].p == 0.5


def test_the_command_applies_settings_to_suites(shell, tmp_path, small):
    """The saved cards have the setting; a wrong one is one line, and nothing is written."""
    toy(900).save(tmp_path / "toy")
    words = ("build", "small", "--collection", tmp_path / "toy", "--out", tmp_path / "out", "--quiet")
    code, _, err = shell(*words, "--set", "n_tset=60")
    assert (code, err.count("\n")) == (1, 1)
    assert "benchmark 'share'" in err
    assert "Did you mean 'n_test'?" in err
    assert not (tmp_path / "out").exists()
    assert shell(*words, "--set", "n_test=60", "--set", "seed=3")[0] == 0
    for name in small:
        made = Benchmark.load(tmp_path / "out" / name)
        assert len(made.rows("test")) == made.card["params"]["n_test"] == 60
        assert made.card["seed"] == 3


def seeded(group, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command that has an option --seed."""
    found = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            found += seeded(command, (*words, name))
        elif any("--seed" in param.opts for param in command.params):
            found.append((*words, name))
    return found


COMMANDS = seeded(typer.main.get_command(app))


def test_there_are_commands_with_seeds():
    """The list that the next test walks over is not empty by mistake."""
    assert {("build",), ("train",), ("read", "world")} <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_takes_a_negative_seed(shell, words):
    """Usage that names the option, before anything is read."""
    code, out, err = shell(*words, "--seed", "-3")
    assert (code, out) == (2, "")
    assert "--seed" in err


def test_nothing_draws_with_a_negative_seed(tmp_path):
    """One line in Python, in a recipe and with --set, also where a shift draws nothing."""
    plain = toy(400)
    collection = Collection("toy", plain.items, {**plain.factors, "split": np.repeat(["train", "test"], 200)})
    for draw in (lambda: child(-3, "a"), lambda: uniform(-3, "a", [1]), lambda: MINORITY.build(collection, -3),
                 lambda: Given("class").build(collection, -3)):
        with pytest.raises(ShiftBenchError, match="seed = -3, but a seed is a whole number of at least 0"):
            draw()
    toy(600).save(tmp_path / "toy")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'collection = {json.dumps(str(tmp_path / "toy"))}\nseed = -3\n[shift.iid]\nlabel = "class"\n')
    for changes in ({}, {"seed": -1}, {"seed": True}, {"seed": 0.5}):
        with pytest.raises(ShiftBenchError, match=r"'seed' is .*whole number of at least 0"):
            sb.build(recipe, changes=changes)
    assert len(sb.build(recipe, changes={"seed": 0})) > 0
