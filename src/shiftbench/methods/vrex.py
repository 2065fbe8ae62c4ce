"""Risk extrapolation: all domains get the same risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.irm import ANNEAL, annealed, idle_penalty
from shiftbench.methods.method import (
    METHODS,
    OUTPUTS,
    Batch,
    Environments,
    Task,
    at_least,
    check_share,
    means_by,
    memory,
    per_item,
)
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "vrex")
@dataclass(frozen=True)
class VREx(Environments):
    """Variance risk extrapolation, V-REx (Krueger et al., 2021).

        min  R(f)  +  beta * Var({R_1(f), …, R_m(f)})

    R_e is the mean loss over the batch's items of environment e: our domain, or our group with `by = "group"`. With
    one environment it is ERM.

    Our reading, where codes differ. R is the mean over the batch, which is the paper's sum over domains, divided by m,
    where batches hold as many items of each. The variance is the population's, 1/m, as in DomainBed, over the domains
    that the batch has. In the share `anneal` of the run's steps the weight is min(1, beta); a tenth is DomainBed's 500
    steps of 5,001, which holds 1, so that beta = 0 is not ERM there. Above 1 the whole loss is divided by the weight,
    as the paper's code does; DomainBed resets the optimizer instead. With `by = "group"` R is the mean of the R_e.
    """

    penalty: float = 10.0  # beta
    anneal: float = 0.1  # share of the run's steps before the weight becomes beta

    family: ClassVar[str] = "domain generalization"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    batches: ClassVar[str] = "domain"
    space: ClassVar[Space] = {"penalty": Power(10, -1, 5), "anneal": ANNEAL}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self, "anneal")

    def idle(self, task: Task) -> dict[str, str]:
        alone = self.alone(task)
        return {"penalty": alone} if alone else idle_penalty(self.penalty, self.anneal, task.steps)

    def state(self, task: Task) -> nn.Module:
        return memory(n=self.count(task), steps=task.steps)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        losses = per_item(net(batch.x), batch)
        weight = annealed(step, self.penalty, self.anneal, state.steps)
        risk = self.mean(losses, batch, state.n)
        return (risk + weight * spread(losses, self.codes(batch), state.n)) / at_least(weight, 1.0)


def spread(losses: Tensor, codes: Tensor, n: int) -> Tensor:
    """Population variance of the environments' mean losses, over the environments present."""
    risks, count = means_by(losses, codes, n)
    present = (count > 0).to(losses.dtype)
    mean = (risks * present).sum() / present.sum()
    return ((risks - mean) ** 2 * present).sum() / present.sum()
