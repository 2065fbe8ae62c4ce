"""Files of predictions are scored on the authors' lists of hard items."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.scoring import score
from shiftbench.shifts.challenge_sets import HardIds
from tests.scoring.test_kinds import bench, model
from tests.scoring.test_score import only
from tests.shifts.test_criteria import write_lists


def publish(folder, made, criterion="CE", task="car"):
    """The lists that the authors would have written for a benchmark."""
    kind = made.extra["kind"]
    for split, phase in (("id_val", "valid"), ("test", "test")):
        rows = made.rows(split)
        write_lists(folder, criterion, task, phase, HardIds(*(
            made.items[rows[kind[rows] == side]] for side in ("hard_positive", "hard_negative"))))


@pytest.fixture
def lists(tmp_path):
    made = bench()
    for criterion in ("CE", "gist"):
        publish(tmp_path / "nooch", made, criterion)
    return made, model(made), tmp_path


def write(path, made, guess, splits=("test",), **columns):
    """A file of one logit per image, as the authors' own evaluation takes it."""
    rows = np.flatnonzero(np.isin(made.split, splits))
    there = made.names["label"].index("car")
    table = {"item": made.items[rows], "logit": (guess.scores[:, there] - guess.scores[:, 1 - there])[rows]}
    write_table(path, pa.table({**table, **{name: values[rows] for name, values in columns.items()}}))
    return path


def test_any_file_is_scored_on_the_published_lists(lists):
    """One logit per image, no benchmark: AUC-hard is scikit-learn's on the listed rows; others are passed over."""
    made, guess, folder = lists
    found = sb.score(write(folder / "m.csv", made, guess), nooch=folder / "nooch")
    assert set(found["benchmark"].tolist()) == {"nooch-ce-car", "nooch-gist-car"}
    ours = score(made, guess)
    for group, metric in (("hard", "auc"), ("hard", "ece"), ("hard_positive", "nll"), ("hard_negative", "error")):
        theirs = only(found, benchmark="nooch-ce-car", split="test", group=group, metric=metric)
        mine = only(ours, split="test", group=group, metric=metric)
        assert (theirs["value"], theirs["n"]) == (pytest.approx(mine["value"]), mine["n"])
    assert "easy" not in found["group"]


@pytest.mark.parametrize("task", ["car", "tie"])
@pytest.mark.parametrize("column", ["logit", "probability", "both"])
def test_a_tie_says_no_whatever_the_alphabet(task, column, tmp_path):
    """At logit 0 the authors say that the class is not there: of `car` and of `tie`, before and behind `no …`."""
    made = bench()
    publish(tmp_path / "nooch", made, "CE", task)
    rows = made.rows("test")
    even = {"logit": {"logit": 0.0}, "probability": {"probability": 0.5}, "both": {task: -0.5, f"no {task}": -0.5}}
    write_table(tmp_path / "m.csv", pa.table({"item": made.items[rows], **{
        name: np.full(len(rows), value) for name, value in even[column].items()}}))
    found = sb.score(tmp_path / "m.csv", nooch=tmp_path / "nooch", task=task).where(split="test", metric="error")
    assert only(found, group="hard_positive")["value"] == 1
    assert only(found, group="hard_negative")["value"] == 0
    ranks = sb.score(tmp_path / "m.csv", nooch=tmp_path / "nooch", task=task).where(split="test", metric="auc")
    assert only(ranks, group="hard")["value"] == 0.5


def test_a_missing_file_is_one_clear_line(lists):
    """Under `--nooch` the first name is a file of predictions; where it is not there, that is what is said."""
    with pytest.raises(ShiftBenchError, match=r"mine.csv: there is no such file. With nooch"):
        sb.score(lists[2] / "mine.csv", nooch=lists[2] / "nooch")


def test_with_the_truth_easy_images_count_too(lists):
    """A column `truth` gives labels to the images on no list, and all numbers are those of the whole benchmark."""
    made, guess, folder = lists
    truth = (made.label == made.names["label"].index("car")).astype(int)
    path = write(folder / "m.parquet", made, guess, ("id_val", "test"), truth=truth,
                 split=np.where(made.split == "test", "test", "valid"))
    found, ours = sb.score(path, nooch=folder / "nooch").where(benchmark="nooch-ce-car"), score(made, guess)
    for split in ("id_val", "test"):
        for group in ("all", "hard", "easy"):
            assert only(found, split=split, group=group, metric="auc")["value"] == pytest.approx(
                only(ours, split=split, group=group, metric="auc")["value"])


