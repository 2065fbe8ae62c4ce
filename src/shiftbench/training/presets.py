"""Settings of a run as a paper gives them."""

import math
from collections.abc import Mapping
from typing import Any

from shiftbench.core.registry import find
from shiftbench.training.wilds_presets import WILDS_METHODS, WILDS_PRESETS

METASHIFT = {
    "model": "resnet18", "weights": "imagenet", "size": 224, "augment": "color", "batches": "domain", "batch_size": 32,
    "optimizer": "adam", "lr": 5e-5, "weight_decay": 0.0, "steps": 5000, "eval_every": 300, "select_on": "last",
}
"""Liang & Zou, 2022, B.1, with DomainBed's 5,000 steps (a look every 300); the batch size is per domain there."""

BREEDS_RATES = {"alexnet": 0.01, "vgg11": 0.01, "resnet18": 0.1, "resnet34": 0.1, "resnet50": 0.1, "densenet121": 0.1}
"""Models and learning rates of BREEDS (Santurkar et al., 2021), Table 13."""

BREEDS_EPOCHS = {"entity13": 300, "entity30": 300, "living17": 450, "nonliving26": 450}
"""Passes over the training items; the learning rate drops to a tenth after each third of them (A.7.1)."""


def epochs_to_steps(epochs: float, n_items: int, batch_size: int) -> int:
    """Steps in which as many items are drawn as in so many passes over all.

    >>> epochs_to_steps(450, 44_200, 128)
    155391
    """
    return max(1, math.ceil(epochs * n_items / batch_size))


def breeds(model: str, epochs: float = 450, n_items: int = 44_200) -> dict[str, Any]:
    """BREEDS, A.7.1, for a model of its Table 13 and a benchmark of so many training items; LIVING-17 has 34 source
    subclasses of about 1,300 images.

    The paper names neither momentum nor augmentation: momentum is that of its training library, 0.9, as are random
    resized crops, flips and colour jitter, whose nearest is our `imagenet`. A look every ten passes; the last weights.
    """
    steps = epochs_to_steps(epochs, n_items, 128)
    return {"model": model, "size": 224, "augment": "imagenet", "batch_size": 128, "optimizer": "sgd",
            "lr": BREEDS_RATES[model], "momentum": 0.9, "weight_decay": 1e-4, "schedule": "thirds", "steps": steps,
            "eval_every": max(1, math.ceil(10 * steps / epochs)), "select_on": "last"}


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "metashift": METASHIFT, **{f"breeds-{model}": breeds(model) for model in BREEDS_RATES}, **WILDS_PRESETS}


def preset_of(name: str, method: str) -> dict[str, Any]:
    """A preset for a method: fields of a run and, where the paper gives them, the method's own, side by side."""
    return {**find(PRESETS, "preset", name), **WILDS_METHODS.get(name.removeprefix("wilds-"), {}).get(method, {})}
