"""How good a net is on a split while it learns: the scorer's numbers, and the one by which weights are chosen."""

import math
from collections.abc import Mapping

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Net
from shiftbench.scoring.estimates import values_of
from shiftbench.scoring.metrics import WORST, metric_of, metrics_of
from shiftbench.training.data import Data
from shiftbench.training.predict import evaluate
from shiftbench.training.run import SELECTIONS, Run

LOSS = "loss"
"""The mean of what training minimises, without penalties; it is no score."""


def judged(run: Run, data: Data, net: Net, split: str) -> dict[str, float]:
    """What `score` would say of a split, without intervals, and the loss; what is not defined is left out."""
    outputs, loss = evaluate(run, data, net, split)
    values = values_of(data.scorer(split)([outputs], [0], None))
    values[LOSS] = values.get("nll", loss)
    return {metric: value for metric, value in values.items() if math.isfinite(value)}


def rank(data: Data, select_on: str, values: Mapping[str, float]) -> tuple[float, float]:
    """By what weights are chosen, larger is better: the number asked for, then the smaller loss, since small splits tie
    often. Where the number is not defined (nothing varies in a group) the weights rank below all others.

    Where a target has no such number, as boxes have no `loss`, it is the target's metric over all items.
    """
    plain = data.benchmark.target.metric
    named = {"accuracy": plain, "worst_group": WORST + plain, "headline": data.benchmark.headline}
    metric = named.get(select_on, select_on)
    if metric not in values and select_on in SELECTIONS and select_on != "headline":
        metric = plain
    sign = -1.0 if metric == LOSS else metric_of(metric).sign
    value = values.get(metric, -sign * math.inf)
    return sign * value, -values.get(LOSS, 0.0)


def check_selection(select_on: str, data: Data, split: str) -> None:
    """Fail where weights are to be chosen by a number that a split is not scored by."""
    if select_on in SELECTIONS and select_on != "headline":
        return
    target = data.benchmark.target
    known = [metric.name for metric in metrics_of(target) if metric.always]
    if target.has_classes:
        nothing = np.zeros((len(data.rows(split)), data.n_outputs), np.float32)
        known = list(values_of(data.scorer(split)([nothing], [0], None)))
    metric, what = select_on, f"'{select_on}'"
    if select_on == "headline":
        metric = data.benchmark.headline
        what = f"the headline of benchmark '{data.benchmark.name}', {metric},"
    if metric not in known:
        raise ShiftBenchError(f"run: select_on={select_on}, but {what} is not scored on {split}. Scored are "
                              f"{', '.join(known)}.")
