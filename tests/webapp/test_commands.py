"""The command beside a number prints that number."""

import json
import shlex
import subprocess
import sys
from urllib.parse import parse_qsl

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.data.benchmark import Benchmark
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.studio import Query

ON = "collections/scenes"
INDOORS = json.dumps([{"column": "location", "value": "indoors", "kind": "factor", "words": "location is indoors"}])
CELL = {"on": "scores.parquet", "benchmark": "minority", "method": "erm", "measure": "accuracy"}


def plain(answer):
    """An answer as the page gets it."""
    return json.loads(msgspec.json.encode(answer))


@pytest.mark.parametrize(("name", "state", "key"), [
    ("home", {}, "command"), ("cross", {"on": ON, "a": "class", "b": "light", "where": INDOORS}, "command"),
    ("item", {"on": ON, "id": "scene-000003"}, "command"), ("predicted", {"on": ON, "id": "scene-000003"}, "command"),
    ("runs", {"on": "runs", "sort": "loss", "where": INDOORS.replace("location", "method").replace("indoors", "erm")},
     "settings_command"),
    ("sides", {"on": ON, "cls": "dog", "train": '["dog(sofa)"]', "test": '["dog(shelf)"]'}, "sides_command"),
    ("cell", CELL, "command")], ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_prints_the_answer_of_the_page(shown, name, state, key):
    """Where no verb prints the numbers, `studio --print` does: its request gives the same answer."""
    answer = ANSWERS[name](shown, Query(state))
    while "scoring" in answer:
        answer = ANSWERS[name](shown, Query(state))
    program, verb, *folders, option, request = shlex.split(answer[key])
    assert (program, verb, option) == ("shiftbench", "studio", "--print")
    asked, _, state = request.partition("?")
    assert plain(ANSWERS[asked](shown, Query(dict(parse_qsl(state))))) == plain(answer)
    assert [str(folder) for folder in shown.shelf.folders] == folders


def test_the_cross_table_of_the_command_is_that_of_the_library(shown, scenes):
    """Run in a process of its own, the command prints the counts that numpy makes of the two factors."""
    command = ANSWERS["cross"](shown, Query({"on": ON, "a": "class", "b": "location"}))["command"]
    result = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=True)
    table = json.loads(result.stdout)
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        for column, n in zip(table["columns"], cells, strict=True):
            both = (scenes.factors["class"] == row["name"]) & (scenes.factors["location"] == column["name"])
            assert n == np.count_nonzero(both)
    assert np.sum(table["cells"]) == len(scenes)


@pytest.mark.parametrize(("folder", "request_", "says"), [
    ("", "nothing", "No view named 'nothing'"), ("", "item?on=none", "No collection named 'none'"),
    ("none", "home", "is no folder"), ("", "thumbnail?on=collections/scenes&row=1", "are not printed")])
def test_a_request_that_is_none_is_one_sentence(world, shell, folder, request_, says):
    """An unknown view or thing, and what is no text, end with a sentence and exit code 1."""
    code, out, err = shell("studio", world / folder, "--print", request_)
    assert (code, out) == (1, "")
    assert says in " ".join(err.split())


def test_a_printed_answer_waits_for_scores(several, shell):
    """Runs that are not scored yet are scored first: what is printed is the table, not how far the scoring is."""
    code, out, _ = shell("studio", several, "--print", "compare?on=runs")
    assert code == 0
    assert json.loads(out)["tables"]


@pytest.mark.parametrize(("name", "state"), [
    ("design", {"on": ON, "shift": "correlation"}), ("design", {"recipe": "recipes/minority.toml"}),
    ("sides", {"on": ON, "cls": "dog", "train": '["dog(sofa)", "cat(sofa)"]', "test": '["dog(shelf)", "cat(shelf)"]'})])
def test_the_text_of_a_recipe_gives_the_numbers_of_the_page(shown, tmp_path, monkeypatch, name, state):
    """A read-only studio names a file for the text, and commands that build, check and power what it shows."""
    answer = ANSWERS[name](shown, Query(state))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / answer["commands"]["file"]
    file.parent.mkdir()
    file.write_text(answer.get("text") or answer["recipe"])
    printed = {}
    for verb in ("build", "check", "power"):
        words = shlex.split(answer["commands"][verb])
        result = CliRunner().invoke(app, [*words[1:], "--json"])
        assert result.exit_code in (0, 1), result.output  # check says by its code that it found something
        printed[verb] = json.loads(result.stdout)
    built = answer["built"]
    assert Benchmark.load(tmp_path / "benchmarks" / file.stem).digest == built["digest"]
    assert printed["check"]["findings"] == plain(built["findings"])
    smallest = [None if np.isnan(row["smallest"]) else pytest.approx(100 * row["smallest"]) for row in built["power"]]
    assert [(row["items"], row["smallest"]) for row in printed["power"]["groups"]] == list(zip(
        [row["items"] for row in built["power"]], smallest, strict=True))
