"""Models that torch runs: classifiers of timm, torchvision and transformers, modules in memory, finished runs of ours.

A classifier of a library keeps its own head, preprocessing and class names.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.later import choose_device, full_precision
from shiftbench.data.collection import Collection
from shiftbench.images.augment import augment, standardised
from shiftbench.images.decode import images
from shiftbench.models.names import COLUMNS, SENTENCES, library_of
from shiftbench.models.net import MODELS, Net, build, load_into, read_weights, weights_digest
from shiftbench.models.outside import Outside, load
from shiftbench.models.transformers_nets import of_package
from shiftbench.models.wrapped import tensor_of
from shiftbench.predicting.classifier import Classifier, Options, file_identity, read_arrays, read_pictures, read_texts
from shiftbench.scoring.listing import read_run
from shiftbench.training.folder import CHECKPOINT, is_done, load_run
from shiftbench.training.inputs import embed, size_of
from shiftbench.training.run import Run, split_features

UNNAMED = re.compile(r"LABEL_\d+")
"""What transformers calls a class that its author has not named."""


# Models of other libraries

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

    classes = () if all(UNNAMED.fullmatch(label) for label in outside.classes) else outside.classes
    if outside.ids:  # one more synonym: a name may match several nodes of a hierarchy, an id only one
        classes = tuple(f"{names}, {node}" for names, node in zip(classes, outside.ids, strict=True))
    if outside.feed.takes == "tokens":
        return Classifier(name, read_texts, lambda texts: classify(_tokens(outside, texts)), classes,
                          identity=weights_digest(net))
    return Classifier(name, read_pictures(_transform(outside)), lambda batch: classify(torch.stack(batch)), classes,
                      identity=weights_digest(net))


def _check_finished(name: str) -> None:
    """A net without a head would get a random one."""
    heads = " ".join(getattr(of_package(name, name.partition(":")[2], "AutoConfig"), "architectures", None) or ())
    if "ImageClassification" not in heads and "SequenceClassification" not in heads:
        raise ShiftBenchError(f"{name}: is {heads or 'a net without a head'}, not a classifier of images or texts. "
                              "Train a head on it with shiftbench train, or name a model that has one.")


def _tokens(outside: Outside, texts: Sequence[str]) -> torch.Tensor:
    """Tokens up to the end of the batch's longest text."""
    assert outside.tokens is not None
    tokens = np.asarray(outside.tokens(list(texts), outside.feed.side))
    longest = int(np.flatnonzero((tokens > 0).any(axis=0)).max(initial=0)) + 1
    return torch.from_numpy(tokens[:, :longest]).long()


def _transform(outside: Outside) -> Callable[[Any], torch.Tensor]:
    """What the library does to an image before its model sees it; where it does not say, the model's feed."""
    library, _, name = outside.name.partition(":")
    if library == "timm":
        from timm.data import create_transform, resolve_data_config

        net = getattr(outside.module, "module", outside.module)
        return create_transform(**resolve_data_config({}, model=net))
    if library == "torchvision":
        from torchvision.models import get_model_weights

        weights = get_model_weights(name)
        if len(weights):
            return weights.DEFAULT.transforms()
    if library == "hf":
        processor = of_package(outside.name, name, "AutoImageProcessor")
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


# A module in memory

def open_module(module: Any, collection: Collection, options: Options) -> Classifier:
    """A torch module in memory: it takes images, N × 3 × H × W from 0 to 1 before mean and std, and gives logits.

    Its attributes `mean`, `std`, `side` and `classes` say what the options leave open, as when it is trained.
    """
    device = choose_device(options.device)
    net = module.eval().to(device)
    mean, std = (torch.tensor(option or getattr(module, name, None) or default, device=device).view(1, -1, 1, 1)
                 for name, option, default in (("mean", options.mean, (0.0,)), ("std", options.std, (1.0,))))

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


# A finished run

def open_run(folder: Path, options: Options) -> Classifier:
    """The net of a finished run, with the classes of the benchmark that it was trained on."""
    if not is_done(folder):
        raise ShiftBenchError(f"{folder}: the run is not finished. Start the same training again to finish it.")
    if not (folder / CHECKPOINT).is_file():
        raise ShiftBenchError(f"{folder}: has no {CHECKPOINT}, so nothing can be run: an estimator of scikit-learn "
                              "is not kept. Predict with it in a function: FILE.py:FUNCTION.")
    run, file = load_run(folder), read_run(folder).checked(CHECKPOINT)
    model, device = MODELS[run.model], choose_device(options.device)
    if run.features in (COLUMNS, SENTENCES) or model.takes == "graphs" or model.channels != 3 or (
            model.per_place or model.own_loss or run.learner().adapts):
        raise ShiftBenchError(f"{folder}: a run of model '{run.model}'{f' on {run.features}' if run.features else ''} "
                              f"with method '{run.method}' predicts only the benchmark that it was trained on.")
    with safe_open(file, "pt") as weights:
        classes = tuple(json.loads((weights.metadata() or {}).get("classes", "[]")))

    @cache
    def net(n_inputs: int) -> Net:
        source = run.weights if model.source else "none"
        trained = run.learner().net(build(run.model, len(classes), n_inputs, source, run.seed))
        load_into(trained, read_weights(file), file)
        return trained.eval().to(device)

    def classify(batch: Any) -> Floats:
        x, trained = torch.from_numpy(np.ascontiguousarray(batch)).to(device), net(batch.shape[1])
        with full_precision(device):
            if model.takes == "images":
                x = augment(x, "none", *torch.tensor([trained.mean, trained.std], device=device))
                x = standardised(x) if run.normalise else x
            return np.asarray(trained(x).float().cpu().numpy())

    return Classifier(str(folder), lambda collection, rows: _inputs(run, collection, rows, options.device), classify,
                      classes, identity=file_identity(file))


def _inputs(run: Run, collection: Collection, rows: Ints, device: str) -> Any:
    """The inputs of the run's net for these items: features of its backbone, tokens or images."""
    model = MODELS[run.model]
    if model.takes == "features":
        backbone, size = split_features(run.features)
        return embed(collection, rows, backbone, size, folder=collection.home, device=device)
    if model.takes == "tokens":
        return model.tokens(collection.first_texts(rows), run.size or model.side, run.weights)
    return images(collection, rows, size_of(run) or None)
