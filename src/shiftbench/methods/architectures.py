"""ERM with a net of a certain kind: the architectures of Wiles et al., as methods beside the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS


@dataclass(frozen=True)
class Architecture(ERM):
    """min R(f) over the nets f of one kind. Wiles et al. draw training items by weight (`resample`) for all of them."""

    family: ClassVar[str] = "architecture"
    needs: ClassVar[str] = "images"
    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")


@register(METHODS, "resnet18")
class ResNet18(Architecture):
    """ERM with a ResNet-18 (He et al., 2016): the baseline of Wiles et al.'s figures on synthetic data."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "resnet18"}


@register(METHODS, "resnet50")
class ResNet50(Architecture):
    """ERM with a ResNet-50 (He et al., 2016)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "resnet50"}


@register(METHODS, "resnet101")
class ResNet101(Architecture):
    """ERM with a ResNet-101 (He et al., 2016)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "resnet101"}


@register(METHODS, "alexnet")
class AlexNet(Architecture):
    """ERM with AlexNet (Krizhevsky et al., 2012): the weakest model of BREEDS' figures."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "alexnet"}


@register(METHODS, "vgg11")
class VGG11(Architecture):
    """ERM with VGG-11 (Simonyan & Zisserman, 2015)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "vgg11"}


@register(METHODS, "resnet34")
class ResNet34(Architecture):
    """ERM with a ResNet-34 (He et al., 2016)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "resnet34"}


@register(METHODS, "densenet121")
class DenseNet121(Architecture):
    """ERM with DenseNet-121 (Huang et al., 2017)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "densenet121"}


@register(METHODS, "vit")
class ViT(Architecture):
    """ERM with a vision transformer (Dosovitskiy et al., 2021) of Wiles et al.'s sizes (F.1)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "vit"}


@register(METHODS, "mlp")
class PixelMLP(Architecture):
    """ERM with four layers of 256 units on the pixels (Wiles et al., F.1)."""

    settings: ClassVar[Mapping[str, Any]] = {"model": "pixel-mlp"}
