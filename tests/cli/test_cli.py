"""The command line as a user meets it: the flow, exit codes, one clear message for bad input."""

import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.cli import PANELS, RENAMED, app
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def predictions(project, benchmark, right=0.8, seed=0):
    """A foreign model's CSV file: right with the given probability."""
    rng = np.random.default_rng(seed)
    made = Benchmark.load(project / benchmark)
    guess = np.where(rng.random(len(made)) < right, made.label, 1 - made.label)
    named = np.asarray(made.names["label"])[guess]
    write_table(project / "preds.csv", pa.table({"item": made.items, "prediction": named}))
    return made, guess


def test_build_check_show_score_report(shell, project):
    """Each stage reads what the one before it wrote, with the same numbers in JSON and in Python."""
    code, out, _ = shell("build", "recipe.toml", "--out", "b", "--json")
    assert code == 0
    assert json.loads(out)["digest"] == sb.Benchmark.load("b").digest
    assert json.loads(shell("check", "b", "--json")[1])["fit"] is True
    facts = json.loads(shell("show", "b", "--json")[1])
    assert facts["shift"] == "subpopulation"
    assert facts["counts"] == sb.Benchmark.load("b").counts()
    made, guess = predictions(project, "b")
    code, out, _ = shell("score", "b", "preds.csv", "--out", "s.parquet", "--json")
    assert code == 0
    rows = made.rows("test")
    expected = float(np.mean(made.label[rows] == guess[rows]))
    table = sb.Scores.load("s.parquet").where(split="test", metric="accuracy", group="all")
    assert table["value"].tolist() == [pytest.approx(expected)]
    assert f"{expected:.4f}"[:5] in out
    assert shell("report", "s.parquet", "--benchmark", "b", "--out", "r.html")[0] == 0
    assert "subpopulation" in (project / "r.html").read_text()


@pytest.mark.slow
def test_tables_are_printed_for_people(shell, project):
    """Without --json every command prints a table."""
    assert "indoors" in shell("build", "recipe.toml", "--out", "b")[1]
    assert "600 items" in shell("show", "toy")[1]
    assert "b: fit" in shell("check", "b")[1]
    predictions(project, "b")
    assert "cat, indoors" in shell("score", "b", "preds.csv")[1]
    code, out, _ = shell("graph", "toy", "--class", "dog", "--from", "dog(shelf)")
    assert code == 0
    assert "dog(boat)" in out


def test_a_missing_word_is_counted_as_missing(shell, project):
    """As a missing number is: it is no value, and comes after all values."""
    words = ["b"] * 3 + ["a"] * 2 + [""] * 4
    Collection("gaps", np.arange(9).astype(str), {"word": np.asarray(words)}).save("gaps")
    assert "2  a 2, b 3, missing 4" in shell("show", "gaps")[1]


def test_graph_draws(shell, project):
    """The graph is written as a picture, a page or JSON by its ending."""
    for ending in ("png", "html", "json"):
        assert shell("graph", "toy", "--class", "cat", "--out", f"g.{ending}")[0] == 0
        assert (project / f"g.{ending}").stat().st_size > 300
    facts = json.loads(shell("graph", "toy", "--class", "cat", "--json")[1])
    assert json.loads((project / "g.json").read_text()) == facts
    assert {edge["source"] for edge in facts["edges"]} <= {part["name"] for part in facts["subsets"]}
    assert len(facts["edges"]) > 0


@pytest.mark.slow
def test_graph_writes_what_it_prints(shell, project):
    """--all and --ladder are written as JSON, and as nothing else."""
    for words in (["--all"], ["--from", "cat(shelf)", "--ladder", "1", "--items", "5"]):
        code, out, _ = shell("graph", "toy", *words, "--json", "--out", "all.json")
        assert code == 0
        assert json.loads((project / "all.json").read_text()) == json.loads(out)
        code, _, err = shell("graph", "toy", *words, "--out", "all.png")
        assert code == 1
        assert "written as .json" in err


def test_a_ladder_keeps_to_the_papers_contexts_when_asked(shell, project):
    """--ontology leaves other places out of training sets too, as out of a graph."""
    carried = np.random.default_rng(0).random((200, 4)) < 0.6
    item, place = np.nonzero(carried)
    tags = Tags.of(np.append(np.arange(200), item), np.append(np.zeros(200, int), 1 + place),
                   ["dog", "beach", "field", "road", "lair"], ["object"] + ["place"] * 4)
    Collection("places", np.arange(200).astype(str), tags=tags).save("places")
    asked = ["graph", "places", "--from", "dog(beach)", "--ladder", "1", "--kind", "place", "--items", "5", "--json"]
    assert "lair" in json.loads(shell(*asked)[1])["rungs"][0]["subset"]
    assert json.loads(shell(*asked, "--ontology")[1])["rungs"][0]["subset"] == "dog(field + road)"


