"""A net that takes plain gradient steps and is asked after each what it makes of the evaluation items: two ways."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from shiftbench.conflict.sides import Side
from shiftbench.models.base import build
from shiftbench.rng import child
from shiftbench.training.data import Data
from shiftbench.training.lane import make_optimizer
from shiftbench.training.run import Run

VALUES_AT_ONCE = {"cpu": 8_000_000, "cuda": 400_000_000}
"""Input numbers per forward pass: 650 images of 64 px on a CPU. Features of 100 subsets of 50 items are one pass."""
KERNEL_BYTES = 1_000_000_000
REFERENCE = 1024
"""Most training items on which the statistics of batch norm are measured."""


def stepper(data: Data, train: Side, evaluation: Side, run: Run) -> "ByWeights | ByActivations":
    """The quicker way: activations for heads, unless there are so many items that their products fill the memory."""
    kernel = 4 * len(train.row) * (len(train.row) + len(evaluation.row))
    return (ByActivations if run.features and kernel < KERNEL_BYTES else ByWeights)(data, train, evaluation, run)


class ByWeights:
    """Any net: a step changes its weights, then the evaluation items go through it, all subsets in one pass.

    Batch norm is trained on batches as ever, but evaluated with the statistics of the training set under the present
    weights, measured anew after every step. Running statistics would follow the last batches: after one with many cats
    a cat looks like less of a cat, and its loss goes up at the very step that should lower it. On a small net that
    outweighed the gradient.
    """

    def __init__(self, data: Data, train: Side, evaluation: Side, run: Run) -> None:
        self.data, self.net = data, _net(data, run)
        if self.net.takes == "images":
            self.net = self.net.to(memory_format=torch.channels_last)
        self.norms = [part for part in self.net.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        self.optimizer = make_optimizer(run, list(self.net.parameters()))
        self.train = torch.from_numpy(train.row).to(data.device)
        x = data.take(torch.from_numpy(evaluation.row))
        at_once = max(1, VALUES_AT_ONCE.get(data.device.type, 8_000_000) // max(1, x[0].numel()))
        # In random order, so that each piece of the reference has something of every subset.
        reference = data.take(torch.from_numpy(child(run.seed, "reference").permutation(train.row)[:REFERENCE]))
        self.references, self.pieces = reference.split(at_once), x.split(at_once)

    def step(self, number: Any, label: Any) -> None:
        """A step on the training items of these numbers."""
        self.net.train()
        self.optimizer.zero_grad()
        x = self.data.prepare(self.data.take(self.train[number]), self.net)
        F.cross_entropy(self.net(x), label).backward()
        self.optimizer.step()

    def logits(self) -> Any:
        """Of the evaluation items."""
        self.net.eval()
        with torch.inference_mode():
            for norm in self.norms:
                norm.reset_running_stats()
                norm.momentum = None  # the plain mean over the pieces
                norm.train()
            for piece in self.references if self.norms else ():
                self.net(self.data.prepare(piece, self.net))
            self.net.eval()
            return torch.cat([self.net(self.data.prepare(piece, self.net)) for piece in self.pieces]).float()


class ByActivations:
    """A head whose first layer is a_i = V x_i + c: keep a_i of every item in place of V and c.

        V ← V − lr Σ_b δ_b x_bᵀ,   c ← c − lr Σ_b δ_b     is     a_i ← a_i − lr Σ_b (⟨x_b, x_i⟩ + 1) δ_b

    with δ_b = ∂L/∂a_b for the items b of the batch. The products are computed once, and a step then costs the batch
    times the items instead of the features times the items: 64 instead of 1280. The numbers are the same.
    """

    def __init__(self, data: Data, train: Side, evaluation: Side, run: Run) -> None:
        self.net, self.lr, self.n = _net(data, run), run.lr, len(train.row)
        x = data.take(torch.cat([torch.from_numpy(side.row) for side in (train, evaluation)]))
        name, first = next((name, part) for name, part in self.net.named_modules() if isinstance(part, nn.Linear))
        with torch.no_grad():
            self.activation = first(x)
            self.kernel = x[:self.n] @ x.T + 1
        above, _, own = name.rpartition(".")
        setattr(self.net.get_submodule(above), own, nn.Identity())
        rest = list(self.net.parameters())
        self.optimizer = make_optimizer(run, rest) if rest else None

    def step(self, number: Any, label: Any) -> None:
        """A step on the training items of these numbers."""
        if self.optimizer:
            self.optimizer.zero_grad()
        activation = self.activation[number].requires_grad_()
        F.cross_entropy(self.net(activation), label).backward()
        with torch.no_grad():
            self.activation.addmm_(self.kernel[number].T, activation.grad, alpha=-self.lr)
        if self.optimizer:
            self.optimizer.step()

    def logits(self) -> Any:
        """Of the evaluation items."""
        with torch.inference_mode():
            return self.net(self.activation[self.n:])


def _net(data: Data, run: Run) -> Any:
    # Width of the features, or height of the images.
    return build(run.model, data.n_outputs, data.n_inputs, run.weights, run.seed).to(data.device)
