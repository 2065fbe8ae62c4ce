"""How good a net is on a split while it learns: the scorer's numbers, and the one by which weights are chosen."""

import math
from collections.abc import Mapping

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.groupings import untitled
from shiftbench.models.net import Net
from shiftbench.scoring.measured import values_of
from shiftbench.scoring.metrics import LOWER_IS_BETTER
from shiftbench.scoring.target_measures import WORST
from shiftbench.scoring.targets import PLAIN, RANKING, headline
from shiftbench.training.data import Data
from shiftbench.training.predict import evaluate
from shiftbench.training.run import Run

WORDS: Mapping[str, str] = {"class": "a class", "number": "numbers", "tasks": "yes or no of several tasks",
                            "boxes": "boxes", "tokens": "the next token"}
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

    Of a target that has no such number, boxes and `loss` for example, it is the plain one of its kind.
    """
    plain = PLAIN[data.kind]
    named = {"accuracy": plain, "worst_group": WORST + plain, "headline": headline(data.benchmark)}
    metric = named.get(select_on, select_on)
    if metric not in values and select_on != "headline":
        metric = plain
    sign = -1.0 if metric == LOSS or untitled(metric)[0] in LOWER_IS_BETTER else 1.0
    value = values.get(metric, -sign * math.inf)
    return sign * value, -values.get(LOSS, 0.0)


def check_headline(data: Data, split: str) -> None:
    """Fail where the benchmark's headline is nothing that a split is scored by."""
    metric, rows = headline(data.benchmark), data.rows(split)
    known: tuple[str, ...] = RANKING.get(data.kind, ())
    if data.kind == "class":
        nothing = np.zeros((len(rows), data.n_outputs), np.float32)
        known = tuple(values_of(data.scorer(split)([nothing], [0], None)))
    if metric not in known:
        raise ShiftBenchError(f"run: select_on=headline, but the headline of benchmark '{data.benchmark.name}', "
                              f"{metric}, is not scored on {split}. Scored are {', '.join(known)}.")
