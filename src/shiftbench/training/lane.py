"""A lane: one run in one stage of training. It knows which items come next, evaluates, keeps the best weights, and
leaves a checkpoint and a log from which another process goes on exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shiftbench.core.arrays import Floats, Ints, child, uniform
from shiftbench.core.backend import repeatable
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.data.benchmark import Benchmark
from shiftbench.methods.method import METHODS, Codes, Stage, Task
from shiftbench.models.names import LIBRARIES, facts, library_of, seen_note
from shiftbench.models.net import MODELS, Net, build
from shiftbench.training.batches import Batches, Data
from shiftbench.training.evaluate import check_selection, evaluate, rank
from shiftbench.training.folder import RESUME, Log, Point, read_point, restore, save_checkpoint
from shiftbench.training.run import Run

BELOW_1 = np.nextafter(np.float32(1), np.float32(0))
"""The largest number of [0, 1) in 32 bits: rounding would make a few draws 1."""


class Lane:
    """What one run trains in one stage, from its start or where an earlier process stopped in it. A way of stepping
    (plain, stacked, graphed) changes `net`, `state` and `optimizer`; the lane does everything around the steps.

    `folder` is the run's; without one nothing is written. `weight` is of each training item, `unlabelled` draws as many
    unlabelled items as a batch has labelled ones, `best` are the weights of the best evaluation so far, and `notes`
    what the user should know about this stage.
    """

    def __init__(self, run: Run, data: Data, stage: Stage, number: int = 0, folder: Path | None = None) -> None:
        self.run, self.stage, self.folder = run, stage, folder
        self.data = data = data.on(stage.split, stage.method.unlabelled_split(), stage.method.strong)
        check_target(run, data)
        self.steps = max(1, round(stage.share * run.steps))
        self.lr = run.lr if stage.lr is None else stage.lr
        self.select_on = stage.select_on or run.select_on
        # The split on which weights are chosen; none where the benchmark has none.
        self.selection_split = (run.select_split if data.train_split == "train" else "") or data.selection
        with repeatable(data.device, run.seed, "train", str(number)):
            self.net = fresh(run, data)
            task = data.task(self.net.width, self.steps, partial(model_of, run, data, "twin"))
            self.state = stage.method.state(task).to(data.device)
        if stage.start is not None:
            self.net.load_state_dict(stage.start.net.state_dict())
        freeze(self.net, stage.trains, run.frozen_norms)
        self.weight = None if stage.weights is None else stage.weights.to(data.device, torch.float32)
        assert self.weight is None or not data.unlabelled, "a stage has weights or unlabelled items"
        self.batches = Batches(data.pools(run.batch_kind), run.batch_size, run.seed, _drawing(run, data, stage),
                               run.domains_per_batch)
        self.unlabelled = Batches(np.zeros(len(data.rows(data.unlabelled)), np.int64), len(self.batches), run.seed,
                                  purpose="unlabelled ") if data.unlabelled else None
        self.optimizer = make_optimizer(run, decaying(run, (self.net, self.state)), data.device.type == "cuda", self.lr)
        self.parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.notes = notes_of(run, stage, task, number, data.benchmark)
        if number == 0 and data.device.type == "cuda" and self.net.unrecordable:  # which makes them slower
            self.notes += (f"Model '{self.net.name}': its steps are not recorded as a CUDA graph, because "
                           f"{self.net.unrecordable}.",)
        self.point, self.best = Point(stage=number), dict[str, Tensor]()
        self.problem: Exception | None = None
        self.log = Log(folder / "log.jsonl" if folder else None)
        if folder is not None:
            saved = read_point(folder / RESUME, run.id)
            if saved is not None and saved.stage == number:
                restore(folder / RESUME, self)
                self.point = saved
            self.log.cut(self.point)
        self.started = time.monotonic() - self.point.seconds
        if self.selection_split:
            check_selection(self.select_on, data, self.selection_split)

    def rates(self, first: int, n: int) -> Floats:
        """The learning rates of the n steps from `first` on."""
        return self.lr * factors(self.run, first, n, self.steps)

    @property
    def unfinished(self) -> bool:
        """Whether there is more to do: steps left, patience left, nothing broken."""
        out_of_patience = bool(self.run.patience) and self.point.waited >= self.run.patience
        return self.problem is None and self.point.step < self.steps and not out_of_patience

    @property
    def until_evaluation(self) -> int:
        every = self.run.eval_every
        return min(every - self.point.step % every, self.steps - self.point.step)

    def block(self, first: int, steps: int) -> tuple[Ints, npt.NDArray[np.float32] | None]:
        """Numbers of the training items of the steps from `first` on, and the draws of augmentation and method.

        Unlabelled items, where there are any, follow them, with their own draws: the labelled items are the same with
        and without them.
        """
        index = self.batches.block(first, steps)
        u = self._draws(first, steps, index.shape[1])
        if self.unlabelled is not None:
            u = np.concatenate([u, self._draws(first, steps, index.shape[1], "unlabelled ")], axis=1)
            index = np.concatenate([index, len(self.data.train) + self.unlabelled.block(first, steps)], axis=1)
        return index, u if u.shape[2] else None

    def _draws(self, first: int, steps: int, items: int, prefix: str = "") -> npt.NDArray[np.float32]:
        """The draws of the steps from `first` on, steps × items × numbers; labelled items have no second view."""
        augment, draws = self.run.augment, []
        for purpose, width in (("augment", self.data.draws(augment)), ("strong", self.data.strong_draws(augment)),
                               (f"method {self.point.stage}", self.stage.method.draws)):
            counters = np.arange(first * items * width, (first + steps) * items * width)
            u = np.minimum(uniform(self.run.seed, prefix + purpose, counters).astype(np.float32), BELOW_1)
            draws.append(np.reshape(u, (steps, items, width)))
        return np.concatenate(draws, axis=2)

    def record(self, losses: list[float]) -> None:
        """Add up the losses of the last steps; one that is not finite ends the run."""
        for step, loss in enumerate(losses, self.point.step + 1):
            if not math.isfinite(loss):
                self.problem = ShiftBenchError(
                    f"{self.run.label}: the loss is {loss} at step {step}. "
                    "Lower lr or the method's penalty, or look for extreme values in the features.")
                return
            self.point.loss_sum += loss
            self.point.loss_count += 1
        self.point.step += len(losses)
        self.point.seconds = time.monotonic() - self.started

    def finish_block(self, checkpoint_due: bool) -> None:
        """Evaluate where it is time to, save where a checkpoint is due. What fails here ends this lane only."""
        try:
            if self.problem is None and (self.point.step % self.run.eval_every == 0 or self.point.step == self.steps):
                self.evaluate()
            if self.problem is None and checkpoint_due and self.folder is not None:
                save_checkpoint(self.folder / RESUME, self)
        except Exception as problem:
            self.problem = problem

    def evaluate(self) -> None:
        """Write a line to the log, and keep the weights where they are the best so far."""
        data, point, split = self.data, self.point, self.selection_split
        line: dict[str, object] = {"stage": point.stage, "step": point.step,
                                   "loss": point.loss_sum / max(1, point.loss_count)}
        if self.notes and point.step == min(self.run.eval_every, self.steps):
            line["notes"] = self.notes
        point.loss_sum, point.loss_count = 0.0, 0
        if split:
            values = evaluate(self.run, data, self.net, split)
            line |= {"split": split, **{f"{split}_{metric}": value for metric, value in values.items()}}
            if self.select_on != "last":
                current = rank(data, self.select_on, values)
                if not point.best or current > point.best:
                    point.best, point.best_step, point.waited = current, point.step, 0
                    self.best = {key: value.detach().clone() for key, value in self.net.state_dict().items()}
                else:
                    point.waited += 1
        self.log.write({**line, "best_step": point.best_step or point.step, "seconds": round(point.seconds, 3)})

    def take_best(self) -> None:
        """Put the chosen weights into the net."""
        if self.best:
            self.net.load_state_dict(self.best)

    def restarted(self) -> Lane:
        """The same stage from its last checkpoint, or its start."""
        return Lane(self.run, self.data, self.stage, self.point.stage, self.folder)

    def unrecorded(self, problem: Exception) -> Lane:
        """The same stage once more, in plain steps, after a recorded one failed."""
        lane = self.restarted()
        lane.net.recordable = False  # type: ignore[misc]
        lane.notes += (f"Model '{lane.net.name}': its steps are not recorded as a CUDA graph, because that failed "
                       f"({type(problem).__name__}: {first_line(problem)}).",)
        return lane


def fresh(run: Run, data: Data) -> Net:
    """The run's net before its first step, on the device."""
    net = model_of(run, data).to(data.device)
    return net.to(memory_format=torch.channels_last) if net.takes == "images" and net.channels_last else net


