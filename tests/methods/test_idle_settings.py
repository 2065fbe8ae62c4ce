"""Settings do something: every hyperparameter of every method changes a default run, and what has no effect is said."""

import json
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftbench.cli.training import sweep
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.methods import METHODS
from shiftbench.methods.method import Environments
from shiftbench.methods.presets import PRESETS, PUBLISHED, preset_settings
from shiftbench.sweeps.status import outcome_facts
from shiftbench.sweeps.study import Study
from shiftbench.training.batches import Data
from shiftbench.training.evaluate import predict_all
from shiftbench.training.loop import Fitting, train
from shiftbench.training.loop import learn as learn_all
from shiftbench.training.run import Outcome, Run, default_model
from tests.methods.test_more import noisy
from tests.toys import CPU, FEATURES, toy_features, toy_rows, toy_run
from tests.training.test_targets import built

ENVIRONMENTS = sorted(name for name, cls in METHODS.items() if issubclass(cls, Environments))
OTHER = {("dann", "depth"): 1, ("cdann", "depth"): 1, ("swa", "every"): 5, ("jtt", "first"): 0.02,
         ("lisa", "alpha"): 0.5, ("bn_adapt", "ratio"): 1.0, **{(name, "by"): "domain" for name in METHODS},
         **{(name, "by"): "group" for name in ENVIRONMENTS},
         **{(name, "width"): 8 for name in METHODS}}
"""Another legal value where half of the default, or its negation, is none."""

EXCUSED = {("last_layer", "split"): "names a split to learn from, of which the toy has one; see test_retrain.py",
           **{(name, part.name): "names a split to learn from; see test_unlabelled.py"
              for name, cls in METHODS.items() for part in fields(cls) if part.name == "unlabelled"}}
"""Hyperparameters that a short default run does not show, each with the reason."""

CASES = [(name, part.name) for name, cls in METHODS.items() for part in fields(cls) if (name, part.name) not in EXCUSED]


def other(name: str, field: str):
    value = next(part.default for part in fields(METHODS[name]) if part.name == field)
    if (name, field) in OTHER:
        return OTHER[name, field]
    if isinstance(value, bool):
        return not value
    return type(value)(1 if value == 0 else value / 2)


def said_by(one: Fitting) -> torch.Tensor:
    """What a trained run predicts of every row."""
    return torch.from_numpy(predict_all(one.run, one.data, one.learned.net).scores)


def on_features(name: str) -> bool:
    return METHODS[name].needs in ("", "features")


@cache
def data_of(features: bool) -> Data:
    """The toy as features, with labels that are wrong now and then, or as a few images."""
    if features:
        return Data(*noisy(), CPU)
    collection, few = toy_rows(24)
    return Data(few, torch.from_numpy(collection.pixels), CPU)


def run_of(name: str, data: Data, **params) -> Run:
    """A short run with all defaults. The last weights count: chosen ones may be older than the share of the steps that
    a setting is about."""
    short = {"features": FEATURES, "steps": 40} if on_features(name) else {"steps": 2, "batch_size": 4, "eval_every": 2}
    return Run(data.benchmark.digest, name, params, model=default_model(name), select_on="last", **short)


def outcomes(name: str) -> dict[str, torch.Tensor]:
    """Predictions of the default run (under "") and of one run per hyperparameter with another value of it."""
    data = data_of(on_features(name))
    params = {"": {}, **{field: {field: other(name, field)} for method, field in CASES if method == name}}
    small = {"width": 4} if name == "stargan" else {}
    pack = {field: Fitting(run_of(name, data, **{**small, **one}), data) for field, one in params.items()}
    learn_all(list(pack.values()))
    for one in pack.values():
        if one.problem is not None:
            raise one.problem
    assert pack[""].notes == ()  # a default run has nothing to say
    return {field: said_by(one) for field, one in pack.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in CASES))
def test_every_hyperparameter_matters(name):
    """Another value of it gives other predictions in a default run."""
    predictions = outcomes(name)
    default = predictions.pop("")
    assert [field for field, other in predictions.items() if torch.equal(default, other)] == []


def test_excuses_are_about_hyperparameters():
    """The list of exceptions names what there is, with a reason."""
    for (name, field), reason in EXCUSED.items():
        assert field in {part.name for part in fields(METHODS[name])}
        assert reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["irm", "vrex"])
