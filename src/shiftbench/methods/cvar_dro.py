"""Robust optimisation over items: the mean loss of the worst share of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, OUTPUTS, Batch, Method, per_item
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "cvar_dro")
@dataclass(frozen=True)
class CVaRDRO(Method):
    """Robust optimisation of the conditional value at risk (Duchi & Namkoong, 2021; Levy et al., 2020).

        min over f  max { sum_i q_i l_i  :  sum_i q_i = 1,  0 <= q_i <= 1 / (alpha n) }

    The inner maximum is the mean of the alpha n largest losses of the batch. With alpha = 1 it is ERM. It needs to know
    neither domains nor groups.

    Our reading, where codes differ. Where alpha n is no whole number, the next item counts in part, so that the loss is
    continuous in alpha; below one item it is the largest loss. The maximum is taken in each batch, as in Levy et al.
    and SubpopBench, which makes it smaller on average than the one over all items.
    """

    share: float = 0.1  # alpha

    family: ClassVar[str] = "robust optimisation"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    space: ClassVar[Space] = {"share": Power(10, -2, 0)}

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ShiftBenchError(f"cvar_dro: 'share' is {self.share}, but must be above 0 and at most 1.")

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        losses = per_item(net(batch.x), batch)
        place = losses.detach().argsort(descending=True).argsort()
        counted = self.share * len(losses)
        # Below one item the first one's share is alpha n itself, so that dividing gives it whole.
        return (losses * (counted - place).clamp(min=0, max=1)).sum() / counted
