"""Any module as a net: cut before its last linear layer, so that it has the features and the head that methods use.

Models of the user's own are such nets: a registered function, a function in a file, a module or a function in memory.
"""

import copy
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import file_digest
from shiftbench.core.registry import function_of_file, loaded_plugins
from shiftbench.models.names import OBJECT, Model, facts, library_of
from shiftbench.models.net import Net, weights_digest, with_layers, with_own_dropout
from shiftbench.models.text_nets import hashed_words, repeatable
from shiftbench.models.torchvision_nets import on_grid

Builder = Callable[..., nn.Module]
"""n_classes -> module, or (n_classes, n_inputs) -> module; n_inputs as in `build` of models/net.py."""
Triple = tuple[float, float, float]
FACTS: dict[str, Any] = {"takes": str, "side": int, "channels": int, "mean": (float, int, tuple, list),
                         "std": (float, int, tuple, list)}
"""The attributes by which a user's function or module may describe itself, by type; a buffer `mean` is none."""
TOKENS = 256
"""How many tokens a user's model reads where it has no `side`."""
PROBED = 2
"""Items of the batch on which a module is tried."""


class Wrapped(Net):
    """logits = module(x), with `head` the module's last linear layer and `features` the module without it.

    The layer is found by trying a batch: it is the last one called whose outputs are those of the module. Where the
    module's head is another library's and has other classes, ours is new. Layers of dropout and of adaptive pooling are
    ours, so that a run that was stopped goes on as if it had not been, and a GPU repeats its sums.
    """

    make: ClassVar[Callable[[int, int, bool], nn.Module]]  # n_classes, n_inputs, pretrained
    records: ClassVar[bool] = False  # whether the module's code may be recorded, apart from what it draws
    new_head: ClassVar[bool] = False  # whether a head for other classes may be exchanged for a new one
    head_at: str
    n_inputs: int

    def __init__(self, n_classes: int, n_inputs: int = 0, pretrained: bool = False) -> None:
        super().__init__()
        self.n_inputs = n_inputs or self.side
        module = with_own_pooling(with_own_dropout(type(self).make(n_classes, self.n_inputs, pretrained)))
        x = self.example()
        outputs, self.head_at, head = last_layer(module, x, self.name)
        if head is None and hasattr(module, "reset_classifier"):  # timm's nets whose head is no layer of its own
            module.reset_classifier(0)
            outputs, self.head_at, head = -1, "", nn.Linear(answer(module, x, self.name).shape[-1], n_classes)
        elif head is None:
            raise ShiftBenchError(f"Model '{self.name}' does not end in an nn.Linear, so methods have no features to "
                                  "use. Let the last thing that it computes be one nn.Linear of all outputs.")
        else:
            module = without(module, self.head_at)
        if outputs not in (n_classes, -1) and self.new_head:
            head = nn.Linear(head.in_features, n_classes)
        self.features = Body(module, self.channels_last)
        self.head = head
        z = answer(self.features, x, self.name)
        if z.shape != (PROBED, head.in_features):
            raise ShiftBenchError(f"Model '{self.name}': before its last layer it has numbers of shape "
                                  f"{tuple(z.shape[1:])} per item, not one row. Pool them before that layer.")

    def example(self, device: torch.device | None = None) -> Tensor:
        """A batch of the shape that the net is fed."""
        stream = torch.Generator().manual_seed(0)
        if self.takes == "tokens":
            return torch.randint(1, 9, (PROBED, self.n_inputs or 8), generator=stream).to(device)
        shape = (self.n_inputs,) if self.takes == "features" else (self.channels, *[self.n_inputs or 64] * 2)
        return torch.randn(PROBED, *shape, generator=stream).to(device)

    @cached_property
    def recordable(self) -> bool:  # type: ignore[override]
        """Whether a step may be recorded: not where its module draws random numbers, since a replay repeats none."""
        return not self.unrecordable

    @cached_property
    def unrecordable(self) -> str:  # type: ignore[override]
        """Why a step on this net is not recorded on a GPU; empty where it is."""
        if not type(self).records:
            return "its code may look at the data"
        return "it draws random numbers as it learns" if draws(self, self.example(self.head.weight.device)) else ""

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        return hashed_words(texts, length)

    def completed(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a file of ours as they are, those of a file of the module under the names that they have
        here."""
        if any(key.startswith(OURS) for key in tensors):
            return tensors
        prefix = f"{self.head_at}."
        return {f"head.{key.removeprefix(prefix)}" if self.head_at and key.startswith(prefix) else OURS + key: value
                for key, value in tensors.items()}


OURS = "features.module."


class _Grid(nn.Module):
    """Means on a grid of fixed size, as torch's adaptive pooling gives them, with a gradient that repeats on a GPU."""

    def __init__(self, grid: int) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, maps: Tensor) -> Tensor:
        return on_grid(maps, self.grid)


