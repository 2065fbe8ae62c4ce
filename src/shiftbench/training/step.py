"""One step of training, as textbooks have it:

    batch      = the items of step t, augmented, and attacked where the run says so
    loss       = method.loss(net, batch, state, t)
    net, state = optimizer(net, state, gradient of the loss)

`fast.py` does the same for many runs at once, and tests compare it with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftbench.core.arrays import child
from shiftbench.methods.method import Batch
from shiftbench.models.net import Net

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
        losses = []
        for t, rate in enumerate(lane.rates(first, n).tolist()):
            # What a net draws inside is a function of seed and step too, so that a checkpoint need not know it.
            purpose = "step", str(lane.point.stage), str(first + t)
            torch.manual_seed(int(child(lane.run.seed, *purpose).integers(2**63)))
            losses.append(step(lane, batch_of(lane, index[t], None if u is None else u[t]), first + t, rate))
        return [torch.stack(losses).double().tolist()]


def batch_of(lane: Lane, index: Tensor, u: Tensor | None) -> Batch:
    """The training items `index`, augmented with the random numbers `u`, and attacked where the run says so."""
    run, data, net = lane.run, lane.data, lane.net
    weight = None if lane.weight is None else lane.weight.index_select(0, index)
    batch = data.batch(index, net, run.augment, u, weight)
    if not run.attack:
        return batch
    with torch.autocast(data.device.type, torch.bfloat16, enabled=run.precision == "bf16"):
        return batch._replace(x=attacked(net, batch.x, batch.label, run.attack, run.attack_steps, data.scale(net)))


def step(lane: Lane, batch: Batch, t: int, rate: float) -> Tensor:
    """Step t on this batch with this learning rate; returns the loss. The gradient g is shortened to the run's
    `max_grad_norm` c, where it is longer: g min(1, c / (|g| + 1e-6))."""
    run, optimizer = lane.run, lane.optimizer
    with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=run.precision == "bf16"):
        loss = lane.stage.method.loss(lane.net, batch, lane.state, t)
    optimizer.zero_grad()
    loss.backward()
    if run.max_grad_norm:
        torch.nn.utils.clip_grad_norm_(lane.parameters, run.max_grad_norm)
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    optimizer.step()
    return loss.detach()


# Adversarial images: projected gradient ascent on the loss within an l2 ball (Madry et al., 2018)

STEP = 0.8
"""Length of a step as a share of the radius: 0.4 for 0.5 and 0.8 for 1 in BREEDS, Table 14a."""


def attacked(net: Net, x: Tensor, label: Tensor, eps: float | Tensor, steps: int, scale: Tensor) -> Tensor:
    """For each image the worst of x⁰ = x and x^{t+1} = P(x^t + 0.8 eps · g / |g|), g the gradient of the cross-entropy.

    `x` is normalised, and `scale` (2 × 3) the mean and deviation it was normalised by, on the 0..255 scale; `eps` and
    |·| are l2 over all pixels and channels on the [0, 1] scale. P projects onto the ball around x, then clips to legal
    pixels, which moves no further away from x. An image without a gradient stays as it is.

    The defaults of the robustness library, with which BREEDS was trained: no random start, the iterate with the
    largest loss and not the last one, and **the net in evaluation**, batch norms with their running statistics and no
    dropout, so that the search does not change the net. Training then minimises the loss on these images in training
    mode. Nothing here waits for the device or branches on data, so a step with an attack can be recorded. It leaves no
    gradients: none on parameters, and none from the result to x.
    """
    x = x.detach()
    mean, std = (row.view(1, 3, 1, 1) for row in scale)
    unit = 255 / std  # normalised values per unit of the [0, 1] scale
    pixel = (x * std + mean) / 255
    lower, upper = (-pixel).clamp(max=0), (1 - pixel).clamp(min=0)  # x itself counts as legal, whatever rounding did
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        delta = torch.zeros_like(x)
        best, worst = delta, torch.full((len(x),), -torch.inf, device=x.device)
        for t in range(steps + 1):
            losses, slope = _losses(net, x + delta * unit, label, t < steps)
            higher = losses > worst
            best, worst = torch.where(_wide(higher), delta, best), torch.where(higher, losses, worst)
            if slope is not None:
                delta = _inside(delta + STEP * eps * _direction(slope * unit), eps)
                delta = torch.minimum(torch.maximum(delta, lower), upper)
    finally:
        for module, mode in modes:
            module.training = mode
    return x + best * unit


def _losses(net: Net, x: Tensor, label: Tensor, with_slope: bool) -> tuple[Tensor, Tensor | None]:
    """The cross-entropy of each image, and its gradient."""
    with torch.set_grad_enabled(with_slope):
        x = x.requires_grad_(with_slope)
        losses = F.cross_entropy(net(x).float(), label, reduction="none")
        slope = torch.autograd.grad(losses.sum(), x)[0] if with_slope else None
    return losses.detach(), slope


def _direction(slope: Tensor) -> Tensor:
    """The gradient of each image, scaled to length 1, or 0 where it is zero. It is divided by its largest entry first:
    the squares of a confident net's tiny gradients would underflow."""
    slope = slope / _wide(slope.abs().flatten(1).amax(dim=1)).clamp(min=torch.finfo(slope.dtype).tiny)
    return slope / _wide(_length(slope)).clamp(min=1)


def _inside(delta: Tensor, eps: float | Tensor) -> Tensor:
    length = _wide(_length(delta))
    return torch.where(length > eps, delta * (eps / length.clamp(min=torch.finfo(delta.dtype).tiny)), delta)


def _length(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x.flatten(1), dim=1)


def _wide(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
