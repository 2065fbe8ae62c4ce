"""Benchmarks, predictions and scores: saving, matching by id, what check finds."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import CODED, SPLITS, Benchmark, table
from shiftbench.data.checks import check, fit, uses
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from tests.strategies import benchmarks, seeds, toy

quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(benchmarks())
@quick
def test_load_gives_back_what_save_wrote(tmp_path, benchmark):
    """load(save(x)) has the same digest, names, extra columns and card."""
    loaded = Benchmark.load(benchmark.save(tmp_path / "b"))
    assert loaded.digest == benchmark.digest
    assert loaded.names == benchmark.names
    assert np.array_equal(loaded.extra["weight"], benchmark.extra["weight"])
    assert {key: value for key, value in loaded.card.items() if key != "name"} == benchmark.card


@given(benchmarks())
@quick
def test_names_and_codes_agree(benchmark):
    """Every code has a name, every name is used, and a group is its label and its domain."""
    words = table(benchmark)
    for column in CODED:
        assert sorted(set(words[column].tolist())) == list(benchmark.names[column])
    assert words["group"].tolist() == [f"{y}, {d}" for y, d in zip(words["label"], words["domain"], strict=True)]
    order = [SPLITS.index(split) for split in benchmark.split]
    assert order == sorted(order)


def test_changed_rows_are_noticed(tmp_path):
    """A benchmark whose rows were edited by hand does not load."""
    made = _toy_benchmark()
    folder = made.save(tmp_path / "b")
    words = table(made)
    words["label"] = words["label"][::-1]
    write_table(folder / "rows.parquet", pa.table({key: pa.array(values) for key, values in words.items()}))
    with pytest.raises(ShiftBenchError, match="does not match the digest"):
        Benchmark.load(folder)


@pytest.mark.parametrize("path", [True, 3, ["c"]])
def test_the_path_of_a_collection_is_text(tmp_path, path):
    """A card whose collection lies at a number or a truth value does not load."""
    folder = _toy_benchmark().save(tmp_path / "b")
    facts = json.loads((folder / "benchmark.json").read_text())
    facts["card"]["collection"]["path"] = path
    (folder / "benchmark.json").write_text(json.dumps(facts))
    with pytest.raises(ShiftBenchError, match="'collection' is not what it should be"):
        Benchmark.load(folder)


def _toy_benchmark(n=400):
    collection = toy(n)
    rows = np.arange(n)
    split = np.asarray(["train", "id_val", "id_test", "test"])[rows % 4]
    return Benchmark.of(collection, None, 0, rows, split, label=collection.factor("class"),
                        domain=collection.factor("place"))


def test_a_sound_benchmark_is_fit():
    """Large splits, all classes, no item twice."""
    assert check(_toy_benchmark()) == []


@pytest.mark.parametrize(("spoil", "what"), [
    (lambda b: {"items": np.where(np.arange(len(b)) == len(b) - 1, b.items[0], b.items)}, "same item in two splits"),
    (lambda b: {"split": np.where(b.split == "test", "val", b.split)}, "empty split"),
    (lambda b: {"split": np.where(np.arange(len(b)) >= len(b) - 80, "val", b.split)}, "small split"),
    (lambda b: {"split": np.where((b.split == "test") & (b.label == 0), "id_test", b.split)}, "missing class"),
    (lambda b: {"split": np.where((b.split == "test") & (b.group == 0), "id_test", b.split)}, "empty cell"),
])
def test_check_finds_what_makes_a_benchmark_unfit(spoil, what):
    """Each fault alone is found, named and makes the benchmark unfit."""
    sound = _toy_benchmark()
    columns = {key: getattr(sound, key) for key in ("items", "split", *CODED, "names")}
    findings = check(Benchmark(**{**columns, **spoil(sound)}))
    assert what in [finding.what for finding in findings if finding.unfit]
    assert not fit(findings)


def _but(made, **columns):
    return Benchmark(**{**{key: getattr(made, key) for key in ("items", "split", *CODED, "names")}, **columns})


def test_check_says_what_a_benchmark_is_fit_for():
    """Test items alone are fit for scoring; a fault of a split spoils what needs that split and nothing else."""
    sound = _toy_benchmark()
    assert uses(sound, check(sound)) == {"training": "", "selection": "", "scoring": ""}
    only = _but(sound, split=np.full(len(sound), "test"))
    assert fit(check(only))
    assert [purpose for purpose, reason in uses(only, check(only)).items() if not reason] == ["scoring"]
    assert uses(only, check(only))["training"] == "no item is in train"
    few = _but(sound, split=np.where((sound.split == "train") & (np.arange(len(sound)) > 5), "id_val", sound.split))
    assert uses(few, check(few)) == {"training": "small split (train)", "selection": "", "scoring": ""}
    leak = _but(sound, items=np.where(np.arange(len(sound)) == len(sound) - 1, sound.items[0], sound.items))
    assert "two splits" in uses(leak, check(leak))["training"]
    assert "two splits" in uses(leak, check(leak))["scoring"]


def test_empty_cells_of_data_that_are_only_scored_are_a_note():
    """No camera sees every animal: what nobody trains on is fit for scoring as it is."""
    sound = _toy_benchmark()
    holes = np.flatnonzero(sound.group != 0)
    only = Benchmark(sound.items[holes], np.full(len(holes), "test"), sound.label[holes], sound.domain[holes],
                     sound.group[holes], sound.names)
    assert ("empty cell", False) in [(finding.what, finding.unfit) for finding in check(only)]
    assert fit(check(only))


def test_check_lists_every_missing_image_file():
    """All items without a file are named, split by split, and spoil what needs these splits."""
    sound = _toy_benchmark()
    missing = np.zeros(len(sound), np.bool_)
    missing[sound.rows("test")[:5]] = True
    (finding,) = check(sound, missing=missing)
    assert (finding.what, finding.where, finding.unfit) == ("missing image file", "test", True)
    assert all(item in finding.detail for item in sound.items[missing])
    assert uses(sound, [finding])["training"] == ""
    assert uses(sound, [finding])["scoring"] == "missing image file (test)"


def test_check_finds_the_same_content_under_two_ids():
    """With content hashes, a copy of a training image in test is a leak."""
    made = _toy_benchmark()
    hashes = np.asarray([f"h{k}" for k in range(len(made))])
    assert fit(check(made, hashes))
    hashes[-1] = hashes[0]
    assert [finding.what for finding in check(made, hashes)] == ["same content in two splits"]


@given(benchmarks(), seeds)
@quick
def test_predictions_survive_the_file_whatever_the_row_order(tmp_path, benchmark, seed):
    """load(save(x)) == x up to the order of rows, from parquet and from CSV."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(benchmark))
    made = Predictions(benchmark.items[order], benchmark.split[order],
                       rng.normal(2, 3, (len(benchmark), len(benchmark.names["label"]))).astype(np.float32),
                       benchmark.names["label"])
    assert Predictions.load(made.save(tmp_path / "p.parquet"), benchmark) == made
    assert Predictions.load(made.save(tmp_path / "p.csv"), benchmark) == made


