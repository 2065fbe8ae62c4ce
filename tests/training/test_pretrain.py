"""No shift at all, and weights that one collection gives to another."""

import numpy as np
import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.shifts import IID
from shiftbench.shifts.recipe import build
from shiftbench.training.folder import load_run
from shiftbench.training.run import Run, default_model
from shiftbench.worlds.sprites import sprites


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world") / "sprites"
    sprites(400, seed=0, size=32).save(folder)
    return folder


def test_iid_splits_are_drawn_alike(world):
    """Every item is in one split, the shares are those asked for, and no value is commoner in one than in another."""
    collection = sprites(6000, seed=1, size=32)
    made = IID("shape", domain="colour", held=0.2).build(collection, seed=3)
    assert sorted(made.items.tolist()) == sorted(collection.items.tolist())
    shares = {split: len(made.rows(split)) / 6000 for split in made.splits}
    assert shares == pytest.approx({"train": 0.4, "id_val": 0.2, "id_test": 0.2, "test": 0.2}, abs=0.02)
    for column in ("label", "domain"):
        codes = getattr(made, column)
        counts = np.asarray([np.bincount(codes[made.rows(split)]) / len(made.rows(split)) for split in made.splits])
        assert np.ptp(counts, axis=0).max() < 0.06


def test_iid_needs_something_to_train_on():
    with pytest.raises(ShiftBenchError, match="three such shares"):
        IID("shape", held=0.4).build(sprites(50, seed=0, size=32))


def test_pretrained_weights_are_where_a_run_starts(world, tmp_path):
    """`pretrain` leaves a weight file; a run of one small step from it stays near it, and one without it does not."""
    given = ["pretrain", str(world), "--label", "colour", "--model", "small-cnn", "--out", str(tmp_path / "pre"),
             "--steps", "5", "--set", "batch_size=16", "--quiet", "--device", "cpu"]
    assert CliRunner().invoke(app, given).exit_code == 0
    file = tmp_path / "pre" / "weights.safetensors"
    before = load_file(file)
    assert CliRunner().invoke(app, given).exit_code == 0
    assert len(list((tmp_path / "pre" / "runs").iterdir())) == 1  # found, not done again
    build(sb.Recipe(world, sb.LowData("shape", "colour", ("blue",), n_low=4), 0), tmp_path / "low")
    given = {"model": "small-cnn", "steps": 1, "lr": 1e-6, "device": "cpu"}
    near = sb.train(tmp_path / "low", "erm", tmp_path / "runs", preset="pretrained", weights=str(file), **given)
    far = sb.train(tmp_path / "low", "erm", tmp_path / "runs", **given)
    assert load_run(near).weights == str(file)
    key = "features.0.weight"
    assert (load_file(near / "checkpoint.safetensors")[key] - before[key]).abs().max() < 1e-5
    assert (load_file(far / "checkpoint.safetensors")[key] - before[key]).abs().max() > 1e-3


def test_a_presets_name_decides_settings():
    """`resnet50` is ERM with that model: it is filled in, and another is refused; other weights are not."""
    assert Run("0", preset="resnet50").model == "resnet50"
    assert Run("0", preset="randaugment", model="small-cnn").augment == "randaugment"
    assert Run("0", preset="pretrained", model="small-cnn", weights="mine.pth").weights == "mine.pth"
    assert Run("0", preset="pretrained", model="small-cnn").weights == "imagenet"
    with pytest.raises(ShiftBenchError, match="is erm with model=resnet50"):
        Run("0", preset="resnet50", model="small-cnn")
    with pytest.raises(ShiftBenchError, match="needs images, which model 'mlp' does not have"):
        Run("0", preset="augmix", model="mlp", features="small-cnn@32")
    assert [default_model("erm", name) for name in ("vit", "pretrained", "augmix", "")] == [
        "vit", "efficientnet-lite0", "resnet18", "mlp"]
    assert [default_model(name) for name in ("dann", "beta_vae", "sagnet")] == ["mlp", "beta-vae", "resnet18"]
