"""Many heads at once: the weights of all runs in one tensor, their losses in one product.

A head on cached features is so small that a step is mostly the cost of calling torch some fifty times. Here the calls
are made once for all lanes: their losses depend on nothing of each other, so the gradient of the sum is each one's own.
A lane's net and optimizer stay what they were: their tensors are views into the stacks, so that evaluating and saving
need no copying back. A run's numbers do not depend on which others it is stacked with; a test holds that.
"""

import copy
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.methods.base import Batch, Method
from shiftbench.training.lane import Lane, make_optimizer

Tensors = dict[str, Tensor]


class Stacked:
    """Lanes that agree in all but seed, learning rate, decay and the method's numbers; see `alike`."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.given, self.lanes = lanes, sorted(lanes, key=_pace)
        self.order = [self.lanes.index(lane) for lane in lanes]
        self.whole = _Whole(self.lanes[0])
        wholes = [_Whole(lane) for lane in self.lanes]
        self.weights = {name: torch.stack([dict(one.named_parameters())[name].detach() for one in wholes])
                        for name, _ in self.whole.named_parameters()}
        for number, one in enumerate(wholes):
            for name, parameter in one.named_parameters():
                parameter.data = self.weights[name][number]
        self.buffers = {name: torch.stack([dict(one.named_buffers())[name] for one in wholes])
                        for name, _ in self.whole.named_buffers()}
        numbers = [lane.stage.method.numbers() for lane in self.lanes]
        device = self.lanes[0].data.device
        self.numbers = {key: torch.tensor([one[key] for one in numbers], device=device) for key in numbers[0]}
        self.slices = [_Slice(self.weights, self.lanes, list(part)) for _, part in groupby(
            range(len(self.lanes)), key=lambda number: _pace(self.lanes[number]))]

    def without(self, ends: Sequence[Lane]) -> "Stacked":
        return Stacked([lane for lane in self.given if lane not in ends])

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps of every lane; gives the losses, a row per lane."""
        lanes, data = self.lanes, self.lanes[0].data
        index = torch.from_numpy(np.stack(_blocks(lanes, n), axis=1)).to(data.device)  # steps × lanes × items
        step = torch.tensor([lane.point.step for lane in lanes], device=data.device)
        weight = None if lanes[0].weight is None else torch.stack([lane.weight for lane in lanes])
        for leaf in self.weights.values():
            leaf.requires_grad_()
        losses = []
        try:
            for t in range(n):
                own = None if weight is None else weight.gather(1, index[t])
                batch = data.batch(index[t], lanes[0].net, weight=own)
                values, self.buffers = torch.func.vmap(self._loss, in_dims=(0, 0, 0, _dims(batch), 0))(
                    self.weights, self.buffers, self.numbers, batch, step + t)
                gradients = torch.autograd.grad(values.sum(), list(self.weights.values()), allow_unused=True)
                for part in self.slices:
                    part.step(dict(zip(self.weights, gradients, strict=True)))
                losses.append(values.detach())
        finally:
            for leaf in self.weights.values():
                leaf.requires_grad_(False)
        self._give_back()
        rows = torch.stack(losses, dim=1).double().tolist()
        return [rows[place] for place in self.order]

    def _loss(self, weights: Tensors, buffers: Tensors, numbers: Tensors, batch: Batch, step: Tensor) -> Any:
        method = _with_numbers(self.lanes[0].stage.method, numbers)
        lane = self.lanes[0]
        with torch.autocast(lane.data.device.type, torch.bfloat16, enabled=lane.run.precision == "bf16"):
            return torch.func.functional_call(self.whole, weights | buffers, (method, batch, step))

    def _give_back(self) -> None:
        """The lanes' buffers take the values of the stacks; their weights are the stacks already."""
        for number, lane in enumerate(self.lanes):
            for name, buffer in _Whole(lane).named_buffers():
                buffer.copy_(self.buffers[name][number].detach())


