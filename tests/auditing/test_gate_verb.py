"""`shiftbench gate` and `build --from` on the command line: exit codes, files and messages."""

import json
import re
import shlex
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.auditing.contexts import keep
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.tables import read_table, write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection

N = 3000


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Metadata, an old model, one that is as good and one that is worse at night; an audit, and its contexts."""
    rng = np.random.default_rng(0)
    ids = np.asarray([f"{number:05d}" for number in range(N)])
    light, label = rng.choice(["day", "night"], N), rng.choice(["cat", "dog"], N)
    wrong = {"old": rng.random(N) < 0.2}
    wrong["same"] = wrong["old"].copy()
    wrong["worse"] = wrong["old"] | ((light == "night") & (rng.random(N) < 0.3))
    monkeypatch.chdir(tmp_path)
    write_table("data.csv", pa.table({"item": ids, "light": light, "label": label}))
    for name, mask in wrong.items():
        other = np.where(label == "cat", "dog", "cat")
        write_table(f"{name}.csv", pa.table({"item": ids, "prediction": np.where(mask, other, label)}))
    Collection("street", ids, {"light": light, "class": label}).save("street")
    night = (Predicate("light", "night", "factor", "light is night"),)
    numbers = (0.3, 0.25, 0.35, 0.2, 0.1, 0.05, 0.15, 1.5, 1.2, 1.8, 1e-4, 1e-3, 0.12)
    audit = Audit((Finding(night, 700, 800, 1500, *numbers),), (), {"loss": "error", "label": "class"})
    audit.save("audit.json")
    keep(audit, "saved.toml")
    return tmp_path


GATE = ("--data", "data.csv", "--against", "old.csv", "--contexts", "saved.toml")


def test_the_exit_code_is_the_outcome(shell, project):
    """0 where all checks pass, 1 where one fails, 1 with one line where nothing can be tested."""
    assert shell("gate", "same.csv", *GATE)[0] == 0
    code, out, _ = shell("gate", "worse.csv", *GATE)
    assert code == 1
    assert "light is night" in out
    code, _, err = shell("gate", "same.csv", "--data", "data.csv")
    assert (code, err.count("\n")) == (1, 1)
    assert "nothing to test" in err


def test_the_terminal_names_the_contexts_and_the_audit_that_looks_for_others(shell, project):
    """A warning stands in the first line; the command has the names of the files."""
    _, out, _ = shell("gate", "same.csv", *GATE, "--budget", "0.1", "--unsure", "warn")
    lines = out.splitlines()
    assert lines[0].startswith("Pass with a warning: 2 with too few items to tell of 2 checks.")
    assert "light is night" in out
    assert lines[-1].endswith("To look for others: shiftbench audit same.csv --data data.csv --against old.csv")


def test_the_audit_that_a_gate_names_runs_as_it_is_printed(shell, project):
    """It has the columns that the gate was told of."""
    data = read_table("data.csv", text=("item",))
    write_table("frames.csv", data.rename_columns(["frame", "light", "what it is"]))
    for name in ("old", "same"):
        write_table(f"{name}.csv", read_table(f"{name}.csv", text=("item",)).rename_columns(["item", "says"]))
    _, out, _ = shell("gate", "same.csv", "--data", "frames.csv", "--against", "old.csv", "--id", "frame", "--label",
                      "what it is", "--column", "item=item", "--column", "prediction=says")
    words = shlex.split(out.splitlines()[-1].partition("To look for others: shiftbench ")[2])
    assert words[6:] == ["--id", "frame", "--label", "what it is", "--column", "item=item", "--column",
                         "prediction=says"]
    assert shell(*words)[0] == 0


def test_an_empty_prediction_is_refused(shell, project):
    """Items are counted and named: an empty prediction is neither right nor wrong, for audit and gate."""
    (project / "gaps.csv").write_text(re.sub(r'(?m)^("?00003"?),.*$', r"\1,", (project / "same.csv").read_text()))
    for words in (("gate", "gaps.csv", *GATE), ("gate", "same.csv", "--against", "gaps.csv", "--data", "data.csv"),
                  ("audit", "gaps.csv", "--data", "data.csv")):
        code, out, err = shell(*words)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "gaps.csv: the prediction of 1 of 3,000 items is empty or no number: '00003'. Predict" in err


def test_junit_and_summary_are_written_whatever_the_outcome(shell, project):
    """A case per check, and a table for the pull request."""
    code, *_ = shell("gate", "worse.csv", *GATE, "--floor", "accuracy=0.5", "--junit", "gate.xml", "--summary",
                     "gate.md", "--quiet")
    suite = ElementTree.parse("gate.xml").getroot().find("testsuite")  # noqa: S314
    assert code == 1
    assert [case.get("name") for case in suite] == ["all items", "light is night", "accuracy"]
    assert [case.find("failure") is not None for case in suite] == [True, True, False]
    assert (project / "gate.md").read_text().startswith("### ❌")


def test_json_has_every_check(shell, project):
    """Value, interval, limit and verdict of each."""
    _, out, _ = shell("gate", "same.csv", *GATE, "--budget", "0.1", "--unsure", "warn", "--json")
    outcome = json.loads(out)
    assert outcome["passed"]
    assert {check["verdict"] for check in outcome["checks"]} == {"unsure"}
    assert all(check["low"] <= check["value"] <= check["high"] for check in outcome["checks"])


@pytest.mark.parametrize(("words", "message"), [
    (("--floor", "accuracy"), "not of the form NAME=NUMBER"), (("--floor", "accuracy=high"), "NAME=NUMBER"),
    (("--floor", "macro_f1=0.9", "--floor", "macro_f1=0.5"), "--floor names 'macro_f1' twice: 0.9 and 0.5."),
    (("--unsure", "maybe"), "No choice of --unsure named 'maybe'. Known choices of --unsure: fail, pass, warn."),
    (("--level", "95"), "between 0 and 1"), (("--contexts", "none.toml"), "no such"),
    (("--budget", "nan"), "must be a number"),
])
def test_what_is_wrong_is_one_line(shell, project, words, message):
    code, _, err = shell("gate", "same.csv", "--data", "data.csv", "--against", "old.csv", *words)
    assert (code, err.count("\n")) == (1, 1)
    assert message in err


def test_a_benchmark_is_tested_on_its_test_items_and_by_its_own_groups(shell, project):
    """Floors are what `score` says of the benchmark."""
    benchmark = sb.build(sb.Given(label="class", domain="light"), "bench", collection="street")
    scores = sb.score(benchmark, "worse.csv")
    worst = next(row for row in scores if row["metric"] == "worst_group_accuracy" and row["by"] == "")
    _, out, _ = shell("gate", "worse.csv", "--data", "bench", "--floor", "worst_group_accuracy=0.9", "--json")
    (check,) = json.loads(out)["checks"]
    assert (check["value"], check["n"], check["verdict"]) == (worst["value"], worst["n"], "fail")


@pytest.mark.parametrize("named", ["light", "class"])
def test_the_floors_of_a_benchmark_are_about_the_label_that_is_named(shell, project, named):
    """Its own groups are those of its own label; by another factor of its collection the classes are the groups."""
    sb.build(sb.Given(label="class", domain="light"), "bench", collection="street")
    collection = Collection.load("street")
    write_table("right.csv", pa.table({"item": collection.items, "prediction": collection.factors[named]}))
    floors = ("--floor", "accuracy=0.9", "--floor", "worst_group_accuracy=0.9", "--json")
    code, out, _ = shell("gate", "right.csv", "--data", "bench", "--label", named, *floors)
    assert (code, [check["value"] for check in json.loads(out)["checks"]]) == (0, [1.0, 1.0])


@pytest.mark.parametrize("data", ["bench", "split.csv"])
@pytest.mark.parametrize("split", ["test", "val", "train", "all"])
def test_a_floor_is_tested_on_the_items_of_the_split(shell, project, data, split):
    """Of a benchmark and of a table with a column `split`; `all` is the items of all splits together."""
    splits = np.asarray(["train", "val", "test"])[np.arange(N) % 3]
    table = read_table("data.csv", text=("item",))
    write_table("split.csv", table.append_column("split", pa.array(splits.tolist())))
    collection = Collection.load("street")
    Benchmark.of(collection, None, 0, np.arange(N), splits, label=collection.factors["class"],
                 domain=collection.factors["light"]).save("bench")
    inside = np.isin(splits, ["train", "val", "test"] if split == "all" else [split])
    share = np.mean(np.asarray(read_table("worse.csv")["prediction"])[inside] == collection.factors["class"][inside])
    words = ("gate", "worse.csv", "--data", data, "--floor", "accuracy=0.5", "--json")
    _, out, err = shell(*words, "--split", split)
    assert "are not in the benchmark" not in err  # items of other splits are no surprise
    (check,) = json.loads(out)["checks"]
    assert (check["value"], check["n"]) == (pytest.approx(share), inside.sum())
    assert json.loads(shell(*words)[1])["checks"][0]["n"] == N // 3


def test_a_floor_reads_the_columns_that_the_join_read(shell, project):
    """The column of ids by another name in both files, and that of the predictions in one of the two."""
    rename("data.csv", {"item": "path"})
    rename("same.csv", {"item": "path", "prediction": "guess"})
    rename("old.csv", {"item": "path"})
    words = ("--against", "old.csv", "--data", "data.csv", "--id", "path", "--column", "prediction=guess")
    assert shell("gate", "same.csv", *words, "--floor", "accuracy=0.5")[0] == 0
    code, _, err = shell("gate", "old.csv", *words)
    assert (code, "old.csv: No column named 'guess'" in err) == (1, True)


def rename(file: str, columns: dict[str, str]) -> None:
    table = read_table(file, text=("item",))
    write_table(file, table.rename_columns([columns.get(name, name) for name in table.column_names]))


def test_a_finding_becomes_a_benchmark(shell, project):
    """`build --from audit.json#1` is `sb.build(audit, finding=1)`, and the saved benchmark finds its collection."""
    code, out, err = shell("build", "--from", "audit.json#1", "--collection", "street", "--out", "night")
    assert code == 0, err
    assert "light is night" in out
    built = Benchmark.load("night")
    assert built.digest == sb.build(Audit.load("audit.json"), finding=1, collection="street").digest
    assert shell("check", "night")[0] == 0
    for words, message in ((("--from", "audit.json"), "names no finding"), (("--from", "audit.json#2"), "no finding 2"),
                           (("--from", "audit.json#0"), "finding"), ((), "nothing to build")):
        code, _, err = shell("build", *words, "--collection", "street", "--out", "other")
        assert (code, err.count("\n")) == (1, 1)
        assert message in err
