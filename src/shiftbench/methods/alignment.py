"""The common part of methods that make the features of domains alike: CORAL, MMD and DANN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.later import torch
from shiftbench.methods.method import Batch, Environments, Task, memory, per_item

if TYPE_CHECKING:
    from torch import Tensor, nn

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