def with_own_pooling(module: nn.Module) -> nn.Module:
    """The module, with ours in place of torch's adaptive pooling to several places (alexnet, vgg)."""
    def grid(layer: nn.Module) -> nn.Module | None:
        if type(layer) is not nn.AdaptiveAvgPool2d:
            return None
        rows, columns = layer.output_size if isinstance(layer.output_size, tuple) else [layer.output_size] * 2
        return _Grid(int(rows)) if rows == columns and rows and rows > 1 else None

    return with_layers(module, grid)


class Body(nn.Module):
    """A module whose answer is a tensor, and repeats."""

    def __init__(self, module: nn.Module, channels_last: bool) -> None:
        super().__init__()
        self.module = module
        self.channels_last = channels_last

    def forward(self, x: Tensor) -> Tensor:
        with repeatable():
            return tensor_of(self.module(x if self.channels_last else x.contiguous()))


def net_class(name: str, make: Callable[[int, int, bool], nn.Module], model: Model, **more: Any) -> type[Wrapped]:
    """The class of the nets of a model: `make` builds their module, `more` are other attributes of `Net`."""
    attributes = {key: value for key, value in model._asdict().items() if key not in ("home", "recordable", "builder")}
    facts = {**attributes, "records": model.recordable, "name": name, "make": staticmethod(make), **more}
    return type("Wrapped", (Wrapped,), {**facts, "__doc__": Wrapped.__doc__, "__module__": __name__})


def own_class(name: str, builder: Builder, model: Model) -> type[Wrapped]:
    """The class of the nets that a user's function builds. Its attributes say what they take, where it has them:
    `takes`, `side`, `channels`, and `mean` and `std` of pixels on the scale 0..1."""
    facts = facts_of(builder)
    scale = {key: on_our_scale(name, key, facts.pop(key)) for key in ("mean", "std") if key in facts}
    model = model._replace(**{"takes": model.takes or "images", "side": 0, **facts})  # images as they are
    if model.takes == "tokens" and not model.side:
        model = model._replace(side=TOKENS)
    if model.takes not in ("images", "features", "tokens"):
        raise ShiftBenchError(f"Model '{name}': takes='{model.takes}', but a model takes images, features or tokens.")

    def make(n_classes: int, n_inputs: int, pretrained: bool) -> nn.Module:
        if pretrained:
            raise ShiftBenchError(f"Model '{name}' has no pretrained weights of its own. Use weights=none, or a file.")
        return called(name, builder, n_classes, n_inputs)

    return net_class(name, make, model._replace(recordable=False), channels_last=False, **scale)


def facts_of(source: Any) -> dict[str, Any]:
    """The attributes by which a user's function or module describes itself."""
    return {key: getattr(source, key) for key, types in FACTS.items() if isinstance(getattr(source, key, None), types)}


def called(name: str, builder: Builder, n_classes: int, n_inputs: int) -> nn.Module:
    """The module that a user's function builds, or an error of one line that says how it fails."""
    try:
        needed = [parameter for parameter in inspect.signature(builder).parameters.values()
                  if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
                  and parameter.default is parameter.empty]
        module = builder(n_classes, n_inputs) if len(needed) > 1 else builder(n_classes)
    except Exception as problem:  # a user's code may raise anything, and the user should see what
        raise ShiftBenchError(f"Model '{name}': its builder fails for {n_classes:,} outputs "
                              f"({type(problem).__name__}: {first_line(problem)}).") from problem
    if not isinstance(module, nn.Module):
        raise ShiftBenchError(f"Model '{name}': its builder gives {type(module).__name__}, not an nn.Module.")
    return module


def last_layer(module: nn.Module, x: Tensor, name: str) -> tuple[int, str, nn.Linear | None]:
    """The number of outputs of a module, and its last linear layer with where it is; None where it does not end in
    one."""
    paths = {id(layer): path for path, layer in module.named_modules()}
    calls: list[tuple[nn.Linear, Tensor]] = []
    hooks = [linear.register_forward_hook(lambda layer, _, output: calls.append((layer, output)))
             for linear in module.modules() if isinstance(linear, nn.Linear)]
    try:
        outputs = answer(module, x, name)
    finally:
        for hook in hooks:
            hook.remove()
    if outputs.ndim != 2 or len(outputs) != len(x):
        raise ShiftBenchError(f"Model '{name}' answers a batch of {len(x)} items with numbers of shape "
                              f"{tuple(outputs.shape)}; it should be items × outputs.")
    for layer, output in reversed(calls):
        if output.shape == outputs.shape and torch.equal(output, outputs):
            return outputs.shape[1], paths[id(layer)], layer
    return outputs.shape[1], "", None


def without(module: nn.Module, path: str) -> nn.Module:
    """The module without the layer at a path: its output is that layer's input."""
    above, _, leaf = path.rpartition(".")
    if not leaf:
        return nn.Identity()
    setattr(module.get_submodule(above), leaf, nn.Identity())
    return module


@torch.no_grad()
def answer(module: nn.Module, x: Tensor, name: str) -> Tensor:
    """A module's outputs for a batch in evaluation, or an error of one line that says why it fails."""
    try:
        with _in_mode(module, training=False):
            return tensor_of(module(x))
    except Exception as problem:
        raise ShiftBenchError(f"Model '{name}' fails on a batch of shape {tuple(x.shape)} ({type(problem).__name__}: "
                              f"{first_line(problem)}).") from problem


