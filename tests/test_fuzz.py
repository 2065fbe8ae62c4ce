"""A short, seeded round of the fuzzer, and its promise: what is registered is fuzzed, what breaks is found."""

import json
import os
from pathlib import Path

import pytest

from shiftbench import cli
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS
from shiftbench.shifts import SHIFTS
from tests.fuzz.cases import Project, case, prepare, targets
from tests.fuzz.project import NOTHING_TO_READ, project
from tests.fuzz.samples import Command, readers

VERBS = {command.callback.__name__ for command in cli.app.registered_commands}
SLOWEST = 4
"""Commands that cost more are left to `make fuzz`."""
UNFUZZED = {"pretrain", "retrain", "sweep", "download", "studio"}
"""Verbs that train before they read anything that others do not read; `download`, whose files must have the published
checksums: tests/downloads gives it servers that break off, lie and serve other files; and `studio`, which serves until
it is stopped: tests/webapp gives it damaged folders and hostile names."""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The sound project and its targets. The command line is built once, and given back as it was."""
    place, before, app = tmp_path_factory.mktemp("fuzz"), Path.cwd(), cli.command.app
    os.chdir(place)
    prepare()
    commands = project(place)
    whole = Project(place)
    yield whole, targets(whole, [one for one in commands if one.cost <= SLOWEST]), commands
    cli.command.app = app
    os.chdir(before)


@pytest.mark.slow
def test_a_short_round_finds_nothing(known):
    """One case of each file that a quick command reads and of its words: a line or an answer, nothing half-written."""
    whole, listed, _ = known
    wrong = {str(target): found[0] for target in listed if (found := case(whole, target, 0, seed=2))[0]}
    assert not wrong


@pytest.mark.slow
def test_every_reader_shift_and_verb_is_fuzzed(known):
    """By being registered: who adds one adds it to the fuzzer, or says why not."""
    _, _, commands = known
    names = [one.name for one in commands]
    assert all(any(name.startswith(f"read {form}") for name in names) for form in READERS)
    assert all(f"build {shift}" in names for shift in SHIFTS)
    used = {one.words[0] for one in commands if one.words} | {"read"}
    assert VERBS - set(NOTHING_TO_READ) - UNFUZZED <= used


@pytest.mark.slow
def test_a_careless_reader_is_found(tmp_path, monkeypatch):
    """A reader without a sample of its own is fed files of every format, and what it stumbles over is named."""

    def careless(source: str, *, name: str) -> Collection:
        content = Path(source).read_bytes()
        return Collection(name, [content.decode().partition(",")[2].split(",")[0]])

    monkeypatch.setattr("tests.fuzz.samples.READERS", {"careless": careless})
    monkeypatch.chdir(tmp_path)
    commands = [one for one in readers(tmp_path) if one.name == "read careless file.csv"]
    (tmp_path / "out").mkdir()
    whole = Project(tmp_path)
    (target,) = targets(whole, commands)
    found = [case(whole, target, number, seed=0)[0] for number in range(60)]
    assert any("UnicodeDecodeError" in wrong for wrong in found)
    assert found == [case(whole, target, number, seed=0)[0] for number in range(60)]


@pytest.mark.parametrize(("call", "says"), [
    (lambda: 1 / 0, "ZeroDivisionError"), (lambda: Path("out/.x-hidden").touch(), "left out/.x-hidden"),
    (lambda: print("\x1b[31m"), "control character"),
    (lambda: Path("out/half").touch() or Collection("c", ["a", "a"]), "failed and left out/half"),
])
def test_what_must_not_be_is_a_violation(tmp_path, monkeypatch, call, says):
    """A traceback, a staging file that stays, an order to the terminal, half an output."""
    from tests.fuzz.cases import run, verdict

    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    whole, command = Project(tmp_path), Command("x", call=call)
    end = run(command)
    assert says in verdict(command, end, whole.left_over())


def test_the_figures_in_docs_are_those_of_a_round():
    """The table of docs/hostile.md is what docs/fuzz.json, written by the fuzzer, says."""
    from tests.fuzz.__main__ import DOCS, block

    facts = json.loads((DOCS / "fuzz.json").read_text())
    assert block(facts) in (DOCS / "hostile.md").read_text()
    assert facts["cases"] == sum(row["cases"] for row in facts["commands"].values())
