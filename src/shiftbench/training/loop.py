"""The one loop for all methods, for one run or many at once: steps, evaluation, early stop, checkpoint, predictions."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.core.backend import choose_device, repeatable
from shiftbench.core.errors import Advance, Say, ShiftBenchError, first_line
from shiftbench.core.files import lock, write_text
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.models.net import Net, read_weights
from shiftbench.training.batches import Data, load
from shiftbench.training.evaluate import predict_all
from shiftbench.training.fast import BLOCK, Graphed, Stacked, alike
from shiftbench.training.folder import CHECKPOINT, begin, fail, is_done, save_weights, sign, tidy
from shiftbench.training.lane import Lane
from shiftbench.training.run import Outcome, Run
from shiftbench.training.step import Plain

# Runs in their folders


def train(
    benchmark: Benchmark, collection: Collection, run: Run, out: Path | str, *, device: str = "auto",
    benchmark_path: Path | str | None = None, progress: Advance | None = None, checkpoint_seconds: float = 30.0,
    say: Say | None = None,
) -> Path:
    """Train a run and return its folder, `out`/ID. A finished run is not repeated; an unfinished one resumes. One that
    fails before it has trained, for instance because its net is refused, leaves no folder.

    Features are kept in the collection's folder, where it has one. `progress(done, total)` is called now and then,
    `say` with a line for each setting that has no effect. A killed process loses at most `checkpoint_seconds` of work.
    """
    problems: list[Exception] = []

    def keep(folder: Path, problem: Exception) -> str:
        problems.append(problem)
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {"run.json", "lock"}:
            shutil.rmtree(folder, ignore_errors=True)
        return str(problem)

    (end,) = train_pack(benchmark, collection, [run], out, device=device, benchmark_path=benchmark_path,
                        progress=progress, checkpoint_seconds=checkpoint_seconds, failed=keep, say=say)
    if problems:
        if isinstance(problems[0], MemoryError) or "allocate" in str(problems[0]):
            raise ShiftBenchError(f"run {run.id}: memory ran out ({first_line(problems[0])}). Lower batch_size, which "
                                  f"is {run.batch_size:,}, or size.") from problems[0]
        raise problems[0]
    if end.state == "busy":
        raise ShiftBenchError(f"{Path(out) / run.id}: another process is doing this run. Wait for it, or end it.")
    return Path(out) / run.id


def train_pack(
    benchmark: Benchmark, collection: Collection, runs: Sequence[Run], out: Path | str, *, device: str = "auto",
    benchmark_path: Path | str | None = None, progress: Advance | None = None, checkpoint_seconds: float = 30.0,
    failed: Callable[[Path, Exception], str] = fail, say: Say | None = None,
) -> list[Outcome]:
    """Train several runs on one benchmark, together where possible. Each ends by itself: an error in one is passed to
    `failed` (default: written to its failed.json), and the others go on."""
    ends: dict[str, Outcome] = {}
    started = time.monotonic()

    def end(run: Run, problem: Exception | None = None, state: str = "done", notes: tuple[str, ...] = ()) -> None:
        reason = "" if problem is None else failed(Path(out) / run.id, problem)
        ends[run.id] = Outcome(run.id, state if problem is None else "failed", reason, time.monotonic() - started,
                               notes)

    def close(fitting: Fitting) -> None:
        try:
            if fitting.problem is None:
                _finish(fitting)
        except Exception as problem:
            fitting.problem = problem
        end(fitting.run, fitting.problem, notes=fitting.notes)

    with contextlib.ExitStack() as locks:
        fittings = []
        for run in {run.id: run for run in runs}.values():
            folder = Path(out) / run.id
            try:
                done = begin(folder, run, benchmark, collection, device, benchmark_path)
                busy = not done and not locks.enter_context(lock(folder / "lock"))
                if done or busy or is_done(folder):  # by another process, a moment ago
                    end(run, state="busy" if busy else "done")
                else:
                    data = load(benchmark, collection, run, choose_device(device), progress, say)
                    fittings.append(Fitting(run, data, folder, say))
            except Exception as problem:
                end(run, problem)
        learn(fittings, checkpoint_seconds=checkpoint_seconds, progress=progress, ended=close)
    return [ends[run.id] for run in runs]


def _finish(fitting: Fitting) -> None:
    """Predict, and write what a finished run leaves; `done` last."""
    run, data, learned, folder = fitting.run, fitting.data, fitting.learned, fitting.folder
    assert learned is not None
    assert folder is not None
    predictions = predict_all(run, data, learned.net)
    if isinstance(predictions, Predictions) and not np.isfinite(predictions.scores).all():
        raise ShiftBenchError(f"run {run.id}: after {learned.step} steps '{run.label}' predicts numbers that are "
                              "not finite. Lower lr.")
    predictions.save(folder / PREDICTIONS)
    save_weights(folder / CHECKPOINT, learned.net.state_dict(), run=run.id, model=run.model,
                 classes=json.dumps(data.benchmark.names["label"], ensure_ascii=False))
    sign(folder, PREDICTIONS, CHECKPOINT)
    write_text(folder / "done", f"{learned.step} steps, weights of step {learned.best_step}\n")
    tidy(folder)


# The stages of a run, and their steps


@dataclass(eq=False)
class Learned:
    """A net with its chosen weights, the state of its method, and its predictions of a split."""

    net: Net
    state: nn.Module
    data: Data
    step: int  # updates done
    best_step: int  # the one whose weights were chosen
    precision: str = "float32"

    def logits(self, split: str = "train") -> Tensor:
        return self.data.outputs(self.net, self.data.benchmark.rows(split), self.precision)

    def wrong(self, split: str = "train") -> Tensor:
        label = torch.from_numpy(self.data.benchmark.label[self.data.benchmark.rows(split)])
        return self.logits(split).argmax(dim=1) != label

    def take(self, weights: Mapping[str, Tensor]) -> None:
        self.net.load_state_dict({**self.net.state_dict(), **weights})
        self.data.measure_norms(self.net, self.precision)


@dataclass(eq=False)
class Fitting:
    """A run on its way through the stages of its method's `fit`. Without a folder nothing is written.

    The weights of each finished stage are kept, so that a resumed run goes on in the stage it was in.
    """

    run: Run
    data: Data
    folder: Path | None = None
    say: Say | None = None  # called with what the user should know, line by line
    learned: Learned | None = None  # of the last stage
    notes: tuple[str, ...] = ()  # the lines
    problem: Exception | None = None

    def __post_init__(self) -> None:
        self._lanes = self._enter_stages()

    def next_lane(self) -> Lane | None:
        """The next stage to train; None when there is none."""
        return next(self._lanes, None)

    def _enter_stages(self) -> Iterator[Lane]:
        fit = self.run.learner().fit()
        stage = next(fit)
        for number in count():
            file = None if self.folder is None else self.folder / f"stage-{number}.safetensors"
            if file is not None and file.is_file():
                lane, weights = Lane(self.run, self.data, stage, number), read_weights(file)
                for prefix, module in (("net/", lane.net), ("state/", lane.state)):
                    module.load_state_dict({key.removeprefix(prefix): value for key, value in weights.items()
                                            if key.startswith(prefix)})
                self.take(lane)
            else:
                lane = Lane(self.run, self.data, stage, number, self.folder)
                self.notes += lane.notes
                for note in lane.notes:
                    if self.say is not None:
                        self.say(note)
                yield lane
            learned = self.learned
            assert learned is not None
            try:
                stage = fit.send(learned)
            except StopIteration as end:
                self.learned = end.value
                return
            if file is not None and not file.is_file():
                save_weights(file, {prefix + key: value
                                    for prefix, module in (("net/", learned.net), ("state/", learned.state))
                                    for key, value in module.state_dict().items()})

    def take(self, lane: Lane) -> None:
        """Keep what a trained lane leaves."""
        self.problem = lane.problem
        if self.problem is None:
            lane.take_best()
            step = lane.point.step
            self.learned = Learned(lane.net, lane.state, self.data, step, lane.point.best_step or step,
                                   self.run.precision)


def learn(
    runs: Sequence[Fitting], *, checkpoint_seconds: float = 30.0, progress: Advance | None = None,
    ended: Callable[[Fitting], None] | None = None,
) -> None:
    """Train every run to its end; a run that breaks keeps its `problem`, and the others go on.

    `ended` is called for each run as soon as it has ended, `progress` now and then with steps done and to do.
    """
    waiting = list(runs)
    while waiting:
        entered = {}
        for fitting in waiting:
            lane = None
            try:
                lane = fitting.next_lane()
            except Exception as problem:
                fitting.problem = problem
            if lane is not None:
                entered[fitting.run.id] = fitting, lane
            elif ended:
                ended(fitting)
        for pack in _packs([lane for _, lane in entered.values()]):
            for lane in _train(pack, checkpoint_seconds, progress):
                fitting, _ = entered[lane.run.id]
                fitting.take(lane)
                if ended and fitting.problem is not None:
                    ended(fitting)
        waiting = [fitting for fitting, _ in entered.values() if fitting.problem is None]


def _packs(lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Which lanes step together: any on a GPU; similar heads on a CPU. Lanes of plain steps go one by one."""
    packs: dict[Any, list[Lane]] = {}
    for number, lane in enumerate(lanes):
        stepper = _stepper_of(lane)
        key = stepper if stepper is Graphed else alike(lane) if stepper is Stacked else number
        packs.setdefault(key, []).append(lane)
    return list(packs.values())


