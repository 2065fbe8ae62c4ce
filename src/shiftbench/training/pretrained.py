"""What pretrained weights have seen of the target: a model that was shown its subclasses is not tested on new ones.

BREEDS asks whether a model knows a superclass by subclasses that it was never shown. Weights from ImageNet were shown
every class of ImageNet, those of the target among them, and weights of `shiftbench pretrain` every value of its factor.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.training.run import COLUMNS, SENTENCES

SYNSET = re.compile(r"n\d{8}")
"""The id of a class of ImageNet: a noun of WordNet 3.0 by its offset."""


def check_unseen(settings: Mapping[str, Any], benchmark: Benchmark) -> None:
    """Raise an error where the weights of a run have seen the target."""
    note = seen_note(settings, benchmark)
    if note:
        raise ShiftBenchError(f"{note} Start from weights=none or from others, or leave --strict (strict=True) out.")


def seen_note(settings: Mapping[str, Any], benchmark: Benchmark) -> str:
    """A sentence on the subclasses of the target that the weights of a run have seen; empty where there are none."""
    if "subclass" not in benchmark.extra:
        return ""
    target = set(benchmark.extra["subclass"][benchmark.rows("test")].tolist())
    features, weights = str(settings.get("features", "")), str(settings.get("weights", "none"))
    weights = weights if features in ("", COLUMNS, SENTENCES) else "imagenet"  # a backbone's
    weights = "imagenet" if weights == "pretrained" else weights  # a library's: nearly all have seen ImageNet
    known = set(filter(SYNSET.fullmatch, target)) if weights == "imagenet" else classes_in(weights)
    seen = target & known
    if not seen:
        return ""
    source = "ImageNet" if weights == "imagenet" else weights
    return (f"The weights of {source} have seen {len(seen)} of the {len(target)} subclasses of the target, such as "
            f"'{min(seen)}': accuracy on the target of '{benchmark.name}' is not that of unseen subclasses.")


def classes_in(path: str) -> set[str]:
    """The classes that a weight file of ours was trained to tell apart; empty where the file does not say."""
    from safetensors import SafetensorError, safe_open

    if not path.endswith(".safetensors") or not Path(path).is_file():
        return set()
    try:
        with safe_open(path, "numpy") as file:
            facts = file.metadata() or {}
        names = json.loads(facts.get("classes", "[]"))
    except (SafetensorError, OSError, ValueError):  # who loads the weights says what is wrong with them
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
