"""What a model is: a net with `features` and `head`, so that methods can look in between."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shiftbench.errors import ShiftBenchError
from shiftbench.models.weights import load_into, read_weights
from shiftbench.registry import find
from shiftbench.rng import child

MODELS: dict[str, type["Net"]] = {}


class Net(nn.Module):
    """logits = head(z), z = features(x), with z of width `width`.

    `takes` says what x is: "features" (cached, N × D), "images" (N × 3 × H × W, normalised with `mean` and `std`, which
    are on the 0..255 scale; of more `channels` as they are), "tokens" (N × L whole numbers, 0 is padding; of a
    `per_place` net what is negative) or "graphs" (N × lines × 10 whole numbers, -1 is padding; see `models/gin.py`).
    `side` is the image size the published weights were trained at, or the number of tokens that are read. A `sized` net
    has weights for images of one side only: its constructor's `n_inputs`, where 0 stands for `side`.

    A net is `recordable` where a step on it can be recorded on a GPU and replayed: the same shapes and no look at the
    data. One that is `per_place` has features and outputs for every token, N × L × width. One with its `own_loss` is
    given the target while it learns, `losses(x, target)`, and answers with `found(x)`: a detector. One with a `source`
    takes its weights from a folder or a name, which its constructor is given.
    """

    takes: ClassVar[str] = "images"
    has_maps: ClassVar[bool] = False
    sized: ClassVar[bool] = False
    recordable: ClassVar[bool] = True
    per_place: ClassVar[bool] = False
    own_loss: ClassVar[bool] = False
    source: ClassVar[bool] = False
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, float, float]] = (127.5, 127.5, 127.5)
    std: ClassVar[tuple[float, float, float]] = (127.5, 127.5, 127.5)
    side: ClassVar[int] = 64
    name: ClassVar[str]

    features: nn.Module
    head: nn.Linear

    @property
    def width(self) -> int:
        return int(self.head.in_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def maps(self, x: Tensor) -> Tensor:
        """The features of every place, N × C × H × W, or N × C × tokens × 1: features(x) = pool(maps(x))."""
        raise self._without_maps()

    def pool(self, maps: Tensor) -> Tensor:
        """The features of an image from those of its places."""
        raise self._without_maps()

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        """The texts as tokens, N × length, for a net that takes them; `weights` may name their vocabulary."""
        raise NotImplementedError

    def losses(self, x: Tensor, target: Tensor) -> Tensor:
        """The loss of each item, of a net that has its own."""
        raise NotImplementedError

    def found(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Boxes in pixels (M × 4: left, top, right, bottom) and scores of each image, of a detector."""
        raise NotImplementedError

    def norms(self) -> list[nn.modules.batchnorm._BatchNorm]:
        """Its batch norms, in order of definition; there may be none."""
        return [part for part in self.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]

    def _without_maps(self) -> ShiftBenchError:
        have = sorted(name for name, net in MODELS.items() if net.has_maps)
        return ShiftBenchError(f"Model '{self.name}' has no feature maps: its features belong to no place of an image. "
                               f"Models that have: {', '.join(have)}.")

    @staticmethod
    def rename(key: str) -> str:
        """The name in this net of a tensor of a published weight file; our own names pass unchanged."""
        return key

    def completed(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a file, renamed; where it may hold a part of this net alone, the rest is as it is here."""
        return tensors

    @classmethod
    def imagenet(cls) -> Path:
        """The file of the ImageNet weights, fetched or found; an error that says what to do where there is none."""
        have = sorted(name for name, net in MODELS.items()
                      if any("imagenet" in vars(part) for part in net.__mro__ if part is not Net))
        raise ShiftBenchError(f"Model '{cls.name}' has no ImageNet weights. Models that have: {', '.join(have)}. "
                              "Use weights=none, or weights=FILE with a checkpoint of your own.")


def image_models() -> dict[str, type[Net]]:
    """The models that take images of three channels and give outputs: all but detectors and those of more channels."""
    return {name: net for name, net in sorted(MODELS.items())
            if net.takes == "images" and net.channels == 3 and not net.own_loss}


def build(name: str, n_classes: int, n_inputs: int = 0, weights: str = "none", seed: int = 0) -> Net:
    """A net of the table, drawn from the seed on the CPU (so every device starts from the same numbers), then loaded.

    `weights` is `none`, `imagenet`, or a file: .safetensors, or .pth/.pt read as weights only. `n_inputs` is the width
    of the cached features for the nets that take them, and the side of the images in pixels for the others (0: the
    class's `side`). The head is the file's where its shape fits `n_classes`. A net with a `source` has no shape without
    one: `weights` is then the folder or the name of what is to be loaded.
    """
    cls = find(MODELS, "model", name)
    if n_classes < 1:
        raise ShiftBenchError(f"Model '{name}': a net needs at least one class, got {n_classes}.")
    if cls.takes == "features" and n_inputs < 1:
        raise ShiftBenchError(f"Model '{name}' works on cached features. Name them, for example "
                              "features=efficientnet-lite0@128, or choose a model that takes images: "
                              f"{', '.join(image_models())}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(child(seed, "model", name).integers(2**63)))
        net = cls(n_classes, n_inputs, source=weights) if cls.source else cls(n_classes, n_inputs)
    if weights != "none" and not cls.source:
        path = cls.imagenet() if weights == "imagenet" else Path(weights)
        tensors = net.completed({cls.rename(key): value for key, value in read_weights(path).items()})
        try:
            load_into(net, tensors, path)
        except ShiftBenchError as problem:
            if not cls.sized:
                raise
            raise ShiftBenchError(f"{problem} A net of model '{name}' is made for images of one side, here "
                                  f"{n_inputs or cls.side} px: use a file of that side.") from problem
    return net


def expect(x: Tensor, side: int, name: str) -> None:
    """Images of another side than a net was built for are an error that says so."""
    if x.shape[2:] != (side, side):
        raise ShiftBenchError(f"Model '{name}' was built for images of {side} × {side} px, but got "
                              f"{' × '.join(map(str, x.shape[2:]))}. Build it with n_inputs={x.shape[2]}, or choose "
                              "another size.")
