"""Scores of hard and easy items (NOOCh), for every benchmark whose rows have a `kind`.

Hard are hard positives and hard negatives together, easy is every other item, of either label (Madras & Zemel, 2021,
§6). AUC is over the labels within a set, so that AUC-hard sets hard positives against hard negatives; where a set has
one label it has no AUC, which is NaN.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Bools, Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, RUN, Scores
from shiftbench.scoring.intervals import Means, over_runs, student, wilson
from shiftbench.scoring.intervals.estimates import Estimate, Law, Measured, estimate, on_the_logit_scale
from shiftbench.scoring.intervals.worst import mirrored, worst_loss, worst_share
from shiftbench.scoring.metrics.classification import calibration, confidences
from shiftbench.scoring.metrics.curves import auc_items

COLUMN = "kind"
SIDES = ("hard_positive", "hard_negative")
HARD, EASY = "hard", "easy"
SETS = {ALL: (*SIDES, HARD, EASY), HARD: (*SIDES, HARD), EASY: (EASY,), SIDES[0]: SIDES[:1], SIDES[1]: SIDES[1:]}
"""The sets that are scored, and the kinds in each; `hard` is itself a kind if a label has more than two values."""


def kinds_of(benchmark: Benchmark, rows: Ints) -> Strs | None:
    """The kinds of some rows; None if the benchmark has none, or if its column of that name means something else."""
    column = benchmark.extra.get(COLUMN)
    if column is None or column.dtype.kind != "U" or not np.isin(column, SETS[ALL]).all():
        return None
    return np.asarray(column[rows])


def by_kind(
    kind: Strs, label: Ints, scores: npt.NDArray[np.float32], losses: Floats | None, owner: Sequence[int],
    level: float | None, groups: Sequence[str] | Strs = (),
) -> list[Measured]:
    """Every score of every set that has items; `scores` is runs × classes × items, `owner[r]` the method of run r.

    `auc` (with two classes) and `ece` are for all, hard and easy items; `nll` and `error` for hard and easy items and
    for each hard side; `worst_hard_error` and `worst_hard_nll` are the larger of the two sides' (the paper's Table 4).
    `losses` is None if scores are mere choices, which have neither loss nor calibration. A set that is also one of the
    benchmark's `groups` has its nll in the table already.
    """
    hits: Bools = scores.argmax(axis=1) == label
    with np.errstate(invalid="ignore"):
        margin = None if scores.shape[1] != 2 else scores[:, 1] - scores[:, 0]  # in its own type: keeps ties exact
    confidence = None if losses is None else confidences(scores)
    measured: list[Measured] = []
    for group, kinds in SETS.items():
        rows = np.flatnonzero(np.isin(kind, kinds))
        if not rows.size:
            continue
        n, size = len(rows), np.asarray([len(rows)])
        if margin is not None and group not in SIDES:
            positive: Bools = label[rows] == 1
            items = auc_items(positive, margin[:, rows])
            few = min(int(positive.sum()), n - int(positive.sum()))
            measured.append(Measured("auc", [group], size, area(items, few, owner, level), items))
        if confidence is not None and group not in SIDES:
            calibrated = miscalibrated(hits[:, rows], confidence[:, rows], owner, level)
            measured.append(Measured("ece", [group], size, calibrated))
        if losses is not None and group != ALL and group not in groups:
            measured.append(Measured("nll", [group], size, estimate("student", losses[:, rows], owner, level)))
        if group != ALL:
            measured.append(Measured("error", [group], size, estimate("wilson", ~hits[:, rows], owner, level)))
    return measured + _larger(kind, hits, losses, owner, level)


def area(items: Floats, few: int, owner: Sequence[int], level: float | None) -> Estimate:
    """AUC: DeLong's interval on the scale of the logit, where it is closer to its level than A ± z √V is.

        logit A ± t √V / (A (1 − A)),    t Student's with min(m, k) − 1 degrees of freedom.

    If one side lies wholly above the other there is no variance to see: then it is Wilson's for min(m, k) items.
    """
    def reach(parts: Means, size: Ints, level: float) -> tuple[Floats, Floats]:
        value = parts.value
        ends = on_the_logit_scale(value, student(few - 1, level) * np.sqrt(parts.items))
        low, high = (np.where((value > 0) & (value < 1), *both)
                     for both in zip(ends, wilson(value, float(few), level), strict=True))
        return value - low, high - value

    return estimate(Law(reach), items, owner, level)


def miscalibrated(hits: Bools, confidence: Floats, owner: Sequence[int], level: float | None) -> Estimate:
    """ECE: Student's interval of its contributions, extended downwards by what chance may have lifted it.

    A percentile bootstrap lifts it a second time: for calibrated models its interval never holds the true 0.
    """
    deviation = calibration(hits, confidence)

    def reach(parts: Means, size: Ints, level: float) -> tuple[Floats, Floats]:
        half = student(size - 1, level) * np.sqrt(parts.items * size / (size - 1))
        return half + over_runs(deviation.lifted[:, None], owner), half

    return estimate(Law(reach), deviation.items, owner, level)


def _larger(
    kind: Strs, hits: Bools, losses: Floats | None, owner: Sequence[int], level: float | None
) -> list[Measured]:
    """The larger error and loss of the two hard sides, where both have items."""
    sides = [np.flatnonzero(kind == side) for side in SIDES]
    if not all(side.size for side in sides):
        return []
    rows, start = np.concatenate(sides), np.asarray([0, len(sides[0])])
    size = np.asarray([len(side) for side in sides])
    error = mirrored(worst_share(hits[:, rows], start, owner, level), about=1.0)
    measured = [error.measured("worst_hard_error", SIDES, size)]
    if losses is not None:
        measured.append(worst_loss(losses[:, rows], start, owner, level).measured("worst_hard_nll", SIDES, size))
    return measured


# The hardest tasks

class Ranked(NamedTuple):
    """A task and by how much its mean loss on hard items exceeds that on all items."""

    task: str
    hard: float
    all: float
    gap: float


def hardest(scores: Scores, n: int = 12, *, method: str = "erm", split: str = "test") -> list[Ranked]:
    """Rank tasks (benchmarks) by how much more hard items cost than the average item; the first n."""
    scores = scores.where(stat=RUN, split=split, metric="nll", by="")
    losses: dict[str, dict[str, list[float]]] = {HARD: {}, ALL: {}}
    for row in scores.take(scores.names == method):
        if row["group"] in losses:
            losses[row["group"]].setdefault(row["benchmark"], []).append(row["value"])
    if not losses[HARD]:
        raise ShiftBenchError(f"No run of method '{method}' has a loss on hard items of {split}. Train it on "
                              "benchmarks of shift 'context' first, or name another method.")
    hard, every = ({task: sum(values) / len(values) for task, values in by_task.items()} for by_task in losses.values())
    return hardest_tasks(hard, every, min(n, len(hard)))


def hardest_tasks(hard: Mapping[str, float], every: Mapping[str, float], n: int = 12) -> list[Ranked]:
    """The n tasks of a suite (§3.2): the largest  mean loss on hard items − mean loss on all items,  largest first.

    Tasks without a loss on hard items (NaN: they have none) do not take part; the name decides between equal ones.

    >>> chosen = hardest_tasks({"car": 0.9, "tie": 0.3, "cat": 0.4}, {"car": 0.4, "tie": 0.1, "cat": 0.1}, 2)
    >>> [ranked.task for ranked in chosen]
    ['car', 'cat']
    """
    for task in hard:
        if task not in every:
            raise unknown("task", task, every, "Mean losses on all items")
    tasks = [Ranked(task, loss, every[task], loss - every[task]) for task, loss in hard.items()
             if math.isfinite(loss) and math.isfinite(every[task])]
    if not 1 <= n <= len(tasks):
        raise ShiftBenchError(f"{n} tasks are asked for, but {len(tasks)} of {len(hard)} have losses on hard and on "
                              "all items. Ask for as many as there are, or train more tasks.")
    return sorted(tasks, key=lambda ranked: (-ranked.gap, ranked.task))[:n]
