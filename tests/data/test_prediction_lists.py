"""Answers: lists per item that come back from every file as they were, and every way in which a file can be wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.target import tokens_text
from tests.strategies import benchmarks, seeds, toy


def rows_of(n: int, extra=None, seed: int = 0):
    """A benchmark of n rows in two splits."""
    collection = toy(n, seed)
    split = np.where(np.arange(n) < n // 2, "train", "test")
    return Benchmark.of(collection, None, 0, np.arange(n), split, label=np.zeros(n, np.int64),
                        domain=np.zeros(n, np.int64), extra=extra)


def some(benchmark, rng, kind: str) -> Answers:
    """Answers to all rows, in any order."""
    order = rng.permutation(len(benchmark))
    counts = rng.integers(0, 5, len(benchmark))
    if kind == "tokens":
        lists = {"tokens": [rng.integers(0, 9000, n) for n in counts]}
    else:
        corners = [rng.random((n, 2)) for n in counts]
        lists = {"boxes": [np.concatenate([at, at + rng.random((len(at), 2))], axis=1).clip(0, 1) for at in corners],
                 "scores": [rng.random(n) for n in counts]}
    return Answers.of(benchmark.items[order], benchmark.split[order], lists)


@settings(max_examples=30)
@given(benchmarks(), seeds, st.sampled_from(["boxes", "tokens"]), st.sampled_from(["a.parquet", "a.csv"]))
def test_a_file_gives_back_what_was_saved(tmp_path_factory, benchmark, seed, kind, name):
    """Answers that are saved and loaded are the same, lists without anything in them included."""
    answers = some(benchmark, np.random.default_rng(seed), kind)
    path = answers.save(tmp_path_factory.mktemp("answers") / name)
    assert Answers.load(path, benchmark) == answers


@given(benchmarks(), seeds, st.sampled_from(["boxes", "tokens"]))
def test_flat_is_the_same_as_lists(benchmark, seed, kind):
    """Lists taken apart and put together are the same answers, in the order that is asked for."""
    rng = np.random.default_rng(seed)
    answers = some(benchmark, rng, kind)
    lists = {name: answers.lists(name) for name in answers.values}
    assert Answers.of(answers.item, answers.split, lists) == answers
    rows = rng.integers(0, len(answers), 7)
    part = answers.take(rows)
    assert part == Answers.of(answers.item[rows], answers.split[rows],
                              {name: [each[row] for row in rows] for name, each in lists.items()})
    if kind == "boxes":
        row, box, score = answers.boxes()
        assert [box[row == k].tolist() for k in range(len(answers))] == [one.tolist() for one in lists["boxes"]]
        assert [score[row == k].tolist() for k in range(len(answers))] == [one.tolist() for one in lists["scores"]]


def test_boxes_may_be_lists_of_four(tmp_path):
    """Another detector's file with a list of four per box, and no column of splits, is read as ours; so is text."""
    benchmark = rows_of(4)
    nested = [[[0.0, 0.25, 0.5, 1.0], [0.5, 0.5, 0.75, 0.75]], [], [[0.0, 0.0, 1.0, 1.0]], []]
    scores = [[0.5, 0.25], [], [1.0], []]
    pq.write_table(pa.table({"id": benchmark.items, "boxes": nested, "scores": scores}), tmp_path / "a.parquet")
    expected = Answers.of(benchmark.items, benchmark.split, {"boxes": [np.ravel(one) for one in nested],
                                                             "scores": scores})
    assert Answers.load(tmp_path / "a.parquet", benchmark) == expected
    lines = [f"{item},{';'.join(' '.join(map(str, box)) for box in boxes)},{' '.join(map(str, of))}"
             for item, boxes, of in zip(benchmark.items, nested, scores, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["item,boxes,scores", *lines]) + "\n")
    assert Answers.load(tmp_path / "a.csv", benchmark) == expected


@pytest.mark.parametrize(("change", "says"), [
    ({"item": ["i0000", "i0001", "i0002", "other"]}, "1 ids are not in the benchmark, the first is 'other'"),
    ({"item": ["i0000", "i0001", "i0002", "i0002"]}, "occur more than once, the first is 'i0002'"),
    ({"boxes": [[0, 0, 1], [], [], []]}, r"'i0000' has 3 numbers of boxes for 1 scores"),
    ({"scores": [[0.5, 0.5], [], [], []]}, r"'i0000' has 4 numbers of boxes for 2 scores"),
    ({"boxes": [[[0.0, 0, 1]], [], [], []]}, "column 'boxes' must hold a list of numbers per item"),
    ({"boxes": [[0.0, 0, np.nan, 1], [], [], []]}, "'i0000' has the number nan in a box"),
    ({"boxes": [[0.0, 0, 512, 256], [], [], []]}, r"shares of the image.* divide by its width"),
    ({"boxes": [[0.5, 0, 0.25, 1], [], [], []]}, "'i0000' has a box .* ends before it begins"),
    ({"scores": [[1.5], [], [], []]}, "'i0000' has the score 1.5"),
    ({"scores": [[np.nan], [], [], []]}, "'i0000' has the score nan"),
    ({"scores": [[0.5], None, [], []]}, "column 'scores' has no list in row 2"),
    ({"scores": [[None], [], [], []]}, "column 'scores' must hold a list of numbers"),
    ({"scores": [0.5, 0.5, 0.5, 0.5]}, "column 'scores' must hold a list of numbers per item, but holds double"),
    ({"scores": ["half", "", "", ""]}, "column 'scores' must hold a list of numbers per item"),
    ({"scores": None}, "needs a column 'item', and 'boxes' and 'scores' or 'tokens'. Its columns: item, boxes"),
    ({"item": None}, "has no column 'item'"),
])
def test_a_wrong_file_is_told(change, says, tmp_path):
    """Each way to be wrong has its message, with the file and the item."""
    columns = {"item": ["i0000", "i0001", "i0002", "i0003"], "boxes": [[0.0, 0, 0.5, 1], [], [], []],
               "scores": [[0.5], [], [], []]} | change
    path = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
    with pytest.raises(ShiftBenchError, match=says) as caught:
        Answers.load(path, rows_of(4))
    assert str(caught.value).startswith(str(path))


