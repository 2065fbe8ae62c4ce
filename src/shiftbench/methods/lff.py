"""Learning from failure: what is hard for a net that falls for the shortcut counts more for its twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method, Number, Task, weighted
from shiftbench.methods.space import Space, Uniform

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "lff")
@dataclass(frozen=True)
class LfF(Method):
    """Learning from failure (Nam et al., 2020).

        min over b   mean_i (1 - p_b(y_i | x_i)^q) / q
        min over f   mean_i W_i CE(f(x_i), y_i),     W_i = CE(b(x_i), y_i) / (CE(b(x_i), y_i) + CE(f(x_i), y_i))

    b is a twin of f with other first weights. Its loss, the generalised cross-entropy, has the gradient of CE times
    p_b^q: b listens to what it knows already and so grows more biased, and W is large for what goes against that. W is
    a number, not a way for gradients: neither net moves the other's loss. It needs to know neither domains nor groups.

    Our reading, where codes differ. W comes from the losses of this step, as in the paper's algorithm; the authors'
    code takes a moving average of each training item's loss, divided by the largest of its class. The gradient of b's
    loss is that of the formula; in their code it is also multiplied by q. Both nets step under the run's optimizer,
    whose steps are each parameter's own. f is what predicts, and what the weights of the run are chosen for.
    """

    q: float = 0.7

    family: ClassVar[str] = "adaptive"
    space: ClassVar[Space] = {"q": Uniform(0.05, 0.95)}

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise ShiftBenchError(f"lff: 'q' is {self.q}, but must be above 0, which is near cross-entropy, and at "
                                  "most 1, which is 1 - p.")

    def state(self, task: Task) -> nn.Module:
        state = nn.Module()
        state.twin = task.twin()
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        biased, debiased = (F.cross_entropy(f(batch.x), batch.label, reduction="none") for f in (state.twin, net))
        losses = relative_difficulty(biased, debiased) * debiased + generalised(biased, self.q)
        return weighted(losses, batch).mean()


def relative_difficulty(biased: Tensor, debiased: Tensor) -> Tensor:
    """W of two losses: 1/2 where they are equal. Where both are 0 there is nothing to weigh, and it is 0."""
    biased, debiased = biased.detach(), debiased.detach()
    return biased / (biased + debiased).clamp(min=torch.finfo(debiased.dtype).tiny)


def generalised(losses: Tensor, q: Number) -> Tensor:
    """(1 - p^q) / q from CE = -log p, whose gradient stays finite where p is 0. Not by expm1, whose gradient is less
    exact there."""
    return (1 - torch.exp(-q * losses)) / q