def _train(pack: Sequence[Lane], checkpoint_seconds: float, progress: Advance | None) -> Iterator[Lane]:
    """Step the lanes of a pack; each is yielded when it has ended."""
    at_work = list(pack)
    pace, saved = 0.0, time.monotonic()
    stepper: Plain | Stacked | Graphed | None = None
    with repeatable(pack[0].data.device, pack[0].run.seed, "steps"):
        while True:
            ends = [lane for lane in at_work if not lane.unfinished]
            at_work = [lane for lane in at_work if lane.unfinished]
            yield from ends
            if not at_work:
                return
            # At most a second, or a quarter of the time between checkpoints, once the time of a step is known.
            n = min(BLOCK, *(lane.until_evaluation for lane in at_work))
            n = max(1, min(n, int(min(1.0, checkpoint_seconds / 4) / pace) if pace else 1))
            started = time.monotonic()
            try:
                stepper = (_stepper_of(at_work[0])(at_work) if stepper is None
                           else stepper.without(ends) if ends else stepper)
                losses = stepper.advance(n)
            except Exception as problem:
                stepper = None
                if len(at_work) == 1:
                    lane = at_work[0]
                    if _stepper_of(lane) is Graphed and lane.net.outside:  # its code may not allow recording
                        at_work = [lane.unrecorded(problem)]
                    else:
                        lane.problem = problem
                    continue
                # One may have broken the others, or together they need too much memory: train each by itself.
                for lane in at_work:
                    yield from _train([lane.restarted()], checkpoint_seconds, progress)
                return
            for lane, values in zip(at_work, losses, strict=True):
                lane.record(values)
            pace = (time.monotonic() - started) / n
            if progress:
                slowest = min(at_work, key=lambda lane: lane.point.step / lane.steps)
                progress(slowest.point.step, slowest.steps)
            checkpoint_due = time.monotonic() - saved >= checkpoint_seconds
            for lane in at_work:
                lane.finish_block(checkpoint_due)
            saved = time.monotonic() if checkpoint_due else saved


def _stepper_of(lane: Lane) -> type[Plain] | type[Stacked] | type[Graphed]:
    """How a lane is stepped. A recorded step cannot fetch from the host, so data that did not fit on a GPU takes plain
    steps. So does a net whose shapes depend on the data, a method that alternates between two sets of weights, and one
    that may branch on the data, as a user's own."""
    if lane.stage.method.alternates or not lane.stage.method.recordable:
        return Plain
    if lane.data.device.type == "cuda":
        return Graphed if lane.data.on_device and lane.net.recordable else Plain
    return Stacked if lane.net.takes == "features" and not lane.net.outside else Plain
