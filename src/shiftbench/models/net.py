"""The interface of models: a net with `features` and `head`, so that methods can use the features; and its dropout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.rng import child
from shiftbench.models.names import CATALOGUE, Model, facts, image_models, library_of
from shiftbench.models.weights import load_into, read_weights

PLAIN = Model()


class Net(nn.Module):
    """logits = head(z), z = features(x), with z of width `width`.

    What x is, and all else that is known before a net is built, is in `Model`; a class has those facts as
    attributes, from the catalogue. Images are normalised with `mean` and `std`, which are on the 0..255 scale.
    """

    takes: ClassVar[str] = PLAIN.takes
    side: ClassVar[int] = PLAIN.side
    has_maps: ClassVar[bool] = PLAIN.has_maps
    sized: ClassVar[bool] = PLAIN.sized
    recordable: ClassVar[bool] = PLAIN.recordable
    per_place: ClassVar[bool] = PLAIN.per_place
    own_loss: ClassVar[bool] = PLAIN.own_loss
    source: ClassVar[bool] = PLAIN.source
    channels: ClassVar[int] = PLAIN.channels
    outside: ClassVar[bool] = PLAIN.outside
    channels_last: ClassVar[bool] = True  # whether its code takes images in any order of memory
    unrecordable: ClassVar[str] = ""  # why a step on an outside net is not recorded; empty where it is
    mean: ClassVar[tuple[float, float, float]] = (127.5, 127.5, 127.5)
    std: ClassVar[tuple[float, float, float]] = (127.5, 127.5, 127.5)
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
        """The loss of each item, for a net with its own loss."""
        raise NotImplementedError

    def detect(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Boxes in pixels (M × 4: left, top, right, bottom) and scores of each image, for a detector."""
        raise NotImplementedError

    def norms(self) -> list[nn.modules.batchnorm._BatchNorm]:
        """Its batch norms, in order of definition; there may be none."""
        return [layer for layer in self.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]

    def _without_maps(self) -> ShiftBenchError:
        with_maps = sorted(name for name, model in CATALOGUE.items() if model.has_maps)
        return ShiftBenchError(f"Model '{self.name}' has no feature maps: its features belong to no place of an image. "
                               f"Models that have: {', '.join(with_maps)}.")

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
        trained = sorted(name for name, net in MODELS.items()
                      if any("imagenet" in vars(base) for base in net.__mro__ if base is not Net))
        raise ShiftBenchError(f"Model '{cls.name}' has no ImageNet weights. Models that have: {', '.join(trained)}. "
                              "Use weights=none, or weights=FILE with a checkpoint of your own.")


N = TypeVar("N", bound=type[Net])
_CLASSES: dict[str, type[Net]] = {}


def model(name: str) -> Callable[[N], N]:
    """Make a class the net of the catalogue's model of that name; it gets the facts about the model as attributes."""

    def enter(cls: N) -> N:
        cls.name = name
        for key, value in CATALOGUE[name]._asdict().items():
            if key not in ("home", "builder"):
                setattr(cls, key, value)
        _CLASSES[name] = cls
        return cls

    return enter


class Nets(Mapping[str, type[Net]]):
    """Model -> class of its net, whose module is imported when it is asked for: an MLP needs no torchvision.

    Models of other libraries are in it too, though it does not list them.
    """

    def __getitem__(self, name: str) -> type[Net]:
        model = facts(name)
        if model.outside:
            from shiftbench.models.outside import outside_class

            return outside_class(name)
        import_module(model.home)
        return _CLASSES[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)

    def __contains__(self, name: object) -> bool:
        return name in CATALOGUE or bool(library_of(str(name)))


MODELS = Nets()


