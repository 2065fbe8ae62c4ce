"""A recorded step is the plain step. Without a GPU only what it needs of gradients is seen; bench/train_gpu.py --check
compares packed, alone and resumed runs on one."""

import copy
import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from shiftbench.core.backend import repeatable
from shiftbench.methods.method import Stage
from shiftbench.models import build
from shiftbench.shifts import LowData
from shiftbench.training.batches import load
from shiftbench.training.fast import Graphed, gradients_of
from shiftbench.training.lane import Lane
from shiftbench.training.run import Run
from shiftbench.training.step import Plain
from shiftbench.worlds.sprites import sprites

BENCH = Path(__file__).parents[2] / "bench" / "train_gpu.py"


def channels_last_images(n: int = 4) -> torch.Tensor:
    x = torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return x.to(memory_format=torch.channels_last)


@pytest.mark.slow
def test_a_gradient_lies_in_memory_as_its_parameter_does():
    """Also in a second net of plain layout (LfF's twin), whose convolutions hand out channels-last gradients: a fused
    optimizer then makes the step of a plain one."""
    net = build("resnet18", 2).eval()
    parameters = list(net.parameters())
    loss = F.cross_entropy(net(channels_last_images()), torch.zeros(4, dtype=torch.int64))
    bare = torch.autograd.grad(loss, parameters, retain_graph=True)
    assert any(one.stride() != part.stride() for one, part in zip(bare, parameters, strict=True))
    found = gradients_of(loss, parameters)
    for one, plain, part in zip(found, bare, parameters, strict=True):
        assert one.stride() == part.stride()
        assert torch.equal(one, plain)
    twin = [copy.deepcopy(part) for part in parameters]
    for parts, fused in ((parameters, True), (twin, False)):
        for part, gradient in zip(parts, found, strict=True):
            part.grad = gradient.clone()
        torch.optim.SGD(parts, 0.1, momentum=0.9, fused=fused).step()
    for one, other in zip(parameters, twin, strict=True):
        torch.testing.assert_close(one, other)


def test_a_parameter_that_the_loss_does_not_need_has_none():
    """A stage may leave a part of the net out of its loss."""
    used, spare = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = gradients_of((3 * used).sum(), [used, spare])
    assert found[0].tolist() == [3.0, 3.0]
    assert found[1] is None


def test_the_bench_tells_a_run_that_broke():
    """A method whose first step fails has no pace; the bench names its problem and goes on to the next."""
    spec = importlib.util.spec_from_file_location("train_gpu", BENCH)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    assert bench.fastest([]) == bench.fastest([(0.5, 1)]) == 0.0
    assert bench.fastest([(0.0, 0), (1.0, 1), (2.0, 25)]) == 24.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="steps are recorded on a GPU alone")
@pytest.mark.parametrize("settings", [
    {"method": "erm"}, {"method": "erm", "augment": "standard", "schedule": "cosine"}, {"method": "group_dro"},
    {"method": "irm", "params": {"anneal": 0.5}}, {"method": "lff"}, {"method": "mixup"}, {"method": "coral"},
    {"optimizer": "adamw", "weight_decay": 0.1, "decay_all": False, "max_grad_norm": 0.05},
    {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.1, "decay_all": False, "warmup": 3, "schedule": "cosine"},
    {"method": "group_dro", "max_grad_norm": 0.05, "warmup": 3, "schedule": "exponential", "drop": 0.5,
     "drop_every": 2},
    {"method": "dann", "optimizer": "adamw", "weight_decay": 0.1, "decay_all": False, "max_grad_norm": 0.05,
     "warmup": 3, "schedule": "linear"},
    {"augment": "rotate-flip", "normalise": "image"}, {"preset": "adversarial"},
    {"method": "erm", "precision": "bf16", "optimizer": "sgd", "momentum": 0.9},
    {"method": "fixmatch", "augment": "standard", "params": {"unlabelled": "test"}},
    {"method": "pseudo_label", "params": {"unlabelled": "test", "threshold": 0.4}},
    {"method": "afn", "params": {"unlabelled": "test"}},
    {"model": "timm:test_resnet", "method": "coral"}, {"model": "timm:test_vit"}, {"model": "torchvision:alexnet"},
], ids=str)
def test_a_recorded_step_is_the_plain_step(settings):
    """Six recorded steps have the losses and end at the weights of six plain ones, bit for bit."""
    collection = sprites(200, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(collection)
    run = Run(benchmark.digest, **{"model": "small-cnn", "size": 64, "steps": 12, "batch_size": 16, **settings})
    data = load(benchmark, collection, run, torch.device("cuda"), None)
    ends = []
    for way in (Plain, Graphed):
        with repeatable(data.device, run.seed, "steps"):
            lane = Lane(run, data, Stage(run.learner()), 0, None)
            (losses,) = way([lane]).advance(6)
        ends.append((losses, [part.detach().cpu() for part in lane.net.parameters()]))
    (plain, weights), (recorded, others) = ends
    assert recorded == plain
    assert all(torch.equal(one, other) for one, other in zip(weights, others, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="steps are recorded on a GPU alone")
def test_a_recording_waits_until_its_tensors_are_there():
    """A busy device fills the tensors of a recording late: the items that were put into them stay all the same."""
    collection = sprites(200, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(collection)
    run = Run(benchmark.digest, model="small-cnn", steps=12, batch_size=16)
    data = load(benchmark, collection, run, torch.device("cuda"), None)
    lane = Lane(run, data, Stage(run.learner()), 0, None)
    Graphed([lane])  # leaves memory behind, on the host too: new memory waits for the device
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000_000)  # about half a second of the stream on which tensors are made
    (track,) = Graphed([lane]).tracks
    assert torch.equal(track.index.cpu(), track.draw(0)[0])