class _Whole(nn.Module):
    """A lane's net and state as one module, so that both can be called with other tensors in their places."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.net, self.state = lane.net, lane.parts.state

    def forward(self, method: Method, batch: Batch, step: Tensor) -> tuple[Tensor, Tensors]:
        loss = method.loss(self.net, batch, self.state, step)
        return loss, {name: buffer.detach() for name, buffer in self.named_buffers()}


class _Slice:
    """Neighbouring lanes of one pace share an optimizer over their part of each stack."""

    def __init__(self, weights: Tensors, lanes: Sequence[Lane], places: list[int]) -> None:
        self.first, self.last = places[0], places[-1] + 1
        self.names = list(weights)
        self.parameters = [nn.Parameter(stack[self.first:self.last]) for stack in weights.values()]
        self.optimizer = make_optimizer(lanes[self.first].run, self.parameters)
        owners = [lane.parts.optimizer for lane in lanes[self.first:self.last]]
        for number, parameter in enumerate(self.parameters):
            own = [[one for group in owner.param_groups for one in group["params"]][number] for owner in owners]
            self.optimizer.state[parameter] = state = _joined(self.optimizer, owners, own, parameter)
            for place, (owner, one) in enumerate(zip(owners, own, strict=True)):
                owner.state[one] = {key: value if key == "step" else value[place] for key, value in state.items()}

    def step(self, gradients: dict[str, Tensor | None]) -> None:
        for name, parameter in zip(self.names, self.parameters, strict=True):
            gradient = gradients[name]
            # A fused optimizer walks raw memory, and the gradient of a product comes transposed.
            parameter.grad = None if gradient is None else gradient[self.first:self.last].contiguous()
        self.optimizer.step()


def _joined(optimizer: torch.optim.Optimizer, owners: Sequence[torch.optim.Optimizer], own: Sequence[Tensor],
            parameter: Tensor) -> Tensors:
    """The lanes' moments in one tensor: zeros before the first step, which is how torch starts them too."""
    if isinstance(optimizer, torch.optim.SGD):
        keys = ["momentum_buffer"] if optimizer.param_groups[0]["momentum"] else []
    else:
        keys = ["exp_avg", "exp_avg_sq"]
    found = [owner.state.get(one, {}) for owner, one in zip(owners, own, strict=True)]
    joined = {key: torch.stack([state[key] if key in state else torch.zeros_like(one)
                                for state, one in zip(found, own, strict=True)]) for key in keys}
    if not isinstance(optimizer, torch.optim.SGD):
        joined["step"] = found[0]["step"].clone() if "step" in found[0] else torch.tensor(0.0, device=parameter.device)
    return joined


def alike(lane: Lane) -> tuple[Any, ...]:
    """What lanes must have in common to be stacked."""
    run, method = lane.run, lane.stage.method
    fixed = {key: value for key, value in vars(method).items() if key not in method.numbers()}
    shapes = tuple((name, parameter.shape) for name, parameter in _Whole(lane).named_parameters())
    return (id(lane.data), type(method), tuple(fixed.items()), shapes, len(lane.batches), run.optimizer,
            run.momentum > 0, run.precision, lane.weight is None)


def _pace(lane: Lane) -> tuple[float, ...]:
    """What one call of an optimizer has one value of."""
    return lane.run.lr, lane.run.weight_decay, lane.run.momentum, lane.point.step


def _blocks(lanes: Sequence[Lane], n: int) -> list[np.ndarray]:
    """The items of the next n steps of each lane; lanes that draw the same ones share the drawing."""
    known: dict[tuple[object, ...], np.ndarray] = {}
    keys = [(lane.run.seed, lane.run.batch_kind, lane.run.batch_size, lane.point.step) for lane in lanes]
    for key, lane in zip(keys, lanes, strict=True):
        if key not in known:
            known[key] = lane.batches.block(lane.point.step, n)
    return [known[key] for key in keys]


def _dims(batch: Batch) -> Batch:
    return Batch(*(None if part is None else 0 for part in batch))


def _with_numbers(method: Method, numbers: Tensors) -> Method:
    """The method with tensors in the place of its numbers."""
    changed = copy.copy(method)
    for key, value in numbers.items():
        object.__setattr__(changed, key, value)
    return changed
