"""Spectral decoupling: small logits, so that one strong feature does not starve the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, OUTPUTS, Batch, Method, per_item
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


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
