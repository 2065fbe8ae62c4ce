"""Methods that make the features of domains alike: by a distance with a formula (CORAL, MMD), or one that a net learns
to see (DANN, conditional DANN)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import (
    METHODS,
    ONE_DOMAIN,
    OUTPUTS,
    Batch,
    Environments,
    Method,
    Number,
    Task,
    memory,
    one_hot,
    per_item,
)
from shiftbench.methods.space import Choice, Power, Space

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@dataclass(frozen=True)
class Alignment(Environments):
    """A method that makes the features of environments alike.

        min  R(f)  +  penalty * apart(z, e)

    z are the features of the batch's items, e their environments; `apart` measures the distance between these.
    `unlabelled` names a split whose items take part by their domains, without their labels.
    """

    unlabelled: str = ""
    penalty: float = 1.0

    family: ClassVar[str] = "domain generalization"
    batches: ClassVar[str] = "domain"
    needs: ClassVar[str] = "features"
    unsaid: ClassVar[tuple[str, ...]] = (*Environments.unsaid, "unlabelled")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unlabelled and self.by == "group":
            raise ShiftBenchError(f"{self.name}: by=group needs the labels that unlabelled={self.unlabelled} hides. "
                                  "Leave one of them out.")

    def count(self, task: Task) -> int:
        return task.n_all_domains if self.unlabelled else super().count(task)

    def idle(self, task: Task) -> dict[str, str]:
        alone = self.alone(task)
        return {"penalty": alone} if alone else {}

    def state(self, task: Task) -> nn.Module:
        return memory(n=self.count(task))

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z, every, codes = self.features(net, batch)
        risk = self.mean(per_item(net.head(z), batch), batch, state.n)
        return risk + self.penalty * self.apart(every, codes, state.n)

    def apart(self, z: Tensor, codes: Tensor, n: int) -> Tensor:
        """How far apart the features of the n environments are."""
        raise NotImplementedError

    def features(self, net: Net, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The features of the labelled items, then those of all items with their codes."""
        z, codes, unlabelled = net.features(batch.x), self.codes(batch), batch.unlabelled
        if unlabelled is None:
            return z, z, codes
        return z, torch.cat([z, net.features(unlabelled.x)]), torch.cat([codes, unlabelled.domain])


def squared_distances(inner: Tensor) -> Tensor:
    """|| a - b ||^2 = <a, a> + <b, b> - 2 <a, b> for every pair of a table of inner products."""
    norms = inner.diagonal()
    return norms[:, None] + norms[None, :] - 2 * inner


def mean_over_pairs(apart: Tensor, usable: Tensor) -> Tensor:
    """The mean of a table over the pairs a < b of usable environments; 0 where there is no pair."""
    pairs = (usable[:, None] * usable[None, :]).triu(diagonal=1)
    return (apart * pairs).sum() / pairs.sum().clamp(min=1)


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
            return coral_penalty(z.float(), codes, n)


def coral_penalty(z: Tensor, domain: Tensor, n_domains: int) -> Tensor:
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
        return mmd_penalty(z, codes, n)


def mmd_penalty(z: Tensor, domain: Tensor, n_domains: int) -> Tensor:
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