def model_of(run: Run, data: Data, *purpose: str) -> Net:
    """A net of the run's model, changed as its method asks, on the CPU; each purpose has its own initial weights."""
    seed = int(child(run.seed, *purpose).integers(2**31)) if purpose else run.seed
    return run.learner().net(build(run.model, data.n_outputs, data.n_inputs, run.weights, seed))


def freeze(net: Net, trains: Sequence[str], frozen_norms: bool) -> None:
    """Let those parameters learn whose names begin with one of `trains`, or all where that is empty. The batch norms
    of what does not learn stay as they are, and all of them with `frozen_norms`."""
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(not trains or name.startswith(tuple(trains)))
    for module in net.modules():
        module.training = not trains or any(parameter.requires_grad for parameter in module.parameters())
        if frozen_norms and isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.training = False


def _drawing(run: Run, data: Data, stage: Stage) -> Floats | None:
    """The weights by which items are drawn: the benchmark's column `weight` times the method's; None: uniformly."""
    column = data.benchmark.extra.get("weight") if run.resample else None
    codes = Codes(*(torch.from_numpy(values) for values in (
        data.benchmark.label[data.train].astype(np.int64), data.pools("domain"), data.pools("group"))))
    weights = stage.method.drawing(codes)
    if weights is None:
        return None if column is None else column[data.train]
    return weights.double().numpy() * (1.0 if column is None else column[data.train])


