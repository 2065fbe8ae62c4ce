"""Presets: names for settings of a run. Each is a run that can be made, and a run keeps the name of its variant."""

import math
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.data.scores import settings_id
from shiftbench.methods import METHODS
from shiftbench.methods.presets import (
    NINETEEN,
    PRESETS,
    PUBLISHED,
    RENAMED,
    VARIANTS,
    WILDS_RUNS,
    expand,
    family,
    preset_settings,
)
from shiftbench.models import MODELS
from shiftbench.training.folder import load_run
from shiftbench.training.run import Run, run_of
from tests.toys import toy_rows

CASES = [(name, method) for name, methods in WILDS_RUNS.items() for method in methods]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_every_run_of_the_paper_can_be_made(name, method):
    """Every key is a field of a run or of the method, and together they are a run that its checks let pass."""
    given = preset_settings(f"wilds-{name}", method)
    own = {part.name for part in fields(METHODS[method])}
    of_run = {part.name for part in fields(Run)}
    assert set(given) <= own | of_run
    run = Run.of({"benchmark": "0", "method": method, "params": {key: given[key] for key in own & set(given)},
                  **{key: value for key, value in given.items() if key not in own}})
    assert run.model in MODELS


def test_ten_data_sets_have_presets_that_erm_takes_as_they_are():
    """`--preset wilds-NAME` names fields of a run alone."""
    published = [PRESETS[f"wilds-{name}"] for name in PUBLISHED]
    assert len(published) == 10
    assert all(set(preset.settings) <= {part.name for part in fields(Run)} for preset in published)


@pytest.mark.parametrize("name", PUBLISHED)
def test_passes_become_steps(name):
    """As many items are drawn in all steps as in the passes of the paper, and a look is taken once a pass."""
    told, given = PUBLISHED[name], preset_settings(f"wilds-{name}", "erm")
    assert 0 <= given["steps"] * given["batch_size"] - told.epochs * told.items < given["batch_size"]
    assert abs(given["eval_every"] - told.items / told.batch) <= 1


@pytest.mark.parametrize(("name", "method"), [case for case in CASES if case[1] in ("coral", "irm")])
def test_batches_of_domains_have_the_items_of_plain_ones(name, method):
    """Items of each domain times domains of a batch are the paper's batch."""
    given = PRESETS[f"wilds-{name}"].by_method[method]
    assert given["batch_size"] * given["domains_per_batch"] == PUBLISHED[name].batch


def test_what_the_paper_does_not_run_has_no_settings():
    """No CORAL on detection, and no eleventh data set."""
    assert set(PRESETS["wilds-globalwheat"].by_method) == {"group_dro"}
    with pytest.raises(ShiftBenchError, match="No preset named 'wilds-celeba'"):
        preset_settings("wilds-celeba", "erm")


def test_patience_counts_epochs_of_the_benchmark_at_hand():
    """A preset that stops early evaluates after epochs of whatever is trained on: with 120 items in batches of 32
    NOOCh's does after every fourth step, not after the 2,697 of its own data. Steps that a user gives win."""
    early = {name for name, preset in PRESETS.items()
             if any("patience" in own for own in (preset.settings, *preset.by_method.values()))}
    assert early == {"nooch"}
    assert all("eval_every" not in PRESETS[name].settings and PRESETS[name].settings["eval_epochs"] for name in early)
    _, benchmark = toy_rows()
    run = run_of("erm", {}, {}, "nooch", benchmark)
    assert (run.eval_every, run.patience) == (math.ceil(120 / 32), 2)
    short = run_of("erm", {}, {"epochs": 20}, "nooch", benchmark)
    assert (short.steps, short.eval_every) == (75, 4)
    assert run_of("erm", {}, {"eval_every": 7}, "nooch", benchmark).eval_every == 7


# Variants


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_its_method_with_its_settings(name):
    """It fills in fields of a run or hyperparameters; the run reads back as it is, and is shown under its name."""
    preset = VARIANTS[name]
    own = {part.name for part in fields(METHODS[preset.method])}
    assert set(preset.settings) <= own | {part.name for part in fields(Run)}
    model = {} if "model" in preset.settings else {"model": "small-cnn"}
    run = Run("0", method=preset.method, preset=name, **model)
    assert {key: run.params[key] if key in own else getattr(run, key) for key in preset.settings} == preset.settings
    assert run.label == name
    assert Run.of(run.to_json()) == run
    assert family(name)
    assert preset.paper
    assert preset.source
    assert preset.summary.endswith(".")


def test_a_run_keeps_the_id_that_it_had_when_presets_were_methods():
    """The id is of all settings under the label, and a run without a preset says nothing of one."""
    run = Run("0", preset="resnet18", steps=5)
    old = {key: value for key, value in run.to_json().items() if key != "preset"}
    assert run.id == settings_id({**old, "method": "resnet18"})
    plain = Run("0", model="resnet18", steps=5)
    assert "preset" not in plain.to_json()
    assert plain.id == settings_id(plain.to_json()) != run.id


def test_the_nineteen_are_methods_or_variants():
    """No name of the paper's list is missing here, and none is both."""
    assert set(NINETEEN) <= {*METHODS, *VARIANTS}
    assert not set(METHODS) & set(PRESETS)


def test_presets_combine_as_far_as_they_can():
    """A variant beside a protocol wins over it; two variants, or a variant of another method, are refused."""
    assert expand(["augmix", "metashift"]) == ("erm", "augmix", {
        key: value for key, value in PRESETS["metashift"].settings.items() if key != "augment"})
    assert expand(["wilds-fmow"], "coral")[2]["penalty"] == 0.1
    with pytest.raises(ShiftBenchError, match="resnet18 and augmix cannot be one run"):
        expand(["resnet18", "augmix"])
    with pytest.raises(ShiftBenchError, match="preset 'augmix' is erm with augment=augmix, so method 'irm'"):
        Run("0", method="irm", preset="augmix", model="small-cnn")
    with pytest.raises(ShiftBenchError, match="by=domain contradicts"):
        Run("0", "reweight", {"by": "domain"}, model="small-cnn", preset="reweight_label")


@pytest.mark.parametrize("name", ["resnet50", "only_rotate", "pretrained", *RENAMED])
def test_an_old_name_answers_with_the_new_way(name):
    """`--method resnet50` ends with 2 and one line; in Python it is an error."""
    shown = CliRunner().invoke(app, ["train", "b", "--method", name, "--out", "r"])
    assert shown.exit_code == 2
    new = RENAMED.get(name, name)
    assert f"'{name}' is a preset: --preset {new}" in shown.output
    with pytest.raises(ShiftBenchError, match=f"'{name}' is a preset: --preset {new}"):
        Run("0", method=name)


def test_a_run_needs_a_method_or_a_preset():
    """Neither is wrong usage; a preset brings its method."""
    shown = CliRunner().invoke(app, ["train", "b", "--out", "r"])
    assert shown.exit_code == 2
    assert "--preset" in shown.output
    assert run_of("", {}, {}, "reweight_label").params["by"] == "label"
    assert run_of("", {}, {"size": 32}, ["metashift", "augmix"]).augment == "augmix"


def test_a_run_of_the_old_days_is_read(tmp_path):
    """A run.json whose method is now a preset describes the same run."""
    run = Run("0", preset="resnet18", steps=5)
    old = {key: value for key, value in run.to_json().items() if key != "preset"}
    write_json(tmp_path / "run.json", {"run": {**old, "method": "resnet18"}})
    assert load_run(tmp_path) == run
