"""Measure the training conflicts of a benchmark: a net takes plain gradient steps, and after each step its loss on
every evaluation subset is recorded, in one of two ways.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from shiftbench.conflict.heatmap import order
from shiftbench.conflict.matrix import IN, Axis, Conflicts, Measured, Settings, Side, rows_left_out, sides
from shiftbench.conflict.regression import Effects, batches, effects, expanded, shares
from shiftbench.core.arrays import Floats, Ints, child
from shiftbench.core.backend import choose_device, one_thread, repeatable
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.models.net import build
from shiftbench.scoring.intervals import interval
from shiftbench.training.batches import Data
from shiftbench.training.inputs import inputs
from shiftbench.training.lane import make_optimizer
from shiftbench.training.run import Run

LEAST = 4
"""Least number of counted steps per training subset."""

VALUES_AT_ONCE = {"cpu": 8_000_000, "cuda": 400_000_000}
"""Input numbers per forward pass: 650 images of 64 px on a CPU. Features of 100 subsets of 50 items are one pass."""
KERNEL_BYTES = 1_000_000_000
REFERENCE = 1024
"""Most training items on which the statistics of batch norm are measured."""


def conflicts(
    benchmark: Benchmark, collection: Collection, settings: Settings, *, device: str = "auto",
    progress: Advance | None = None,
) -> Conflicts:
    """Measure the training conflicts of a benchmark."""
    run = settings.run(benchmark.digest, 0)
    train, evaluation = sides(benchmark, settings.train_items, settings.eval_items, settings.seed,
                              rows_left_out(benchmark, collection, settings.leave_out))
    counted, m = (settings.steps - settings.skipped) * settings.repeats, len(train.names)
    if counted < LEAST * m:
        raise ShiftBenchError(f"conflicts: {counted} counted steps are too few to tell {m} training subsets apart: it "
                              f"takes {LEAST * m} at least, {10 * LEAST * m} for narrow intervals. Raise steps or "
                              "repeats.")
    # Only the rows that are trained or evaluated on are embedded or decoded.
    used = np.unique(np.concatenate([train.row, evaluation.row]))
    reduced = Benchmark(benchmark.items[used], benchmark.split[used], benchmark.label[used], benchmark.domain[used],
                     benchmark.group[used], benchmark.names, benchmark.card)
    train, evaluation = (side._replace(row=np.searchsorted(used, side.row)) for side in (train, evaluation))
    x = inputs(reduced, collection, run)
    data = Data(reduced, centred(x, reduced, train) if run.features else x, choose_device(device))
    return replace(measure(data, train, evaluation, settings, progress), digest=benchmark.digest)


def measure(
    data: Data, train: Side, evaluation: Side, settings: Settings, progress: Advance | None = None,
) -> Conflicts:
    """Record every repeat, regress, normalise and order."""
    total = settings.steps * settings.repeats

    def advance(repeat: int) -> Callable[[int], None]:
        return lambda done: progress(repeat * settings.steps + done, total) if progress else None

    records = [record(data, train, evaluation, settings, repeat, advance(repeat)) for repeat in range(settings.repeats)]
    estimate = effects([record.share for record in records], [record.drop for record in records], seed=settings.seed)
    # A replicate is measured in the unit of the estimate: its own would pin the largest cell to 1 in each of them.
    unit = float(np.abs(estimate.value).max()) or 1.0
    rows, columns = order(estimate.value / unit, train, evaluation)
    low, high = interval(estimate.replicates / unit, expanded(estimate.units))
    cells = np.ix_(rows, columns)
    return Conflicts(
        benchmark=data.benchmark.name, digest=data.benchmark.digest, settings=settings,
        train=Axis.of(train, rows), evaluation=Axis.of(evaluation, columns),
        effect=Measured((estimate.value / unit)[cells], low[cells], high[cells]), unit=unit,
        contribution=_contribution(estimate, train, evaluation, rows),
        accuracy=np.mean([record.accuracy for record in records], axis=0)[columns],
        resampled=estimate.resampled, units=estimate.units,
    )


def _contribution(estimate: Effects, train: Side, evaluation: Side, rows: Ints) -> Measured:
    """How much each training subset does to the other subsets: the root of its mean squared effect.

    It is a multiple of the median training subset's, computed anew in every replicate.
    """
    same_name = np.asarray(evaluation.names)[None, :] == np.asarray(train.names)[:, None]
    others = ~(same_name & (evaluation.kind == IN))

    def relative(value: Floats) -> Floats:
        size = np.sqrt((value**2 * others).sum(axis=-1) / others.sum(axis=-1).clip(min=1))
        return np.asarray(size / np.maximum(np.median(size, axis=-1, keepdims=True), 1e-300))

    low, high = interval(relative(estimate.replicates), expanded(estimate.units))
    return Measured(relative(estimate.value)[rows], low[rows], high[rows])


# The steps


def stepper(data: Data, train: Side, evaluation: Side, run: Run) -> "ByWeights | ByActivations":
    """The faster way: activations for heads, unless the products of that many items would fill the memory."""
    kernel = 4 * len(train.row) * (len(train.row) + len(evaluation.row))
    return (ByActivations if run.features and kernel < KERNEL_BYTES else ByWeights)(data, train, evaluation, run)


class ByWeights:
    """Any net: a step changes its weights, then the evaluation items go through it, all subsets in one pass.

    Batch norm is trained on batches as usual, but evaluated with the statistics of the training set under the present
    weights, measured again after every step. Running statistics would follow the last batches: after one with many cats
    a cat looks less like a cat, and its loss rises at the very step that should lower it. On a small net that
    outweighed the gradient.
    """

    def __init__(self, data: Data, train: Side, evaluation: Side, run: Run) -> None:
        self.data, self.net = data, _net(data, run)
        if self.net.takes == "images":
            self.net = self.net.to(memory_format=torch.channels_last)
        self.norms = [layer for layer in self.net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
        self.optimizer = make_optimizer(run, list(self.net.parameters()))
        self.train = torch.from_numpy(train.row).to(data.device)
        x = data.take(torch.from_numpy(evaluation.row))
        at_once = max(1, VALUES_AT_ONCE.get(data.device.type, 8_000_000) // max(1, x[0].numel()))
        # In random order, so that each batch of the reference has items of every subset.
        reference = data.take(torch.from_numpy(child(run.seed, "reference").permutation(train.row)[:REFERENCE]))
        self.references, self.batches = reference.split(at_once), x.split(at_once)

    def step(self, number: Any, label: Any) -> None:
        """A step on the training items of these numbers."""
        self.net.train()
        self.optimizer.zero_grad()
        x = self.data.prepare(self.data.take(self.train[number]), self.net)
        F.cross_entropy(self.net(x), label).backward()
        self.optimizer.step()

    def logits(self) -> Any:
        """Logits of the evaluation items."""
        self.net.eval()
        with torch.inference_mode():
            for norm in self.norms:
                norm.reset_running_stats()
                norm.momentum = None  # the plain mean over the batches
                norm.train()
            for batch in self.references if self.norms else ():
                self.net(self.data.prepare(batch, self.net))
            self.net.eval()
            return torch.cat([self.net(self.data.prepare(batch, self.net)) for batch in self.batches]).float()


class ByActivations:
    """For a head whose first layer is a_i = V x_i + c, keep a_i of every item instead of V and c.

        V ← V − lr Σ_b δ_b x_bᵀ,   c ← c − lr Σ_b δ_b     is     a_i ← a_i − lr Σ_b (⟨x_b, x_i⟩ + 1) δ_b

    with δ_b = ∂L/∂a_b for the items b of the batch. The products are computed once, and a step then costs the batch
    times the items instead of the features times the items: 64 instead of 1280. The numbers are the same.
    """

    def __init__(self, data: Data, train: Side, evaluation: Side, run: Run) -> None:
        self.net, self.lr, self.n = _net(data, run), run.lr, len(train.row)
        x = data.take(torch.cat([torch.from_numpy(side.row) for side in (train, evaluation)]))
        name, first = next((name, layer) for name, layer in self.net.named_modules() if isinstance(layer, nn.Linear))
        with torch.no_grad():
            self.activation = first(x)
            self.kernel = x[:self.n] @ x.T + 1
        above, _, leaf = name.rpartition(".")
        setattr(self.net.get_submodule(above), leaf, nn.Identity())
        parameters = list(self.net.parameters())
        self.optimizer = make_optimizer(run, parameters) if parameters else None

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
        """Logits of the evaluation items."""
        with torch.inference_mode():
            return self.net(self.activation[self.n:])


def _net(data: Data, run: Run) -> Any:
    # Width of the features, or height of the images.
    return build(run.model, data.n_outputs, data.n_inputs, run.weights, run.seed).to(data.device)


class Record(NamedTuple):
    """One repeat, step by step."""

    share: Floats  # steps × training subsets: s_t, sums to 1
    drop: Floats  # steps × evaluation subsets: loss before the step minus loss after it
    accuracy: Floats  # of each evaluation subset after the last step


def record(
    data: Data, train: Side, evaluation: Side, settings: Settings, repeat: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Record:
    """Train one repeat and evaluate all subsets after each step."""
    run = settings.run(data.benchmark.digest, repeat)
    items = batches(train.code, settings.makeup, settings.batch_size, settings.steps, run.seed)
    number = torch.from_numpy(items).to(data.device)
    label = torch.from_numpy(data.benchmark.label[train.row[items]]).to(data.device)
    truth = torch.from_numpy(data.benchmark.label[evaluation.row]).to(data.device)
    # Means by a matrix product: unlike a scatter it adds in a fixed order on every device. In float64, since a step
    # may change the seventh digit of a loss.
    member = F.one_hot(torch.from_numpy(evaluation.code)).to(data.device, torch.float64)
    member = member / member.sum(dim=0)
    losses = []
    with repeatable(data.device, run.seed, "conflicts"), nullcontext() if data.are_pixels else one_thread():
        net = stepper(data, train, evaluation, run)
        for step in range(settings.steps + 1):
            logits = net.logits()
            losses.append(F.cross_entropy(logits, truth, reduction="none").double() @ member)
            if step < settings.steps:
                net.step(number[step], label[step])
            if step % 10 == 0 or step == settings.steps:
                progress(step)
        accuracy = (logits.argmax(dim=1) == truth).double() @ member
    loss = torch.stack(losses).cpu().numpy()
    if not np.isfinite(loss).all():
        bad = int(np.flatnonzero(~np.isfinite(loss).all(axis=1))[0])
        raise ShiftBenchError(f"conflicts: a loss is not a finite number after step {bad} with lr = "
                              f"{settings.lr:g}. Lower lr.")
    counted = slice(settings.skipped, None)
    return Record(shares(items, train.code)[counted], (loss[:-1] - loss[1:])[counted], accuracy.cpu().numpy())


def centred(x: Any, benchmark: Benchmark, train: Side) -> Any:
    """Cached features less their mean over the training items, in units that give them variance 1 on average.

    Backbones end in a rectifier, so all their features are positive and share one large direction. Every cat would push
    every dog down along it, whatever they look like, and hide which subsets have something in common. One unit for all
    features keeps their geometry and gives lr a meaning that does not depend on the backbone.
    """
    of_train = x[torch.from_numpy(np.unique(train.row))]
    mean = of_train.mean(dim=0)
    spread = float((of_train - mean).square().mean().sqrt())
    if not spread > 0:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}': the features of all training items are the same.")
    return (x - mean) / spread
