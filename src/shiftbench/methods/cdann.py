"""Conditional domain-adversarial training: features from which, given the label, the domain cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.later import F, nn, torch
from shiftbench.core.registry import register
from shiftbench.methods.dann import DANN, reverse
from shiftbench.methods.method import METHODS, Batch, Task, per_item

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "cdann")
@dataclass(frozen=True)
class CDANN(DANN):
    """Conditional domain-adversarial nets (Li et al., 2018: conditional invariant adversarial networks).

        min over f, max over D   R(f)  -  lambda * mean_i  b_i CE(D(z_i + e_{y_i}), d_i)
        b_i  =  1 / (K_d p(y_i | d_i))

    z_i are the features, d_i is the domain, e_y a learned vector per class that tells D the label, p(y | d) the share
    of label y among the training items of domain d, K_d the number of labels that domain has. The weights b give every
    domain the same, uniform class prior: D cannot win by counting classes.

    Our reading, where codes differ. D and f step together through a gradient reversal (Ganin et al., 2016), under the
    run's optimizer: D goes down on its loss, f up on lambda times it. DomainBed alternates the two with an optimizer
    each, and takes its weights from the label counts of the batch over all domains, 1 / (K n_y). Li et al. have one
    discriminator per class; the class vector stands for them, as in DomainBed. Features without parameters below them
    (model `linear`) cannot be moved; a run refuses that.
    """

    targets: ClassVar[tuple[str, ...]] = ("class",)

    def state(self, task: Task) -> nn.Module:
        state: Any = super().state(task)
        state.label_vector = nn.Embedding(task.n_classes, task.n_features)
        state.register_buffer("balance", prior_weights(task.label_counts))
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z = net.features(batch.x)
        risk = per_item(net.head(z), batch).mean()
        told = reverse(z, self.penalty) + state.label_vector(batch.label)
        guesses = F.cross_entropy(state.discriminator(told), batch.domain, reduction="none")
        return risk + (state.balance[batch.domain, batch.label] * guesses).mean()


def prior_weights(label_counts: Tensor) -> Tensor:
    """b[d, y] = 1 / (K_d p(y | d)); 0 where a domain lacks a label."""
    share = label_counts / label_counts.sum(dim=1, keepdim=True).clamp(min=1)
    labels = (label_counts > 0).sum(dim=1, keepdim=True)
    return torch.where(label_counts > 0, 1 / (labels * share).clamp(min=1e-12), 0.0).float()
