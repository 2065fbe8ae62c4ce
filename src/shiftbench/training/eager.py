"""Step after step, as written: for images on a CPU, where a step is long and nothing is gained by doing several."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shiftbench.core.rng import child
from shiftbench.methods.method import Batch
from shiftbench.training.lane import Lane
from shiftbench.training.schedule import set_rate


class Eager:
    """One lane: with several, what one draws at random would depend on the others."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        (self.lane,) = lanes

    def without(self, ends: Sequence[Lane]) -> "Eager":
        return self

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps; gives the losses, a row per lane."""
        lane, data = self.lane, self.lane.data
        first = lane.point.step
        index, u = (None if part is None else torch.from_numpy(part).to(data.device) for part in lane.block(first, n))
        assert index is not None
        losses = []
        rates = lane.rates(first, n)
        for t in range(n):
            set_rate(lane.parts.optimizer, float(rates[t]))
            weight = None if lane.weight is None else lane.weight[index[t]]
            # What a net draws inside (dropout) is a function of seed and step too, so a checkpoint need not know it.
            torch.manual_seed(int(child(lane.run.seed, "step", str(lane.point.stage), str(first + t)).integers(2**63)))
            batch = data.batch(index[t], lane.net, lane.run.augment, None if u is None else u[t], weight)
            losses.append(self._step(batch, first + t))
        return [torch.stack(losses).double().tolist()]

    def _step(self, batch: Batch, step: int) -> Tensor:
        lane, parts = self.lane, self.lane.parts
        for group in parts.optimizer.param_groups:  # what zero_grad does, without its bookkeeping
            for parameter in group["params"]:
                parameter.grad = None
        with torch.autocast(lane.data.device.type, torch.bfloat16, enabled=lane.run.precision == "bf16"):
            loss = lane.stage.method.loss(lane.net, lane.hardened(batch), parts.state, step)
        loss.backward()
        parts.optimizer.step()
        return loss.detach()