def check_target(run: Run, data: Data) -> None:
    """Check that model and method can learn the benchmark's target, and that the split to choose on has items."""
    if run.select_split and run.select_split not in data.benchmark.splits:
        raise ShiftBenchError(f"run: select_split={run.select_split}, but benchmark '{data.benchmark.name}' has no "
                              f"items in it. Its splits: {', '.join(data.benchmark.splits)}.")
    target, net, method = data.benchmark.target, MODELS[run.model], METHODS[run.method]
    if net.outside:
        run.check_needs(facts(run.model)._replace(takes=net.takes, channels=net.channels))
    if target.kind not in method.targets:
        suitable = sorted(name for name, candidate in METHODS.items() if target.kind in candidate.targets)
        raise ShiftBenchError(f"run: benchmark '{data.benchmark.name}' asks for {target.words}, which method "
                              f"'{run.method}' cannot learn. Methods that can: {', '.join(suitable)}.")
    if (net.own_loss, net.per_place) != (target.detects, target.per_place):
        suitable = sorted(name for name, candidate in MODELS.items()
                      if (candidate.own_loss, candidate.per_place) == (target.detects, target.per_place))
        raise ShiftBenchError(f"run: benchmark '{data.benchmark.name}' asks for {target.words}, which model "
                              f"'{run.model}' does not give. Models that do: {', '.join(suitable)}.")
    if target.detects and (run.augment != "none" or run.attack):
        raise ShiftBenchError("run: augmentations and attacks move an image but not its boxes. Use augment=none, "
                              "attack=0.")
    if run.attack and not target.has_classes:
        raise ShiftBenchError(f"run: attack={run.attack} raises the cross-entropy of classes, but benchmark "
                              f"'{data.benchmark.name}' asks for {target.words}. Use attack=0.")


# What the user should know


def notes_of(run: Run, stage: Stage, task: Task, number: int, benchmark: Benchmark) -> tuple[str, ...]:
    """A line for each setting without effect in this stage; with the first stage also those about the run, and where
    its weights are random, or have seen the target."""
    params = {**run.params, **vars(stage.method)}
    idle = {name: (params[name], why) for name, why in {**stage.method.idle(task), **stage.idle}.items()}
    notes = []
    if number == 0:
        idle = {**{name: (getattr(run, name), why) for name, why in run.idle().items()}, **idle}
        notes = [note for note in (seen_note(run.to_json(), benchmark),) if note]
        if library_of(run.model) in LIBRARIES and run.weights == "none":
            notes.append(f"model '{run.model}' starts from random weights; weights=pretrained loads its library's.")
    return (*(f"{run.label}: {name}={value} has no effect: {why}." for name, (value, why) in idle.items()),
            *(f"{run.label}: {note}" for note in notes))


# The optimizer and its learning rate


def make_optimizer(run: Run, parameters: list[nn.Parameter] | list[dict[str, Any]], on_gpu: bool = False,
                   lr: float | None = None) -> torch.optim.Optimizer:
    """Fused: one call for all tensors, which takes most of a step's time on small heads.

    On a GPU Adam counts its steps there, so that a step can be recorded; a learning rate that changes lies there too.
    """
    rate: float | Tensor = run.lr if lr is None else lr
    if on_gpu and run.varies:
        rate = torch.tensor(rate, device="cuda")
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, rate, weight_decay=run.weight_decay, fused=True, capturable=on_gpu)


def decaying(run: Run, modules: Sequence[nn.Module]) -> list[nn.Parameter] | list[dict[str, Any]]:
    """The parameters to learn; without `decay_all` in two groups: biases and layer norms do not decay."""
    if run.decay_all:
        return [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (run.weight_decay, 0.0)]
    for layer in (layer for module in modules for layer in module.modules()):
        for name, parameter in layer.named_parameters(recurse=False):
            if parameter.requires_grad:
                groups["bias" in name or isinstance(layer, nn.LayerNorm)]["params"].append(parameter)
    return [group for group in groups if group["params"]]


def factors(run: Run, first: int, n: int, steps: int) -> Floats:
    """The factors of the learning rate in the n steps from `first` on, of `steps` in all; see SCHEDULES.

    >>> factors(Run("", features="columns", schedule="thirds"), 0, 6, 6).tolist()
    [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    t = np.arange(first, first + n)
    ramp = np.minimum(t / max(1, run.warmup), 1.0) if run.warmup else np.ones(n)
    progress = np.clip((t - run.warmup) / max(1, steps - run.warmup), 0.0, 1.0)
    if run.schedule == "thirds":
        return ramp * np.asarray([1.0, 0.1, 0.01])[np.minimum(3 * (t / steps), 2).astype(np.int64)]
    if run.schedule == "cosine":
        return ramp * (1 + np.cos(np.pi * progress)) / 2
    if run.schedule == "linear":
        return ramp * (1 - progress)
    if run.schedule == "exponential":
        return ramp * run.drop ** (t // run.drop_every)
    return ramp
