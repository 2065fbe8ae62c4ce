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
from shiftbench.conflict.steps import stepper
from shiftbench.errors import ShiftBenchError
from shiftbench.training.data import Data
from shiftbench.training.device import repeatable


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
    drawn = batches(train.code, settings.makeup, settings.batch_size, settings.steps, run.seed)
    number = torch.from_numpy(drawn).to(data.device)
    label = torch.from_numpy(data.benchmark.label[train.row[drawn]]).to(data.device)
    truth = torch.from_numpy(data.benchmark.label[evaluation.row]).to(data.device)
    # Means by a matrix product: unlike a scatter it adds in a fixed order on every device. In float64, since a step
    # may change the seventh digit of a loss.
    member = F.one_hot(torch.from_numpy(evaluation.code)).to(data.device, torch.float64)
    member = member / member.sum(dim=0)
    losses = []
    with repeatable(data.device, run.seed, "conflicts"), _threads(data):
        net = stepper(data, train, evaluation, run)
        for step in range(settings.steps + 1):
            logits = net.logits()
            losses.append(F.cross_entropy(logits, truth, reduction="none").double() @ member)
            if step < settings.steps:
                net.step(number[step], label[step])
            if step % 10 == 0 or step == settings.steps:
                progress(step)
        right = (logits.argmax(dim=1) == truth).double() @ member
    loss = torch.stack(losses).cpu().numpy()
    if not np.isfinite(loss).all():
        bad = int(np.flatnonzero(~np.isfinite(loss).all(axis=1))[0])
        raise ShiftBenchError(f"conflicts: a loss is no finite number after step {bad} with lr = {settings.lr:g}. "
                              "Lower lr.")
    counted = slice(settings.skipped, None)
    return Record(shares(drawn, train.code)[counted], (loss[:-1] - loss[1:])[counted], right.cpu().numpy())


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


@contextmanager
def _threads(data: Data) -> Iterator[None]:
    """One thread for heads: their products are so small that a second one costs more than it brings."""
    before = torch.get_num_threads()
    if not data.are_pixels:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
