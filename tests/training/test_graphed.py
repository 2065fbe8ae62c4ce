"""What a recorded step needs of gradients, as far as it can be seen without a GPU; bench/train_gpu.py --check does the
rest on one."""

import copy
import importlib.util
from pathlib import Path

import torch
import torch.nn.functional as F

from shiftbench.models import build
from shiftbench.training.graphed import gradients_of

BENCH = Path(__file__).parents[2] / "bench" / "train_gpu.py"


def channels_last_images(n: int = 4) -> torch.Tensor:
    x = torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return x.to(memory_format=torch.channels_last)


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
