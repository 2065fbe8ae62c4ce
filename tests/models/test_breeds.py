"""The nets of BREEDS: sizes, least images, published weights, dropout that repeats, and the paper's hyperparameters."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.presets import BREEDS_EPOCHS, BREEDS_RATES, breeds, preset_settings
from shiftbench.models import MODELS, build
from shiftbench.models.net import Dropout, load_into
from shiftbench.models.torchvision_nets import on_grid
from shiftbench.training.run import Run

torch.set_num_threads(1)
NEW = {"alexnet": 63, "vgg11": 32, "densenet121": 29}
"""Models, and the least side of their images."""


def images(side: int, n: int = 2) -> torch.Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "millions", "width"), [
    ("alexnet", 57.09, 4096), ("vgg11", 128.85, 4096), ("densenet121", 6.97, 1024), ("resnet34", 21.29, 512)])
def test_sizes_and_the_least_image(name, millions, width):
    """With 20 classes the nets have the parameters that their docstrings say, and work at 64 px.

    A net takes images of its least side, and says of smaller ones how large they must be: built for them, or fed.
    """
    least = NEW.get(name)
    net = build(name, 20, least or 64).eval()
    assert round(sum(value.numel() for value in net.parameters()) / 1e6, 2) == millions
    assert f"{millions} million" in type(net).__doc__
    with torch.inference_mode():
        z = net.features(images(64))
        assert z.shape == (2, width)
        assert net.head(z).shape == (2, 20)
        if not least:
            return
        assert net(images(least)).isfinite().all()
        with pytest.raises(ShiftBenchError, match=rf"'{name}' needs images of at least {least} × {least} px.* is 20\."):
            net(images(20))
    with pytest.raises(ShiftBenchError, match=rf"at least {least} × {least} px.* is {least - 1}\. Set size=6\d"):
        build(name, 2, least - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side"), [("alexnet", 96), ("vgg11", 40), ("densenet121", 64)])
def test_published_weights_make_torchvisions_net(name, side):
    """Weights under torchvision's names give the same logits as torchvision's net."""
    from torchvision.models import get_model

    torch.manual_seed(0)
    published = get_model(name, num_classes=7).eval()
    net = build(name, 7, side).eval()
    load_into(net, {net.rename(key): value for key, value in published.state_dict().items()}, Path(name))
    with torch.inference_mode():
        torch.testing.assert_close(net(images(side)), published(images(side)), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_our_own_files_load(tmp_path):
    """A net's own weights, dropout's numbers with them, make a net of another seed the same one."""
    net = build("alexnet", 7, 64)
    torch.save(net.state_dict(), tmp_path / "ours.pth")
    again = build("alexnet", 7, 64, weights=str(tmp_path / "ours.pth"), seed=5).state_dict()
    assert any(key.endswith(".salt") for key in again)
    assert all(torch.equal(value, again[key]) for key, value in net.state_dict().items())


def test_older_densenet_names_are_understood():
    """Published DenseNet files write norm.1 where torchvision has norm1."""
    rename = MODELS["densenet121"].rename
    assert rename("features.denseblock3.denselayer12.norm.2.running_var") == \
        "features.convs.denseblock3.denselayer12.norm2.running_var"
    assert rename("features.transition1.norm.weight") == "features.convs.transition1.norm.weight"
    assert rename("classifier.bias") == "head.bias"


def test_densenet_features_are_pooled_maps():
    """features(x) = pool(maps(x)) with 2 × 2 places at 64 px; alexnet and vgg11 have no maps and say so."""
    net = build("densenet121", 2).eval()
    with torch.inference_mode():
        maps = net.maps(images(64))
        assert maps.shape == (2, net.width, 2, 2)
        assert torch.equal(net.pool(maps), net.features(images(64)))
    assert not MODELS["alexnet"].has_maps
    assert not MODELS["vgg11"].has_maps


@settings(max_examples=40)
@given(st.integers(1, 15), st.integers(1, 15), st.integers(1, 8))
def test_the_grid_is_adaptive_pooling(height, width, grid):
    """Values and gradients are those of torch's adaptive pooling, whatever the sizes."""
    maps = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(height * 16 + width),
                       dtype=torch.float64, requires_grad=True)
    weight = torch.randn(grid, grid, generator=torch.Generator().manual_seed(grid), dtype=torch.float64)
    both = [on_grid(maps, grid), F.adaptive_avg_pool2d(maps, grid)]
    torch.testing.assert_close(*both, rtol=1e-6, atol=1e-7)
    slopes = [torch.autograd.grad((one * weight).sum(), maps)[0] for one in both]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-7)


def test_a_grid_first_seen_in_evaluation_can_be_trained():
    """The matrices of a side are kept; an evaluation without gradients may be the first to ask for them."""
    maps = torch.ones(1, 1, 17, 17)
    with torch.inference_mode():
        on_grid(maps, 5)
    on_grid(maps.requires_grad_(), 5).sum().backward()
    assert maps.grad.sum() == pytest.approx(25, rel=1e-5)


def test_dropout_is_ours():
    """AlexNet drops half of what its hidden layers see in training, from its own buffers: put back, they repeat the
    mask, and torch's generator is neither used nor moved."""
    net = build("alexnet", 2, 64).train()
    assert not [part for part in net.modules() if isinstance(part, nn.Dropout)]
    drops = [part for part in net.modules() if isinstance(part, Dropout)]
    assert len(drops) == 2
    state = torch.random.get_rng_state()
    with torch.no_grad():
        start = {key: value.clone() for key, value in net.state_dict().items() if key.endswith((".salt", ".count"))}
        once, other = net(images(64)), net(images(64))
        net.load_state_dict({**net.state_dict(), **start})
        assert torch.equal(net(images(64)), once)
        assert not torch.equal(once, other)
    assert torch.equal(torch.random.get_rng_state(), state)


# -------------------------------------------------------------------------------------------------- hyperparameters

@pytest.mark.parametrize("model", BREEDS_RATES)
def test_presets_follow_table_13(model):
    """The settings of each model are a legal run with the paper's batch, decay, rate and drops."""
    run = Run.of({"benchmark": "x", **breeds(model)})
    assert (run.model, run.batch_size, run.weight_decay, run.optimizer) == (model, 128, 1e-4, "sgd")
    assert run.lr == (0.01 if model in ("alexnet", "vgg11") else 0.1)
    assert run.schedule == "thirds"
    assert run.select_on == "last"


def test_epochs_of_the_paper():
    """300 for the ENTITY tasks, 450 for the others (A.7.1)."""
    assert BREEDS_EPOCHS == {"entity13": 300, "entity30": 300, "living17": 450, "nonliving26": 450}
    assert [preset_settings("breeds-resnet18", "erm", task)["epochs"] for task in (*BREEDS_EPOCHS, "")] == [
        300, 300, 450, 450, 450]
