"""Domain-adversarial training: features from which the domain cannot be predicted; conditional: given the label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.later import F, nn, torch
from shiftbench.core.registry import register
from shiftbench.methods.alignment import Alignment
from shiftbench.methods.method import METHODS, ONE_DOMAIN, Batch, Method, Number, Task, per_item
from shiftbench.methods.space import Choice, Power, Space

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "dann")
@dataclass(frozen=True)
class DANN(Alignment):
    """Domain-adversarial nets (Ganin et al., 2016).

        min over f, max over D   R(f)  -  lambda * mean_i CE(D(z_i), d_i)

    z_i are the features, d_i is the domain, D a net with `depth` hidden layers of `width` units. With `by = "group"`
    d_i is the group, and both means are taken over groups, each the mean of its items.

    Our reading, where codes differ. D and f step together through a gradient reversal, as in the paper, under the run's
    optimizer: D goes down on its loss, f up on lambda times it. The paper lets lambda grow from 0 during training and
    WILDS gives D and the features learning rates of their own; here lambda is fixed. With `alternate` = k, as in
    DomainBed, a step of f on the objective above is followed by k steps of D on its own loss; the optimizer leaves
    weights alone that a step gives no gradient, so each of the two has moments of its own. DomainBed's Adam has the
    moments 0.5 and 0.9, the run's 0.9 and 0.999. D is DomainBed's by default; Wiles et al. have two
    layers of 64. It forces the domains to have the same features even where they differ in how often they have a label:
    see `cdann`. With `unlabelled` a split's items without labels are told apart by D too: the paper's target, or WILDS
    2.0's domains. lambda is `penalty`. Features without parameters below them (model `linear`) cannot be moved; a run
    refuses that.
    """

    width: int = 256  # hidden units of D
    depth: int = 2  # hidden layers of D
    alternate: int = 0  # steps of D after each of f; 0: both at once

    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    shapes: ClassVar[tuple[str, ...]] = ("width", "depth", "alternate")
    unsaid: ClassVar[tuple[str, ...]] = (*Alignment.unsaid, "alternate")
    space: ClassVar[Space] = {"penalty": Power(10, -2, 2), "width": Power(2, 6, 10, whole=True),
                              "depth": Choice((2, 3, 4))}

    def idle(self, task: Task) -> dict[str, str]:
        alone = self.alone(task)
        return dict.fromkeys(("penalty", "width", "depth", "alternate"), alone) if alone else {}

    @property
    def alternates(self) -> bool:
        return self.alternate > 0

    def state(self, task: Task) -> nn.Module:
        state = nn.Module()
        state.n = self.count(task)
        state.discriminator = discriminator(task.n_features, self.width, self.depth, state.n)
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z, every, codes = self.features(net, batch)
        risk = self.mean(per_item(net.head(z), batch), batch, state.n)

        def guessing(z: Tensor) -> Tensor:
            """How badly D tells the environments of a batch apart."""
            return self.mean(F.cross_entropy(state.discriminator(z), codes, reduction="none"), batch, state.n)

        if self.alternate:
            return turn(self.alternate, self.penalty, state, step, risk, guessing, every)
        return risk + guessing(reverse(every, self.penalty))


def discriminator(n_features: int, width: int, depth: int, n: int) -> nn.Sequential:
    """D: `depth` hidden layers of `width` units, one output for each of n environments."""
    sizes = [n_features, *[width] * depth]
    layers = [layer for below, above in pairwise(sizes) for layer in (nn.Linear(below, above), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n))


def turn(alternate: int, penalty: Number, state: nn.Module, step: int | Tensor, risk: Tensor,
         guessing: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The loss of one of the two players; the other's weights get no gradient. f begins, as in DomainBed."""
    if (int(step) + 1) % (1 + alternate) < alternate:
        return guessing(z.detach())
    for weight in state.parameters():
        weight.requires_grad_(False)
    try:
        return risk - penalty * guessing(z)
    finally:
        for weight in state.parameters():
            weight.requires_grad_(True)


def reverse(z: Tensor, strength: Number) -> Tensor:
    """Identity forward, since z - z is 0; backward the gradient comes out times -strength."""
    return z.detach() - strength * (z - z.detach())


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
    run's optimizer: D goes down on its loss, f up on lambda times it. With `alternate` they take turns (see `dann`),
    and the weights are DomainBed's, from the label counts of the batch over all domains: b_i = n / (K n_{y_i}). Li et
    al. have one discriminator per class; the class vector stands for them, as in DomainBed. Features without parameters
    below them (model `linear`) cannot be moved; a run refuses that.
    """

    penalty: float = 1.0  # lambda
    width: int = 256  # hidden units of D
    depth: int = 2  # hidden layers of D
    alternate: int = 0  # steps of D after each of f; 0: both at once

    family: ClassVar[str] = "domain generalization"
    batches: ClassVar[str] = "domain"
    needs: ClassVar[str] = "features"
    shapes: ClassVar[tuple[str, ...]] = DANN.shapes
    unsaid: ClassVar[tuple[str, ...]] = ("alternate",)
    space: ClassVar[Space] = DANN.space

    def idle(self, task: Task) -> dict[str, str]:
        return dict.fromkeys(("penalty", "width", "depth", "alternate"), ONE_DOMAIN) if task.n_domains < 2 else {}

    @property
    def alternates(self) -> bool:
        return self.alternate > 0

    def state(self, task: Task) -> nn.Module:
        state: Any = nn.Module()
        state.discriminator = discriminator(task.n_features, self.width, self.depth, task.n_domains)
        state.label_vector = nn.Embedding(task.n_classes, task.n_features)
        state.register_buffer("balance", prior_weights(task.label_counts))
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z = net.features(batch.x)
        risk = per_item(net.head(z), batch).mean()

        def guesses(z: Tensor) -> Tensor:
            labelled = z + state.label_vector(batch.label)
            return F.cross_entropy(state.discriminator(labelled), batch.domain, reduction="none")

        def guessing(z: Tensor) -> Tensor:
            counts = torch.bincount(batch.label, minlength=len(state.label_vector.weight))
            return (guesses(z) / (counts[batch.label] * len(counts))).sum()

        if self.alternate:
            return turn(self.alternate, self.penalty, state, step, risk, guessing, z)
        return risk + (state.balance[batch.domain, batch.label] * guesses(reverse(z, self.penalty))).mean()


def prior_weights(label_counts: Tensor) -> Tensor:
    """b[d, y] = 1 / (K_d p(y | d)); 0 where a domain lacks a label."""
    share = label_counts / label_counts.sum(dim=1, keepdim=True).clamp(min=1)
    labels = (label_counts > 0).sum(dim=1, keepdim=True)
    return torch.where(label_counts > 0, 1 / (labels * share).clamp(min=1e-12), 0.0).float()
