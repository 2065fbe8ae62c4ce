"""Models of other libraries, by name: timm:NAME, torchvision:NAME, hf:NAME_OR_FOLDER.

`load` gives a finished classifier of a library: its module with its own head, what it is fed, and its class names.
`outside_class` gives the nets of the same name that are trained; what they are fed comes from the same `Feed`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.models.names import SYNSET, facts, library_of
from shiftbench.models.net import Net, read_weights
from shiftbench.models.transformers_nets import Reader, Transformers, cut_texts, load_net, of_package
from shiftbench.models.wrapped import Body, Triple, net_class, on_our_scale, own_class_of


@dataclass(frozen=True)
class Feed:
    """What a model is fed, as its library says. `mean` and `std` are on the 0..255 scale, as in `Net`.

    Training squeezes images to `side` × `side`. A library's own evaluation resizes the shorter side to `side` / `crop`
    by `interpolation` and cuts the centre out.
    """

    takes: str = "images"  # or tokens
    side: int = 224  # of images in pixels, or the most tokens that are read; 0: any
    channels: int = 3
    mean: Triple = (127.5, 127.5, 127.5)
    std: Triple = (127.5, 127.5, 127.5)
    interpolation: str = "bicubic"
    crop: float = 1.0


@dataclass(frozen=True, eq=False)
class Outside:
    """A finished classifier: `module(x)` are logits, N × classes, in evaluation mode.

    x are images, N × 3 × side × side, normalised with the feed's mean and std; or, where the feed takes tokens, what
    `tokens(texts, length)` gives. `ids` are the classes' WordNet ids where the library has them, else empty.
    """

    name: str
    module: nn.Module
    feed: Feed
    classes: tuple[str, ...]
    ids: tuple[str, ...] = ()
    tokens: Callable[[Sequence[str], int], Any] | None = None


def load(name: str, weights: str = "pretrained") -> Outside:
    """A classifier of another library with its own head: load("timm:resnet18.a1_in1k").

    `weights` are the library's own (`pretrained`, also called `imagenet`), a file of them, or `none`: random.
    """
    library, own_name = _library(name)
    feed = library.feed(own_name)
    module = library.module(own_name, 0, 0, pretrained=weights in ("pretrained", "imagenet"))
    if weights not in ("pretrained", "imagenet", "none"):
        _load_file(module, name, Path(weights))
    classes, ids = library.classes(own_name, module)
    tokens = getattr(library, "tokens", None) if feed.takes == "tokens" else None
    body = Body(module, channels_last=library.channels_last) if feed.takes == "images" else Reader(module)
    return Outside(name, body.eval(), feed, classes, ids,
                   None if tokens is None else lambda texts, length: tokens(own_name, texts, length))


# The interface to a library: `feed` says what a model is fed; `module` builds it with that many outputs (0: its own
# head) for images of that side (0: its own), and a pretrained one may come with its own head all the same; `classes`
# are the names of its own head's classes and their WordNet ids. `channels_last`: images may lie in any order of memory.


class Timm:
    channels_last = True

    def feed(self, name: str) -> Feed:
        cfg = self._cfg(name)
        channels, *sides = cfg.input_size
        return Feed("images", max(sides), channels, *pixels(name, cfg.mean, cfg.std), str(cfg.interpolation),
                    float(cfg.crop_pct or 1.0))

    def module(self, name: str, n_classes: int, side: int, *, pretrained: bool) -> nn.Module:
        timm, cfg = package("timm", f"timm:{name}"), self._cfg(name)
        sized = {"img_size": side} if side and cfg.fixed_input_size else {}
        outputs = {"num_classes": n_classes} if n_classes else {}
        module: nn.Module = built(f"timm:{name}", pretrained, lambda: timm.create_model(
            name, pretrained=pretrained, **outputs, **sized))
        return module

    def classes(self, name: str, module: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
        data, cfg = import_module("timm.data"), self._cfg(name)
        if cfg.label_names:
            descriptions = cfg.label_descriptions or {}
            return tuple(str(descriptions.get(label, label)) for label in cfg.label_names), wordnet(cfg.label_names)
        subset = data.infer_imagenet_subset(module)
        if subset is None:
            return (), ()
        info = data.ImageNetInfo(subset)
        ids = info.label_names()
        return tuple(str(info.index_to_description(number)) for number in range(len(ids))), wordnet(ids)

    def _cfg(self, name: str) -> Any:
        timm = package("timm", f"timm:{name}")
        if not timm.is_model(name):
            raise unlike("timm", name, timm.list_models())
        architecture, dot, _ = name.partition(".")
        tagged = [model for model in timm.list_pretrained() if model.startswith(f"{architecture}.")]
        if dot and name not in tagged:
            raise unlike("timm", name, tagged)
        return timm.get_pretrained_cfg(name) or import_module("timm.models").PretrainedCfg()


class Torchvision:
    channels_last = True

    def feed(self, name: str) -> Feed:
        card = self._weights(name)
        if card is None:
            return Feed()
        transform = card.transforms()
        side, resized = transform.crop_size[0], transform.resize_size[0]
        return Feed("images", side, 3, *pixels(name, transform.mean, transform.std), str(transform.interpolation.value),
                    side / resized)

    def module(self, name: str, n_classes: int, side: int, *, pretrained: bool) -> nn.Module:
        models, native = self._models(name), self.feed(name).side
        settings: dict[str, Any] = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
        if settings and not pretrained:
            settings["init_weights"] = True
        if name.startswith("vit_") and side not in (0, native):
            if pretrained:
                raise ShiftBenchError(f"Model 'torchvision:{name}': its pretrained weights are for images of {native} "
                                      f"px, but the run's have {side}. Set size={native}, or weights=none.")
            settings["image_size"] = side
        if n_classes and not pretrained:
            settings["num_classes"] = n_classes
        module: nn.Module = built(f"torchvision:{name}", pretrained, lambda: models.get_model(
            name, weights="DEFAULT" if pretrained else None, progress=False, **settings))
        return module

    def classes(self, name: str, module: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
        card = self._weights(name)
        return ((), ()) if card is None else (tuple(card.meta.get("categories", ())), ())

    def _models(self, name: str) -> Any:
        package("torchvision", f"torchvision:{name}")
        models = import_module("torchvision.models")
        if name not in models.list_models(module=models):
            raise unlike("torchvision", name, models.list_models(module=models))
        return models

    def _weights(self, name: str) -> Any:
        weights = self._models(name).get_model_weights(name)
        return weights.DEFAULT if len(weights) else None


class HuggingFace:
    """Encoders of the package transformers: of images where the source has an image processor, else of texts."""

    channels_last = False

    def feed(self, name: str) -> Feed:
        config = of_package(f"hf:{name}", name, "AutoConfig")
        inner = getattr(config, "vision_config", config)
        if not hasattr(inner, "num_channels"):
            longest = [getattr(config, "max_position_embeddings", None) or MOST_TOKENS, MOST_TOKENS]
            with suppress(ShiftBenchError):  # cutting texts reports that there is no tokenizer
                longest.append(of_package(f"hf:{name}", name, "AutoTokenizer").model_max_length)
            return Feed("tokens", int(min(longest)))
        side = getattr(inner, "image_size", None) or 224
        side = int(side if isinstance(side, int) else max(side))
        try:
            processor = of_package(f"hf:{name}", name, "AutoImageProcessor", use_fast=False)
        except ShiftBenchError:
            return Feed("images", side, int(inner.num_channels))
        size = getattr(processor, "crop_size", None) if getattr(processor, "do_center_crop", False) else None
        resize = _side(getattr(processor, "size", None)) or side
        side = _side(size) or resize
        normalises = getattr(processor, "do_normalize", True) and processor.image_mean is not None
        mean, std = (processor.image_mean, processor.image_std) if normalises else ((0.0,) * 3, (1.0,) * 3)
        return Feed("images", side, int(inner.num_channels), *pixels(name, mean, std),
                    RESAMPLING.get(int(getattr(processor, "resample", None) or 3), "bicubic"), min(1.0, side / resize))

    def module(self, name: str, n_classes: int, side: int, *, pretrained: bool) -> nn.Module:
        images = self.feed(name).takes == "images"
        auto_class = "AutoModelForImageClassification" if images else "AutoModelForSequenceClassification"
        return load_net(f"hf:{name}", name, auto_class, 0 if images else side, pretrained=pretrained,
                        own_head=not n_classes, **({"num_labels": n_classes} if n_classes else {}))

    def classes(self, name: str, module: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = getattr(module.config, "id2label", None) or {}
        return tuple(str(names[key]) for key in sorted(names, key=int)), ()

    def tokens(self, name: str, texts: Sequence[str], length: int) -> Any:
        return cut_texts(f"hf:{name}", name, texts, length)


MOST_TOKENS = 512
"""A run may say more with its `size`, where the model has positions for them."""
RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, which image processors use."""
Library = Timm | Torchvision | HuggingFace
KNOWN: dict[str, Library] = {"timm": Timm(), "torchvision": Torchvision(), "hf": HuggingFace()}


