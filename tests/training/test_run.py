"""Runs are named by their content, and batches are a function of seed and step."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.method import BATCHES
from shiftbench.training import Run
from shiftbench.training.batches import Batches, Data
from shiftbench.training.run import count_pools, on_benchmark, run_of, split_features
from tests.toys import CPU, FEATURES, learn, toy_features, toy_rows, toy_run

# Batches


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 10**6),
       st.integers(0, 99))
def test_batches_are_a_function_of_seed_and_step(codes, size, seed, step):
    """Any step can be asked first; each pool gives its share; a round shows every item of a large pool once."""
    pools = np.asarray(codes)
    one, other = Batches(pools, size, seed), Batches(pools, size, seed)
    for earlier in range(3):
        other.block(earlier, 1)[0]
    assert np.array_equal(one.block(step, 1)[0], other.block(step, 1)[0])
    assert np.array_equal(one.block(step, 3), np.stack([one.block(step + k, 1)[0] for k in range(3)]))
    assert len(one.block(step, 1)[0]) == len(one) == size * len(set(codes))
    assert (np.bincount(pools[one.block(step, 1)[0]], minlength=3)[np.unique(pools)] == size).all()
    for number, code in enumerate(np.unique(pools)):
        pool = np.flatnonzero(pools == code)
        if len(pool) >= size:
            drawn = np.concatenate([one.block(t, 1)[0][number * size:(number + 1) * size] for t in range(len(pool))])
            assert np.array_equal(np.bincount(drawn, minlength=len(pools))[pool], np.full(len(pool), size))
            assert sorted(drawn[:len(pool)]) == sorted(pool)


def test_another_seed_gives_other_batches():
    """Seeds and steps matter."""
    pools = np.zeros(100, np.int64)
    assert not np.array_equal(Batches(pools, 20, 0).block(0, 1), Batches(pools, 20, 1).block(0, 1))
    assert not np.array_equal(Batches(pools, 20, 0).block(0, 1), Batches(pools, 20, 0).block(1, 1))


# Runs

@settings(max_examples=50, deadline=None)
@given(st.floats(0.1, 50), st.sampled_from(["", *BATCHES]), st.integers(1, 40), st.integers(0, 5))
def test_epochs_are_as_many_steps_as_draw_the_items_so_often(epochs, batches, size, at_once):
    """The steps draw at least `epochs` times all training items, and less than one batch more, in every kind of batch;
    the same holds of the steps between two evaluations. Without epochs both stay."""
    benchmark = toy_rows()[1]
    run = Run("", features=FEATURES, epochs=epochs, eval_epochs=2 * epochs, batches=batches, batch_size=size,
              domains_per_batch=at_once)
    on = Run.of(on_benchmark(run.to_json(), benchmark))
    rows, data = benchmark.rows("train"), Data(benchmark, toy_features(benchmark), CPU)
    batch = len(Batches(data.pools(run.batch_kind), size, 0, at_once=at_once))
    for times, steps in ((epochs, on.steps), (2 * epochs, on.eval_every)):
        assert times * len(rows) <= steps * batch + 1e-6 < times * len(rows) + batch + 1e-5
    assert (on.epochs, on.eval_epochs, on.benchmark) == (0, 0, benchmark.digest)
    without = on_benchmark(dataclasses.replace(run, epochs=0, eval_epochs=0).to_json(), benchmark)
    assert (without["steps"], without["eval_every"]) == (run.steps, run.eval_every)


@pytest.mark.parametrize("batches", BATCHES)
def test_pools_are_those_that_training_draws_from(batches):
    """Counting before torch is loaded and drawing agree, also where training lacks a cell that test has."""
    _, benchmark = toy_rows()
    lacks = (benchmark.split == "train") & (benchmark.domain == 0) & (benchmark.label == 1)
    moved = dataclasses.replace(benchmark, split=np.where(lacks, "test", benchmark.split))
    for one in (benchmark, moved):
        codes = Data(one, toy_features(one), CPU).pools(batches)
        assert count_pools(one, batches) == int(codes.max()) + 1
    assert count_pools(moved, "domain_label") == 3


def test_epochs_of_a_preset_with_cells_are_counted():
    """MetaShift's batches have 16 items of every label of every domain: one epoch of 120 items in four cells is two."""
    _, benchmark = toy_rows()
    assert run_of("erm", {}, {"epochs": 1}, "metashift", benchmark).steps == 2


def test_a_run_survives_json_and_has_one_name():
    """Run -> JSON -> Run is the same run; naming a default or writing 1 for 1.0 changes nothing; any change does."""
    run = Run("ab" * 32, method="irm", params={"penalty": 10}, features=FEATURES, lr=1)
    again = Run.of(json.loads(json.dumps(run.to_json())))
    assert again == run
    assert again.id == run.id
    assert len(run.id) == 16
    assert Run("ab" * 32, method="irm", params={"penalty": 10.0, "anneal": 0.1}, features=FEATURES, lr=1.0).id == run.id
    for change in ({"seed": 1}, {"lr": 0.5}, {"params": {"penalty": 11.0}}, {"batches": "plain"}, {"benchmark": "cd"}):
        assert dataclasses.replace(run, **change).id != run.id