def test_a_picture_of_another_kind_is_refused_before_the_graph_is_made(shell, project):
    """The ending of --out is looked at first: no collection is opened for it."""
    code, _, err = shell("graph", "nowhere", "--class", "cat", "--out", "g.svg")
    assert (code, err) == (1, "shiftbench: g.svg: a graph is written as .png, .html or .json. Give one of these "
                              "endings.\n")


def test_check_says_unfit_with_exit_code_1(shell, project):
    """A benchmark with too small a test split is unfit; accepting the finding makes it fit."""
    shell("build", "recipe.toml", "--out", "b", "--set", "n_test=8", "--set", "n_train=100")
    code, out, _ = shell("check", "b")
    assert code == 1
    assert "small split" in out
    assert "b: unfit" in out
    assert shell("check", "b", "--allow", "small split")[0] == 0


@pytest.mark.parametrize(("words", "code", "message"), [
    (["show", "nowhere"], 1, "nowhere is not there"),
    (["show", "recipe.toml"], 1, "recipe.toml"),
    (["build", "nowhere.toml", "--out", "b"], 1, "nowhere.toml: no such file"),
    (["build", "recipe.toml", "--out", "b", "--set", "pp=1"], 1, "No setting named 'pp'. Did you mean 'p'"),
    (["build", "recipe.toml", "--out", "b", "--set", "collection=nothing"], 1, "nothing: no such folder"),
    (["build", "recipe.toml", "--out", "toy"], 1, "not ours to replace"),
    (["build", "toy", "--out", "b"], 1, "toy is a folder"),
    (["build", "recipe.toml"], 2, "--out"),
    (["check", "."], 1, "has no benchmark.json, so it is not a benchmark"),
    (["graph", "toy", "--class", "dgo"], 1, "Did you mean 'dog'"),
    (["graph", "toy", "--class", "dog", "--out", "g.pdf"], 1, "as .png, .html or .json"),
    (["graph", "toy"], 2, "--class"),
    (["score", "toy", "recipe.toml"], 1, "is not a benchmark"),
    (["report", "nowhere", "--out", "r.html"], 1, "nowhere"),
    (["read", "world", "sceens", "--out", "w"], 1, "Did you mean 'scenes'"),
    (["read", "world", "scenes", "--size", "7", "--out", "w"], 1, "32"),
    (["read", "world", "scenes", "--items", "0", "--out", "w"], 1, "items"),
    (["read", "wurld", "scenes", "--out", "w"], 2, "Did you mean 'world'"),
    (["bild"], 2, "Did you mean 'build'"),
    (["train", "toy", "--method", "erm", "--out", "runs"], 1, "is not a benchmark"),
    (["embed", "toy"], 1, "is not a benchmark"),
])
def test_bad_input_gets_one_clear_message(shell, project, words, code, message):
    """Exit 1 for bad data, 2 for wrong usage, no traceback, nothing half-written."""
    before = names(project)
    got, _, err = shell(*words)
    assert got == code, err
    assert message in " ".join(err.split()), err
    assert names(project) == before


@pytest.mark.parametrize("content", ["", "item\n", "item,prediction\n", "\0\1\2", "item,prediction\na,cat\n", "PAR1"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_broken_predictions_are_one_message(shell, project, content, ending):
    """Empty files, headers alone, binary rubbish and strange ids: exit 1 and the file is named."""
    shell("build", "recipe.toml", "--out", "b")
    (project / f"p.{ending}").write_text(content)
    code, out, err = shell("score", "b", f"p.{ending}", "--json")
    assert (code, out) == (1, "")
    assert f"p.{ending}" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("file", ["benchmark.json", "rows.parquet"])
@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_truncated_benchmark_is_one_message(shell, project, file, keep):
    """Whatever part of a file is missing, loading says which file."""
    shell("build", "recipe.toml", "--out", "b")
    (project / "b" / file).write_bytes((project / "b" / file).read_bytes()[:keep])
    code, _, err = shell("show", "b")
    assert code == 1
    assert file in err


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_answers_with_the_new(shell, old):
    """One line on standard error that names the verb and its option, and exit code 2."""
    code, out, err = shell(old, "x", "--to", "y")
    assert (code, out, err.count("\n")) == (2, "", 1)
    verb, option = re.search(r"shiftbench (\w+) .*?(--\w+)", err).groups()
    assert option in shell(verb, "--help")[1]


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda one: one.callback.__name__)
def test_every_verb_has_a_panel_and_an_example(command):
    """`--help` groups the verbs, and the help of each shows a command that uses it."""
    name = command.callback.__name__
    assert (command.rich_help_panel in PANELS) == (name != "demo")
    assert f"\n    shiftbench {name}" in command.callback.__doc__


@pytest.mark.slow
def test_the_module_can_be_run():
    """python -m shiftbench --version prints the version."""
    done = subprocess.run([sys.executable, "-m", "shiftbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"shiftbench {sb.__version__}\n"


def test_every_public_name_is_there():
    """What `import shiftbench` promises exists, and a wrong name is an AttributeError."""
    for name in sb.__all__:
        assert getattr(sb, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sb.nothing  # noqa: B018
