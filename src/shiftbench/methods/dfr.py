"""A last layer that is trained again, on other items than the features below it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS, Batch, Method, Stage, Task, Trained, check_finite, memory, per_item
from shiftbench.methods.reweight import balance
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "dfr")
@dataclass(frozen=True)
class DFR(Method):
    """Deep feature reweighting (Kirichenko et al., 2023).

        1. min over all weights    mean_i l(f(x_i), y_i),  i of train
        2. min over W, b           1/G sum_g mean_{i of g} l(W z_i + b, y_i)  +  lambda sum_kj |W_kj| s_j,  i of id_val

    z are the features, G is the number of groups that the held-out split `id_val` has, s_j is the standard deviation of
    feature j. So lambda is that of an L1 penalty on weights of standardised features, as the paper has them; sklearn's
    C is 1 / (lambda n).

    Our reading, where codes differ. The paper throws items away until the groups are of one size, fits a logistic
    regression to the rest, and takes the mean of ten of them; here every item is kept and weighs n / (G n_g), which is
    the mean over such draws. W and b start from those of the first stage and are trained by the run's optimizer for the
    share `second` of its steps, where the paper's solver starts from nothing and goes to the minimum; so small weights
    come near 0 but not to it. s_j is measured in each batch. The last W and b are kept: there is nothing left to choose
    by. Scores on `id_val` are those of items it has learnt from, and say little about runs of it. Leave `batches` at
    plain: drawn by group, small groups would be weighed up twice.
    """

    l1: float = 0.01  # lambda
    second: float = 1.0  # share of the run's steps that the last layer is trained for

    family: ClassVar[str] = "reweighting"
    space: ClassVar[Space] = {"l1": Power(10, -4, -1)}

    def __post_init__(self) -> None:
        check_finite(self, "l1")
        check_finite(self, "second", positive=True)

    def fit(self) -> Generator[Stage, Trained, Trained]:
        first = yield Stage(ERM())
        return (yield Stage(_LastLayer(self.l1), share=self.second, start=first, trains=("head.",), split="id_val",
                            select_on="last"))


@dataclass(frozen=True)
class _LastLayer(Method):
    """The second stage: its training items are those of `id_val`, and so are the counts of its groups."""

    l1: float

    def state(self, task: Task) -> nn.Module:
        return memory(balance=balance(task.group_counts, 1.0))

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        z = net.features(batch.x)
        risk = (state.balance[batch.group] * per_item(net.head(z), batch)).mean()
        spread = z.detach().float().var(dim=0, correction=0).sqrt()
        return risk + self.l1 * (net.head.weight.abs() @ spread).sum()


@register(METHODS, "last_layer")
@dataclass(frozen=True)
class LastLayer(Method):
    """min over W, b   mean_i l(W z_i + b, y_i),   z_i = features(x_i) as they are.

    It begins with `weights` of the run and learns from the items of `split`: with those of a run on the source and
    `target_train` it is the target-RT of BREEDS (Santurkar et al., 2021), which `shiftbench retrain` does for you.
    """

    split: str = "target_train"

    family: ClassVar[str] = "transfer"

    def fit(self) -> Generator[Stage, Trained, Trained]:
        return (yield Stage(self, trains=("head",), split=self.split))
