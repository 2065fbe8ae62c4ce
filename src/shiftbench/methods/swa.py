"""Stochastic weight averaging: the mean of the weights that late training passes through."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import (
    METHODS,
    Batch,
    Number,
    Stage,
    Task,
    Trained,
    after,
    check_share,
    first_step,
    memory,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "swa")
@dataclass(frozen=True)
class SWA(ERM):
    """Stochastic weight averaging (Izmailov et al., 2018).

        w = mean { w_t : t = T, T - k, T - 2k, …, t >= start * T }

    w_t are ERM's weights after t of the T steps. The batch norms of the averaged net are then measured on training
    items again.

    Our reading, where codes differ. The paper averages once per epoch, beginning at three quarters of training, under a
    high constant or cyclic learning rate; a run's learning rate is constant, and k counts steps. The row ends with the
    last weights, so they always belong to it, and a k beyond the row leaves them alone. There is nothing to choose
    between evaluations: the mean is the result, whatever the run's `select_on`, and no early stop cuts it short.
    """

    start: float = 0.75  # share of the run's steps before the first weights that count
    every: int = 10  # k

    family: ClassVar[str] = "weight averaging"

    def __post_init__(self) -> None:
        check_share(self, "start")
        if self.every < 1:
            raise ShiftBenchError(f"swa: 'every' is {self.every}, but weights can be taken every 1, 2, … steps.")

    def idle(self, task: Task) -> dict[str, str]:
        if task.steps - self.every >= first_step(self.start, task.steps):
            return {}
        return {"every": f"from start={self.start:g} on, only the last of {task.steps:,} steps is averaged"}

    def state(self, task: Task) -> nn.Module:
        parameters = task.twin().named_parameters()
        return memory(n=torch.zeros(()), steps=task.steps,
                      **{slashed(name): torch.zeros_like(parameter.detach()) for name, parameter in parameters})

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        counts = after(step, first_step(self.start, state.steps), 1.0, 0.0) * ((state.steps - step) % self.every == 0)
        take(net, state, counts)
        return super().loss(net, batch, state, step)

    def fit(self) -> Generator[Stage, Trained, Trained]:
        learned = yield Stage(self, select_on="last")
        names = [name for name, _ in learned.net.named_parameters()]
        take(learned.net, learned.state, 1.0)  # no loss has seen the weights of the last step
        learned.take({name: getattr(learned.state, slashed(name)) for name in names})
        return learned


def take(net: nn.Module, state: Any, counts: Number) -> None:
    """Add the net's weights to the running mean where `counts` is 1; leave it where that is 0."""
    state.n = state.n + counts
    share = counts / torch.clamp(state.n, min=1)
    for name, parameter in net.named_parameters():
        mean = getattr(state, slashed(name))
        setattr(state, slashed(name), mean + share * (parameter.detach() - mean))


def slashed(name: str) -> str:
    """A buffer's name may hold no dot."""
    return name.replace(".", "/")
