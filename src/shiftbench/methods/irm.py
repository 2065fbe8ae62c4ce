"""Invariant risk minimisation and risk extrapolation: penalties on how the risks of domains differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.registry import register
from shiftbench.methods.method import (
    LOSSES,
    METHODS,
    OUTPUTS,
    Batch,
    Environments,
    Number,
    Task,
    after,
    at_least,
    at_most,
    check_share,
    first_step,
    means_by,
    memory,
    one_hot,
    per_item,
)
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net

ANNEAL = Power(10, -3.7, 0)
"""DomainBed draws 10^U(0, 4) of its 5,001 steps; here as a share of the steps, which ends with the run."""


@register(METHODS, "irm")
@dataclass(frozen=True)
class IRM(Environments):
    """Invariant risk minimisation, the practical version IRMv1 (Arjovsky et al., 2019).

        min  R(f)  +  lambda * mean_e D_e,     D_e = || d/dw R_e(w f) ||^2  at  w = 1

    Environment e is our domain, or our group with `by = "group"`. For the cross-entropy of logits l, with p =
    softmax(l), the derivative by the dummy scale w has a closed form:

        d/dw CE(w l, y)  =  sum_c p_c l_c  -  l_y     at  w = 1

    (for other targets see LOSSES).

    Our reading, where codes differ. R is ERM's, the mean over the batch's items, so that lambda = 0 is ERM. Each domain
    counts in it by its items: equally where a batch holds as many of each, which is the default. The paper, DomainBed
    and WILDS average over domains first. D_e is the product of the mean derivatives over the domain's even and odd
    cells, an unbiased estimate that may be negative (the paper's appendix D, WILDS, DomainBed); a cell is a label: an
    item's class, or one of its labelled tasks or tokens, counted through the domain's items in their order as in WILDS.
    `unbiased = false` squares the mean over all cells (NOOCh). D_e is averaged over the batch's domains (the paper
    writes a sum, Wiles et al. take it); a domain with fewer than two cells is left out (the others count it as 0). In
    the share `anneal` of the run's steps the weight is min(1, lambda); a tenth is DomainBed's 500 steps of 5,001. The
    others hold 1, so that lambda = 0 is not ERM there. Above 1 the whole loss is divided by the weight, as the paper's
    code and NOOCh's do; DomainBed and WILDS reset the optimizer instead. With `by = "group"` the environments are the
    cells of label × domain and R is the mean of their risks; with `unbiased = false` and `anneal = 0` beside it, this
    is NOOCh's IRM, divided by the number of environments. There an environment with one item counts in the penalty too.
    """

    penalty: float = 100.0  # lambda
    anneal: float = 0.1  # share of the run's steps before the weight becomes lambda
    unbiased: bool = True

    family: ClassVar[str] = "domain generalization"
    batches: ClassVar[str] = "domain"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    space: ClassVar[Space] = {"penalty": Power(10, -1, 5), "anneal": ANNEAL}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self, "anneal")

    def idle(self, task: Task) -> dict[str, str]:
        return idle_penalty(self.penalty, self.anneal, task.steps)

    def state(self, task: Task) -> nn.Module:
        return memory(n=self.count(task), steps=task.steps)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        logits = net(batch.x)
        risk = self.mean(per_item(logits, batch), batch, state.n)
        weight = annealed(step, self.penalty, self.anneal, state.steps)
        least = 1 if self.by == "group" and not self.unbiased else 2
        penalty = invariance(logits, batch, self.codes(batch), state.n, self.unbiased, least)
        return (risk + weight * penalty) / at_least(weight, 1.0)


def invariance(logits: Tensor, batch: Batch, codes: Tensor, n: int, unbiased: bool = True, least: int = 2) -> Tensor:
    """mean_e D_e over the batch's environments that have `least` cells or more; 0 where none has."""
    loss = LOSSES[batch.loss]
    slopes, known = loss.slopes(logits, batch.label), loss.known(batch.label)
    if batch.weight is not None:
        slopes = slopes * batch.weight[:, None]
    if unbiased:
        odd = _odd(known, codes)
        halves = [_means(slopes, known & half, codes, n) for half in (~odd, odd)]
        (even_mean, even_count), (odd_mean, odd_count) = halves
        products, usable = even_mean * odd_mean, (even_count > 0) & (odd_count > 0)
    else:
        mean, count = _means(slopes, known, codes, n)
        products, usable = mean**2, count >= least
    return (products * usable).sum() / usable.sum().clamp(min=1)


def _odd(known: Tensor, codes: Tensor) -> Tensor:
    """Whether a cell has an odd place (1, 3, …) among the labelled cells of its environment, items × cells."""
    same = codes[:, None] == codes
    before = (same.tril(diagonal=-1) * known.sum(dim=1)).sum(dim=1)  # labelled cells of the environment's earlier items
    return (before[:, None] + known.cumsum(dim=1) - 1) % 2 == 1


def _means(values: Tensor, chosen: Tensor, codes: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Mean of the chosen cells of each environment, 0 where it has none, and how many it has. As in `means_by`, in a
    fixed order and in 32 bits."""
    with torch.autocast(values.device.type, enabled=False):
        member = one_hot(codes, n).float()
        count = chosen.sum(dim=1).float() @ member
        return ((values.float() * chosen).sum(dim=1) @ member) / count.clamp(min=1), count


def annealed(step: int | Tensor, penalty: Number, anneal: Number, steps: int) -> Number:
    """The weight at a step: min(1, penalty) in the share `anneal` of the steps, then the penalty."""
    return after(step, first_step(anneal, steps), penalty, at_most(penalty, 1.0))


def idle_penalty(penalty: float, anneal: float, steps: int) -> dict[str, str]:
    """Where no step has the full penalty, it is as if the penalty were 1."""
    if penalty <= 1 or first_step(anneal, steps) < steps:
        return {}
    return {"penalty": f"anneal={anneal:g} holds its weight at 1 in all {steps:,} steps"}


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
