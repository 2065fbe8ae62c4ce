"""A lane: one run in one stage of training, with all that it changes and where it stands."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.arrays import Floats, Ints
from shiftbench.errors import ShiftBenchError
from shiftbench.methods.base import Stage
from shiftbench.models.base import Net, build
from shiftbench.pixels.augment import PRESETS
from shiftbench.rng import uniform
from shiftbench.training.batches import Batches
from shiftbench.training.checkpoint import Parts, Point, peek, restore, save_checkpoint
from shiftbench.training.data import Data
from shiftbench.training.device import repeatable
from shiftbench.training.log import Log
from shiftbench.training.run import Run


@dataclass(eq=False)
class Lane:
    """What one run trains in one stage. A way of stepping (eager, stacked, graphed) moves `net`, `state` and
    `optimizer` on; the lane says which items come next, evaluates, keeps the best weights and saves itself."""

    run: Run
    data: Data
    stage: Stage
    folder: Path | None
    net: Net
    parts: Parts
    point: Point
    batches: Batches
    weight: Tensor | None  # of each training item
    log: Log
    problem: Exception | None = None
    started: float = 0.0

    @staticmethod
    def enter(run: Run, data: Data, stage: Stage, number: int, folder: Path | None) -> "Lane":
        """The start of a stage, or where an earlier process stopped in it."""
        with repeatable(data.device, run.seed, "train", str(number)):
            net = fresh(run, data)
            state = stage.method.state(data.task(net.width)).to(data.device)
        optimizer = make_optimizer(run, [*net.parameters(), *state.parameters()], data.device.type == "cuda")
        parts = Parts(net, state, optimizer, {}, data.device)
        log = Log(folder / "log.jsonl" if folder else None)
        point = Point(stage=number)
        if folder is not None:
            file = folder / "resume.safetensors"
            found = peek(file, run.id)
            if found is not None and found.stage == number:
                restore(file, parts)
                point = found
            log.cut(point)
        pools = np.zeros(len(data.train), np.int64) if run.batch_kind == "plain" else data.codes(run.batch_kind)
        weight = None if stage.weights is None else stage.weights.to(data.device, torch.float32)
        net.train()
        drawn = data.benchmark.extra.get("weight") if run.resample else None
        batches = Batches(pools, run.batch_size, run.seed, None if drawn is None else drawn[data.train])
        return Lane(run, data, stage, folder, net, parts, point, batches, weight, log,
                    started=time.monotonic() - point.seconds)

    @property
    def steps(self) -> int:
        return self.stage.steps or self.run.steps

    @property
    def open(self) -> bool:
        """Whether there is more to do: steps left, patience left, nothing broken."""
        tired = bool(self.run.patience) and self.point.waited >= self.run.patience
        return self.problem is None and self.point.step < self.steps and not tired

    @property
    def until_evaluation(self) -> int:
        every = self.run.eval_every
        return min(every - self.point.step % every, self.steps - self.point.step)

    def block(self, first: int, steps: int) -> tuple[Ints, npt.NDArray[np.float32] | None]:
        """Numbers of the training items of the steps from `first` on, and the draws their augmentation takes."""
        index = self.batches.block(first, steps)
        width = PRESETS[self.run.augment]
        if not width or self.data.x.dtype != torch.uint8:
            return index, None
        places = np.arange(first * index.shape[1] * width, (first + steps) * index.shape[1] * width)
        u = uniform(self.run.seed, "augment", places).astype(np.float32)
        return index, np.reshape(u, (steps, index.shape[1], width))

    def again(self) -> "Lane":
        """The same stage from its last checkpoint, or its start."""
        return Lane.enter(self.run, self.data, self.stage, self.point.stage, self.folder)

    def look(self, losses: list[float]) -> None:
        """Add up the losses of the last steps; one that is no number ends the run."""
        for step, value in enumerate(losses, self.point.step + 1):
            if not math.isfinite(value):
                self.problem = ShiftBenchError(
                    f"Method '{self.run.method}': the loss is {value} at step {step}. "
                    "Lower lr or the method's penalty, or look for extreme values in the features.")
                return
            self.point.loss_sum += value
            self.point.loss_count += 1
        self.point.step += len(losses)
        self.point.seconds = time.monotonic() - self.started

    def evaluate(self) -> None:
        """Write a line to the log, and keep the weights where they are the best so far."""
        data, point, split = self.data, self.point, self.data.selection
        line: dict[str, object] = {"stage": point.stage, "step": point.step,
                                   "loss": point.loss_sum / max(1, point.loss_count)}
        point.loss_sum, point.loss_count = 0.0, 0
        if split:
            rows = data.benchmark.rows(split)
            found = measure(data.logits(self.net, rows, self.run.precision), data.benchmark.label[rows],
                            data.benchmark.group[rows])
            line |= {"split": split, **{f"{split}_{name}": value for name, value in found.items()}}
            if self.run.select_on != "last":
                # Where accuracies tie, the smaller loss decides: small splits tie often.
                rank = (found[self.run.select_on] if self.run.select_on != "loss" else 0.0, -found["loss"])
                if not point.best or rank > point.best:
                    point.best, point.best_step, point.waited = rank, point.step, 0
                    self.parts.best = {key: value.detach().clone() for key, value in self.net.state_dict().items()}
                else:
                    point.waited += 1
        self.log.write({**line, "best_step": point.best_step or point.step, "seconds": round(point.seconds, 3)})

    def keep(self, due: bool) -> None:
        """Evaluate where it is time to, save where a checkpoint is due. What fails here ends this lane only."""
        try:
            if self.problem is None and (self.point.step % self.run.eval_every == 0 or self.point.step == self.steps):
                self.evaluate()
            if self.problem is None and due:
                self.save()
        except Exception as problem:
            self.problem = problem

    def save(self) -> None:
        if self.folder is not None:
            save_checkpoint(self.folder / "resume.safetensors", self.run.id, self.point, self.parts)

    def settle(self) -> None:
        """Put the chosen weights into the net."""
        if self.parts.best:
            self.net.load_state_dict(self.parts.best)


def fresh(run: Run, data: Data) -> Net:
    """The run's net before its first step, on the device."""
    net = build(run.model, len(data.benchmark.names["label"]), data.x.shape[1] if run.features else 0, run.weights,
                run.seed).to(data.device)
    return net.to(memory_format=torch.channels_last) if net.takes == "images" else net


def make_optimizer(run: Run, parameters: list[nn.Parameter] | list[dict[str, Any]], on_gpu: bool = False
                   ) -> torch.optim.Optimizer:
    """Fused: one call for all tensors, which on small heads is most of a step's time.

    On a GPU Adam counts its steps there, so that a step can be recorded.
    """
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, run.lr, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, run.lr, weight_decay=run.weight_decay, fused=True, capturable=on_gpu)


def measure(logits: Tensor, label: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy, accuracy of the worst group that has items, and mean cross-entropy."""
    truth = torch.from_numpy(label)
    right: Floats = (logits.argmax(dim=1) == truth).numpy().astype(np.float64)
    count = np.bincount(group)
    by_group = np.bincount(group, right)[count > 0] / count[count > 0]
    return {"accuracy": float(right.mean()), "worst_group": float(by_group.min()),
            "loss": float(F.cross_entropy(logits, truth))}
