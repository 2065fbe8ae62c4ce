"""Empirical risk minimisation, the baseline, and its relatives: another loss per item, or the mean of the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.backend import F, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, OUTPUTS, Batch, Method, per_item, weighted
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "erm")
@dataclass(frozen=True)
class ERM(Method):
    """Empirical risk minimisation (Vapnik, 1998).

        min  1/n sum_i  l(f(x_i), y_i)

    l is the cross-entropy, or what the target asks for (LOSSES). Batches are drawn uniformly from all training
    items; DomainBed's ERM takes the same number from each domain, which is `batches = "domain"` of the run.
    """

    family: ClassVar[str] = "baseline"
    targets: ClassVar[tuple[str, ...]] = (*OUTPUTS, "boxes")


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
        return weighted(doubt**self.gamma * losses, batch).mean()


@register(METHODS, "spectral_decoupling")
@dataclass(frozen=True)
class SpectralDecoupling(Method):
    """Spectral decoupling against gradient starvation (Pezeshki et al., 2021).

        min  R(f)  +  lambda * mean over items and classes of  l_ic^2

    l_ic is the logit of item i for class c. With lambda = 0 it is ERM.

    Our reading, where codes differ. The paper writes lambda/2 || l ||^2 for one logit per item; DomainBed takes the
    mean over items and classes without the half, and so do we. Its batches hold as many items of each domain, which the
    method does not need: that is `batches = "domain"` of the run. The paper's code may shrink the logits of each class
    towards a value of its own instead of 0; ours has 0 for all.
    """

    penalty: float = 0.1  # lambda

    family: ClassVar[str] = "regularisation"
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    space: ClassVar[Space] = {"penalty": Power(10, -5, -1)}

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        logits = net(batch.x)
        return per_item(logits, batch).mean() + self.penalty * (logits.float() ** 2).mean()


@register(METHODS, "cvar_dro")
@dataclass(frozen=True)
class CVaRDRO(Method):
    """Robust optimisation of the conditional value at risk (Duchi & Namkoong, 2021; Levy et al., 2020).

        min over f  max { sum_i q_i l_i  :  sum_i q_i = 1,  0 <= q_i <= 1 / (alpha n) }

    The inner maximum is the mean of the alpha n largest losses of the batch. With alpha = 1 it is ERM. It needs to know
    neither domains nor groups.

    Our reading, where codes differ. Where alpha n is not a whole number, the next item counts in part, so that the loss
    is continuous in alpha; below one item it is the largest loss. The maximum is taken in each batch, as in Levy et al.
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
        rank = losses.detach().argsort(descending=True).argsort()
        counted = self.share * len(losses)
        # Below one item the first one's share is alpha n itself, so that dividing gives it whole.
        return (losses * (counted - rank).clamp(min=0, max=1)).sum() / counted
