"""Zero-shot classification: images by CLIP and similar models (open_clip), texts by entailment (transformers)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from shiftbench.core.arrays import Floats
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.later import choose_device, full_precision
from shiftbench.models.net import SUFFIXES, weights_digest
from shiftbench.models.transformers_nets import of_package
from shiftbench.predicting.classifier import Classifier, Options, read_pictures, read_texts

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
    net, transform, tokenizer = _load(name, source)
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


def _load(name: str, source: str) -> tuple[Any, Any, Any]:
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
