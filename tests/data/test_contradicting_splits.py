"""Predictions that were trained on what a benchmark holds out are refused, wherever they meet it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import HELD_OUT, Predictions, read_predictions, refuse_trained
from shiftbench.data.target import BoxTarget, boxes_text
from shiftbench.leaderboard import make_board
from shiftbench.scoring import score_runs
from tests.strategies import toy

N = 400


def dealt(seed: int) -> Benchmark:
    """The toy's items dealt to splits by a seed: two seeds contradict each other."""
    collection = toy(N)
    split = np.random.default_rng(seed).choice(["train", "id_test", "test"], N, p=[0.4, 0.2, 0.4])
    return Benchmark.of(collection, None, seed, np.arange(N), split, label=collection.factor("class"),
                        domain=collection.factor("place"), card={"name": f"toy-{seed}"})


def predicted(benchmark: Benchmark) -> Predictions:
    scores = np.random.default_rng(7).normal(size=(len(benchmark), 2)).astype(np.float32)
    return Predictions(benchmark.items, benchmark.split, scores, benchmark.names["label"])


def seen(good: Benchmark, bad: Benchmark) -> int:
    """Items that `good` trains on and `bad` holds out."""
    trained = set(good.items[good.rows("train")].tolist())
    return sum(item in trained for item in bad.items[bad.split != "train"].tolist())


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", ""])
def test_predictions_trained_on_the_test_are_refused(tmp_path, name):
    """A file or an object of another benchmark is refused with the number of items and an example."""
    good, bad = dealt(0), dealt(1)
    source = predicted(good).save(tmp_path / name) if name else predicted(good)
    assert len(sb.score(good, source, replicates=0))
    message = rf"trained on {seen(good, bad)} items.*'i\d+' is 'train' in the predictions"
    with pytest.raises(ShiftBenchError, match=message) as e:
        sb.score(bad, source, replicates=0)
    assert "--ignore-splits" in str(e.value)
    assert (name or "Predictions") in str(e.value)
    ignored = sb.score(bad, source, replicates=0, ignore_splits=True)
    plain = sb.score(bad, replace(predicted(good), split=np.full(N, "")), replicates=0)
    assert np.array_equal(ignored["value"], plain["value"], equal_nan=True)


@pytest.mark.parametrize("word", SPLITS)
@pytest.mark.parametrize("said", [*SPLITS, "training", "valid", "dev", ""])
def test_only_training_on_held_out_items_contradicts(said, word):
    """`train` against a held-out split is refused; a data set's own word for a held-out split is not."""
    refused = said in ("train", "training") and word in HELD_OUT
    try:
        refuse_trained(np.asarray(["a"]), np.asarray([said]), np.asarray([word]), "x.csv")
    except ShiftBenchError:
        assert refused
    else:
        assert not refused


def test_lists_are_held_to_their_splits(tmp_path):
    """Boxes of items that were trained on are refused as classes are."""
    collection = toy(40)
    split = np.repeat(["train", "test"], 20)
    box = np.tile(np.asarray([[0.1, 0.1, 0.5, 0.5]], np.float32), (40, 1))
    made = Benchmark.of(collection, None, 0, np.arange(40), split, label=np.full(40, "wheat"),
                        domain=collection.factor("place"), extra={"boxes": boxes_text(np.arange(40), box, 40)},
                        target=BoxTarget(("boxes",)))
    lists = {"boxes": list(box), "scores": [[0.9]] * 40}
    path = Answers.of(made.items, split[::-1], lists).save(tmp_path / "p.parquet")
    with pytest.raises(ShiftBenchError, match="trained on 20 items"):
        read_predictions(path, made)
    with pytest.raises(ShiftBenchError, match="trained on 20 items"):
        sb.score(made, Answers.of(made.items, split[::-1], lists), replicates=0)
    assert np.array_equal(read_predictions(path, made, ignore_splits=True).split, split)


def test_a_board_lists_the_submission_with_the_reason(tmp_path):
    """A submission that trained on the test is on the board without a rank."""
    good, bad = dealt(0), dealt(1)
    place = tmp_path / "submissions" / "leaky"
    place.mkdir(parents=True)
    (place / "submission.toml").write_text(
        f'method = "leaky"\nauthors = ["A"]\nselected_on = "id_test"\nbenchmark = "{bad.digest}"\nexternal_data = ""\n')
    predicted(good).save(place / "seed-0.parquet")
    (listed,) = make_board(tmp_path / "submissions", bad, seeds=1).listed
    assert listed.rank is None
    assert any(f"trained on {seen(good, bad)} items" in reason for reason in listed.verified.reasons)


def test_runs_are_held_to_their_splits(tmp_path):
    """A run whose predictions say `train` of test items is refused by what report and select read."""
    made = dealt(0)
    made.save(tmp_path / "toy")
    made = Benchmark.load(tmp_path / "toy")
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    run = {"run": {"method": "erm", "seed": 0}, "benchmark": {
        "name": "toy", "digest": made.digest, "path": str(tmp_path / "toy")}}
    (folder / "run.json").write_text(json.dumps({**run, "format": "shiftbench run", "version": 1}))
    (folder / "done").write_text("")
    one = predicted(made)
    one.save(folder / "predictions.parquet")
    assert len(score_runs(tmp_path / "runs", replicates=0))
    replace(one, split=np.where(one.split == "test", "train", one.split)).save(folder / "predictions.parquet")
    with pytest.raises(ShiftBenchError, match=f"trained on {len(made.rows('test'))} items"):
        score_runs(tmp_path / "runs", replicates=0)


def test_the_command_refuses_and_can_be_told(shell, tmp_path):
    """`score` exits with 1 and one line; --ignore-splits scores."""
    good, bad = dealt(0), dealt(1)
    bad.save(tmp_path / "bad")
    predicted(good).save(tmp_path / "p.csv")
    code, out, err = shell("score", tmp_path / "bad", tmp_path / "p.csv", "--json")
    assert (code, out) == (1, "")
    assert f"trained on {seen(good, bad)} items" in err
    assert err.count("\n") == 1
    code, out, _ = shell("score", tmp_path / "bad", tmp_path / "p.csv", "--json", "--ignore-splits")
    assert code == 0
    assert json.loads(out)
