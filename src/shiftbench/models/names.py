"""The models by name, and what is known about each before torch is loaded: a run is checked against this table.

Also what pretrained weights have seen of a target: a model that was shown its subclasses is not tested on new ones.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Registry
from shiftbench.data.benchmark import Benchmark

COLUMNS, SENTENCES = "columns", "sentences"
"""Features that no backbone makes: the columns of a table, and the vectors of the items' texts."""


class Model(NamedTuple):
    """The facts about a model. Its net is a class in module `home`, where `@model(NAME)` gives it these as attributes.

    `takes` says what goes in: "features" (cached, N × D), "images" (N × 3 × H × W; of more `channels` as they are),
    "tokens" (N × L whole numbers, 0 is padding; of a `per_place` net what is negative) or "graphs" (N × lines × 10
    whole numbers, -1 is padding; see `models/gin.py`). `side` is the image size the published weights were trained at,
    or the number of tokens that are read. A net that `has_maps` has features for every place of an image. A `sized` net
    has weights for images of one side only: its constructor's `n_inputs`, where 0 stands for `side`.

    A net is `recordable` where a step on it can be recorded on a GPU and replayed: the same shapes and no look at the
    data. One that is `per_place` has features and outputs for every token, N × L × width. One with its `own_loss` is
    given the target while it learns, `losses(x, target)`, and answers with `detect(x)`: a detector. One with a `source`
    takes its weights from a folder or a name, which its constructor is given.

    An `outside` model is a module of another library or of the user's, wrapped (`models/wrapped.py`). Of a name such as
    timm:resnet18 only the form is known here: `takes` is empty where the library is to say what goes in, and `side` and
    `channels` are those of the class in MODELS. A user's own model has a `builder`, n_classes -> nn.Module.
    """

    home: str = ""
    takes: str = "images"
    side: int = 64
    has_maps: bool = False
    sized: bool = False
    recordable: bool = True
    per_place: bool = False
    own_loss: bool = False
    source: bool = False
    channels: int = 3
    outside: bool = False
    builder: Callable[..., Any] | None = None


_ResNet = Model("shiftbench.models.torchvision_nets", side=224, has_maps=True)
_Words = Model("shiftbench.models.text_nets", "tokens", side=256)
_Graphs = Model("shiftbench.models.gin", "graphs", recordable=False)
_Hub = Model("shiftbench.models.transformers_nets", "tokens", side=256, recordable=False, source=True)

CATALOGUE: Registry[Model] = Registry({
    "linear": Model("shiftbench.models.image_nets", "features"),
    "mlp": Model("shiftbench.models.image_nets", "features"),
    "small-cnn": Model("shiftbench.models.image_nets", has_maps=True),
    "pixel-mlp": Model("shiftbench.models.image_nets", sized=True),
    "resnet18": _ResNet,
    "resnet34": _ResNet,
    "resnet50": _ResNet,
    "resnet101": _ResNet,
    "resnet18-ms": Model("shiftbench.models.torchvision_nets", side=224, has_maps=True, channels=8),
    "alexnet": Model("shiftbench.models.torchvision_nets", side=224),
    "vgg11": Model("shiftbench.models.torchvision_nets", side=224),
    "densenet121": Model("shiftbench.models.torchvision_nets", side=224, has_maps=True),
    "efficientnet-lite0": Model("shiftbench.models.image_nets", side=224, has_maps=True),
    "vit": Model("shiftbench.models.image_nets", has_maps=True, sized=True),
    "beta-vae": Model("shiftbench.models.generative"),
    "faster-rcnn": Model("shiftbench.models.detector", side=1024, recordable=False, own_loss=True),
    "faster-rcnn-small": Model("shiftbench.models.detector", recordable=False, own_loss=True),
    "text-bag": _Words,
    "text-transformer": _Words,
    "code-transformer": Model("shiftbench.models.text_nets", "tokens", side=256, per_place=True),
    "transformers": _Hub,
    "transformers-lm": _Hub._replace(per_place=True),
    "gin-virtual": _Graphs,
    "gin-small": _Graphs,
})
"""A model of your own is one more entry; its module is imported when a net is built."""


