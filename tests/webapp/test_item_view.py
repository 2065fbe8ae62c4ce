"""The panel of an item: what it says of benchmarks and runs is what lies on disk, and nothing of a sealed item."""

from collections import Counter

import numpy as np
import pytest

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.webapp.item_view import SEALED, row_of
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.outcomes import finished_runs
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio

ON = "collections/scenes"


@pytest.fixture(scope="module")
def view(world):
    return Studio(Shelf([world]))


def asked(view, name, **state):
    return ANSWERS[name](view, Query({"on": ON, **state}))


def test_an_item_has_all_its_annotations(world, view):
    """Factors, texts, tags with areas and boxes, and the classes above its values."""
    items = Collection.load(world / ON)
    item = asked(view, "item", id=str(items.items[7]))
    assert item["row"] == row_of(items, Query({"row": "7"})) == 7
    assert {fact["name"]: fact["value"] for fact in item["factors"]} == {
        name: str(values[7]) for name, values in items.factors.items()}
    breed = next(fact for fact in item["factors"] if fact["name"] == "breed")
    assert breed["above"][0] == items.parents[breed["value"]][0]
    assert item["texts"] == items.texts.text[items.texts.item == 7].tolist()
    rows = np.flatnonzero(items.tags.item == 7)
    assert sorted(len(tag["boxes"]) for tag in item["tags"]) == sorted(
        np.count_nonzero(items.tags.box_row == row) for row in rows)
    assert {tag["name"]: tag["area"] for tag in item["tags"] if ":" not in tag["name"]}.items() >= {
        items.tags.names[items.tags.tag[row]]: float(items.tags.area[row]) for row in rows
        if items.tags.names.count(items.tags.names[items.tags.tag[row]]) == 1 and not np.isnan(items.tags.area[row])
    }.items()


def test_an_item_says_which_splits_hold_it(world, view):
    """The benchmark's own row: split, label and group; an item that no split holds has none."""
    benchmark = Benchmark.load(world / "benchmarks/minority")
    row = int(benchmark.rows("test")[0])
    assert asked(view, "item", id=str(benchmark.items[row]))["benchmarks"] == [{
        "id": "benchmarks/minority", "split": "test", "label": benchmark.names["label"][benchmark.label[row]],
        "group": benchmark.names["group"][benchmark.group[row]]}]
    outside = np.setdiff1d(Collection.load(world / ON).items, benchmark.items)[0]
    assert asked(view, "item", id=str(outside))["benchmarks"] == []
    assert asked(view, "predicted", id=str(outside))["methods"] == []


def test_predictions_of_an_item_are_those_of_the_runs(world, view):
    """Each run says the class of its largest score, and methods are summed up over their runs."""
    benchmark = Benchmark.load(world / "benchmarks/minority")
    rows = benchmark.rows("test")
    row = int(rows[~sealed(benchmark.items[rows])][0])
    says = {}
    for folder in (path.parent for path in (world / "runs").glob("*/done")):
        predictions = Predictions.load(folder / "predictions.parquet", benchmark)
        (at,) = np.flatnonzero(predictions.item == benchmark.items[row])
        says[folder.name] = predictions.classes[predictions.predicted[at]]
    answer = asked(view, "predicted", id=str(benchmark.items[row]))
    assert {run["run"]: run["says"] for line in answer["methods"] for run in line["runs"]} == says
    assert [line["method"] for line in answer["methods"]] == ["erm", "group_dro"]
    for line in answer["methods"]:
        times = Counter(run["says"] for run in line["runs"])
        assert line["right"] == times[benchmark.names["label"][benchmark.label[row]]]
        assert {said["name"]: said["n"] for said in line["says"]} == times


def test_nothing_is_told_of_a_sealed_item(world, view):
    """A sealed item has its annotations and its split, but no prediction, whichever way it is asked for."""
    benchmark = Benchmark.load(world / "benchmarks/minority")
    rows = benchmark.rows("test")
    id = str(benchmark.items[rows][sealed(benchmark.items[rows])][0])
    item = asked(view, "item", id=id)
    assert item["sealed"] == SEALED
    assert item["benchmarks"]
    for state in ({"id": id}, {"row": str(item["row"])}):
        answer = asked(view, "predicted", **state)
        assert (answer["methods"], answer["note"]) == ([], SEALED)


def test_runs_that_are_gone_are_not_asked(world, tmp_path):
    """A run is read once; one that was deleted since is left out."""
    (tmp_path / "runs").mkdir()
    names = sorted(path.parent.name for path in (world / "runs").glob("*/done"))
    for name in names[:2]:
        (tmp_path / "runs" / name).symlink_to(world / "runs" / name)
    assert [run.folder.name for run in finished_runs(tmp_path / "runs")] == names[:2]
    first = finished_runs(tmp_path / "runs")[1]
    (tmp_path / "runs" / names[0]).unlink()
    assert finished_runs(tmp_path / "runs") == [first]
    assert finished_runs(tmp_path / "runs")[0] is first
