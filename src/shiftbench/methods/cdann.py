"""Conditional domain-adversarial training: features from which, given the label, the domain cannot be told."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.methods.base import METHODS, Batch, Method, Task, per_item
from shiftbench.methods.space import Choice, Power, Space
from shiftbench.models.base import Net
from shiftbench.registry import register


@register(METHODS, "cdann")
@dataclass(frozen=True)
class CDANN(Method):
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

    penalty: float = 1.0  # lambda
    width: int = 256  # hidden units of D
    depth: int = 2  # hidden layers of D

    family: ClassVar[str] = "adversarial"
    batches: ClassVar[str] = "domain"
    moves_features: ClassVar[bool] = True
    shapes: ClassVar[tuple[str, ...]] = ("width", "depth")
    space: ClassVar[Space] = {"penalty": Power(10, -2, 2), "width": Power(2, 6, 10, whole=True),
                              "depth": Choice((2, 3, 4))}

    def state(self, task: Task) -> nn.Module:
        sizes = [task.n_features, *[self.width] * self.depth]
        layers = [layer for below, above in pairwise(sizes) for layer in (nn.Linear(below, above), nn.ReLU())]
        state = nn.Module()
        state.discriminator = nn.Sequential(*layers, nn.Linear(sizes[-1], task.n_domains))
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


def reverse(z: Tensor, strength: float | Tensor) -> Tensor:
    """Identity forward, since z - z is 0; backward the gradient comes out times -strength."""
    return z.detach() - strength * (z - z.detach())
