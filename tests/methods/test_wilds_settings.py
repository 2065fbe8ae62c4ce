"""WILDS' published settings: presets, studies and the search space are those of the package and of Table 2."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.presets import PUBLISHED, WILDS_RUNS, preset_settings
from shiftbench.methods.space import SPACES
from shiftbench.sweeps.study import Study
from shiftbench.training.run import run_of
from tests.toys import method_of, net_of, ten_rows, toy_rows

ROOT = Path(__file__).parents[2]
SEEDS = {"camelyon17": 10, "civilcomments": 5, "poverty": 1}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_study_of_a_data_set_trains_what_table_2_has(name, tmp_path):
    """examples/wilds/NAME.toml has the paper's methods with the preset's settings and as many seeds as the leaderboard
    wants; the published numbers in it are those of docs/wilds.md."""
    path = ROOT / "examples" / "wilds" / f"{name}.toml"
    toy_rows()[1].save(tmp_path / "b")
    study = Study.load(path, {"benchmarks": [str(tmp_path / "b")]})
    blocks = list(study.blocks())
    assert [block.method for block in blocks] == list(WILDS_RUNS[name])
    assert len(study.seeds) == SEEDS.get(name, 3)
    for block in blocks:
        wanted = preset_settings(f"wilds-{name}", block.method)
        assert {key: block.fixed[key] for key in wanted} == wanted
        assert not block.grid
    row = next(line for line in (ROOT / "docs" / "wilds.md").read_text().splitlines()
               if line.startswith(f"| `{name}` |") and re.search(r"\(\d", line))
    published = re.findall(r"\d+\.\d+ \(\d+\.\d+\)", row)
    assert re.findall(r"\d+\.\d+ \(\d+\.\d+\)", path.read_text()) == published
    assert len(published) == len(blocks)


def test_the_study_of_celeba_has_the_package_s_settings(tmp_path):
    """ResNet-50 from ImageNet, SGD with momentum 0.9 at 1e-3, nothing decays, 200 epochs of batches of 64; the worst
    group of val chooses; Group DRO is over male × blond, with as many items of each."""
    toy_rows()[1].save(tmp_path / "b")
    study = Study.load(ROOT / "examples" / "wilds" / "celeba.toml", {"benchmarks": [str(tmp_path / "b")]})
    erm, robust = (block.fixed for block in study.blocks())
    package = {"model": "resnet50", "weights": "imagenet", "optimizer": "sgd", "momentum": 0.9, "lr": 1e-3,
               "weight_decay": 0.0, "epochs": 200, "select_on": "worst_group", "select_split": "val"}
    for settings in (erm, robust):
        assert {key: settings[key] for key in package} == package
    assert erm["batch_size"] == 64
    assert erm["eval_every"] == -(-162_770 // 64)
    assert (robust["batches"], 4 * robust["batch_size"], robust["step_size"]) == ("group", 64, 0.01)
    assert robust.get("by", "group") == "group"


def test_presets_have_the_schedules_of_the_package():
    """Text models clip at 1; FMoW and PovertyMap lose 4 % an epoch; RxRx1 warms up for 5,415 steps, ten epochs."""
    settings = {name: preset_settings(f"wilds-{name}", "erm") for name in PUBLISHED}
    assert {name for name, own in settings.items() if own.get("max_grad_norm") == 1} == {
        "civilcomments", "amazon", "py150"}
    assert {name for name, own in settings.items() if own.get("decay_all") is False} == {"civilcomments", "amazon"}
    for name in ("fmow", "poverty"):
        assert (settings[name]["schedule"], settings[name]["drop"]) == ("exponential", 0.96)
        assert settings[name]["drop_every"] == settings[name]["eval_every"]
    assert settings["rxrx1"]["warmup"] == 5415
    assert settings["rxrx1"]["warmup"] / settings["rxrx1"]["eval_every"] == pytest.approx(10, abs=0.5)


def test_images_are_prepared_as_the_package_does():
    """RxRx1 alone standardises each image, and turns and flips those it trains on; plain ERM augments nothing else,
    PovertyMap's images of eight channels included."""
    settings = {name: preset_settings(f"wilds-{name}", "erm") for name in PUBLISHED}
    assert {name: own["normalise"] for name, own in settings.items() if "normalise" in own} == {"rxrx1": "image"}
    assert {name: own["augment"] for name, own in settings.items() if "augment" in own} == {"rxrx1": "rotate-flip"}
    for method in WILDS_RUNS["rxrx1"]:
        run = run_of(method, {}, {}, "wilds-rxrx1")
        assert (run.normalise, run.augment) == ("image", "rotate-flip")
        assert not {"normalise", "augment"} & run.idle().keys()


def test_the_search_encloses_what_was_settled_on():
    """Every penalty of a preset is one of those that search = "wilds" tries, and nothing else is searched."""
    space = SPACES["wilds"]
    assert not space.run
    for name in PUBLISHED:
        for method in set(WILDS_RUNS[name]) & {"coral", "irm"}:
            assert preset_settings(f"wilds-{name}", method)["penalty"] in space.methods[method]["penalty"].values


def test_group_dro_by_label_weighs_classes():
    """by = "label": q is over classes, and the loss is that of by = "group" where groups are the labels."""
    x, batch, task = ten_rows()
    net, counts = net_of(), np.bincount(batch.label.numpy())
    by_label, by_group = method_of("group_dro", by="label"), method_of("group_dro")
    own = by_label.state(task)
    same = task._replace(n_groups=3, group_counts=torch.from_numpy(counts))
    other = by_group.state(same)
    relabelled = batch._replace(group=batch.label)
    for step in range(3):
        assert torch.equal(by_label.loss(net, batch, own, step), by_group.loss(net, relabelled, other, step))
    assert torch.equal(own.q, other.q)
    assert len(own.q) == 3
    with pytest.raises(ShiftBenchError, match="by=label is for classes"):
        by_label.loss(net, batch._replace(label=x[:, 0]), own, 0)


@pytest.mark.parametrize(("name", "word"), [("iwildcam", "iWildCam"), ("camelyon17", "Camelyon17"), ("fmow", "FMoW")])
def test_what_coral_lacks_of_version_2_is_said(name, word):
    """CORAL's presets have no RandAugment, version 2's default; the page's table of differences names each data set."""
    page = (ROOT / "docs" / "wilds.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| CORAL with RandAugment")]
    assert ("augment" in preset_settings(f"wilds-{name}", "coral")) is not any(word in row for row in rows)
