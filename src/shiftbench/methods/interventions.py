"""ERM on images made harder on purpose: the train-time interventions of BREEDS (Santurkar et al., 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS


@dataclass(frozen=True)
class Intervention(ERM):
    """min  mean_i l(f(t_i(x_i)), y_i), with t_i drawn anew at every step to make some kind of feature useless.

    Each is also an augmentation that any method takes: method=irm, augment=standard+erase.
    """

    targets: ClassVar[tuple[str, ...]] = ("class",)
    family: ClassVar[str] = "robust training"
    needs: ClassVar[str] = "images"


@register(METHODS, "adversarial")
class Adversarial(Intervention):
    """ERM on images moved to where the net errs more, by up to 0.5 (Madry et al., 2018; BREEDS, Table 14).

        min over f   mean_i max_{|d| <= eps} l(f(x_i + d), y_i)

    eps is `attack` of the run, which any method takes: method=irm, attack=1.
    """

    settings: ClassVar[Mapping[str, Any]] = {"attack": 0.5}


@register(METHODS, "gaussian_noise")
class GaussianNoise(Intervention):
    """ERM on images with Gaussian noise, deviation 0.2 of the range of pixels (BREEDS, Table 14)."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "noise"}


@register(METHODS, "random_erasing")
class RandomErasing(Intervention):
    """ERM on images of which half lose a rectangle (Zhong et al., 2020; BREEDS, Table 14)."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "erase"}


@register(METHODS, "texture_noise")
class TextureNoise(Intervention):
    """ERM on images with random textures in place of their own; ours, in the stead of Stylized ImageNet."""

    settings: ClassVar[Mapping[str, Any]] = {"augment": "texture"}
