"""Empirical quantile risk minimisation: a risk that most domains stay below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import (
    METHODS,
    ONE_DOMAIN,
    OUTPUTS,
    Batch,
    Method,
    Number,
    Task,
    after,
    check_share,
    first_step,
    means_by,
    memory,
    per_item,
)
from shiftbench.methods.space import Power, Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "eqrm")
@dataclass(frozen=True)
class EQRM(Method):
    """Empirical quantile risk minimisation (Eastwood et al., 2022: probable domain generalisation).

        min  F^-1(alpha),     F(t) = mean_e Phi((t - R_e) / h),     h = 1.06 s m^(-1/5)

    R_e is the mean loss over the batch's items of domain e, s the standard deviation of the m risks (1/(m-1)), Phi the
    normal distribution function: F is a kernel estimate of how the risks of domains are distributed.

    Our reading, where codes differ. `smooth = false` has the plain quantile of the m risks, linear between neighbours,
    so that alpha = 1 is the largest risk. In the share `burn_in` of the run's steps the loss is ERM's, the mean over
    the batch; half, as DomainBed's 2,500 of 5,001. DomainBed then starts a new Adam with a learning rate of 1e-6, which
    has no counterpart here. The gradient is that of F^-1(alpha) itself, through h too, from one Newton step at the
    root. Domains that the batch lacks are left out.
    """

    quantile: float = 0.75  # alpha
    burn_in: float = 0.5  # share of the steps that are ERM's
    smooth: bool = True

    family: ClassVar[str] = "robust optimisation"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    batches: ClassVar[str] = "domain"
    space: ClassVar[Space] = {"quantile": Uniform(0.5, 0.99), "burn_in": Power(10, -1.2, -0.2)}

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1 and not (self.quantile in (0, 1) and not self.smooth):
            raise ShiftBenchError(f"eqrm: 'quantile' is {self.quantile}, but must be between 0 and 1; 0 and 1 "
                                  "themselves need smooth = false.")
        check_share(self, "burn_in")

    def idle(self, task: Task) -> dict[str, str]:
        if task.n_domains < 2:
            return dict.fromkeys(("quantile", "smooth"), ONE_DOMAIN)
        if first_step(self.burn_in, task.steps) < task.steps:
            return {}
        return dict.fromkeys(("quantile", "smooth"), f"burn_in={self.burn_in:g} leaves none of {task.steps:,} steps")

    def state(self, task: Task) -> nn.Module:
        return memory(n_domains=task.n_domains, steps=task.steps)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        losses = per_item(net(batch.x), batch)
        risks, count = means_by(losses, batch.domain, state.n_domains)
        high = (kernel_quantile if self.smooth else plain_quantile)(risks, count > 0, self.quantile)
        return torch.as_tensor(after(step, first_step(self.burn_in, state.steps), high, losses.mean()))


def plain_quantile(risks: Tensor, present: Tensor, alpha: Number) -> Tensor:
    """Linear between the two risks whose places in the order enclose alpha (m - 1)."""
    ranks = risks.detach().masked_fill(~present, math.inf).argsort().argsort()
    near = (1 - (ranks - alpha * (present.sum() - 1)).abs()).clamp(min=0)
    return (risks * near * present).sum()


ROUNDS, POINTS = 3, 32
"""A grid of this many points encloses the root, this many times: to 1/30,000 of the range, before the Newton step."""


def kernel_quantile(risks: Tensor, present: Tensor, alpha: Number) -> Tensor:
    """The root of F(t) = alpha, sought in units of the risks' deviation, in which the range is known beforehand."""
    m = present.sum()
    mean = (risks * present).sum() / m
    deviation = (((risks - mean) ** 2 * present).sum() / (m - 1).clamp(min=1)).clamp(min=1e-12).sqrt()
    units = (risks - mean) / deviation
    width = 1.06 * m ** -0.2

    def below(t: Tensor, u: Tensor) -> Tensor:
        """F at each t."""
        return (torch.special.ndtr((t[..., None] - u) / width) * present).sum(dim=-1) / m

    reach = len(risks) ** 0.5 + 4  # no risk is further than sqrt(m) deviations from the mean
    low, span = torch.full_like(mean.detach(), -reach), 2.0 * reach
    points = torch.arange(1, POINTS, device=risks.device) / POINTS
    for _ in range(ROUNDS):
        passed = (below(low + span * points, units.detach()) < alpha).sum()
        low, span = low + passed * (span / POINTS), span / POINTS
    root = low + span / 2
    bells = torch.exp(-(((root - units.detach()) / width) ** 2) / 2) * present
    density = bells.sum() / (m * width * math.sqrt(2 * math.pi))
    # By u this has the derivative of the implicit function; as a number it is the root, once more refined.
    root = root + (alpha - below(root, units)) / density.clamp(min=1e-30)
    return mean + deviation * root
