"""Settings of a run as a paper gives them."""

from collections.abc import Mapping
from typing import Any

METASHIFT = {
    "model": "resnet18", "weights": "imagenet", "size": 224, "augment": "color", "batches": "domain", "batch_size": 32,
    "optimizer": "adam", "lr": 5e-5, "weight_decay": 0.0, "steps": 5000, "eval_every": 300, "select_on": "last",
}
"""Liang & Zou, 2022, B.1, with DomainBed's 5,000 steps (a look every 300); the batch size is per domain there."""

PRESETS: Mapping[str, Mapping[str, Any]] = {"metashift": METASHIFT}