@contextmanager
def _in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Training or evaluation mode within the block; afterwards each layer has its own again."""
    modes = [(layer, layer.training) for layer in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


def tensor_of(outputs: Any) -> Tensor:
    """The outputs in a module's answer: a tensor, `logits` of a record or a dict, or the first of a tuple."""
    if isinstance(outputs, Tensor):
        return outputs
    logits = outputs.get("logits") if isinstance(outputs, dict) else getattr(outputs, "logits", None)
    first = logits if logits is not None else outputs[0] if isinstance(outputs, tuple | list) and outputs else None
    if not isinstance(first, Tensor):
        raise ShiftBenchError(f"it answers with {type(outputs).__name__}, not with a tensor of items × outputs")
    return first


@torch.no_grad()
def draws(net: nn.Module, x: Tensor) -> bool:
    """Whether a net in training draws from torch's random streams. The net is left as it was."""
    saved = [(buffer, buffer.clone()) for buffer in net.buffers()]
    on_gpu = x.device.type == "cuda"
    state = (lambda: torch.cuda.get_rng_state(x.device)) if on_gpu else torch.get_rng_state
    with torch.random.fork_rng(devices=[x.device] if on_gpu else []), _in_mode(net, training=True):
        before = state()
        try:
            net(x)
            return not torch.equal(before, state())
        finally:
            for buffer, value in saved:
                buffer.copy_(value)


def on_our_scale(name: str, key: str, values: Any) -> Triple:
    """Mean or deviation of pixels, from the scale 0..1 to ours, 0..255."""
    try:
        numbers = [float(value) for value in values]
    except TypeError:
        numbers = [float(values)]
    if len(numbers) not in (1, 3) or not all(0 <= value <= 1 for value in numbers):
        raise ShiftBenchError(f"Model '{name}': {key}={values}, but it is one number or three, of pixels on the scale "
                              "from 0 to 1.")
    red, green, blue = (round(value * 255, 6) for value in (numbers * 3)[:3])
    return red, green, blue


# Models of the user's own

def own_class_of(name: str) -> type[Net]:
    """The class of the nets of a user's model, by the name that a run has for it; of FILE.py:FUNCTION as the file is
    now."""
    model = facts(name)
    of_file = model.builder is None and library_of(name) == "file"
    return _own_class_of(name, model, file_digest(file_of(name)) if of_file else "")


_OBJECTS: dict[str, Builder] = {}


@cache
def _own_class_of(name: str, model: Model, digest: str) -> type[Net]:
    builder = model.builder or (_function(name) if digest else _OBJECTS.get(name))
    if builder is None:
        raise ShiftBenchError(f"Model '{name}' was a module in memory, which this process does not have. Only the same "
                              "object resumes its run: sb.train(…, model=OBJECT).")
    return own_class(name, builder, model)


def file_of(name: str) -> Path:
    path = Path(name.rpartition(":")[0]).resolve()
    if not path.is_file():
        raise ShiftBenchError(f"Model '{name}': there is no file {path}.")
    return path


_RUN: set[Path] = set()
"""Files that this process has run because its user named them as a model."""


def check_named(name: str, folder: Path) -> None:
    """Refuse to run a file that only a folder of runs names, not the user."""
    if library_of(name) == "file" and file_of(name) not in _RUN and str(file_of(name)) not in loaded_plugins():
        raise ShiftBenchError(f"{folder}: its model {name} is code, which is run only where you name it: --import "
                              f"{name.rpartition(':')[0]}.")


def _function(name: str) -> Builder:
    """The function that FILE.py:FUNCTION names."""
    _RUN.add(file_of(name))
    try:
        return function_of_file(name)
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"Model '{name}': {problem}") from problem


def name_object(thing: nn.Module | Builder, n_classes: int, n_inputs: int = 0, takes: str = "images") -> str:
    """Register a module, or a function that builds one; returns the name under which `build` finds it in this process.

    The name holds a digest of its structure and weights; those of a function are drawn from one seed for that.
    """
    if isinstance(thing, nn.Module):
        module, label = thing, type(thing).__name__

        def builder(n_classes: int) -> nn.Module:
            return copy.deepcopy(thing).cpu()  # where every net is drawn and tried
    elif callable(thing):
        label = getattr(thing, "__name__", type(thing).__name__)
        builder = partial(thing)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = called(label, thing, n_classes, n_inputs)
    else:
        raise ShiftBenchError(f"model: {type(thing).__name__} is neither a name, nor an nn.Module, nor a function that "
                              "builds one for a number of classes. An estimator of scikit-learn is fitted by sb.fit.")
    attributes = {"takes": takes, **facts_of(thing)}
    for key, value in attributes.items():
        setattr(builder, key, value)
    structure = re.sub(r" at 0x[0-9a-f]+", "", repr(module))
    content = f"{isinstance(thing, nn.Module)}{attributes}{structure}{weights_digest(module)}"
    name = f"{OBJECT}:{label}@{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    _OBJECTS[name] = builder
    return name
