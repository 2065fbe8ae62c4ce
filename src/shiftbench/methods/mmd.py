"""Maximum mean discrepancy: features of all domains get the same distribution, as seen by a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.later import torch
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Alignment, Batch, Task, memory, one_hot, per_item
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net

SCALES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""s of the seven Gaussian kernels exp(-s || z - z' ||^2) that are added."""


@register(METHODS, "mmd")
@dataclass(frozen=True)
class MMD(Alignment):
    """Alignment by the maximum mean discrepancy (Gretton et al., 2012; in a net Li et al., 2018: MMD-AAE).

        min  R(f)  +  gamma * mean over pairs a < b of  MMD^2(a, b)
        MMD^2(a, b)  =  mean k(z_a, z_a')  +  mean k(z_b, z_b')  -  2 mean k(z_a, z_b)
        k(z, z')     =  sum_s exp(-s || z - z' ||^2),     s = 0.001, 0.01, …, 1000

    z_a are the features of domain a's rows in the batch.

    Our reading, where codes differ. This is DomainBed's penalty: the sum of seven kernels of fixed width, no square
    root, and the means take a row with itself too, so that it is never negative and 0 between equal samples. The
    autoencoder and the adversarial prior of Li et al. are left out, as there. A domain that the batch lacks is left
    out. Features without parameters below them (model `linear`) cannot be aligned; a run refuses that.
    """

    penalty: float = 1.0  # gamma

    family: ClassVar[str] = "domain generalization"
    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    batches: ClassVar[str] = "domain"
    needs: ClassVar[str] = "features"
    space: ClassVar[Space] = {"penalty": Power(10, -1, 1)}

    def idle(self, task: Task) -> dict[str, str]:
        alone = self.alone(task)
        return {"penalty": alone} if alone else {}

    def state(self, task: Task) -> nn.Module:
        return memory(n=self.count(task))

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z, every, codes = self.features(net, batch)
        risk = self.mean(per_item(net.head(z), batch), batch, state.n)
        return risk + self.penalty * discrepancy(every, codes, state.n)


def discrepancy(z: Tensor, domain: Tensor, n_domains: int) -> Tensor:
    """The mean over pairs of domains, for all pairs at once: block means of one n × n kernel matrix."""
    # The narrowest kernel multiplies errors of a squared distance by 1000: no 16-bit products here, and small numbers.
    with torch.autocast(z.device.type, enabled=False):
        z = z.float()
        z = z - z.mean(dim=0).detach()
        inner = z @ z.T
        own = inner.diagonal()
        apart = (own[:, None] + own[None, :] - 2 * inner).clamp(min=0)
        kernel = sum((torch.exp(-scale * apart) for scale in SCALES), torch.zeros_like(apart))
        member = one_hot(domain, n_domains).to(z.dtype)
        count = member.sum(dim=0)
        share = member / count.clamp(min=1)
        means = share.T @ kernel @ share
        within = means.diagonal()
        present = (count > 0).to(z.dtype)
        pairs = (present[:, None] * present[None, :]).triu(diagonal=1)
        return ((within[:, None] + within[None, :] - 2 * means) * pairs).sum() / pairs.sum().clamp(min=1)