def build(name: str, n_classes: int, n_inputs: int = 0, weights: str = "none", seed: int = 0) -> Net:
    """A net of the table, drawn from the seed on the CPU (so every device starts from the same numbers), then loaded.

    `weights` is `none`, `imagenet` (of an outside model: `pretrained`, the library's own), or a file: .safetensors, or
    .pth/.pt read as weights only. `n_inputs` is the width of the cached features for the nets that take them, and the
    side of the images in pixels for the others (0: the class's `side`). The head is the file's where its shape fits
    `n_classes`. A net with a `source` has no shape without one: `weights` is then the folder or the name of what is to
    be loaded.
    """
    cls, pretrained = MODELS[name], weights in ("imagenet", "pretrained")
    if n_classes < 1:
        raise ShiftBenchError(f"Model '{name}': a net needs at least one class, got {n_classes}.")
    if cls.takes == "features" and n_inputs < 1:
        raise ShiftBenchError(f"Model '{name}' works on cached features. Name them, for example "
                              "features=efficientnet-lite0@128, or choose a model that takes images: "
                              f"{', '.join(image_models())}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(child(seed, "model", name).integers(2**63)))
        net = (cls(n_classes, n_inputs, pretrained=pretrained) if cls.outside else
               cls(n_classes, n_inputs, source=weights) if cls.source else cls(n_classes, n_inputs))
    outputs = getattr(net.head, "out_features", n_classes)
    if outputs != n_classes and not net.own_loss:
        raise ShiftBenchError(f"Model '{name}' gives {outputs:,} outputs, but there are {n_classes:,} classes. Give "
                              "its head as many outputs as the net is asked for (n_classes).")
    if weights != "none" and not cls.source and not (cls.outside and pretrained):
        path = cls.imagenet() if pretrained else Path(weights)
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
    """Raise an error for images of another side than a net was built for."""
    if x.shape[2:] != (side, side):
        raise ShiftBenchError(f"Model '{name}' was built for images of {side} × {side} px, but got "
                              f"{' × '.join(map(str, x.shape[2:]))}. Build it with n_inputs={x.shape[2]}, or choose "
                              "another size.")


# Dropout without a random generator: the mask is a function of the net's own buffers

LEVELS = 1 << 16
PER_WORD = 4
"""A hash of 64 bits makes the masks of four elements, 16 bits each: a quarter of the work."""

STEP, ELEMENT = 0x6A09E667F3BCC909, 0x9E3779B97F4A7C15 - 2**64
MIXERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""


class Dropout(nn.Module):
    """y_i = x_i · [h_i ≥ q 2¹⁶] / (1 − q) while training, y = x in evaluation, with q the rate in steps of 2⁻¹⁶.

    h_i are 16 of the 64 bits of mix(salt + count · STEP + ⌊i/4⌋ · ELEMENT), a splitmix-like hash; `salt` is drawn when
    the net is made, so that no two layers or seeds share masks, and `count` goes up by one at each training call. Both
    are saved with the weights: put back, they repeat the mask. A recorded step is replayed and a stopped run goes on
    with the same numbers as one that never stopped; the state of a random generator would have to be recorded, saved
    and restored for that, and buffers already are.
    """

    salt: Tensor
    count: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ShiftBenchError(f"Dropout: the rate must be at least 0 and below 1, got {rate}.")
        self.level = min(round(rate * LEVELS), LEVELS - 1)
        self.register_buffer("salt", torch.randint(2**63 - 1, ()))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.level == 0:
            return x
        self.count.add_(1)
        return x * self._mask(x) * (LEVELS / (LEVELS - self.level))

    def _mask(self, x: Tensor) -> Tensor:
        """Which elements stay, by their number in row-major order, wherever they lie in memory."""
        n = x.numel()
        hashes = torch.arange(-(-n // PER_WORD), device=x.device)
        hashes = torch.add(torch.add(self.salt, self.count, alpha=STEP), hashes, alpha=ELEMENT)
        for mixer in MIXERS:
            # Ends with a product: >> repeats the sign, so that right after x ^ (x >> k) the top bit would always be 0.
            hashes.bitwise_xor_(hashes >> 32).mul_(mixer)
        # As signed 16-bit numbers the smallest h is −2¹⁵.
        return (hashes.view(torch.int16)[:n] >= self.level - LEVELS // 2).view(x.shape)

    def extra_repr(self) -> str:
        return f"rate={self.level / LEVELS:.5f}"


def with_own_dropout(module: nn.Module) -> nn.Module:
    """The module, with ours in place of torch's layers of dropout."""
    return with_layers(module, lambda layer: Dropout(layer.p) if isinstance(layer, nn.Dropout) and layer.p else None)


def with_layers(module: nn.Module, new: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """The module, with `new(layer)` in place of every layer for which that is not None."""
    for above in list(module.modules()):
        for name, layer in list(above.named_children()):
            if (replacement := new(layer)) is not None:
                setattr(above, name, replacement)
    return module
