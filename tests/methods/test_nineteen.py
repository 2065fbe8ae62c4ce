"""The nineteen methods of Wiles et al.: all there, each with its settings, and each of them something of its own."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.methods import METHODS
from shiftbench.methods.presets import NINETEEN, VARIANTS, family
from shiftbench.methods.space import SPACES, Grid
from shiftbench.reporting.sections.fine_grained_scores import SHARED
from shiftbench.shifts import LowData
from shiftbench.sweeps.study import Study
from shiftbench.training.batches import load
from shiftbench.training.evaluate import predict_all
from shiftbench.training.loop import Fitting, learn
from shiftbench.training.run import Run
from shiftbench.worlds.sprites import sprites
from tests.toys import CPU

SMALL = {"stargan": {"width": 4}, "beta_vae": {"latent": 4}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Every method after three steps: what decides its predictions, and the predictions."""
    collection = sprites(160, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=4).build(collection)
    found = {}
    for name in ("erm", *NINETEEN):
        preset = VARIANTS.get(name)
        own = {"method": name} if preset is None else {"method": preset.method, "preset": name}
        if not (METHODS[name].model if preset is None else preset.settings.get("model")):
            own["model"] = "small-cnn"
        weights = {"weights": _weights(tmp_path_factory.mktemp("weights"))} if name == "pretrained" else {}
        run = Run(benchmark.digest, params=SMALL.get(name, {}), steps=3, batch_size=8, eval_every=3,
                  select_on="last", **own, **weights)
        one = Fitting(run, load(benchmark, collection, run, CPU, None))
        learn([one])
        if one.problem is not None:
            raise one.problem
        found[name] = (one.learned.net.state_dict(), predict_all(run, one.data, one.learned.net).scores)
    return found


def _weights(folder: Path) -> str:
    """Weights of a small net that saw something else."""
    from safetensors.torch import save_file

    from shiftbench.models import build

    save_file(build("small-cnn", 7, seed=9).state_dict(), folder / "other.safetensors")
    return str(folder / "other.safetensors")


def test_all_nineteen_are_listed():
    """`methods --json` and `methods --presets --json` list them with family, hyperparameters or settings, and grid."""
    listed = {one["name"]: one for words in (["methods", "--json"], ["methods", "--presets", "--json"])
              for one in json.loads(CliRunner().invoke(app, words).output)}
    assert len(NINETEEN) == 19
    assert set(NINETEEN) <= set(listed)
    for name in NINETEEN:
        one = listed[name]
        assert one["wiles"]["lr"] in ("0.01, 0.001, 0.0001", "0.0001")
        if name in METHODS:
            assert isinstance(one["parameters"], dict)
            assert one["head_only"] is (METHODS[name].needs in ("", "features"))
        else:
            assert one["method"] == "erm"
            assert one["settings"]
    assert listed["irm"]["wiles"]["penalty"] == "0.01, 0.1, 1.0, 10.0"
    assert listed["vit"]["wiles"]["batch_size"] == "1024"


def table_4(settings):
    """Whether the settings of a run are among those of the paper's Table 4."""
    space = SPACES["wiles"]
    own = space.methods.get(settings["preset"] or settings["method"], {})
    values = {**settings, **settings["params"]}
    return all(values[key] in (entry.values if isinstance(entry, Grid) else (entry,))
               for key, entry in {**space.run, **own}.items())


def test_the_study_of_five_seeds_stays_inside_table_4():
    """All nineteen, five seeds, values of Table 4, as many images per step, and pretraining beside its own net."""
    folder = Path(__file__).parents[2] / "examples" / "fine_grained"
    studies = [Study.load(folder / name) for name in ("five_seeds.toml", "five_seeds_slow.toml")]
    assert {study.seeds for study in studies} == {(0, 1, 2, 3, 4)}
    assert studies[0].builds == replace(studies[1].builds, source=studies[0].source)
    settings = [{"preset": "", **one} for study in studies for one in study.settings()]
    names = [one["preset"] or one["method"] for one in settings]
    assert sorted(names) == sorted([*NINETEEN, "erm"])
    by_name = dict(zip(names, settings, strict=True))
    assert all(table_4(one) for one in settings)
    assert not table_4({**by_name["irm"], "params": {"penalty": 100.0}})
    assert {(one["batches"], one["batch_size"]) for name, one in by_name.items() if name != "vit"} == {("plain", 128)}
    assert by_name["pretrained"]["model"] == by_name["erm"]["model"]
    assert all(by_name[name]["steps"] > by_name["resnet18"]["steps"] for name in (
        "pixel-mlp", "irm", "dann", "resnet50", "beta_vae", "stargan"))  # those that had not learnt in small.toml


def test_the_papers_protocol_has_a_larger_net_and_twice_the_steps_on_real_data():
    """Synthetic data: a ResNet-18 for 100,000 steps; Camelyon17 and iWildCam: a ResNet-50 for 200,000 (§4, F.7)."""
    folder = Path(__file__).parents[2] / "examples" / "fine_grained"
    plain, real = ([{"preset": "", **one} for one in Study.load(folder / name).settings()]
                   for name in ("paper.toml", "paper_wilds.toml"))
    assert {one["steps"] for one in plain} == {100_000}
    assert {one["steps"] for one in real} == {200_000}
    assert {one["preset"] or one["method"] for one in plain} == {one["preset"] or one["method"] for one in real} == {
        *NINETEEN}
    free = [name for name in NINETEEN if family(name) in SHARED]
    for runs, net in ((plain, "resnet18"), (real, "resnet50")):
        assert {one["model"] for one in runs if (one["preset"] or one["method"]) in free} == {net}
        assert all(table_4(one) for one in runs)


@pytest.mark.slow
def test_none_is_another_under_a_second_name(trained):
    """After three steps from one seed no two of them predict alike, and none has ERM's weights but BN-Adapt."""
    names = list(trained)
    for place, one in enumerate(names):
        for other in names[:place]:
            assert not np.array_equal(trained[one][1], trained[other][1]), (one, other)
    plain = trained["erm"][0]
    for name in NINETEEN:
        weights = trained[name][0]
        same = weights.keys() == plain.keys() and all(
            weights[key].shape == plain[key].shape and torch.equal(weights[key], plain[key]) for key in plain)
        assert same is (name == "bn_adapt"), name
