"""The predictions of a run's net on a split, and their scores: the same during training and at its end."""

import copy
import math
from collections.abc import Mapping
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.prediction_lists import SCORES, Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Measure
from shiftbench.data.target import BOXES, TOKENS
from shiftbench.methods.method import LOSSES
from shiftbench.models.net import Net
from shiftbench.scoring.intervals import values_of
from shiftbench.scoring.metrics import WORST, metric_of, metrics_of
from shiftbench.scoring.scorer import Outputs
from shiftbench.training.batches import Data
from shiftbench.training.run import SELECTIONS, Run

LOSS = "loss"
"""The mean of what training minimises, without penalties; it is not a score."""


def evaluate(run: Run, data: Data, net: Net, split: str) -> dict[str, float]:
    """The values that `score` gives for a split, without intervals, and the loss; undefined values are left out."""
    outputs, loss = _outputs_and_loss(run, data, net, split)
    values = values_of(data.scorer(split)([outputs], [0], None))
    values[LOSS] = values.get("nll", loss)
    return {metric: value for metric, value in values.items() if math.isfinite(value)}


def rank(data: Data, select_on: str, values: Mapping[str, float]) -> tuple[float, float]:
    """The rank by which weights are chosen, larger is better: the metric asked for, then the smaller loss, since small
    splits tie often. Where the number is not defined (nothing varies in a group) the weights rank below all others.

    Where a target has no such number, as boxes have no `loss`, it is the target's metric over all items.
    """
    metric = data.benchmark.target.metric
    named = {"accuracy": Measure(metric), "worst_group": Measure(WORST + metric), "headline": data.benchmark.headline}
    measure = named.get(select_on) or Measure.parse(select_on)
    if str(measure) not in values and select_on in SELECTIONS and select_on != "headline":
        measure = Measure(metric)
    sign = -1.0 if measure.metric == LOSS else metric_of(measure.metric).sign
    value = values.get(str(measure), -sign * math.inf)
    return sign * value, -values.get(LOSS, 0.0)


def check_selection(select_on: str, data: Data, split: str) -> None:
    """Raise an error where weights are to be chosen by a number that the split is not scored on."""
    if select_on in SELECTIONS and select_on != "headline":
        return
    target = data.benchmark.target
    scored = [metric.name for metric in metrics_of(target) if metric.always]
    if target.has_classes:
        zeros = np.zeros((len(data.rows(split)), data.n_outputs), np.float32)
        scored = list(values_of(data.scorer(split)([zeros], [0], None)))
    metric, subject = select_on, f"'{select_on}'"
    if select_on == "headline":
        metric = str(data.benchmark.headline)
        subject = f"the headline of benchmark '{data.benchmark.name}', {metric},"
    if metric not in scored:
        raise ShiftBenchError(f"run: select_on={select_on}, but {subject} is not scored on {split}. Choose from: "
                              f"{', '.join(scored)}.")


def predict_all(run: Run, data: Data, net: Net) -> Predictions | Answers:
    """The predictions of every labelled row, made split by split, so that they equal those of evaluations to the bit.
    """
    benchmark = data.benchmark
    rows = np.concatenate([data.rows(split) for split in benchmark.splits])
    perm = np.argsort(rows, kind="stable")
    if data.benchmark.target.lists:
        parts = [answer(run, data, net, split)[0] for split in benchmark.splits]
        return Answers.join(parts).take(perm)
    scores = torch.cat([predict(run, data, net, split) for split in benchmark.splits]).numpy()
    return Predictions(benchmark.items[rows[perm]], benchmark.split[rows[perm]], scores[perm], benchmark.names["label"])


def predict(run: Run, data: Data, net: Net, split: str) -> Tensor:
    """Logits of a split's rows, or numbers as the data have them."""
    return _own_units(data, _outputs(run, data, net, split))


def _outputs_and_loss(run: Run, data: Data, net: Net, split: str) -> tuple[Outputs, float]:
    """The predictions of a split as its scorer takes them, and the mean of training's loss.

    The loss is NaN where a detector has its own, and of classes, whose scorer gives it as `nll`.
    """
    if data.benchmark.target.lists:
        return answer(run, data, net, split)
    outputs = _outputs(run, data, net, split)
    if data.has_classes:
        return outputs.numpy(), np.nan
    truth = data.truth[torch.from_numpy(data.rows(split)).to(data.device)].cpu()
    loss = float(LOSSES[data.benchmark.target.loss].per_item(outputs, truth).double().mean())
    return _own_units(data, outputs).numpy(), loss


def answer(run: Run, data: Data, net: Net, split: str) -> tuple[Answers, float]:
    """A net's answers for a split's rows: boxes as shares of the image with scores, or the next token at each place."""
    benchmark, rows = data.benchmark, data.rows(split)
    assert isinstance(data.x, Tensor)
    if data.benchmark.target.per_place:
        tokens, loss = _tokens(run, data, net, rows)
        lengths = ((data.x[torch.from_numpy(rows)] >= 0).sum(dim=1) - 1).clamp(min=0).tolist()
        lists = {TOKENS: [row[:n].numpy() for row, n in zip(tokens, lengths, strict=True)]}  # none after the last token
        return Answers.of(benchmark.items[rows], benchmark.split[rows], lists), loss
    height, width = data.x.shape[1:3]
    size = np.asarray([width, height, width, height], np.float32)
    boxes = list(chain.from_iterable(data.by_chunk(net.detect, net, rows, run.precision)))
    return Answers.of(benchmark.items[rows], benchmark.split[rows], {
        BOXES: [sides.float().cpu().numpy() / size for sides, _ in boxes],
        SCORES: [scores.float().cpu().numpy() for _, scores in boxes]}), np.nan


def _outputs(run: Run, data: Data, net: Net, split: str) -> Tensor:
    """The net's outputs, in the units it learns in. A method that adapts does so per domain, except on training items.
    """
    benchmark, method, rows = data.benchmark, run.learner(), data.rows(split)
    if not method.adapts or split == "train":
        return data.outputs(net, rows, run.precision)
    outputs = torch.empty(len(rows), data.n_outputs)
    for domain in np.unique(benchmark.domain[rows]):
        members = np.flatnonzero(benchmark.domain[rows] == domain)
        adapted = method.adapted(copy.deepcopy(net), data.sample(rows[members], net))
        outputs[torch.from_numpy(members)] = data.outputs(adapted, rows[members], run.precision)
    return outputs


def _own_units(data: Data, outputs: Tensor) -> Tensor:
    if not data.benchmark.target.in_units:
        return outputs
    mean, spread = data.units
    return outputs * spread + mean


def _tokens(run: Run, data: Data, net: Net, rows: Ints) -> tuple[Tensor, float]:
    """The likeliest token at every place, and the loss. Outputs are not kept: each place has one per known token."""
    tokens, loss = [], 0.0
    chunks = iter(torch.from_numpy(rows).to(data.device).split(data.at_once))
    for outputs in data.by_chunk(net, net, rows, run.precision):
        tokens.append(outputs.argmax(dim=2).int().cpu())
        loss += float(LOSSES[data.benchmark.target.loss].per_item(outputs, data.truth[next(chunks)]).sum())
    return torch.cat(tokens), loss / len(rows)