def test_a_split_is_answered_whole_or_not_at_all(tmp_path):
    """Answers to one split alone are read; to a part of a split they are an error."""
    benchmark = rows_of(6)
    answers = some(benchmark, np.random.default_rng(0), "boxes")
    test = answers.take(np.flatnonzero(answers.split == "test"))
    assert Answers.load(test.save(tmp_path / "test.parquet"), benchmark) == test
    with pytest.raises(ShiftBenchError, match="1 of the 3 items of split 'test' are missing"):
        Answers.load(test.take(np.arange(2)).save(tmp_path / "part.parquet"), benchmark)


def test_every_place_has_a_token(tmp_path):
    """An item of L tokens has L or L − 1 answers, none below 0; anything else is told with its numbers."""
    truth = np.asarray([[7, 8, 9], [5, 6, -100], [1, 2, 3], [4, -100, -100]])
    benchmark = rows_of(4, {"tokens": tokens_text(truth)})
    path = tmp_path / "a.parquet"
    for lists in ([[8, 9], [6], [2, 3], []], [[8, 9, 0], [6, 0], [2, 3, 0], [0]]):
        answers = Answers.of(benchmark.items, benchmark.split, {"tokens": lists})
        assert Answers.load(answers.save(path), benchmark) == answers
    Answers.of(benchmark.items, benchmark.split, {"tokens": [[8, 9], [6], [2], []]}).save(path)
    with pytest.raises(ShiftBenchError, match="item 'i0002' has 1 answers for 3 tokens"):
        Answers.load(path, benchmark)
    with pytest.raises(ShiftBenchError, match="'i0001' has the token -1"):
        Answers.of(benchmark.items, benchmark.split, {"tokens": [[8, 9], [-1], [2], []]})


def test_answers_that_do_not_fit_are_told():
    """Lists of another kind, offsets that do not fit, and splits of other length are errors."""
    item, split = np.asarray(["a", "b"]), np.asarray(["test", "test"])
    with pytest.raises(ShiftBenchError, match="Answers are boxes and scores or tokens; got boxes"):
        Answers.of(item, split, {"boxes": [[], []]})
    with pytest.raises(ShiftBenchError, match="tokens of 2 items need 3 offsets, from 0 to 4"):
        Answers(item, split, {"tokens": (np.arange(4), np.asarray([0, 5, 4]))})
    with pytest.raises(ShiftBenchError, match="tokens of 2 items need 3 offsets"):
        Answers.of(item, split, {"tokens": [[1]]})
    with pytest.raises(ShiftBenchError, match="a split per item: 1 for 2"):
        Answers.of(item, split[:1], {"tokens": [[1], [2]]})


def test_coco_results_are_read(tmp_path):
    """COCO's list of results becomes answers to the splits that it names; an image without a result has no boxes."""
    benchmark = rows_of(6)
    results = [{"image_id": "i0005", "category_id": 1, "bbox": [10, 20, 30, 40], "score": 0.5},
               {"image_id": "i0003", "category_id": 1, "bbox": [0, 0, 100, 50], "score": 0.25},
               {"image_id": "i0005", "category_id": 1, "bbox": [50, 0, 50, 25], "score": 0.75}]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results))
    expected = Answers.of(benchmark.items[3:], benchmark.split[3:], {
        "boxes": [[[0, 0, 1, 1]], [], [[0.1, 0.4, 0.4, 1.2], [0.5, 0, 1, 0.5]]], "scores": [[0.25], [], [0.5, 0.75]]})
    assert Answers.of_coco(path, benchmark, 100, 50) == expected
    assert Answers.of_coco(path, benchmark, np.full(6, 100), [50] * 6) == expected


@pytest.mark.parametrize(("results", "says"), [
    ([{"image_id": "i0001", "bbox": [0, 0, 1], "score": 0.5}], "not a list of COCO results"),
    ([{"image_id": "i0001", "bbox": [0, 0, 1, 1]}], "not a list of COCO results, .*'score'"),
    ({"images": []}, "not a list of COCO results"),
    ([{"image_id": 17, "bbox": [0, 0, 1, 1], "score": 0.5}], "1 results are of images .* the first is '17'"),
    ([{"image_id": "i0001", "bbox": [0, 0, -5, 1], "score": 0.5}], "ends before it begins"),
    ([], "holds no results"),
])
def test_wrong_coco_results_are_told(results, says, tmp_path):
    """What is no list of results, or of other images, is told with the file."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results))
    with pytest.raises(ShiftBenchError, match=says) as caught:
        Answers.of_coco(path, rows_of(4), 100, 100)
    assert str(path) in str(caught.value)
