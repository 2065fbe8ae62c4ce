"""Nets: their interface, with `features` and `head` so that methods can use the features; dropout; weight files."""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.models.names import CATALOGUE, Model, facts, image_models, library_of

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
        return self._places().maps(x)

    def pool(self, maps: Tensor) -> Tensor:
        """The features of an image from those of its places."""
        return self._places().pool(maps)

    def _places(self) -> "Places":
        if isinstance(self.features, Places):
            return self.features
        with_maps = sorted(name for name, model in CATALOGUE.items() if model.has_maps)
        raise ShiftBenchError(f"Model '{self.name}' has no feature maps: its features belong to no place of an image. "
                              f"Models that have: {', '.join(with_maps)}.")

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


class Places(nn.Module):
    """A body whose features are the mean of its maps over the places of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x))

    def maps(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


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
                              "its last layer as many outputs as the benchmark has classes (n_classes).")
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


# Weight files: read without unpickling objects, loaded strictly, with a message for each way in which they fail

SUFFIXES = (".safetensors", ".pth", ".pt")

OURS = ("num_batches_tracked", ".salt", ".count")
"""What a file may lack: batch norm's counter, which older files do not have and we do not use, and what our dropout
draws its masks from, which is in no published file."""

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
          torch.bool: "BOOL"}
"""How a safetensors file names them."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a weight file by name.

    A .pth or .pt file is read with `weights_only=True`: tensors and plain containers, no code. A file that wraps its
    tensors in `state_dict` or `model` (as training scripts write them) is unwrapped, and a `module.` prefix dropped.
    """
    if path.suffix not in SUFFIXES:
        raise ShiftBenchError(f"{path}: weights are none, imagenet, or a file that ends in {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise ShiftBenchError(f"{path}: no such weight file.")
    try:
        if path.suffix == ".safetensors":
            tensors: object = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as problem:
        raise ShiftBenchError(f"{path}: not a readable weight file; it is damaged or holds more than tensors "
                              f"({first_line(problem)[:120]}). Save it as .safetensors.") from problem
    for wrapper in ("state_dict", "model"):
        if isinstance(tensors, Mapping) and isinstance(tensors.get(wrapper), Mapping):
            tensors = tensors[wrapper]
    if not isinstance(tensors, Mapping) or not tensors or not all(
            isinstance(value, Tensor) for value in tensors.values()):
        raise ShiftBenchError(f"{path}: holds no table of tensors by name, so it is not a weight file.")
    return {str(key).removeprefix("module."): value for key, value in tensors.items()}


def load_into(net: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a net: the features must match name for name and shape for shape.

    A file's head is often for other classes: where its shape differs, or it is absent, the net keeps its new head.
    """
    state = net.state_dict()
    head = [key for key in state if key.startswith("head.")]
    fits = all(key in tensors and tensors[key].shape == state[key].shape for key in head)
    entries = {key: value for key, value in tensors.items() if fits or not key.startswith("head.")}
    expected = {key: value for key, value in state.items() if fits or key not in head}
    missing = [key for key in expected if key not in entries and not key.endswith(OURS)]
    strange = [key for key in entries if key not in expected]
    if missing or strange:
        faults = [f"{len(keys)} {fault} (first: {keys[0]})"
                  for fault, keys in (("missing", missing), ("unknown", strange)) if keys]
        raise ShiftBenchError(f"{path}: does not belong to this model: tensors {' and '.join(faults)}. "
                              "Choose the model the file was made with.")
    for key, value in entries.items():
        if value.shape != state[key].shape:
            raise ShiftBenchError(f"{path}: tensor '{key}' has shape {tuple(value.shape)}, but the model needs "
                                  f"{tuple(state[key].shape)}. Choose the model the file was made with.")
    net.load_state_dict({**state, **entries})


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors, and facts about them, as safetensors: the same tensors and facts give the same bytes.

    The package's own writer puts the facts in the order of a hash table, another one each time, makes files that only
    their owner reads, and reports a full disk by an exception of its own; so we write the few lines of the format here.
    """
    ordered = {key: tensors[key].detach().cpu().contiguous() for key in sorted(tensors)}
    ordered = dict(sorted(ordered.items(), key=lambda pair: -pair[1].element_size()))  # so that every tensor is aligned
    head: dict[str, object] = {"__metadata__": dict(sorted(facts.items()))} if facts else {}
    end = 0
    for key, value in ordered.items():
        start, end = end, end + value.numel() * value.element_size()
        head[key] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in ordered.values():
            file.write(_bytes(value))


def weights_digest(net: nn.Module) -> str:
    """SHA-256 over every tensor of a net, by name: two nets with one digest compute the same."""
    return tensors_digest(net.state_dict())


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors by name, independent of the file that holds them."""
    total = hashlib.sha256()
    for key, value in sorted(tensors.items()):
        total.update(f"{key}\0{tuple(value.shape)}\0".encode())
        total.update(_bytes(value.detach().cpu().contiguous()))
    return total.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor that lies in one piece; numpy has no bfloat16, so they go as bytes."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