LIBRARIES = {"timm": "images", "torchvision": "images", "hf": ""}
"""The libraries whose models are named LIBRARY:NAME, and what their models take; empty where that depends on the model.
"""
ESTIMATOR = "sklearn:"
"""Before the class of an estimator of scikit-learn, which is fitted at once (`training/estimators.py`)."""
OBJECT = "object"
"""A module in memory is named object:CLASS@DIGEST: only a process that has it can build it."""
_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")
_OUTSIDE = "shiftbench.models.outside"


def library_of(name: str) -> str:
    """Where an outside model comes from: timm, torchvision, hf, file (PATH.py:FUNCTION) or object; else empty."""
    library, colon, address = name.partition(":")
    if colon and address and library in (*LIBRARIES, OBJECT):
        return library
    return "file" if _FILE.fullmatch(name) else ""


def facts(name: str) -> Model:
    """What is known about the model of this name before its library is imported."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    library = library_of(name)
    if name.startswith(ESTIMATOR):
        raise ShiftBenchError(f"Model '{name}' is fitted at once, not trained in steps: sb.fit, or shiftbench train "
                              f"--model {name} with method erm or reweight.")
    if not library:
        problem = unknown("model", name, CATALOGUE)
        raise ShiftBenchError(f"{problem} Models of others: timm:NAME, torchvision:NAME, hf:NAME_OR_FOLDER, and "
                              "FILE.py:FUNCTION of your own.")
    return Model(_OUTSIDE, LIBRARIES.get(library, ""), outside=True)


def takes_pictures(model: Model) -> bool:
    """Whether a model takes images of three channels and gives outputs: not a detector, nor one of more channels. An
    outside model whose library has not been asked yet may."""
    return model.takes in ("images", "") and model.channels == 3 and not model.own_loss


def image_models() -> dict[str, Model]:
    """The catalogue's models that take images of three channels and give outputs."""
    return {name: model for name, model in sorted(CATALOGUE.items()) if takes_pictures(model)}


def backbone(name: str) -> Model:
    """The model with this name, which must be able to compute features of images."""
    model = facts(name)
    if not takes_pictures(model):
        raise ShiftBenchError(f"Model '{name}' takes {model.takes}, but features are made of images of three channels. "
                              f"Backbones: {', '.join(image_models())}.")
    return model


# What pretrained weights have seen of the target

SYNSET = re.compile(r"n\d{8}")
"""The id of a class of ImageNet: a noun of WordNet 3.0 by its offset."""


def check_unseen(settings: Mapping[str, Any], benchmark: Benchmark) -> None:
    """Refuse a run whose weights have seen the target."""
    note = seen_note(settings, benchmark)
    if note:
        raise ShiftBenchError(f"{note} Start from weights=none or from others, or leave --strict (strict=True) out.")


def seen_note(settings: Mapping[str, Any], benchmark: Benchmark) -> str:
    """A sentence on the subclasses of the target that the weights of a run have seen; empty where there are none.

    BREEDS asks whether a model knows a superclass by subclasses that it was never shown. Weights from ImageNet were
    shown every class of ImageNet, and weights of `shiftbench pretrain` every value of the factor they learned.
    """
    if "subclass" not in benchmark.extra:
        return ""
    target = set(benchmark.extra["subclass"][benchmark.rows("test")].tolist())
    features, weights = str(settings.get("features", "")), str(settings.get("weights", "none"))
    weights = weights if features in ("", COLUMNS, SENTENCES) else "imagenet"  # a backbone's
    weights = "imagenet" if weights == "pretrained" else weights  # a library's: nearly all have seen ImageNet
    trained_on = set(filter(SYNSET.fullmatch, target)) if weights == "imagenet" else classes_in(weights)
    seen = target & trained_on
    if not seen:
        return ""
    source = "ImageNet" if weights == "imagenet" else weights
    return (f"The weights of {source} have seen {len(seen)} of the {len(target)} subclasses of the target, such as "
            f"'{min(seen)}': accuracy on the target of '{benchmark.name}' is not that of unseen subclasses.")


def classes_in(path: str) -> set[str]:
    """The classes that a weight file of ours was trained on; empty where the file does not say."""
    from safetensors import SafetensorError, safe_open

    if not path.endswith(".safetensors") or not Path(path).is_file():
        return set()
    try:
        with safe_open(path, "numpy") as file:
            facts = file.metadata() or {}
        names = json.loads(facts.get("classes", "[]"))
    except (SafetensorError, OSError, ValueError):  # loading the weights reports what is wrong with them
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