def test_fields_that_came_later_leave_old_names():
    """A run from before a field has the id that it had then; the field's other values give other ids."""
    run = Run("ab" * 32, model="resnet18", size=64)
    assert run.id == "1dc8cd38b0d62f48"
    assert Run("ab" * 32, method="irm", features="columns").id == "ad295f934d0668e6"
    assert dataclasses.replace(run, normalise="image").id != run.id


def test_a_run_has_the_same_name_in_every_process():
    """The id does not depend on the process or on its hash seed."""
    script = f"from shiftbench.training import Run; print(Run('x', method='irm', features='{FEATURES}').id)"
    other = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": "1"}, check=True,
                           capture_output=True, text=True)
    assert other.stdout.strip() == Run("x", method="irm", features=FEATURES).id


@pytest.mark.parametrize(("wrong", "says"), [
    ({"method": "erm2"}, "Did you mean 'erm'"), ({"model": "linea"}, "Did you mean 'linear'"),
    ({"optimizer": "adm"}, "Did you mean 'adam'"), ({"params": {"penalti": 1}}, "No setting named 'penalti'"),
    ({"steps": 0}, "'steps' is 0, but must be at least 1"), ({"lr": 0}, "'lr' is 0.0"),
    ({"lr": float("nan")}, "'lr' is nan"), ({"stepz": 3}, "Did you mean 'steps'"),
    ({"features": ""}, "works on cached features"), ({"model": "small-cnn"}, "takes images"),
    ({"features": "efficientnet@64"}, "Did you mean 'efficientnet-lite0'"),
    ({"features": "resnet18@x"}, "BACKBONE@SIZE"), ({"steps": "3"}, "must be of type int"),
    ({"batches": "domains"}, "Did you mean 'domain'"), ({"select_on": "acc"}, "Did you mean 'accuracy'"),
    ({"augment": "heavy"}, "No augmentation named"), ({"normalise": "images"}, "Did you mean 'image'"),
    ({"features": "", "model": "small-cnn", "normalise": "image", "attack": 0.5}, "Leave one of them out"),
])
def test_wrong_settings_are_told(wrong, says):
    """Each wrong setting is an error that names it and what is allowed."""
    with pytest.raises(ShiftBenchError, match=says):
        Run.of({"benchmark": "x", "features": FEATURES, **wrong})


def test_a_setting_of_the_method_is_not_taken_for_one_of_the_run():
    """The message says where it belongs; a wrong name is still a wrong name."""
    with pytest.raises(ShiftBenchError, match=r"'penalty' belongs to method 'irm'.* Give params=\{'penalty': 2.0\}\."):
        run_of("irm", {}, {"penalty": 2.0, "lr": 0.1})
    assert run_of("irm", {"penalty": 2.0}, {"lr": 0.1}).params["penalty"] == 2.0
    with pytest.raises(ShiftBenchError, match="No setting named 'penalti'"):
        run_of("irm", {}, {"penalti": 2.0})


def test_names_of_embeddings():
    """BACKBONE@SIZE; without a size, the one its weights were trained at."""
    assert split_features("efficientnet-lite0@128") == ("efficientnet-lite0", 128)
    assert split_features("resnet18") == ("resnet18", 224)


def test_weights_decide_how_often_an_item_is_drawn():
    """Items come in proportion to their weight in their pool, those of weight 0 never; a pool of zeros still comes."""
    codes = np.repeat([0, 1, 2], [4, 2, 3])
    weights = np.asarray([0.0, 1.0, 2.0, 5.0, 3.0, 1.0, 0.0, 0.0, 0.0])
    drawn = Batches(codes, 8, seed=3, weights=weights).block(0, 4000)
    share = np.bincount(drawn.ravel(), minlength=9) / drawn.size * 3
    np.testing.assert_allclose(share[:6], [0, 1 / 8, 2 / 8, 5 / 8, 3 / 4, 1 / 4], atol=0.01)
    assert (share[6:] > 0).all()
    assert np.array_equal(drawn[70], Batches(codes, 8, seed=3, weights=weights).block(70, 1)[0])


@pytest.mark.slow
def test_a_run_draws_by_the_weights_of_its_benchmark():
    """Training items of weight 0 change nothing, unless the run says resample = false."""
    _, benchmark = toy_rows()
    weight = np.where(np.arange(len(benchmark)) % 3 == 0, 0.0, 1.0)
    weighed = dataclasses.replace(benchmark, extra={"weight": weight})
    x = toy_features(benchmark)
    moved = x.clone()
    moved[torch.from_numpy((weight == 0) & (benchmark.split == "train"))] += 5
    test = torch.from_numpy(benchmark.split == "test")
    for resample in (True, False):
        run = toy_run(weighed, resample=resample)
        assert torch.equal(learn(run, weighed, x)[test], learn(run, weighed, moved)[test]) == resample
