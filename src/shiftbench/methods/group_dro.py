"""Group distributionally robust optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, OUTPUTS, Batch, Method, Task, means_by, memory, one_hot, risks
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor, nn

    from shiftbench.models.net import Net


@register(METHODS, "group_dro")
@dataclass(frozen=True)
class GroupDRO(Method):
    """Group distributionally robust optimisation (Sagawa et al., 2020, Algorithm 1).

        q_g   <-  q_g exp(eta R_g(theta)) / sum_h q_h exp(eta R_h(theta))
        theta <-  theta - alpha grad sum_g q_g R_g(theta)

    R_g is the mean loss over the batch's items of group g. The step uses the updated q, as all codes do. With an
    `adjustment` K, q grows by R_g + K / sqrt(n_g), n_g being the training items of the group (§3.3 there): small
    groups, whose risk in training says less about the test, count for more. With `hard`, q is on the largest of these
    alone, which is how Madras & Zemel (2021) write it.

    Our reading, where codes differ. A group is the benchmark's, mostly a cell of label × domain as in the paper;
    `by = "domain"` makes it a domain, which is DomainBed's, `by = "label"` a class. q starts uniform over the groups
    that training has (DomainBed starts at ones). A group absent from the batch has R_g = 0 and so loses weight to the
    others, as in the authors' code; batches hold as many items of each group unless the run asks for others, so it
    happens only then.
    The paper's gains need strong regularisation: see `weight_decay` of the run.
    """

    step_size: float = 0.01  # eta
    by: str = "group"
    adjustment: float = 0.0  # K
    hard: bool = False

    family: ClassVar[str] = "robust optimisation"
    batches: ClassVar[str] = "group"
    targets: ClassVar[tuple[str, ...]] = (*OUTPUTS, "boxes")
    space: ClassVar[Space] = {"step_size": Power(10, -3, -1)}

    def __post_init__(self) -> None:
        if self.by not in ("group", "domain", "label"):
            raise unknown("kind of group", self.by, ("group", "domain", "label"), "group_dro: by")

    def idle(self, task: Task) -> dict[str, str]:
        if len(task.counts(self.by)) < 2:
            return dict.fromkeys(("step_size", "adjustment", "hard"), f"all training items are of one {self.by}")
        chosen = self.hard and self.step_size != GroupDRO.step_size
        return {"step_size": "hard=true puts all weight on the worst at once"} if chosen else {}

    def state(self, task: Task) -> nn.Module:
        counts = task.counts(self.by)
        return memory(q=torch.full((len(counts),), 1 / len(counts)), rarity=counts.clamp(min=1).float().rsqrt())

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        codes = getattr(batch, self.by)
        if self.by == "label" and (codes.is_floating_point() or codes.dim() > 1):
            raise ShiftBenchError("group_dro: by=label is for classes; this target has none. Use by=domain or group.")
        risk, count = means_by(risks(net, batch), codes, len(state.q))
        raised = risk.detach() + self.adjustment * state.rarity
        if self.hard:
            state.q = one_hot(raised.where(count > 0, -torch.inf).argmax(dim=0, keepdim=True), len(state.q))[0].float()
        else:
            # softmax(log q + eta R) is the update above, and does not overflow where a risk is large.
            state.q = torch.softmax(state.q.log() + self.step_size * raised, dim=0)
        return state.q @ risk
