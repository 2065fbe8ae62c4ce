"""Methods that learn from unlabelled items beside labelled ones: AFN, pseudo-labels, FixMatch and Noisy Student.

The defaults are those of WILDS 2.0 (Sagawa et al., 2022). The unlabelled items are those of a split, drawn uniformly,
as many in a batch as labelled ones; their labels are never read. DANN, CORAL and MMD take such items too.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import (
    METHODS,
    OUTPUTS,
    Batch,
    Method,
    Number,
    Stage,
    Task,
    Trained,
    at_most,
    check_share,
    memory,
    per_item,
)
from shiftbench.methods.space import Power, Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net

TARGET = "target_train"
FAMILY = "unlabelled data"


@register(METHODS, "afn")
@dataclass(frozen=True)
class AFN(Method):
    """Adaptive feature norm (Xu et al., 2019): features of target items have smaller norms, so all norms grow.

        min  R(f)  +  lambda ( L(z)  +  L(z') )
        stepwise (SAFN)   L(z)  =  mean_i ( ||z_i|| - (||z_i|| held fixed + r) )^2
        hard (HAFN)       L(z)  =  ( mean_i ||z_i|| - r )^2

    z are the features of the labelled items, z' those of the unlabelled ones. The value of the stepwise L is r^2
    always; its gradient lengthens every feature.

    Our reading, where codes differ. As WILDS 2.0 has it; the paper adds dropout and an entropy loss. Features without
    parameters below them (model `linear`) cannot grow; a run refuses that.
    """

    penalty: float = 0.01  # lambda
    size: float = 1.0  # r: by how much norms grow, or, where `hard`, the norm that they get
    hard: bool = False
    unlabelled: str = TARGET

    family: ClassVar[str] = FAMILY
    targets: ClassVar[tuple[str, ...]] = OUTPUTS
    needs: ClassVar[str] = "features"
    space: ClassVar[Space] = {"penalty": Power(10, -4, 0)}

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        z = net.features(batch.x)
        risk, norms = per_item(net.head(z), batch).mean(), self.growth(z)
        if batch.unlabelled is not None:
            norms = norms + self.growth(net.features(batch.unlabelled.x))
        return risk + self.penalty * norms

    def growth(self, z: Tensor) -> Tensor:
        """L(z); where features belong to places, every place of every item has a norm."""
        norm = z.float().norm(dim=-1)
        if self.hard:
            return (norm.mean() - self.size) ** 2
        return ((norm - (norm.detach() + self.size)) ** 2).mean()


@register(METHODS, "pseudo_label")
@dataclass(frozen=True)
class PseudoLabel(Method):
    """Pseudo-labels (Lee, 2013): the net's own confident predictions are labels of unlabelled items.

        min  R(f)  +  lambda_t * mean_j  1[ max_c p_c(x_j) >= tau ] CE(f(x_j), argmax_c p_c(x_j))
        lambda_t  =  lambda * min(1, t / (T_2 T))

    p is the softmax of f on the unlabelled item x_j, through whose label no gradient goes; t is the step, T the steps
    of the run. With tau above 1 it is ERM.

    Our reading, where codes differ. As WILDS 2.0 has it, whose threshold the paper lacks. The mean is over all
    unlabelled items of the batch, also those below tau. WILDS passes labelled and unlabelled items through the net in
    one batch, ours in two, so that batch norms see them apart; its learning rate falls as (1 + 10 t / T)^(-3/4).
    """

    weight: float = 1.0  # lambda
    threshold: float = 0.7  # tau
    ramp: float = 0.4  # T_2, a share of the run's steps
    unlabelled: str = TARGET

    family: ClassVar[str] = FAMILY
    space: ClassVar[Space] = {"weight": Power(10, -1, 1), "threshold": Uniform(0.7, 0.95)}

    def __post_init__(self) -> None:
        check_share(self, "ramp", positive=True)

    def state(self, task: Task) -> nn.Module:
        return memory(steps=task.steps)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        risk = per_item(net(batch.x), batch).mean()
        if batch.unlabelled is None:
            return risk
        logits = net(batch.unlabelled.x)
        weight = self.weight * at_most(step / (self.ramp * state.steps), 1.0)
        return risk + weight * consistency(logits, logits, self.threshold)


@register(METHODS, "fixmatch")
@dataclass(frozen=True)
class FixMatch(Method):
    """FixMatch (Sohn et al., 2020): what a net is sure of on a weakly augmented image is the label of a strong view.

        min  R(f)  +  lambda * mean_j  1[ max_c p_c(w_j) >= tau ] CE(f(s_j), argmax_c p_c(w_j))

    w_j is an unlabelled image under the run's `augment` (weak: `standard`, which crops and flips), s_j the same crop
    after RandAugment; p is the softmax of f, through which no gradient goes. With tau above 1 it is ERM.

    Our reading, where codes differ. tau and lambda are WILDS 2.0's; the paper has tau = 0.95 and seven unlabelled items
    to a labelled one. WILDS augments labelled items strongly too: that is `augment = "standard+randaugment"`, which
    makes w_j and s_j the same. The strong view is RandAugment with three operations (WILDS has two) and no Cutout.
    """

    weight: float = 1.0  # lambda
    threshold: float = 0.7  # tau
    unlabelled: str = TARGET

    family: ClassVar[str] = FAMILY
    needs: ClassVar[str] = "images"
    strong: ClassVar[str] = "randaugment"
    space: ClassVar[Space] = {"weight": Power(10, -1, 1), "threshold": Uniform(0.7, 0.95)}

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        risk = per_item(net(batch.x), batch).mean()
        if batch.unlabelled is None:
            return risk
        weak, strong = net(batch.unlabelled.x), net(batch.unlabelled.strong)
        return risk + self.weight * consistency(weak, strong, self.threshold)


def consistency(weak: Tensor, strong: Tensor, threshold: Number) -> Tensor:
    """mean_j 1[max_c p_c(weak_j) >= threshold] CE(strong_j, argmax_c weak_j): hard labels from one, gradients to the
    other."""
    sure, label = weak.detach().softmax(dim=-1).max(dim=-1)
    return (F.cross_entropy(strong, label, reduction="none") * (sure >= threshold)).mean()


@register(METHODS, "noisy_student")
@dataclass(frozen=True)
class NoisyStudent(Method):
    """Noisy Student (Xie et al., 2020): a teacher labels the unlabelled items; a student learns from all, with noise.

        teacher   g  =  argmin R(f)
        student   min  R(f)  +  mean_j CE(f(x_j), argmax_c g_c(x_j)),     f with dropout before its last layer

    The teacher is ERM's, with the weights that the run chooses, and labels plain images. The student starts where the
    teacher did; the noise is dropout and the run's `augment` (`randaugment` is the paper's and WILDS').

    Our reading, where codes differ. Hard labels of all unlabelled items and one round, as WILDS 2.0 has it; the paper
    filters and balances the labels, takes soft ones, a larger student and three rounds, and drops layers too.
    """

    dropout: float = 0.5
    first: float = 1.0  # share of the run's steps that the teacher is trained for
    unlabelled: str = TARGET

    family: ClassVar[str] = FAMILY
    space: ClassVar[Space] = {"dropout": Uniform(0.0, 0.5)}

    def __post_init__(self) -> None:
        check_share(self, "first", positive=True)
        if not 0 <= self.dropout < 1:
            raise ShiftBenchError(f"noisy_student: 'dropout' is {self.dropout:g}, but it is a share of the features, "
                                  "from 0 to below 1.")

    def fit(self) -> Generator[Stage, Trained, Trained]:
        teacher = yield Stage(ERM(), share=self.first)
        return (yield Stage(Student(**asdict(self), label=teacher.logits(self.unlabelled).argmax(dim=1))))


@dataclass(frozen=True, eq=False)
class Student(NoisyStudent):
    """The second stage: `label` is the teacher's, one per unlabelled item."""

    label: Tensor = field(kw_only=True)

    draws: ClassVar[int] = 1

    def state(self, task: Task) -> nn.Module:
        return memory(label=self.label)

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        unlabelled = batch.unlabelled
        assert unlabelled is not None
        risk = per_item(self.noisy(net, batch.x, batch.u), batch).mean()
        return risk + F.cross_entropy(self.noisy(net, unlabelled.x, unlabelled.u), state.label[unlabelled.index])

    def noisy(self, net: Net, x: Tensor, u: Tensor | None) -> Tensor:
        assert u is not None
        return net.head(dropped(net.features(x), u[:, 0], self.dropout))


def dropped(z: Tensor, u: Tensor, rate: Number) -> Tensor:
    """Features of which each is 0 with this probability and the others are divided by 1 - rate.

    Which ones is a hash of the item's random number u and the feature's place: one number per item is enough, and the
    same features fall on every device.
    """
    offset = torch.arange(z.shape[-1], device=z.device) * 0x9E3779B1
    mixed = (u * 2.0**24).long()[:, None] * 0x85EBCA6B + offset
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & 0xFFFFFFFF
    chance = (mixed ^ (mixed >> 15)).float() * 2.0**-32
    return torch.where(chance >= rate, z / (1 - rate), 0.0)
