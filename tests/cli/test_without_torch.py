"""What needs no torch does not load it: lists, wrong arguments of every verb, scores and reports.

One fresh process does it all, so that the seconds an import of torch would take are paid nowhere.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.many_runs import make
from shiftbench.cli import app
from shiftbench.core.errors import plural, unknown
from shiftbench.core.tables import write_table
from shiftbench.shifts import Recipe, Subpopulation
from shiftbench.shifts.recipe import build
from tests.strategies import toy

SOURCE = Path(__file__).parents[2] / "src"

WRONG = {
    "audit": ["none.csv", "--data", "none.csv"],
    "board": ["none", "--benchmark", "none", "--out", "o"],
    "build": ["none.toml", "--out", "o"],
    "check": ["none"],
    "conflicts": ["none", "--model", "small-cnn", "--out", "o"],
    "demo": ["--items", "-1", "--out", "o"],
    "embed": ["none"],
    "export": ["none", "--out", "o"], "trust": ["none"],
    "download": ["none"], "fetch": ["none", "--out", "o"],
    "gap": ["none"],
    "gate": ["none.csv", "--data", "none.csv", "--floor", "accuracy=0.5"],
    "graph": ["none", "--class", "dog"],
    "hierarchy": ["none", "--level", "2"],
    "power": ["none"],
    "predict": ["none", "--model", "timm:resnet18"],
    "pretrain": ["none", "--label", "class", "--out", "o"],
    "report": ["none"],
    "retrain": ["none"],
    "score": ["none", "none.csv"],
    "select": ["none"],
    "show": ["none"],
    "studio": ["none"],
    "study": ["none", "--out", "o"],
    "sweep": ["none.toml", "--out", "o"],
    "table": ["none"],
    "train": ["none", "--method", "erm", "--out", "o"],
}
"""A wrong argument for every verb that takes any: mostly a folder that is not there."""

NAMES = [
    ("conflicts", "b", "--model", "resnet19", "--out", "o"),
    ("conflicts", "b", "--model", "small-cnn", "--device", "gpu", "--out", "o"),
    ("embed", "b", "--model", "resnet19"),
    ("embed", "b", "--model", "mlp"),
    ("pretrain", "toy", "--label", "class", "--model", "resnet19", "--out", "o"),
    ("pretrain", "toy", "--label", "class", "--set", "lr=fast", "--out", "o"),
    ("read", "table", "none.csv", "--id", "a", "--label", "b", "--out", "o"),
    ("read", "world", "scnes", "--out", "o"),
    ("retrain", "many/runs", "--device", "gpu"),
    ("retrain", "many/runs"),
    ("retrain", "many/runs", "--rates", "0.1,fast"),
    ("sweep", "study.toml", "--out", "o"),
    ("sweep", "study.toml", "--out", "o", "--dry-run", "--set", "methods=[\"erm\"]", "--set", "run.model=\"mpl\""),
    ("predict", "b", "--model", "net.pkl"),
    ("predict", "b", "--model", "nothing"),
    ("predict", "b", "--model", "timm:resnet18", "--device", "gpu"),
    ("train", "b", "--method", "ermm", "--out", "o"),
    ("train", "b", "--method", "erm", "--model", "mpl", "--out", "o"),
    ("train", "b", "--method", "erm", "--set", "lr=fast", "--out", "o"),
    ("train", "b", "--method", "erm", "--set", "augment=\"blur\"", "--out", "o"),
    ("train", "b", "--method", "erm", "--features", "resnet19@64", "--out", "o"),
    ("train", "b", "--method", "erm", "--device", "gpu", "--out", "o"),
    ("train", "b", "--method", "erm", "--preset", "metashit", "--out", "o"),
    ("train", "b", "--method", "sagnet", "--model", "mlp", "--out", "o"),
]
"""Names and values that are wrong although the folders are there."""

RIGHT = [
    ("methods",), ("methods", "--json"), ("show", "b"), ("show", "toy"), ("show", "many/runs"), ("check", "b"),
    ("score", "b", "guess.csv", "--out", "s.parquet"), ("report", "s.parquet", "--benchmark", "b"),
    ("report", "many/runs"), ("select", "many/runs"), ("power", "b"), ("table", "many/runs"),
    ("table", "s.parquet", "--format", "latex"), ("train", "--help"), ("--help",),
]

SCRIPT = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from shiftbench.cli import main

def run(words):
    sys.argv, said = ["shiftbench", *words], io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return {"words": words, "code": code, "said": said.getvalue(), "torch": "torch" in sys.modules}

json.dump([run(words) for words in json.load(sys.stdin)], sys.stdout)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """How each command ended in a process that began without torch, and whether torch was loaded by then."""
    place = tmp_path_factory.mktemp("project")
    toy(600).save(place / "toy")
    shift = Subpopulation(label="class", factor="place", majority={"cat": "indoors", "dog": "outdoors"}, p=0.2)
    benchmark = build(Recipe(place / "toy", shift, 0), place / "b")
    write_table(place / "guess.csv", pa.table({
        "item": benchmark.items, "prediction": np.asarray(benchmark.names["label"])[benchmark.label]}))
    (place / "study.toml").write_text('benchmarks = ["b"]\n[methods.irn]\n')
    make(place / "many", 20)
    commands = [*RIGHT, *((verb, *words) for verb, words in WRONG.items()), *NAMES]
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(SOURCE)], input=json.dumps(commands), capture_output=True,
                          text=True, cwd=place)
    assert done.returncode == 0, done.stderr
    return {tuple(one["words"]): one for one in json.loads(done.stdout)}


def test_every_verb_has_a_wrong_argument_here():
    """A new verb is entered above, or this fails. `methods` takes none, and `read` is a family of verbs."""
    verbs = {command.callback.__name__ for command in app.registered_commands}
    assert verbs == {*WRONG, "methods"}


@pytest.mark.slow
@pytest.mark.parametrize("words", RIGHT, ids=" ".join)
def test_lists_scores_and_reports_need_no_torch(outcomes, words):
    """What only lists, scores or reports ends well, without torch."""
    assert outcomes[words]["code"] == 0, outcomes[words]["said"]
    assert not outcomes[words]["torch"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(verb, *words) for verb, words in WRONG.items()] + NAMES, ids=" ".join)
def test_a_wrong_argument_is_told_before_torch_is_loaded(outcomes, words):
    """One line that says what is wrong, exit code 1, and no torch."""
    assert outcomes[words]["code"] == 1
    assert outcomes[words]["said"].startswith("shiftbench: ")
    assert outcomes[words]["said"].count("\n") == 1
    assert not outcomes[words]["torch"]


def test_the_nearest_verb_and_option_are_named(shell):
    """A slip in a verb, a format or an option is answered with what it may have meant, exit code 2."""
    for words, near in ((("sore", "x"), "score"), (("read", "tabel", "x"), "table"),
                        (("train", "b", "--methd", "erm"), "--method")):
        code, _, said = shell(*words)
        assert code == 2
        assert near in said


@pytest.mark.parametrize(("kind", "many"), [
    ("features", "features"), ("class", "classes"), ("kind of target", "kinds of target"), ("criterion", "criteria"),
    ("data set", "data sets"), ("category", "categories"), ("key", "keys")])
def test_kinds_are_told_in_the_plural(kind, many):
    """`Known features`, not `featureses`."""
    assert plural(kind) == many
    assert f"Known {many}: a, b." in str(unknown(kind, "zzz", ["a", "b"]))
