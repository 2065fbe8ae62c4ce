"""Packs: runs trained at once end as they would alone, and end one by one."""

import json

import numpy as np
import pytest
import torch

from shiftbench.data.predictions import Predictions
from shiftbench.methods.method import Stage
from shiftbench.training.fast import Stacked, alike
from shiftbench.training.lane import Lane
from shiftbench.training.loop import Fitting, learn, train, train_pack
from shiftbench.training.step import Plain
from tests.toys import CPU, HEADS, Data, fitted, toy_features, toy_rows, toy_run

SHORT = {"steps": 12, "eval_every": 4}
FEW = [SHORT, {**SHORT, "lr": 0.1, "seed": 2}, {"steps": 9, "eval_every": 2}]
SETTINGS = [*FEW, {**SHORT, "seed": 1}, {**SHORT, "lr": 0.1}, {**SHORT, "weight_decay": 0.1},
            {"steps": 40, "eval_every": 4, "patience": 1, "lr": 0.3}, {**SHORT, "seed": 3, "select_on": "loss"}]
NUMBERS = {"irm": [{"penalty": 0.5, "anneal": 0.3}, {"penalty": 20.0}], "group_dro": [{"step_size": 0.5}],
           "coral": [{"penalty": 0.1}, {"penalty": 5.0}], "cdann": [{"penalty": 0.3}, {"width": 16}]}


def runs_of(benchmark, method, model="mlp", **more):
    """Runs of all settings for ERM and the methods of `NUMBERS`, of a few for the others."""
    params = NUMBERS.get(method, [])
    own = [{**SHORT, "params": part, **one} for part in params for one in ({}, {"seed": 4, "lr": 0.05})]
    settings = (*(SETTINGS if params or method == "erm" else FEW), *own)
    return [toy_run(benchmark, method=method, model=model, **(one | more)) for one in settings]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "optimizer"), [
    *((name, "mlp", "adam") for name in HEADS), ("erm", "linear", "sgd"), ("group_dro", "linear", "adamw"),
    ("irm", "mlp", "sgd")])
def test_a_run_in_a_pack_is_the_run_alone(method, model, optimizer):
    """Whatever it is stacked with, a run ends with the same weights bit for bit and at the same step."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark, 40)
    runs = runs_of(benchmark, method, model, optimizer=optimizer)
    data = Data(benchmark, x, CPU)
    pack = [Fitting(run, data) for run in runs]
    learn(pack)
    for one in pack:
        assert one.problem is None
        alone = fitted(one.run, benchmark, x)
        assert (one.learned.step, one.learned.best_step) == (alone.learned.step, alone.learned.best_step)
        assert torch.equal(one.learned.logits("test"), alone.learned.logits("test"))


@pytest.mark.learning
@pytest.mark.parametrize("method", HEADS)
def test_a_stacked_step_is_the_plain_step(method):
    """Four steps of stacked heads have the losses of four plain steps to 1e-4, and end at their weights to 1e-3: one
    product for all lanes adds up in another order than one for each."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    # Adam divides by the size of a gradient: one of 1e-9 would make another step on another processor.
    runs = [run for run in runs_of(benchmark, method, optimizer="sgd") if run.seed == 0 and run.steps == 12]
    stacked, plain = ([Lane(run, data, Stage(run.learner()), 0, None) for run in runs] for _ in range(2))
    packs = {}
    for lane in stacked:
        packs.setdefault(alike(lane), []).append(lane)
    losses = {lane.run.id: line for pack in packs.values() for lane, line in
              zip(pack, Stacked(pack).advance(4), strict=True)}
    for lane, fast in zip(plain, stacked, strict=True):
        (expected,) = Plain([lane]).advance(4)
        assert losses[lane.run.id] == pytest.approx(expected, rel=1e-4)
        for (name, ours), theirs in zip(fast.net.named_parameters(), lane.net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)


def test_a_broken_run_ends_alone(tmp_path):
    """Of a pack in which one run's loss is no number, the others are done and the reason of that one is on disk."""
    collection, benchmark = toy_rows(80)
    runs = [toy_run(benchmark, method="erm", lr=lr, steps=20) for lr in (0.01, 1e38, 0.02)]
    ends = train_pack(benchmark, collection, runs, tmp_path, device="cpu")
    assert [end.state for end in ends] == ["done", "failed", "done"]
    assert "the loss is" in ends[1].reason
    assert json.loads((tmp_path / runs[1].id / "failed.json").read_text())["reason"] == ends[1].reason
    assert not (tmp_path / runs[1].id / "done").exists()
    alone = train(benchmark, collection, runs[2], tmp_path / "alone", device="cpu")
    whole, single = (Predictions.load(folder / "predictions.parquet", benchmark)
                     for folder in (tmp_path / runs[2].id, alone))
    assert np.array_equal(whole.scores, single.scores)


@pytest.mark.slow
def test_a_killed_pack_goes_on_exactly(tmp_path):
    """Lanes whose checkpoints lie at different steps are stacked again and end as an unbroken pack."""
    collection, benchmark = toy_rows(80)
    runs = [toy_run(benchmark, method="group_dro", seed=seed, steps=30) for seed in range(3)]

    def stop(done: int, total: int) -> None:
        if done >= 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_pack(benchmark, collection, runs[:2], tmp_path / "a", device="cpu", checkpoint_seconds=0, progress=stop)
    for out in ("a", "b"):
        ends = train_pack(benchmark, collection, runs, tmp_path / out, device="cpu")
        assert [end.state for end in ends] == ["done"] * 3
    for run in runs:
        first, second = ((tmp_path / out / run.id / "predictions.parquet").read_bytes() for out in ("a", "b"))
        assert first == second