def test_a_penalty_matters_from_a_tenth_of_the_steps(name):
    """By default the penalty counts: 1 and 10,000 predict otherwise; with anneal=1 they predict the same bytes."""
    data = data_of(True)

    params = [{"penalty": penalty, **anneal} for anneal in ({}, {"anneal": 1.0}) for penalty in (1.0, 10_000.0)]
    pack = [Fitting(run_of(name, data, **one), data) for one in params]
    learn_all(pack)
    weak, strong, weak_at_the_end, strong_at_the_end = (said_by(one) for one in pack)
    assert not torch.equal(weak, strong)
    assert torch.equal(weak_at_the_end, strong_at_the_end)


def one_domain(benchmark: Benchmark) -> Benchmark:
    return Benchmark.of(toy_rows()[0], None, 0, np.arange(len(benchmark)), benchmark.split,
                        label=np.asarray(benchmark.names["label"])[benchmark.label],
                        domain=np.full(len(benchmark), "here"))


@pytest.mark.parametrize(("name", "params", "field", "why"), [
    ("irm", {"anneal": 1.0}, "penalty=100.0", "anneal=1 holds its weight at 1 in all 40 steps"),
    ("vrex", {"anneal": 0.99}, "penalty=10.0", "anneal=0.99 holds its weight at 1 in all 40 steps"),
    ("eqrm", {"burn_in": 1.0}, "quantile=0.75", "burn_in=1 leaves none of 40 steps"),
    ("swa", {"every": 30}, "every=30", "only the last of 40 steps is averaged"),
    ("group_dro", {"hard": True, "step_size": 0.5}, "step_size=0.5", "hard=true puts all weight on the worst"),
])
def test_a_setting_without_effect_is_said(name, params, field, why):
    """One line names the method, the setting with its value, and the reason."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    said = []
    learn_all([Fitting(toy_run(benchmark, method=name, params=params), data, say=said.append)])
    assert any(line.startswith(f"{name}: {field} has no effect: ") and why in line for line in said), said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vrex", "coral", "mmd", "dann", "cdann", "mixup", "eqrm"])
def test_one_domain_leaves_nothing_to_compare(name):
    """Methods that compare domains say that there is one, and so does Group DRO of one group; their settings are idle
    then."""
    benchmark = one_domain(toy_rows()[1])
    data = Data(benchmark, toy_features(benchmark), CPU)
    field = next(part.name for part in fields(METHODS[name]) if part.type == "float")
    ends = [Fitting(toy_run(benchmark, method=name, params={field: value}), data) for value in (0.5, 0.9)]
    learn_all(ends)
    assert all("all training items are of one domain" in one.notes[0] for one in ends)
    first, second = (said_by(one) for one in ends)
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5)


def test_groups_of_one_size_need_no_weights():
    """Where all groups are alike, the exponent of reweighting and undersampling is idle, and said to be."""
    label, domain = np.repeat([0, 1], 8), np.tile([0, 1], 8)
    collection, _ = toy_rows(16)
    benchmark = Benchmark.of(collection, None, 0, np.arange(16), np.full(16, "train"),
                             label=np.asarray(["cat", "dog"])[label], domain=np.asarray(["in", "out"])[domain])
    data = Data(benchmark, toy_features(benchmark), CPU)
    for name, preset in (("reweight", ""), ("undersample", ""), ("reweight", "reweight_label"),
                         ("undersample", "undersample_label")):
        one = Fitting(toy_run(benchmark, method=name, preset=preset, steps=2), data)
        learn_all([one])
        assert "exponent=1.0 has no effect: each" in one.notes[0]


def test_jtt_says_when_its_first_model_makes_no_error():
    """Without an error there is nothing to weigh up; with errors nothing is said."""
    _, benchmark = toy_rows()
    clean, wrong = Data(benchmark, toy_features(benchmark), CPU), data_of(True)
    said = [Fitting(toy_run(data.benchmark, method="jtt"), data) for data in (clean, wrong)]
    learn_all(said)
    assert said[0].notes == ("jtt: upweight=10.0 has no effect: the first model makes no error on the training items.",)
    assert said[1].notes == ()


@pytest.mark.parametrize(("settings", "field"), [
    ({"momentum": 0.5}, "momentum"), ({"attack_steps": 9}, "attack_steps"), ({"domains_per_batch": 1}, "domains"),
    ({"patience": 3, "select_on": "last"}, "patience"), ({"select_on": "loss", "eval_every": 90}, "select_on"),
    ({"augment": "standard"}, "augment"), ({"size": 64}, "size"),
    ({"normalise": "image"}, "normalise"),
])
def test_settings_of_a_run_without_effect(settings, field):
    """A setting other than its default that the others make useless is named; defaults are never."""
    _, benchmark = toy_rows()
    (name,) = toy_run(benchmark, **settings).idle()
    assert name.startswith(field)
    assert toy_run(benchmark).idle() == {}


def test_the_log_has_it_once(tmp_path):
    """The note stands in the first line of the log of its stage, in a killed and resumed run too."""
    collection, benchmark = toy_rows(80)
    run = toy_run(benchmark, method="irm", params={"anneal": 1.0}, momentum=0.3)

    def stop(done: int, total: int) -> None:
        if done >= 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(benchmark, collection, run, tmp_path, device="cpu", checkpoint_seconds=0, progress=stop)
    folder = train(benchmark, collection, run, tmp_path, device="cpu")
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [len(line.get("notes", [])) for line in lines] == [2, 0, 0, 0]
    assert "irm: momentum=0.3 has no effect: optimizer adam" in lines[0]["notes"][0]
    assert "irm: penalty=100.0 has no effect" in lines[0]["notes"][1]


@pytest.mark.slow
@pytest.mark.usefixtures("workers_here")
def test_the_terminal_says_it(shell, tmp_path, monkeypatch):
    """`train` says it on standard error, `sweep` at the end with the number of runs; --quiet says nothing."""
    monkeypatch.chdir(tmp_path)
    collection, benchmark = built("class")
    collection.save("c")
    benchmark.save("b")
    words = ["train", "b", "--collection", "c", "--method", "vrex", "--features", "columns", "--steps", "5",
             "--set", "anneal=1.0", "--device", "cpu", "--out", "runs"]
    note = "vrex: penalty=10.0 has no effect: anneal=1 holds its weight at 1 in all 5 steps."
    code, _, errors = shell(*words)
    assert code == 0
    assert errors.splitlines() == [note]
    assert shell(*words, "--seed", "1", "--quiet")[2] == ""
    Path("study.toml").write_text("""
