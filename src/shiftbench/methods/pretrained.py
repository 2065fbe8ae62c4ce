"""Pretraining: begin with what another data set has taught, then train everything."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS


@register(METHODS, "pretrained")
@dataclass(frozen=True)
class Pretrained(ERM):
    """ERM from pretrained weights, all of them trained on (Wiles et al., F.6).

    `weights` of the run says which: `imagenet` unless told otherwise, or a file, such as `shiftbench pretrain` leaves.
    Offline, efficientnet-lite0 has ImageNet weights. Our reading: images keep the run's size; the paper resizes to 224.
    """

    family: ClassVar[str] = "representation learning"
    needs: ClassVar[str] = "images"
    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    settings: ClassVar[Mapping[str, Any]] = {"weights": "imagenet"}
