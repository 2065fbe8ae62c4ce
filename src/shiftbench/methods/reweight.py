"""Reweighting and undersampling: items of a small group, label or domain count more, or are drawn more often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import unknown
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Codes, Method, Task, memory, per_item
from shiftbench.methods.space import Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@dataclass(frozen=True)
class Rarity(Method):
    """A method by which items of a small group count more: `by` says what a group is, the power `exponent` how much."""

    exponent: float = 1.0  # a
    by: str = "group"

    family: ClassVar[str] = "reweighting"

    def __post_init__(self) -> None:
        kinds = ("group", "label", "domain")
        if self.by not in kinds:
            raise unknown("kind of group", self.by, kinds, f"{self.name}: by")

    def idle(self, task: Task) -> dict[str, str]:
        """Groups of equal size have equal weights, whatever the exponent is."""
        sizes = task.counts(self.by)
        return {} if len(sizes[sizes > 0].unique()) > 1 else {"exponent": f"each {self.by} has as many training items"}


@register(METHODS, "reweight")
@dataclass(frozen=True)
class Reweight(Rarity):
    """Reweighting by inverse frequency (Japkowicz, 2000; Shimodaira, 2000).

        min  mean_i  w_{g_i} l_i,     w_g = n_g^(-a) / mean_j n_{g_j}^(-a)

    n_g is the number of training items of group g; the weights have mean 1 over the training items. a = 1 gives every
    group the same mass, a = 1/2 is SubpopBench's SqrtReWeight, a = 0 is ERM.

    Our reading, where codes differ. `by` says what a group is: the benchmark's groups (SubpopBench), labels or domains.
    NOOCh's paper has this; its code weighs with (1 - n_g / n)^a, which hardly differs from ERM among many groups. The
    other way to the same mean, to draw the items of rare groups more often, is `undersample`.
    """

    def state(self, task: Task) -> nn.Module:
        return memory(balance=balance(task.counts(self.by), self.exponent))

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        return (state.balance[getattr(batch, self.by)] * per_item(net(batch.x), batch)).mean()


@register(METHODS, "undersample")
@dataclass(frozen=True)
class Undersample(Rarity):
    """Undersampling of common groups (Japkowicz, 2000), as Madras & Zemel (2021, §4) have it.

        min  mean_i l_i,     item i drawn in proportion to  n_{g_i}^(-a)

    n_g is the number of training items of group g. a = 1 draws every group equally often, a = 0 is ERM. `by` says what
    a group is: the benchmark's groups, which are NOOCh's environments (US-Envs), or labels (US), or domains.

    Our reading: no item is thrown away; with a = 1 a rare group's items come again sooner. It is `reweight` with less
    noise where weights are large. A benchmark's own column `weight` multiplies it.
    """

    space: ClassVar[Space] = {"exponent": Uniform(0.0, 2.0)}

    def drawing(self, codes: Codes) -> Tensor | None:
        if self.exponent == 0:
            return None
        code = getattr(codes, self.by)
        return torch.bincount(code).double()[code] ** -self.exponent


def balance(counts: Tensor, exponent: float) -> Tensor:
    """w_g; 0 for a group that training lacks."""
    n = counts.double()
    powers = torch.where(n > 0, n.clamp(min=1) ** -exponent, 0.0)
    return (powers * n.sum() / (powers * n).sum()).float()
