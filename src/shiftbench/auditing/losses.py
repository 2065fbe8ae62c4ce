"""The loss of each item, by which an audit judges: an error, a log-loss, a distance, or what a metric of yours adds."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.plugins import load_installed
from shiftbench.scoring.metrics import METRICS, Table, has_probabilities
from shiftbench.scoring.metrics import losses as log_losses

IMPOSSIBLE = 1e-6
"""The probability that counts for a label which a model has ruled out: its log-loss would be infinite."""


class Loss(NamedTuple):
    """A loss of single items, higher is worse: `items(truth, outputs)` gives one number per item.

    `target` is `class` (truth: codes; outputs: scores, items × classes) or `number` (both items × 1).
    """

    name: str
    words: str
    unit: str  # share, shown in per cent; or number
    target: str
    items: Callable[[Values, Table], Values]


def _errors(label: Values, scores: Table) -> Floats:
    return np.asarray(scores.argmax(axis=1) != label, np.float64)


def _log_losses(label: Values, scores: Table) -> Floats:
    if not has_probabilities(scores):
        raise ShiftBenchError("These predictions are classes without probabilities, of which the error can be audited, "
                              "but no log-loss. Use --loss error.")
    each = np.where(label < 0, np.inf, log_losses(label, scores))  # a class that the model does not know
    ruled_out = np.isposinf(each)
    return np.where(ruled_out, max(-math.log(IMPOSSIBLE), each[~ruled_out].max(initial=0.0)), each)


LOSSES: Mapping[str, Loss] = {loss.name: loss for loss in (
    Loss("error", "the error", "share", "class", _errors),
    Loss("nll", "the log-loss", "number", "class", _log_losses),
    Loss("squared", "the squared error", "number", "number", lambda truth, x: np.square(x - truth).mean(axis=1)),
    Loss("absolute", "the absolute error", "number", "number", lambda truth, x: np.abs(x - truth).mean(axis=1)),
)}
"""The losses by name; a metric of your own that has `items` is one too."""


def loss_named(name: str) -> Loss:
    """A loss by its name. What a metric of which higher is better adds up is turned round: 1 − share, or − number."""
    if name in LOSSES:
        return LOSSES[name]
    load_installed()
    metric = METRICS.get(name)
    target = next((kind for kind in ("class", "number") if metric is not None and kind in metric.targets), "")
    if metric is None or metric.items is None or not target:
        own = [other.name for other in METRICS.values() if other.items is not None and other.own]
        raise unknown("loss", name, [*LOSSES, *own])
    items = metric.items
    start = 1.0 if metric.unit == "share" else 0.0

    def turned(truth: Values, outputs: Table) -> Values:
        values = np.asarray(items(truth, outputs), np.float64)
        return values if metric.lower else start - values

    words = metric.words if metric.lower else f"{'1 −' if start else 'minus'} {metric.words}"
    return Loss(name, f"the {words}" if metric.lower else words, metric.unit, target, turned)


def losses_of(outputs: Table, truth: Values, loss: Loss) -> Floats:
    """One loss per item; NaN where the loss of an item is not defined."""
    values: Any = np.asarray(loss.items(truth, outputs), np.float64)
    if values.shape != (len(truth),):
        raise ShiftBenchError(f"Loss '{loss.name}' gives an array of shape {values.shape}, but one number per item is "
                              f"needed, of {len(truth):,} items.")
    return np.asarray(values)
