"""Methods of several stages, and one that adapts: what they learn from, what they leave alone, what they minimise."""

import copy
import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.methods import METHODS, Batch, Task
from shiftbench.methods.dfr import _LastLayer
from shiftbench.models import build
from shiftbench.training.batches import Data
from shiftbench.training.evaluate import predict_all
from shiftbench.training.lane import Lane
from shiftbench.training.loop import Fitting
from shiftbench.training.run import Run
from tests.toys import CPU, fitted, learn, toy_features, toy_rows, toy_run


class Stop(Exception):
    """Stands for whatever ends a process."""


def stop_after(calls: int):
    left = iter(range(calls - 1))

    def progress(done: int, total: int) -> None:
        if next(left, None) is None:
            raise Stop
    return progress


def squares(n: int = 96, side: int = 16, seed: int = 0) -> tuple[torch.Tensor, Benchmark]:
    """A dark square somewhere: its size is the label, the colour around it, red or blue, the domain."""
    rng = np.random.default_rng(seed)
    label, domain = rng.integers(0, 2, n), rng.integers(0, 2, n)
    pixels = rng.integers(0, 20, (n, side, side, 3), dtype=np.uint8)
    pixels[np.arange(n), :, :, 2 * domain] += 220
    for one, size in zip(pixels, np.where(label, 10, 6), strict=True):
        y, x = rng.integers(0, side - size, 2)
        one[y:y + size, x:x + size] = 10
    collection = Collection("squares", np.asarray([f"i{k:03d}" for k in range(n)]))
    split = np.asarray(["train", "id_val", "test"])[np.repeat([0, 1, 2], [n // 2, n // 4, n - n // 2 - n // 4])]
    words = {"label": np.asarray(["small", "large"])[label], "domain": np.asarray(["red", "very blue"])[domain]}
    return torch.from_numpy(pixels), Benchmark.of(collection, None, seed, np.arange(n), split, **words)


def image_run(benchmark, **more):
    return toy_run(benchmark, **{"model": "small-cnn", "features": "", "steps": 3, "eval_every": 3, "batch_size": 8,
                                 **more})


STAGED = {"dfr": {}, "beta_vae": {"model": "beta-vae", "params": {"latent": 3}, "lr": 1e-3, "batch_size": 2},
          "stargan": {"params": {"width": 2}}}


@cache
def unbroken(name: str) -> tuple[Run, Benchmark, torch.Tensor, torch.Tensor]:
    """A run, what it learns from, and the logits that it ends with when nothing stops it."""
    x, benchmark = squares(48)
    run = image_run(benchmark, method=name, **STAGED[name])
    return run, benchmark, x, learn(run, benchmark, x)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [2, 5], ids=["first stage", "second stage"])
@pytest.mark.parametrize("name", STAGED)
def test_goes_on_in_its_stage(name, calls, tmp_path):
    """Stopped in either stage and started again, a run ends bit for bit as an unbroken one."""
    run, benchmark, x, whole = unbroken(name)
    with pytest.raises(Stop):
        learn(run, benchmark, x, tmp_path, checkpoint_seconds=0, progress=stop_after(calls))
    assert (tmp_path / "stage-0.safetensors").exists() == (calls > 3)
    assert torch.equal(learn(run, benchmark, x, tmp_path, checkpoint_seconds=0), whole)


# BN-Adapt


def trained_net(seed: int = 0):
    """A net whose norms have seen something."""
    net = build("small-cnn", 2, seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for _ in range(3):
            net.train()(torch.randn(16, 3, 32, 32))
    return net.eval()


def test_adapted_norms_change_and_weights_do_not():
    """The first norm has 10/11 of its old statistics and 1/11 of its inputs'; no other tensor but norms' changes."""
    net, x = trained_net(), torch.rand(20, 3, 32, 32) * 3
    adapted = METHODS["bn_adapt"]().adapted(copy.deepcopy(net), x)
    with torch.no_grad():
        var, mean = torch.var_mean(net.features[0](x), dim=(0, 2, 3), correction=0)
    for old, new, target in ((net.norms()[0].running_mean, adapted.norms()[0].running_mean, mean),
                             (net.norms()[0].running_var, adapted.norms()[0].running_var, var)):
        torch.testing.assert_close(new, old * 10 / 11 + target / 11)
    changed = {key for key, value in net.state_dict().items() if not torch.equal(value, adapted.state_dict()[key])}
    assert changed == {key for key in net.state_dict() if key.endswith(("running_mean", "running_var"))}
    assert not any(module._forward_pre_hooks for module in adapted.modules())


def test_adapting_fully_or_never():
    """With r = 0 the net predicts as one in training mode does; with r without end it predicts as before."""
    net, x = trained_net(), torch.rand(20, 3, 32, 32) * 3
    with torch.no_grad():
        own, batch = net(x), copy.deepcopy(net).train()(x)
        fully, never = (METHODS["bn_adapt"](ratio=r).adapted(copy.deepcopy(net), x)(x) for r in (0.0, 1e9))
    torch.testing.assert_close(fully, batch, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(never, own, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(fully, own, atol=1e-2)


def test_each_domain_is_adapted_to_alone():
    """Train is predicted as by ERM; what a test domain gets depends on its own inputs and on no label."""
    x, benchmark = squares(80)
    run = image_run(benchmark, method="bn_adapt")
    one = fitted(run, benchmark, x)
    erm = fitted(dataclasses.replace(run, method="erm", params={}), benchmark, x)
    logits = torch.from_numpy(predict_all(run, one.data, one.learned.net).scores)
    plain_ones = erm.learned.logits
    assert torch.equal(logits[benchmark.rows("train")], plain_ones("train"))
    assert not torch.allclose(logits[benchmark.rows("test")], plain_ones("test"))
    test = benchmark.rows("test")
    other = test[benchmark.domain[test] == 1]
    brighter = x.clone()
    brighter[other] += 5
    relabelled = dataclasses.replace(benchmark, label=np.where(benchmark.split == "test", 0, benchmark.label))
    moved = torch.from_numpy(predict_all(run, Data(relabelled, brighter, CPU), one.learned.net).scores)
    same = np.setdiff1d(np.arange(80), other)
    assert torch.equal(moved[same], logits[same])
    assert not torch.equal(moved[other], logits[other])


def test_a_net_without_batch_norms_is_told():
    """Before the first step, with the names of models that have some."""
    x, benchmark = squares(24)
    with pytest.raises(ShiftBenchError, match=r"'pixel-mlp' has no batch norms to adapt. .*: .*resnet18, .*small-cnn"):
        learn(image_run(benchmark, method="bn_adapt", model="pixel-mlp"), benchmark, x)


# DFR


@pytest.mark.slow
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_the_last_layer_learns_from_held_out_items(model, tmp_path):
    """Features are ERM's bit for bit, the head is not; the second stage's items are those of id_val alone."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    run = toy_run(benchmark, method="dfr", model=model, select_on="last")
    erm = fitted(dataclasses.replace(run, method="erm", params={}), benchmark, x).learned.net
    dfr = fitted(run, benchmark, x).learned.net
    assert all(torch.equal(old, new) for old, new in zip(erm.features.parameters(), dfr.features.parameters(),
                                                         strict=True))
    assert not torch.equal(erm.head.weight, dfr.head.weight)
    lane = second_lane(run, benchmark, x)
    assert np.array_equal(lane.data.train, benchmark.rows("id_val"))
    assert lane.steps == run.steps


def second_lane(run, benchmark, x) -> Lane:
    """The second stage of a run whose first is taken as it starts."""
    one = Fitting(run, Data(benchmark, x, CPU))
    one.take(one.next_lane())
    return one.next_lane()


def test_groups_weigh_alike():
    """Over all held-out items the loss is the mean of the groups' risks plus lambda |W| of standardised features."""
    _, benchmark = toy_rows()
    lane = second_lane(toy_run(benchmark, method="dfr", params={"l1": 0.5}), benchmark, toy_features(benchmark))
    batch = lane.data.batch(torch.arange(len(lane.data.train)), lane.net)
    with torch.no_grad():
        found = lane.stage.method.loss(lane.net, batch, lane.state, 0)
        z = lane.net.features(batch.x)
        losses = F.cross_entropy(lane.net.head(z), batch.label, reduction="none")
        risks = [losses[batch.group == g].mean() for g in batch.group.unique()]
        penalty = (lane.net.head.weight * z.std(dim=0, correction=0)).abs().sum()
    assert len(risks) == 4
    torch.testing.assert_close(found, torch.stack(risks).mean() + 0.5 * penalty)


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=5))
@settings(max_examples=15, deadline=None)
def test_the_penalty_knows_no_units(scales):
    """Features in other units, with weights that undo it, cost the same."""
    scale = torch.tensor(scales)
    net, other = (build("linear", 3, 5, seed=1) for _ in range(2))
    with torch.no_grad():
        other.head.weight /= scale
    x, code = torch.randn(12, 5), torch.arange(12) % 3
    task = Task(3, 1, 3, 5, torch.ones(1, 3), torch.bincount(code))
    method = _LastLayer(2.0)
    loss, moved = (method.loss(one, Batch(z, code, code * 0, code, code), method.state(task), 0)
                   for one, z in ((net, x), (other, x * scale)))
    torch.testing.assert_close(loss, moved, rtol=1e-3, atol=1e-3)


@pytest.mark.learning
def test_a_large_penalty_empties_the_head():
    """lambda drives the weights of the last layer, and of it alone, to almost nothing."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    weak, strong = (fitted(toy_run(benchmark, method="dfr", params={"l1": l1}), benchmark, x).learned.net
                    for l1 in (0.0, 10.0))
    assert strong.head.weight.abs().mean() < 0.2 * weak.head.weight.abs().mean()
    assert torch.equal(weak.features[0].weight, strong.features[0].weight)


@pytest.mark.parametrize(("name", "params"), [
    ("bn_adapt", {"ratio": -1.0}), ("dfr", {"l1": -1.0}), ("dfr", {"second": 0.0}), ("beta_vae", {"latent": 0}),
    ("beta_vae", {"beta": -1.0}), ("stargan", {"width": 0}), ("stargan", {"gan_lr": 0.0}),
    ("stargan", {"gan_share": float("inf")})])
def test_settings_that_make_no_sense_are_told(name, params):
    """An error that names the method and the setting."""
    with pytest.raises(ShiftBenchError, match=f"{name}: '{next(iter(params))}' is"):
        METHODS[name](**params)
