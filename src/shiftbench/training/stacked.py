"""Many heads at once: the weights of all runs in one tensor, their scores in one matrix product.

A head on cached features is so small that a step is mostly the cost of calling torch some fifty times. Here the calls
are made once for all lanes: they see the same batch, and their losses depend on nothing of each other, so the gradient
of the sum is each one's own. A lane's net and optimizer stay what they were: their tensors are views into the stacks,
so that evaluating and saving need no copying back.

A run's numbers do not depend on which others it is stacked with. That is why packs have a least size, why the products
are laid out as they are, and why the optimizer sees each lane's tensors by themselves; a test holds it.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shiftbench.methods.base import Batch, Method
from shiftbench.models.base import Net
from shiftbench.training.lane import Lane, make_optimizer

Tensors = dict[str, Tensor]


LEAST, ROWS = 4, 16
"""Lanes, and rows of the first product; fewer are filled up with copies that nobody reads, since smaller products are
added up in another order."""


class Stacked:
    """Lanes that agree in all but learning rate, decay and the method's numbers; see `alike`."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes
        units = next(module.out_features for module in lanes[0].net.modules() if isinstance(module, nn.Linear))
        filled = [*lanes, *[lanes[0]] * (max(LEAST, -(-ROWS // units)) - len(lanes))]
        self.whole = _Whole(lanes[0])
        self.whole.net = _folded(lanes[0].net)
        named = [dict(_Whole(lane).named_parameters()) for lane in filled]
        self.weights = {name: torch.stack([one[name].detach() for one in named]) for name in named[0]}
        for number, one in enumerate(named[:len(lanes)]):
            for name, parameter in one.items():
                parameter.data = self.weights[name][number]
        self.own = [list(column) for column in zip(*(one.values() for one in named[:len(lanes)]), strict=True)]
        buffers = [dict(_Whole(lane).named_buffers()) for lane in filled]
        self.buffers = {name: torch.stack([one[name] for one in buffers]) for name in buffers[0]}
        numbers = [lane.stage.method.numbers() for lane in filled]
        self.numbers = {key: torch.tensor([one[key] for one in numbers]) for key in numbers[0]}
        self.optimizer = _joined(lanes)

    def without(self, ends: Sequence[Lane]) -> "Stacked":
        return Stacked([lane for lane in self.lanes if lane not in ends])

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps of every lane; gives the losses, a row per lane."""
        k, first, data = len(self.lanes), self.lanes[0], self.lanes[0].data
        index, losses = torch.from_numpy(first.block(first.point.step, n)[0]), []
        for t in range(n):
            for stack in self.weights.values():
                stack.requires_grad_()
            batch = data.batch(index[t], first.net, weight=None if first.weight is None else first.weight[index[t]])
            step = torch.tensor(first.point.step + t)
            values, self.buffers = torch.func.vmap(self._loss, in_dims=(0, 0, 0, None, None))(
                self.weights, self.buffers, self.numbers, batch, step)
            gradients = torch.autograd.grad(values[:k].sum(), list(self.weights.values()), allow_unused=True)
            for stack, own, gradient in zip(self.weights.values(), self.own, gradients, strict=True):
                stack.requires_grad_(False)
                # A fused optimizer walks raw memory, and the gradient of a product may come transposed.
                parts = [None] * k if gradient is None else gradient.contiguous().unbind()
                for parameter, part in zip(own, parts, strict=False):
                    parameter.grad = part
            self.optimizer.step()
            losses.append(values[:k].detach())
        self._give_back()
        return torch.stack(losses, dim=1).double().tolist()

    def _loss(self, weights: Tensors, buffers: Tensors, numbers: Tensors, batch: Batch, step: Tensor) -> Any:
        method = _with_numbers(self.lanes[0].stage.method, numbers)
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


def _joined(lanes: Sequence[Lane]) -> torch.optim.Optimizer:
    """One optimizer over all lanes, one call per learning rate and decay. It keeps the lanes' own moments: an
    optimizer's step must see each lane's tensors by themselves, or the last bits would depend on their neighbours."""
    groups: dict[tuple[float, ...], dict[str, Any]] = {}
    for lane in lanes:
        (own,) = lane.parts.optimizer.param_groups
        pace = (lane.run.lr, lane.run.weight_decay, lane.run.momentum)
        groups.setdefault(pace, {**own, "params": []})["params"].extend(own["params"])
    joined = make_optimizer(lanes[0].run, list(groups.values()))
    for lane in lanes:
        for parameter in lane.parts.optimizer.param_groups[0]["params"]:
            joined.state[parameter] = lane.parts.optimizer.state[parameter]
    return joined


def alike(lane: Lane) -> tuple[Any, ...]:
    """What lanes must have in common to be stacked: the batches above all."""
    run, method = lane.run, lane.stage.method
    fixed = {key: value for key, value in vars(method).items() if key not in method.numbers()}
    shapes = tuple((name, parameter.shape) for name, parameter in _Whole(lane).named_parameters())
    # Weights of a second stage come from the run's own first one, so they are nobody else's.
    own = run.id if lane.weight is not None else ""
    return (id(lane.data), run.seed, run.batch_kind, run.batch_size, lane.point.step, type(method),
            tuple(fixed.items()), shapes, run.optimizer, run.momentum > 0, own)


def _with_numbers(method: Method, numbers: Tensors) -> Method:
    """The method with tensors in the place of its numbers."""
    changed = copy.copy(method)
    for key, value in numbers.items():
        object.__setattr__(changed, key, value)
    return changed


def _folded(net: Net) -> Net:
    """A copy of a net whose linear layers multiply one batch with the weights of all lanes at once."""
    copied = copy.deepcopy(net)
    for module in copied.modules():
        if type(module) is nn.Linear:
            module.__class__ = _Layer
    return copied


class _Layer(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = _Product.apply(x, self.weight)
        return product if self.bias is None else product + self.bias


class _Product(torch.autograd.Function):
    """x W^T. Where lanes share x, the rows of all their W stand in one matrix: (lanes · units × d) (d × items)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return grads[0] @ weight, grads[0].mT @ x

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        assert dims[1] == 0
        if dims[0] is None:
            rows = weight.flatten(0, 1) @ x.mT
            return rows.view(*weight.shape[:2], len(x)).mT, 0
        return x.movedim(dims[0], 0) @ weight.mT, 0