def _file(tmp_path, **columns):
    return Predictions.load(_write(tmp_path, columns), _toy_benchmark())


def _write(tmp_path, columns):
    path = tmp_path / "preds.csv"
    write_table(path, pa.table({key: pa.array(values) for key, values in columns.items()}))
    return path


def test_predictions_of_any_model_are_understood(tmp_path):
    """Names, codes, probabilities and logits of the same decisions give the same predicted classes."""
    made = _toy_benchmark()
    rng = np.random.default_rng(0)
    share = rng.random(len(made))
    wanted = (share < 0.5).astype(int)
    names = np.asarray(made.names["label"])[wanted]
    logit = np.log((1 - share) / share)
    for columns in (
        {"prediction": names}, {"label": names}, {"prediction": wanted},
        {"cat": share, "dog": 1 - share}, {"prob:cat": share, "prob:dog": 1 - share},
        {"score:cat": -logit, "score:dog": np.zeros(len(made))},
        {"logit_cat": -logit, "logit_dog": np.zeros(len(made))}, {"prob_cat": share, "prob_dog": 1 - share},
    ):
        assert (_file(tmp_path, item=made.items, **columns).predicted == wanted).all(), columns
    path = tmp_path / "preds.parquet"
    for name, values in {"logits": np.stack([-logit, 0 * logit], axis=1),
                         "probabilities": np.stack([share, 1 - share], axis=1)}.items():
        write_table(path, pa.table({"item": made.items, name: pa.array(values.tolist())}))
        assert (Predictions.load(path, made).predicted == wanted).all(), name
    loaded = _file(tmp_path, id=made.items, cat=share, dog=1 - share)
    assert np.allclose(np.exp(loaded.scores[:, 0]), share, atol=1e-5)


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda i: i[:-1], r"1 of the 100 items of split 'test' are missing, the first is 'i0399'"),
    (lambda i: np.append(i[:-1], i[0]), "occur more than once, the first is 'i0000'"),
    (lambda i: np.append(i, "ghost"), "1 ids are not in the benchmark, the first is 'ghost'"),
    (lambda i: i[:0], "holds no predictions"),
])
def test_missing_double_and_unknown_ids_are_named(tmp_path, spoil, message):
    """Each complaint says how many and gives the first."""
    items = spoil(_toy_benchmark().items)
    with pytest.raises(ShiftBenchError, match=message):
        _file(tmp_path, item=items, prediction=np.full(len(items), "cat"))


