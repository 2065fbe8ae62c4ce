"""Maximum mean discrepancy: features of all domains get the same distribution, as seen by a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.later import torch
from shiftbench.core.registry import register
from shiftbench.methods.alignment import Alignment, mean_over_pairs, squared_distances
from shiftbench.methods.method import METHODS, one_hot
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor

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
    out. gamma is `penalty`. Features without parameters below them (model `linear`) cannot be aligned; a run refuses
    that.
    """

    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    space: ClassVar[Space] = {"penalty": Power(10, -1, 1)}

    def apart(self, z: Tensor, codes: Tensor, n: int) -> Tensor:
        return discrepancy(z, codes, n)


def discrepancy(z: Tensor, domain: Tensor, n_domains: int) -> Tensor:
    """The mean over pairs of domains, for all pairs at once: block means of one n × n kernel matrix."""
    # The narrowest kernel multiplies errors of a squared distance by 1000: no 16-bit products here, and small numbers.
    with torch.autocast(z.device.type, enabled=False):
        z = z.float()
        z = z - z.mean(dim=0).detach()
        apart = squared_distances(z @ z.T).clamp(min=0)
        kernel = sum((torch.exp(-scale * apart) for scale in SCALES), torch.zeros_like(apart))
        member = one_hot(domain, n_domains).to(z.dtype)
        count = member.sum(dim=0)
        share = member / count.clamp(min=1)
        return mean_over_pairs(squared_distances(share.T @ kernel @ share), (count > 0).to(z.dtype))
