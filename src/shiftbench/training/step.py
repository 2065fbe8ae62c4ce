"""One step of training, as textbooks have it:

    batch     = the items of step t, augmented, and attacked where the run says so
    loss      = method.loss(net, batch, state, t)
    net, state = optimizer(net, state, gradient of the loss)

`fast/` does the same for many runs at once, and tests compare it with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.core.arrays import Floats
from shiftbench.core.rng import child
from shiftbench.methods.method import Batch
from shiftbench.training.attack import attacked
from shiftbench.training.run import Run

if TYPE_CHECKING:
    from shiftbench.training.lane import Lane


class Plain:
    """The steps of one run, one after another: for images on a CPU, and for data that a GPU cannot hold.

    One lane only: with several, what a net draws at random (dropout) would depend on the others.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        (self.lane,) = lanes

    def without(self, ends: Sequence[Lane]) -> Plain:
        return self

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps; returns their losses, a row per lane."""
        lane, first, device = self.lane, self.lane.point.step, self.lane.data.device
        block, draws = lane.block(first, n)
        index, u = torch.from_numpy(block).to(device), None if draws is None else torch.from_numpy(draws).to(device)
        rates = lane.rates(first, n).tolist()
        # What a net draws inside is a function of seed and step too, so that a checkpoint need not know it.
        seeds = [int(child(lane.run.seed, "step", str(lane.point.stage), str(t)).integers(2**63))
                 for t in range(first, first + n)]
        losses = [step(lane, first + t, index[t], None if u is None else u[t], rates[t], seeds[t]) for t in range(n)]
        return [torch.stack(losses).double().tolist()]


def step(lane: Lane, t: int, index: Tensor, u: Tensor | None, rate: float, seed: int) -> Tensor:
    """Step t on the training items `index` with the random numbers `u` and this learning rate; returns the loss."""
    data, net, state, optimizer = lane.data, lane.net, lane.parts.state, lane.parts.optimizer
    torch.manual_seed(seed)
    batch = data.batch(index, net, lane.run.augment, u, None if lane.weight is None else lane.weight[index])
    with torch.autocast(data.device.type, torch.bfloat16, enabled=lane.run.precision == "bf16"):
        loss = lane.stage.method.loss(net, attack(lane, batch), state, t)
    optimizer.zero_grad()
    loss.backward()
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    optimizer.step()
    return loss.detach()


def attack(lane: Lane, batch: Batch) -> Batch:
    """The batch with attacked images, where the run says so."""
    run = lane.run
    if not run.attack:
        return batch
    x = attacked(lane.net, batch.x, batch.label, run.attack, run.attack_steps, lane.data.scale(lane.net))
    return batch._replace(x=x)


def make_optimizer(run: Run, parameters: list[nn.Parameter] | list[dict[str, Any]], on_gpu: bool = False,
                   lr: float | None = None) -> torch.optim.Optimizer:
    """Fused: one call for all tensors, which takes most of a step's time on small heads.

    On a GPU Adam counts its steps there, so that a step can be recorded; so is the learning rate, where it changes.
    """
    rate: float | Tensor = run.lr if lr is None else lr
    if on_gpu and run.schedule != "constant":
        rate = torch.tensor(rate, device="cuda")
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, rate, weight_decay=run.weight_decay, fused=True, capturable=on_gpu)


def factors(schedule: str, first: int, n: int, steps: int) -> Floats:
    """The factors of the learning rate in the n steps from `first` on, of `steps` in all.

    >>> factors("thirds", 0, 6, 6).tolist()
    [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    done = np.arange(first, first + n) / steps
    if schedule == "thirds":
        return np.asarray([1.0, 0.1, 0.01])[np.minimum(3 * done, 2).astype(np.int64)]
    if schedule == "cosine":
        return (1 + np.cos(np.pi * np.minimum(done, 1.0))) / 2
    if schedule == "linear":
        return 1 - np.minimum(done, 1.0)
    return np.ones(n)
