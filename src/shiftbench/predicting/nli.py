"""Zero-shot classification of texts by a model of natural language inference, from the package transformers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from shiftbench.core.arrays import Floats
from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.transformers_nets import of_package
from shiftbench.models.weights import weights_digest
from shiftbench.predicting.classifier import Classifier, Options, read_texts
from shiftbench.training.device import choose_device, full_precision

HYPOTHESIS = "This example is {}."
LONGEST = 512
"""Tokens of a text and its hypothesis, where the tokenizer does not say how many its model reads."""


def open_nli(source: str, options: Options, labels: Sequence[str]) -> Classifier:
    """Zero-shot classification by entailment (Yin et al., 2019).

        p(label | text) = softmax over labels of the logit of "text entails hypothesis(label)"

    A prompt is the hypothesis, with {} for the label; the logits of several are averaged.
    """
    name = f"hf-nli:{source}"
    config = of_package(name, source, "AutoConfig")
    entailed = [int(code) for word, code in config.label2id.items() if str(word).lower().startswith("entail")]
    if len(entailed) != 1:
        raise ShiftBenchError(f"{name}: none of its classes ({', '.join(map(str, config.label2id))}) is entailment. "
                              "Name a model that was trained on natural language inference.")
    net, report = of_package(name, source, "AutoModelForSequenceClassification", dtype=torch.float32,
                             weights_only=True, output_loading_info=True)
    if report["missing_keys"]:
        raise ShiftBenchError(f"{name}: its tensor '{min(report['missing_keys'])}' has no weights, so it is not a "
                              "finished model. Name one that is.")
    cut, device = of_package(name, source, "AutoTokenizer"), choose_device(options.device)
    net = net.eval().to(device)
    hypotheses = [prompt.replace("{}", label.replace("_", " ")) for prompt in options.prompts or (HYPOTHESIS,)
                  for label in labels]

    def classify(texts: Sequence[str]) -> Floats:
        pairs: Any = cut([text for text in texts for _ in hypotheses], hypotheses * len(texts), padding=True,
                         truncation="only_first", max_length=min(cut.model_max_length, LONGEST), return_tensors="pt")
        with full_precision(device):
            logits = net(**{key: value.to(device) for key, value in pairs.items()}).logits[:, entailed[0]].float().cpu()
        return np.asarray(logits.numpy().reshape(len(texts), -1, len(labels)).mean(axis=1))

    return Classifier(name, read_texts, classify, tuple(labels), identity=weights_digest(net))
