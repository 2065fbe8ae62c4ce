"""Models that torch runs: classifiers of timm, torchvision and transformers, modules in memory, finished runs of ours,
and zero-shot models.

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
import torch.nn.functional as F
from safetensors import safe_open

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.backend import choose_device, full_precision
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.data.collection import Collection
from shiftbench.images.augment import augment, standardised
from shiftbench.images.decode import images
from shiftbench.models.names import COLUMNS, SENTENCES, library_of
from shiftbench.models.net import MODELS, SUFFIXES, Net, build, load_into, read_weights, weights_digest
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


# Zero-shot classification: images by CLIP and similar models (open_clip), texts by entailment (transformers)

PROMPT = "a photo of a {}"
HYPOTHESIS = "This example is {}."
LONGEST = 512
"""Tokens of a text and its hypothesis, where the tokenizer does not say how many its model reads."""


def _sentences(prompt: str, labels: Sequence[str]) -> list[str]:
    return [prompt.replace("{}", label.replace("_", " ")) for label in labels]


def open_clip_model(source: str, options: Options, labels: Sequence[str]) -> Classifier:
    """MODEL/PRETRAINED, MODEL/FILE of weights, or a FOLDER with open_clip_config.json.

        p(label | image) = softmax over labels of s <f(image), t(label)>
        t(label) = the mean of the text embeddings of all prompts, each of length 1, scaled to length 1

    as in Radford et al. (2021); f(image) has length 1 and s is the scale that the model has learnt.
    """
    name = f"openclip:{source}"
    net, transform, tokenizer = _load_clip(name, source)
    device = choose_device(options.device)
    net = net.eval().to(device)
    text = _label_embeddings(net, tokenizer, device, labels, options.prompts or (PROMPT,))

    def classify(batch: Sequence[Any]) -> Floats:
        with full_precision(device):
            image = F.normalize(net.encode_image(torch.stack(list(batch)).to(device)).float(), dim=-1)
            return np.asarray((net.logit_scale.exp().float() * image @ text.T).cpu().numpy())

    return Classifier(name, read_pictures(transform), classify, tuple(labels), identity=weights_digest(net))


def _label_embeddings(
    net: Any, tokenizer: Any, device: torch.device, labels: Sequence[str], prompts: Sequence[str]
) -> torch.Tensor:
    """One vector of length 1 per label: the mean over prompts."""
    vectors = []
    with full_precision(device):
        for prompt in prompts:
            tokens = tokenizer(_sentences(prompt, labels)).to(device)
            vectors.append(F.normalize(net.encode_text(tokens).float(), dim=-1))
        return F.normalize(torch.stack(vectors).mean(dim=0), dim=-1)


def _load_clip(name: str, source: str) -> tuple[Any, Any, Any]:
    """The net in 32 bits, its transform of pictures and its tokenizer."""
    try:
        import open_clip
    except ImportError as problem:
        raise ShiftBenchError(f"{name}: needs the package open_clip. Install it with: "
                              'pip install "shiftbench[clip]"') from problem
    if Path(source).is_dir():
        model, weights = f"local-dir:{Path(source).resolve()}", None
    else:
        model, _, weights = source.partition("/")
        if model not in open_clip.list_models():
            raise ShiftBenchError(f"{name}: open_clip has no model '{model}'. Some it has: ViT-B-32, ViT-L-14, RN50; "
                                  "or name a folder with open_clip_config.json.")
        tags = open_clip.list_pretrained_tags_by_model(model)
        if not weights or (weights not in tags and not Path(weights).is_file()):
            hint = f"Known weights: {', '.join(tags)}. " if tags else ""
            raise ShiftBenchError(f"{name}: names no weights that exist. {hint}Write openclip:{model}/WEIGHTS, or "
                                  f"/FILE with a file that ends in {', '.join(SUFFIXES)}.")
        if Path(weights).is_file() and Path(weights).suffix not in SUFFIXES:
            raise ShiftBenchError(f"{name}: weights are read from files that end in {', '.join(SUFFIXES)}.")
    try:
        net, _, transform = open_clip.create_model_and_transforms(model, pretrained=weights, precision="fp32",
                                                                  weights_only=True)
        return net, transform, open_clip.get_tokenizer(model)
    except Exception as problem:  # it raises many kinds: of files, JSON, the net, the hub
        raise ShiftBenchError(f"{name}: cannot be loaded ({type(problem).__name__}: {first_line(problem)[:200]}). "
                              "Give weights that are on this disk, or that can be fetched.") from problem


def open_nli(source: str, options: Options, labels: Sequence[str]) -> Classifier:
    """Zero-shot classification by entailment (Yin et al., 2019).

        p(label | text) = softmax over labels of the logit of "text entails hypothesis(label)"

    A prompt is the hypothesis, with {} for the label; the logits of several are averaged.
    """
    name = f"hf-nli:{source}"
    config = of_package(name, source, "AutoConfig")
    entailed = [int(code) for label, code in config.label2id.items() if str(label).lower().startswith("entail")]
    if len(entailed) != 1:
        raise ShiftBenchError(f"{name}: none of its classes ({', '.join(map(str, config.label2id))}) is entailment. "
                              "Name a model that was trained on natural language inference.")
    net, report = of_package(name, source, "AutoModelForSequenceClassification", dtype=torch.float32,
                             weights_only=True, output_loading_info=True)
    if report["missing_keys"]:
        raise ShiftBenchError(f"{name}: its tensor '{min(report['missing_keys'])}' has no weights, so it is not a "
                              "finished model. Name one that is.")
    tokenizer, device = of_package(name, source, "AutoTokenizer"), choose_device(options.device)
    net = net.eval().to(device)
    hypotheses = [sentence for prompt in options.prompts or (HYPOTHESIS,) for sentence in _sentences(prompt, labels)]

    def classify(texts: Sequence[str]) -> Floats:
        pairs: Any = tokenizer([text for text in texts for _ in hypotheses], hypotheses * len(texts), padding=True,
                               truncation="only_first", max_length=min(tokenizer.model_max_length, LONGEST),
                               return_tensors="pt")
        with full_precision(device):
            logits = net(**{key: value.to(device) for key, value in pairs.items()}).logits[:, entailed[0]].float().cpu()
        return np.asarray(logits.numpy().reshape(len(texts), -1, len(labels)).mean(axis=1))

    return Classifier(name, read_texts, classify, tuple(labels), identity=weights_digest(net))
