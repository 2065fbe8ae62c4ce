"""Finished classifiers of timm, torchvision and transformers, with their own head, preprocessing and class names."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from shiftbench.core.arrays import Floats
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.models.names import library_of
from shiftbench.models.outside import Outside, load
from shiftbench.models.transformers_nets import of_package
from shiftbench.models.weights import weights_digest
from shiftbench.models.wrapped import tensor_of
from shiftbench.predicting.classifier import Classifier, Options, read_arrays, read_pictures, read_texts
from shiftbench.training.device import choose_device, full_precision

UNNAMED = re.compile(r"LABEL_\d+")
"""What transformers calls a class that its author has not named."""


def open_library_model(name: str, options: Options) -> Classifier:
    """timm:NAME, torchvision:NAME or hf:NAME_OR_FOLDER; an image passes the library's own evaluation transform."""
    if library_of(name) == "hf":
        _check_finished(name)
    outside = load(name, options.weights or "pretrained")
    device = choose_device(options.device)
    net = outside.module.eval().to(device)

    def classify(inputs: torch.Tensor) -> Floats:
        with full_precision(device):
            return np.asarray(net(inputs.to(device)).float().cpu().numpy())

    classes = () if all(UNNAMED.fullmatch(word) for word in outside.classes) else outside.classes
    if outside.ids:  # one more synonym: a word may stand for several nodes of a hierarchy, an id does not
        classes = tuple(f"{words}, {node}" for words, node in zip(classes, outside.ids, strict=True))
    if outside.feed.takes == "tokens":
        return Classifier(name, read_texts, lambda texts: classify(_tokens(outside, texts)), classes,
                          identity=weights_digest(net))
    return Classifier(name, read_pictures(_transform(outside)), lambda batch: classify(torch.stack(batch)), classes,
                      identity=weights_digest(net))


def open_module(module: Any, collection: Collection, options: Options) -> Classifier:
    """A torch module in memory: it takes images, N × 3 × H × W from 0 to 1 before mean and std, and gives logits.

    Its attributes `mean`, `std`, `side` and `classes` say what the options leave open, as when it is trained.
    """
    device = choose_device(options.device)
    net = module.eval().to(device)
    mean, std = (torch.tensor(given or getattr(module, name, None) or plain, device=device).view(1, -1, 1, 1)
                 for name, given, plain in (("mean", options.mean, (0.0,)), ("std", options.std, (1.0,))))

    def classify(pixels: Any) -> Floats:
        with full_precision(device):
            x = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float() / 255
            return np.asarray(tensor_of(net((x - mean) / std)).float().cpu().numpy())

    if collection.pixels is None:
        raise ShiftBenchError(f"{type(module).__name__}: a module in memory is given images, and collection "
                              f"'{collection.name}' has none. Give a function of a batch of texts or columns.")
    size = options.size or int(getattr(module, "side", 0) or 0)
    return Classifier(type(module).__name__, read_arrays(size), classify,
                      tuple(map(str, getattr(module, "classes", None) or ())))


def _check_finished(name: str) -> None:
    """A net without a head would get a random one."""
    kinds = " ".join(getattr(of_package(name, name.partition(":")[2], "AutoConfig"), "architectures", None) or ())
    if "ImageClassification" not in kinds and "SequenceClassification" not in kinds:
        raise ShiftBenchError(f"{name}: is {kinds or 'a net without a head'}, not a classifier of images or texts. "
                              "Train a head on it with shiftbench train, or name a model that has one.")


def _tokens(outside: Outside, texts: Sequence[str]) -> torch.Tensor:
    """Tokens up to the end of the batch's longest text."""
    assert outside.tokens is not None
    tokens = np.asarray(outside.tokens(list(texts), outside.feed.side))
    longest = int(np.flatnonzero((tokens > 0).any(axis=0)).max(initial=0)) + 1
    return torch.from_numpy(tokens[:, :longest]).long()


def _transform(outside: Outside) -> Callable[[Any], torch.Tensor]:
    """What the library does to an image before its model sees it; where it does not say, the model's feed."""
    library, _, own = outside.name.partition(":")
    if library == "timm":
        from timm.data import create_transform, resolve_data_config

        net = getattr(outside.module, "module", outside.module)
        return create_transform(**resolve_data_config({}, model=net))
    if library == "torchvision":
        from torchvision.models import get_model_weights

        listed = get_model_weights(own)
        if len(listed):
            return listed.DEFAULT.transforms()
    if library == "hf":
        processor = of_package(outside.name, own, "AutoImageProcessor")
        return lambda picture: processor(images=picture, return_tensors="pt")["pixel_values"][0]
    return by_feed(outside)


def by_feed(outside: Outside) -> Callable[[Any], torch.Tensor]:
    """The shorter side resized to side / crop, the centre cut out, each channel normalised."""
    from torchvision.transforms import v2

    feed = outside.feed
    mean, std = ([value / 255 for value in values] for values in (feed.mean, feed.std))
    return v2.Compose([v2.Resize(round(feed.side / feed.crop), v2.InterpolationMode(feed.interpolation)),
                       v2.CenterCrop(feed.side), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
                       v2.Normalize(mean, std)])