def _library(name: str) -> tuple[Library, str]:
    library = library_of(name)
    if library not in KNOWN:
        raise ShiftBenchError(f"Model '{name}' belongs to no library. Name it timm:NAME, torchvision:NAME or "
                              "hf:NAME_OR_FOLDER.")
    return KNOWN[library], name.partition(":")[2]


def outside_class(name: str) -> type[Net]:
    """The class of the nets of an outside model: what they are fed is known, and none is built yet."""
    return _of_library(name) if library_of(name) in KNOWN else own_class_of(name)


@cache
def _of_library(name: str) -> type[Net]:
    source, own_name = _library(name)
    feed = source.feed(own_name)
    if feed.takes == "tokens":
        return type("TextEncoder", (TextEncoder,), {"name": name, "side": feed.side, "folder": own_name})

    def make(n_classes: int, n_inputs: int, pretrained: bool) -> nn.Module:
        return source.module(own_name, n_classes, n_inputs, pretrained=pretrained)

    model = facts(name)._replace(takes=feed.takes, side=feed.side, channels=feed.channels,
                                 recordable=source.channels_last)
    return net_class(name, make, model, new_head=True, channels_last=source.channels_last, mean=feed.mean, std=feed.std)


class TextEncoder(Transformers):
    """Model `transformers` under the name of its source, whose weights it starts from or not."""

    takes, outside, source, recordable, folder = "tokens", True, False, False, ""

    def __init__(self, n_classes: int, n_inputs: int = 0, pretrained: bool = False) -> None:
        super().__init__(n_classes, n_inputs, self.folder, pretrained)

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> Any:
        return cut_texts(cls.name, cls.folder, texts, length)