def test_a_benchmark_takes_its_kinds_from_the_lists(lists):
    """Kinds of its own are replaced; where no item is listed, or no task is known, that is said."""
    made, guess, folder = lists
    other = Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, made.card,
                      {"kind": np.full(len(made), "easy")})
    found = sb.score(other, guess, nooch=folder / "nooch").where(benchmark="nooch-gist-car")
    assert only(found, split="test", group="hard", metric="auc")["value"] == pytest.approx(
        only(score(made, guess), split="test", group="hard", metric="auc")["value"])
    renamed = Benchmark(np.char.add("x", made.items), made.split, made.label, made.domain, made.group, made.names,
                        made.card, made.extra)
    with pytest.raises(ShiftBenchError, match="listed images of 'car' is an item of benchmark 'ce-car'"):
        sb.score(renamed, guess, nooch=folder / "nooch")
    with pytest.raises(ShiftBenchError, match="No task named 'cat'"):
        sb.score(made, guess, nooch=folder / "nooch", task="cat")


@pytest.mark.parametrize(("change", "why"), [
    (lambda table: table.slice(1), "have no prediction"),
    (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "appears more than once"),
    (lambda table: table.rename_columns(["image", "logit"]), "has no column 'item'"),
    (lambda table: table.rename_columns(["item", "number"]), "needs a column 'prediction'"),
    (lambda table: table.set_column(0, "item", pa.array(map(str, range(9000, 9000 + len(table))))), "is on a list"),
    (lambda table: table.set_column(1, "logit", pa.array(["a"] * len(table))), "not all numbers"),
    (lambda table: table.set_column(1, "logit", pa.array([math.nan] * len(table))), "Give every image a finite"),
    (lambda table: table.set_column(1, "probability", pa.array([2.0] * len(table))), "a number from 0 to 1"),
    (lambda table: table.append_column("truth", pa.array(["maybe"] * len(table))), "maybe"),
    (lambda table: table.append_column("split", pa.array(["dev"] * len(table))), "dev"),
])
def test_a_bad_file_is_refused_in_words(lists, change, why):
    """What is missing, doubled, misnamed or no number is told, with the file's name where it is the file's fault."""
    made, guess, folder = lists
    import pyarrow.parquet as pq

    path = write(folder / "m.parquet", made, guess)
    table = pq.read_table(path)
    kind = made.extra["kind"][np.isin(made.split, ["test"])]
    order = np.argsort(kind == "easy", kind="stable")  # a listed image first
    write_table(path, change(table.take(pa.array(order))))
    with pytest.raises(ShiftBenchError, match=why):
        sb.score(path, nooch=folder / "nooch")


def test_images_of_both_splits_say_which(lists):
    """With the truth of images on no list, two splits need a column that tells them apart."""
    made, guess, folder = lists
    path = write(folder / "m.csv", made, guess, ("id_val", "test"), truth=made.label)
    with pytest.raises(ShiftBenchError, match="a column 'split'"):
        sb.score(path, nooch=folder / "nooch")


def test_the_command_scores_on_lists(lists, shell):
    """`shiftbench score FILE --nooch FOLDER --json` has AUC-hard of either criterion; no file is one message."""
    made, guess, folder = lists
    path = write(folder / "m.csv", made, guess)
    code, out, _ = shell("score", path, "--nooch", folder / "nooch", "--task", "car", "--json")
    assert code == 0
    runs = {run["benchmark"]: run["splits"]["test"]["groups"]["hard"]["auc"] for run in json.loads(out)["runs"]}
    assert set(runs) == {"nooch-ce-car", "nooch-gist-car"}
    assert runs["nooch-ce-car"]["value"] == pytest.approx(
        only(score(made, guess), split="test", group="hard", metric="auc")["value"])
    code, _, said = shell("score", made.save(folder / "b"), "--nooch", folder / "nooch")
    assert code
    assert "no predictions" in said
