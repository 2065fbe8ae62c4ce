"""The one loop for all methods: batches, loss, step, evaluation, early stop, checkpoint."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.arrays import Floats
from shiftbench.errors import ShiftBenchError
from shiftbench.methods.base import Method
from shiftbench.models.base import Net, build
from shiftbench.models.weights import load_into, read_weights
from shiftbench.training.batches import Batches
from shiftbench.training.checkpoint import Parts, Point, peek, restore, save_checkpoint, save_weights
from shiftbench.training.data import Data
from shiftbench.training.device import repeatable
from shiftbench.training.log import Log
from shiftbench.training.run import Run

BLOCK = 64
"""Steps between looks at the losses: a look at every step would make a GPU wait for the CPU."""


@dataclass(eq=False)
class Learned:
    """A net with its chosen weights, and what it says about a split."""

    net: Net
    data: Data
    step: int  # updates done
    best_step: int  # the one whose weights were chosen

    def logits(self, split: str = "train") -> Tensor:
        return self.data.logits(self.net, self.data.benchmark.rows(split))

    def wrong(self, split: str = "train") -> Tensor:
        label = torch.from_numpy(self.data.benchmark.label[self.data.benchmark.rows(split)])
        return self.logits(split).argmax(dim=1) != label


@dataclass(eq=False)
class Trainer:
    """What `Method.fit` calls: trains a method on the run's data and gives back the learned net.

    A method of several stages calls it several times; the weights of each finished stage are kept, so that a resumed
    run goes on in the stage it was in. Without a folder nothing is written.
    """

    run: Run
    data: Data
    folder: Path | None = None
    checkpoint_seconds: float = 30.0
    progress: Callable[[int, int], None] | None = None
    _finished: list[Learned] = field(default_factory=list)

    def __call__(self, method: Method, *, weights: Tensor | None = None, steps: int | None = None) -> Learned:
        stage = len(self._finished)
        if stage and self.folder:
            save_weights(self._stage_file(stage - 1), self._finished[-1].net.state_dict())
        with repeatable(self.data.device, self.run.seed, "train", str(stage)):
            net = self._fresh()
            if self.folder and self._stage_file(stage).is_file():
                load_into(net, read_weights(self._stage_file(stage)), self._stage_file(stage))
                learned = Learned(net, self.data, 0, 0)
            else:
                learned = self._learn(method, net, weights, steps or self.run.steps, stage)
        self._finished.append(learned)
        return learned

    def _learn(self, method: Method, net: Net, weights: Tensor | None, steps: int, stage: int) -> Learned:
        run, data = self.run, self.data
        state = method.state(data.task(net.width)).to(data.device)
        parameters = [*net.parameters(), *state.parameters()]
        optimizer = make_optimizer(run, parameters)
        parts = Parts(net, state, optimizer, {}, data.device)
        point = self._resume(parts, stage)
        pools = np.zeros(len(data.train), np.int64) if run.batch_kind == "plain" else data.codes(run.batch_kind)
        batches = Batches(pools, run.batch_size, run.seed)
        weight = None if weights is None else weights.to(data.device, torch.float32)
        log = Log(self.folder / "log.jsonl" if self.folder else None)
        losses: list[Tensor] = []
        started, saved = time.monotonic() - point.seconds, time.monotonic()
        first, block = point.step, torch.empty(0)
        net.train()
        while point.step < steps and not self._gave_up(point):
            if point.step == first or (point.step - first) % BLOCK == 0:
                first = point.step
                block = torch.from_numpy(batches.block(first, min(BLOCK, steps - first))).to(data.device)
            batch = data.batch(block[point.step - first], net, weight)
            for parameter in parameters:  # what zero_grad does, without its bookkeeping
                parameter.grad = None
            loss = method.loss(net, batch, state, point.step)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            point.step += 1
            due = self.folder is not None and time.monotonic() - saved >= self.checkpoint_seconds
            evaluates = point.step % run.eval_every == 0 or point.step == steps
            if due or evaluates or len(losses) == BLOCK:
                _look(losses, point, method.name)
                if self.progress:
                    self.progress(point.step, steps)
            point.seconds = time.monotonic() - started
            if evaluates:
                self._evaluate(parts, point, log)
            if due and self.folder:
                save_checkpoint(self.folder / "resume.safetensors", run.id, point, parts)
                saved = time.monotonic()
        if parts.best:
            net.load_state_dict(parts.best)
        return Learned(net, data, point.step, point.best_step or point.step)

    def _fresh(self) -> Net:
        run, data = self.run, self.data
        net = build(run.model, len(data.benchmark.names["label"]), data.x.shape[1] if run.features else 0, run.weights,
                    run.seed).to(data.device)
        return net.to(memory_format=torch.channels_last) if net.takes == "images" else net

    def _resume(self, parts: Parts, stage: int) -> Point:
        """Where an earlier process stopped in this stage, or the start of it."""
        if self.folder is None:
            return Point(stage=stage)
        file = self.folder / "resume.safetensors"
        point = peek(file, self.run.id)
        if point is None or point.stage != stage:
            point = Point(stage=stage)
        else:
            restore(file, parts)
        Log(self.folder / "log.jsonl").cut(point)
        return point

    def _evaluate(self, parts: Parts, point: Point, log: Log) -> None:
        """Write a line to the log, and keep the weights where they are the best so far."""
        split = self.data.selection
        line: dict[str, object] = {"stage": point.stage, "step": point.step,
                                   "loss": point.loss_sum / max(1, point.loss_count)}
        point.loss_sum, point.loss_count = 0.0, 0
        if split:
            rows = self.data.benchmark.rows(split)
            found = measure(self.data.logits(parts.net, rows), self.data.benchmark.label[rows],
                            self.data.benchmark.group[rows])
            line |= {"split": split, **{f"{split}_{name}": value for name, value in found.items()}}
            if self.run.select_on != "last":
                # Where accuracies tie, the smaller loss decides: small splits tie often.
                rank = (found[self.run.select_on] if self.run.select_on != "loss" else 0.0, -found["loss"])
                if not point.best or rank > point.best:
                    point.best, point.best_step, point.waited = rank, point.step, 0
                    parts.best = {key: value.detach().clone() for key, value in parts.net.state_dict().items()}
                else:
                    point.waited += 1
        log.write({**line, "best_step": point.best_step or point.step, "seconds": round(point.seconds, 3)})

    def _gave_up(self, point: Point) -> bool:
        return bool(self.run.patience) and point.waited >= self.run.patience

    def _stage_file(self, stage: int) -> Path:
        assert self.folder is not None
        return self.folder / f"stage-{stage}.safetensors"


def set_threads(n: int) -> None:
    """Compute with n threads from now on: one per process where several processes share the cores."""
    torch.set_num_threads(max(1, n))


def make_optimizer(run: Run, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Fused: one call for all tensors, which on small heads is most of a step's time."""
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, run.lr, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, run.lr, weight_decay=run.weight_decay, fused=True)


def measure(logits: Tensor, label: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy, accuracy of the worst group that has items, and mean cross-entropy."""
    truth = torch.from_numpy(label)
    right: Floats = (logits.argmax(dim=1) == truth).numpy().astype(np.float64)
    count = np.bincount(group)
    by_group = np.bincount(group, right)[count > 0] / count[count > 0]
    return {"accuracy": float(right.mean()), "worst_group": float(by_group.min()),
            "loss": float(F.cross_entropy(logits, truth))}


def _look(losses: list[Tensor], point: Point, method: str) -> None:
    """Add up the losses since the last look; one that is no number ends the run."""
    values = torch.stack(losses).double().tolist()
    losses.clear()
    for step, value in enumerate(values, point.step - len(values) + 1):
        if not math.isfinite(value):
            raise ShiftBenchError(f"Method '{method}': the loss is {value} at step {step}. "
                                  "Lower lr or the method's penalty, or look for extreme values in the features.")
        point.loss_sum += value
    point.loss_count += len(values)
