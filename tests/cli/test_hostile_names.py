"""Names come from data and may hold anything: every verb prints them as they are, and the terminal obeys none."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import LONGEST, ShiftBenchError, printable
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.predictions import Predictions
from tests.leaderboard.test_boards import guesses, submit

LABELS = ("dog [indoor]", "cat\x1b[31m\nshiftbench: all is well")
PLACES = ("[/bold]", ":smile:")
CONTEXTS = ("[link=x]sofa", "b\x9bed\u202e", *(f"[{k}]" for k in range(5)))
TAGS = (*CONTEXTS, *LABELS)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A collection, a benchmark, runs, predictions, scores, a board and a hierarchy in which every name is hostile."""
    place = tmp_path_factory.mktemp("names")
    n, rng = 400, np.random.default_rng(0)
    label, where = np.asarray(LABELS)[rng.integers(0, 2, n)], np.asarray(PLACES)[rng.integers(0, 2, n)]
    item, tag = np.nonzero(rng.random((n, len(CONTEXTS))) < 0.5)
    own = len(CONTEXTS) + (label == LABELS[1])
    tags = Tags.of(np.concatenate([item, np.arange(n)]), np.concatenate([tag, own]), TAGS)
    collection = Collection("[red]toy", np.asarray([f"i{k}" for k in range(n)]),
                            {"[kind]": label, "\x1b[1mplace": where, "feature:x": rng.normal(size=n)}, tags,
                            parents=dict.fromkeys(TAGS, ("[/]animal\x07",)))
    collection.save(place / "toy")
    split = np.asarray(["train", "id_val", "id_test", "test"])[np.arange(n) % 4]
    made = Benchmark.of(collection, None, 0, np.arange(n), split, label=label, domain=where, card={
        "notes": ["a note\x1b[2J"], "collection": {"name": "toy", "path": "../toy", "digest": collection.digest}})
    made.save(place / "b", name="b[bold]")
    (place / "recipe.toml").write_text('collection = "toy"\n[shift.iid]\nlabel = "[kind]"\nheld = 0.2\n')
    guesses(made, 0, 0.8, made.splits).save(place / "[i]p.parquet")
    write_table(place / "q.csv", pa.table({"item": made.items, "prediction": np.asarray(LABELS)[made.label]}))
    sb.score(made, Predictions.load(place / "q.csv", made), by=["label"]).save(place / "scores.csv")
    submit(place / "board", "[b]team", made, [guesses(made, seed, 0.8, made.splits) for seed in range(2)],
           method="[/b]method")
    sb.train(place / "b", "erm", place / "runs", model="linear", features="columns", steps=2, batch_size=4,
             device="cpu", collection=place / "toy")
    (place / "[m].py").write_text("import numpy as np\ndef guess(rows):\n    return np.hstack([rows, -rows])\n")
    (place / "tree.json").write_text(json.dumps([["[/]root", name] for name in TAGS]))
    return place


SAID = {  # the words of a command, and names that it prints
    "show toy": ("[red]toy", "[kind]", "\x1b[1mplace", *LABELS, *PLACES, "[link=x]sofa", "b\x9bed\u202e"),
    "show b": ("b[bold]", "a note\x1b[2J", *LABELS, *PLACES),
    "show runs": ("b[bold]",),
    "graph toy --class": (LABELS[0], "[link=x]sofa"),
    "graph toy --all": LABELS,
    "build recipe.toml --out built": LABELS,
    "check b": (),
    "trust toy": (),
    "power b --difference 2": (*LABELS, *PLACES),
    "check b --references": (),
    "score b [i]p.parquet": ("[i]p", *LABELS, *PLACES),
    "score b q.csv --by label": LABELS,
    "audit [i]p.parquet --data b --split all --least 5 --out [i]a.json": ("[i]a.json",),
    "gate [i]p.parquet --data b --split all --floor accuracy=0.1": (),
    "predict b --model [m].py:guess --out [i]new.csv": ("[i]new.csv",),
    "select scores.csv": (),
    "select runs": ("b[bold]",),
    "gap runs": (),
    "table runs": (),
    "table scores.csv --format csv": (),
    "select scores.csv --hardest 2": (),
    "board board --benchmark b --seeds 2 --out page": ("[/b]method",),
    "hierarchy tree.json --level 0": ("[/]root", "[link=x]sofa"),
    "hierarchy toy": (),
    "export b --to csv --out [bold]csv": ("[bold]csv",),
    "report scores.csv --benchmark b --out [i]r.html": ("[i]r.html",),
}


@pytest.mark.parametrize("command", SAID)
def test_no_verb_obeys_a_name(shell, place, monkeypatch, command):
    """Brackets are printed as brackets, and control characters are spelled out; an error is one line."""
    monkeypatch.chdir(place)
    words = command.split()
    if words[-1] == "--class":
        words += [LABELS[0], "--min-size", "5", "--from", f"{LABELS[0]}([link=x]sofa)"]
    code, out, err = shell(*words)
    assert not CONTROL.search(out + err)
    assert "\nshiftbench: all is well" not in out + err
    if not SAID[command]:
        assert code in (0, 1)
        assert err.count("\n") == (code if not out else 0)
        return
    assert code == 0, err
    shown = "".join(out.split())  # long names are folded
    for name in SAID[command]:
        assert "".join(printable(name).split()) in shown, name


@pytest.mark.parametrize("command", ["show toy --json", "show b --json", "score b q.csv --json", "power b --json"])
def test_json_gives_names_back_as_they_are(shell, place, monkeypatch, command):
    """Escapes of JSON keep a terminal safe and cost nothing: what is parsed is the name."""
    monkeypatch.chdir(place)
    code, out, _ = shell(*command.split())
    assert code == 0
    assert not CONTROL.search(out)
    assert LABELS[1] in str(json.loads(out)) or repr(LABELS[1])[1:-1] in str(json.loads(out))


def test_every_verb_that_prints_names_is_tried():
    """A new verb is in the table above or is known to print no name from data."""
    silent = {"demo", "download", "methods", "train", "pretrain", "embed", "sweep", "fetch", "retrain", "conflicts",
              "studio", "study"}
    known = {command.callback.__name__ for command in app.registered_commands}
    assert known - silent == {command.split()[0] for command in SAID}


def test_only_one_file_talks_to_the_terminal():
    """No command imports rich or writes to standard output past `cli.command`, which takes no markup."""
    folder = Path(__file__).parents[2] / "src" / "shiftbench" / "cli"
    for path in folder.glob("*.py"):
        if path.name in ("command.py", "__init__.py"):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                assert not any(name.split(".")[0] == "rich" for name in names), path
            if isinstance(node, ast.Attribute):
                assert node.attr != "stdout", path
            if isinstance(node, ast.keyword):
                assert node.arg != "markup", path


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "\x9b1m", "\u202egod", "\u2028", "\ud800", "\x00", "\x7f"])
def test_a_message_is_one_printable_line(text):
    """Whatever a message quotes, it gives a terminal no orders and can be encoded."""
    message = str(ShiftBenchError(f"file: '{text}' is unknown"))
    assert message.isprintable()
    assert message.encode()
    assert len(str(ShiftBenchError("x" * 10**6))) <= LONGEST
