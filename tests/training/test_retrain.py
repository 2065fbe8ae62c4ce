"""Target-RT: what a run's representation is worth on the target once its last layer is trained there."""

import json

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import TARGET_RT, Predictions
from shiftbench.scoring import score_runs
from shiftbench.scoring.runs import RETRAINED
from shiftbench.training.retrain import FACTS, retrain

RATES = (0.1, 1.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that tells bright red from bright blue, on a target where the two have changed places."""
    place = tmp_path_factory.mktemp("retrain")
    rng = np.random.default_rng(0)
    split = np.repeat(["train", "id_val", "id_test", "target_train", "val", "test"], [120, 40, 40, 120, 40, 80])
    label = rng.integers(2, size=len(split))
    target = np.isin(split, ["target_train", "val", "test"])
    pixels = rng.integers(0, 60, (len(split), 16, 16, 3), dtype=np.uint8)
    pixels[np.arange(len(split)), :, :, np.where(label ^ target, 2, 0)] += 150
    collection = Collection("places", np.asarray([f"i{k:03d}" for k in range(len(split))]), pixels=pixels)
    collection.save(place / "collection")
    made = Benchmark.of(collection, None, 0, np.arange(len(split)), split, label=np.asarray(["a", "b"])[label],
                        domain=np.where(target, "target", "source"))
    made.save(place / "benchmark")
    run = sb.train(place / "benchmark", "erm", place / "runs", collection=place / "collection", model="small-cnn",
                   steps=40, batch_size=32, eval_every=20, device="cpu")
    return place, made, collection, run


@pytest.mark.learning
def test_a_last_layer_learns_what_the_run_got_wrong(trained):
    """The run is wrong about nearly every target item; its features tell them apart all the same. A score says so."""
    place, made, _collection, run = trained
    found = sb.retrain(place / "runs", steps=200, rates=RATES, collection=place / "collection", device="cpu")
    assert found[run.name].lr in RATES
    assert found[run.name].accuracy > 0.9
    scores = score_runs(place / "runs", benchmarks=[made])
    before = scores.where(split="test", metric="accuracy", group="all")["value"]
    after = scores.where(split="test", metric=RETRAINED, group="all", run=run.name)
    mean = scores.where(split="test", metric=RETRAINED, group="all", stat="mean")
    assert mean["value"] == after["value"]
    assert (before < 0.2).all()
    assert after["value"] > 0.9
    assert after["low"] < after["value"]
    assert after["method"].tolist() == ["erm"]


@pytest.mark.slow
def test_it_is_done_once(trained):
    """The same call reads what is there; other steps are another matter."""
    _place, made, collection, run = trained
    first = retrain(run, made, collection, steps=200, rates=RATES, device="cpu")
    written = (run / TARGET_RT).stat().st_mtime_ns
    assert retrain(run, made, collection, steps=200, rates=RATES, device="cpu") == first
    assert (run / TARGET_RT).stat().st_mtime_ns == written
    retrain(run, made, collection, steps=100, rates=RATES, device="cpu")
    assert json.loads((run / FACTS).read_text())["steps"] == 100


@pytest.mark.slow
def test_the_learning_rate_is_chosen_without_the_test(trained):
    """Whatever the test's labels are, the same learning rate and the same predictions come out."""
    _place, made, collection, run = trained
    one = retrain(run, made, collection, steps=60, rates=RATES, device="cpu")
    before = Predictions.load(run / TARGET_RT, made)
    rows = made.rows("test")
    label = made.label.copy()
    label[rows] = 1 - label[rows]
    other = Benchmark(made.items, made.split, label, made.domain, made.group, made.names, made.card, made.extra)
    (run / TARGET_RT).unlink()
    assert retrain(run, other, collection, steps=60, rates=RATES, device="cpu") == one
    assert np.array_equal(Predictions.load(run / TARGET_RT, made).scores, before.scores)


def test_a_rate_that_breaks_is_left_out(trained):
    """A learning rate at which the loss is no number does not stop the others."""
    _place, made, collection, run = trained
    found = retrain(run, made, collection, steps=50, rates=(0.1, 1e38), device="cpu")
    assert (found.lr, found.failed) == (0.1, (1e38,))


def test_benchmarks_without_a_target_are_refused(trained):
    _place, made, collection, run = trained
    kept = np.flatnonzero(made.split != "target_train")
    bare = Benchmark(made.items[kept], made.split[kept], made.label[kept], made.domain[kept], made.group[kept],
                     made.names, made.card)
    with pytest.raises(ShiftBenchError, match="target_train"):
        retrain(run, bare, collection, steps=7, rates=RATES, device="cpu")


@pytest.mark.learning
def test_the_weights_a_run_began_with_are_not_needed(trained, tmp_path):
    """A pretrained run whose weight file is gone is retrained from its own checkpoint."""
    place, made, collection, run = trained
    file = tmp_path / "start.safetensors"
    file.write_bytes((run / "checkpoint.safetensors").read_bytes())
    again = sb.train(place / "benchmark", out=tmp_path / "runs", preset="pretrained",
                     collection=place / "collection", model="small-cnn", weights=str(file), steps=5, batch_size=32,
                     device="cpu")
    file.unlink()
    assert retrain(again, made, collection, steps=60, rates=RATES, device="cpu").accuracy > 0.9
