"""ERM on augmented images: the heuristic augmentations of Wiles et al., and RandAugment's operations one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.images.augment import PRESETS
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS


@dataclass(frozen=True)
class Augmentation(ERM):
    """min  mean_i l(f(t_i(x_i)), y_i), with a transformation t_i drawn anew at every step; no plain images (F.2)."""

    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    family: ClassVar[str] = "heuristic augmentation"
    needs: ClassVar[str] = "images"


@register(METHODS, "imagenet_augment")
class ImageNetAugment(Augmentation):
    """ERM on random crops with colour jitter, the usual augmentation of ImageNet training (He et al., 2016)."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "imagenet"}


@register(METHODS, "augmix")
class AugMix(Augmentation):
    """ERM on AugMix (Hendrycks et al., 2020), without its consistency loss, as in Wiles et al."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "augmix"}


@register(METHODS, "randaugment")
class RandAugment(Augmentation):
    """ERM on RandAugment (Cubuk et al., 2020): three random operations of one strength."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "randaugment"}


@register(METHODS, "autoaugment")
class AutoAugment(Augmentation):
    """ERM on AutoAugment (Cubuk et al., 2019): the published policies for CIFAR-10 or, from 128 pixels on, ImageNet."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "autoaugment"}


class Only(Augmentation):
    """ERM on one operation of RandAugment alone (Wiles et al., B.2)."""

    family: ClassVar[str] = "one augmentation"


for _preset in (name for name in PRESETS if name.startswith("only-")):
    _method = _preset.replace("-", "_")
    register(METHODS, _method)(type(_method, (Only,), {"settings": {"augment": _preset}, "__doc__": Only.__doc__,
                                                       "__module__": __name__}))