def test_a_split_that_is_wholly_absent_is_left_out(tmp_path):
    """A model that was run on the test split alone can be scored there."""
    made = _toy_benchmark()
    items = made.items[made.rows("test")]
    assert set(_file(tmp_path, item=items, prediction=np.full(len(items), "cat")).split) == {"test"}


@pytest.mark.parametrize(("columns", "message"), [
    ({"prediction": "cow"}, "No class named 'cow'"),
    ({"cat": 0.1}, "missing: dog"),
    ({"cat": "high", "dog": "low"}, "not all numbers"),
    ({"cat": np.nan, "dog": 0.0}, "no number in row 1"),
    ({"prediction": 7}, "No class named '7'"),
])
def test_bad_predictions_are_explained(tmp_path, columns, message):
    """Unknown classes, missing columns, words for numbers, NaN."""
    items = _toy_benchmark().items
    with pytest.raises(ShiftBenchError, match=message):
        _file(tmp_path, item=items, **{key: np.full(len(items), value) for key, value in columns.items()})


def test_ids_that_look_like_numbers_stay_ids(tmp_path):
    """000123 in a CSV file is the item 000123, not the number 123; a class named 1 is a class, not the second one."""
    collection = toy(40)
    renamed = Collection("c", np.asarray([f"{k:06d}" for k in range(40)]),
                         {"class": np.where(collection.factor("class") == "cat", "1", "2")})
    made = Benchmark.of(renamed, None, 0, np.arange(40), np.full(40, "test"), label=renamed.factor("class"),
                        domain=np.full(40, "d"))
    loaded = Predictions.load(_write(tmp_path, {"item": made.items, "prediction": np.full(40, "1")}), made)
    assert loaded.item[3] == "000003"
    assert (loaded.predicted == 0).all()


def test_lists_of_scores_need_one_number_per_class(tmp_path):
    """A list that is too short is named with its row."""
    made = _toy_benchmark()
    lists = [[0.1, 0.9]] * len(made)
    lists[2] = [0.1]
    write_table(tmp_path / "p.parquet", pa.table({"item": made.items, "scores": pa.array(lists)}))
    with pytest.raises(ShiftBenchError, match="1 scores in row 3, but there are 2 classes"):
        Predictions.load(tmp_path / "p.parquet", made)


def test_predictions_need_ids(tmp_path):
    """Without a column of ids nothing can be matched."""
    with pytest.raises(ShiftBenchError, match="has no column 'item'"):
        _file(tmp_path, image=np.asarray(["a"]))
