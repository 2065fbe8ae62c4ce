"""Predictions and data are joined by id; what does not match is counted, and nothing is dropped silently."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.auditing.join import TableItems, join, rows_of
from shiftbench.auditing.model_outputs import LOSSES, loss_named, no_doubles
from shiftbench.core.arrays import Words
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


def test_a_column_that_is_not_utf8_is_left_out_with_a_note(tmp_path):
    """A CSV file in Latin-1 keeps the columns that are plain letters."""
    (tmp_path / "data.csv").write_text("id,label,city\na,cat,Köln\nb,dog,Bonn\n", encoding="latin-1")
    items = join(guess("cat", "dog", items="ab"), tmp_path / "data.csv", ERROR)
    assert items.notes == ("'city' is left out: it holds bytes that are no UTF-8 text.",)


def test_predictions_that_are_no_label_are_counted_and_named():
    """Another spelling counts as an error, and numbers count the labels: a note says so."""
    many = {"id": list("abcdefghijkl"), "label": ["cat", "dog"] * 6}
    assert join(guess(*["cat", "DOG", "none", "dog"] * 3, items=many["id"]), many, ERROR).notes == (
        "the predictions: 6 of 12 predictions name a class that no item has in column 'label' ('DOG', 'none'); they "
        "count as errors.",)
    scores = {"item": many["id"], "prob:bird": [1.0] + [0] * 11, "prob:cat": [0.0] + [1] * 11, "prob:dog": [0.0] * 12}
    assert "1 of 12 predictions name a class that no item has" in join(scores, many, ERROR).notes[0]
    assert join(guess("0", "1", "0", "1"), DATA, ERROR).notes == (
        "the predictions: the predictions are numbers; they count the labels in alphabetical order: 0 is cat, 1 is "
        "dog.",)


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


def test_what_either_of_two_models_says_of_an_item_is_not_known_about_it():
    """The data may be the table of one of them, whatever it calls its predictions."""
    old = {"id": list("abcd"), "guess": ["dog", "dog", "cat", "cat"], "label": DATA["label"], "light": DATA["light"]}
    for new, against in ((guess("cat", "cat", "cat", "dog"), old), (old, guess("cat", "cat", "cat", "dog"))):
        items = join(new, old, ERROR, against=against, columns={"prediction": "guess"})
        assert list(items.known.factors) == ["light"]


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


def test_items_of_other_splits_stand_in_for_test_only_with_a_note():
    """Where no item is of the split test, all are taken, and their splits are named unless they were asked for."""
    for split, named in ((["val"] * 4, "'val'"), (["train", "val", "val", "train"], "'train', 'val'")):
        items = join(guess("cat", "cat", "dog", "dog"), {**DATA, "split": split}, ERROR)
        assert len(items) == 4
        assert items.notes == (f"No item is of split 'test': those of {named} are audited (--split).",)
        assert join(guess("cat", "cat", "dog", "dog"), {**DATA, "split": split}, ERROR, split="all").notes == ()


def test_splits_and_ids_of_predictions_may_have_other_names():
    """The column of splits is that which `columns` names; of two tables one may have the ids in any column of ours."""
    named = {"path": list("abcd"), "prediction": ["cat"] * 4, "fold": ["test", "test", "val", "val"]}
    columns = {"split": "fold", "item": "path"}
    assert join(named, DATA, ERROR, columns=columns).known.items.tolist() == ["a", "b"]
    assert len(join(named, DATA, ERROR, columns=columns, split="val")) == 2
    old = {"id": list("abcd"), "prediction": ["dog"] * 4}
    assert join(named, DATA, ERROR, against=old, columns={"item": "path"}).loss.tolist() == [-1, 1, -1, 1]
    with pytest.raises(ShiftBenchError, match="No column named 'path'"):
        join(old, DATA, ERROR, columns={"item": "path"})


def test_a_model_that_was_trained_on_test_items_is_refused(tmp_path):
    """Its predictions say so: their split is `train` where the benchmark holds the item out."""
    collection = toy(40)
    benchmark = Benchmark.of(collection, None, 0, np.arange(40), np.full(40, "test"),
                             label=collection.factors["class"], domain=collection.factors["place"])
    wrong = {"item": benchmark.items, "split": np.full(40, "train"), "prediction": collection.factors["class"]}
    for columns in ({}, {"split": "fold"}):
        renamed = {columns.get(name, name): values for name, values in wrong.items()}
        with pytest.raises(ShiftBenchError, match="trained on 40 items that the benchmark holds out"):
            join(renamed, benchmark, ERROR, columns=columns)


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


# A table's columns are read one at a time: from a file or from memory, coded or not, they say the same

N = 600
RNG = np.random.default_rng(0)
IDS = np.asarray([f"item-{k}" for k in RNG.permutation(N)])
TABLE = pa.table({
    "id": IDS, "label": RNG.choice(["cat", "dog"], N), "light": RNG.choice(["day", "night", None], N),
    "speed": RNG.normal(size=N), "lanes": RNG.integers(1, 4, N), "wet": RNG.random(N) < 0.5,
    "day": [f"2020-0{k % 9 + 1}-1{k % 7}" for k in range(N)]})
GUESSES = pa.table({"id": IDS[::-1], "prediction": RNG.choice(["cat", "dog"], N)})


def coded(table):
    return pa.table([column.dictionary_encode() if pa.types.is_string(column.type) else column
                     for column in table.columns], names=table.column_names)


@pytest.fixture
def files(tmp_path):
    pq.write_table(TABLE, tmp_path / "data.parquet", row_group_size=70)
    pq.write_table(coded(TABLE), tmp_path / "coded.parquet", row_group_size=70)
    pq.write_table(GUESSES, tmp_path / "predictions.parquet", row_group_size=110)
    return tmp_path


def test_a_file_says_what_the_table_in_memory_says(files):
    """Row groups and categories change neither the digest of items, losses and predicates nor a sentence."""
    wanted = sb.audit(GUESSES, TABLE, least=20)
    for predictions in (GUESSES, files / "predictions.parquet"):
        for data in (files / "data.parquet", files / "coded.parquet", coded(TABLE), TABLE.to_pandas()):
            audit = sb.audit(predictions, data, least=20)
            assert audit.sentences() == wanted.sentences()
            assert audit.card["digest"] == wanted.card["digest"]


def test_columns_stay_on_disk_until_they_are_asked_for(files):
    """A join reads ids, labels and predictions; the file may lose everything else without anybody noticing."""
    items = join(files / "predictions.parquet", files / "data.parquet", LOSSES["error"])
    assert isinstance(items.facts, TableItems)
    assert list(items.facts.factors) == ["light", "speed", "lanes", "wet", "day"]
    (files / "data.parquet").unlink()
    assert items.take(np.arange(5)).ids.to_pylist() == IDS[:5].tolist()
    with pytest.raises(ShiftBenchError, match="not a readable parquet table"):
        items.facts.factors["light"]


def test_some_items_have_their_own_values(files):
    """Whatever rows are taken, of a file or of a part, and as a collection."""
    items = join(files / "predictions.parquet", files / "data.parquet", LOSSES["error"])
    rows = RNG.permutation(N)[:50]
    part = items.take(rows).take(np.arange(10, 40))
    numbers = rows[10:40]
    light = np.asarray(["" if word is None else word for word in TABLE["light"].to_pylist()])
    assert part.known.items.tolist() == IDS[numbers].tolist()
    assert part.known.factors["light"].tolist() == light[numbers].tolist()
    assert part.facts.factor("bins:speed:0").tolist() == items.known.factor("bins:speed:0")[numbers].tolist()
    with pytest.raises(ShiftBenchError, match=r"No factor named 'lihgt'. Did you mean 'light'"):
        items.facts.factor("lihgt")


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=30), st.integers(1, 5))
def test_words_have_codes(words, chunk):
    """Codes and names are those of the sorted words, in whatever chunks and coding they come; a gap is the empty word.
    """
    wanted = sorted({word or "" for word in words})
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        column = pa.chunked_array([pa.array(words[start:start + chunk], pa.string()).cast(kind)
                                   for start in range(0, len(words), chunk)], kind)
        codes, names = Words.of(column).coded
        assert list(names) == wanted
        assert [names[code] for code in codes] == [word or "" for word in words]


def test_categories_that_stand_twice_or_nowhere_are_no_further_words():
    """As a file of a stranger may have them."""
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, None]), pa.array(["a", "b", "a", "z"]))
    codes, names = Words.of(pa.chunked_array([categories])).coded
    assert (codes.tolist(), names) == ([1, 1, 2, 0], ("", "a", "b"))


@given(st.lists(st.text("aÖ b", max_size=4), max_size=40), st.integers(1, 7))
def test_doubled_ids_are_refused_and_counted(ids, chunk):
    """Ids that occur more than once are counted and the first is named; unique ids pass."""
    column = pa.chunked_array([pa.array(ids[start:start + chunk], pa.string()) for start in range(0, len(ids), chunk)],
                              pa.string())
    doubled = sorted({one for one in ids if ids.count(one) > 1})
    if not doubled:
        no_doubles(column, "here")
        return
    with pytest.raises(ShiftBenchError) as problem:
        no_doubles(column, "here")
    assert str(problem.value).startswith(f"here: {len(doubled)} ids occur more than once, the first is '{doubled[0]}'.")


def test_rows_are_found_by_id():
    """-1 for a strange id; nothing is looked up where both stand in the same order."""
    known = pa.chunked_array([["a", "b"], ["c"]])
    assert rows_of(pa.chunked_array([["a"], ["b", "c"]]), known) is None
    assert rows_of(pa.chunked_array([["c", "x", "a"]]), known).tolist() == [2, -1, 0]
