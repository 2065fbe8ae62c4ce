"""Predictions and data are joined by id; what does not match is counted, and nothing is dropped silently."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.auditing.join import join
from shiftbench.auditing.model_outputs import LOSSES, loss_named
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from tests.strategies import toy

ERROR = LOSSES["error"]
DATA = {"id": ["a", "b", "c", "d"], "label": ["cat", "dog", "cat", "dog"], "light": ["day", "night", "day", "night"]}


def guess(*classes, items="abcd", **columns):
    return {"item": list(items), "prediction": list(classes), **columns}


def test_rows_are_matched_by_id_not_by_order():
    """The items stand in the order of the data, whatever that of the predictions is."""
    items = join(guess("dog", "dog", "cat", "dog", items="dcba"), DATA, ERROR)
    assert items.known.items.tolist() == list("abcd")
    assert items.predicted.tolist() == ["dog", "cat", "dog", "dog"]
    assert items.loss.tolist() == [1, 1, 1, 0]
    assert list(items.known.factors) == ["light"]
    assert items.notes == ()


def test_what_does_not_match_is_counted_and_named():
    """Predictions without data, data without predictions and items without a label: one note each."""
    data = {**DATA, "label": ["cat", "dog", "", "dog"]}
    items = join(guess("cat", "dog", "dog", "dog", items="abcx"), data, ERROR)
    assert items.known.items.tolist() == ["a", "b"]
    assert len(items.notes) == 3
    assert "1 of 4 ids of the predictions are not in the data, the first is 'x'" in items.notes[0]
    assert "1 of 4 items of the data have no prediction" in items.notes[1]
    assert "1 items have nothing in column 'label'" in items.notes[2]


NUMBERS = {**DATA, "label": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(("predictions", "data", "loss"), [
    (guess("cat", "", "cat", ""), DATA, "error"),
    (pa.table(guess("cat", None, "cat", None)), DATA, "error"),
    (guess(*["cat"] * 4, confidence=[0.9, math.nan, 0.8, math.nan]), DATA, "error"),
    (guess(*["cat"] * 4, confidence=[0.9, math.nan, 0.8, math.nan]), DATA, "nll"),
    ({"item": list("abcd"), "prob:cat": [1, math.nan, 0, 0.5], "prob:dog": [0, 1, 1, math.nan]}, DATA, "error"),
    (guess(1.0, math.nan, 3.0, math.nan), NUMBERS, "squared"),
    (Predictions(np.asarray(list("abcd")), np.full(4, "test"), np.asarray(
        [[1, 0], [math.nan, 1], [0, 1], [1, math.nan]], np.float32), ("cat", "dog")), DATA, "error"),
])
def test_a_prediction_that_is_empty_is_refused_and_never_an_error_of_the_model(predictions, data, loss):
    """A blank cell, NaN as a score, a confidence or a number: the items are counted and named."""
    with pytest.raises(ShiftBenchError, match=r"of 2 of 4 items is empty or no number: 'b', 'd'\. Predict these items, "
                                              "or drop their rows"):
        join(predictions, data, LOSSES[loss])


def test_an_empty_prediction_of_an_item_that_is_not_audited_does_not_matter():
    """Of an id that the data do not have; and an item whose row is dropped is counted in a note."""
    items = join(guess("cat", "dog", "cat", "", items="abcx"), DATA, ERROR)
    assert items.loss.tolist() == [0, 0, 0]
    assert "1 of 4 items of the data have no prediction" in items.notes[1]


@pytest.mark.parametrize(("predictions", "data", "name"), [
    ({"id": list("abcd"), "yhat": ["cat"] * 4}, DATA, "yhat"),
    ({"id": list("abcd"), "pred": ["cat"] * 4, "time": [1, 2, 3, 4]}, DATA, "pred"),
    ({"id": list("abcd"), "one": ["cat"] * 4, "two": ["cat"] * 4}, DATA, "NAME"),
    ({"id": list("abcd"), "label": ["cat"] * 4, "said": ["cat"] * 4}, {"id": list("abcd"), "x": list("uvuv")}, "said"),
])
def test_a_column_of_predictions_under_another_name_is_suggested(predictions, data, name):
    """The message has the option, with the column that is meant if one is likely."""
    with pytest.raises(ShiftBenchError, match=rf"no column 'prediction'.* --column prediction={name}\."):
        join(predictions, data, ERROR)


@pytest.mark.parametrize(("predictions", "data", "message"), [
    (guess(*["cat"] * 4, items="wxyz"), DATA, r"None of the 4 ids of the predictions \('w', …\) is in the data"),
    (guess(*["cat"] * 4, items="aabb"), DATA, "2 ids occur more than once, the first is 'a'"),
    (guess(*["cat"] * 4), {**DATA, "id": list("aacd")}, "1 ids occur more than once"),
    (guess(*["bird"] * 12, items="abcdefghijkl"), {"id": list("abcdefghijkl"), "label": ["cat", "dog"] * 6},
     "none of the predicted classes .bird. is a label .cat, dog."),
    ({"prediction": ["cat"]}, DATA, "has no column item, id or item_id"),
    (guess(*["cat"] * 4), {"id": list("abcd"), "light": list("abcd")}, "Name the column of the truth with --label"),
    (guess(*["cat"] * 4), {**DATA, "label": [""] * 4}, "no item has both a prediction and a value"),
    ({"item": [], "prediction": []}, DATA, "has no rows"),
    (5, DATA, "int is neither a table of predictions"),
    (guess(*["cat"] * 4), 5, "int is neither a table, a collection nor a benchmark"),
])
def test_what_cannot_be_joined_is_one_clear_message(predictions, data, message):
    """Nothing in common, doubled ids, other classes, no ids, no truth, no rows, no table."""
    with pytest.raises(ShiftBenchError, match=message):
        join(predictions, data, ERROR)


def test_the_truth_may_stand_in_either_table():
    """By name, or as `label` or `true` of the data or of the predictions; the column is then no predicate."""
    plain = {key: DATA[key] for key in ("id", "light")}
    truth = DATA["label"]
    for items in (join(guess(*truth), {**plain, "kind": truth}, ERROR, label="kind"),
                  join(guess(*truth, true=truth), plain, ERROR),
                  join(guess(*truth, label=truth), plain, ERROR),
                  join(guess(*truth, kind=truth), plain, ERROR, label="kind")):
        assert items.truth.tolist() == truth
        assert items.loss.sum() == 0
        assert list(items.known.factors) == ["light"]


def test_a_column_without_a_name_is_one_more_column():
    """As pandas writes its index; it is not taken for the label."""
    items = join(guess(*DATA["label"]), {**DATA, "": [0, 1, 2, 3]}, ERROR)
    assert items.label == "label"
    assert list(items.known.factors) == ["light", "unnamed"]


def test_classes_may_be_codes_or_scores():
    """Predicted codes are those of the sorted labels; columns of scores give classes, confidence and log-loss."""
    assert join(guess("0", "1", "1", "1"), DATA, ERROR).loss.tolist() == [0, 0, 1, 0]
    for truth in ([0, 1, 0, 1], [0.0, 1.0, None, 1.0], ["0.0", "1.0", "", "1.0"]):
        items = join(guess("0", "1", "1", "1"), {"id": list("abcd"), "label": truth}, ERROR)
        assert items.loss.tolist() == ([0, 0, 1, 0] if None not in truth and "" not in truth else [0, 0, 0])
    scores = {"item": list("abcd"), "prob:cat": [0.9, 0.5, 0.2, 0.0], "prob:dog": [0.1, 0.5, 0.8, 0.0],
              "prob:cow": [0.0, 0.0, 0.0, 1.0]}
    items = join(scores, DATA, LOSSES["nll"])
    assert items.predicted.tolist() == ["cat", "cat", "dog", "cow"]
    assert np.allclose(items.confidence, [0.9, 0.5, 0.8, 1.0])
    assert np.allclose(items.loss, [-math.log(0.9), -math.log(0.5), -math.log(0.2), -math.log(1e-6)])


def test_classes_alone_have_an_error_and_no_log_loss():
    """One line says what can be audited."""
    with pytest.raises(ShiftBenchError, match=r"classes without probabilities.*Use --loss error"):
        join(guess(*DATA["label"]), DATA, LOSSES["nll"])


def test_numbers_have_distances():
    """Squared and absolute errors of numbers, with gaps in the truth left out."""
    data = {"id": list("abcd"), "label": [1.0, 2.0, None, 4.0]}
    for name, wanted in (("squared", [0, 4, 1]), ("absolute", [0, 2, 1])):
        items = join({"item": list("abcd"), "prediction": [1.0, 4.0, 0.0, 3.0]}, data, LOSSES[name])
        assert items.loss.tolist() == wanted
        both = {"item": list("abcd"), "label": [1.0, 2.0, None, 4.0], "prediction": [1.0, 4.0, 0.0, 3.0]}
        assert join(both, {"id": list("abcd"), "light": list("dndn")}, LOSSES[name]).loss.tolist() == wanted
        ours = {"item": list("abcd"), "score:label": [1.0, 4.0, 0.0, 3.0]}
        assert join(ours, data, LOSSES[name]).loss.tolist() == wanted
    with pytest.raises(ShiftBenchError, match="holds words, but the loss 'squared' is for numbers"):
        join(guess(*DATA["label"]), DATA, LOSSES["squared"])


def test_a_metric_of_ones_own_is_a_loss(monkeypatch):
    """Where it says what each item adds; of a share that is better higher, the rest of 1. An item may have none."""
    from shiftbench.scoring.metrics import METRICS, Metric

    monkeypatch.setitem(METRICS, "kind", Metric("kind", "kindness", own=True, items=lambda label, scores: np.where(
        label == 0, np.nan, 0.25)))
    items = join(guess(*DATA["label"]), DATA, loss_named("kind"))
    assert items.loss.tolist() == [0.75, 0.75]
    assert "2 items have no loss that is a number" in items.notes[-1]
    with pytest.raises(ShiftBenchError, match=r"No loss named 'eror'. Did you mean 'error'"):
        loss_named("eror")


def test_two_models_are_paired_by_item():
    """The loss is the change of every item that both have predicted."""
    items = join(guess("cat", "cat", "dog", items="abc"), DATA, ERROR, against=guess("dog", "dog", "dog", items="bca"))
    assert items.known.items.tolist() == list("abc")
    assert items.loss.tolist() == [-1, 1, 0]


def test_a_benchmark_is_audited_on_test():
    """Only the items of its split test, unless another is named, with what its collection knows."""
    collection = toy(200)
    split = np.asarray(["train", "test"])[np.arange(200) % 2]
    benchmark = Benchmark.of(collection, None, 0, np.arange(200), split, label=collection.factors["class"],
                             domain=collection.factors["place"])
    scores = np.eye(2, dtype=np.float32)[benchmark.label]
    predictions = Predictions(benchmark.items, benchmark.split, scores, benchmark.names["label"])
    items = join(predictions, benchmark, ERROR)
    assert (len(items), items.split, items.loss.sum()) == (100, "test", 0)
    assert "Only the 100 items of split 'test' are audited" in items.notes[0]
    assert len(join(predictions, benchmark, ERROR, split="all")) == 200
    assert len(join(predictions, collection, ERROR, label="class", split="train")) == 100
    unknown = replace(benchmark, split=np.where(np.arange(200) < 50, "unlabelled", benchmark.split))
    assert len(join(predictions, unknown, ERROR, split="all")) == 150
    with pytest.raises(ShiftBenchError, match=r"No split named 'tset'. Did you mean 'test'"):
        join(predictions, benchmark, ERROR, split="tset")


def test_a_model_that_was_trained_on_test_items_is_refused(tmp_path):
    """Its predictions say so: their split is `train` where the benchmark holds the item out."""
    collection = toy(40)
    benchmark = Benchmark.of(collection, None, 0, np.arange(40), np.full(40, "test"),
                             label=collection.factors["class"], domain=collection.factors["place"])
    wrong = {"item": benchmark.items, "split": np.full(40, "train"), "prediction": collection.factors["class"]}
    with pytest.raises(ShiftBenchError, match="trained on 40 items that the benchmark holds out"):
        join(wrong, benchmark, ERROR)


def test_files_folders_and_frames_say_the_same(tmp_path):
    """A CSV file, a parquet file, a frame and the folder of a collection give the same losses."""
    collection = toy(60)
    label = collection.factors["class"]
    table = pa.table({"scan": collection.items, "species": label, "place": collection.factors["place"],
                      "embedding": [[0.0, 1.0]] * 60})
    write_table(tmp_path / "data.csv", table.drop_columns("embedding"))
    write_table(tmp_path / "data.parquet", table)
    collection.save(tmp_path / "toy")
    predictions = pa.table({"scan": collection.items, "pred": np.roll(label, 1)})
    write_table(tmp_path / "p.csv", predictions)
    wanted = (np.roll(label, 1) != label).astype(float)
    for data, name in ((tmp_path / "data.csv", "species"), (tmp_path / "data.parquet", "species"), (table, "species"),
                       (tmp_path / "toy", "class"), (sb.Collection.load(tmp_path / "toy"), "class")):
        for source in (tmp_path / "p.csv", predictions):
            columns = {"prediction": "pred", "item": "scan"}
            items = join(source, data, ERROR, label=name, id="scan" if name == "species" else "", columns=columns)
            assert (items.loss == wanted).all()
            assert "place" in items.known.factors
    assert "'embedding' is left out: it holds list" in join(predictions, table, ERROR, label="species", id="scan",
                                                            columns={"prediction": "pred"}).notes[0]
    with pytest.raises(ShiftBenchError, match=r"holds neither benchmark.json nor collection.json"):
        join(predictions, tmp_path, ERROR)
