"""Train and evaluate after every step: what each batch was made of, and what it did to every subset's loss."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from shiftbench.arrays import Floats
from shiftbench.benchmark import Benchmark
from shiftbench.conflict.makeup import batches, shares
from shiftbench.conflict.settings import Settings
from shiftbench.conflict.sides import Side
from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import build
from shiftbench.training.data import Data
from shiftbench.training.device import repeatable
from shiftbench.training.loop import make_optimizer

VALUES_AT_ONCE = {"cpu": 8_000_000, "cuda": 400_000_000}
"""Input numbers per forward pass: 650 images of 64 px on a CPU. Features of any usual number of subsets are one pass."""


class Record(NamedTuple):
    """One repeat, step by step."""

    share: Floats  # steps × training subsets: s_t, sums to 1
    drop: Floats  # steps × evaluation subsets: loss before the step minus loss after it
    accuracy: Floats  # of each evaluation subset after the last step


def record(
    data: Data, train: Side, evaluation: Side, settings: Settings, repeat: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Record:
    """Train one repeat and evaluate all subsets after each step, in one pass for all of them."""
    run, device = settings.run(data.benchmark.digest, repeat), data.device
    drawn = batches(train.code, settings.makeup, settings.batch_size, settings.steps, run.seed)
    with repeatable(device, run.seed, "conflicts"), _threads(data):
        net = build(run.model, len(data.benchmark.names["label"]), data.x.shape[1] if run.features else 0, run.weights,
                    run.seed).to(device)
        if net.takes == "images":
            net = net.to(memory_format=torch.channels_last)
        optimizer = make_optimizer(run, list(net.parameters()))
        evaluate = _evaluation(data, evaluation, net)
        row = torch.from_numpy(train.row[drawn]).to(device)
        label = torch.from_numpy(data.benchmark.label[train.row[drawn]]).to(device)
        losses, accuracy = [], torch.empty(0)
        for step in range(settings.steps + 1):
            loss, accuracy = evaluate()
            losses.append(loss)
            if step < settings.steps:
                optimizer.zero_grad()
                F.cross_entropy(net(data.prepare(data.take(row[step]), net)), label[step]).backward()
                optimizer.step()
            if step % 10 == 0 or step == settings.steps:
                progress(step)
    loss = torch.stack(losses).cpu().numpy()
    if not np.isfinite(loss).all():
        bad = int(np.flatnonzero(~np.isfinite(loss).all(axis=1))[0])
        raise ShiftBenchError(f"conflicts: a loss is no finite number after step {bad} with lr = {settings.lr:g}. "
                              "Lower lr.")
    counted = slice(settings.skip, None)
    return Record(shares(drawn, train.code)[counted], (loss[:-1] - loss[1:])[counted], accuracy.cpu().numpy())


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


def _evaluation(data: Data, evaluation: Side, net: Any) -> Callable[[], tuple[Any, Any]]:
    """A function that gives mean loss and accuracy of every evaluation subset with the net's present weights."""
    device = data.device
    x = data.take(torch.from_numpy(evaluation.row))
    label = torch.from_numpy(data.benchmark.label[evaluation.row]).to(device)
    # Means by a matrix product: unlike a scatter it adds in a fixed order on every device. In float64, since a step
    # changes the seventh digit of some losses.
    member = F.one_hot(torch.from_numpy(evaluation.code)).to(device, torch.float64)
    member = member / member.sum(dim=0)
    pieces = x.split(max(1, VALUES_AT_ONCE.get(device.type, 8_000_000) // max(1, x[0].numel())))

    def evaluate() -> tuple[Any, Any]:
        net.eval()
        with torch.inference_mode():
            logits = torch.cat([net(data.prepare(piece, net)) for piece in pieces]).float()
            loss = F.cross_entropy(logits, label, reduction="none").double() @ member
            right = (logits.argmax(dim=1) == label).double() @ member
        net.train()
        return loss, right

    return evaluate


@contextmanager
def _threads(data: Data) -> Iterator[None]:
    """One thread for heads: their products are so small that a second one costs more than it brings."""
    before = torch.get_num_threads()
    if data.x.is_floating_point():
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
