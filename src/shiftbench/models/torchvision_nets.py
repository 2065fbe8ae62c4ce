"""The nets of BREEDS (Table 13) that are no ResNets: AlexNet, VGG-11 and DenseNet-121, from torchvision."""

import re
from functools import cache
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import model
from shiftbench.models.dropout import Dropout
from shiftbench.models.published import Published


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
            r"^(features|classifier)\.", lambda found: f"features.{WHERE[found[1]]}.", key)


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

    def maps(self, x: Tensor) -> Tensor:
        return self.features.maps(x)

    def pool(self, maps: Tensor) -> Tensor:
        return self.features.pool(maps)


class _Layered(nn.Module):
    """Convolutions, the means of their maps on a grid of fixed size, and hidden layers with dropout."""

    def __init__(self, net: _Convs, convs: nn.Module, grid: int, hidden: list[nn.Module]) -> None:
        super().__init__()
        self.least, self.name, self.grid = net.least, net.name, grid
        self.convs = convs
        self.hidden = nn.Sequential(*(Dropout(part.p) if isinstance(part, nn.Dropout) else part for part in hidden))

    def forward(self, x: Tensor) -> Tensor:
        _expect(min(x.shape[2:]), self.least, self.name)
        return self.hidden(on_grid(self.convs(x), self.grid).flatten(1))


class _Dense(nn.Module):
    def __init__(self, net: _Convs, convs: nn.Module) -> None:
        super().__init__()
        self.least, self.name = net.least, net.name
        self.convs = convs

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x))

    def maps(self, x: Tensor) -> Tensor:
        _expect(min(x.shape[2:]), self.least, self.name)
        return F.relu(self.convs(x))

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


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
    """Which places each cell is the mean of, grid × side."""
    with torch.inference_mode(False):  # made in an evaluation, it must serve in training all the same
        table = torch.zeros(grid, side)
        for cell, (start, end) in enumerate(pairwise(place * side for place in range(grid + 1))):
            first, last = start // grid, -(-end // grid)
            table[cell, first:last] = 1 / (last - first)
        return table.to(device)


def _expect(side: int, least: int, name: str) -> None:
    if side < least:
        raise ShiftBenchError(f"Model '{name}' needs images of at least {least} × {least} px, their side is {side}. "
                              f"Set size={max(64, least)} or more, or choose a model for small images, for example "
                              "resnet18.")
