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
    data, net, state, optimizer = lane.data, lane.net, lane.state, lane.optimizer
    torch.manual_seed(seed)
    batch = data.batch(index, net, lane.run.augment, u, None if lane.weight is None else lane.weight[index])
    with torch.autocast(data.device.type, torch.bfloat16, enabled=lane.run.precision == "bf16"):
        loss = lane.stage.method.loss(net, attack(lane, batch), state, t)
    optimizer.zero_grad()
    loss.backward()
    shorten(lane.run, parameters_of(optimizer))
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    optimizer.step()
    return loss.detach()


def shorten(run: Run, parameters: Sequence[Tensor]) -> None:
    """Scale the gradient of all parameters together to the run's `max_grad_norm`, where it is longer.

        g  <-  g min(1, c / (|g| + 1e-6))
    """
    if run.max_grad_norm:
        torch.nn.utils.clip_grad_norm_(parameters, run.max_grad_norm)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


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

    On a GPU Adam counts its steps there, so that a step can be recorded; a learning rate that changes lies there too.
    """
    rate: float | Tensor = run.lr if lr is None else lr
    if on_gpu and run.varies:
        rate = torch.tensor(rate, device="cuda")
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, rate, weight_decay=run.weight_decay, fused=True, capturable=on_gpu)


def decaying(run: Run, modules: Sequence[nn.Module]) -> list[nn.Parameter] | list[dict[str, Any]]:
    """The parameters to learn; without `decay_all` in two groups: biases and layer norms do not decay."""
    if run.decay_all:
        return [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (run.weight_decay, 0.0)]
    for layer in (layer for module in modules for layer in module.modules()):
        for name, parameter in layer.named_parameters(recurse=False):
            if parameter.requires_grad:
                groups["bias" in name or isinstance(layer, nn.LayerNorm)]["params"].append(parameter)
    return [group for group in groups if group["params"]]


def factors(run: Run, first: int, n: int, steps: int) -> Floats:
    """The factors of the learning rate in the n steps from `first` on, of `steps` in all; see SCHEDULES.

    >>> factors(Run("", features="columns", schedule="thirds"), 0, 6, 6).tolist()
    [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    t = np.arange(first, first + n)
    ramp = np.minimum(t / max(1, run.warmup), 1.0) if run.warmup else np.ones(n)
    progress = np.clip((t - run.warmup) / max(1, steps - run.warmup), 0.0, 1.0)
    if run.schedule == "thirds":
        return ramp * np.asarray([1.0, 0.1, 0.01])[np.minimum(3 * (t / steps), 2).astype(np.int64)]
    if run.schedule == "cosine":
        return ramp * (1 + np.cos(np.pi * progress)) / 2
    if run.schedule == "linear":
        return ramp * (1 - progress)
    if run.schedule == "exponential":
        return ramp * run.drop ** (t // run.drop_every)
    return ramp
