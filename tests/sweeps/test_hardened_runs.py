"""Runs on images made harder: the attack and joined augmentations in a whole training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.shifts import LowData
from shiftbench.training.batches import Data
from shiftbench.training.inputs import inputs
from shiftbench.training.loop import Fitting, learn
from shiftbench.training.run import Run
from shiftbench.worlds.sprites import sprites
from tests.toys import CPU


@pytest.fixture(scope="module")
def data():
    collection = sprites(240, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(collection)
    return Data(benchmark, torch.from_numpy(collection.pixels[collection.index(benchmark.items)]), CPU)


def run(data, **settings):
    return Run(data.benchmark.digest, **{"model": "small-cnn", "steps": 4, "batch_size": 8, "eval_every": 2,
                                         "select_on": "last", **settings})


def trained(one, data, folder=None, **options):
    fitting = Fitting(one, data, folder)
    learn([fitting], **options)
    if fitting.problem is not None:
        raise fitting.problem
    return fitting.learned.logits("test").numpy()


@pytest.mark.slow
def test_an_attack_changes_training_and_vanishes_with_its_radius(data):
    """A run on attacked images ends elsewhere; a radius near 0 leaves what ERM gives; it combines with any method."""
    plain = trained(run(data), data)
    hard = trained(run(data, preset="adversarial"), data)
    assert not np.allclose(plain, hard, rtol=1e-3)
    np.testing.assert_allclose(trained(run(data, attack=1e-7), data), plain, rtol=1e-2, atol=1e-3)
    assert not np.array_equal(trained(run(data, method="group_dro"), data),
                              trained(run(data, method="group_dro", attack=0.5), data))


def test_a_stopped_adversarial_run_goes_on(data, tmp_path):
    """Stopped after its third step and started again, it ends as one that never stopped."""
    class Stop(Exception):
        pass

    def stop(done, total):
        if done >= 3:
            raise Stop

    one = run(data, preset="adversarial", augment="standard+noise")
    whole = trained(one, data)
    with pytest.raises(Stop):
        trained(one, data, tmp_path, progress=stop, checkpoint_seconds=0)
    assert np.array_equal(whole, trained(one, data, tmp_path))


def test_training_sees_stylised_images_and_nothing_else_does(tmp_path):
    """With `stylised` training rows come from the other collection, whatever its files end in; all others are plain."""
    plain = sprites(120, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(plain)
    other = replace(plain, name="styled", pixels=255 - plain.pixels)
    other.save(tmp_path / "styled")
    one = Run(benchmark.digest, model="small-cnn", stylised=str(tmp_path / "styled"))
    x = inputs(benchmark, plain, one).numpy()
    train = np.isin(np.arange(len(benchmark)), benchmark.rows("train"))
    rows = plain.index(benchmark.items)
    assert np.array_equal(x[train], 255 - plain.pixels[rows[train]])
    assert np.array_equal(x[~train], plain.pixels[rows[~train]])
    few = replace(other, items=other.items[:40], pixels=other.pixels[:40], name="few",
                  factors={name: values[:40] for name, values in other.factors.items()})
    few.save(tmp_path / "few")
    with pytest.raises(ShiftBenchError, match="has no stylised image of"):
        inputs(benchmark, plain, Run(benchmark.digest, model="small-cnn", stylised=str(tmp_path / "few")))


def test_a_preset_adds_its_augmentation_to_the_runs_own():
    """`random_erasing` with standard crops is both, in this order, however often the settings are read again."""
    one = Run("0", preset="random_erasing", model="small-cnn", augment="standard")
    assert one.augment == "standard+erase"
    assert Run.of(one.to_json()) == one
    with pytest.raises(ShiftBenchError, match="No augmentation named 'eraze'"):
        Run("0", model="small-cnn", augment="standard+eraze")
    with pytest.raises(ShiftBenchError, match="works on cached features"):
        Run("0", model="mlp", features="small-cnn@32", attack=0.5)
    assert Run("0", preset="adversarial", model="small-cnn").attack == 0.5
    assert Run("0", preset="adversarial", model="small-cnn", attack=1).attack == 1.0
