"""Invariant risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.methods.base import (
    METHODS,
    OUTPUTS,
    Batch,
    Method,
    Task,
    after,
    at_least,
    at_most,
    means_by,
    memory,
    one_hot,
    per_item,
)
from shiftbench.methods.losses import LOSSES
from shiftbench.methods.space import Power, Space
from shiftbench.registry import register

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.base import Net


@register(METHODS, "irm")
@dataclass(frozen=True)
class IRM(Method):
    """Invariant risk minimisation, the practical version IRMv1 (Arjovsky et al., 2019; environment e = our domain).

        min  R(f)  +  lambda * mean_e D_e,     D_e = || d/dw R_e(w f) ||^2  at  w = 1

    For the cross-entropy of logits l, with p = softmax(l), the derivative by the dummy scale w has a closed form:

        d/dw CE(w l, y)  =  sum_c p_c l_c  -  l_y     at  w = 1

    (for other targets see `methods/losses.py`).

    Our reading, where codes differ. D_e is the product of the mean derivatives over the domain's even and odd rows, an
    unbiased estimate that may be negative (the paper's appendix D, WILDS, DomainBed); `unbiased = false` squares the
    mean over all rows (NOOCh). D_e is averaged over the batch's domains (the paper writes a sum, Wiles et al. take it);
    a domain with fewer than two rows is left out (the others count it as 0). Until step `anneal` the weight is min(1,
    lambda); the others hold 1, so that lambda = 0 is not ERM there. Above 1 the whole loss is divided by the weight, as
    the paper's code and NOOCh's do; DomainBed and WILDS reset the optimizer instead.
    """

    penalty: float = 100.0  # lambda
    anneal: int = 500  # steps before the weight becomes lambda
    unbiased: bool = True

    family: ClassVar[str] = "domain generalization"
    batches: ClassVar[str] = "domain"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    space: ClassVar[Space] = {"penalty": Power(10, -1, 5), "anneal": Power(10, 0, 4, whole=True)}

    def state(self, task: Task) -> nn.Module:
        return memory(n_domains=task.n_domains)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        logits = net(batch.x)
        risk = per_item(logits, batch).mean()
        weight = after(step, self.anneal, self.penalty, at_most(self.penalty, 1.0))
        return (risk + weight * invariance(logits, batch, state.n_domains, self.unbiased)) / at_least(weight, 1.0)


def invariance(logits: Tensor, batch: Batch, n_domains: int, unbiased: bool = True) -> Tensor:
    """mean_e D_e over the batch's domains that have two rows or more; 0 where none has."""
    slope = LOSSES[batch.kind].slope(logits, batch.label)
    if batch.weight is not None:
        slope = slope * batch.weight
    member = one_hot(batch.domain, n_domains).long()
    # An item's place among its domain's rows decides its half: even places one way, odd ones the other.
    odd = (member.cumsum(dim=0) * member).sum(dim=1) % 2
    if unbiased:
        half, count = means_by(slope, batch.domain * 2 + odd, 2 * n_domains)
        products, usable = half[0::2] * half[1::2], (count[0::2] > 0) & (count[1::2] > 0)
    else:
        whole, count = means_by(slope, batch.domain, n_domains)
        products, usable = whole**2, count > 1
    return (products * usable).sum() / usable.sum().clamp(min=1)
