"""Focal loss: items that are already right with confidence count less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.later import F, torch
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "focal")
@dataclass(frozen=True)
class Focal(Method):
    """Focal loss (Lin et al., 2017).

        min  mean_i  -(1 - p_i)^gamma log p_i,     p_i = softmax(f(x_i))_{y_i}

    With gamma = 0 it is ERM.

    Our reading, where codes differ. The paper's factor alpha per class is left out, as in SubpopBench (NOOCh has one
    minus the share of the class). The law is SubpopBench's, 0.5 * 10^U(0, 1).
    """

    gamma: float = 1.0

    family: ClassVar[str] = "reweighting"
    space: ClassVar[Space] = {"gamma": Power(10, -0.30103, 0.69897)}

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        losses = F.cross_entropy(net(batch.x), batch.label, reduction="none")
        # 1 - p = -expm1(-l); kept above 0, where a power has no slope to speak of but torch's may be no number.
        doubt = (-torch.expm1(-losses)).clamp(min=1e-12)
        focused = doubt**self.gamma * losses
        return (focused if batch.weight is None else focused * batch.weight).mean()
