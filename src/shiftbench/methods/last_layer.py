"""The last layer alone: what a representation is worth on other items."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS, Stage, Trained


@register(METHODS, "last_layer")
@dataclass(frozen=True)
class LastLayer(ERM):
    """min over W, b   mean_i l(W z_i + b, y_i),   z_i = features(x_i) as they are.

    It begins with `weights` of the run and learns from the items of `split`: with those of a run on the source and
    `target_train` it is the target-RT of BREEDS (Santurkar et al., 2021), which `shiftbench retrain` does for you.
    """

    targets: ClassVar[tuple[str, ...]] = ("class",)
    split: str = "target_train"

    family: ClassVar[str] = "transfer"

    def fit(self) -> Generator[Stage, Trained, Trained]:
        return (yield Stage(self, trains=("head",), split=self.split))
