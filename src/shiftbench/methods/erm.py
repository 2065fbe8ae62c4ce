"""Empirical risk minimisation: the baseline every other method is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, OUTPUTS, Batch, Method, risks

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "erm")
@dataclass(frozen=True)
class ERM(Method):
    """Empirical risk minimisation (Vapnik, 1998).

        min  1/n sum_i  l(f(x_i), y_i)

    l is the cross-entropy, or what the target asks for (`methods/losses.py`). Batches are drawn from all training items
    alike; DomainBed's ERM takes the same number from each domain, which is `batches = "domain"` of the run.
    """

    family: ClassVar[str] = "baseline"
    targets: ClassVar[tuple[str, ...]] = (*OUTPUTS, "boxes")

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        return risks(net, batch).mean()
