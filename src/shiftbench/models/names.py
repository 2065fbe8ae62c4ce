"""The models by name, and what is known about each before torch is loaded: a run is checked against this table."""

from typing import NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import find


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


_ResNet = Model("shiftbench.models.torchvision_nets", side=224, has_maps=True)
_Words = Model("shiftbench.models.text_nets", "tokens", side=256)
_Graphs = Model("shiftbench.models.gin", "graphs", recordable=False)
_Hub = Model("shiftbench.models.transformers_nets", "tokens", side=256, recordable=False, source=True)

CATALOGUE: dict[str, Model] = {
    "linear": Model("shiftbench.models.small", "features"),
    "mlp": Model("shiftbench.models.small", "features"),
    "small-cnn": Model("shiftbench.models.small", has_maps=True),
    "pixel-mlp": Model("shiftbench.models.small", sized=True),
    "resnet18": _ResNet,
    "resnet34": _ResNet,
    "resnet50": _ResNet,
    "resnet101": _ResNet,
    "resnet18-ms": Model("shiftbench.models.torchvision_nets", side=224, has_maps=True, channels=8),
    "alexnet": Model("shiftbench.models.torchvision_nets", side=224),
    "vgg11": Model("shiftbench.models.torchvision_nets", side=224),
    "densenet121": Model("shiftbench.models.torchvision_nets", side=224, has_maps=True),
    "efficientnet-lite0": Model("shiftbench.models.efficientnet_lite", side=224, has_maps=True),
    "vit": Model("shiftbench.models.vit", has_maps=True, sized=True),
    "beta-vae": Model("shiftbench.models.autoencoder"),
    "faster-rcnn": Model("shiftbench.models.detector", side=1024, recordable=False, own_loss=True),
    "faster-rcnn-small": Model("shiftbench.models.detector", recordable=False, own_loss=True),
    "text-bag": _Words,
    "text-transformer": _Words,
    "code-transformer": Model("shiftbench.models.text_nets", "tokens", side=256, per_place=True),
    "transformers": _Hub,
    "transformers-lm": _Hub._replace(per_place=True),
    "gin-virtual": _Graphs,
    "gin-small": _Graphs,
}
"""A model of your own is one more entry; its module is imported when a net is built."""


def image_models() -> dict[str, Model]:
    """The models that take images of three channels and give outputs: all but detectors and those of more channels."""
    return {name: model for name, model in sorted(CATALOGUE.items())
            if model.takes == "images" and model.channels == 3 and not model.own_loss}


def backbone(name: str) -> Model:
    """The model with this name, which must be able to compute features of images."""
    model = find(CATALOGUE, "model", name)
    if name not in image_models():
        raise ShiftBenchError(f"Model '{name}' takes {model.takes}, but features are made of images of three channels. "
                              f"Backbones: {', '.join(image_models())}.")
    return model
