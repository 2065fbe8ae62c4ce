"""Correlation alignment: features of all domains get the same mean and covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shiftbench.core.later import torch
from shiftbench.core.registry import register
from shiftbench.methods.alignment import Alignment, mean_over_pairs, squared_distances
from shiftbench.methods.method import METHODS, OUTPUTS, one_hot
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor


@register(METHODS, "coral")
@dataclass(frozen=True)
class CORAL(Alignment):
    """Deep CORAL (Sun & Saenko, 2016), for any number of domains.

        min  R(f)  +  gamma * mean over pairs a < b of  || mu_a - mu_b ||^2 / d  +  || C_a - C_b ||_F^2 / d^2

    mu_a and C_a (with 1/(n-1)) are the mean and covariance of the d features of domain a's rows in the batch.

    Our reading, where codes differ. This is DomainBed's and WILDS' penalty: with the term of means, which the paper
    lacks, and without the paper's 1/4. Where features belong to places (tokens), every place of every item is a row, as
    in WILDS, those without a label too. A domain with fewer than two rows has no covariance and is left out (theirs
    becomes NaN). With `unlabelled` a split's items without labels take part by their domains, as in WILDS 2.0 and, with
    one domain to either side, in the paper; they are drawn from the whole split. gamma is
    `penalty`. Features without parameters below them (model `linear`) cannot be aligned; a run refuses that.
    """

    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    space: ClassVar[Space] = {"penalty": Power(10, -1, 1)}

    def apart(self, z: Tensor, codes: Tensor, n: int) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):  # differences of covariances need their 32 bits
            return discrepancy(z.float(), codes, n)


def discrepancy(z: Tensor, domain: Tensor, n_domains: int) -> Tensor:
    """The mean over pairs of domains, for all pairs at once; z is items × d, or items × places × d."""
    if n_domains > len(z):  # domains by their first item in the batch: at most as many as items, not thousands
        domain, n_domains = (domain[:, None] == domain).long().argmax(dim=1), len(z)
    member = one_hot(domain, n_domains).to(z.dtype)
    n_places, d = z.shape[1:-1].numel(), z.shape[-1]
    count = member.sum(dim=0) * n_places
    usable = (count > 1).to(z.dtype)
    mean = (member.T @ z.reshape(len(z), n_places, d).sum(dim=1)) / count.clamp(min=1)[:, None]
    scale = (member @ (count - 1).clamp(min=1).sqrt())[:, None]
    if z.ndim == 2:
        inner = _inner_by_rows((z - member @ mean) / scale, member)
    else:
        inner = _inner_by_features((z - (member @ mean)[:, None]) / scale[:, None], member)
    return mean_over_pairs(squared_distances(mean @ mean.T) / d + squared_distances(inner) / d**2, usable)


def _inner_by_rows(x: Tensor, member: Tensor) -> Tensor:
    """<C_a, C_b> of every two domains without forming a d × d matrix: with a domain's centred and scaled rows as X_a it
    is || X_a X_b^T ||_F^2, sums over blocks of one n × n Gram matrix. n items are mostly far fewer than d."""
    return member.T @ (x @ x.T) ** 2 @ member


def _inner_by_features(x: Tensor, member: Tensor) -> Tensor:
    """The same from the d × d matrices: rows are items × places, and those are mostly far more than d."""
    by_item = (x.mT @ x).flatten(1)  # an item's part of its domain's covariance
    covariance = member.T @ by_item
    return covariance @ covariance.T