def package(module: str, name: str) -> Any:
    """The library of a model's name; where it is missing, an error says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:
            raise
        raise ShiftBenchError(f"Model '{name}' needs the package {module}, which is not installed. Install it with: "
                              f"pip install {module}") from problem


def built(name: str, pretrained: bool, make: Callable[[], Any]) -> Any:
    """The result of a library's function, or an error of one line that says why it failed."""
    try:
        return make()
    except Exception as problem:  # a library may raise anything: of the network, of files, of its nets
        hint = (" Its weights must be on this machine or fetched from the network; pass a file with weights=FILE, or "
                "start from weights=none." if pretrained else "")
        raise ShiftBenchError(f"Model '{name}' cannot be built ({type(problem).__name__}: {first_line(problem)})."
                              f"{hint}") from problem


def unlike(library: str, name: str, names: Sequence[str]) -> ShiftBenchError:
    """The error for a name that a library does not have, with the nearest that it has."""
    near = get_close_matches(name, names, n=5, cutoff=0.5)
    return ShiftBenchError(f"No {library} model named '{name}'. " + (
        f"Nearest: {', '.join(near)}." if near else f"It has {len(names):,}, such as {', '.join(names[:5])}."))


def pixels(name: str, mean: Sequence[float], std: Sequence[float]) -> tuple[Triple, Triple]:
    return on_our_scale(name, "mean", mean), on_our_scale(name, "std", std)


def wordnet(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(ids) if all(SYNSET.fullmatch(node) for node in ids) else ()


def _side(size: Any) -> int:
    """The side of an image processor's size, which is a number or a dict of some of four keys; 0: it says none."""
    if isinstance(size, int | float):
        return int(size)
    get = size.get if isinstance(size, dict) else lambda key: getattr(size, key, None)
    return int(next((value for key in ("shortest_edge", "height", "width", "longest_edge")
                     if size is not None and (value := get(key))), 0))


def _load_file(module: nn.Module, name: str, path: Path) -> None:
    """Copy a file of weights into a module whose own names it has."""
    tensors, state = read_weights(path), module.state_dict()
    wrong = [key for key in state if key not in tensors or tensors[key].shape != state[key].shape]
    wrong += [key for key in tensors if key not in state]
    if wrong:
        raise ShiftBenchError(f"{path}: does not belong to model '{name}': {len(wrong)} tensors are missing, unknown "
                              f"or of another shape (first: {wrong[0]}).")
    with torch.no_grad():
        module.load_state_dict(tensors)