benchmarks = ["b"]
collection = "c"
seeds = [2, 3]
[run]
model = "mlp"
features = "columns"
steps = 5
[methods.vrex]
anneal = 1.0
""")
    assert f"in 2 runs: {note}" in shell("sweep", "study.toml", "--out", "runs", "--workers", "1", "--device", "cpu")[1]
    facts = outcome_facts([Outcome("a", "done", notes=(note,)), Outcome("b", "done")])
    assert facts["notes"] == [{"note": note, "runs": 1}]


def test_anneal_in_steps_is_refused():
    """A number of steps, as older studies have it, is one error that says what to write."""
    with pytest.raises(ShiftBenchError, match=r"irm: 'anneal' is 500, but it is a share of .* write anneal=0.1"):
        Run("", method="irm", params={"anneal": 500}, model="mlp", features=FEATURES)


def test_the_paper_s_steps_are_in_its_presets():
    """WILDS anneals for 500 steps, whatever the length of the run."""
    for name, methods in ((name, PRESETS[f"wilds-{name}"].by_method) for name in PUBLISHED):
        if "irm" in methods:
            told = preset_settings(f"wilds-{name}", "irm")
            assert told["anneal"] * told["steps"] == pytest.approx(500)


@pytest.mark.slow
def test_the_example_of_sweep_sweeps_settings_that_differ(tmp_path):
    """In the study that `sweep --help` shows, no two settings predict the same."""
    shown = (sweep.__doc__ or "").split("in all combinations:")[1].split("search =")[0]
    benchmark, x = noisy()
    benchmark.save(tmp_path / "benchmarks" / "toy")
    (tmp_path / "study.toml").write_text("\n".join(line.strip() for line in shown.splitlines()))
    study = Study.load(tmp_path / "study.toml")
    data = Data(benchmark, x, CPU)
    pack = [Fitting(Run.of({**one, "benchmark": benchmark.digest, "seed": 0, "select_on": "last"}), data)
            for one in study.settings()]
    assert len(pack) > 4
    learn_all(pack)
    ends = [said_by(one) for one in pack]
    assert all(not torch.equal(a, b) for place, a in enumerate(ends) for b in ends[place + 1:])
