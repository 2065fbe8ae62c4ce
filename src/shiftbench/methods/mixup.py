"""Mixing of items: domain MixUp, and LISA, which leaves alone what should not change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, ONE_DOMAIN, Batch, Method, Number, Task, per_item
from shiftbench.methods.space import Power, Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "mixup")
@dataclass(frozen=True)
class MixUp(Method):
    """Domain MixUp (Gulrajani & Lopez-Paz, 2021; after Zhang et al., 2018).

        min  mean_i  lambda_i l(f(m_i), y_i)  +  (1 - lambda_i) l(f(m_i), y_j)
        m_i = lambda_i x_i + (1 - lambda_i) x_j,     lambda_i ~ Beta(alpha, alpha)

    j is drawn for each i, uniformly from the batch's items of other domains. The inputs are mixed: images as augmented,
    or cached features.

    Our reading, where codes differ. Every item has a partner and a lambda of its own. DomainBed pairs whole domains in
    a ring and draws one lambda per pair of them; the code released with Wiles et al. never mixes, since it stores the
    setting under one name and reads it under another. An item that the batch has no partner for, because all are of
    its domain, stays as it is: with one domain this is ERM. An item's weight goes with its label.
    """

    alpha: float = 0.2

    family: ClassVar[str] = "domain generalization"
    batches: ClassVar[str] = "domain"
    space: ClassVar[Space] = {"alpha": Power(10, -1, 1)}

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ShiftBenchError(f"mixup: 'alpha' is {self.alpha}, but a Beta law needs a number above 0; near 0 next "
                                  "to nothing is mixed.")

    def idle(self, task: Task) -> dict[str, str]:
        return {"alpha": ONE_DOMAIN} if task.n_domains < 2 else {}

    draws: ClassVar[int] = 3

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        choice, first, second = draws_of(batch)
        partners = partner(batch.domain[:, None] != batch.domain, choice)
        return mixed_loss(net, batch, partners, symmetric_beta(first, second, self.alpha))


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

    draws: ClassVar[int] = 4

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        strategy, choice, first, second = draws_of(batch)
        label, domain = batch.label[:, None] == batch.label, batch.domain[:, None] == batch.domain
        fits = torch.where((strategy < self.p_sel)[:, None], label & ~domain, domain & ~label)
        return mixed_loss(net, batch, partner(fits, choice), symmetric_beta(first, second, self.alpha))


def draws_of(batch: Batch) -> Sequence[Tensor]:
    """The method's random numbers, one tensor of the batch's length for each draw."""
    assert batch.u is not None
    return batch.u.unbind(dim=-1)


def partner(eligible: Tensor, u: Tensor) -> Tensor:
    """For each row the number of one of its true columns, each as likely; its own number where none is true."""
    passed = eligible.cumsum(dim=1)
    count = passed[:, -1]
    rank = torch.minimum((u * count).long(), count - 1)  # u < 1, but the product may be rounded up
    chosen = (passed <= rank[:, None]).sum(dim=1)
    return torch.where(count > 0, chosen, torch.arange(len(u), device=u.device))


def mixed_loss(net: Net, batch: Batch, partners: Tensor, share: Tensor) -> Tensor:
    """The mean loss where each item's input and label are mixed with those of its partner, which count by `share`.

    Written as an addition to the item: without a partner, or with share 0, its loss is its own to the last bit.
    """
    x = batch.x + share.view(-1, *[1] * (batch.x.ndim - 1)) * (batch.x[partners] - batch.x)
    logits = net(x)
    losses = per_item(logits, batch)
    weight = None if batch.weight is None else batch.weight[partners]
    partner_losses = per_item(logits, batch._replace(label=batch.label[partners], weight=weight))
    return (losses + share * (partner_losses - losses)).mean()


def symmetric_beta(u: Tensor, v: Tensor, alpha: Number) -> Tensor:
    """Beta(alpha, alpha) from two uniforms, exact for every alpha > 0.

    By Bailey's (1994) polar method t = sqrt(2 a (u^(-1/a) - 1)) cos(2 pi v) has Student's law with 2a degrees of
    freedom, and (1 + t / sqrt(2 a + t^2)) / 2 the Beta law. Here as the smaller of the two shares, which keeps its
    digits near 0, and in logarithms, since u^(-1/a) overflows for small a.
    """
    angle = torch.cos(2 * math.pi * v)
    power = torch.log(u) / alpha
    inverse = torch.exp(power) / -torch.expm1(power)  # 1 / (u^(-1/a) - 1)
    root = torch.sqrt(inverse + angle**2)
    smaller = inverse / (2 * root * (root + angle.abs()))
    return torch.where(angle < 0, smaller, 1 - smaller)
