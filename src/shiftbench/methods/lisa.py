"""LISA: MixUp that leaves alone what should not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.later import torch
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method
from shiftbench.methods.mixup import draws_of, mixed_loss, partner, symmetric_beta
from shiftbench.methods.space import Power, Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "lisa")
@dataclass(frozen=True)
class LISA(Method):
    """Learning invariant predictors by selective augmentation (Yao et al., 2022).

        min  mean_i  lambda_i l(f(m_i), y_i)  +  (1 - lambda_i) l(f(m_i), y_j)
        m_i = lambda_i x_i + (1 - lambda_i) x_j,     lambda_i ~ Beta(alpha, alpha)
        with probability p_sel   y_j  = y_i and d_j != d_i    (within a label: the domain ceases to matter)
        otherwise                y_j != y_i and d_j  = d_i    (within a domain: it does not tell the label)

    j is drawn from the batch, each item that fits as likely.

    Our reading, where codes differ. Strategy, partner and lambda are drawn for each item; the authors draw the strategy
    once per batch. An item for which the batch has no partner under the strategy drawn stays as it is, rather than turn
    to the other strategy: p_sel = 1 never mixes labels. Batches hold as many items of each group, which is what the
    authors' loader per group amounts to, so that partners are there; SubpopBench draws from all items uniformly. Images
    are mixed whole, never cut and pasted (`cutmix`), so that cached features are treated the same way. alpha, p_sel and
    their laws are SubpopBench's.
    """

    alpha: float = 2.0
    p_sel: float = 0.5

    family: ClassVar[str] = "mixing"
    batches: ClassVar[str] = "group"
    space: ClassVar[Space] = {"alpha": Power(10, -1, 1), "p_sel": Uniform(0, 1)}

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ShiftBenchError(f"lisa: 'alpha' is {self.alpha}, but a Beta law needs a number above 0.")
        if not 0 <= self.p_sel <= 1:
            raise ShiftBenchError(f"lisa: 'p_sel' is {self.p_sel}, but it is a probability, from 0 to 1.")

    @property
    def draws(self) -> int:
        return 4

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        strategy, choice, first, second = draws_of(batch)
        label, domain = batch.label[:, None] == batch.label, batch.domain[:, None] == batch.domain
        fits = torch.where((strategy < self.p_sel)[:, None], label & ~domain, domain & ~label)
        return mixed_loss(net, batch, partner(fits, choice), symmetric_beta(first, second, self.alpha))
