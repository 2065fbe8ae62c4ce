"""The steps of `step.py` for many runs at once: heads stacked on a CPU, steps recorded once on a GPU.

**Stacked**: the weights of all runs in one tensor, their scores in one matrix product. A head on cached features is so
small that a step is mostly the cost of calling torch some fifty times. Here the calls are made once for all lanes:
those of one seed see the same batch, which is read once for all of them, and their losses do not depend on each other,
so the gradient of the sum holds the gradient of each. A lane's net and optimizer stay the same: their tensors are views
into the stacks, so that evaluating and saving need no copying back.

A run's numbers do not depend on which others it is stacked with. That is why packs have a least size, why the products
are laid out as they are, and why the optimizer sees each lane's tensors by themselves; a test holds it.

**Graphed**: a step recorded once and replayed, one launch per step instead of some three hundred. A small net leaves a
large GPU idle between launches and half empty during them. A CUDA graph holds the whole step (take the batch, augment,
loss, gradients, update, advance the counters); each lane has its own on a stream of its own, so the runs of a pack fill
each other's gaps. No lane touches what another writes: packed or alone, the numbers are the same.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from shiftbench.methods.method import Batch, Method
from shiftbench.training.lane import Lane, factors, make_optimizer
from shiftbench.training.step import batch_of

Tensors = dict[str, Tensor]

# Heads on a CPU

SEEDS, LEAST, ROWS = 2, 2, 16
"""Least rows of the grid, lanes in each, and lines of the first product. Copies that nobody reads fill up smaller
ones, since smaller products are added up in another order."""


class Stacked:
    """Lanes that agree in all but seed, learning rate, decay and the method's numbers; see `alike`.

    They lie in a grid: a row per seed, whose lanes see the same batches. Copies fill the gaps.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes
        units = next(module.out_features for module in lanes[0].net.modules() if isinstance(module, nn.Linear))
        rows = list(_by_seed(lanes).values())
        width = max(LEAST, -(-ROWS // units), *map(len, rows))
        grid = [(row * width)[:width] for row in (rows * SEEDS)[:max(SEEDS, len(rows))]]
        self.first_lanes = [row[0] for row in grid]
        self.module = _NetAndState(lanes[0])
        self.module.net = _folded(lanes[0].net)
        self.module.state = _folded(lanes[0].state)
        slots = {id(lane): number * width + slot for number, row in enumerate(rows) for slot, lane in enumerate(row)}
        self.slots = [slots[id(lane)] for lane in lanes]
        self.weights = _stacked([[dict(_NetAndState(lane).named_parameters()) for lane in row] for row in grid])
        of_lanes = [dict(_NetAndState(lane).named_parameters()) for lane in lanes]
        for slot, parameters in zip(self.slots, of_lanes, strict=True):
            for name, parameter in parameters.items():
                parameter.data = self.weights[name].flatten(0, 1)[slot]
        self.parameters = {name: [parameters[name] for parameters in of_lanes] for name in self.weights}
        self.buffers = _stacked([[dict(_NetAndState(lane).named_buffers()) for lane in row] for row in grid])
        numbers = [[lane.stage.method.numbers() for lane in row] for row in grid]
        self.numbers = {key: torch.tensor([[of_lane[key] for of_lane in row] for row in numbers])
                        for key in numbers[0][0]}
        self.optimizer = _joined(lanes)

    def without(self, ends: Sequence[Lane]) -> Stacked:
        return Stacked([lane for lane in self.lanes if lane not in ends])

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps of every lane; returns the losses, a row per lane."""
        first, data = self.lanes[0], self.lanes[0].data
        blocks = [lane.block(lane.point.step, n) for lane in self.first_lanes]
        index = torch.from_numpy(np.stack([items for items, _ in blocks], axis=1))
        draws = [torch.from_numpy(u) for _, u in blocks if u is not None]
        drawn = torch.stack(draws, dim=1) if draws else None
        losses = []
        scale = factors(first.run, first.point.step, n, first.steps)
        for t in range(n):
            for group in self.optimizer.param_groups:
                group["lr"] = group["start"] * float(scale[t])
            for stack in self.weights.values():
                stack.requires_grad_()
            weight = None if first.weight is None else first.weight[index[t]]
            batch = data.batch(index[t], first.net, u=None if drawn is None else drawn[t], weight=weight)
            values, self.buffers = self._losses(batch, torch.tensor(first.point.step + t))
            gradients = torch.autograd.grad(values.sum(), list(self.weights.values()), allow_unused=True)
            for (name, stack), gradient in zip(self.weights.items(), gradients, strict=True):
                stack.requires_grad_(False)
                # A fused optimizer walks raw memory, and the gradient of a product may come transposed.
                of_slots = None if gradient is None else gradient.contiguous().flatten(0, 1).unbind()
                for parameter, slot in zip(self.parameters[name], self.slots, strict=True):
                    parameter.grad = None if of_slots is None else of_slots[slot]
            for number, lane in enumerate(self.lanes):
                if lane.run.max_grad_norm:
                    of_lane = [parameters[number] for parameters in self.parameters.values()]
                    torch.nn.utils.clip_grad_norm_(of_lane, lane.run.max_grad_norm)
            self.optimizer.step()
            losses.append(values.detach().flatten()[self.slots])
        self._give_back()
        return torch.stack(losses, dim=1).double().tolist()

    def _losses(self, batch: Batch, step: Tensor) -> Any:
        """Losses and new buffers, seeds × lanes."""
        of_seed = torch.func.vmap(self._loss, in_dims=(0, 0, 0, None, None))
        dims = tree_map(lambda leaf: 0 if isinstance(leaf, Tensor) else None, batch)
        return torch.func.vmap(of_seed, in_dims=(0, 0, 0, dims, None))(
            self.weights, self.buffers, self.numbers, batch, step)

    def _loss(self, weights: Tensors, buffers: Tensors, numbers: Tensors, batch: Batch, step: Tensor) -> Any:
        method = _with_numbers(self.lanes[0].stage.method, numbers)
        return torch.func.functional_call(self.module, weights | buffers, (method, batch, step))

    def _give_back(self) -> None:
        """The lanes' buffers take the values of the stacks; their weights are the stacks already."""
        for slot, lane in zip(self.slots, self.lanes, strict=True):
            for name, buffer in _NetAndState(lane).named_buffers():
                buffer.copy_(self.buffers[name].flatten(0, 1)[slot])


def _by_seed(lanes: Sequence[Lane]) -> dict[int, list[Lane]]:
    rows: dict[int, list[Lane]] = {}
    for lane in lanes:
        rows.setdefault(lane.run.seed, []).append(lane)
    return rows


def _stacked(grid: Sequence[Sequence[Mapping[str, Tensor]]]) -> Tensors:
    """The tensors of every name in one, seeds × lanes × …"""
    return {name: torch.stack([torch.stack([tensors[name].detach() for tensors in row]) for row in grid])
            for name in grid[0][0]}


class _NetAndState(nn.Module):
    """A lane's net and state as one module, so that both can be called with other tensors in place of their own."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.net, self.state = lane.net, lane.state

    def forward(self, method: Method, batch: Batch, step: Tensor) -> tuple[Tensor, Tensors]:
        loss = method.loss(self.net, batch, self.state, step)
        return loss, {name: buffer.detach() for name, buffer in self.named_buffers()}


def _joined(lanes: Sequence[Lane]) -> torch.optim.Optimizer:
    """One optimizer over all lanes, one call per learning rate and decay. It keeps the lanes' own moments: an
    optimizer's step must see each lane's tensors by themselves, or the last bits would depend on their neighbours."""
    groups: dict[tuple[float, ...], dict[str, Any]] = {}
    for lane in lanes:
        for group in lane.optimizer.param_groups:
            key = (lane.lr, group["weight_decay"], lane.run.momentum)
            groups.setdefault(key, {**group, "start": lane.lr, "params": []})["params"].extend(group["params"])
    joined = make_optimizer(lanes[0].run, list(groups.values()))
    for lane in lanes:
        for parameter in lane.parameters:
            joined.state[parameter] = lane.optimizer.state[parameter]
    return joined


def alike(lane: Lane) -> tuple[Any, ...]:
    """What lanes must have in common to be stacked."""
    run, method = lane.run, lane.stage.method
    fixed = {key: value for key, value in vars(method).items() if key not in method.numbers()}
    shapes = tuple((name, parameter.shape) for name, parameter in _NetAndState(lane).named_parameters())
    # Weights of a second stage come from the run's own first one, so they are nobody else's.
    owner = run.id if lane.weight is not None else ""
    return (id(lane.data), run.batch_kind, run.resample, run.batch_size, run.domains_per_batch, lane.steps,
            lane.point.stage, lane.point.step, type(method), tuple(fixed.items()), shapes, tuple(lane.stage.trains),
            run.optimizer, run.momentum > 0, run.schedule, run.warmup, run.drop, run.drop_every,
            None if lane.batches.weights is None else lane.batches.weights.tobytes(), owner)


def _with_numbers(method: Method, numbers: Tensors) -> Method:
    """The method with tensors in place of its numbers."""
    changed = copy.copy(method)
    for key, value in numbers.items():
        object.__setattr__(changed, key, value)
    return changed


Module = TypeVar("Module", bound=nn.Module)


def _folded(net: Module) -> Module:
    """A copy of a module whose linear layers multiply one batch with the weights of all lanes at once."""
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


# Steps recorded on a GPU

BLOCK = 64
"""Steps whose items lie on the device at once: the most that `advance` is asked for."""
WARM_UP = 3
"""Steps done before recording, and undone: libraries choose their algorithms in the first."""


class Graphed:
    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.tracks = [_Track(lane) for lane in lanes]

    def without(self, ends: Sequence[Lane]) -> Graphed:
        self.tracks = [track for track in self.tracks if track.lane not in ends]
        return self

    def advance(self, n: int) -> list[list[float]]:
        """Do n steps of every lane; returns the losses, a row per lane."""
        for track in self.tracks:
            track.load(n)
        for _ in range(n):
            for track in self.tracks:
                with torch.cuda.stream(track.stream):
                    track.graph.replay()
        for track in self.tracks:  # the processor draws the next items while the device works on these
            track.draw(track.lane.point.step + n)
        torch.cuda.synchronize()
        return [track.losses[:n].double().tolist() for track in self.tracks]


class _Track:
    """A lane with its recorded step, and every tensor the recording reads or writes: they must stay where they are."""

    def __init__(self, lane: Lane) -> None:
        self.lane, device = lane, lane.data.device
        self.stream = torch.cuda.Stream(device)
        self.next: tuple[int, Tensor, Tensor | None] | None = None
        index, u = self.draw(lane.point.step)
        self.index = torch.zeros_like(index, device=device)
        self.u = None if u is None else torch.zeros_like(u, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.step = torch.full((), lane.point.step, dtype=torch.int64, device=device)
        self.losses = torch.zeros(BLOCK, device=device)
        rates = [group["lr"] for group in lane.optimizer.param_groups]
        self.lr_tensors = [rate for rate in rates if isinstance(rate, Tensor)]  # empty where the rate never changes
        self.rates = torch.zeros(BLOCK, device=device)
        self.parameters = lane.parameters
        self.graph = self._record()

    def draw(self, first: int) -> tuple[Tensor, Tensor | None]:
        """Items and draws of the steps from `first` on, in host memory that the device can read by itself."""
        if self.next is None or self.next[0] != first:
            index, u = self.lane.block(first, BLOCK)
            self.next = (first, torch.from_numpy(index).pin_memory(),
                         None if u is None else torch.from_numpy(u).pin_memory())
        return self.next[1:]

    def load(self, n: int) -> None:
        """Put the items of the next steps on the device and go to the first of them."""
        assert n <= BLOCK
        index, u = self.draw(self.lane.point.step)
        with torch.cuda.stream(self.stream):
            self.index.copy_(index, non_blocking=True)
            if self.u is not None and u is not None:
                self.u.copy_(u, non_blocking=True)
            if self.lr_tensors:
                rates = torch.from_numpy(self.lane.rates(self.lane.point.step, BLOCK).astype(np.float32))
                self.rates.copy_(rates.pin_memory(), non_blocking=True)
            self.cursor.zero_()

    def _record(self) -> torch.cuda.CUDAGraph:
        self.stream.wait_stream(torch.cuda.current_stream(self.index.device))  # which may not have filled them yet
        self.load(1)
        saved = [tensor.detach().clone() for tensor in self._tensors()]
        fresh = not self.lane.optimizer.state
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._step()
        # Recording runs nothing; the warm-up did. Undo it: old values back, and moments that it made are zero again.
        for tensor, old in zip(self._tensors()[:len(saved)], saved, strict=True):
            tensor.detach().copy_(old)
        if fresh:
            for moment in self._moments():
                moment.zero_()
        self.lane.net.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return graph

    def _tensors(self) -> list[Tensor]:
        """Everything a step changes; the moments last, since a fresh optimizer has none."""
        modules = (self.lane.net, self.lane.state)
        return [*(tensor for module in modules for tensor in (*module.parameters(), *module.buffers())), self.cursor,
                self.step, self.losses, *self._moments()]

    def _moments(self) -> list[Tensor]:
        return [value for state in self.lane.optimizer.state.values() for value in state.values()]

    def _step(self) -> None:
        lane, state = self.lane, self.lane.state
        index = self.index.index_select(0, self.cursor).view(-1)
        u = None if self.u is None else self.u.index_select(0, self.cursor).squeeze(0)
        batch = batch_of(lane, index, u)
        before = dict(state.named_buffers())
        with torch.autocast("cuda", torch.bfloat16, enabled=lane.run.precision == "bf16"):
            loss = lane.stage.method.loss(lane.net, batch, state, self.step)
        for parameter, gradient in zip(self.parameters, gradients_of(loss, self.parameters), strict=True):
            parameter.grad = gradient
        if lane.run.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, lane.run.max_grad_norm)
        for rate in self.lr_tensors:
            rate.copy_(self.rates.index_select(0, self.cursor).view(()))
        lane.optimizer.step()
        _keep_storage(state, before)
        self.losses.index_copy_(0, self.cursor, loss.detach().float().view(1))
        self.cursor += 1
        self.step += 1


def gradients_of(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """The gradient of each parameter, laid out in memory as the parameter is; None where the loss does not need it.

    A fused optimizer walks raw memory and refuses, or misreads, another layout. Convolutions of channels-last images
    hand out channels-last gradients, also of weights that are not: those of a second net in a method's state.
    """
    gradients = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    return [gradient if gradient is None or gradient.stride() == parameter.stride()
            else torch.empty_like(parameter).copy_(gradient)
            for parameter, gradient in zip(parameters, gradients, strict=True)]


def _keep_storage(state: torch.nn.Module, before: dict[str, Tensor]) -> None:
    """Where a method has bound a new tensor to a name of its state, copy its values into the old tensor and keep that.
    """
    for name, buffer in dict(state.named_buffers()).items():
        if buffer is not before[name]:
            before[name].copy_(buffer.detach())
            path, _, leaf = name.rpartition(".")
            setattr(state.get_submodule(path), leaf, before[name])
