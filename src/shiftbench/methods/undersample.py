"""Undersampling: items of a rare group are drawn more often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.errors import unknown
from shiftbench.core.later import torch
from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS, Codes, Task
from shiftbench.methods.reweight import KINDS, idle_exponent
from shiftbench.methods.space import Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor


@register(METHODS, "undersample")
@dataclass(frozen=True)
class Undersample(ERM):
    """Undersampling of common groups (Japkowicz, 2000), as Madras & Zemel (2021, §4) have it.

        min  mean_i l_i,     item i drawn in proportion to  n_{g_i}^(-a)

    n_g is the number of training items of group g. a = 1 draws every group equally often, a = 0 is ERM. `by` says what
    a group is: the benchmark's groups, which are NOOCh's environments (US-Envs), or labels (US), or domains.

    Our reading: no item is thrown away; with a = 1 a rare group's items come again sooner. It is `reweight` with less
    noise where weights are large. A benchmark's own column `weight` multiplies it.
    """

    targets: ClassVar[tuple[str, ...]] = ("class",)
    exponent: float = 1.0  # a
    by: str = "group"

    family: ClassVar[str] = "reweighting"
    space: ClassVar[Space] = {"exponent": Uniform(0.0, 2.0)}

    def __post_init__(self) -> None:
        if self.by not in KINDS:
            raise unknown("kind of group", self.by, KINDS, "undersample: by")

    def idle(self, task: Task) -> dict[str, str]:
        return idle_exponent(task, self.by)

    def drawing(self, codes: Codes) -> Tensor | None:
        if self.exponent == 0:
            return None
        own = {"group": codes.group, "label": codes.label, "domain": codes.domain}[self.by]
        return torch.bincount(own).double()[own] ** -self.exponent
