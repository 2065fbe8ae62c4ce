"""A step recorded once and replayed: one launch per step instead of some three hundred, and several runs side by side.

A small net leaves a large GPU idle between launches and half empty during them. A CUDA graph holds the whole step (take
the batch, augment, loss, gradients, update, advance the counters); each lane has its own on a stream of its own, so the
runs of a pack fill each other's gaps. No lane touches what another writes: packed or alone, the numbers are the same.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shiftbench.training.lane import Lane
from shiftbench.training.step import batch_of

BLOCK = 64
"""Steps whose items lie on the device at once: the most that `advance` is asked for."""
WARM_UP = 3
"""Steps done before recording, and undone: libraries choose their algorithms in the first."""


class Graphed:
    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.tracks = [_Track(lane) for lane in lanes]

    def without(self, ends: Sequence[Lane]) -> "Graphed":
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
